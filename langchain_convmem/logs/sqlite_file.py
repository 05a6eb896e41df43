"""The file of a SQLite log: its schema, its connections, and how rows lie in it.

Connections form a small pool, safe across threads and forks. Readers and the writer each borrow
one; in WAL mode they do not block each other. SQLite's locks belong to a process and a file, and
SQLite notes in memory which it holds. A child that inherits these notes believes to hold locks
that it does not, and what it writes is lost when the parent closes. So all connections are closed
before a fork, and opened anew on demand. Where one is in use all the same, the child refuses.

meta      one row: the epoch that every `forget` raises, and the highest position that entries had
          when the last one began: no position is given twice; key_id, of the key that signs, if
          there is one
owners    a user, or a thread of no user; generation = epoch of its last `forget`
threads   one row per (owner, thread_id)
entries   seq is position and commit order in one; key_hash finds a message's id, and an entry's
          own id tells its position. As its primary key, seq stands after the columns of every
          index anyway
documents small JSON documents of a thread, with a version for compare-and-set
segments  what recall derived from lines; rebuildable, gone with its entry
snapshots whole indexes of recall as bytes, in pieces; rebuildable, gone with whatever is forgotten
          of their owner
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, closing, contextmanager
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, Self, TypeAlias, get_args

from langchain_convmem.causes import describe_value
from langchain_convmem.errors import (
    ConfigError,
    LogClosedError,
    LogError,
    LogUnavailableError,
    SchemaVersionError,
)
from langchain_convmem.forks import FORKS, make_lock
from langchain_convmem.ids import decode_ulid, encode_ulid, get_ulid_number, is_ulid
from langchain_convmem.logs.base import Row
from langchain_convmem.records import Role

_IDLE_LIMIT = 4
_OPENED_AT_MOST = 3
"""How often a connection is opened, where the file is replaced meanwhile."""
_PAGE_BYTES = 8192
"""Of a new file: twice the usual. What stays free after the last message of a page is a smaller
share of it, and a commit takes no longer."""
BUSY_TIMEOUT_S = 30.0
_RETRY_PAUSE_S = 0.02
_CHECKPOINT_PATIENCE_S = 0.2
FINE_QUIET_NS = 100_000_000
QUIET_NS = 3_000_000_000
"""How long nothing has changed in a folder whose next change is certain to show: more than the
coarsest clock of a file system."""
_LASTING = frozenset(
    {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_AUTH}
)
"""Operational errors that another try does not fix; the others are locks, disks and the like."""


class SQLiteConnections:
    """Hands out connections to `path`; every method is thread-safe.

    What is read is the file that is under the path now, and a commit counts if database and
    write-ahead file are still those that were opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._name = os.fspath(path)
        self._folder = os.fspath(path.parent)
        self.errors = _ErrorTranslator(path)
        self._idle: list[_SQLiteConnection] = []
        self.loans: set[_Loan] = set()
        self._write_lock = threading.Lock()
        self._closed = False
        self._file: _File | None = None
        self.replacements = 0
        """How often another file was found under the path than the one before."""
        FORKS.add(self)

    def read(self) -> AbstractContextManager[sqlite3.Connection]:
        """Lend a connection inside a read transaction: one consistent state of the file."""
        return _Reading(self)

    def read_once(self) -> AbstractContextManager[sqlite3.Connection]:
        """Lend a connection for one statement, which sees one state of the file by itself.

        Whoever needs a second one begins a transaction and reads the first again.
        """
        return _ReadingOnce(self)

    @contextmanager
    def read_apart(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection of its own inside a read transaction that has begun.

        For what takes long, or changes how the connection reads; it is closed after the block.
        """
        with _Borrowing(self) as loan:
            loan.is_apart = True
            db = loan.db = self._open()
            db.execute("BEGIN")
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            yield db

    def write(self, *, durable: bool = True) -> AbstractContextManager[sqlite3.Connection]:
        """Lend a connection inside a write transaction; an exception rolls it back.

        Args:
            durable: Wait for the disk at commit.

        Raises:
            LogUnavailableError: If the file was replaced meanwhile; then nothing is acknowledged.
        """
        return _Writing(self, self._write_lock, durable=durable)

    def fold_wal(self) -> None:
        """Fold the write-ahead log into the file, so that erased text leaves it too.

        Raises:
            LogUnavailableError: If another connection reads the old text all the while, or the disk
                is full.
        """
        try:
            self._fold_in_time()
        except LogUnavailableError as error:
            msg = (
                f"the log on {self.path} is in use, or its disk is full: entries are deleted, but "
                "their text is still in the write-ahead file; forget them again"
            )
            raise LogUnavailableError(msg) from error

    def _fold_in_time(self) -> None:
        deadline = time.monotonic() + BUSY_TIMEOUT_S
        while not self._fold():
            if time.monotonic() > deadline:
                raise LogUnavailableError(f"the log on {self.path} is in use")
            time.sleep(_RETRY_PAUSE_S)

    def reuse_wal(self) -> None:
        """Let the next write begin at the start of the write-ahead file, which then need not grow.

        Raises:
            LogUnavailableError: If the disk is too full even to fold in what was written before.
        """
        self._fold("RESTART")

    def _fold(self, how: str = "TRUNCATE") -> bool:
        """Try once. While SQLite waits here for a reader, nobody can write: so not for long."""
        with _Borrowing(self) as loan, self._write_lock:
            db = self.take(loan)
            _set_patience(db, min(_CHECKPOINT_PATIENCE_S, BUSY_TIMEOUT_S))
            try:
                return not db.execute(f"PRAGMA wal_checkpoint({how})").fetchone()[0]
            finally:
                _set_patience(db, BUSY_TIMEOUT_S)

    def close(self) -> None:
        """Close idle connections; those in use close when they come back. Idempotent."""
        with FORKS.hold():
            self._closed = True
            self._close_idle()

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def check_open(self) -> None:
        """Raise `LogClosedError` after `close`."""
        if self._closed:
            raise LogClosedError(f"the log on {self.path} is closed; open it again")

    # -- lending --------------------------------------------------------------------------------

    def take(self, loan: _Loan, *, writes: bool = False) -> _SQLiteConnection:
        """Lend a connection to the file that is under the path now.

        Who writes is told after the commit whether it was.
        """
        try:
            db = self._idle.pop()
        except IndexError:
            db = self._open()
        else:
            # Whoever writes looks after the commit.
            if not writes and db.files[0] != _find_file(self._name):
                self._retire(db)
                self._close_idle()
                db = self._open()
        loan.db = db
        return db

    def take_back(self, loan: _Loan) -> None:
        """Keep a connection for the next loan, or close it."""
        db = loan.db
        if db is None:
            return
        if db.in_transaction:
            db.execute("ROLLBACK")
        if loan.is_apart or self._closed or len(self._idle) >= _IDLE_LIMIT:
            self._shut(db)
        else:
            self._idle.append(db)

    def check_commit(self, loan: _Loan, db: _SQLiteConnection) -> None:
        """Refuse a commit to files that are no longer those under the path."""
        if db.is_still_current(self._name, self._folder):
            return
        loan.db = None
        self._retire(db)
        self._close_idle()
        msg = (
            f"the file of the log on {self.path} was replaced while it was written: the write is "
            "not acknowledged; try again"
        )
        raise LogUnavailableError(msg)

    # -- opening and closing --------------------------------------------------------------------

    def _open(self) -> _SQLiteConnection:
        for _ in range(_OPENED_AT_MOST):
            place = os.path.realpath(self.path)
            _create_file(place)
            before = _find_file(place)
            self._check_usable(before)
            db = self._connect()
            db.wal_path = f"{place}-wal"
            db.files = before, _find_file(db.wal_path)
            if db.is_current(self._name):
                self.replacements += self._file not in (None, before)
                self._file = before
                return db
            db.close()  # as in `_retire`
        msg = f"the file of the log on {self.path} is replaced again and again; try again later"
        raise LogUnavailableError(msg)

    def _connect(self) -> _SQLiteConnection:
        db = sqlite3.connect(
            self.path,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
            factory=_SQLiteConnection,
        )
        try:
            check_version(db, path=str(self.path))  # before anything in a foreign file changes
            db.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            _use_wal(db)
            db.execute("PRAGMA secure_delete = ON")
            create_schema(db, path=str(self.path))
            db.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            db.close()
            raise
        return db

    def _check_usable(self, file: _File | None) -> None:
        for unusable in (None, file):
            if unusable in _UNUSABLE:
                raise LogError(f"the log on {self.path} cannot be used: {_UNUSABLE[unusable]}")

    def _close_idle(self) -> None:
        while self._idle:
            self._shut(self._idle.pop())

    def _shut(self, db: _SQLiteConnection) -> None:
        if db.is_current(self._name):
            db.close()
        else:
            self._retire(db)

    def _retire(self, db: _SQLiteConnection) -> None:
        """Let go of a connection whose file is no longer the one under the path.

        Where that is another database, SQLite sees it too and touches nothing under the path. Where
        the write-ahead file alone is another, it would fold the old one into the database.
        """
        file, _ = db.files
        if file is None or _find_file(self._name) != file:
            db.close()
        else:
            _UNUSABLE[file] = _WAL_REPLACED
            _abandon(db)

    # -- forks ----------------------------------------------------------------------------------

    def prepare_fork(self) -> None:
        """Close every connection that is not lent: what SQLite knows of locks is not inherited."""
        self._close_idle()

    def begin_in_child(self) -> None:
        """Begin with locks and connections of its own; what was inherited makes files unusable."""
        loans, self.loans = self.loans, set()
        idle, self._idle = self._idle, []
        self._write_lock = threading.Lock()
        thread = threading.get_ident()
        for db in (*idle, *(loan.db for loan in loans)):
            if db is not None:
                _UNUSABLE[db.files[0]] = _FORKED
                _abandon(db)
        for loan in loans:
            if loan.thread != thread:
                _UNUSABLE[None] = _FORKED  # SQLite may have been cut short, with its locks held
            elif loan.db is not None:
                _forbid_use(loan.db)


_File: TypeAlias = tuple[int, int]
"""Which file it is, whatever it is called: its device, and its number there."""

_FORKED = (
    "this process was forked while the log was in use; open it after the fork, or fork while "
    "nothing reads or writes it"
)
_WAL_REPLACED = (
    "its write-ahead file was deleted or replaced while this process had it open; end the process, "
    "and check the file with `convmem verify`"
)
_UNUSABLE: dict[_File | None, str] = {}
"""Files that this process must not open, and why; None is every file. A new connection would rely
on what SQLite notes, per process and file, of locks that are not this process's own."""

_ABANDONED: list[sqlite3.Connection] = []
_CREATING = make_lock()


class _SQLiteConnection(sqlite3.Connection):
    """A connection that knows which files it has open."""

    is_durable: bool | None = None
    """Whether its commits wait for the disk; at first, nobody knows."""
    files: tuple[_File | None, _File | None] = (None, None)
    """The database and its write-ahead file, as they were opened."""
    wal_path = ""
    _quiet_folder: tuple[int, int, int] | None = None
    """The folder as it was when these files were found under their names, if that proves it."""

    def is_current(self, path: str) -> bool:
        """Whether the files that it has open are those under their names.

        They are not opened to see that: closing a database file would drop this process's locks.
        """
        return self.files == (_find_file(path), _find_file(self.wal_path))

    def is_still_current(self, path: str, folder: str) -> bool:
        """Return what `is_current` does, after every commit: mostly by one look instead of two.

        No file of a folder is replaced unless the folder changes.
        """
        stamp = _stamp_folder(folder)
        if stamp is not None and stamp == self._quiet_folder:
            return True
        if not self.is_current(path):
            return False
        self._quiet_folder = stamp if _is_quiet(stamp) and not Path(path).is_symlink() else None
        return True


class _Loan:
    """A connection in somebody's hands for a block, or about to be opened for them.

    No fork cuts the block in two, if that can be. If it does, the block fails in the child.
    """

    __slots__ = ("db", "is_apart", "pid", "pool", "thread")

    def __init__(self, pool: SQLiteConnections) -> None:
        self.pool = pool
        self.db: _SQLiteConnection | None = None
        self.is_apart = False

    def begin(self) -> None:
        """Go inside; nobody may have closed the pool."""
        pool = self.pool
        pool.check_open()
        self.thread = FORKS.enter()
        self.pid = FORKS.pid
        pool.loans.add(self)

    def end(self, error: BaseException | None) -> None:
        """Give back what was lent, and raise what an error means for a caller."""
        pool = self.pool
        try:
            if self.pid == os.getpid():
                pool.take_back(self)
            elif error is None or isinstance(error, sqlite3.Error):
                raise self._make_error() from error
        except sqlite3.Error as failed:
            pool.errors.translate(failed)
            raise
        finally:
            pool.loans.discard(self)
            FORKS.leave(self.thread)
        if error is not None:
            pool.errors.translate(error)

    def check_process(self) -> None:
        """Refuse to commit in a forked child: two processes would end one transaction."""
        if self.pid != os.getpid():
            raise self._make_error()

    def end_transaction(self) -> None:
        """Roll back what is still open: some errors of SQLite end it themselves."""
        if self.db is not None and self.db.in_transaction and self.pid == os.getpid():
            self.db.execute("ROLLBACK")

    def _make_error(self) -> LogError:
        return LogError(f"the log on {self.pool.path} cannot be used: {_FORKED}")


class _Borrowing(_Loan):
    """A loan for a block, which takes what it needs."""

    __slots__ = ()

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.end(error)


class _Reading(_Loan):
    """A read transaction for a block. As a generator, it would take half as long again."""

    __slots__ = ()

    def __enter__(self) -> sqlite3.Connection:
        self.begin()
        try:
            db = self.pool.take(self)
            db.execute("BEGIN")
        except BaseException as error:
            self.end(error)
            raise
        return db

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.end(error)


class _ReadingOnce(_Loan):
    """A read outside a transaction, whose begin and end would take as long as the reading."""

    __slots__ = ()

    def __enter__(self) -> sqlite3.Connection:
        self.begin()
        try:
            return self.pool.take(self)
        except BaseException as error:
            self.end(error)
            raise

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.end(error)


class _Writing(_Loan):
    """A write transaction for a block, of one thread at a time."""

    __slots__ = ("_durable", "_lock")

    def __init__(self, pool: SQLiteConnections, lock: threading.Lock, *, durable: bool) -> None:
        super().__init__(pool)
        self._lock = lock
        self._durable = durable

    def __enter__(self) -> sqlite3.Connection:
        self.begin()
        try:
            self._lock.acquire()
            try:
                return self._begin_transaction()
            except BaseException:
                self._lock.release()
                raise
        except BaseException as error:
            self.end(error)
            raise

    def _begin_transaction(self) -> sqlite3.Connection:
        db = self.pool.take(self, writes=True)
        if db.is_durable is not self._durable:
            db.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'NORMAL'}")
            db.is_durable = self._durable
        db.execute("BEGIN IMMEDIATE")
        return db

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            try:
                if error is None:
                    self._commit()
                else:
                    self.end_transaction()
            finally:
                self._lock.release()
        except BaseException as failed:
            self.end(failed)
            raise
        self.end(error)

    def _commit(self) -> None:
        db = self.db
        self.check_process()
        if db is not None:
            db.execute("COMMIT")
            self.pool.check_commit(self, db)


