"""What other memories noted of a user: exports of mem0 and Zep, and items of LangMem's store.

    mem0      {"results": [{"id", "memory", "created_at", "updated_at", "user_id", "metadata"}]}
    Zep       {"edges": [{"uuid", "fact", "valid_at", "invalid_at", "created_at"}]}, or "facts"
    LangMem   [{"namespace", "key", "value", "created_at", "updated_at"}], items of a BaseStore

Such notes were written by a model: they become lines of the assistant that say where they come
from (`additional_kwargs["noted_by"]`), and are nobody's own words. A fact that Zep holds to be over
is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from langchain_core.messages import AIMessage

from langchain_convmem.transfer.messages import FoundMessage, build_stamp
from langchain_convmem.transfer.source import Node, Source
from langchain_convmem.transfer.threads import ImportedThread, build_thread, rename_threads

_OVER = ("invalid_at", "expired_at")


@dataclass(frozen=True, slots=True)
class NoteForm:
    """How the notes of one memory look.

    Attributes:
        name: The memory, as a caller names the format.
        form: What such a file looks like, in one phrase.
        lists: Keys of an object that may hold the list of notes.
        own_id: The key of a note's id.
        says: The key of what it says.
        times: Keys of its time, the first that is there counts.
        place: Returns the thread of a note.
    """

    name: str
    form: str
    lists: tuple[str, ...]
    own_id: str
    says: str
    times: tuple[str, ...]
    place: Callable[[Node], str]

    def fits(self, source: Source) -> bool:
        """Return whether the file is a list that starts with such a note, or an object with one."""
        document = source.document
        if isinstance(document, dict):
            document = next((document[key] for key in self.lists if key in document), None)
        first = document[0] if isinstance(document, list) and document else None
        return isinstance(first, dict) and first.keys() >= {self.own_id, self.says}

    def read(self, source: Source, thread_id: str | None) -> list[ImportedThread]:
        """Return a thread for each place of notes, in the order of their first note.

        Raises:
            ImportFormatError: If an item is no such note.
        """
        root = Node(source.document, source.path, "$")
        items = root if root.is_a(list) else root.member(self._find_list(root))
        found: dict[str, list[FoundMessage]] = {}
        for item in items.items():
            if not any(item.has(key) for key in _OVER):
                found.setdefault(self.place(item), []).append(self._read_note(item))
        threads = [build_thread(name, notes, source.path) for name, notes in found.items()]
        return rename_threads(threads, thread_id, source.path)

    def _find_list(self, root: Node) -> str:
        return next((key for key in self.lists if root.has(key)), self.lists[0])

    def _read_note(self, item: Node) -> FoundMessage:
        said = item.member(self.says)
        text = said.text() if said.is_a(str) else _read_value(said)
        extra: dict[str, Any] = {**build_stamp(_read_time(item, self.times)), "noted_by": self.name}
        if item.has("metadata"):
            extra["note_metadata"] = item.member("metadata").value
        own_id = f"{self.name}:{item.member(self.own_id).label()}"
        return FoundMessage(AIMessage(text, id=own_id, additional_kwargs=extra), item.location)


def _read_time(item: Node, keys: Iterable[str]) -> datetime | None:
    found = (item.optional(key) for key in keys)
    node = next((one for one in found if one is not None), None)
    return None if node is None else node.time()


def _read_value(node: Node) -> str:
    """Return what an item of a store says: its text where there is one, else its JSON."""
    texts = list(_list_texts(node.value))
    if len(texts) == 1:
        return texts[0]
    return json.dumps(node.value, ensure_ascii=False)


def _list_texts(value: Any) -> Iterator[str]:
    """Yield the texts under `content`: LangMem wraps them in the name of their kind."""
    if isinstance(value, Mapping) and "content" in value:
        yield from _list_texts(value["content"])
    elif isinstance(value, str) and value.strip():
        yield value


def _name_namespace(item: Node) -> str:
    labels = [label.label() for label in item.member("namespace").items()]
    return "/".join(labels) or "langmem"


MEM0 = NoteForm(
    "mem0",
    'mem0\'s memories {"results": [{"id", "memory", "created_at"}]}',
    ("results", "memories"),
    "id",
    "memory",
    ("updated_at", "created_at"),
    lambda _: "mem0",
)
ZEP = NoteForm(
    "zep",
    'Zep\'s facts {"edges": [{"uuid", "fact", "valid_at", "invalid_at"}]}',
    ("edges", "facts"),
    "uuid",
    "fact",
    ("valid_at", "created_at"),
    lambda _: "zep",
)
LANGMEM = NoteForm(
    "langmem",
    'LangMem\'s items [{"namespace", "key", "value", "updated_at"}]',
    ("items",),
    "key",
    "value",
    ("updated_at", "created_at"),
    _name_namespace,
)
