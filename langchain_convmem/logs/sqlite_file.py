"""The file of a SQLite log: its schema, its connections, and how rows lie in it.

Connections form a small pool, safe across threads and forks. Readers and the writer each borrow
one; in WAL mode they do not block each other. A connection inherited through a fork is never used
nor closed: closing it would release locks that the parent still holds.

The schema is a list of numbered migrations: append to it, never edit what has shipped.

meta      one row: the epoch that every `forget` raises, and the highest position that entries had
          when the last one began: no position is given twice; unnumbered, the last position whose
          entry has an id that does not tell it
owners    a user, or a thread of no user; generation = epoch of its last `forget`
threads   one row per (owner, thread_id)
entries   seq is position and commit order in one; key_hash finds a message's id, and an entry's
          own id tells its position. As its primary key, seq stands after the columns of every
          index anyway
documents small JSON documents of a thread, with a version for compare-and-set
segments  what recall derived from lines; rebuildable, gone with its entry
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NoReturn, get_args

from langchain_convmem.errors import (
    ConfigError,
    CorruptEntryError,
    LogClosedError,
    LogError,
    LogUnavailableError,
    SchemaVersionError,
)
from langchain_convmem.ids import decode_ulid, encode_ulid, get_ulid_number, is_ulid
from langchain_convmem.logs.base import Row
from langchain_convmem.records import Role

_IDLE_LIMIT = 4
_PAGE_BYTES = 8192
"""Of a new file: twice the usual. What stays free after the last message of a page is a smaller
share of it, and a commit takes no longer."""
_BUSY_TIMEOUT_S = 30.0
_RETRY_PAUSE_S = 0.02
_CHECKPOINT_PATIENCE_S = 0.2
_LASTING = frozenset(
    {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_AUTH}
)
"""Operational errors that another try does not fix; the others are locks, disks and the like."""


class _SQLiteConnection(sqlite3.Connection):
    """A connection that knows whether its commits wait for the disk; at first, nobody does."""

    is_durable: bool | None = None


class SQLiteConnections:
    """Hands out connections to `path`; every method is thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._errors = _ErrorTranslator(path)
        self._idle: list[_SQLiteConnection] = []
        self._inherited: list[_SQLiteConnection] = []
        self._pool_lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._pid = os.getpid()
        self._closed = False

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection inside a read transaction: one consistent state of the file."""
        with self._errors:
            db = self._take()
            try:
                db.execute("BEGIN")
                yield db
            finally:
                _end(db, "COMMIT")
                self._give_back(db)

    @contextmanager
    def read_apart(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection of its own inside a read transaction that has begun.

        For what takes long, or changes how the connection reads; it is closed after the block.
        """
        self.check_open()
        with self._errors, closing(self._open()) as db:
            db.execute("BEGIN")
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            yield db

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """Lend a connection inside a write transaction; an exception rolls it back.

        Args:
            durable: Wait for the disk at commit.
        """
        self._renew_after_fork()
        with self._write_lock, self._errors:
            db = self._take()
            try:
                if db.is_durable is not durable:
                    db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                    db.is_durable = durable
                db.execute("BEGIN IMMEDIATE")
                yield db
                db.execute("COMMIT")
            finally:
                _end(db, "ROLLBACK")
                self._give_back(db)

    def fold_wal(self) -> None:
        """Fold the write-ahead log into the file, so that erased text leaves it too.

        Raises:
            LogUnavailableError: If another connection reads the old text all the while.
        """
        deadline = time.monotonic() + _BUSY_TIMEOUT_S
        while not self._fold():
            if time.monotonic() > deadline:
                msg = (
                    f"the log on {self.path} is in use: entries are deleted, but their text is "
                    "still in the write-ahead file; forget them again"
                )
                raise LogUnavailableError(msg)
            time.sleep(_RETRY_PAUSE_S)

    def _fold(self) -> bool:
        """Try once. While SQLite waits here for a reader, nobody can write: so not for long."""
        with self._write_lock, self._errors, self._borrow() as db:
            _set_patience(db, min(_CHECKPOINT_PATIENCE_S, _BUSY_TIMEOUT_S))
            try:
                return not db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            finally:
                _set_patience(db, _BUSY_TIMEOUT_S)

    def close(self) -> None:
        """Close idle connections; those in use close when they come back. Idempotent."""
        self._renew_after_fork()
        with self._pool_lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for db in idle:
            db.close()

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def check_open(self) -> None:
        """Raise `LogClosedError` after `close`."""
        if self._closed:
            raise LogClosedError(f"the log on {self.path} is closed; open it again")

    @contextmanager
    def _borrow(self) -> Iterator[_SQLiteConnection]:
        db = self._take()
        try:
            yield db
        finally:
            self._give_back(db)

    def _take(self) -> _SQLiteConnection:
        self.check_open()
        self._renew_after_fork()
        with self._pool_lock:
            db = self._idle.pop() if self._idle else None
        return db or self._open()

    def _give_back(self, db: _SQLiteConnection) -> None:
        with self._pool_lock:
            keep = not self._closed and len(self._idle) < _IDLE_LIMIT
            if keep:
                self._idle.append(db)
        if not keep:
            db.close()

    def _open(self) -> _SQLiteConnection:
        db = sqlite3.connect(
            self.path,
            timeout=_BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
            factory=_SQLiteConnection,
        )
        try:
            check_version(db, path=str(self.path))  # before anything in a foreign file changes
            db.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            _use_wal(db)
            db.execute("PRAGMA secure_delete = ON")
            migrate(db, path=str(self.path))
            db.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            db.close()
            raise
        return db

    def _renew_after_fork(self) -> None:
        if self._pid == os.getpid():
            return
        self._inherited.extend(self._idle)
        self._idle = []
        # The parent's threads, which might hold these locks, do not exist in the child.
        self._pool_lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._pid = os.getpid()


