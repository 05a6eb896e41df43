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
from contextlib import contextmanager
from pathlib import Path

from langchain_convmem.errors import ConfigError, LogClosedError, LogError, LogUnavailableError
from langchain_convmem.logs.sqlite.schema import check_version, migrate

__all__ = ["Connections"]

_IDLE_LIMIT = 4
_BUSY_TIMEOUT_S = 30.0
_RETRY_PAUSE_S = 0.02
_LASTING = frozenset(
    {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_AUTH}
)
"""Operational errors that another try does not mend; the others are locks, disks and the like."""


class Connections:
    """Hands out connections to `path`; every method is thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._idle: list[sqlite3.Connection] = []
        self._inherited: list[sqlite3.Connection] = []
        self._pool_lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._pid = os.getpid()
        self._closed = False

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection inside a read transaction: one consistent state of the file."""
        with self._translated(), self._borrowed() as db:
            db.execute("BEGIN")
            try:
                yield db
            finally:
                if db.in_transaction:
                    db.execute("COMMIT")

    @contextmanager
    def write(self, *, relaxed: bool = False) -> Iterator[sqlite3.Connection]:
        """Lend a connection inside a write transaction; an exception rolls it back.

        Args:
            relaxed: Do not wait for the disk at commit.
        """
        self._after_fork()
        with self._write_lock, self._translated(), self._borrowed() as db:
            db.execute(f"PRAGMA synchronous = {'NORMAL' if relaxed else 'FULL'}")
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def checkpoint(self) -> None:
        """Fold the write-ahead log into the file, so that erased text leaves it too.

        Raises:
            LogUnavailableError: If another connection reads the old text all the while.
        """
        deadline = time.monotonic() + _BUSY_TIMEOUT_S
        with self._write_lock, self._translated(), self._borrowed() as db:
            while db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                # SQLite does not wait where another process is at the same work.
                if time.monotonic() > deadline:
                    msg = (
                        f"the log on {self.path} is in use: entries are deleted, but their text is "
                        "still in the write-ahead file; forget them again"
                    )
                    raise LogUnavailableError(msg)
                time.sleep(_RETRY_PAUSE_S)

    def close(self) -> None:
        """Close idle connections; those in use close when they come back. Idempotent."""
        self._after_fork()
        with self._pool_lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for db in idle:
            db.close()

    def check_open(self) -> None:
        """Raise `LogClosedError` after `close`."""
        if self._closed:
            raise LogClosedError(f"the log on {self.path} is closed; open it again")

    @contextmanager
    def _borrowed(self) -> Iterator[sqlite3.Connection]:
        self.check_open()
        self._after_fork()
        with self._pool_lock:
            db = self._idle.pop() if self._idle else None
        db = db or self._opened()
        try:
            yield db
        finally:
            self._give_back(db)

    def _give_back(self, db: sqlite3.Connection) -> None:
        with self._pool_lock:
            keep = not self._closed and len(self._idle) < _IDLE_LIMIT
            if keep:
                self._idle.append(db)
        if not keep:
            db.close()

    def _opened(self) -> sqlite3.Connection:
        db = sqlite3.connect(
            self.path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        try:
            check_version(db, path=str(self.path))  # before anything in a foreign file changes
            _use_wal(db)
            db.execute("PRAGMA foreign_keys = ON")
            db.execute("PRAGMA secure_delete = ON")
            migrate(db, path=str(self.path))
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

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            if isinstance(error, sqlite3.OperationalError) and code not in _LASTING:
                msg = f"the log on {self.path} is unavailable: {error}; try again"
                raise LogUnavailableError(msg) from error
            msg = f"the log on {self.path} cannot be used: {error}; check the file and its rights"
            raise LogError(msg) from error
        except UnicodeEncodeError as error:
            msg = f"ids and names must be valid Unicode, got {error.object!r:.80}"
            raise ConfigError(msg) from error


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
