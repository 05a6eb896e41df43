"""The driver behind a PostgreSQL log: connections, transactions in both worlds, its errors as ours.

The only file that imports psycopg, and only when a log is made.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_convmem.effects import arun, run
from langchain_convmem.errors import (
    ConfigError,
    LogClosedError,
    LogError,
    LogUnavailableError,
    MissingExtraError,
)
from langchain_convmem.logs.postgres.given import (
    GivenAsyncConnection,
    GivenAsyncPool,
    GivenConnection,
    GivenPool,
)
from langchain_convmem.logs.postgres.pools import AsyncLender, AsyncPool, Lender, Pool
from langchain_convmem.logs.postgres.transactions import (
    ConnectionLostError,
    Job,
    Mode,
    Transaction,
    opening,
    whole,
)

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection
    from psycopg import Error as DriverError
    from psycopg_pool import AsyncConnectionPool, ConnectionPool

__all__ = ["Connections", "Options"]

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
"""Beginnings of operational errors that another try does not mend: rights, names, limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a log connects; see `PostgresLog`."""

    dsn: str | None
    pool: ConnectionPool[Any] | Connection[Any] | None
    async_pool: AsyncConnectionPool[Any] | AsyncConnection[Any] | None
    schema: str
    min_size: int
    max_size: int
    statement_timeout_s: float | None
    prepared_statements: bool


class Connections:
    """Runs jobs in transactions. Safe from several threads and event loops, and after a fork."""

    def __init__(self, options: Options) -> None:
        """Prepare; nothing is connected yet.

        Raises:
            MissingExtraError: If psycopg is not installed.
            ConfigError: If the dsn cannot be read.
        """
        self._options = options
        self._parameters = _parameters(options.dsn)
        self._given = _given(options.pool)
        self._given_async = _given_async(options.async_pool)
        self._begin = {mode: opening(mode, options.statement_timeout_s) for mode in Mode}
        self._closed = False
        self._inherited: list[object] = []
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        options = self._options
        self._own = Pool(
            self._connect, _reset, min_size=options.min_size, max_size=options.max_size
        )
        self._own_async: dict[asyncio.AbstractEventLoop, AsyncPool] = {}

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
        self._after_fork()
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
        with self._translated(transaction), self._lender().lend() as connection:
            transaction.cursor = Cursor(connection, row_factory=tuple_row)
            return run(whole(transaction, self._begin[mode], job))

    async def atransact(self, mode: Mode, job: Job[T]) -> T:
        """Run a job in a transaction of its own; an exception or a cancellation rolls it back."""
        from psycopg import AsyncCursor
        from psycopg.rows import tuple_row

        transaction = Transaction(self._options.schema)
        with self._translated(transaction):
            async with self._alender().lend() as connection:
                transaction.cursor = AsyncCursor(connection, row_factory=tuple_row)
                return await arun(whole(transaction, self._begin[mode], job))

    def drop_idle(self) -> None:
        """Close idle connections, so that the next call makes a new one."""
        with self._translated():
            self._lender().drop_idle()

    async def adrop_idle(self) -> None:
        """Close idle connections of the running loop."""
        with self._translated():
            await self._alender().drop_idle()

    # -- where connections come from ------------------------------------------------------------

    def _lender(self) -> Lender:
        self.check_open()
        if self._given is not None:
            return self._given
        if self._parameters is None:
            raise ConfigError(
                "this log has asynchronous connections only; await its a... methods, or give it "
                "a dsn or a pool as well"
            )
        self._after_fork()
        return self._own

    def _alender(self) -> AsyncLender:
        self.check_open()
        if self._given_async is not None:
            return self._given_async
        if self._parameters is None:
            raise ConfigError(
                "this log has synchronous connections only; give it a dsn or an async_pool as well"
            )
        self._after_fork()
        return self._own_async.get(asyncio.get_running_loop()) or self._new_async()

    def _new_async(self) -> AsyncPool:
        for loop in [loop for loop in self._own_async if loop.is_closed()]:
            self._own_async.pop(loop).close()
        options = self._options
        pool = AsyncPool(
            self._aconnect, _areset, min_size=options.min_size, max_size=options.max_size
        )
        return self._own_async.setdefault(asyncio.get_running_loop(), pool)

    def _after_fork(self) -> None:
        if self._pid != os.getpid():
            # Not closed: that would end the parent's sessions. Not dropped either: that would warn.
            self._inherited += [self._own, self._own_async]
            self._start()

    def _connect(self) -> Connection[Any]:
        from psycopg import Connection

        return Connection.connect(**self._settings())

    async def _aconnect(self) -> AsyncConnection[Any]:
        from psycopg import AsyncConnection

        return await AsyncConnection.connect(**self._settings())

    def _settings(self) -> dict[str, Any]:
        return {
            **(self._parameters or {}),
            "client_encoding": "utf8",
            "autocommit": True,  # we begin our transactions ourselves
            "prepare_threshold": 5 if self._options.prepared_statements else None,
        }

    # -- errors -----------------------------------------------------------------------------------

    @contextmanager
    def _translated(self, transaction: Transaction | None = None) -> Iterator[None]:
        from psycopg import Error

        try:
            yield
        except Error as error:
            raise self._ours(error, transaction) from error

    def _ours(self, error: DriverError, transaction: Transaction | None) -> LogError:
        from psycopg import OperationalError

        state = error.sqlstate or ""
        # The first line alone: the others may quote what was to be stored.
        reason = str(error).partition("\n")[0]
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


def _parameters(dsn: str | None) -> dict[str, Any] | None:
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError as error:
        raise MissingExtraError.for_extra("PostgresLog", "postgres") from error
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


def _given(pool: ConnectionPool[Any] | Connection[Any] | None) -> Lender | None:
    from psycopg import Connection

    if pool is None:
        return None
    if isinstance(pool, Connection):
        return GivenConnection(pool, _reset)
    if hasattr(pool, "connection") and not _is_async(pool):
        return GivenPool(pool, _reset)
    raise ConfigError(f"pool must be a psycopg ConnectionPool or Connection, got {pool!r}")


def _given_async(
    pool: AsyncConnectionPool[Any] | AsyncConnection[Any] | None,
) -> AsyncLender | None:
    from psycopg import AsyncConnection

    if pool is None:
        return None
    if isinstance(pool, AsyncConnection):
        return GivenAsyncConnection(pool, _areset)
    if hasattr(pool, "connection") and _is_async(pool):
        return GivenAsyncPool(pool, _areset)
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


def _close_from_anywhere(loop: asyncio.AbstractEventLoop, pool: AsyncPool) -> None:
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