def _find_file(path: str) -> _File | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - twice as fast as a `Path`'s, and before every read
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _stamp_folder(path: str) -> tuple[int, int, int] | None:
    """Return which folder it is, and when a name in it changed last, in nanoseconds."""
    try:
        found = os.stat(path)  # noqa: PTH116 - as above, after every commit
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns


def _is_quiet(folder: tuple[int, int, int] | None) -> bool:
    """Return whether whatever happens to a folder from now on changes its stamp."""
    if folder is None or os.name == "nt":  # where that time is of its making
        return False
    is_fine = folder[2] % 1_000_000_000 != 0  # some file systems tell whole seconds
    return time.time_ns() - folder[2] > (FINE_QUIET_NS if is_fine else QUIET_NS)


def _create_file(path: str) -> None:
    """Create a file that only its owner may read, unless it is there; SQLite's own follow it.

    Nobody else opens it meanwhile: to close it would drop the locks that they hold.
    """
    with _CREATING:
        if os.path.lexists(path):
            return
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError:
            return  # SQLite says what is wrong
        try:
            if hasattr(os, "fchmod"):
                os.fchmod(handle, 0o600)  # whatever the umask says
        finally:
            os.close(handle)


def _abandon(db: sqlite3.Connection) -> None:
    """Keep a connection open until the process is gone: to close it would change its files.

    Not even the end of the interpreter closes it, which closes what is in a list.
    """
    import ctypes

    _ABANDONED.append(db)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(db))


