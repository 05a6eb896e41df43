"""The driver of a PostgreSQL log: connections, transactions in both worlds, its errors as ours.

The only file that imports psycopg, and only when a log is made.

A procedure is a generator over a `Transaction`: it yields statements and gets their rows back, in
both worlds. Nothing survives the transaction, so a pooler may hand every transaction to another
server connection.

Connections come from the log's own pools, or from the caller. The own ones have no threads and no
background tasks: whoever needs a connection opens it. So a program may end without closing them, a
server that cannot be reached is noticed at once, and a forked child just starts anew. What the
caller gave is borrowed: between two calls of the log it is as the caller left it, and it is never
closed.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from langchain_convmem.effects import Effect, Steps, make_effect, run_async, run_sync
from langchain_convmem.errors import (
    ConfigError,
    LogClosedError,
    LogError,
    LogUnavailableError,
    MissingExtraError,
)

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection
    from psycopg import Error as DriverError
    from psycopg_pool import AsyncConnectionPool, ConnectionPool

T = TypeVar("T")

_DEFAULTS = {
    "application_name": "langchain-convmem",
    "connect_timeout": "10",
    # Without these, a server that vanished is noticed after a quarter of an hour.
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
"""Connection settings that a dsn may override."""
_LOST = frozenset({"25P03", "25P04", "57P01", "57P02", "57P03", "57P05"})
"""The server ended the connection: by its administrator, a crash, a timeout of the idle."""
_STANDBY = "25006"
"""The server only reads: after a failover, until the address leads to the new primary."""
_LASTING = ("28", "3D", "54", "57P04")
"""Beginnings of operational errors that another try does not fix: rights, names, limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """How a log connects; see `PostgresLog`."""

    dsn: str | None
    pool: ConnectionPool[Any] | Connection[Any] | None
    async_pool: AsyncConnectionPool[Any] | AsyncConnection[Any] | None
    schema: str
    min_size: int
    max_size: int
    statement_timeout_s: float | None
    prepared_statements: bool


