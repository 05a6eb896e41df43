"""Reading from a PostgreSQL log: entries, threads, owners and changes."""

from __future__ import annotations

from collections.abc import Collection

from langchain_convmem.effects import Steps
from langchain_convmem.ids import ulid_ms
from langchain_convmem.logs.postgres.owners import THREAD, thread_values
from langchain_convmem.logs.postgres.rows import (
    COLUMNS,
    owner_digest,
    read_name,
    row_of,
    ulid_of,
)
from langchain_convmem.logs.postgres.transactions import Transaction
from langchain_convmem.logs.rows import (
    Row,
    bounded,
    changes_of,
    entry_of,
    key_hash,
    line_changes_of,
    message_id_of,
)
from langchain_convmem.records import Changes, Entry, LineChanges, Owner, ThreadInfo, ThreadKey

__all__ = ["changes", "entries", "find", "line_changes", "owners", "threads"]


def entries(
    tx: Transaction, key: ThreadKey, *, after: int, until: int | None, last: int | None
) -> Steps[list[Entry]]:
    """Return a thread's entries behind `after` up to `until`, ascending; the latest `last`."""
    found = yield tx.query(
        f"SELECT {COLUMNS} FROM {{s}}.entries e WHERE e.thread = {THREAD} "
        "AND e.position > %s AND e.position <= %s ORDER BY e.position DESC LIMIT %s",
        *thread_values(key),
        bounded(after),
        bounded(until),
        _limit(last),
    )
    return [entry_of(key, row_of(columns)) for columns in reversed(found)]


def find(tx: Transaction, key: ThreadKey, message_ids: Collection[str]) -> Steps[list[Entry]]:
    """Return a thread's entries with these message ids, ascending."""
    # NOT NULL is said so that the index over just these rows serves under every plan.
    found = yield tx.query(
        f"SELECT {COLUMNS} FROM {{s}}.entries e WHERE e.thread = {THREAD} "
        "AND e.key_hash IS NOT NULL AND e.key_hash = ANY(%s::bigint[]) ORDER BY e.position",
        *thread_values(key),
        [key_hash(message_id) for message_id in message_ids],
    )
    rows = [row_of(columns) for columns in found]
    return [entry_of(key, row) for row in rows if message_id_of(row.id, row.body) in message_ids]


def _limit(wanted: int | None) -> int:
    return max(bounded(wanted), 0)


def threads(tx: Transaction, user_id: str | None) -> Steps[list[ThreadInfo]]:
    """Return a user's threads that have entries, latest first; None: the threads of no user."""
    whose, values = "o.user_id IS NULL", []
    if user_id is not None:
        whose, values = "o.digest = %s", [owner_digest(Owner(user_id=user_id))]
    found = yield tx.query(
        "SELECT t.thread_id, ends.count, first.id, last.id FROM {s}.owners o "
        "JOIN {s}.threads t ON t.owner = o.owner "
        "CROSS JOIN LATERAL (SELECT count(*), min(e.position), max(e.position) "
        "FROM {s}.entries e WHERE e.thread = t.thread) ends "
        "JOIN {s}.entries first ON first.owner = o.owner AND first.position = ends.min "
        "JOIN {s}.entries last ON last.owner = o.owner AND last.position = ends.max "
        f"WHERE {whose} ORDER BY last.id DESC",
        *values,
    )
    return [
        ThreadInfo(
            ThreadKey(user_id, read_name(name)),
            count,
            ulid_ms(ulid_of(first)),
            ulid_ms(ulid_of(last)),
        )
        for name, count, first, last in found
    ]


def owners(tx: Transaction) -> Steps[list[Owner]]:
    """Return all owners that have entries."""
    found = yield tx.query(
        "SELECT o.user_id, CASE WHEN o.user_id IS NULL THEN "
        "(SELECT t.thread_id FROM {s}.threads t WHERE t.owner = o.owner) END "
        "FROM {s}.owners o WHERE EXISTS (SELECT FROM {s}.entries e WHERE e.owner = o.owner)"
    )
    return [
        Owner(thread_id=read_name(thread)) if user is None else Owner(user_id=read_name(user))
        for user, thread in found
    ]


def changes(tx: Transaction, owner: Owner, cursor: int, *, limit: int | None) -> Steps[Changes]:
    """Return an owner's entries behind a cursor, in the order they were committed."""
    rows, generation = yield from _later(tx, owner, cursor, limit)
    return changes_of(rows, cursor, generation)


def line_changes(
    tx: Transaction, owner: Owner, cursor: int, *, limit: int | None
) -> Steps[LineChanges]:
    """Return the dialog lines of an owner behind a cursor, in the order they were committed."""
    rows, generation = yield from _later(tx, owner, cursor, limit)
    return line_changes_of(rows, cursor, generation, limit)


def _later(
    tx: Transaction, owner: Owner, cursor: int, limit: int | None
) -> Steps[tuple[list[tuple[ThreadKey, Row]], int]]:
    """Return an owner's rows behind a cursor, and the generation."""
    [(number, generation)] = yield tx.query(
        "SELECT o.owner, coalesce(o.generation, m.forget_epoch) "
        "FROM {s}.log_meta m LEFT JOIN {s}.owners o ON o.digest = %s",
        owner_digest(owner),
    )
    found = yield tx.query(
        f"SELECT t.thread_id, {COLUMNS} FROM {{s}}.entries e "
        "JOIN {s}.threads t ON t.thread = e.thread "
        "WHERE e.owner = %s AND e.position > %s ORDER BY e.position LIMIT %s",
        number,
        bounded(cursor),
        _limit(limit),
    )
    keys: dict[str, ThreadKey] = {}
    rows = []
    for name, *columns in found:
        key = keys.get(name) or keys.setdefault(name, ThreadKey(owner.user_id, read_name(name)))
        rows.append((key, row_of(columns)))
    return rows, generation
