"""The jobs of `BaseStoreLog`, each written once as steps.

Nothing counts until the owner's record is written, which is one item: so a batch is whole or not
there at all, in every store. Those that write must run one after the other.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from langchain_convmem.errors import LogError
from langchain_convmem.ids import now_ms, ulid_ms
from langchain_convmem.integrations.base_store_access import StoreAccess
from langchain_convmem.integrations.base_store_layout import (
    PAGE,
    OwnerRecord,
    Place,
    StoredRow,
    ThreadRecord,
    document_place,
    entry_place,
    epoch_place,
    owner_of,
    page_place,
    row_value,
)
from langchain_convmem.integrations.base_store_plan import EncodedDraft, ThreadIndex, planned
from langchain_convmem.logs.rows import (
    Row,
    annotated,
    entry_of,
    message_id_of,
    next_version,
    own_id,
)
from langchain_convmem.records import (
    Changes,
    Entry,
    ForgetReceipt,
    Owner,
    StateDocument,
    ThreadInfo,
    ThreadKey,
)
from langchain_convmem.steps import Steps
from langchain_convmem.views.codec import loads

__all__ = ["Procedures"]

_INDEXES = 256
"""Threads whose message ids are kept in memory."""
_SWEEP = 100
"""Numbers behind the last one that are looked at for what a broken append left."""


class Procedures:
    """What a log does with its items."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access
        self._indexes: OrderedDict[ThreadKey, ThreadIndex] = OrderedDict()

    # -- writing --------------------------------------------------------------------------------

    def append(self, key: ThreadKey, encoded: Sequence[EncodedDraft]) -> Steps[list[Entry]]:
        """Append the drafts; see `MessageLog.append`."""
        record = yield from self._record(key.owner)
        thread = record.threads.setdefault(key.thread_id, ThreadRecord())
        named = any(own_id(draft) for draft, _, _ in encoded)
        index = ThreadIndex(record.generation, record.base)
        there: dict[str, Row] = {}
        if named:
            index = yield from self._index(key, record)
            there = yield from self._repeated(key, record, index, encoded)
            # Void until all is written: what is planned may never come to be.
            self._indexes.pop(key, None)
        numbers = count(record.last + 1)
        rows, answers = planned(
            encoded,
            index,
            there,
            lambda: (number := next(numbers), record.base + number),
            key.thread_id,
        )
        yield from self._write(key, record, thread, rows)
        if named:
            self._remember(key, index)
        return [entry_of(key, row) for row in answers]

    def _record(self, owner: Owner) -> Steps[OwnerRecord]:
        found = yield from self._access.owner(owner)
        if found is not None:
            return found
        epoch = yield from self._access.epoch()
        return OwnerRecord(base=next_version(None), generation=epoch)

    def _repeated(
        self,
        key: ThreadKey,
        record: OwnerRecord,
        index: ThreadIndex,
        encoded: Sequence[EncodedDraft],
    ) -> Steps[dict[str, Row]]:
        """Return the rows of live messages that drafts repeat or replace."""
        live = {index.live(own_id(draft)) for draft, _, _ in encoded} - {None}
        numbers = sorted(index.numbers[entry_id] for entry_id in live if entry_id is not None)
        rows = yield from self._access.rows(key.owner, record, numbers)
        return {item.row.id: item.row for item in rows}

    def _write(
        self,
        key: ThreadKey,
        record: OwnerRecord,
        thread: ThreadRecord,
        rows: Sequence[StoredRow],
    ) -> Steps[None]:
        if not rows:
            return
        root = self._access.root
        values: list[tuple[Place, Mapping[str, Any] | None]] = [
            (entry_place(root, key.owner, item.number), row_value(key.thread_id, item.row))
            for item in rows
        ]
        page = thread.pages
        thread.tail += [item.number for item in rows]
        thread.count += len(rows)
        while len(thread.tail) >= PAGE:
            full, thread.tail = thread.tail[:PAGE], thread.tail[PAGE:]
            values.append((page_place(root, key, page), {"numbers": full}))
            page += 1
        thread.first = thread.first or rows[0].row.id
        thread.last = rows[-1].row.id
        record.last = rows[-1].number
        yield from self._access.put(values)
        yield from self._access.keep(key.owner, record)

    def annotate(
        self,
        key: ThreadKey,
        entry_id: str,
        attributes: Sequence[str],
        timing: Mapping[str, int] | None,
        aux: Mapping[str, Any] | None,
    ) -> Steps[Entry]:
        """Add to an entry's metadata; see `MessageLog.annotate`."""
        # Encoded first, so that what cannot be kept is refused whether or not the entry is there.
        annotated(None, attributes=attributes, timing=timing, aux=aux)
        record = yield from self._access.owner(key.owner)
        rows: list[StoredRow] = []
        if record is not None and key.thread_id in record.threads:
            index = yield from self._index(key, record)
            numbers = [index.numbers[entry_id]] if entry_id in index.numbers else []
            rows = yield from self._access.rows(key.owner, record, numbers)
        if not rows:
            msg = f"thread {key.thread_id!r} has no entry {entry_id!r}"
            raise LogError(msg, thread_id=key.thread_id)
        [item] = rows
        text = annotated(item.row.metadata, attributes=attributes, timing=timing, aux=aux)
        row = replace(item.row, metadata=text)
        place = entry_place(self._access.root, key.owner, item.number)
        yield from self._access.put([(place, row_value(key.thread_id, row))])
        return entry_of(key, row)

    # -- the index of a thread ------------------------------------------------------------------

    def _index(self, key: ThreadKey, record: OwnerRecord) -> Steps[ThreadIndex]:
        """Return the index of a thread, brought up to date."""
        thread = record.threads[key.thread_id]
        index = self._indexes.get(key)
        if (
            index is None
            or (index.generation, index.base) != (record.generation, record.base)
            or index.size > thread.count
        ):
            index = ThreadIndex(record.generation, record.base)
        numbers = yield from self._access.numbers(key, thread, skip=index.size)
        rows = yield from self._access.rows(key.owner, record, numbers)
        index.add(rows)
        index.size = thread.count  # some of the numbers may be of forgotten entries
        self._remember(key, index)
        return index

    def _remember(self, key: ThreadKey, index: ThreadIndex) -> None:
        self._indexes[key] = index
        self._indexes.move_to_end(key)
        while len(self._indexes) > _INDEXES:
            self._indexes.popitem(last=False)

    # -- reading --------------------------------------------------------------------------------

    def entries(self, key: ThreadKey, after: int, last: int | None) -> Steps[list[Entry]]:
        """Return entries in order; see `MessageLog.entries`."""
        record = yield from self._access.owner(key.owner)
        thread = None if record is None else record.threads.get(key.thread_id)
        if record is None or thread is None:
            return []
        skip = 0 if last is None else max(thread.count - max(last, 0), 0)
        numbers = yield from self._access.numbers(key, thread, skip=skip)
        wanted = [number for number in numbers if record.base + number > after]
        rows = yield from self._access.rows(key.owner, record, wanted)
        return [entry_of(key, item.row) for item in rows]

    def threads(self, user_id: str | None) -> Steps[list[ThreadInfo]]:
        """Return a user's threads, latest first."""
        found: list[tuple[str, ThreadInfo]] = []
        for owner, record in (yield from self._records(user_id)):
            for thread_id, thread in record.threads.items():
                if thread.count:
                    key = ThreadKey(owner.user_id, thread_id)
                    span = ulid_ms(thread.first), ulid_ms(thread.last)
                    found.append((thread.last, ThreadInfo(key, thread.count, *span)))
        return [info for _, info in sorted(found, key=lambda pair: pair[0], reverse=True)]

    def _records(self, user_id: str | None) -> Steps[list[tuple[Owner, OwnerRecord]]]:
        if user_id is not None:
            owner = Owner(user_id=user_id)
            record = yield from self._access.owner(owner)
            return [] if record is None else [(owner, record)]
        namespace = (*self._access.root, "lone")
        listed = yield from self._access.listed(namespace)
        return [(owner_of(namespace, key), OwnerRecord.read(listed[key])) for key in listed]

    def owners(self) -> Steps[list[Owner]]:
        """Return every owner, by name."""
        found: list[Owner] = []
        for kind in ("users", "lone"):
            namespace = (*self._access.root, kind)
            listed = yield from self._access.listed(namespace)
            found.extend(owner_of(namespace, key) for key in sorted(listed))
        return found

    def changes(self, owner: Owner, cursor: int, limit: int | None) -> Steps[Changes]:
        """Return entries behind the cursor; see `MessageLog.changes`."""
        record = yield from self._access.owner(owner)
        if record is None:
            epoch = yield from self._access.epoch()
            return Changes((), cursor, epoch)
        wanted = record.last if limit is None else max(limit, 0)
        entries: list[Entry] = []
        start = max(cursor - record.base, 0) + 1
        while start <= record.last and len(entries) < wanted:
            end = min(start + wanted - len(entries), record.last + 1)
            rows = yield from self._access.rows(owner, record, range(start, end))
            for item in rows:
                key = ThreadKey(owner.user_id, item.thread_id)
                entries.append(entry_of(key, item.row))
            start = end
        last = entries[-1].position if entries else cursor
        return Changes(tuple(entries), last, record.generation)

    # -- erasing --------------------------------------------------------------------------------

    def forget(
        self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None
    ) -> Steps[ForgetReceipt]:
        """Erase what is in scope; see `MessageLog.forget`."""
        owner = scope.owner if isinstance(scope, ThreadKey) else scope
        before = yield from self._access.epoch()
        epoch = next_version(before)
        place = epoch_place(self._access.root)
        yield from self._access.put([(place, {"epoch": epoch})])
        record = yield from self._access.owner(owner)
        if record is None:
            return ForgetReceipt(at_ms=now_ms())
        record.generation = epoch
        yield from self._sweep(owner, record)
        if isinstance(scope, ThreadKey) and entry_ids is not None:
            return (yield from self._forget_entries(scope, record, frozenset(entry_ids)))
        names = [scope.thread_id] if isinstance(scope, ThreadKey) else list(record.threads)
        counts = [0, 0, 0]
        for name in names:
            gone = yield from self._forget_thread(ThreadKey(owner.user_id, name), record)
            counts = [total + number for total, number in zip(counts, gone, strict=True)]
        yield from self._access.keep(owner, record if record.threads else None)
        return ForgetReceipt(
            entries=counts[0], threads=counts[1], documents=counts[2], at_ms=now_ms()
        )

    def _sweep(self, owner: Owner, record: OwnerRecord) -> Steps[None]:
        """Delete what an append wrote that broke off before it counted."""
        start = record.last + 1
        while True:
            numbers = range(start, start + _SWEEP)
            places = [entry_place(self._access.root, owner, number) for number in numbers]
            values = yield from self._access.get(places)
            if not any(value is not None for value in values):
                return
            yield from self._access.put([(place, None) for place in places])
            start += _SWEEP

    def _forget_thread(self, key: ThreadKey, record: OwnerRecord) -> Steps[tuple[int, int, int]]:
        """Delete a thread's items and take it out of the record; return what was there."""
        thread = record.threads.pop(key.thread_id, None)
        self._indexes.pop(key, None)
        if thread is None:
            return 0, 0, 0
        root = self._access.root
        numbers = yield from self._access.numbers(key, thread)
        documents = [document_place(root, key, name) for name in thread.documents]
        there = yield from self._access.get(documents)
        places = [
            *(entry_place(root, key.owner, number) for number in numbers),
            *(page_place(root, key, page) for page in range(thread.pages)),
            *documents,
        ]
        yield from self._access.put([(place, None) for place in places])
        return thread.count, 1, sum(value is not None for value in there)

    def _forget_entries(
        self, key: ThreadKey, record: OwnerRecord, ids: frozenset[str]
    ) -> Steps[ForgetReceipt]:
        thread = record.threads.get(key.thread_id)
        if thread is None:
            yield from self._access.keep(key.owner, record)
            return ForgetReceipt(at_ms=now_ms())
        root = self._access.root
        self._indexes.pop(key, None)
        numbers = yield from self._access.numbers(key, thread)
        rows = yield from self._access.rows(key.owner, record, numbers)
        kept = [
            item
            for item in rows
            if item.row.id not in ids and message_id_of(item.row.id, item.row.body) not in ids
        ]
        left = {item.number for item in kept}
        gone = [number for number in numbers if number not in left]
        yield from self._access.put(
            [(entry_place(root, key.owner, number), None) for number in gone]
        )
        yield from self._renumber(key, thread, kept)
        yield from self._access.keep(key.owner, record)
        return ForgetReceipt(entries=len(rows) - len(kept), at_ms=now_ms())

    def _renumber(
        self, key: ThreadKey, thread: ThreadRecord, kept: Sequence[StoredRow]
    ) -> Steps[None]:
        """Let a thread's pages and record tell of these entries only."""
        root = self._access.root
        numbers = [item.number for item in kept]
        full = len(numbers) // PAGE
        values: list[tuple[Place, Mapping[str, Any] | None]] = []
        for page in range(max(full, thread.pages)):
            some = numbers[page * PAGE : (page + 1) * PAGE]
            value = {"numbers": some} if page < full else None
            values.append((page_place(root, key, page), value))
        yield from self._access.put(values)
        thread.count, thread.tail = len(numbers), numbers[full * PAGE :]
        thread.first = kept[0].row.id if kept else ""
        thread.last = kept[-1].row.id if kept else ""

    # -- state documents ------------------------------------------------------------------------

    def get_state(self, key: ThreadKey, name: str) -> Steps[StateDocument | None]:
        """Return the document, or None."""
        [value] = yield from self._access.get([document_place(self._access.root, key, name)])
        return None if value is None else StateDocument(loads(value["text"]), int(value["version"]))

    def set_state(
        self, key: ThreadKey, name: str, text: str, expected: int | None
    ) -> Steps[StateDocument | None]:
        """Write JSON text as the document if its version is `expected`."""
        place = document_place(self._access.root, key, name)
        [found] = yield from self._access.get([place])
        if (None if found is None else int(found["version"])) != expected:
            return None
        if found is None:
            yield from self._list_document(key, name)
        version = next_version(expected)
        yield from self._access.put([(place, {"text": text, "version": version})])
        return StateDocument(loads(text), version)

    def _list_document(self, key: ThreadKey, name: str) -> Steps[None]:
        """Let the record name the document before there is one, so that `forget` finds it."""
        record = yield from self._record(key.owner)
        thread = record.threads.setdefault(key.thread_id, ThreadRecord())
        if name not in thread.documents:
            thread.documents.append(name)
            yield from self._access.keep(key.owner, record)

    def delete_state(self, key: ThreadKey, name: str) -> Steps[None]:
        """Delete the document if there is one."""
        yield from self._access.put([(document_place(self._access.root, key, name), None)])