class PostgresConnections:
    """Runs jobs in transactions. Safe from several threads and event loops, and after a fork."""

    def __init__(self, options: ConnectionOptions) -> None:
        """Prepare; nothing is connected yet.

        Raises:
            MissingExtraError: If psycopg is not installed.
            ConfigError: If the dsn cannot be read.
        """
        self._options = options
        self._parameters = _parse_dsn(options.dsn)
        self._given = _wrap_given(options.pool)
        self._given_async = _wrap_given_async(options.async_pool)
        self._begin = {mode: _write_begin(mode, options.statement_timeout_s) for mode in Mode}
        self._closed = False
        self._inherited: list[object] = []
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        options = self._options
        self._own = _OwnPool(self._connect, min_size=options.min_size, max_size=options.max_size)
        self._own_async: dict[asyncio.AbstractEventLoop, _OwnAsyncPool] = {}

    @property
    def place(self) -> str:
        """Where the log is, without any password."""
        where = self._parameters or {}
        server = f"{where.get('host', 'the local server')}/{where.get('dbname', '')}"
        return f"{server if where else 'the given connections'}, schema {self._options.schema!r}"

    def check_open(self) -> None:
        """Raise `LogClosedError` after `close`."""
        if self._closed:
            raise LogClosedError(f"the log on {self.place} is closed; open it again")

    def close(self) -> None:
        """Close what is the log's own; what is in use closes when it comes back. Never waits."""
        self._renew_after_fork()
        self._closed = True
        self._own.close()
        for loop, pool in self._own_async.items():
            _close_from_anywhere(loop, pool)

    # -- transactions ---------------------------------------------------------------------------

    def transact(self, mode: Mode, job: Job[T]) -> T:
        """Run a job in a transaction of its own; an exception rolls it back."""
        from psycopg import Cursor
        from psycopg.rows import tuple_row

        transaction = Transaction(self._options.schema)
        with self._translate_errors(transaction), self._get_source().lend() as connection:
            transaction.cursor = Cursor(connection, row_factory=tuple_row)
            return run_sync(_run_whole(transaction, self._begin[mode], job))

    async def atransact(self, mode: Mode, job: Job[T]) -> T:
        """Run a job in a transaction of its own; an exception or a cancellation rolls it back."""
        from psycopg import AsyncCursor
        from psycopg.rows import tuple_row

        transaction = Transaction(self._options.schema)
        with self._translate_errors(transaction):
            async with self._get_async_source().lend() as connection:
                transaction.cursor = AsyncCursor(connection, row_factory=tuple_row)
                return await run_async(_run_whole(transaction, self._begin[mode], job))

    def drop_idle(self) -> None:
        """Close idle connections, so that the next call makes a new one."""
        with self._translate_errors():
            self._get_source().drop_idle()

    async def adrop_idle(self) -> None:
        """Close idle connections of the running loop."""
        with self._translate_errors():
            await self._get_async_source().drop_idle()

    # -- where connections come from ------------------------------------------------------------

    def _get_source(self) -> ConnectionSource:
        self.check_open()
        if self._given is not None:
            return self._given
        if self._parameters is None:
            raise ConfigError(
                "this log has asynchronous connections only; await its a... methods, or give it "
                "a dsn or a pool as well"
            )
        self._renew_after_fork()
        return self._own

    def _get_async_source(self) -> AsyncConnectionSource:
        self.check_open()
        if self._given_async is not None:
            return self._given_async
        if self._parameters is None:
            raise ConfigError(
                "this log has synchronous connections only; give it a dsn or an async_pool as well"
            )
        self._renew_after_fork()
        return self._own_async.get(asyncio.get_running_loop()) or self._make_async_pool()

    def _make_async_pool(self) -> _OwnAsyncPool:
        for loop in [loop for loop in self._own_async if loop.is_closed()]:
            self._own_async.pop(loop).close()
        options = self._options
        pool = _OwnAsyncPool(self._aconnect, min_size=options.min_size, max_size=options.max_size)
        return self._own_async.setdefault(asyncio.get_running_loop(), pool)

    def _renew_after_fork(self) -> None:
        if self._pid != os.getpid():
            # Not closed: that would end the parent's sessions. Not dropped either: that would warn.
            self._inherited += [self._own, self._own_async]
            self._start()

    def _connect(self) -> Connection[Any]:
        from psycopg import Connection

        return Connection.connect(**self._make_settings())

    async def _aconnect(self) -> AsyncConnection[Any]:
        from psycopg import AsyncConnection

        return await AsyncConnection.connect(**self._make_settings())

    def _make_settings(self) -> dict[str, Any]:
        return {
            **(self._parameters or {}),
            "client_encoding": "utf8",
            "autocommit": True,  # we begin our transactions ourselves
            "prepare_threshold": 5 if self._options.prepared_statements else None,
        }

    # -- errors -----------------------------------------------------------------------------------

    @contextmanager
    def _translate_errors(self, transaction: Transaction | None = None) -> Iterator[None]:
        from psycopg import Error

        try:
            yield
        except Error as error:
            raise self._translate(error, transaction) from error

    def _translate(self, error: DriverError, transaction: Transaction | None) -> LogError:
        from psycopg import OperationalError

        state = error.sqlstate or ""
        # The first line alone, of the cause as well: the others may quote what was to be stored.
        reason = str(error).partition("\n")[0]
        error.args = (reason,)
        unavailable = f"the log on {self.place} is unavailable: {reason}; try again"
        operational = isinstance(error, OperationalError)
        # Errors without a state are the client's own: it found the connection broken.
        lost = state in _LOST or (operational and (not state or state.startswith("08")))
        if lost and transaction is not None and transaction.cursor is not None:
            return ConnectionLostError(unavailable, transaction=transaction)
        if lost or state == _STANDBY or (operational and not state.startswith(_LASTING)):
            return LogUnavailableError(unavailable)
        msg = f"the log on {self.place} cannot be used: {reason}; check the schema and its rights"
        return LogError(msg)


