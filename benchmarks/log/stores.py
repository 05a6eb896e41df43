"""Our log, and the floor: the same bytes in plain SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from benchmarks.log.dialogue import Exchange, exchange
from langchain_convmem import ConversationMemory
from langchain_convmem.ids import make_ulid
from langchain_convmem.logs.base import hash_message_id
from langchain_convmem.records import Draft, Metadata, ThreadKey
from langchain_convmem.views.codec import encode_body, encode_metadata, make_draft

__all__ = ["LIVE", "ConvMemStore", "FloorStore", "Store", "Thunk", "file_bytes"]

Thunk = Callable[[], object]

USER_ID = "ana"
LIVE = 40
"""Messages that the floor and the peers are asked for."""
TOKENS = 2000
_BATCH = 1000
_PRAGMAS = ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON")


class Store(Protocol):
    """Threads in one SQLite file, kept by one of the systems."""

    keeps_states: bool
    """Whether the file holds the thread as it was after each write, so that bulk makes another."""

    def fill(self, thread: str, first: int, turns: int) -> None:
        """Add turns in bulk, from exchange `first` on."""
        ...

    def turn(self, thread: str, said: Exchange) -> Thunk:
        """Return a call that stores one turn in two commits; the messages exist before it."""
        ...

    def loads(self, thread: str) -> Mapping[str, Thunk]:
        """Return the ways to load a thread; each returns how many messages it brought."""
        ...

    def close(self) -> None: ...


def file_bytes(path: Path) -> int:
    """Return the size of a SQLite file once its write-ahead log is folded in."""
    db = sqlite3.connect(path)
    try:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        db.close()
    return path.stat().st_size


# -- ours ------------------------------------------------------------------------------------


def _drafts(said: Exchange) -> Iterator[Draft]:
    turn_id = make_ulid()
    yield make_draft(said.user(), turn_id=turn_id)
    yield make_draft(said.reply(), turn_id=turn_id, metadata=Metadata(timing=said.timing()))


class ConvMemStore:
    """`SQLiteLog` behind a `ConversationMemory`."""

    keeps_states = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self.memory = ConversationMemory.open(path)

    def close(self) -> None:
        self.memory.close()

    def fill(self, thread: str, first: int, turns: int) -> None:
        key = ThreadKey(USER_ID, thread)
        step = _BATCH // 2
        for start in range(first, first + turns, step):
            numbers = range(start, min(start + step, first + turns))
            drafts = [draft for number in numbers for draft in _drafts(exchange(number))]
            self.memory.log.append(key, drafts, durable=False)

    def turn(self, thread: str, said: Exchange) -> Thunk:
        log, key = self.memory.log, ThreadKey(USER_ID, thread)
        user, reply, timing = said.user(), said.reply(), said.timing()

        def commit() -> None:
            turn_id = make_ulid()
            log.append(key, [make_draft(user, turn_id=turn_id)])
            log.append(key, [make_draft(reply, turn_id=turn_id, metadata=Metadata(timing=timing))])

        return commit

    def loads(self, thread: str) -> Mapping[str, Thunk]:
        history = self.memory.history(thread, user_id=USER_ID)
        return {
            "2,000 tokens": lambda: len(history.context(max_tokens=TOKENS).messages),
        }


# -- the floor -------------------------------------------------------------------------------

_TABLE = """
CREATE TABLE entries(
  place INTEGER PRIMARY KEY,
  thread BLOB NOT NULL,
  id BLOB NOT NULL,
  turn BLOB,
  role TEXT NOT NULL,
  key_hash INTEGER,
  body TEXT NOT NULL,
  metadata TEXT
)
"""
_INSERT = (
    "INSERT INTO entries(thread, id, turn, role, key_hash, body, metadata) "
    "VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_Row = tuple[bytes, bytes, bytes, str, int, str, str | None]


class FloorStore:
    """One table, one connection, one INSERT a commit."""

    keeps_states = False

    def __init__(self, path: Path) -> None:
        is_new = not path.exists()
        self._db = sqlite3.connect(path, isolation_level=None)
        for pragma in _PRAGMAS:
            self._db.execute(f"PRAGMA {pragma}")
        if is_new:
            self._db.execute(_TABLE)
            self._db.execute("CREATE INDEX entries_by_thread ON entries(thread)")

    def close(self) -> None:
        self._db.close()

    def _rows(self, thread: str, said: Exchange) -> list[_Row]:
        name, turn = thread.encode(), make_ulid().encode()
        rows: list[_Row] = []
        for draft in _drafts(said):
            entry = make_ulid()
            message_id = (draft.message.id if draft.message is not None else None) or entry
            key = hash_message_id(message_id)
            body, metadata = encode_body(draft), encode_metadata(draft.metadata)
            rows.append((name, entry.encode(), turn, draft.role, key, body, metadata))
        return rows

    def fill(self, thread: str, first: int, turns: int) -> None:
        self._db.execute("BEGIN")
        for number in range(first, first + turns):
            self._db.executemany(_INSERT, self._rows(thread, exchange(number)))
        self._db.execute("COMMIT")

    def copy(self, path: Path, thread: str, first: int, turns: int) -> None:
        """Add turns from the file of a `ConvMemStore` that holds nothing else."""
        self._db.execute("ATTACH ? AS log", (str(path),))
        self._db.execute(
            "INSERT INTO main.entries(thread, id, turn, role, key_hash, body, metadata) "
            "SELECT ?, id, turn, role, key_hash, body, metadata FROM log.entries "
            "ORDER BY place LIMIT ? OFFSET ?",
            (thread.encode(), 2 * turns, 2 * first),
        )
        self._db.execute("DETACH log")

    def turn(self, thread: str, said: Exchange) -> Thunk:
        user, reply = self._rows(thread, said)

        def commit() -> None:
            self._db.execute(_INSERT, user)
            self._db.execute(_INSERT, reply)

        return commit

    def loads(self, thread: str) -> Mapping[str, Thunk]:
        asked = "SELECT * FROM entries WHERE thread = ? ORDER BY place DESC LIMIT ?"
        limits = thread.encode(), LIVE
        return {"last 40": lambda: len(self._db.execute(asked, limits).fetchall())}
