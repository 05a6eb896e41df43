"""What `forget` does inside one PostgreSQL transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from langchain_convmem.effects import Steps
from langchain_convmem.ids import is_ulid, now_ms
from langchain_convmem.logs.postgres.owners import LockedOwner, locked_owner
from langchain_convmem.logs.postgres.rows import thread_digest, to_uuid, ulid_of
from langchain_convmem.logs.postgres.transactions import Transaction
from langchain_convmem.logs.rows import key_hash, message_id_of
from langchain_convmem.protocols import CACHE_PREFIX
from langchain_convmem.records import ForgetReceipt, Owner, ThreadKey

__all__ = ["forget"]


def forget(
    tx: Transaction, scope: Owner | ThreadKey, entry_ids: Collection[str] | None
) -> Steps[ForgetReceipt]:
    """Erase an owner, a thread or some of its entries, and raise the owner's generation."""
    owner = yield from locked_owner(tx, scope.owner if isinstance(scope, ThreadKey) else scope)
    counts = (0, 0, 0, 0)
    dropped = False
    if owner is not None:
        numbers = yield from _threads(tx, owner, scope)
        if entry_ids is None:
            counts = yield from _erase_threads(tx, numbers)
        else:
            counts = yield from _erase_entries(tx, owner, numbers, entry_ids)
        dropped = yield from _drop_if_empty(tx, owner)
    yield from _raise_epoch(tx, owner, dropped=dropped)
    return ForgetReceipt(*counts, at_ms=now_ms())


def _threads(tx: Transaction, owner: LockedOwner, scope: Owner | ThreadKey) -> Steps[list[int]]:
    text, values = "SELECT thread FROM {s}.threads WHERE owner = %s", [owner.number]
    if isinstance(scope, ThreadKey):
        found = yield tx.query(f"{text} AND digest = %s", *values, thread_digest(scope.thread_id))
    else:
        found = yield tx.query(text, *values)
    return [number for (number,) in found]


_Counts = tuple[int, int, int, int]
"""Entries, threads, segments, documents."""


def _erase_threads(tx: Transaction, numbers: Sequence[int]) -> Steps[_Counts]:
    # Segments and documents would go with their entries and threads; here they are counted.
    segments: int = yield tx.change(
        "DELETE FROM {s}.segments s USING {s}.entries e "
        "WHERE (s.owner, s.position) = (e.owner, e.position) AND e.thread = ANY(%s::bigint[])",
        numbers,
    )
    of_threads = "WHERE thread = ANY(%s::bigint[])"
    entries: int = yield tx.change(f"DELETE FROM {{s}}.entries {of_threads}", numbers)
    documents: int = yield tx.change(f"DELETE FROM {{s}}.documents {of_threads}", numbers)
    threads: int = yield tx.change(f"DELETE FROM {{s}}.threads {of_threads}", numbers)
    return entries, threads, segments, documents


def _erase_entries(
    tx: Transaction, owner: LockedOwner, numbers: Sequence[int], ids: Collection[str]
) -> Steps[_Counts]:
    """Delete entries by entry id or message id, every version of a message, and all caches."""
    found = yield tx.query(
        "SELECT position, id, body FROM {s}.entries WHERE thread = ANY(%s::bigint[]) "
        "AND (id = ANY(%s::uuid[]) OR key_hash = ANY(%s::bigint[]))",
        numbers,
        [to_uuid(wanted) for wanted in ids if is_ulid(wanted)],
        [key_hash(wanted) for wanted in ids],
    )
    wanted = frozenset(ids)
    positions = [
        position
        for position, entry_id, body in found
        if wanted.intersection((ulid_of(entry_id), message_id_of("", body)))
    ]
    values = (owner.number, positions)
    chosen = "WHERE owner = %s AND position = ANY(%s::bigint[])"
    segments: int = yield tx.change(f"DELETE FROM {{s}}.segments {chosen}", *values)
    entries: int = yield tx.change(f"DELETE FROM {{s}}.entries {chosen}", *values)
    caches: int = yield tx.change(
        "DELETE FROM {s}.documents WHERE thread = ANY(%s::bigint[]) AND starts_with(name, %s)",
        numbers,
        CACHE_PREFIX,
    )
    return entries, 0, segments, caches


def _drop_if_empty(tx: Transaction, owner: LockedOwner) -> Steps[bool]:
    """Delete an owner without threads: not even the name stays."""
    touched: int = yield tx.change(
        "DELETE FROM {s}.owners o WHERE o.owner = %s "
        "AND NOT EXISTS (SELECT FROM {s}.threads t WHERE t.owner = o.owner)",
        owner.number,
    )
    return touched > 0


def _raise_epoch(tx: Transaction, owner: LockedOwner | None, *, dropped: bool) -> Steps[None]:
    """Give the owner a generation that no earlier reader has seen.

    The last thing before the commit, since everyone who forgets meets at this row. A dropped owner
    who comes back must not get a position twice: cursors of others may stand behind it.
    """
    yield tx.query(
        "WITH raised AS (UPDATE {s}.log_meta SET forget_epoch = forget_epoch + 1, "
        "position_floor = greatest(position_floor, %s) RETURNING forget_epoch) "
        "UPDATE {s}.owners SET generation = raised.forget_epoch FROM raised WHERE owner = %s",
        owner.last_position if owner is not None and dropped else 0,
        None if owner is None else owner.number,
    )
