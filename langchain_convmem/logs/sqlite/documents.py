"""State documents beside the threads of a SQLite log."""

from __future__ import annotations

import sqlite3
from typing import Any

from langchain_convmem.errors import LogError
from langchain_convmem.logs.rows import next_version
from langchain_convmem.logs.sqlite.owners import made_thread, thread_of
from langchain_convmem.records import StateDocument, ThreadKey
from langchain_convmem.views.codec import loads

__all__ = ["delete_state", "get_state", "set_state"]


def get_state(db: sqlite3.Connection, key: ThreadKey, name: str) -> StateDocument | None:
    """Return a document, or None.

    Raises:
        LogError: If it cannot be read.
    """
    found = _found(db, key, name)
    if found is None:
        return None
    try:
        return StateDocument(loads(found[0]), found[1])
    except (TypeError, ValueError, LookupError, ArithmeticError) as error:
        msg = (
            f"document {name!r} of thread {key.thread_id!r} cannot be read: {error!r}; delete it, "
            "or restore it from a backup"
        )
        raise LogError(msg, thread_id=key.thread_id) from error


def set_state(
    db: sqlite3.Connection, key: ThreadKey, name: str, text: str, *, expected: int | None
) -> int | None:
    """Write a document's JSON text if its version is `expected`; return the new version."""
    found = _found(db, key, name)
    if (None if found is None else found[1]) != expected:
        return None
    version = next_version(expected)
    db.execute(
        "INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?)",
        (made_thread(db, key), name, version, text),
    )
    return version


def delete_state(db: sqlite3.Connection, key: ThreadKey, name: str) -> None:
    """Delete a document if there is one."""
    db.execute("DELETE FROM documents WHERE thread = ? AND name = ?", (thread_of(db, key), name))


def _found(db: sqlite3.Connection, key: ThreadKey, name: str) -> tuple[Any, ...] | None:
    found: tuple[Any, ...] | None = db.execute(
        "SELECT value, version FROM documents WHERE thread = ? AND name = ?",
        (thread_of(db, key), name),
    ).fetchone()
    return found