class _ErrorTranslator:
    """Turns what SQLite raises in its block into our errors; may be entered many times at once."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.DatabaseError):
            raise self._translate(error) from error
        if isinstance(error, UnicodeEncodeError):
            msg = f"ids and names must be valid Unicode, got {error.object!r:.80}"
            raise ConfigError(msg) from error
        if isinstance(error, UnicodeDecodeError):
            # What SQLite says of a damaged schema quotes it.
            msg = f"the log on {self._path} is damaged; restore it from a backup"
            raise LogError(msg) from error

    def _translate(self, error: sqlite3.DatabaseError) -> LogError:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if isinstance(error, sqlite3.OperationalError) and code not in _LASTING:
            msg = f"the log on {self._path} is unavailable: {error}; try again"
            return LogUnavailableError(msg)
        return LogError(
            f"the log on {self._path} cannot be used: {error}; check the file and its rights"
        )


def _set_patience(db: sqlite3.Connection, seconds: float) -> None:
    db.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")


def _end(db: sqlite3.Connection, how: str) -> None:
    """End a transaction that is still open: some errors of SQLite end it themselves."""
    if db.in_transaction:
        db.execute(how)


def _use_wal(db: sqlite3.Connection) -> None:
    """Put a new file into WAL mode, where it stays; others may be doing the same right now."""
    deadline = time.monotonic() + _BUSY_TIMEOUT_S
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # SQLite does not wait for its own lock here, whatever the timeout.
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_PAUSE_S)
        else:
            return


# -- rows ---------------------------------------------------------------------------------------

ROLES: tuple[Role, ...] = get_args(Role)
"""A role's place here is its number in the file."""

COLUMNS = "e.seq, e.id, e.turn, e.role, e.body, e.metadata"
"""What `find_row` takes, of the table `entries e`."""

_ROLE_OF = dict(enumerate(ROLES))


def pack_name(name: str) -> bytes | str:
    """Return a ULID as 16 bytes; another name, which a turn may have, stays text."""
    return encode_ulid(name) if is_ulid(name) else name


def unpack_name(stored: bytes | str) -> str:
    """Return the name that `pack` took.

    Raises:
        ValueError: If it is neither text nor 16 bytes.
    """
    return stored if isinstance(stored, str) else decode_ulid(stored)


