"""Connections and pools that the caller of a PostgreSQL log gave: borrowed, never closed.

Between two calls of the log they are as the caller left them. This file imports no driver.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from langchain_convmem.errors import ConfigError

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection
    from psycopg_pool import AsyncConnectionPool, ConnectionPool

__all__ = ["GivenAsyncConnection", "GivenAsyncPool", "GivenConnection", "GivenPool"]


def _check(connection: Connection[Any] | AsyncConnection[Any]) -> None:
    """Refuse a connection whose own transaction ours would end, or that cannot hold every text."""
    if connection.closed:
        return  # the first statement tells, as with one that breaks later
    if connection.info.transaction_status.name != "IDLE":
        raise ConfigError("the given connection has an open transaction; commit it first")
    if connection.info.encoding != "utf-8":
        msg = f"the given connection has the encoding {connection.info.encoding!r}; set it to UTF8"
        raise ConfigError(msg)


@contextmanager
def _borrowed(
    connection: Connection[Any], reset: Callable[[Connection[Any]], bool]
) -> Iterator[Connection[Any]]:
    _check(connection)
    before = connection.autocommit
    connection.autocommit = True  # we begin our transactions ourselves
    try:
        yield connection
    finally:
        if reset(connection):
            connection.autocommit = before


@asynccontextmanager
async def _aborrowed(
    connection: AsyncConnection[Any], reset: Callable[[AsyncConnection[Any]], Awaitable[bool]]
) -> AsyncIterator[AsyncConnection[Any]]:
    _check(connection)
    before = connection.autocommit
    await connection.set_autocommit(True)
    try:
        yield connection
    finally:
        if await reset(connection):
            await connection.set_autocommit(before)


class GivenPool:
    """A pool of the caller's; its size and its timeouts count."""

    def __init__(self, pool: ConnectionPool[Any], reset: Callable[[Connection[Any]], bool]) -> None:
        """Lend from `pool`; `reset` ends what is left of a transaction."""
        self._pool = pool
        self._reset = reset

    @contextmanager
    def lend(self) -> Iterator[Connection[Any]]:
        """Lend a connection; see `Lender.lend`."""
        with self._pool.connection() as connection, _borrowed(connection, self._reset):
            yield connection

    def drop_idle(self) -> None:
        """Let the pool look for its broken connections."""
        self._pool.check()


class GivenAsyncPool:
    """An asynchronous pool of the caller's, for the event loop that it was opened in."""

    def __init__(
        self,
        pool: AsyncConnectionPool[Any],
        reset: Callable[[AsyncConnection[Any]], Awaitable[bool]],
    ) -> None:
        """Lend from `pool`; `reset` ends what is left of a transaction."""
        self._pool = pool
        self._reset = reset

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[AsyncConnection[Any]]:
        """Lend a connection; see `AsyncLender.lend`."""
        async with (
            self._pool.connection() as connection,
            _aborrowed(connection, self._reset) as borrowed,
        ):
            yield borrowed

    async def drop_idle(self) -> None:
        """Let the pool look for its broken connections."""
        await self._pool.check()


class GivenConnection:
    """One connection of the caller's; the log's calls take turns on it."""

    def __init__(
        self, connection: Connection[Any], reset: Callable[[Connection[Any]], bool]
    ) -> None:
        """Lend `connection`; `reset` ends what is left of a transaction."""
        self._connection = connection
        self._reset = reset
        self._lock = threading.Lock()

    @contextmanager
    def lend(self) -> Iterator[Connection[Any]]:
        """Lend the connection; see `Lender.lend`."""
        with self._lock, _borrowed(self._connection, self._reset) as borrowed:
            yield borrowed

    def drop_idle(self) -> None:
        """Do nothing: another connection is the caller's to give."""


class GivenAsyncConnection:
    """One asynchronous connection of the caller's; the log's calls take turns on it."""

    def __init__(
        self,
        connection: AsyncConnection[Any],
        reset: Callable[[AsyncConnection[Any]], Awaitable[bool]],
    ) -> None:
        """Lend `connection`; `reset` ends what is left of a transaction."""
        self._connection = connection
        self._reset = reset
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[AsyncConnection[Any]]:
        """Lend the connection; see `AsyncLender.lend`."""
        async with self._lock, _aborrowed(self._connection, self._reset) as borrowed:
            yield borrowed

    async def drop_idle(self) -> None:
        """Do nothing: another connection is the caller's to give."""
