"""How a log lies in a LangGraph store: namespaces, keys and values. Pure.

    (*root, "log")                           epoch       raised by every `forget`
    (*root, "users"), (*root, "lone")        <owner>     what is known of an owner: `OwnerRecord`
    (*root, <owner>, "entries")              0000000017  an entry, by its number with its owner
    (*root, <owner>, <thread>, "pages")      00000002    the numbers of 64 entries of a thread
    (*root, <owner>, <thread>, "documents")  <name>      a state document

Stores refuse labels that are empty or hold a dot, and some compare without regard to case or match
prefixes as patterns, so ids are written in lower-case letters, digits and `-` alone. An entry's
position is its number plus the owner's base, which is a time: who starts again after everything
was forgotten never meets an old position.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from langchain_convmem.errors import ConfigError
from langchain_convmem.logs.rows import Row
from langchain_convmem.records import Owner, ThreadKey

__all__ = [
    "PAGE",
    "Namespace",
    "OwnerRecord",
    "Place",
    "StoredRow",
    "ThreadRecord",
    "check_root",
    "document_place",
    "entry_place",
    "epoch_place",
    "label",
    "owner_of",
    "owner_place",
    "page_place",
    "row_value",
    "stored_row",
    "unlabel",
]

Namespace: TypeAlias = tuple[str, ...]
Place: TypeAlias = tuple[Namespace, str]
"""A namespace and a key."""

PAGE = 64
"""Entries of a thread per page."""

_KEPT = re.compile(rb"[^a-z0-9]")
_END = "--"
_ESCAPE = re.compile("-([0-9a-f]{2})")


def label(text: str) -> str:
    """Return the text as a label: every other character as `-` and two hexadecimal digits a byte.

    The last `--` keeps a label from being the beginning of another one.
    """
    data = text.encode("utf-8", "surrogatepass")
    return _KEPT.sub(lambda match: b"-%02x" % match[0][0], data).decode("ascii") + _END


def unlabel(text: str) -> str:
    """Return the text that `label` wrote."""
    plain = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text.removesuffix(_END))
    return plain.encode("latin-1").decode("utf-8", "surrogatepass")


def check_root(root: Sequence[str]) -> Namespace:
    """Return the root namespace.

    Raises:
        ConfigError: If LangGraph would refuse it.
    """
    labels = tuple(root)
    good = all(isinstance(item, str) and item and "." not in item for item in labels)
    if isinstance(root, str) or not labels or not good or labels[0] == "langgraph":
        msg = f"namespace must be texts without dots, the first not 'langgraph'; got {root!r}"
        raise ConfigError(msg)
    return labels


# -- places -------------------------------------------------------------------------------------


def epoch_place(root: Namespace) -> Place:
    """Return where the log's epoch is."""
    return (*root, "log"), "epoch"


def owner_place(root: Namespace, owner: Owner) -> Place:
    """Return where the record of an owner is."""
    if owner.user_id is not None:
        return (*root, "users"), label(owner.user_id)
    return (*root, "lone"), label(owner.thread_id or "")


def owner_of(namespace: Namespace, key: str) -> Owner:
    """Return the owner whose record is at a place."""
    if namespace[-1] == "users":
        return Owner(user_id=unlabel(key))
    return Owner(thread_id=unlabel(key))


def _home(root: Namespace, owner: Owner) -> Namespace:
    if owner.user_id is not None:
        return (*root, f"u{label(owner.user_id)}")
    return (*root, f"t{label(owner.thread_id or '')}")


def entry_place(root: Namespace, owner: Owner, number: int) -> Place:
    """Return where an entry is; keys sort like positions."""
    return (*_home(root, owner), "entries"), f"{number:010d}"


def page_place(root: Namespace, key: ThreadKey, page: int) -> Place:
    """Return where a full page of a thread's numbers is."""
    return (*_home(root, key.owner), label(key.thread_id), "pages"), f"{page:08d}"


def document_place(root: Namespace, key: ThreadKey, name: str) -> Place:
    """Return where a state document is."""
    return (*_home(root, key.owner), label(key.thread_id), "documents"), label(name)


# -- values -------------------------------------------------------------------------------------


@dataclass(slots=True)
class ThreadRecord:
    """What an owner's record tells of a thread.

    Attributes:
        count: Its entries.
        tail: Numbers of the entries behind the last full page.
        first: Id of its first entry.
        last: Id of its last entry.
        documents: Names of its state documents; some may be deleted.
    """

    count: int = 0
    tail: list[int] = field(default_factory=list)
    first: str = ""
    last: str = ""
    documents: list[str] = field(default_factory=list)

    @property
    def pages(self) -> int:
        """How many full pages it has."""
        return (self.count - len(self.tail)) // PAGE


@dataclass(slots=True)
class OwnerRecord:
    """All that must change together: writing it makes what was written before it count.

    Attributes:
        base: Position of the number 0.
        last: Number of the owner's last entry.
        generation: The epoch of the last `forget`.
        threads: The owner's threads by id.
    """

    base: int
    last: int = 0
    generation: int = 0
    threads: dict[str, ThreadRecord] = field(default_factory=dict)

    def value(self) -> dict[str, Any]:
        """Return the record as a store keeps it."""
        return {
            "base": self.base,
            "last": self.last,
            "generation": self.generation,
            "threads": {
                label(name): [
                    thread.count,
                    list(thread.tail),
                    thread.first,
                    thread.last,
                    [label(document) for document in thread.documents],
                ]
                for name, thread in self.threads.items()
            },
        }

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> OwnerRecord:
        """Return the record that `value` wrote."""
        threads = {
            unlabel(name): ThreadRecord(
                int(count), list(map(int, tail)), first, last, list(map(unlabel, documents))
            )
            for name, (count, tail, first, last, documents) in value["threads"].items()
        }
        base, last, generation = (int(value[name]) for name in ("base", "last", "generation"))
        return cls(base, last, generation, threads)


@dataclass(frozen=True, slots=True)
class StoredRow:
    """An entry in the store: its thread, its number with its owner, and its row."""

    thread_id: str
    number: int
    row: Row


def row_value(thread_id: str, row: Row) -> dict[str, Any]:
    """Return an entry as a store keeps it: JSON text, so that no store changes what it holds."""
    return {
        "thread": label(thread_id),
        "id": row.id,
        "position": row.position,
        "turn": json.dumps(row.turn_id),
        "role": row.role,
        "body": row.body,
        "metadata": row.metadata,
    }


def stored_row(value: Mapping[str, Any], number: int) -> StoredRow:
    """Return the entry that `row_value` wrote."""
    row = Row(
        id=value["id"],
        position=int(value["position"]),
        turn_id=json.loads(value["turn"]),
        role=value["role"],
        body=value["body"],
        metadata=value["metadata"],
    )
    return StoredRow(unlabel(value["thread"]), number, row)
