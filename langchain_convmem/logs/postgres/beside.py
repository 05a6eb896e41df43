"""What stands beside the entries of a PostgreSQL log: state documents and derived segments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_convmem.effects import Steps
from langchain_convmem.logs.postgres.owners import (
    THREAD,
    locked_owner,
    made_owner,
    made_thread,
    thread_values,
)
from langchain_convmem.logs.postgres.rows import owner_digest, read_name, stored_name
from langchain_convmem.logs.postgres.transactions import Transaction
from langchain_convmem.records import Owner, StateDocument, StoredSegment, ThreadKey
from langchain_convmem.views.codec import loads

__all__ = [
    "delete_segments",
    "delete_state",
    "get_state",
    "load_segments",
    "save_segments",
    "segment_fingerprints",
    "set_state",
]


def get_state(tx: Transaction, key: ThreadKey, name: str) -> Steps[StateDocument | None]:
    """Return a document, or None."""
    found = yield tx.query(
        f"SELECT value, version FROM {{s}}.documents WHERE thread = {THREAD} AND name = %s",
        *thread_values(key),
        stored_name(name),
    )
    return StateDocument(loads(found[0][0]), found[0][1]) if found else None


def set_state(
    tx: Transaction, key: ThreadKey, name: str, text: str, *, expected: int | None, version: int
) -> Steps[bool]:
    """Write a document's JSON text if its version is `expected`; return whether it was."""
    if expected is None:
        owner = yield from made_owner(tx, key.owner)
        thread = yield from made_thread(tx, owner, key.thread_id)
        touched: int = yield tx.change(
            "INSERT INTO {s}.documents VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
            thread,
            stored_name(name),
            version,
            text,
        )
    else:
        touched = yield tx.change(
            "UPDATE {s}.documents SET version = %s, value = %s "
            f"WHERE thread = {THREAD} AND name = %s AND version = %s",
            version,
            text,
            *thread_values(key),
            stored_name(name),
            expected,
        )
    return touched > 0


def delete_state(tx: Transaction, key: ThreadKey, name: str) -> Steps[None]:
    """Delete a document if there is one."""
    yield tx.change(
        f"DELETE FROM {{s}}.documents WHERE thread = {THREAD} AND name = %s",
        *thread_values(key),
        stored_name(name),
    )


def load_segments(
    tx: Transaction, owner: Owner, fingerprint: str, *, after: int
) -> Steps[list[StoredSegment]]:
    """Return an owner's rows behind position `after`, by position, part and segment."""
    found = yield tx.query(
        "SELECT s.position, s.part, s.segment, s.terms, s.vector, s.analysis FROM {s}.segments s "
        "JOIN {s}.owners o ON o.owner = s.owner "
        "JOIN {s}.fingerprints f ON f.fingerprint = s.fingerprint "
        "WHERE o.digest = %s AND f.name = %s AND s.position > %s "
        "ORDER BY s.position, s.part, s.segment",
        owner_digest(owner),
        stored_name(fingerprint),
        after,
    )
    return [
        StoredSegment(position, part, segment, _words(terms), vector, analysis)
        for position, part, segment, terms, vector, analysis in found
    ]


def save_segments(
    tx: Transaction, owner: Owner, fingerprint: str, rows: Sequence[StoredSegment]
) -> Steps[None]:
    """Add or overwrite rows whose entry is still the owner's."""
    locked = yield from locked_owner(tx, owner)
    if locked is None:
        return
    number = yield from _fingerprint(tx, fingerprint)
    # One statement cannot overwrite a row twice: the last of several with one key counts.
    latest = {(row.position, row.part, row.segment): row for row in rows}
    columns: list[list[Any]] = [list(column) for column in zip(*latest, strict=True)]
    terms = [row.terms.encode("utf-8", "surrogatepass") for row in latest.values()]
    yield tx.query(
        "INSERT INTO {s}.segments "
        "(owner, position, part, segment, fingerprint, terms, vector, analysis) "
        "SELECT e.owner, e.position, n.part, n.segment, %s, n.terms, n.vector, n.analysis "
        "FROM unnest(%s::bigint[], %s::integer[], %s::integer[], %s::bytea[], %s::bytea[], "
        "%s::integer[]) AS n(position, part, segment, terms, vector, analysis) "
        "JOIN {s}.entries e ON e.owner = %s AND e.position = n.position "
        "ON CONFLICT (owner, position, part, segment, fingerprint) DO UPDATE "
        "SET terms = excluded.terms, vector = coalesce(excluded.vector, segments.vector), "
        "analysis = excluded.analysis",
        number,
        *columns,
        terms,
        [row.vector for row in latest.values()],
        [row.analysis for row in latest.values()],
        locked.number,
    )


def segment_fingerprints(tx: Transaction, owner: Owner) -> Steps[list[str]]:
    """Return the fingerprints under which an owner has rows with a vector."""
    found = yield tx.query(
        "SELECT f.name FROM {s}.fingerprints f WHERE EXISTS ("
        "SELECT FROM {s}.segments s JOIN {s}.owners o ON o.owner = s.owner WHERE o.digest = %s "
        "AND s.fingerprint = f.fingerprint AND s.vector IS NOT NULL)",
        owner_digest(owner),
    )
    return sorted(read_name(name) for (name,) in found)


def delete_segments(tx: Transaction, owner: Owner, fingerprint: str, *, most: int) -> Steps[int]:
    """Delete at most so many of an owner's rows; return how many there were."""
    locked = yield from locked_owner(tx, owner)
    if locked is None:
        return 0
    gone: int = yield tx.change(
        "DELETE FROM {s}.segments WHERE ctid = ANY (ARRAY ("
        "SELECT s.ctid FROM {s}.segments s JOIN {s}.fingerprints f "
        "ON f.fingerprint = s.fingerprint WHERE s.owner = %s AND f.name = %s LIMIT %s))",
        locked.number,
        stored_name(fingerprint),
        most,
    )
    return gone


def _words(terms: bytes) -> str:
    return terms.decode("utf-8", "surrogatepass")


def _fingerprint(tx: Transaction, name: str) -> Steps[int]:
    asked = "SELECT fingerprint FROM {s}.fingerprints WHERE name = %s"
    found = yield tx.query(asked, stored_name(name))
    if not found:
        yield tx.query(
            "INSERT INTO {s}.fingerprints(name) VALUES (%s) ON CONFLICT DO NOTHING",
            stored_name(name),
        )
        found = yield tx.query(asked, stored_name(name))
    return int(found[0][0])
