"""Owners, threads and positions in a SQLite log: their numbers, looked up and made."""

from __future__ import annotations

import sqlite3

from langchain_convmem.records import Owner, ThreadKey

__all__ = ["keep_positions", "made_thread", "owner_of", "thread_of"]


def owner_of(db: sqlite3.Connection, owner: Owner) -> tuple[int | None, int]:
    """Return an owner's number and generation; one without rows is of the newest epoch."""
    found = db.execute(
        "SELECT owner, generation FROM owners WHERE user_id = ? AND lone_thread = ?",
        _names(owner),
    ).fetchone()
    if found is not None:
        return int(found[0]), int(found[1])
    return None, int(db.execute("SELECT forget_epoch FROM meta").fetchone()[0])


def thread_of(db: sqlite3.Connection, key: ThreadKey) -> int | None:
    """Return a thread's number; None if nothing is kept of it."""
    found = db.execute(
        "SELECT t.thread FROM owners o JOIN threads t ON t.owner = o.owner "
        "WHERE o.user_id = ? AND o.lone_thread = ? AND t.thread_id = ?",
        (*_names(key.owner), key.thread_id),
    ).fetchone()
    return None if found is None else int(found[0])


def made_thread(db: sqlite3.Connection, key: ThreadKey) -> int:
    """Return a thread's number, made with its owner if need be."""
    thread = thread_of(db, key)
    if thread is not None:
        return thread
    owner, generation = owner_of(db, key.owner)
    if owner is None:
        insert = "INSERT INTO owners(user_id, lone_thread, generation) VALUES (?, ?, ?)"
        owner = db.execute(insert, (*_names(key.owner), generation)).lastrowid
    insert = "INSERT INTO threads(owner, thread_id) VALUES (?, ?)"
    return int(db.execute(insert, (owner, key.thread_id)).lastrowid or 0)


def keep_positions(db: sqlite3.Connection) -> None:
    """Note the highest position before entries are erased: no later one may get it again."""
    db.execute(
        "UPDATE meta SET position_floor = "
        "max(position_floor, coalesce((SELECT max(seq) FROM entries), 0))"
    )


def _names(owner: Owner) -> tuple[str, str]:
    return owner.user_id or "", owner.thread_id or ""
