"""Reading from a SQLite log: entries, threads, owners and changes.

Rows are decoded by whoever asked, behind the transaction: a long thread takes a while, and until a
reader is done the write-ahead log cannot be folded in.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from langchain_convmem.errors import CorruptEntryError
from langchain_convmem.ids import is_ulid, ulid_bytes, ulid_ms, ulid_number, ulid_text
from langchain_convmem.logs.rows import Row, bounded, key_hash, message_id_of
from langchain_convmem.logs.sqlite.owners import owner_of, thread_of
from langchain_convmem.logs.sqlite.rows import COLUMNS, row_of
from langchain_convmem.protocols import Stretch
from langchain_convmem.records import Owner, ThreadInfo, ThreadKey

__all__ = [
    "Later",
    "columns_of",
    "entries",
    "find",
    "forget_epoch",
    "keyed",
    "later",
    "named",
    "owners",
    "position_of",
    "threads",
]


def entries(
    db: sqlite3.Connection, key: ThreadKey, *, after: int, until: int | None, last: int | None
) -> list[Row]:
    """Return a thread's rows of a range, ascending; the latest `last` of them."""
    found = db.execute(
        f"SELECT {COLUMNS} FROM entries e WHERE thread = ? AND seq > ? AND seq <= ? "
        "ORDER BY seq DESC LIMIT ?",
        (thread_of(db, key), bounded(after), bounded(until), _limit(last)),
    ).fetchall()
    return [row_of(columns, key.thread_id) for columns in reversed(found)]


def columns_of(
    db: sqlite3.Connection, key: ThreadKey, stretches: Iterable[Stretch]
) -> list[Sequence[Any]]:
    """Return the `COLUMNS` of a thread's rows in stretches, in their order."""
    thread = thread_of(db, key)
    return [
        columns
        for after, until in stretches
        for columns in db.execute(
            f"SELECT {COLUMNS} FROM entries e "
            "WHERE thread = ? AND seq > ? AND seq <= ? ORDER BY seq",
            (thread, bounded(after), bounded(until)),
        )
    ]


def _limit(wanted: int | None) -> int:
    """Return what SQLite takes for a limit; a negative one would be none."""
    return max(bounded(wanted), 0)


def find(db: sqlite3.Connection, key: ThreadKey, message_ids: Collection[str]) -> list[Row]:
    """Return a thread's rows with these message ids, ascending."""
    thread = thread_of(db, key)
    rows = [row for name in set(message_ids) for row in named(db, thread, key.thread_id, name)]
    return sorted(rows, key=lambda row: row.position)


def named(db: sqlite3.Connection, thread: int | None, thread_id: str, message_id: str) -> list[Row]:
    """Return a thread's rows with a message id, newest first."""
    found = db.execute(
        f"SELECT {COLUMNS} FROM entries e WHERE thread = ? AND key_hash = ? ORDER BY seq DESC",
        (thread, key_hash(message_id)),
    ).fetchall()
    rows = [row_of(columns, thread_id) for columns in found]
    return [row for row in rows if message_id_of(row.id, row.body) == message_id]


def position_of(db: sqlite3.Connection, thread: int | None, entry_id: str) -> int | None:
    """Return where a thread's entry of this id is, or None."""
    if not is_ulid(entry_id):
        return None
    packed = ulid_bytes(entry_id)
    found = db.execute(
        "SELECT seq FROM entries WHERE seq = ? AND thread = ? AND id = ?",
        (ulid_number(entry_id), thread, packed),
    ).fetchone()
    if found is None:
        found = db.execute(
            "SELECT seq FROM entries WHERE thread = ? AND id = ? "
            "AND seq <= (SELECT unnumbered FROM meta)",
            (thread, packed),
        ).fetchone()
    return None if found is None else int(found[0])


def threads(db: sqlite3.Connection, user_id: str | None) -> list[ThreadInfo]:
    """Return a user's threads that have entries, latest first; None: the threads of no user."""
    found = db.execute(
        "SELECT t.thread_id, count(*), min(e.id), max(e.id) FROM owners o "
        "JOIN threads t ON t.owner = o.owner JOIN entries e ON e.thread = t.thread "
        "WHERE o.user_id = ? GROUP BY t.thread ORDER BY max(e.id) DESC",
        (user_id or "",),
    )
    return [_info(ThreadKey(user_id, name), *columns) for name, *columns in found]


def _info(key: ThreadKey, count: int, first: bytes, last: bytes) -> ThreadInfo:
    try:
        return ThreadInfo(key, count, ulid_ms(ulid_text(first)), ulid_ms(ulid_text(last)))
    except (TypeError, ValueError) as error:
        msg = f"thread {key.thread_id!r} has an entry with a damaged id: {error}; see verify()"
        raise CorruptEntryError(msg, thread_id=key.thread_id) from error


def forget_epoch(db: sqlite3.Connection) -> int:
    """Return a number that every `forget` raises, whatever it erased."""
    return int(db.execute("SELECT forget_epoch FROM meta").fetchone()[0])


def owners(db: sqlite3.Connection) -> list[Owner]:
    """Return every user and every thread of no user that has entries."""
    found = db.execute(
        "SELECT o.user_id, o.lone_thread FROM owners o WHERE EXISTS (SELECT 1 FROM "
        "threads t JOIN entries e ON e.thread = t.thread WHERE t.owner = o.owner)"
    )
    return [Owner(user or None, lone or None) for user, lone in found]


# Asked before every recall, so in one statement.
_KNOWN = (
    "SELECT owner, generation, (SELECT max(seq) FROM entries) FROM owners "
    "WHERE user_id = ? AND lone_thread = ?"
)


class Later(NamedTuple):
    """What an owner's file holds behind a cursor."""

    rows: list[Sequence[Any]]
    """Thread ids and `COLUMNS`, in the order they were committed."""
    generation: int


def later(db: sqlite3.Connection, owner: Owner, cursor: int, *, limit: int | None) -> Later:
    """Return an owner's rows behind a cursor."""
    known = db.execute(_KNOWN, (owner.user_id or "", owner.thread_id or "")).fetchone()
    number, generation, newest = (*owner_of(db, owner), None) if known is None else known
    if newest is None or newest <= cursor:
        return Later([], generation)  # mostly so, and looking at every thread takes longer
    # Positions are sorted before anything else is read: bodies are far larger.
    found = db.execute(
        f"SELECT t.thread_id, {COLUMNS} FROM entries e CROSS JOIN threads t ON t.thread = e.thread "
        "WHERE e.seq IN (SELECT e.seq FROM threads t JOIN entries e ON e.thread = t.thread "
        "WHERE t.owner = ? AND e.seq > ? ORDER BY e.seq LIMIT ?) ORDER BY e.seq",
        (number, bounded(cursor), _limit(limit)),
    ).fetchall()
    return Later(found, generation)


def keyed(owner: Owner, found: Later) -> Iterator[tuple[ThreadKey, Row]]:
    """Yield the rows of what was found, each with its thread.

    Raises:
        CorruptEntryError: If a column holds what no row can.
    """
    keys: dict[str, ThreadKey] = {}
    for name, *columns in found.rows:
        key = keys.get(name) or keys.setdefault(name, ThreadKey(owner.user_id, name))
        yield key, row_of(columns, name)
