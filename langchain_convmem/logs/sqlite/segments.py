"""Derived rows beside the lines of a SQLite log: terms and vectors, by embedder fingerprint."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from langchain_convmem.records import StoredSegment

__all__ = ["load_segments", "save_segments"]

_OF_OWNER = "JOIN threads t ON t.thread = e.thread WHERE t.owner = ?"


def load_segments(
    db: sqlite3.Connection, owner: int | None, fingerprint: str, after: int
) -> list[StoredSegment]:
    """Return an owner's rows behind position `after`, by position, part and segment."""
    found = db.execute(
        "SELECT s.seq, s.part, s.segment, s.terms, s.vector FROM segments s "
        "JOIN fingerprints f ON f.fingerprint = s.fingerprint "
        f"JOIN entries e ON e.seq = s.seq {_OF_OWNER} AND f.name = ? AND s.seq > ? "
        "ORDER BY s.seq, s.part, s.segment",
        (owner, fingerprint, after),
    )
    return [StoredSegment(*row) for row in found]


def save_segments(
    db: sqlite3.Connection, owner: int | None, fingerprint: str, rows: Iterable[StoredSegment]
) -> None:
    """Add or overwrite rows whose entry is still the owner's."""
    db.execute("INSERT OR IGNORE INTO fingerprints(name) VALUES (?)", (fingerprint,))
    asked = "SELECT fingerprint FROM fingerprints WHERE name = ?"
    number = db.execute(asked, (fingerprint,)).fetchone()[0]
    db.executemany(
        "INSERT OR REPLACE INTO segments(seq, part, segment, fingerprint, terms, vector) "
        f"SELECT e.seq, ?, ?, ?, ?, ? FROM entries e {_OF_OWNER} AND e.seq = ?",
        [
            (row.part, row.segment, number, row.terms, row.vector, owner, row.position)
            for row in rows
        ],
    )
