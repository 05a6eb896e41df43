"""Reading what `BaseStoreLog` has kept in a LangGraph store, to copy it into another log.

That log is gone, since it lost writes of two processes; this reader goes with the next version. It
knows where things lie::

    (*namespace, "users"), (*namespace, "lone")   <owner>     numbers of an owner's entries, threads
    (*namespace, <owner>, "entries")              0000000017  an entry, by its number

Ids are labels: other characters than lower-case letters and digits as `-` and two hexadecimal
digits a byte, and `--` at the end.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_convmem.errors import CorruptEntryError
from langchain_convmem.ids import get_ulid_ms
from langchain_convmem.records import Changes, Entry, Owner, ThreadInfo, ThreadKey
from langchain_convmem.views.codec import decode_body, decode_metadata

_PLAIN = re.compile(rb"[^a-z0-9]")
_ESCAPE = re.compile("-([0-9a-f]{2})")
_AT_ONCE = 100


class BaseStoreReader:
    """A source of `copy_log`. It writes nothing; as safe to share as the store is.

    What the store raises is passed on.
    """

    def __init__(self, store: Any, *, namespace: Sequence[str] = ("convmem",)) -> None:
        """Read a log from a store.

        Args:
            store: A LangGraph `BaseStore`; stays the caller's to close.
            namespace: Where the log was told to keep its items.
        """
        self._store = store
        self._root = tuple(namespace)

    def owners(self) -> list[Owner]:
        """Return every user and every thread of no user that has entries."""
        found = (*self._list_owners("users"), *self._list_owners("lone"))
        return [
            owner for owner, value in found if any(count for count, *_ in value["threads"].values())
        ]

    def threads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return a user's threads, latest first; None lists the threads of no user."""
        found: list[tuple[str, ThreadInfo]] = []
        for owner, value in self._list_owners("lone" if user_id is None else "users"):
            if owner.user_id == user_id:
                for name, (count, _, first, last, _) in value["threads"].items():
                    key = ThreadKey(user_id, _read_label(name))
                    if count:
                        info = ThreadInfo(key, count, get_ulid_ms(first), get_ulid_ms(last))
                        found.append((last, info))
        return [info for _, info in sorted(found, key=lambda pair: pair[0], reverse=True)]

    def changes(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return entries after the cursor in commit order; see `MessageLog.changes`."""
        kind, name = ("users", owner.user_id) if owner.user_id else ("lone", owner.thread_id)
        item = self._store.get((*self._root, kind), _write_label(name or ""))
        entries: list[Entry] = []
        generation = 0
        if item is not None:
            generation = int(item.value["generation"])
            for entry in self._read_entries(owner, item.value, cursor):
                if limit is not None and len(entries) >= limit:
                    break
                entries.append(entry)
        return Changes(tuple(entries), entries[-1].position if entries else cursor, generation)

    def entries(
        self,
        key: ThreadKey,
        *,
        after: int = 0,
        until: int | None = None,
        last: int | None = None,
    ) -> list[Entry]:
        """Return entries in order of position; see `MessageLog.entries`."""
        found = [
            entry
            for entry in self.changes(key.owner, after).entries
            if entry.key == key and (until is None or entry.position <= until)
        ]
        return found if last is None else found[max(len(found) - max(last, 0), 0) :]

    async def aowners(self) -> list[Owner]:
        """Return the owners, without blocking the event loop."""
        return await asyncio.to_thread(self.owners)

    async def athreads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return threads, without blocking the event loop."""
        return await asyncio.to_thread(self.threads, user_id)

    async def achanges(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return changes, without blocking the event loop."""
        return await asyncio.to_thread(self.changes, owner, cursor, limit=limit)

    async def aentries(
        self,
        key: ThreadKey,
        *,
        after: int = 0,
        until: int | None = None,
        last: int | None = None,
    ) -> list[Entry]:
        """Return entries, without blocking the event loop."""
        return await asyncio.to_thread(self.entries, key, after=after, until=until, last=last)

    def _list_owners(self, kind: str) -> Iterator[tuple[Owner, Mapping[str, Any]]]:
        """Yield the owners of a kind, and what is known of each."""
        namespace, offset = (*self._root, kind), 0
        while items := self._store.search(namespace, limit=_AT_ONCE, offset=offset):
            for item in items:
                if tuple(item.namespace) == namespace:  # not one that only begins so
                    name = _read_label(item.key)
                    user_id, thread_id = (name, None) if kind == "users" else (None, name)
                    yield Owner(user_id=user_id, thread_id=thread_id), item.value
            offset += len(items)

    def _read_entries(self, owner: Owner, value: Mapping[str, Any], cursor: int) -> Iterator[Entry]:
        """Yield an owner's entries after a position; what was forgotten is left out."""
        label = f"u{_write_label(owner.user_id)}" if owner.user_id else ""
        label = label or f"t{_write_label(owner.thread_id or '')}"
        base = int(value["base"])
        for number in range(max(cursor - base, 0) + 1, int(value["last"]) + 1):
            item = self._store.get((*self._root, label, "entries"), f"{number:010d}")
            # An entry that was written and never counted may be of an earlier time.
            if item is not None and int(item.value["position"]) == base + number:
                yield _decode_entry(owner, item.value)


def _decode_entry(owner: Owner, value: Mapping[str, Any]) -> Entry:
    key = ThreadKey(owner.user_id, _read_label(value["thread"]))
    position = int(value["position"])
    try:
        message, contents, control, cover = decode_body(value["body"])
        metadata = decode_metadata(value["metadata"], created_ms=get_ulid_ms(value["id"]))
    except ValueError as error:
        msg = f"entry {position} of thread {key.thread_id!r} cannot be read: {error}"
        raise CorruptEntryError(msg, thread_id=key.thread_id, position=position) from error
    return Entry(
        id=value["id"],
        key=key,
        position=position,
        turn_id=json.loads(value["turn"]),
        role=value["role"],
        message=message,
        contents=contents,
        metadata=metadata,
        control=control,
        cover=cover,
    )


def _write_label(text: str) -> str:
    data = text.encode("utf-8", "surrogatepass")
    return _PLAIN.sub(lambda match: b"-%02x" % match[0][0], data).decode("ascii") + "--"


def _read_label(text: str) -> str:
    plain = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text.removesuffix("--"))
    return plain.encode("latin-1").decode("utf-8", "surrogatepass")
