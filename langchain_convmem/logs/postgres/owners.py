"""Owners and threads in PostgreSQL: looking them up, making them, and who may number entries.

Whoever appends or forgets holds the lock on the owner's row until commit. So an owner's positions
become visible in ascending order, and a reader's cursor never passes one that is still to come.
"""

from __future__ import annotations

from dataclasses import dataclass

from langchain_convmem.effects import Steps
from langchain_convmem.logs.postgres.rows import owner_digest, stored_name, thread_digest
from langchain_convmem.logs.postgres.transactions import Transaction
from langchain_convmem.records import Owner, ThreadKey

__all__ = ["THREAD", "LockedOwner", "locked_owner", "made_owner", "made_thread", "thread_values"]

THREAD = (
    "(SELECT t.thread FROM {s}.threads t JOIN {s}.owners o ON o.owner = t.owner "
    "WHERE o.digest = %s AND t.digest = %s)"
)
"""A thread's number by `thread_values`; NULL if there is none."""


@dataclass(frozen=True, slots=True)
class LockedOwner:
    """An owner's row, locked until the transaction ends."""

    number: int
    last_position: int


def thread_values(key: ThreadKey) -> tuple[bytes, bytes]:
    """Return what `THREAD` binds."""
    return owner_digest(key.owner), thread_digest(key.thread_id)


def locked_owner(tx: Transaction, owner: Owner) -> Steps[LockedOwner | None]:
    """Lock an owner, waiting for its other writers; None if nothing is kept of it."""
    found = yield tx.query(
        "SELECT owner, last_position FROM {s}.owners WHERE digest = %s FOR UPDATE",
        owner_digest(owner),
    )
    return LockedOwner(*found[0]) if found else None


def made_owner(tx: Transaction, owner: Owner) -> Steps[LockedOwner]:
    """Lock an owner, made if need be."""
    there = yield from locked_owner(tx, owner)
    if there is not None:
        return there
    name = None if owner.user_id is None else stored_name(owner.user_id)
    [(number, last_position, generation)] = yield tx.query(
        "INSERT INTO {s}.owners(digest, user_id) VALUES (%s, %s) "
        "ON CONFLICT (digest) DO UPDATE SET user_id = excluded.user_id "
        "RETURNING owner, last_position, generation",
        owner_digest(owner),
        name,
    )
    if generation is not None:  # another writer was faster
        return LockedOwner(number, last_position)
    # A statement of its own: the one before may have waited for a `forget` of this very owner,
    # and would not see where that left the positions and the epoch.
    [row] = yield tx.query(
        "UPDATE {s}.owners o SET last_position = m.position_floor, generation = m.forget_epoch "
        "FROM {s}.log_meta m WHERE o.owner = %s RETURNING o.owner, o.last_position",
        number,
    )
    return LockedOwner(*row)


def made_thread(tx: Transaction, owner: LockedOwner, thread_id: str) -> Steps[int]:
    """Return the number of a locked owner's thread, made if need be."""
    digest = thread_digest(thread_id)
    found = yield tx.query(
        "SELECT thread FROM {s}.threads WHERE owner = %s AND digest = %s", owner.number, digest
    )
    if not found:
        found = yield tx.query(
            "INSERT INTO {s}.threads(owner, digest, thread_id) VALUES (%s, %s, %s) "
            "RETURNING thread",
            owner.number,
            digest,
            stored_name(thread_id),
        )
    return int(found[0][0])
