"""Derived rows beside the lines of a SQLite log: terms and vectors, by embedder fingerprint."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from langchain_convmem.records import StoredSegment

__all__ = ["delete_segments", "load_segments", "save_segments", "segment_fingerprints"]

_OF_OWNER = "JOIN threads t ON t.thread = e.thread WHERE t.owner = ?"


def load_segments(
    db: sqlite3.Connection, owner: int | None, fingerprint: str, after: int
) -> list[StoredSegment]:
    """Return an owner's rows behind position `after`, by position, part and segment."""
    # Positions are sorted before anything else is read: vectors are far larger.
    found = db.execute(
        "SELECT s.seq, s.part, s.segment, s.terms, s.vector, s.analysis FROM segments s "
        f"WHERE s.seq IN (SELECT e.seq FROM entries e {_OF_OWNER} AND e.seq > ?) "
        "AND s.fingerprint = (SELECT fingerprint FROM fingerprints WHERE name = ?) "
        "ORDER BY s.seq, s.part, s.segment",
        (owner, after, fingerprint),
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
        "INSERT INTO segments(seq, part, segment, fingerprint, terms, vector, analysis) "
        f"SELECT e.seq, ?, ?, ?, ?, ?, ? FROM entries e {_OF_OWNER} AND e.seq = ? "
        "ON CONFLICT (seq, part, segment, fingerprint) DO UPDATE SET terms = excluded.terms, "
        "vector = coalesce(excluded.vector, vector), analysis = excluded.analysis",
        [
            (
                row.part,
                row.segment,
                number,
                row.terms,
                row.vector,
                row.analysis,
                owner,
                row.position,
            )
            for row in rows
        ],
    )


def segment_fingerprints(db: sqlite3.Connection, owner: int | None) -> list[str]:
    """Return, sorted, the fingerprints under which an owner has rows with a vector."""
    found = db.execute(
        "SELECT f.name FROM fingerprints f WHERE EXISTS ("
        "SELECT 1 FROM threads t JOIN entries e ON e.thread = t.thread "
        "JOIN segments s ON s.seq = e.seq "
        "WHERE t.owner = ? AND s.fingerprint = f.fingerprint AND s.vector IS NOT NULL) "
        "ORDER BY f.name",
        (owner,),
    )
    return [name for (name,) in found]


def delete_segments(
    db: sqlite3.Connection, owner: int | None, fingerprint: str, *, most: int
) -> int:
    """Delete at most so many of an owner's rows; return how many there were."""
    gone = db.execute(
        "DELETE FROM segments WHERE rowid IN (SELECT s.rowid FROM threads t "
        "JOIN entries e ON e.thread = t.thread JOIN segments s ON s.seq = e.seq "
        "JOIN fingerprints f ON f.fingerprint = s.fingerprint "
        "WHERE t.owner = ? AND f.name = ? LIMIT ?)",
        (owner, fingerprint, most),
    )
    return gone.rowcount
