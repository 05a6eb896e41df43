"""What `forget` does in a LangGraph store.

The epoch rises first and the owner's record is written last: a `forget` that broke off can be done
again, and what was read before it began is void either way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from langchain_convmem.effects import Steps
from langchain_convmem.ids import now_ms
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
    page_place,
)
from langchain_convmem.logs.rows import message_id_of, next_version
from langchain_convmem.protocols import CACHE_PREFIX
from langchain_convmem.records import ForgetReceipt, Owner, ThreadKey

__all__ = ["forget"]

_SWEEP = 100
"""Numbers behind the last one that are looked at for what a broken append left."""


def forget(
    access: StoreAccess,
    owner: Owner,
    scope: Owner | ThreadKey,
    entry_ids: Collection[str] | None,
) -> Steps[ForgetReceipt]:
    """Erase an owner, a thread or some of its entries; see `MessageLog.forget`."""
    before = yield from access.epoch()
    epoch = next_version(before)
    yield from access.put([(epoch_place(access.root), {"epoch": epoch})])
    record = yield from access.owner(owner)
    if record is None:
        return ForgetReceipt(at_ms=now_ms())
    record.generation = epoch
    yield from _sweep(access, owner, record)
    if isinstance(scope, ThreadKey) and entry_ids is not None:
        return (yield from _forget_entries(access, scope, record, frozenset(entry_ids)))
    names = [scope.thread_id] if isinstance(scope, ThreadKey) else list(record.threads)
    counts = [0, 0, 0]
    for name in names:
        gone = yield from _forget_thread(access, ThreadKey(owner.user_id, name), record)
        counts = [total + number for total, number in zip(counts, gone, strict=True)]
    yield from access.keep(owner, record if record.threads else None)
    return ForgetReceipt(entries=counts[0], threads=counts[1], documents=counts[2], at_ms=now_ms())


def _sweep(access: StoreAccess, owner: Owner, record: OwnerRecord) -> Steps[None]:
    """Delete what an append wrote that broke off before it counted."""
    start = record.last + 1
    while True:
        numbers = range(start, start + _SWEEP)
        places = [entry_place(access.root, owner, number) for number in numbers]
        values = yield from access.get(places)
        if not any(value is not None for value in values):
            return
        yield from _delete(access, places)
        start += _SWEEP


def _delete(access: StoreAccess, places: Sequence[Place]) -> Steps[None]:
    yield from access.put([(place, None) for place in places])


def _forget_thread(
    access: StoreAccess, key: ThreadKey, record: OwnerRecord
) -> Steps[tuple[int, int, int]]:
    """Delete a thread's items and take it out of the record; return what was there."""
    thread = record.threads.pop(key.thread_id, None)
    if thread is None:
        return 0, 0, 0
    numbers = yield from access.numbers(key, thread)
    yield from _delete(
        access,
        [
            *(entry_place(access.root, key.owner, number) for number in numbers),
            *(page_place(access.root, key, page) for page in range(thread.pages)),
        ],
    )
    documents = yield from _forget_documents(access, key, thread.documents)
    return thread.count, 1, documents


def _forget_documents(access: StoreAccess, key: ThreadKey, names: Sequence[str]) -> Steps[int]:
    """Delete a thread's documents; return how many there were."""
    places = [document_place(access.root, key, name) for name in names]
    there = yield from access.get(places)
    yield from _delete(access, places)
    return sum(value is not None for value in there)


def _forget_entries(
    access: StoreAccess, key: ThreadKey, record: OwnerRecord, ids: frozenset[str]
) -> Steps[ForgetReceipt]:
    thread = record.threads.get(key.thread_id)
    if thread is None:
        yield from access.keep(key.owner, record)
        return ForgetReceipt(at_ms=now_ms())
    numbers = yield from access.numbers(key, thread)
    rows = yield from access.rows(key.owner, record, numbers)
    kept = [
        item
        for item in rows
        if item.row.id not in ids and message_id_of(item.row.id, item.row.body) not in ids
    ]
    left = {item.number for item in kept}
    gone = [number for number in numbers if number not in left]
    yield from _delete(access, [entry_place(access.root, key.owner, number) for number in gone])
    caches = [name for name in thread.documents if name.startswith(CACHE_PREFIX)]
    documents = yield from _forget_documents(access, key, caches)
    thread.documents = [name for name in thread.documents if name not in caches]
    yield from _renumber(access, key, thread, kept)
    yield from access.keep(key.owner, record)
    return ForgetReceipt(entries=len(rows) - len(kept), documents=documents, at_ms=now_ms())


def _renumber(
    access: StoreAccess, key: ThreadKey, thread: ThreadRecord, kept: Sequence[StoredRow]
) -> Steps[None]:
    """Let a thread's pages and record tell of these entries only."""
    numbers = [item.number for item in kept]
    full = len(numbers) // PAGE
    values: list[tuple[Place, Mapping[str, Any] | None]] = []
    for page in range(max(full, thread.pages)):
        some = numbers[page * PAGE : (page + 1) * PAGE]
        value = {"numbers": some} if page < full else None
        values.append((page_place(access.root, key, page), value))
    yield from access.put(values)
    thread.count, thread.tail = len(numbers), numbers[full * PAGE :]
    thread.first = kept[0].row.id if kept else ""
    thread.last = kept[-1].row.id if kept else ""
