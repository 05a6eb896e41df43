"""Message logs in SQLite: in a file, for any number of threads and processes, or in memory.

A process has one connection that writes and one that reads, so that a reader does not wait until a
writer's text is on the disk; each is used by one thread at a time. Every acknowledged write
survives a power loss (WAL with `synchronous=FULL`).

SQLite's locks belong to a process, and SQLite notes in memory which it holds. A forked child must
not inherit these notes: the connections are closed before a fork, and opened again when needed.

A write-ahead file says nothing about the database that it belongs to. SQLite would apply one that
a crash has left to whatever file it finds beside it, such as a backup that was put in the place of
the log. A backup says that it has none. For other copies, the table `identity` holds a number that
each write raises: from it follows whether the two belong together.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sqlite3
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar
from weakref import WeakSet

from langchain_convmem.errors import (
    ConfigError,
    LogError,
    LogUnavailableError,
    ReadOnlyError,
    SchemaVersionError,
)
from langchain_convmem.forks import FORKS
from langchain_convmem.logs.checksums import Signer
from langchain_convmem.logs.sql_log import (
    SCHEMA_VERSION,
    SqlLog,
    Transaction,
    read_name,
    read_owner,
    read_row,
    write_schema,
)
from langchain_convmem.logs.verify import StorageProblem
from langchain_convmem.records import Owner, ThreadKey

try:
    import fcntl
except ImportError:  # on Windows, where nobody replaces a file that is open
    fcntl = None  # type: ignore[assignment]

P = ParamSpec("P")
T = TypeVar("T")

APPLICATION_ID = 0x434D454D  # "CMEM": tells our files from other SQLite databases

_OPEN: WeakSet[SQLiteLog] = WeakSet()
BUSY_S = 30.0
_PAUSE_S = 0.02
_PATIENCE_AT_FOLDING_S = 0.2
_LASTING = frozenset(
    {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_AUTH}
)
"""Operational errors that another try does not fix; the others are locks, disks and the like."""
_SCHEMA = [
    *write_schema(serial="INTEGER PRIMARY KEY", integer="INTEGER", data="BLOB"),
    "CREATE TABLE identity(stamp INTEGER NOT NULL)",
]


class _Transaction:
    """Statements on a connection that is in a transaction; see `sql_log.Transaction`."""

    __slots__ = ("_db", "_execute")
    for_update = ""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._execute = db.execute

    def rows(self, sql: str, *values: Any) -> list[Any]:
        return self._execute(sql, values).fetchall()

    def count(self, sql: str, *values: Any) -> int:
        return self._execute(sql, values).rowcount

    def do(self, sql: str, *values: Any) -> None:
        self._execute(sql, values)


class _Connection:
    """A connection for one thread at a time, opened when it is first used."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], *, is_kept: bool = True) -> None:
        self.guard = threading.RLock()
        self._connect, self._is_kept = connect, is_kept
        self._db: sqlite3.Connection | None = None

    @contextmanager
    def use(self) -> Iterator[sqlite3.Connection]:
        """Lend it for a block, at the end of which no transaction is left."""
        with self.guard:
            db = self._db = self._connect() if self._db is None else self._db
            try:
                yield db
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                if not self._is_kept:
                    self.close()

    def close(self) -> None:
        """Close it; for the holder of the guard."""
        if self._db is not None:
            self._db.close()
            self._db = None


