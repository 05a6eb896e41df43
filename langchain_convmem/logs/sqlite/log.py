"""`SQLiteLog`: a message log in one file, for any number of threads and processes.

Every acknowledged write survives a power loss (WAL with `synchronous=FULL`). Positions are the
table's running numbers: SQLite has one writer at a time, so they are the commit order too.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, get_args

from ulid import ULID

from langchain_convmem.errors import ConfigError, LogError
from langchain_convmem.ids import is_ulid, new_ulid, now_ms, ulid_ms
from langchain_convmem.logs.async_twins import AsyncTwins
from langchain_convmem.logs.rows import (
    Row,
    annotated,
    check_scope,
    check_user,
    encode,
    entry_of,
    key_hash,
    message_id_of,
    next_version,
    own_id,
    replacement_control,
    same_payload,
    state_text,
)
from langchain_convmem.logs.sqlite.connections import Connections
from langchain_convmem.logs.sqlite.erasing import (
    drop_empty_owner,
    erase_entries,
    erase_threads,
    raise_epoch,
    threads_of,
)
from langchain_convmem.logs.sqlite.segments import load_segments, save_segments
from langchain_convmem.records import (
    Changes,
    Draft,
    Entry,
    ForgetReceipt,
    Owner,
    Role,
    StateDocument,
    StoredSegment,
    ThreadInfo,
    ThreadKey,
)
from langchain_convmem.views.codec import encode_body, loads
from langchain_convmem.views.live import retracted_ids

__all__ = ["SQLiteLog"]

_ROLES: tuple[Role, ...] = get_args(Role)
_COLUMNS = "e.seq, e.id, e.turn, e.role, e.body, e.metadata"
_OF_OWNER = "JOIN threads t ON e.thread = t.thread WHERE t.owner = ?"


def _pack(name: str) -> bytes | str:
    """Return a ULID as 16 bytes; another name, which a turn may have, stays text."""
    return bytes(ULID.from_str(name).bytes) if is_ulid(name) else name


def _unpack(stored: bytes | str) -> str:
    return stored if isinstance(stored, str) else str(ULID.from_bytes(stored))


def _names(owner: Owner) -> tuple[str, str]:
    return owner.user_id or "", owner.thread_id or ""


def _row(columns: Sequence[Any]) -> Row:
    seq, entry_id, turn, role, body, metadata = columns
    text_id = _unpack(entry_id)
    turn_id = text_id if turn is None else _unpack(turn)
    return Row(text_id, seq, turn_id, _ROLES[role], body, metadata)


class SQLiteLog(AsyncTwins):
    """A message log in a SQLite file; created on first use.

    Safe to share between threads, and to open several times in several processes.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open or create the file.

        Args:
            path: A file in a directory that exists.

        Raises:
            ConfigError: If the path is empty, `:memory:`, a directory or in none.
            SchemaVersionError: If a newer release or another program wrote the file.
            LogError: If the file is no SQLite database, or cannot be opened.
        """
        name = os.fspath(path)
        if not name or name == ":memory:" or "\0" in name:
            raise ConfigError(f"SQLiteLog needs a file, got {path!r}; InMemoryLog() needs none")
        self.path = Path(name).absolute()
        if not self.path.parent.is_dir():
            raise ConfigError(f"there is no directory {self.path.parent}; create it first")
        if self.path.is_dir():
            raise ConfigError(f"{self.path} is a directory; name a file in it")
        self._connections = Connections(self.path)
        with self._connections.read():
            pass  # a file that cannot be used is refused here, not at the first message

    def __repr__(self) -> str:
        return f"SQLiteLog({str(self.path)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; later calls raise `LogClosedError`. Idempotent."""
        self._connections.close()
        self._stop_worker()

    # -- writing --------------------------------------------------------------------------------

    def append(
        self, key: ThreadKey, drafts: Sequence[Draft], *, relaxed: bool = False
    ) -> list[Entry]:
        """Append all drafts in one transaction; see `MessageLog.append`."""
        encoded = encode(drafts)
        self._connections.check_open()
        if not encoded:
            return []
        with self._connections.write(relaxed=relaxed) as db:
            thread = self._made_thread(db, key)
            rows = [self._put(db, thread, *parts) for parts in encoded]
        return [entry_of(key, row) for row in rows]

    def _put(
        self, db: sqlite3.Connection, thread: int, draft: Draft, body: str, metadata: str | None
    ) -> Row:
        message_id = own_id(draft)
        before = None if message_id is None else self._live_with_key(db, thread, message_id)
        if before is None:
            row = Row(new_ulid(), 0, draft.turn_id or "", draft.role, body, metadata)
            return self._insert(db, thread, row, message_id)
        if same_payload(before.body, body):
            return before
        mark_id, entry_id = new_ulid(), new_ulid()
        mark = replacement_control(before.id, entry_id)
        self._insert(db, thread, Row(mark_id, 0, "", mark.role, encode_body(mark), None), None)
        row = Row(entry_id, 0, before.turn_id, draft.role, body, metadata)
        return self._insert(db, thread, row, message_id)

    def _insert(self, db: sqlite3.Connection, thread: int, row: Row, message_id: str | None) -> Row:
        """Store a row; without a turn it is the first of one."""
        turn_id = row.turn_id or row.id
        key = None if row.role == "control" else key_hash(message_id or row.id)
        cursor = db.execute(
            "INSERT INTO entries(thread, id, turn, role, key_hash, body, metadata) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                thread,
                _pack(row.id),
                None if turn_id == row.id else _pack(turn_id),
                _ROLES.index(row.role),
                key,
                row.body,
                row.metadata,
            ),
        )
        return replace(row, turn_id=turn_id, position=int(cursor.lastrowid or 0))

    def _live_with_key(self, db: sqlite3.Connection, thread: int, message_id: str) -> Row | None:
        found = db.execute(
            f"SELECT {_COLUMNS} FROM entries e WHERE thread = ? AND key_hash = ? ORDER BY seq DESC",
            (thread, key_hash(message_id)),
        ).fetchall()
        rows = [row for row in map(_row, found) if message_id_of(row.id, row.body) == message_id]
        if not rows:
            return None
        controls = db.execute(
            f"SELECT {_COLUMNS} FROM entries e WHERE thread = ? AND role = 5 ORDER BY seq",
            (thread,),
        )
        key = ThreadKey(None, "-")  # controls are judged by their ids alone
        dead = retracted_ids([entry_of(key, _row(columns)) for columns in controls])
        return next((row for row in rows if row.id not in dead), None)

    def annotate(
        self,
        key: ThreadKey,
        entry_id: str,
        *,
        attributes: Sequence[str] = (),
        timing: Mapping[str, int] | None = None,
        aux: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Add to an entry's metadata, durably; see `MessageLog.annotate`."""
        with self._connections.write() as db:
            thread = self._thread(db, key)
            found = db.execute(
                f"SELECT {_COLUMNS} FROM entries e WHERE thread = ? AND id = ?",
                (thread, _pack(entry_id)),
            ).fetchone()
            if found is None:
                msg = f"thread {key.thread_id!r} has no entry {entry_id!r}"
                raise LogError(msg, thread_id=key.thread_id)
            row = _row(found)
            text = annotated(row.metadata, attributes=attributes, timing=timing, aux=aux)
            db.execute("UPDATE entries SET metadata = ? WHERE seq = ?", (text, row.position))
        return entry_of(key, Row(row.id, row.position, row.turn_id, row.role, row.body, text))

    # -- reading --------------------------------------------------------------------------------

    def entries(self, key: ThreadKey, *, after: int = 0, last: int | None = None) -> list[Entry]:
        """Return entries in order of position; see `MessageLog.entries`."""
        with self._connections.read() as db:
            found = db.execute(
                f"SELECT {_COLUMNS} FROM entries e WHERE thread = ? AND seq > ? "
                "ORDER BY seq DESC LIMIT ?",
                (self._thread(db, key), after, -1 if last is None else max(last, 0)),
            ).fetchall()
        return [entry_of(key, _row(columns)) for columns in reversed(found)]

    def threads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return a user's threads, latest first; see `MessageLog.threads`."""
        check_user(user_id)
        with self._connections.read() as db:
            found = db.execute(
                "SELECT t.thread_id, count(*), min(e.id), max(e.id) FROM owners o "
                "JOIN threads t ON t.owner = o.owner JOIN entries e ON e.thread = t.thread "
                "WHERE o.user_id = ? GROUP BY t.thread ORDER BY max(e.id) DESC",
                (user_id or "",),
            ).fetchall()
        return [
            ThreadInfo(
                ThreadKey(user_id, thread_id), count, ulid_ms(_unpack(first)), ulid_ms(_unpack(end))
            )
            for thread_id, count, first, end in found
        ]

    def owners(self) -> list[Owner]:
        """Return every user and every thread of no user that has entries."""
        with self._connections.read() as db:
            found = db.execute(
                "SELECT o.user_id, o.lone_thread FROM owners o WHERE EXISTS (SELECT 1 FROM "
                "threads t JOIN entries e ON e.thread = t.thread WHERE t.owner = o.owner)"
            ).fetchall()
        return [Owner(user or None, lone or None) for user, lone in found]

    async def aowners(self) -> list[Owner]:
        """Return the owners, without blocking the event loop."""
        return await self._off_loop(self.owners)

    def changes(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return entries behind the cursor in commit order; see `MessageLog.changes`."""
        with self._connections.read() as db:
            number, generation = self._owner(db, owner)
            found = db.execute(
                f"SELECT t.thread_id, {_COLUMNS} FROM entries e {_OF_OWNER} AND e.seq > ? "
                "ORDER BY e.seq LIMIT ?",
                (number, cursor, -1 if limit is None else max(limit, 0)),
            ).fetchall()
        keys: dict[str, ThreadKey] = {}
        entries = [
            entry_of(keys.setdefault(name, ThreadKey(owner.user_id, name)), _row(columns))
            for name, *columns in found
        ]
        end = entries[-1].position if entries else cursor
        return Changes(tuple(entries), end, generation)

    def _thread(self, db: sqlite3.Connection, key: ThreadKey) -> int | None:
        number, _ = self._owner(db, key.owner)
        asked = "SELECT thread FROM threads WHERE owner = ? AND thread_id = ?"
        found = db.execute(asked, (number, key.thread_id)).fetchone()
        return None if found is None else int(found[0])

    def _made_thread(self, db: sqlite3.Connection, key: ThreadKey) -> int:
        thread = self._thread(db, key)
        if thread is not None:
            return thread
        owner, generation = self._owner(db, key.owner)
        if owner is None:
            insert = "INSERT INTO owners(user_id, lone_thread, generation) VALUES (?, ?, ?)"
            owner = db.execute(insert, (*_names(key.owner), generation)).lastrowid
        insert = "INSERT INTO threads(owner, thread_id) VALUES (?, ?)"
        return int(db.execute(insert, (owner, key.thread_id)).lastrowid or 0)

    def _owner(self, db: sqlite3.Connection, owner: Owner) -> tuple[int | None, int]:
        """Return an owner's number and generation; one without rows is of the newest epoch."""
        found = db.execute(
            "SELECT owner, generation FROM owners WHERE user_id = ? AND lone_thread = ?",
            _names(owner),
        ).fetchone()
        if found is not None:
            return int(found[0]), int(found[1])
        return None, int(db.execute("SELECT forget_epoch FROM meta").fetchone()[0])

    # -- erasing --------------------------------------------------------------------------------

    def forget(
        self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None = None
    ) -> ForgetReceipt:
        """Erase an owner, a thread or some of its entries; see `MessageLog.forget`.

        The freed space is overwritten and the write-ahead log folded in.
        """
        check_scope(scope, entry_ids)
        with self._connections.write() as db:
            owner = scope.owner if isinstance(scope, ThreadKey) else scope
            number, _ = self._owner(db, owner)
            raise_epoch(db, number)
            if isinstance(scope, Owner):
                counts = erase_threads(db, threads_of(db, number))
            elif entry_ids is None:
                thread = self._thread(db, scope)
                counts = erase_threads(db, [] if thread is None else [thread])
            else:
                counts = erase_entries(db, self._thread(db, scope), entry_ids)
            drop_empty_owner(db, number)
        self._connections.checkpoint()
        return replace(counts, at_ms=now_ms())

    # -- state documents ------------------------------------------------------------------------

    def get_state(self, key: ThreadKey, name: str) -> StateDocument | None:
        """Return the document, or None."""
        with self._connections.read() as db:
            found = db.execute(
                "SELECT value, version FROM documents WHERE thread = ? AND name = ?",
                (self._thread(db, key), name),
            ).fetchone()
        return None if found is None else StateDocument(loads(found[0]), found[1])

    def set_state(
        self, key: ThreadKey, name: str, value: Any, *, expected: int | None
    ) -> StateDocument | None:
        """Write the document if its version is `expected`; see `ThreadState.set_state`."""
        text = state_text(value)
        with self._connections.write() as db:
            found = db.execute(
                "SELECT version FROM documents WHERE thread = ? AND name = ?",
                (self._thread(db, key), name),
            ).fetchone()
            if (None if found is None else found[0]) != expected:
                return None
            version = next_version(expected)
            db.execute(
                "INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?)",
                (self._made_thread(db, key), name, version, text),
            )
        return StateDocument(loads(text), version)

    def delete_state(self, key: ThreadKey, name: str) -> None:
        """Delete the document if there is one."""
        with self._connections.write() as db:
            db.execute(
                "DELETE FROM documents WHERE thread = ? AND name = ?",
                (self._thread(db, key), name),
            )

    # -- segments -------------------------------------------------------------------------------

    def load_segments(
        self, owner: Owner, fingerprint: str, *, after: int = 0
    ) -> list[StoredSegment]:
        """Return the owner's rows, in order; see `SegmentCache.load_segments`."""
        with self._connections.read() as db:
            return load_segments(db, self._owner(db, owner)[0], fingerprint, after)

    def save_segments(self, owner: Owner, fingerprint: str, rows: Iterable[StoredSegment]) -> None:
        """Add or overwrite rows; see `SegmentCache.save_segments`.

        They can be made again, so the disk is not waited for.
        """
        with self._connections.write(relaxed=True) as db:
            save_segments(db, self._owner(db, owner)[0], fingerprint, rows)
