"""What `forget` does in a DynamoDB table.

Heads go first, then what they named, then the generation rises: whoever reads in between may see
less than before, but has read under the old generation and reads anew.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from langchain_convmem.errors import LogUnavailableError
from langchain_convmem.ids import get_now_ms
from langchain_convmem.logs.base import Row, read_message_id
from langchain_convmem.logs.dynamodb.batches import SETTLED_US, Batches, read_clock_us
from langchain_convmem.logs.dynamodb.client import Table
from langchain_convmem.logs.dynamodb.items import (
    PIECE_RANGE,
    STATE_RANGE,
    SUMMARY_FIELDS,
    Batch,
    Item,
    is_expired,
    make_batch_key,
    make_batch_range,
    make_cache_range,
    make_generation_item,
    make_marker_item,
    make_partition_key,
    make_state_range,
    make_thread_range,
    read_batch,
    read_revision,
)
from langchain_convmem.records import ForgetReceipt, Owner, ThreadKey

_KEYS = ("pk", "sk")
_PIECE_FIELDS = (*_KEYS, "thread", "written")
_DOCUMENT_FIELDS = (*_KEYS, "thread", "expires")


def erase_owner(table: Table, batches: Batches, owner: Owner) -> ForgetReceipt:
    """Erase a whole partition, but for the markers that keep its newest numbers from being reused.

    They end by themselves after two days, as does the generation.
    """
    partition = make_partition_key(owner)
    pieces = list(table.query(partition, PIECE_RANGE, fields=_PIECE_FIELDS))
    heads = list(map(read_batch, table.query(partition, make_batch_range(), fields=SUMMARY_FIELDS)))
    documents = list(table.query(partition, STATE_RANGE, fields=_DOCUMENT_FIELDS))
    newest = max((head.number for head in heads), default=0)
    _erase_batches(table, heads, pieces, documents, newest)
    _raise_generation(table, batches, owner)
    return _count_erased(heads, documents)


def erase_thread(table: Table, batches: Batches, key: ThreadKey) -> ForgetReceipt:
    """Erase a thread; the pieces that a broken write of its left are found too."""
    partition = make_partition_key(key.owner)
    found = table.query(partition, PIECE_RANGE, fields=_PIECE_FIELDS)
    pieces = [item for item in found if item["thread"]["S"] == key.thread_id]
    listed = table.query(partition, make_thread_range(key), by_thread=True, fields=SUMMARY_FIELDS)
    heads = list(map(read_batch, listed))
    documents = list(table.query(partition, make_state_range(key), fields=_DOCUMENT_FIELDS))
    newest = batches.find_newest(key.owner)
    _erase_batches(table, heads, pieces, documents, 0 if newest is None else newest.number)
    _raise_generation(table, batches, key.owner)
    return _count_erased(heads, documents)


def _erase_batches(
    table: Table,
    heads: Sequence[Batch],
    pieces: Sequence[Item],
    documents: Sequence[Item],
    newest: int,
) -> None:
    now = read_clock_us()
    settled = now - SETTLED_US
    # A writer may still hold the number it read: what comes next must not slip in before it.
    kept = [head for head in heads if head.number == newest or head.born_us > settled]
    markers = [
        make_marker_item(head.partition, head.number, now_us=now)
        for head in kept
        if not head.is_marker
    ]
    gone = [(h.partition, make_batch_key(h.number)) for h in heads if h not in kept]
    table.write(puts=markers, deletes=gone + [_read_key(item) for item in documents])
    # A young piece without a head may belong to a batch that is being written.
    revisions = {head.revision for head in heads}
    table.write(
        deletes=[
            _read_key(item)
            for item in pieces
            if read_revision(item["sk"]["S"]) in revisions or int(item["written"]["N"]) <= settled
        ]
    )


def _read_key(item: Item) -> tuple[str, str]:
    return item["pk"]["S"], item["sk"]["S"]


def _raise_generation(table: Table, batches: Batches, owner: Owner) -> None:
    raised = max(read_clock_us(), batches.read_generation(owner) + 1)
    ends = batches.is_empty(owner)
    table.put(make_generation_item(make_partition_key(owner), raised, ends=ends))


def _count_erased(heads: Sequence[Batch], documents: Sequence[Item]) -> ForgetReceipt:
    now_s = time.time()
    living = [head for head in heads if head.size and not head.is_over(now_s)]
    kept = [item for item in documents if not is_expired(item, now_s)]
    threads = {head.thread for head in living} | {item["thread"]["S"] for item in kept}
    return ForgetReceipt(
        entries=sum(head.size for head in living),
        threads=len(threads),
        documents=len(kept),
        at_ms=get_now_ms(),
    )


# -- single entries -----------------------------------------------------------------------------


def erase_entries(
    table: Table,
    batches: Batches,
    key: ThreadKey,
    ids: Collection[str],
    *,
    attempts: Iterator[Any],
) -> ForgetReceipt:
    """Take entries out of their batches, by entry id or message id, every version of a message.

    The thread's caches go after them: one that is made meanwhile may still tell of them.

    Raises:
        LogUnavailableError: If others change one of the batches all the while.
    """
    wanted = frozenset(ids)
    count = sum(
        _take_out(batches, key, batch, wanted, attempts=attempts)
        for batch in batches.list_of_thread(key)
    )
    caches = _list_caches(table, key)
    table.write(deletes=[_read_key(item) for item in caches])
    _raise_generation(table, batches, key.owner)
    living = sum(not is_expired(item, time.time()) for item in caches)
    return ForgetReceipt(entries=count, documents=living, at_ms=get_now_ms())


def _list_caches(table: Table, key: ThreadKey) -> list[Item]:
    bounds = make_cache_range(key)
    found = table.query(make_partition_key(key.owner), bounds, fields=_DOCUMENT_FIELDS)
    return [item for item in found if item["sk"]["S"].startswith(bounds[0])]


def _take_out(
    batches: Batches,
    key: ThreadKey,
    batch: Batch,
    wanted: frozenset[str],
    *,
    attempts: Iterator[Any],
) -> int:
    """Return how many entries were taken out of the batch."""
    current: Batch | None = batch
    while current is not None:
        whole = batches.load(current)
        rows = whole.rows or ()
        kept = [row for row in rows if not _is_named(row, wanted)]
        if len(kept) == len(rows):
            return 0
        if batches.change(key, whole, kept) if kept else batches.empty(current):
            return len(rows) - len(kept)
        if next(attempts, None) is None:
            msg = f"others change batch {current.number} of {key} all the while; try again later"
            raise LogUnavailableError(msg, thread_id=key.thread_id)
        current = batches.read_again(current)
    return 0


def _is_named(row: Row, wanted: frozenset[str]) -> bool:
    return row.id in wanted or read_message_id(row.id, row.body) in wanted