class _SQLiteBase(SqlLog):
    """What the logs in a file and in memory do alike."""

    _writer: _Connection
    _reader: _Connection
    _apart: _Connection
    """For what takes long."""

    @property
    def _connections(self) -> tuple[_Connection, ...]:
        return self._writer, self._reader, self._apart

    def close(self) -> None:
        """Close the log; later calls raise `LogClosedError`. Idempotent."""
        self._closed = True
        for connection in self._connections:
            with connection.guard:
                connection.close()
        self._decode_again.cache_clear()
        self._stop_workers()

    @contextmanager
    def _begin(self, *, write: bool, durable: bool, once: bool) -> Iterator[Transaction]:
        with self._use(self._writer if write else self._reader) as db:
            if write:
                self._begin_write(db, durable=durable)
            elif not once:
                db.execute("BEGIN")
            yield _Transaction(db)
            if db.in_transaction:
                db.execute("COMMIT")

    @abstractmethod
    def _begin_write(self, db: sqlite3.Connection, *, durable: bool) -> None:
        """Begin a transaction in which no other writes."""

    @contextmanager
    def _use(self, connection: _Connection) -> Iterator[sqlite3.Connection]:
        """Lend a connection; raise what SQLite's errors mean for a caller."""
        try:
            with connection.use() as db:
                self._check_open()
                yield db
        except sqlite3.DatabaseError as error:
            raise self._make_error(error) from error

    def _make_error(self, error: sqlite3.DatabaseError) -> LogError:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            msg = (
                f"the log on {self.place} is damaged: {error}; 'convmem db verify' says where; "
                "put a backup in its place with 'convmem db restore'"
            )
            return LogError(msg)
        if code == sqlite3.SQLITE_FULL:
            msg = (
                f"the disk of the log on {self.place} is full, and nothing was written; make room "
                "and try again, or go on with a backup of it on another disk"
            )
            return LogUnavailableError(msg)
        if isinstance(error, sqlite3.OperationalError) and code not in _LASTING:
            msg = f"the log on {self.place} is unavailable: {error}; try again"
            return LogUnavailableError(msg)
        return LogError(
            f"the log on {self.place} cannot be used: {error}; check the file and its rights"
        )

    # -- forks ------------------------------------------------------------------------------------

    def prepare_fork(self) -> None:
        """Wait for calls of other threads; close what a child must not inherit."""
        for connection in self._connections:
            connection.guard.acquire()

    def resume_after_fork(self) -> None:
        """Let calls go on, in the parent."""
        for connection in self._connections:
            connection.guard.release()

    def begin_in_child(self) -> None:
        """Begin with guards of its own."""
        for connection in self._connections:
            connection.guard = threading.RLock()

    # -- the whole log ----------------------------------------------------------------------------

    def check_storage(self) -> Iterator[StorageProblem]:
        """Yield what is wrong beside the entries; see `verify.StorageCheck`."""
        with self._use(self._apart) as db:
            found = db.execute("PRAGMA integrity_check(100)").fetchall()
        for (finding,) in found:
            if finding != b"ok":
                text = " ".join(finding.decode(errors="replace").split())
                yield StorageProblem(f"SQLite: {text}")
        yield from super().check_storage()

    def backup(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Copy the log into a new file while it is in use.

        The copy holds what was committed before the call, from one state of the log. It has its
        name only when it is whole and on the disk, and only its owner may read it. What is
        forgotten later stays in the copy.

        To go on with a copy in the place of the log, use `restore`, or `convmem db restore`.

        Args:
            path: The copy, in a directory that exists.
            overwrite: Replace a file of that name.

        Raises:
            ConfigError: If the file exists, or its directory does not.
            LogError: If the log cannot be read or the copy not be written; nothing is left of it.
        """
        self._check_open()
        target = Path(os.fspath(path)).absolute()
        _refuse_what_is_there(target, overwrite=overwrite)
        with _copying(target) as unfinished, self._use(self._apart) as db:
            db.execute("VACUUM INTO ?", (os.fspath(unfinished),))

    async def abackup(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Copy the log, without blocking the event loop or other calls of this log."""
        await asyncio.to_thread(self.backup, path, overwrite=overwrite)


class SQLiteLog(_SQLiteBase):
    """A message log in a SQLite file; created on first use.

    Safe to share between threads, to open in several processes, and to use after a fork. A file
    that may not be written, or whose directory may not, is opened for reading.

    Each entry has a checksum: one that was altered behind the log's back is named where it is read
    (`Entry.damage`), and `verify` finds it. Entries that are missing are counted by `verify`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        signing_key: bytes | str | None = None,
        read_only: bool = False,
    ) -> None:
        """Open or create the file.

        Args:
            path: A file in a directory that exists.
            signing_key: A secret of 16 to 64 bytes, kept elsewhere than the file: without it,
                nobody can alter an entry unseen. A file that was used without a key gets none any
                more: copy it into a new one.
            read_only: Write nothing, whatever the rights.

        Raises:
            ConfigError: If the path is no file in a directory that exists, or if the file was
                signed with another key than this.
            SchemaVersionError: If another release or another program wrote the file.
            LogError: If the file is no SQLite database, or cannot be opened.
        """
        super().__init__(signing_key)
        self.path = _check_path(os.fspath(path))
        self.place = str(self.path)
        self._is_durable = True
        self._is_read_only = read_only or not _may_write(self.path)
        self._writer = _Connection(self._connect)
        # Where nothing may be locked, a connection that is kept would not see what others write.
        self._reader = _Connection(self._connect_to_read, is_kept=not self._is_read_only)
        self._apart = _Connection(self._connect_to_read, is_kept=False)
        # A file that cannot be used is refused here, not at the first message.
        with ExitStack() as stack:
            stack.callback(self.close)
            _refuse_foreign_wal(self.path)
            if not self._is_read_only:
                with self._use(self._writer):
                    pass
            may_write = self._signer.has_key and not self._is_read_only
            with self._transaction(write=may_write, durable=False) as tx:
                self._check_key(tx, may_write=may_write)
            FORKS.add(self)
            _OPEN.add(self)
            stack.pop_all()

    def __repr__(self) -> str:
        return f"SQLiteLog({str(self.path)!r})"

    def close(self) -> None:
        """Close the file; later calls raise `LogClosedError`. Idempotent."""
        super().close()
        _OPEN.discard(self)

    def _begin_write(self, db: sqlite3.Connection, *, durable: bool) -> None:
        if durable is not self._is_durable:
            db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._is_durable = durable
        db.execute("BEGIN IMMEDIATE")
        db.execute("UPDATE identity SET stamp = stamp + 1")

    # -- connections ------------------------------------------------------------------------------

    def _connect(self) -> sqlite3.Connection:
        if self._is_read_only:
            msg = (
                f"the log on {self.path} is open for reading alone: the file or its directory may "
                "not be written"
            )
            raise ReadOnlyError(msg)
        _create_file(self.path)
        db = _connect(self.path)
        try:
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA secure_delete = ON")
            _create_tables(db, self.path)
            _use_wal(db)
        except BaseException:
            db.close()
            raise
        self._is_durable = True
        return db

    def _connect_to_read(self) -> sqlite3.Connection:
        if not self._is_read_only:
            return _connect(self.path)
        # Without a write-ahead file, SQLite cannot read such a database unless it is told that
        # nobody changes it.
        how = "" if _find_wal(self.path).exists() else "&immutable=1"
        db = _connect(self.path, f"mode=ro{how}")
        _has_tables(db, self.path)
        return db

    def prepare_fork(self) -> None:
        """Wait for calls of other threads, and close what a child must not inherit."""
        super().prepare_fork()
        for connection in self._connections:
            connection.close()

    # -- erasing ----------------------------------------------------------------------------------

    def _scrub(self) -> None:
        """Fold the write-ahead file into the database, so that erased text leaves it too.

        Raises:
            LogUnavailableError: If others read the old text all the while, or the disk is full.
        """
        deadline = time.monotonic() + BUSY_S
        while not self._fold():
            if time.monotonic() > deadline:
                msg = (
                    f"the log on {self.path} is in use: entries are deleted, but their text is "
                    "still in the write-ahead file; forget them again"
                )
                raise LogUnavailableError(msg)
            time.sleep(_PAUSE_S)

    def _fold(self) -> bool:
        """Try once. While SQLite waits here for a reader, nobody can write: so not for long."""
        with self._use(self._writer) as db:
            db.execute(f"PRAGMA busy_timeout = {round(_PATIENCE_AT_FOLDING_S * 1000)}")
            try:
                return not db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            finally:
                db.execute(f"PRAGMA busy_timeout = {round(BUSY_S * 1000)}")


class InMemoryLog(_SQLiteBase):
    """A message log that lives as long as the object. Thread-safe; one process only.

    A forked child goes on with a copy of its own.
    """

    ends_with_process: Literal[True] = True
    """Nothing outlives the process, so what recall derives need not either."""

    def __init__(self) -> None:
        """Create an empty log."""
        super().__init__(None)
        self.place = "memory"
        self._writer = self._reader = self._apart = _Connection(_connect_to_memory)
        FORKS.add(self)

    def __repr__(self) -> str:
        return "InMemoryLog()"

    def _begin_write(self, db: sqlite3.Connection, *, durable: bool) -> None:
        del durable
        db.execute("BEGIN")

    async def _run_off_loop(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        await asyncio.sleep(0)  # nothing here waits, but other tasks must get their turn
        return call(*args, **kwargs)


# -- opening --------------------------------------------------------------------------------------


def _check_path(name: str) -> Path:
    """Return the path of a log's file.

    Raises:
        ConfigError: If it is none; the message says what to write instead.
    """
    if name == ":memory:":
        raise ConfigError("SQLiteLog needs a file; write InMemoryLog() for a log in memory")
    if not name or "\0" in name or "://" in name:
        raise ConfigError(f"SQLiteLog needs the path of a file, got {name!r}")
    path = Path(name).absolute()
    if not path.parent.is_dir():
        raise ConfigError(f"there is no directory {path.parent}; create it first")
    if path.is_dir():
        raise ConfigError(f"{path} is a directory; name a file in it")
    return path


def _may_write(path: Path) -> bool:
    if not os.access(path.parent, os.W_OK):
        return not path.exists()  # SQLite then says what is wrong
    return os.access(path, os.W_OK) if path.exists() else True


def _connect(path: Path, mode: str = "") -> sqlite3.Connection:
    """Return a connection; text is read as bytes, since damaged text is not even that."""
    db = sqlite3.connect(
        f"{path.as_uri()}?{mode}" if mode else path,
        uri=bool(mode),
        timeout=BUSY_S,
        isolation_level=None,
        check_same_thread=False,
    )
    db.text_factory = bytes
    return db


def _connect_to_memory() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    db.text_factory = bytes
    _run_schema(db)
    return db


def _run_schema(db: sqlite3.Connection) -> None:
    for statement in _SCHEMA:
        db.execute(statement)
    db.execute("INSERT INTO identity VALUES (?)", (secrets.randbits(62),))
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _create_tables(db: sqlite3.Connection, path: Path) -> None:
    """Make the tables of an empty database, in one transaction; of several callers, one does it.

    Raises:
        SchemaVersionError: If another release or another program wrote the file; it is as it was.
    """
    db.execute("BEGIN IMMEDIATE")
    if not _has_tables(db, path):
        _run_schema(db)
    db.execute("COMMIT")


def _has_tables(db: sqlite3.Connection, path: Path) -> bool:
    """Return whether the file has tables of ours. Writes nothing.

    Raises:
        SchemaVersionError: If another release or another program wrote the file.
        LogError: If the tables are not those that were made.
    """
    application = db.execute("PRAGMA application_id").fetchone()[0]
    version = db.execute("PRAGMA user_version").fetchone()[0]
    tables = {sql for (sql,) in db.execute("SELECT sql FROM sqlite_master")}
    if not (tables or application or version):
        return False
    if application != APPLICATION_ID:
        msg = f"{path} is a SQLite database of another program; choose another file"
        raise SchemaVersionError(msg, found=version, supported=SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        msg = (
            f"{path} has schema version {version}, and this release reads version "
            f"{SCHEMA_VERSION}; open it with the release that wrote it"
        )
        raise SchemaVersionError(msg, found=version, supported=SCHEMA_VERSION)
    if not tables >= {sql.encode() for sql in _SCHEMA if sql.startswith("CREATE")}:
        raise LogError(f"the tables of {path} are damaged; restore a backup of it")
    return True


def _use_wal(db: sqlite3.Connection) -> None:
    """Put a new file into WAL mode, where it stays; others may be doing the same right now."""
    deadline = time.monotonic() + BUSY_S
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # SQLite does not wait for its own lock here, whatever the timeout.
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)
        else:
            return


def _create_file(path: Path) -> None:
    """Create a file that only its owner may read, unless it is there; SQLite's own follow it."""
    with suppress(OSError):  # it is there, or SQLite says what is wrong
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.close(handle)


# -- the write-ahead file -------------------------------------------------------------------------

_WAL_HEADER, _FRAME_HEADER = 32, 24


def _find_wal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _refuse_foreign_wal(path: Path) -> None:
    """Refuse a database beside which lies the write-ahead file of another one. Writes nothing.

    Raises:
        LogError: If that is so.
    """
    for _ in range(5):  # others may be writing
        if _is_own_wal(path):
            return
        time.sleep(_PAUSE_S)
    msg = (
        f"{_find_wal(path)} is what a crash has left of another file than {path}: a copy was put "
        "in its place. Nothing was written. Give the copy another name, and put it in place with "
        f"'convmem db restore COPY --db {path.name}'"
    )
    raise LogError(msg)


def _is_own_wal(path: Path) -> bool:
    commits = _count_commits(_find_wal(path))
    if not commits or not path.exists():
        return True
    with path.open("rb") as file:
        if file.read(20)[18:] != b"\2\2":
            return False  # a backup, which needs no such file
    try:
        before = _read_stamp(path, "immutable=1")
    except sqlite3.DatabaseError:
        return True  # none of ours yet; whoever opens it learns more
    try:
        now = _read_stamp(path, "mode=ro")
    except sqlite3.DatabaseError:
        return False
    # Each commit of the file has raised the number by one, and some may have been folded in.
    return now - commits <= before <= now


def _read_stamp(path: Path, mode: str) -> int:
    """Return the number of a file's last write: with the write-ahead file, or without."""
    with closing(_connect(path, mode)) as db:
        return int(db.execute("SELECT coalesce(max(stamp), 0) FROM identity").fetchone()[0])


def _count_commits(wal: Path) -> int:
    """Return how many commits a write-ahead file holds that count."""
    commits = 0
    with suppress(FileNotFoundError), wal.open("rb") as file:
        header = file.read(_WAL_HEADER)
        page_bytes, salts = int.from_bytes(header[8:12], "big"), header[16:24]
        while frame := file.read(_FRAME_HEADER):
            if frame[8:16] != salts:
                break
            commits += frame[4:8] != bytes(4)
            file.seek(page_bytes, os.SEEK_CUR)
    return commits


# -- copies ---------------------------------------------------------------------------------------


def _refuse_what_is_there(target: Path, *, overwrite: bool) -> None:
    if not target.parent.is_dir():
        raise ConfigError(f"there is no directory {target.parent}; create it first")
    if not overwrite and (target.exists() or target.is_symlink()):
        raise ConfigError(f"{target} exists; choose another name for the copy")
    left = _find_wal(target)
    if left.exists():
        msg = f"{left} exists, which belongs to another {target.name}; choose another name"
        raise ConfigError(msg)


@contextmanager
def _copying(target: Path) -> Iterator[Path]:
    """Yield the name of an empty file, which gets the target's name at the end of the block.

    Raises:
        LogError: If the copy cannot be written; then nothing is left of it.
    """
    unfinished = target.with_name(f".{target.name}.unfinished")
    try:
        unfinished.unlink(missing_ok=True)  # left by a process that was killed
        _create_file(unfinished)
        yield unfinished
        _write_through(unfinished)
        unfinished.replace(target)
        _write_through(target.parent)
    except (LogError, OSError, sqlite3.DatabaseError) as error:
        for left in (unfinished, _find_wal(unfinished)):
            with suppress(OSError):
                left.unlink(missing_ok=True)
        msg = f"no copy was made at {target}: {error}; nothing is left of it"
        raise LogError(msg) from error


def _write_through(path: Path) -> None:
    """Have a file or a directory on the disk."""
    if path.is_dir() and os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# -- restoring ------------------------------------------------------------------------------------


class Restored(NamedTuple):
    """What `restore` did.

    Attributes:
        entries: In the file now.
        fetched: Those of them that were taken from the backup because the file had lost them;
            without `fetch`, none.
        kept: What the file that was there is called now; None if there was none.
    """

    entries: int
    fetched: int
    kept: Path | None


def restore(
    backup: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    signing_key: bytes | str | None = None,
    fetch: bool = False,
) -> Restored:
    """Put a backup in the place of a log's file, which nobody may have open.

    The file that is there keeps its content under another name, its write-ahead file with it.

    Args:
        backup: The copy, which stays as it is.
        path: The log's file.
        signing_key: That of both.
        fetch: Go on with what the file holds, as far as it can be read, and take from the backup
            what it has lost: damaged entries, and those that are missing without having been
            forgotten. What was forgotten since the backup stays forgotten.

    Raises:
        ConfigError: If there is no such backup, or the key is another one.
        LogError: If one of the files cannot be read, or the log is in use; nothing has changed.
    """
    source, target = _check_path(os.fspath(backup)), _check_path(os.fspath(path))
    if not source.exists() or source == target:
        raise ConfigError(
            f"there is no backup at {source} that could be put in the place of {path}"
        )
    _refuse_use(target)
    made = target.with_name(f".{target.name}.restored")
    with SQLiteLog(source, signing_key=signing_key, read_only=True) as log:
        _find_wal(made).unlink(missing_ok=True)
        log.backup(made, overwrite=True)
    fetched = _merge(target, made, Signer(signing_key)) if fetch and target.exists() else 0
    with closing(_connect(made, "immutable=1")) as db:
        [(entries,)] = db.execute("SELECT count(*) FROM entries").fetchall()
    kept = None
    if target.exists():
        kept = target.with_name(f"{target.name}.{time.strftime('%Y%m%dT%H%M%S')}")
        for end in ("", "-wal"):
            with suppress(FileNotFoundError):
                target.with_name(target.name + end).rename(f"{kept}{end}")
    target.with_name(f"{target.name}-shm").unlink(missing_ok=True)
    _find_wal(target).unlink(missing_ok=True)
    made.replace(target)
    _write_through(target.parent)
    return Restored(entries, fetched, kept)


def _refuse_use(path: Path) -> None:
    """Refuse a file that somebody has open, as far as that can be told.

    Raises:
        LogUnavailableError: If somebody has.
    """
    is_used = any(log.path == path for log in _OPEN)
    # To close the file drops the locks of this process; it has none if it does not use the log.
    if not is_used and path.exists() and fcntl is not None:
        with path.open("r+b") as file:
            try:  # every connection holds one of these bytes
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)
            except OSError:
                is_used = True
    if is_used:
        raise LogUnavailableError(f"the log on {path} is in use; close it everywhere first")


