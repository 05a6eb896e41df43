"""Connections to one SQLite file: a small pool, safe across threads and forks.

Readers and the writer each borrow a connection; in WAL mode they do not block each other. A
connection inherited through a fork is never used nor closed: closing it would release locks that
the parent still holds.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from langchain_convmem.errors import ConfigError, LogClosedError, LogError, LogUnavailableError
from langchain_convmem.logs.sqlite.schema import check_version, migrate

__all__ = ["Connections"]

_IDLE_LIMIT = 4
_PAGE_BYTES = 8192
"""Of a new file: twice the usual. What stays free behind the last message of a page is a smaller
share of it, and a commit takes no longer."""
_BUSY_TIMEOUT_S = 30.0
_RETRY_PAUSE_S = 0.02
_CHECKPOINT_PATIENCE_S = 0.2
_LASTING = frozenset(
    {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_AUTH}
)
"""Operational errors that another try does not mend; the others are locks, disks and the like."""


class _Connection(sqlite3.Connection):
    """A connection that knows whether its commits wait for the disk; at first, nobody does."""

    is_relaxed: bool | None = None


class Connections:
    """Hands out connections to `path`; every method is thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._translated = _Translated(path)
        self._idle: list[_Connection] = []
        self._inherited: list[_Connection] = []
        self._pool_lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._pid = os.getpid()
        self._closed = False

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection inside a read transaction: one consistent state of the file."""
        with self._translated:
            db = self._taken()
            try:
                db.execute("BEGIN")
                yield db
            finally:
                _end(db, "COMMIT")
                self._give_back(db)

    @contextmanager
    def read_apart(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection of its own inside a read transaction that has begun.

        For what takes long, or changes how the connection reads; it is closed behind the block.
        """
        self.check_open()
        with self._translated, closing(self._opened()) as db:
            db.execute("BEGIN")
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            yield db

    @contextmanager
    def write(self, *, relaxed: bool = False) -> Iterator[sqlite3.Connection]:
        """Lend a connection inside a write transaction; an exception rolls it back.

        Args:
            relaxed: Do not wait for the disk at commit.
        """
        self._after_fork()
        with self._write_lock, self._translated:
            db = self._taken()
            try:
                if db.is_relaxed is not relaxed:
                    db.execute(f"PRAGMA synchronous = {'NORMAL' if relaxed else 'FULL'}")
                    db.is_relaxed = relaxed
                db.execute("BEGIN IMMEDIATE")
                yield db
                db.execute("COMMIT")
            finally:
                _end(db, "ROLLBACK")
                self._give_back(db)

    def checkpoint(self) -> None:
        """Fold the write-ahead log into the file, so that erased text leaves it too.

        Raises:
            LogUnavailableError: If another connection reads the old text all the while.
        """
        deadline = time.monotonic() + _BUSY_TIMEOUT_S
        while not self._folded():
            if time.monotonic() > deadline:
                msg = (
                    f"the log on {self.path} is in use: entries are deleted, but their text is "
                    "still in the write-ahead file; forget them again"
                )
                raise LogUnavailableError(msg)
            time.sleep(_RETRY_PAUSE_S)

    def _folded(self) -> bool:
        """Try once. While SQLite waits here for a reader, nobody can write: so not for long."""
        with self._write_lock, self._translated, self._borrowed() as db:
            _set_patience(db, min(_CHECKPOINT_PATIENCE_S, _BUSY_TIMEOUT_S))
            try:
                return not db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            finally:
                _set_patience(db, _BUSY_TIMEOUT_S)

    def close(self) -> None:
        """Close idle connections; those in use close when they come back. Idempotent."""
        self._after_fork()
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
    def _borrowed(self) -> Iterator[_Connection]:
        db = self._taken()
        try:
            yield db
        finally:
            self._give_back(db)

    def _taken(self) -> _Connection:
        self.check_open()
        self._after_fork()
        with self._pool_lock:
            db = self._idle.pop() if self._idle else None
        return db or self._opened()

    def _give_back(self, db: _Connection) -> None:
        with self._pool_lock:
            keep = not self._closed and len(self._idle) < _IDLE_LIMIT
            if keep:
                self._idle.append(db)
        if not keep:
            db.close()

    def _opened(self) -> _Connection:
        db = sqlite3.connect(
            self.path,
            timeout=_BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
            factory=_Connection,
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

    def _after_fork(self) -> None:
        if self._pid == os.getpid():
            return
        self._inherited.extend(self._idle)
        self._idle = []
        # The parent's threads, which might hold these locks, do not exist in the child.
        self._pool_lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._pid = os.getpid()


class _Translated:
    """Turns what SQLite raises in its block into our errors; may be entered many times at once."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.DatabaseError):
            raise self._ours(error) from error
        if isinstance(error, UnicodeEncodeError):
            msg = f"ids and names must be valid Unicode, got {error.object!r:.80}"
            raise ConfigError(msg) from error
        if isinstance(error, UnicodeDecodeError):
            # What SQLite says of a damaged schema quotes it.
            msg = f"the log on {self._path} is damaged; restore it from a backup"
            raise LogError(msg) from error

    def _ours(self, error: sqlite3.DatabaseError) -> LogError:
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