def _forbid_use(db: sqlite3.Connection) -> None:
    """Have every statement of a connection fail, those that have begun as well."""
    db.set_authorizer(lambda *_: sqlite3.SQLITE_DENY)
    db.set_progress_handler(lambda: 1, 1)


class _ErrorTranslator:
    """Turns what SQLite raises into our errors."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def translate(self, error: BaseException) -> None:
        """Raise what an error means for a caller; errors of others pass."""
        if isinstance(error, UnicodeDecodeError) or is_garbled(error):
            # What is said of text that is no Unicode quotes it.
            raise LogError(f"the log on {self._path} {DAMAGED}") from None
        if isinstance(error, sqlite3.DatabaseError):
            raise self._make_error(error) from error
        if isinstance(error, UnicodeEncodeError):
            msg = f"ids and names must be valid Unicode, got {describe_value(error.object)}"
            raise ConfigError(msg) from error

    def _make_error(self, error: sqlite3.DatabaseError) -> LogError:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code == sqlite3.SQLITE_CORRUPT:
            return LogError(f"the log on {self._path} {DAMAGED}: {error}")
        if code == sqlite3.SQLITE_FULL:
            msg = (
                f"the disk of the log on {self._path} is full, and nothing was written; make room "
                "and try again, or go on with a backup of it on another disk"
            )
            return LogUnavailableError(msg)
        if isinstance(error, sqlite3.OperationalError) and code not in _LASTING:
            msg = f"the log on {self._path} is unavailable: {error}; try again"
            return LogUnavailableError(msg)
        return LogError(
            f"the log on {self._path} cannot be used: {error}; check the file and its rights"
        )


DAMAGED = "is damaged; 'convmem verify' says where; go on with a backup of it"


def is_garbled(error: object) -> bool:
    """Return whether sqlite3 found text that is no Unicode; what it says then quotes the text."""
    return isinstance(error, sqlite3.OperationalError) and "decode to UTF-8" in str(error)


def _set_patience(db: sqlite3.Connection, seconds: float) -> None:
    db.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")


def _use_wal(db: sqlite3.Connection) -> None:
    """Put a new file into WAL mode, where it stays; others may be doing the same right now."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
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