def _merge(path: Path, made: Path, signer: Signer) -> int:
    """Write what a file holds over a copy of its backup.

    Returns:
        How many entries of the copy the file had lost.
    """
    with closing(_connect(path, "mode=ro")) as old, closing(_connect(made)) as new:
        new.execute("PRAGMA secure_delete = ON")
        new.execute("BEGIN")
        epochs = [_read_rows(db, "SELECT epoch FROM meta") for db in (old, new)]
        query = "SELECT owner, name, generation, last FROM owners"
        known = {row[0]: row for row in _read_rows(old, query)}
        backed_up = {row[0]: row for row in _read_rows(new, query)}
        changed = {
            number: row
            for number, row in backed_up.items()
            if epochs[0] != epochs[1] and known.get(number, ())[:3] != row[:3]
        }  # something of these was forgotten since: what is not there may be just that
        for table in ("meta", "owners", "documents"):
            rows = _read_rows(old, f"SELECT * FROM {table}")
            if table == "meta":
                new.execute("DELETE FROM meta WHERE ?", (bool(rows),))
            else:
                of_one = f"DELETE FROM {table} WHERE owner = ?"
                new.executemany(of_one, [(number,) for number in changed])
            _insert(new, table, rows)
        held = 0
        for number, name, _, last in {**backed_up, **known}.values():
            owner, found = read_owner(name), _read_entries(old, number << 32, number << 32 | last)
            if number in changed:
                kept = [row[0] for row in found if changed[number][1] == name]
                _erase_others(new, number, kept)
            sound = [row for row in found if owner and _is_entry(row, owner, signer)]
            _insert(new, "entries", sound)
            held += len(sound)
        new.execute("COMMIT")
        [(entries,)] = new.execute("SELECT count(*) FROM entries").fetchall()
        return int(entries) - held