def _parse_dsn(dsn: str | None) -> dict[str, Any] | None:
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError as error:
        raise MissingExtraError.build("PostgresLog", "postgres") from error
    if dsn is None:
        return None
    try:
        return {**_DEFAULTS, **conninfo_to_dict(dsn)}
    except ProgrammingError:
        # Neither the dsn nor the reason is shown: both may hold the password.
        raise ConfigError(
            "the dsn cannot be read; pass 'postgresql://user@host:5432/database' or "
            "'host=... dbname=... user=...'"
        ) from None


def _wrap_given(pool: ConnectionPool[Any] | Connection[Any] | None) -> ConnectionSource | None:
    from psycopg import Connection

    if pool is None:
        return None
    if isinstance(pool, Connection):
        return _GivenConnection(pool)
    if hasattr(pool, "connection") and not _is_async(pool):
        return _GivenPool(pool)
    raise ConfigError(f"pool must be a psycopg ConnectionPool or Connection, got {pool!r}")


def _wrap_given_async(
    pool: AsyncConnectionPool[Any] | AsyncConnection[Any] | None,
) -> AsyncConnectionSource | None:
    from psycopg import AsyncConnection

    if pool is None:
        return None
    if isinstance(pool, AsyncConnection):
        return _GivenAsyncConnection(pool)
    if hasattr(pool, "connection") and _is_async(pool):
        return _GivenAsyncPool(pool)
    msg = f"async_pool must be a psycopg AsyncConnectionPool or AsyncConnection, got {pool!r}"
    raise ConfigError(msg)


def _is_async(pool: object) -> bool:
    return hasattr(pool, "__aenter__")


def _reset(connection: Connection[Any]) -> bool:
    """End what is left of a transaction; return whether the connection can be used again."""
    from psycopg import Error

    if connection.info.transaction_status.name != "IDLE":
        with suppress(Error):  # then the connection is broken, and so is the transaction
            connection.rollback()
    return connection.info.transaction_status.name == "IDLE"


async def _areset(connection: AsyncConnection[Any]) -> bool:
    from psycopg import Error

    if connection.info.transaction_status.name != "IDLE":
        with suppress(Error):
            await connection.rollback()
    return connection.info.transaction_status.name == "IDLE"


def _close_from_anywhere(loop: asyncio.AbstractEventLoop, pool: _OwnAsyncPool) -> None:
    """Close a loop's pool, in its own thread while it runs in another one."""
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    if loop is not here and loop.is_running():
        with suppress(RuntimeError):  # it has ended meanwhile, and its tasks with it
            loop.call_soon_threadsafe(pool.close)
            return
    pool.close()


# -- transactions -----------------------------------------------------------------------------


class Mode(Enum):
    """What a transaction is for."""

    READ = "read"
    """One state of the database, without locks."""
    WRITE = "write"
    """Survives a crash of the server machine once committed."""
    RELAXED = "relaxed"
    """May lose its commit in a crash of the server, never a part of itself."""
    ERASE = "erase"
    """As `WRITE`; may run as long as it takes, since what is erased may be large."""


class ConnectionLostError(LogUnavailableError):
    """The connection broke; the server has undone whatever was not committed."""

    def __init__(self, message: str, *, transaction: Transaction | None = None) -> None:
        """Create the error for the transaction that was under way."""
        super().__init__(message)
        self.transaction = transaction