COLUMNS = "e.seq, e.id, e.turn, e.role, e.body, e.metadata, e.signature"
"""What `read_row` takes, of the table `entries e`."""

_ROLE_OF = dict(enumerate(ROLES))
_DAMAGED_NAME = "damaged-"
_MOST_DIGITS = 18
"""Of a position that SQLite takes."""


class Garbled:
    """Stands for text that is no UTF-8; it is not kept, since it may be of a message."""

    def __repr__(self) -> str:
        return "(no valid text)"


def decode_leniently(raw: bytes) -> str | Garbled:
    """Return stored text, whatever it is: a `text_factory` that never fails."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return Garbled()


def pack_name(name: str) -> bytes | str:
    """Return a ULID as 16 bytes; another name, which a turn may have, stays text."""
    return encode_ulid(name) if is_ulid(name) else name


def unpack_name(stored: bytes | str) -> str:
    """Return the name that `pack` took.

    Raises:
        ValueError: If it is neither text nor 16 bytes.
    """
    return stored if isinstance(stored, str) else decode_ulid(stored)


def read_row(columns: Sequence[Any]) -> Row:
    """Return the row of `COLUMNS`; what is wrong with them, if anything, is its `damage`."""
    seq, entry_id, turn, role, body, metadata, signature = columns
    try:
        text_id = decode_ulid(entry_id)
        turn_id = text_id if turn is None else unpack_name(turn)
        row = Row(text_id, seq, turn_id, _ROLE_OF[role], body, metadata, signature)
    except (TypeError, ValueError, LookupError):
        return _read_damaged_row(columns)
    if type(body) is str and type(signature) is bytes and type(metadata) in (str, NoneType):
        return row
    return _read_damaged_row(columns)


def _read_damaged_row(columns: Sequence[Any]) -> Row:
    """Return what can be read of a row, and which of its columns cannot."""
    seq, entry_id, turn, role, body, metadata, signature = columns
    damaged = []
    try:
        text_id = decode_ulid(entry_id)
    except (TypeError, ValueError):
        text_id = name_damaged(seq)
        damaged.append("id")
    try:
        turn_id = text_id if turn is None else unpack_name(turn)
    except (TypeError, ValueError):
        turn_id = text_id
        damaged.append("turn")
    known_role = _ROLE_OF.get(role) if isinstance(role, int) else None
    damaged += ["role"] if known_role is None else []
    damaged += [] if isinstance(body, str) else ["text"]
    damaged += [] if isinstance(metadata, str | None) else ["metadata"]
    damaged += [] if isinstance(signature, bytes) else ["checksum"]
    what = f"its {' and its '.join(damaged)} cannot be read"
    return Row(text_id, seq, turn_id, known_role or "control", "", None, damage=what)


def make_unreadable_row(position: int) -> Row:
    """Return what stands for a row of which SQLite can read nothing."""
    name = name_damaged(position)
    return Row(name, position, name, "control", "", None, damage="its page cannot be read")


def name_damaged(position: int) -> str:
    """Return the name by which an entry whose id cannot be read is known."""
    return f"{_DAMAGED_NAME}{position}"


def read_damaged_name(name: str) -> int | None:
    """Return the position that `name_damaged` named; None for another name."""
    digits = name.removeprefix(_DAMAGED_NAME)
    is_number = digits != name and digits.isascii() and digits.isdigit()
    return int(digits) if is_number and len(digits) <= _MOST_DIGITS else None


def write_row(row: Row, key_hash: int | None) -> tuple[Any, ...]:
    """Return (id, turn, role, key_hash, body, metadata, signature) of a row.

    An entry that opens its turn stores no turn.
    """
    return (
        encode_ulid(row.id),
        None if row.turn_id == row.id else pack_name(row.turn_id),
        ROLES.index(row.role),
        key_hash,
        row.body,
        row.metadata,
        row.signature,
    )


def find_position(db: sqlite3.Connection, thread: int | None, entry_id: str) -> int | None:
    """Return where a thread's entry of this id is, or None; an id tells its position."""
    if not is_ulid(entry_id):
        return None
    found = db.execute(
        "SELECT seq FROM entries WHERE seq = ? AND thread = ? AND id = ?",
        (get_ulid_number(entry_id), thread, encode_ulid(entry_id)),
    ).fetchone()
    return None if found is None else int(found[0])


