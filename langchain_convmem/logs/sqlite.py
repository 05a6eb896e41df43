"""Message logs in SQLite: in a file, for any number of threads and processes, or in memory.

A process has one connection that writes and one that reads, so that a reader does not wait until a
writer's text is on the disk; a third one is open while something takes long. Each is used by one
thread at a time. Every acknowledged write survives a power loss (WAL with `synchronous=FULL`).

SQLite's locks belong to a process, and SQLite notes in memory which it holds. A forked child must
not inherit these notes: the connections are closed before a fork, and opened again when needed.

A write-ahead file does not say which database it belongs to. SQLite would apply one that a crash
has left to whatever file it finds beside it, such as a backup that was put in the place of the log.
So the table `identity` holds a number that each write raises, and that a backup gets anew: it shows
whether the two belong together.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakSet

from langchain_convmem.background import run_in_thread
from langchain_convmem.errors import ConfigError, LogError, LogUnavailableError
from langchain_convmem.forks import FORKS
from langchain_convmem.logs.base import Signer
from langchain_convmem.logs.sql_log import (
    NEW_META,
    SCHEMA_VERSION,
    SqlLog,
    Transaction,
    read_name,
    read_owner,
    read_row,
    write_schema,
)
from langchain_convmem.logs.verify import StorageProblem
from langchain_convmem.records import ForgetReceipt, Owner, ThreadKey

try:
    import fcntl
except ImportError:  # on Windows, where nobody replaces a file that is open
    fcntl = None  # type: ignore[assignment]

_Begin = Callable[[sqlite3.Connection], object]

APPLICATION_ID = 0x434D454D  # "CMEM": tells our files from other SQLite databases

_OPEN: WeakSet[_SQLiteBase] = WeakSet()
BUSY_S = 30.0
_PAUSE_S = 0.02
_PATIENCE_AT_FOLDING_S = 0.2
_PATIENCE_WITH_WRITERS_S = 0.1
_LASTING = frozenset(
    {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_AUTH}
)
"""Operational errors that another try does not fix; the others are locks, disks and the like."""
_NEW_STAMP = f"random() & {2**62 - 1}"
_TABLES = [
    # The first one is on the same page of every file, whatever else a file or a copy holds.
    "CREATE TABLE identity(stamp INTEGER NOT NULL)",
    *write_schema(serial="INTEGER PRIMARY KEY", integer="INTEGER", data="BLOB"),
]
_SCHEMA = [
    *_TABLES,
    f"INSERT INTO identity VALUES ({_NEW_STAMP})",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
]


class _Connection:
    """A connection for the holder of its guard, opened when it is first used."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], *, is_kept: bool = True) -> None:
        self.guard = threading.RLock()
        self.db: sqlite3.Connection | None = None
        self.connect = connect
        self.is_kept = is_kept

    def close(self) -> None:
        """Close it when nobody uses it; it may be opened again."""
        with self.guard:
            if self.db is not None:
                self.db.close()
                self.db = None


class _Transaction:
    """Statements on a connection; see `sql_log.Transaction`."""

    for_update = ""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._execute = db.execute

    def rows(self, sql: str, *values: Any) -> list[Any]:
        return self._execute(sql, values).fetchall()

    def count(self, sql: str, *values: Any) -> int:
        return self._execute(sql, values).rowcount

    def do(self, sql: str, *values: Any) -> None:
        self._execute(sql, values)