class Transaction:
    """An open transaction; its statements run one after the other.

    Attributes:
        cursor: The driver's cursor; None until a connection was found.
        xid: The server's number for a writing transaction, else None.
        committing: COMMIT was sent: if its answer is lost, the server may have carried it out.
        result: What the procedure returned.
    """

    def __init__(self, schema: str) -> None:
        """Create a transaction on the tables of `schema`, a plain identifier."""
        self.schema = schema
        self.cursor: Any = None
        self.xid: str | None = None
        self.committing = False
        self.result: Any = None

    def query(self, text: str, *values: Any) -> Effect:
        """Return the step that runs a statement and returns its rows.

        Args:
            text: SQL with `{s}` for the schema, `%s` for each value. Without values it may be
                several statements; the rows of the last one count.
            values: Bound, never part of the text.
        """
        return make_effect(self.fetch, self.afetch, text, values)

    def change(self, text: str, *values: Any) -> Effect:
        """Return the step that runs a statement and returns how many rows it touched."""
        return make_effect(self.count, self.acount, text, values)

    def fetch(self, text: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Run a statement; see `query`."""
        self.cursor.execute(self.write_sql(text), values or None, binary=bool(values))
        while self.cursor.nextset():
            pass
        return self.cursor.fetchall() if self.cursor.description else []

    async def afetch(self, text: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Run a statement; see `query`."""
        await self.cursor.execute(self.write_sql(text), values or None, binary=bool(values))
        while self.cursor.nextset():
            pass
        return await self.cursor.fetchall() if self.cursor.description else []

    def count(self, text: str, values: tuple[Any, ...]) -> int:
        """Run a statement; see `change`."""
        self.cursor.execute(self.write_sql(text), values)
        return int(self.cursor.rowcount)

    async def acount(self, text: str, values: tuple[Any, ...]) -> int:
        """Run a statement; see `change`."""
        await self.cursor.execute(self.write_sql(text), values)
        return int(self.cursor.rowcount)

    def write_sql(self, text: str) -> bytes:
        """Return a statement with the schema filled in."""
        return text.format(s=f'"{self.schema}"').encode()


Job: TypeAlias = Callable[[Transaction], Steps[T]]
"""A procedure inside one transaction; may be run again from the start on another connection."""


def _run_whole(transaction: Transaction, begin: str, job: Job[T]) -> Steps[T]:
    """Run a job between `begin` and COMMIT; whoever lent the connection undoes what fails."""
    rows: list[tuple[Any, ...]] = yield transaction.query(begin)
    transaction.xid = rows[0][0] if rows else None
    transaction.result = yield from job(transaction)
    transaction.committing = transaction.xid is not None
    yield transaction.query("COMMIT")
    result: T = transaction.result
    return result


def _write_begin(mode: Mode, timeout_s: float | None) -> str:
    """Return what opens a transaction, limits included, in one message to the server.

    Everything is LOCAL: behind a pooler, the next transaction may be of another client.

    Args:
        mode: What it is for.
        timeout_s: How long one statement may take, locks included, and how long the server keeps
            an idle transaction (and its locks) of a client that it hears nothing of; None leaves
            both to the server's settings.
    """
    level = "REPEATABLE READ READ ONLY" if mode is Mode.READ else "READ COMMITTED READ WRITE"
    parts = [f"BEGIN ISOLATION LEVEL {level}"]
    if timeout_s is not None:
        limited = "lock_timeout" if mode is Mode.ERASE else "statement_timeout"
        milliseconds = max(1, round(timeout_s * 1000))
        parts += [
            f"SET LOCAL {name} = {milliseconds}"
            for name in (limited, "idle_in_transaction_session_timeout")
        ]
    if mode is not Mode.READ:
        parts.append(
            "SELECT pg_current_xact_id()::text, "
            f"set_config('synchronous_commit', {_write_durability(mode)}, true)"
        )
    return "; ".join(parts)


def _write_durability(mode: Mode) -> str:
    if mode is Mode.RELAXED:
        return "'off'"
    # A server may be set to acknowledge early; what waits for replicas stays as it is set.
    now = "current_setting('synchronous_commit')"
    return f"CASE {now} WHEN 'off' THEN 'on' ELSE {now} END"


# -- the log's own connections ----------------------------------------------------------------

_WAIT_S = 30.0
_MAX_IDLE_S = 600.0


class ConnectionSource(Protocol):
    """Lends connections that are in no transaction and take `BEGIN` as it comes."""

    def lend(self) -> AbstractContextManager[Connection[Any]]:
        """Lend a connection; what is left of its transaction at the end is rolled back."""
        ...

    def drop_idle(self) -> None:
        """Close what lies idle: the server that it was connected to may be gone."""
        ...


class AsyncConnectionSource(Protocol):
    """The same for one event loop."""

    def lend(self) -> AbstractAsyncContextManager[AsyncConnection[Any]]:
        """Lend a connection; what is left of its transaction at the end is rolled back."""
        ...

    async def drop_idle(self) -> None:
        """Close what lies idle: the server that it was connected to may be gone."""
        ...


class _IdleStack:
    """Idle connections, the one used last on top. Thread-safe; closing one never waits."""

    def __init__(self, min_size: int) -> None:
        self._min_size = min_size
        self._lock = threading.Lock()
        self._idle: list[tuple[float, Any]] = []
        self._closed = False

    def take(self) -> Any:
        with self._lock:
            return self._idle.pop()[1] if self._idle else None

    def put(self, connection: Any) -> None:
        now = time.monotonic()
        with self._lock:
            self._idle.append((now, connection))
            spare = 0 if self._closed else self._min_size
            surplus = self._idle[: max(0, len(self._idle) - spare)]
            stale = [item for item in surplus if self._closed or item[0] < now - _MAX_IDLE_S]
            self._idle = self._idle[len(stale) :]
        _close_all(stale)

    def clear(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        _close_all(idle)

    def close(self) -> None:
        self._closed = True
        self.clear()


def _close_all(items: list[tuple[float, Any]]) -> None:
    for _, connection in items:
        connection.pgconn.finish()


def _make_exhausted_error(max_size: int) -> LogUnavailableError:
    return LogUnavailableError(
        f"all {max_size} connections of the log are in use for {_WAIT_S:g} s; try again, or open "
        "the log with a larger max_size"
    )


class _OwnPool:
    """PostgresConnections of its own for any number of threads. Thread-safe."""

    def __init__(
        self,
        connect: Callable[[], Connection[Any]],
        *,
        min_size: int,
        max_size: int,
    ) -> None:
        """Create a pool that is still empty.

        Args:
            connect: Opens a connection.
            min_size: So many stay open, however long they lie idle.
            max_size: So many at once; further threads wait.
        """
        self._connect = connect
        self._max_size = max_size
        self._slots = threading.BoundedSemaphore(max_size)
        self._idle = _IdleStack(min_size)

    @contextmanager
    def lend(self) -> Iterator[Connection[Any]]:
        """Lend a connection; see `ConnectionSource.lend`."""
        if not self._slots.acquire(timeout=_WAIT_S):
            raise _make_exhausted_error(self._max_size)
        try:
            connection = self._idle.take() or self._connect()
            usable = False
            try:
                try:
                    yield connection
                finally:
                    usable = _reset(connection)
            finally:
                if usable:
                    self._idle.put(connection)
                else:
                    connection.pgconn.finish()
        finally:
            self._slots.release()

    def drop_idle(self) -> None:
        """Close what lies idle."""
        self._idle.clear()

    def close(self) -> None:
        """Close what lies idle; what is lent closes when it comes back. Never waits."""
        self._idle.close()


class _OwnAsyncPool:
    """PostgresConnections of its own for the tasks of one event loop."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[AsyncConnection[Any]]],
        *,
        min_size: int,
        max_size: int,
    ) -> None:
        """Create a pool that is still empty; see `_OwnPool`."""
        self._connect = connect
        self._max_size = max_size
        self._slots = asyncio.BoundedSemaphore(max_size)
        self._idle = _IdleStack(min_size)

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[AsyncConnection[Any]]:
        """Lend a connection; a cancelled task gives it back like any other."""
        await self._wait_for_slot()
        try:
            connection = self._idle.take() or await self._connect()
            usable = False
            try:
                try:
                    yield connection
                finally:
                    usable = await _areset(connection)
            finally:
                if usable:
                    self._idle.put(connection)
                else:
                    connection.pgconn.finish()
        finally:
            self._slots.release()

    async def _wait_for_slot(self) -> None:
        try:
            async with asyncio.timeout(_WAIT_S):
                await self._slots.acquire()
        except TimeoutError:
            raise _make_exhausted_error(self._max_size) from None

    async def drop_idle(self) -> None:
        """Close what lies idle."""
        self._idle.clear()

    def close(self) -> None:
        """Close what lies idle; what is lent closes when it comes back. Never waits."""
        self._idle.close()


# -- connections of the caller ----------------------------------------------------------------


def _check_given(connection: Connection[Any] | AsyncConnection[Any]) -> None:
    """Refuse a connection whose own transaction ours would end, or that cannot hold every text."""
    if connection.closed:
        return  # the first statement tells, as with one that breaks later
    if connection.info.transaction_status.name != "IDLE":
        raise ConfigError("the given connection has an open transaction; commit it first")
    if connection.info.encoding != "utf-8":
        msg = f"the given connection has the encoding {connection.info.encoding!r}; set it to UTF8"
        raise ConfigError(msg)


@contextmanager
def _borrow(connection: Connection[Any]) -> Iterator[Connection[Any]]:
    _check_given(connection)
    before = connection.autocommit
    connection.autocommit = True  # we begin our transactions ourselves
    try:
        yield connection
    finally:
        if _reset(connection):
            connection.autocommit = before


@asynccontextmanager
async def _aborrow(connection: AsyncConnection[Any]) -> AsyncIterator[AsyncConnection[Any]]:
    _check_given(connection)
    before = connection.autocommit
    await connection.set_autocommit(True)
    try:
        yield connection
    finally:
        if await _areset(connection):
            await connection.set_autocommit(before)


class _GivenPool:
    """A pool of the caller's; its size and its timeouts count."""

    def __init__(self, pool: ConnectionPool[Any]) -> None:
        self._pool = pool

    @contextmanager
    def lend(self) -> Iterator[Connection[Any]]:
        """Lend a connection; see `ConnectionSource.lend`."""
        with self._pool.connection() as connection, _borrow(connection):
            yield connection

    def drop_idle(self) -> None:
        """Let the pool look for its broken connections."""
        self._pool.check()


class _GivenAsyncPool:
    """An asynchronous pool of the caller's, for the event loop that it was opened in."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[AsyncConnection[Any]]:
        """Lend a connection; see `AsyncConnectionSource.lend`."""
        async with (
            self._pool.connection() as connection,
            _aborrow(connection) as borrowed,
        ):
            yield borrowed

    async def drop_idle(self) -> None:
        """Let the pool look for its broken connections."""
        await self._pool.check()


class _GivenConnection:
    """One connection of the caller's; the log's calls take turns on it."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    @contextmanager
    def lend(self) -> Iterator[Connection[Any]]:
        """Lend the connection; see `ConnectionSource.lend`."""
        with self._lock, _borrow(self._connection) as borrowed:
            yield borrowed

    def drop_idle(self) -> None:
        """Do nothing: another connection is the caller's to give."""


class _GivenAsyncConnection:
    """One asynchronous connection of the caller's; the log's calls take turns on it."""

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self._connection = connection
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[AsyncConnection[Any]]:
        """Lend the connection; see `AsyncConnectionSource.lend`."""
        async with self._lock, _aborrow(self._connection) as borrowed:
            yield borrowed

    async def drop_idle(self) -> None:
        """Do nothing: another connection is the caller's to give."""