# -- the schema ---------------------------------------------------------------------------------

APPLICATION_ID = 0x434D454D  # "CMEM": tells our files from other SQLite databases

SCHEMA_VERSION = 1

# What `forget` erases must not live on in a snapshot: hence the trigger. Snapshots have rowids: to
# compare two keys of a table without, SQLite reads whatever else is in their rows.
_SCHEMA = """
CREATE TABLE meta(
  one INTEGER PRIMARY KEY CHECK (one = 1),
  forget_epoch INTEGER NOT NULL,
  position_floor INTEGER NOT NULL,
  key_id BLOB
);
INSERT INTO meta VALUES (1, 0, 0, NULL);
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
  seq INTEGER PRIMARY KEY,
  thread INTEGER NOT NULL REFERENCES threads ON DELETE CASCADE,
  id BLOB NOT NULL,
  turn BLOB,
  role INTEGER NOT NULL,
  key_hash INTEGER,
  body TEXT NOT NULL,
  metadata TEXT,
  signature BLOB NOT NULL
);
CREATE INDEX entries_by_thread ON entries(thread);
CREATE INDEX entries_by_key ON entries(thread, key_hash) WHERE key_hash IS NOT NULL;
CREATE INDEX entries_control ON entries(thread) WHERE role = 5;
CREATE TABLE documents(
  thread INTEGER NOT NULL REFERENCES threads ON DELETE CASCADE,
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  value TEXT NOT NULL,
  checksum BLOB NOT NULL,
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
  analysis INTEGER NOT NULL,
  terms_check INTEGER,
  vector_check INTEGER,
  UNIQUE (seq, part, segment, fingerprint)
);
CREATE TABLE snapshots(
  owner INTEGER NOT NULL REFERENCES owners ON DELETE CASCADE,
  snapshot INTEGER NOT NULL,
  piece INTEGER NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (owner, snapshot, piece)
);
CREATE TRIGGER entries_forgotten AFTER UPDATE OF generation ON owners
BEGIN
  DELETE FROM snapshots WHERE owner = NEW.owner;
END;
"""