class _SQLiteBase(SqlLog):
    """What the logs in a file and in memory do alike."""

    _writer: _Connection
    _reader: _Connection
    _apart: _Connection
    """For what takes long."""
    _connections: tuple[_Connection, ...]

    def close(self) -> None:
        """Close the log; later calls raise `LogClosedError`. Idempotent."""
        self._closed = True
        _OPEN.discard(self)
        for connection in self._connections:
            connection.close()
        self._decode_again.cache_clear()
        super().close()

    def _begin(
        self, *, write: bool, durable: bool, once: bool
    ) -> AbstractContextManager[Transaction]:
        if write:
            return self._use(self._writer, partial(self._begin_write, durable=durable))
        return self._use(self._reader, None if once else lambda db: db.execute("BEGIN"))

    @contextmanager
    def _use(self, connection: _Connection, begin: _Begin | None = None) -> Iterator[Transaction]:
        """Use a connection for a block, which is a transaction if something begins it."""
        with connection.guard:
            is_ours = False
            try:
                if connection.db is None:
                    connection.db = connection.connect()
                db = connection.db
                if begin is not None:
                    is_ours = not db.in_transaction
                    begin(db)
                yield _Transaction(db)
                # If a fork has closed it meanwhile, this raises: it must not pass for a commit.
                if is_ours and db.in_transaction:
                    db.execute("COMMIT")
            except sqlite3.DatabaseError as error:
                raise _make_error(self.place, error) from error
            finally:
                if is_ours and connection.db is not None:
                    connection.db.rollback()  # what was not committed
                if not connection.is_kept:
                    connection.close()

    @abstractmethod
    def _begin_write(self, db: sqlite3.Connection, *, durable: bool) -> None:
        """Begin a transaction in which no other writes."""

    def prepare_fork(self) -> None:
        """Wait for calls of other threads, and close what a child must not inherit.

        A log in memory stays open: the child's copy is whole, since no call is under way.
        """
        for connection in self._connections:
            connection.guard.acquire()
            if not self.ends_with_process:
                connection.close()

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
        with self._use(self._apart) as tx:
            found = tx.rows("PRAGMA integrity_check(100)")
        for (finding,) in found:
            if finding != "ok":
                yield StorageProblem("SQLite: " + " ".join(str(finding).split()))
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
        target = _check_path(os.fspath(path))
        _refuse_what_is_there(target, overwrite=overwrite)
        unfinished = target.with_name(f".{target.name}.unfinished")
        try:
            unfinished.unlink(missing_ok=True)  # left by a process that was killed
            _create_file(unfinished)
            with self._use(self._apart) as tx:
                tx.do("VACUUM INTO ?", os.fspath(unfinished))
            with closing(_connect(unfinished)) as db:
                # Another file than its original: no write-ahead file of that one fits it.
                db.execute(f"UPDATE identity SET stamp = {_NEW_STAMP}")
            _write_through(unfinished)
            unfinished.replace(target)
            _write_through(target.parent)
        except (LogError, OSError, sqlite3.DatabaseError) as error:
            for left in (unfinished, _find_wal(unfinished)):
                with suppress(OSError):
                    left.unlink()
            # A full disk is the copy's, which the log's own sentence would not say.
            reason = error.__cause__ if isinstance(error, LogUnavailableError) else error
            msg = f"no copy was made at {target}: {reason}; nothing is left of it"
            raise LogError(msg) from error

    async def abackup(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Copy the log, without blocking the event loop or other calls of this log."""
        await run_in_thread(partial(self.backup, path, overwrite=overwrite))


class SQLiteLog(_SQLiteBase):
    """A message log in a SQLite file; created on first use.

    Safe to share between threads, to open in several processes, and to use after a fork. If the
    file or its directory is not writable, the file is opened read-only.

    Each entry has a checksum. If an entry was altered outside of the log, `Entry.damage` says so
    and `verify` reports it. `verify` also counts missing entries.
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
            signing_key: A secret of 16 to 64 bytes, stored outside of the file: nobody without it
                can alter an entry unnoticed. You cannot add a key to a file that was used without
                one; copy it into a new file.
            read_only: Write nothing, even if the file is writable.

        Raises:
            ConfigError: If the path is not a file in an existing directory, or if the file is
                signed with another key.
            LogError: If another release or another program wrote the file.
            LogError: If the file is not a SQLite database or cannot be opened.
        """
        super().__init__(signing_key)
        self.path = _check_path(os.fspath(path))
        self.place = str(self.path)
        self._is_durable = True
        self._is_read_only = read_only or not _may_write(self.path)
        self._writer = _Connection(self._connect)
        # Where nothing may be locked, a connection that is kept would not see what others write.
        is_kept = not self._is_read_only
        self._reader = _Connection(self._connect_to_read, is_kept=is_kept)
        self._apart = _Connection(self._connect_to_read, is_kept=False)
        self._connections = self._apart, self._writer, self._reader
        try:  # a file that cannot be used is refused here, not at the first message
            _refuse_foreign_wal(self.path)
            if not self._is_read_only:
                with self._use(self._writer):
                    pass  # the tables are there now
            with self._transaction(once=True) as tx:
                self._check_key(tx)
        except BaseException:
            self.close()
            raise
        FORKS.add(self)
        _OPEN.add(self)

    def __repr__(self) -> str:
        return f"SQLiteLog({str(self.path)!r})"

    def _begin_write(self, db: sqlite3.Connection, *, durable: bool) -> None:
        is_there = False
        with suppress(FileNotFoundError):
            is_there = os.path.samestat(self.path.stat(), self._file)
        if not is_there:
            msg = f"{self.path} is no longer the file that was opened: it was moved, deleted or "
            raise LogError(f"{msg}replaced; nothing was written: put it back, or open the log anew")
        if durable is not self._is_durable:
            db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._is_durable = durable
        db.execute("BEGIN IMMEDIATE")
        db.execute("UPDATE identity SET stamp = stamp + 1")

    # -- connections ------------------------------------------------------------------------------

    def _connect(self) -> sqlite3.Connection:
        self._check_open()
        if self._is_read_only:
            why = "is open for reading alone, since the file or its directory may not be written"
            way = "change their rights, or go on with a backup elsewhere"
            raise LogError(f"the log on {self.path} {why}: {way}")
        _create_file(self.path)
        db = _connect(self.path)
        try:
            _make_tables(db, self.path, self._signer)
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA secure_delete = ON")
        except BaseException:
            db.close()
            raise
        self._is_durable, self._file = True, self.path.stat()
        return db

    def _connect_to_read(self) -> sqlite3.Connection:
        self._check_open()
        if not self._is_read_only:
            return _connect(self.path)
        # Without a write-ahead file SQLite cannot read such a database, unless it is told that
        # nobody changes it.
        has_wal = _find_wal(self.path).exists()
        db = _connect(self.path, "mode=ro" if has_wal else "mode=ro&immutable=1")
        _has_tables(db, self.path)
        return db

    # -- erasing ----------------------------------------------------------------------------------

    def forget(
        self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None = None
    ) -> ForgetReceipt:
        """Erase an owner, a thread or some of its entries; see `MessageLog.forget`.

        You can forget damaged entries by their ids, too, or by `damaged-POSITION` if the id is not
        readable. The freed space is overwritten and the write-ahead file merged.

        Raises:
            LogUnavailableError: If the disk is full, or other processes keep reading the old text;
                the message says what was erased and what to do.
        """
        if not self._is_read_only:
            # Then the write begins at the start of the write-ahead file, which a full disk allows.
            self._fold("RESTART")
        return super().forget(scope, entry_ids)

    def _scrub(self) -> None:
        """Fold the write-ahead file into the database, so that erased text leaves it too."""
        if not _await(lambda: self._fold("TRUNCATE"), BUSY_S):
            msg = "is in use: entries are deleted, but their text is still in the write-ahead file"
            raise LogUnavailableError(f"the log on {self.path} {msg}; forget them again")

    def _fold(self, how: str) -> bool:
        """Try once. While SQLite waits here for a reader, nobody can write: so not for long."""
        with self._use(self._writer) as tx:
            tx.do(f"PRAGMA busy_timeout = {round(_PATIENCE_AT_FOLDING_S * 1000)}")
            try:
                return not tx.rows(f"PRAGMA wal_checkpoint({how})")[0][0]
            finally:
                tx.do(f"PRAGMA busy_timeout = {round(BUSY_S * 1000)}")


class InMemoryLog(_SQLiteBase):
    """A message log that exists as long as the object. Thread-safe; one process only.

    A forked child continues with its own copy.
    """

    ends_with_process = True

    def __init__(self) -> None:
        """Create an empty log."""
        super().__init__(None)
        self.place = "memory"
        self._writer = self._reader = self._apart = _Connection(self._connect)
        self._connections = (self._writer,)
        FORKS.add(self)

    def __repr__(self) -> str:
        return "InMemoryLog()"

    def _connect(self) -> sqlite3.Connection:
        self._check_open()
        db = _connect(":memory:")
        _write_tables(db, self._signer)
        return db

    def _begin_write(self, db: sqlite3.Connection, *, durable: bool) -> None:
        del durable
        db.execute("BEGIN")


def _make_error(place: str, error: sqlite3.DatabaseError) -> LogError:
    """Return what an error of SQLite means for a caller."""
    log = f"the log on {place}"
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if isinstance(error, sqlite3.ProgrammingError):
        return LogError(f"{log} was closed in a transaction, as by a fork: nothing is written")
    way = "'convmem db restore BACKUP' replaces it; --fetch keeps what can still be read"
    if code == sqlite3.SQLITE_NOTADB:
        return LogError(f"{place} is not a SQLite database; use another file. If it was one, {way}")
    if code == sqlite3.SQLITE_CORRUPT:
        return LogError(f"{log} is damaged: {error}; {way}")
    if code == sqlite3.SQLITE_FULL:
        way = "make room and try again, or go on with a backup of it on another disk"
        return LogUnavailableError(f"the disk of {log} is full, and nothing was written; {way}")
    if isinstance(error, sqlite3.OperationalError) and code not in _LASTING:
        return LogUnavailableError(f"{log} is unavailable: {error}; try again")
    return LogError(f"{log} cannot be used: {error}; check the file and its rights")


def _await(attempt: Callable[[], bool], seconds: float) -> bool:
    """Try again and again until it succeeds; return whether it did in time."""
    deadline = time.monotonic() + seconds
    while not (is_done := attempt()) and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)
    return is_done


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
    if not path.exists() and not os.access(path.parent, os.W_OK):
        raise ConfigError(f"{path.parent} is not writable; use a file elsewhere")
    return all(os.access(one, os.W_OK) for one in (path.parent, path) if one.exists())


def _connect(path: Path | str, mode: str = "") -> sqlite3.Connection:
    """Return a connection, which reads damaged text as bytes."""
    db = sqlite3.connect(
        f"{Path(path).as_uri()}?{mode}" if mode else path,
        uri=bool(mode),
        timeout=BUSY_S,
        isolation_level=None,
        check_same_thread=False,
    )
    db.text_factory = _read_text
    return db


def _read_text(data: bytes) -> str | bytes:
    # As bytes alone, 10,000 rows take half as long again to read: both forms are kept meanwhile.
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _make_tables(db: sqlite3.Connection, path: Path, signer: Signer) -> None:
    """Make the tables of an empty database, in one transaction, and have it use a WAL.

    Raises:
        LogError: If another release or another program wrote the file.
    """
    if not _has_tables(db, path):
        db.execute("BEGIN IMMEDIATE")
        # Another process may have made them while this one waited for the lock.
        if not _has_tables(db, path):
            _write_tables(db, signer)
        db.execute("COMMIT")
    # SQLite does not wait for its own lock here, whatever the timeout.
    if not _await(lambda: _use_wal(db), BUSY_S):
        raise LogUnavailableError(f"{path} is being opened by others all the while; try again")


def _write_tables(db: sqlite3.Connection, signer: Signer) -> None:
    for statement in _SCHEMA:
        db.execute(statement)
    db.execute(NEW_META, (signer.key_id,))


def _has_tables(db: sqlite3.Connection, path: Path) -> bool:
    """Return whether the file has tables of ours. Writes nothing.

    Raises:
        LogError: If another release or another program wrote the file.
        LogError: If the tables are not those that were made.
    """
    # In one statement, which sees one state of the file: another process may be making them.
    query = "SELECT application_id, user_version, sql FROM pragma_application_id, "
    rows = db.execute(f"{query} pragma_user_version LEFT JOIN sqlite_master").fetchall()
    (application, version, _), tables = rows[0], {sql for _, _, sql in rows} - {None}
    if not (tables or application or version):
        return False
    if (application, version) != (APPLICATION_ID, SCHEMA_VERSION):
        way = f"has schema version {version}; open it with the release that wrote it"
        if application != APPLICATION_ID:
            way = "is a SQLite database of another program; choose another file"
        raise LogError(f"{path} {way}")
    if not tables >= {sql for sql in _TABLES if sql.startswith("CREATE")}:
        raise LogError(f"the tables of {path} are damaged; restore a backup of it")
    return True


def _use_wal(db: sqlite3.Connection) -> bool:
    """Put a new file into WAL mode, where it stays; return False if another does it right now."""
    try:
        db.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise
        return False
    return True


def _create_file(path: Path) -> None:
    """Create a file that only its owner may read, unless it is there; SQLite's own follow it."""
    with suppress(OSError):  # it is there, or SQLite says what is wrong
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


# -- the write-ahead file -------------------------------------------------------------------------

_WAL_HEADER, _FRAME_HEADER = 32, 24


def _find_wal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _refuse_foreign_wal(path: Path) -> None:
    """Refuse a database beside which lies the write-ahead file of another one. Writes nothing.

    Raises:
        LogError: If that is so.
    """
    if path.exists() and not _await(lambda: _is_own_wal(path), _PATIENCE_WITH_WRITERS_S):
        msg = f"{_find_wal(path)} belongs to another file than {path}, which a copy has replaced"
        way = f"rename the copy, and put it in place: 'convmem db restore COPY --db {path.name}'"
        raise LogError(f"{msg}; nothing was written: {way}")


def _is_own_wal(path: Path) -> bool:
    if not _count_commits(_find_wal(path)):
        return True
    before, now = _read_stamp(path, "immutable=1"), _read_stamp(path, "mode=ro")
    if before is None or now is None:
        return before is None  # then it is none of ours yet; whoever opens it learns more
    # Each commit of the file has raised the number by one, and some may have been folded in.
    # They are counted last: what others commit meanwhile must not look like another file's.
    is_own = now - _count_commits(_find_wal(path)) <= before <= now
    # What others fold in meanwhile changes the first of the two: then this tells nothing.
    return is_own or _read_stamp(path, "immutable=1") != before


def _read_stamp(path: Path, mode: str) -> int | None:
    """Return the number of a file's last write: with the write-ahead file, or without."""
    with suppress(sqlite3.DatabaseError), closing(_connect(path, mode)) as db:
        return int(db.execute("SELECT coalesce(max(stamp), 0) FROM identity").fetchone()[0])
    return None


def _count_commits(wal: Path) -> int:
    """Return how many commits a write-ahead file holds that count."""
    commits = 0
    with suppress(FileNotFoundError), wal.open("rb") as file:
        header = file.read(_WAL_HEADER)
        page_bytes, salts = int.from_bytes(header[8:12], "big"), header[16:24]
        while (frame := file.read(_FRAME_HEADER))[8:16] == salts != b"":
            commits += frame[4:8] != bytes(4)
            file.seek(page_bytes, os.SEEK_CUR)
    return commits


# -- copies ---------------------------------------------------------------------------------------


def _refuse_what_is_there(target: Path, *, overwrite: bool) -> None:
    if not overwrite and (target.exists() or target.is_symlink()):
        msg = f"{target} exists; choose another name for the copy, or pass overwrite (--overwrite)"
        raise ConfigError(msg)
    if not os.access(target.parent, os.W_OK):
        raise ConfigError(f"{target.parent} may not be written; put the copy elsewhere")
    left = _find_wal(target)
    if left.exists():
        msg = f"{left} exists, which belongs to another {target.name}; choose another name"
        raise ConfigError(msg)


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
        kept: The path that the file that was there has now; None if there was none.
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
    """Replace a log's file, which must be closed, with a backup.

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
    if source == target:
        raise ConfigError(f"{target} is the log itself and no backup of it; name the backup")
    if not source.exists():
        raise ConfigError(f"there is no backup at {source}")
    _refuse_use(target)
    made = target.with_name(f".{target.name}.restored")
    with SQLiteLog(source, signing_key=signing_key, read_only=True) as log:
        _find_wal(made).unlink(missing_ok=True)
        log.backup(made, overwrite=True)
    held = _merge(target, made, Signer(signing_key)) if fetch and target.exists() else None
    with closing(_connect(made, "immutable=1")) as db:
        [(entries,)] = db.execute("SELECT count(*) FROM entries").fetchall()
    kept = target.with_name(f"{target.name}.{datetime.now(UTC):%Y%m%dT%H%M%S.%f}")
    # One of them may be missing, and the other is not to be lost.
    ends = [end for end in ("", "-wal") if target.with_name(target.name + end).exists()]
    for end in ends:
        target.with_name(target.name + end).rename(f"{kept}{end}")
    target.with_name(f"{target.name}-shm").unlink(missing_ok=True)
    made.replace(target)
    _write_through(target.parent)
    return Restored(entries, 0 if held is None else entries - held, kept if ends else None)


def _refuse_use(path: Path) -> None:
    """Refuse a file that somebody has open, as far as that can be told.

    Raises:
        LogError: If it may not be replaced.
        LogUnavailableError: If somebody has it open.
    """
    is_used = any(log.place == str(path) for log in _OPEN)
    # To close the file drops the locks of this process; it has none if it does not use the log.
    if not is_used and path.exists() and fcntl is not None:
        if not _may_write(path):
            raise LogError(f"{path} or its directory may not be written; change their rights")
        with path.open("r+b") as file:
            try:  # every connection holds one of these bytes
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)
            except OSError:
                is_used = True
    if is_used:
        raise LogUnavailableError(f"the log on {path} is in use; close it everywhere first")


def _merge(path: Path, made: Path, signer: Signer) -> int:
    """Write what a file holds over a copy of its backup; return how many sound entries it holds."""
    held = 0
    with closing(_connect(path, "mode=ro")) as old, closing(_connect(made)) as new:
        new.execute("PRAGMA secure_delete = ON")
        new.execute("BEGIN")
        epochs = [_read_rows(db, "SELECT epoch FROM meta") for db in (old, new)]
        query = "SELECT owner, name, generation, last FROM owners"
        known, backed_up = ({row[0]: row for row in _read_rows(db, query)} for db in (old, new))
        for number, name, _, last in (backed_up | known).values():
            found = _read_entries(old, number << 32, number << 32 | last)
            before, now = backed_up.get(number, ())[:3], known.get(number, ())[:3]
            if epochs[0] != epochs[1] and before != now:
                # Something was forgotten since: what is not there may be just that.
                there = [row[0] for row in found if name in before]
                others = "place >> 32 = ? AND place NOT IN (SELECT value FROM json_each(?))"
                new.execute(f"DELETE FROM entries WHERE {others}", (number, json.dumps(there)))
                for table in ("owners", "documents"):
                    new.execute(f"DELETE FROM {table} WHERE owner = ?", (number,))
            owner = read_owner(name)
            sound = [row for row in found if owner and _is_sound(row, owner, signer)]
            _insert(new, "entries", sound)
            held += len(sound)
        if epochs[0]:
            new.execute("DELETE FROM meta")
        for table in ("meta", "owners", "documents"):
            _insert(new, table, _read_rows(old, f"SELECT * FROM {table}"))
        new.execute("COMMIT")
    return held


def _read_rows(db: sqlite3.Connection, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query; none where they cannot be read."""
    with suppress(sqlite3.DatabaseError):
        return db.execute(query).fetchall()
    return []


def _read_entries(db: sqlite3.Connection, first: int, last: int) -> list[tuple[Any, ...]]:
    """Return the entries from one place to another that can be read."""
    query = "SELECT * FROM entries WHERE place BETWEEN ? AND ?"
    with suppress(sqlite3.DatabaseError):
        return db.execute(query, (first, last)).fetchall()
    if first == last:
        return []
    middle = (first + last) // 2
    return _read_entries(db, first, middle) + _read_entries(db, middle + 1, last)


def _insert(db: sqlite3.Connection, table: str, rows: Sequence[Sequence[Any]]) -> None:
    if rows:
        marks = ", ".join("?" * len(rows[0]))
        db.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", rows)


def _is_sound(row: Sequence[Any], owner: Owner, signer: Signer) -> bool:
    place, thread, entry_id, turn, role, _, *rest = row
    key = ThreadKey(owner.user_id, read_name(thread) or "?")
    return not signer.find_damage(key, read_row((thread, place, entry_id, turn, role, *rest)))