def read_row(columns: Sequence[Any], thread_id: str) -> Row:
    """Return the row of `COLUMNS`.

    Raises:
        CorruptEntryError: If one of them holds what no row can.
    """
    seq, entry_id, turn, role, body, metadata = columns
    try:
        text_id = decode_ulid(entry_id)
        turn_id = text_id if turn is None else unpack_name(turn)
        if not isinstance(body, str):
            _refuse_body(body)
        return Row(text_id, seq, turn_id, _ROLE_OF[role], body, metadata)
    except (TypeError, ValueError, LookupError) as error:
        msg = (
            f"entry {seq} of thread {thread_id!r} has damaged columns ({error!r}); "
            "restore it from a backup"
        )
        raise CorruptEntryError(msg, thread_id=thread_id, position=seq) from error


def _refuse_body(value: object) -> NoReturn:
    msg = f"a body is text, got {type(value).__name__}"
    raise TypeError(msg)


def write_row(row: Row, key_hash: int | None) -> tuple[Any, ...]:
    """Return (id, turn, role, key_hash, body, metadata) of a row.

    An entry that opens its turn stores no turn.
    """
    return (
        encode_ulid(row.id),
        None if row.turn_id == row.id else pack_name(row.turn_id),
        ROLES.index(row.role),
        key_hash,
        row.body,
        row.metadata,
    )


def find_position(db: sqlite3.Connection, thread: int | None, entry_id: str) -> int | None:
    """Return where a thread's entry of this id is, or None."""
    if not is_ulid(entry_id):
        return None
    packed = encode_ulid(entry_id)
    found = db.execute(
        "SELECT seq FROM entries WHERE seq = ? AND thread = ? AND id = ?",
        (get_ulid_number(entry_id), thread, packed),
    ).fetchone()
    if found is None:
        found = db.execute(
            "SELECT seq FROM entries WHERE thread = ? AND id = ? "
            "AND seq <= (SELECT unnumbered FROM meta)",
            (thread, packed),
        ).fetchone()
    return None if found is None else int(found[0])


# -- the schema ---------------------------------------------------------------------------------

APPLICATION_ID = 0x434D454D  # "CMEM": tells our files from other SQLite databases

_M001 = """
CREATE TABLE meta(one INTEGER PRIMARY KEY CHECK (one = 1), forget_epoch INTEGER NOT NULL);
INSERT INTO meta VALUES (1, 0);
CREATE TABLE owners(
  owner INTEGER PRIMARY KEY,
  user_id TEXT NOT NULL,
  lone_thread TEXT NOT NULL,
  generation INTEGER NOT NULL,
  UNIQUE (user_id, lone_thread)
);
CREATE TABLE threads(
  thread INTEGER PRIMARY KEY,
  owner INTEGER NOT NULL REFERENCES owners ON DELETE CASCADE,
  thread_id TEXT NOT NULL,
  UNIQUE (owner, thread_id)
);
CREATE TABLE entries(
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  thread INTEGER NOT NULL REFERENCES threads ON DELETE CASCADE,
  id BLOB NOT NULL,
  turn BLOB,
  role INTEGER NOT NULL,
  key_hash INTEGER,
  body TEXT NOT NULL,
  metadata TEXT
);
CREATE INDEX entries_by_thread ON entries(thread);
CREATE INDEX entries_by_key ON entries(thread, key_hash) WHERE key_hash IS NOT NULL;
CREATE INDEX entries_by_id ON entries(thread, id);
CREATE INDEX entries_control ON entries(thread) WHERE role = 5;
CREATE TABLE documents(
  thread INTEGER NOT NULL REFERENCES threads ON DELETE CASCADE,
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (thread, name)
) WITHOUT ROWID;
CREATE TABLE fingerprints(fingerprint INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE segments(
  seq INTEGER NOT NULL REFERENCES entries ON DELETE CASCADE,
  part INTEGER NOT NULL,
  segment INTEGER NOT NULL,
  fingerprint INTEGER NOT NULL REFERENCES fingerprints,
  terms TEXT NOT NULL,
  vector BLOB,
  UNIQUE (seq, part, segment, fingerprint)
);
"""

