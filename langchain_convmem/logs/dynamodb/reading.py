"""Reading from a DynamoDB log: ranges of rows, threads, owners and what is new."""

from __future__ import annotations

from langchain_convmem.ids import ulid_ms
from langchain_convmem.logs.dynamodb.batches import Batches
from langchain_convmem.logs.dynamodb.keys import LONE_PREFIX, number_of, owner_of
from langchain_convmem.logs.rows import Row
from langchain_convmem.records import Owner, ThreadInfo, ThreadKey

__all__ = ["in_range", "later", "latest", "owners", "rows_between", "threads"]

_MAX_PAGE = 500


def rows_between(batches: Batches, key: ThreadKey, after: int, until: int | None) -> list[Row]:
    """Return the rows of all batches that hold positions behind `after` up to `until`, whole."""
    last = None if until is None else number_of(until)
    found = batches.of_thread(key, number_of(after), last)
    return [row for batch in found for row in batches.rows(batch)]


def latest(batches: Batches, key: ThreadKey, after: int, until: int | None, last: int) -> list[Row]:
    """Return the latest rows of a range of positions, reading no more batches than needed."""
    found: list[Row] = []
    if last <= 0:
        return found
    bounds = number_of(after), None if until is None else number_of(until)
    page = min(last, _MAX_PAGE)
    for batch in batches.of_thread(key, *bounds, newest_first=True, page=page):
        rows = reversed(batches.rows(batch))
        found.extend(row for row in rows if in_range(row, after, until))
        if len(found) >= last:
            break
    return found[:last][::-1]


def in_range(row: Row, after: int, until: int | None) -> bool:
    """Return whether a row lies behind `after` and not behind `until`."""
    return row.position > after and (until is None or row.position <= until)


def threads(batches: Batches, user_id: str | None) -> list[ThreadInfo]:
    """Return a user's threads, latest first; None: the threads of no user."""
    spans: dict[str, tuple[int, str, str]] = {}
    for batch in batches.listed(user_id, LONE_PREFIX):
        count, first, last = spans.get(batch.thread, (0, batch.first, batch.last))
        spans[batch.thread] = (
            count + batch.size,
            min(first, batch.first),
            max(last, batch.last),
        )
    ordered = sorted(spans.items(), key=lambda item: item[1][2], reverse=True)
    return [
        ThreadInfo(ThreadKey(user_id, thread), count, ulid_ms(first), ulid_ms(last))
        for thread, (count, first, last) in ordered
    ]


def owners(batches: Batches) -> list[Owner]:
    """Return all owners that have entries."""
    found = (owner_of(batch.partition, batch.thread, batch.user) for batch in batches.all_listed())
    return list(dict.fromkeys(found))


def later(
    batches: Batches, owner: Owner, cursor: int, limit: int | None
) -> tuple[list[tuple[ThreadKey, Row]], int]:
    """Return an owner's rows behind a cursor, in the order they were committed; the generation."""
    # Before the rows: one forgotten in between must not come with the new generation.
    generation = batches.generation(owner)
    wanted = None if limit is None else max(limit, 0)
    found: list[tuple[ThreadKey, Row]] = []
    page = None if wanted is None else min(max(wanted, 1), _MAX_PAGE)
    for batch in batches.of_owner(owner, number_of(cursor), page=page):
        key = ThreadKey(owner.user_id, batch.thread)
        found.extend((key, row) for row in batches.rows(batch) if row.position > cursor)
        if wanted is not None and len(found) >= wanted:
            del found[wanted:]
            break
    return found, generation
