"""Appending to a SQLite log, and adding to an entry's metadata."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple

from langchain_convmem.errors import LogError
from langchain_convmem.ids import numbered_ulid, ulid_ms
from langchain_convmem.logs.rows import (
    Row,
    annotated,
    built_entry,
    entry_of,
    own_id,
    replacement_control,
    same_payload,
)
from langchain_convmem.logs.sqlite.owners import made_thread, thread_of
from langchain_convmem.logs.sqlite.reading import named, position_of
from langchain_convmem.logs.sqlite.rows import COLUMNS, inserted, row_of
from langchain_convmem.records import Draft, Entry, ThreadKey
from langchain_convmem.views.codec import (
    DecodedBody,
    decode_metadata,
    encode_body,
    encode_checked,
    encode_metadata,
)
from langchain_convmem.views.live import retracted_ids

__all__ = ["Written", "annotate", "append", "encoded", "entry_of_written"]


class Encoded(NamedTuple):
    """A draft as it will be stored, and as it will be read back."""

    draft: Draft
    body: str
    decoded: DecodedBody
    metadata: str | None


class Written(NamedTuple):
    """The row that stands for a draft, and its body decoded; None where an earlier row does."""

    row: Row
    decoded: DecodedBody | None


def encoded(drafts: Sequence[Draft]) -> list[Encoded]:
    """Return drafts encoded; raises before anything is written.

    Raises:
        InvalidMessageError: If a part of one cannot be kept.
    """
    return [
        Encoded(draft, *encode_checked(draft), encode_metadata(draft.metadata)) for draft in drafts
    ]


def append(db: sqlite3.Connection, key: ThreadKey, batch: Iterable[Encoded]) -> list[Written]:
    """Store drafts; return what stands for each, in order."""
    thread = made_thread(db, key)
    positions = count(_next_position(db))
    return [_put(db, thread, key, one, positions) for one in batch]


def entry_of_written(key: ThreadKey, written: Written) -> Entry:
    """Return the entry as it will be read."""
    row, decoded = written
    if decoded is None:
        return entry_of(key, row)
    return built_entry(key, row, decoded, decode_metadata(row.metadata, created_ms=ulid_ms(row.id)))


def _put(
    db: sqlite3.Connection, thread: int, key: ThreadKey, one: Encoded, positions: Iterator[int]
) -> Written:
    draft, body, decoded, metadata = one
    message_id = own_id(draft)
    before = None if message_id is None else _live(db, thread, key, message_id)
    if before is not None and same_payload(before.body, body):
        return Written(before, None)
    turn_id = draft.turn_id
    if before is not None:
        turn_id, at = before.turn_id, next(positions)
    position = next(positions)
    entry_id = numbered_ulid(position)
    if before is not None:
        mark, mark_id = replacement_control(before.id, entry_id), numbered_ulid(at)
        _insert(db, thread, Row(mark_id, at, mark_id, mark.role, encode_body(mark), None), None)
    row = Row(entry_id, position, turn_id or entry_id, draft.role, body, metadata)
    _insert(db, thread, row, message_id)
    return Written(row, decoded)


def _next_position(db: sqlite3.Connection) -> int:
    found = db.execute(
        "SELECT max(position_floor, coalesce((SELECT max(seq) FROM entries), 0)) + 1 FROM meta"
    )
    return int(found.fetchone()[0])


def _insert(db: sqlite3.Connection, thread: int, row: Row, message_id: str | None) -> None:
    db.execute(
        "INSERT INTO entries(seq, thread, id, turn, role, key_hash, body, metadata) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (row.position, thread, *inserted(row, message_id)),
    )


def _live(db: sqlite3.Connection, thread: int, key: ThreadKey, message_id: str) -> Row | None:
    """Return the version of a message that no control entry retracts."""
    versions = named(db, thread, key.thread_id, message_id)
    if not versions:
        return None
    controls = db.execute(
        f"SELECT {COLUMNS} FROM entries e WHERE thread = ? AND role = 5 ORDER BY seq", (thread,)
    )
    dead = retracted_ids([entry_of(key, row_of(columns, key.thread_id)) for columns in controls])
    return next((row for row in versions if row.id not in dead), None)


def annotate(
    db: sqlite3.Connection,
    key: ThreadKey,
    entry_id: str,
    *,
    attributes: Sequence[str],
    timing: Mapping[str, int] | None,
    aux: Mapping[str, Any] | None,
) -> Row:
    """Add to an entry's metadata; return its row as it is now.

    Raises:
        LogError: If the thread has no such entry.
    """
    position = position_of(db, thread_of(db, key), entry_id)
    if position is None:
        msg = f"thread {key.thread_id!r} has no entry {entry_id!r}"
        raise LogError(msg, thread_id=key.thread_id)
    found = db.execute(f"SELECT {COLUMNS} FROM entries e WHERE seq = ?", (position,)).fetchone()
    row = row_of(found, key.thread_id)
    text = annotated(row.metadata, attributes=attributes, timing=timing, aux=aux)
    db.execute("UPDATE entries SET metadata = ? WHERE seq = ?", (text, row.position))
    return replace(row, metadata=text)