def _read_rows(db: sqlite3.Connection, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query; none where they cannot be read."""
    try:
        return db.execute(query).fetchall()
    except sqlite3.DatabaseError:
        return []


def _read_entries(db: sqlite3.Connection, first: int, last: int) -> list[tuple[Any, ...]]:
    """Return the entries from one place to another that can be read."""
    try:
        query = "SELECT * FROM entries WHERE place BETWEEN ? AND ?"
        return db.execute(query, (first, last)).fetchall()
    except sqlite3.DatabaseError:
        if first == last:
            return []
    middle = (first + last) // 2
    return _read_entries(db, first, middle) + _read_entries(db, middle + 1, last)


def _insert(db: sqlite3.Connection, table: str, rows: Sequence[Sequence[Any]]) -> None:
    if rows:
        marks = ", ".join("?" * len(rows[0]))
        db.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", rows)


def _erase_others(db: sqlite3.Connection, number: int, kept: Sequence[int]) -> None:
    """Delete an owner's entries but for those at some places."""
    there = db.execute("SELECT place FROM entries WHERE place >> 32 = ?", (number,)).fetchall()
    gone = {place for (place,) in there}.difference(kept)
    db.executemany("DELETE FROM entries WHERE place = ?", [(place,) for place in gone])


def _is_entry(row: Sequence[Any], owner: Owner, signer: Signer) -> bool:
    place, thread, entry_id, turn, role, _, *rest = row
    key = ThreadKey(owner.user_id, read_name(thread) or "?")
    return not signer.find_damage(key, read_row((place, entry_id, turn, role, *rest)))
