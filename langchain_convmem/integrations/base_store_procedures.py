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

from langchain_convmem.effects import Steps
from langchain_convmem.errors import LogError
from langchain_convmem.ids import ulid_ms
from langchain_convmem.integrations.base_store_access import StoreAccess
from langchain_convmem.integrations.base_store_erasing import forget
from langchain_convmem.integrations.base_store_layout import (
    PAGE,
    OwnerRecord,
    Place,
    StoredRow,
    ThreadRecord,
    document_place,
    entry_place,
    owner_of,
    page_place,
    row_value,
)
from langchain_convmem.integrations.base_store_plan import EncodedDraft, ThreadIndex, planned
from langchain_convmem.logs.rows import (
    Row,
    annotated,
    entry_of,
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
from langchain_convmem.views.codec import loads

__all__ = ["Procedures"]

_INDEXES = 256
"""Threads whose message ids are kept in memory."""


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

    def entries(
        self, key: ThreadKey, after: int, until: int | None, last: int | None
    ) -> Steps[list[Entry]]:
        """Return entries in order; see `MessageLog.entries`."""
        record = yield from self._access.owner(key.owner)
        thread = None if record is None else record.threads.get(key.thread_id)
        if record is None or thread is None:
            return []
        wanted = thread.count if last is None else min(max(last, 0), thread.count)
        # Which are the latest up to a position is known when all numbers are.
        skip = thread.count - wanted if until is None else 0
        numbers = yield from self._access.numbers(key, thread, skip=skip)
        end = record.base + record.last if until is None else until
        numbers = [number for number in numbers if after < record.base + number <= end]
        latest = numbers[max(len(numbers) - wanted, 0) :]
        rows = yield from self._access.rows(key.owner, record, latest)
        return [entry_of(key, item.row) for item in rows]

    def find(self, key: ThreadKey, message_ids: Collection[str]) -> Steps[list[Entry]]:
        """Return the entries with these message ids; see `MessageLog.find`."""
        record = yield from self._access.owner(key.owner)
        if record is None or key.thread_id not in record.threads:
            return []
        index = yield from self._index(key, record)
        rows = yield from self._access.rows(key.owner, record, index.named(message_ids))
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
        """Return every owner who has entries, by name."""
        found: list[Owner] = []
        for kind in ("users", "lone"):
            namespace = (*self._access.root, kind)
            listed = yield from self._access.listed(namespace)
            found.extend(
                owner_of(namespace, key)
                for key in sorted(listed)
                if any(thread.count for thread in OwnerRecord.read(listed[key]).threads.values())
            )
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
        for key in [key for key in self._indexes if key.owner == owner]:
            del self._indexes[key]
        return (yield from forget(self._access, owner, scope, entry_ids))

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
