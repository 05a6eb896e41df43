"""The connection pools that a PostgreSQL log opens itself.

They have no threads and no background tasks: whoever needs a connection opens it. So a program may
end without closing them, a server that cannot be reached is told at once, and a forked child just
starts anew. This file imports no driver.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import TYPE_CHECKING, Any, Protocol

from langchain_convmem.errors import LogUnavailableError

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection

__all__ = [
    "AsyncLender",
    "AsyncPool",
    "Lender",
    "Pool",
]

_WAIT_S = 30.0
_MAX_IDLE_S = 600.0


class Lender(Protocol):
    """Lends connections that are in no transaction and take `BEGIN` as it comes."""

    def lend(self) -> AbstractContextManager[Connection[Any]]:
        """Lend a connection; what is left of its transaction at the end is rolled back."""
        ...

    def drop_idle(self) -> None:
        """Close what lies idle: the server that it was connected to may be gone."""
        ...


class AsyncLender(Protocol):
    """The same for one event loop."""

    def lend(self) -> AbstractAsyncContextManager[AsyncConnection[Any]]:
        """Lend a connection; what is left of its transaction at the end is rolled back."""
        ...

    async def drop_idle(self) -> None:
        """Close what lies idle: the server that it was connected to may be gone."""
        ...


class _Shelf:
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
        _finish(stale)

    def clear(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        _finish(idle)

    def close(self) -> None:
        self._closed = True
        self.clear()


def _finish(items: list[tuple[float, Any]]) -> None:
    for _, connection in items:
        connection.pgconn.finish()


def _exhausted(max_size: int) -> LogUnavailableError:
    return LogUnavailableError(
        f"all {max_size} connections of the log are in use for {_WAIT_S:g} s; try again, or open "
        "the log with a larger max_size"
    )


class Pool:
    """Connections of its own for any number of threads. Thread-safe."""

    def __init__(
        self,
        connect: Callable[[], Connection[Any]],
        reset: Callable[[Connection[Any]], bool],
        *,
        min_size: int,
        max_size: int,
    ) -> None:
        """Create a pool that is still empty.

        Args:
            connect: Opens a connection.
            reset: Ends what is left of a transaction; whether the connection can be used again.
            min_size: So many stay open, however long they lie idle.
            max_size: So many at once; further threads wait.
        """
        self._connect = connect
        self._reset = reset
        self._max_size = max_size
        self._slots = threading.BoundedSemaphore(max_size)
        self._shelf = _Shelf(min_size)

    @contextmanager
    def lend(self) -> Iterator[Connection[Any]]:
        """Lend a connection; see `Lender.lend`."""
        if not self._slots.acquire(timeout=_WAIT_S):
            raise _exhausted(self._max_size)
        try:
            connection = self._shelf.take() or self._connect()
            usable = False
            try:
                try:
                    yield connection
                finally:
                    usable = self._reset(connection)
            finally:
                if usable:
                    self._shelf.put(connection)
                else:
                    connection.pgconn.finish()
        finally:
            self._slots.release()

    def drop_idle(self) -> None:
        """Close what lies idle."""
        self._shelf.clear()

    def close(self) -> None:
        """Close what lies idle; what is lent closes when it comes back. Never waits."""
        self._shelf.close()


class AsyncPool:
    """Connections of its own for the tasks of one event loop."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[AsyncConnection[Any]]],
        reset: Callable[[AsyncConnection[Any]], Awaitable[bool]],
        *,
        min_size: int,
        max_size: int,
    ) -> None:
        """Create a pool that is still empty; see `Pool`."""
        self._connect = connect
        self._reset = reset
        self._max_size = max_size
        self._slots = asyncio.BoundedSemaphore(max_size)
        self._shelf = _Shelf(min_size)

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[AsyncConnection[Any]]:
        """Lend a connection; see `Lender.lend`. A cancelled task gives it back like any other."""
        await self._wait_for_slot()
        try:
            connection = self._shelf.take() or await self._connect()
            usable = False
            try:
                try:
                    yield connection
                finally:
                    usable = await self._reset(connection)
            finally:
                if usable:
                    self._shelf.put(connection)
                else:
                    connection.pgconn.finish()
        finally:
            self._slots.release()

    async def _wait_for_slot(self) -> None:
        try:
            async with asyncio.timeout(_WAIT_S):
                await self._slots.acquire()
        except TimeoutError:
            raise _exhausted(self._max_size) from None

    async def drop_idle(self) -> None:
        """Close what lies idle."""
        self._shelf.clear()

    def close(self) -> None:
        """Close what lies idle; what is lent closes when it comes back. Never waits."""
        self._shelf.close()