def create_schema(db: sqlite3.Connection, *, path: str) -> None:
    """Make the tables of an empty database, in one transaction.

    Raises:
        SchemaVersionError: If another release wrote the file, or another program did.
    """
    if check_version(db, path=path):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have made them while this one waited for the lock.
        if not _read_version(db, path):
            _run(db, _SCHEMA)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _run(db: sqlite3.Connection, script: str) -> None:
    statement = ""
    for piece in script.split(";"):  # executescript() would commit first
        statement += piece
        # Triggers hold semicolons of their own.
        if sqlite3.complete_statement(f"{statement};"):
            db.execute(statement)
            statement = ""
        else:
            statement += ";"


def check_version(db: sqlite3.Connection, *, path: str) -> int:
    """Return the file's schema version; 0 for an empty file. Writes nothing.

    Raises:
        SchemaVersionError: If another release wrote the file, or another program did.
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
    if not (tables or application or version):
        return 0
    if application != APPLICATION_ID:
        msg = f"{path} is a SQLite database of another program; choose another file"
        raise SchemaVersionError(msg, found=version, supported=SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        msg = (
            f"{path} has schema version {version}, and this release reads version "
            f"{SCHEMA_VERSION}; open it with the release that wrote it"
        )
        raise SchemaVersionError(msg, found=version, supported=SCHEMA_VERSION)
    return version


def list_objects(db: sqlite3.Connection) -> dict[str, str]:
    """Return the SQL of every table and index by its name, SQLite's own left out."""
    found = db.execute(
        "SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!'"
    )
    return dict(found.fetchall())


def list_expected_objects() -> dict[str, str]:
    """Return what `list_objects` does for a sound file."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        _run(db, _SCHEMA)
        return list_objects(db)


def has_sound_tables(db: sqlite3.Connection) -> bool:
    """Return whether the tables are those of the schema, to the letter; others do no harm.

    A bit in one word of it, and SQLite reads the same rows as something else.
    """
    found = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
    there = {(name, sql.replace('"', "")) for name, sql in found if isinstance(sql, str)}
    return there >= _list_expected_tables()


@cache
def _list_expected_tables() -> AbstractSet[tuple[str, str]]:
    objects = list_expected_objects().items()
    tables = [one for one in objects if one[1].startswith("CREATE TABLE")]
    return {(name, sql.replace('"', "")) for name, sql in tables}  # versions quote differently