# AUTOINCREMENT writes a table of its own, one more page at every commit, where only `forget` has
# anything to remember. SQLite cannot take it away but by a new table.
_M002 = """
CREATE TABLE new_entries(
  seq INTEGER PRIMARY KEY,
  thread INTEGER NOT NULL REFERENCES threads ON DELETE CASCADE,
  id BLOB NOT NULL,
  turn BLOB,
  role INTEGER NOT NULL,
  key_hash INTEGER,
  body TEXT NOT NULL,
  metadata TEXT
);
INSERT INTO new_entries SELECT seq, thread, id, turn, role, key_hash, body, metadata FROM entries;
ALTER TABLE meta ADD COLUMN position_floor INTEGER NOT NULL DEFAULT 0;
UPDATE meta SET position_floor =
  coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'entries'), 0);
DROP TABLE entries;
ALTER TABLE new_entries RENAME TO entries;
CREATE INDEX entries_by_thread ON entries(thread);
CREATE INDEX entries_by_key ON entries(thread, key_hash) WHERE key_hash IS NOT NULL;
CREATE INDEX entries_by_id ON entries(thread, id);
CREATE INDEX entries_control ON entries(thread) WHERE role = 5;
"""

# An index of ids is one more page at every commit and 29 bytes for every entry, and is hardly ever
# asked. New ids tell their position; those of before are looked for in their thread.
_M003 = """
ALTER TABLE meta ADD COLUMN unnumbered INTEGER NOT NULL DEFAULT 0;
UPDATE meta SET unnumbered = coalesce((SELECT max(seq) FROM entries), 0);
DROP INDEX entries_by_id;
"""

# Terms go by the version of their analysis and vectors by embedder and cut, so that a new analysis
# sends no line to an embedder again.
_M004 = """
ALTER TABLE segments ADD COLUMN analysis INTEGER NOT NULL DEFAULT 1;
UPDATE fingerprints SET name = replace(name, '/terms-1/', '/');
"""

MIGRATIONS: tuple[str, ...] = (_M001, _M002, _M003, _M004)
"""Script n brings a file from version n to n + 1."""


def migrate(db: sqlite3.Connection, *, path: str) -> None:
    """Bring an open database to the newest schema, in one transaction.

    The connection must not enforce foreign keys yet: a table that makes way for a new one would
    take along what refers to it.

    Raises:
        SchemaVersionError: If a newer release wrote the file, or another program did.
    """
    if check_version(db, path=path) == len(MIGRATIONS):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have migrated while this one waited for the lock.
        for script in MIGRATIONS[_read_version(db, path) :]:
            _run(db, script)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _run(db: sqlite3.Connection, script: str) -> None:
    for statement in script.split(";"):  # executescript() would commit first
        db.execute(statement)


def check_version(db: sqlite3.Connection, *, path: str) -> int:
    """Return the file's schema version; 0 for an empty file. Writes nothing.

    Raises:
        SchemaVersionError: If a newer release wrote the file, or another program did.
    """
    db.execute("BEGIN")  # one state of the file, also while another process creates it
    try:
        return _read_version(db, path)
    finally:
        if db.in_transaction:
            db.execute("COMMIT")


def _read_version(db: sqlite3.Connection, path: str) -> int:
    application = db.execute("PRAGMA application_id").fetchone()[0]
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if application != APPLICATION_ID and (tables or application or version):
        msg = f"{path} is a SQLite database of another program; choose another file"
        raise SchemaVersionError(msg, found=version, supported=len(MIGRATIONS))
    if version > len(MIGRATIONS):
        msg = (
            f"{path} has schema version {version}, this release supports up to "
            f"{len(MIGRATIONS)}; upgrade langchain-convmem"
        )
        raise SchemaVersionError(msg, found=version, supported=len(MIGRATIONS))
    return version


def list_objects(db: sqlite3.Connection) -> dict[str, str]:
    """Return the SQL of every table and index by its name, SQLite's own left out."""
    found = db.execute(
        "SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!'"
    )
    return dict(found.fetchall())


def list_expected_objects() -> dict[str, str]:
    """Return what `objects` does for a file of the newest schema."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        for script in MIGRATIONS:
            _run(db, script)
        return list_objects(db)
