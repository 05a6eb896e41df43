"""First in, first out: the turns of one thread run one after the other within a process."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Hashable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import TypeAlias

from langchain_convmem.errors import ThreadBusyError
from langchain_convmem.records import ThreadKey

__all__ = ["TurnQueue"]

_HELD: ContextVar[frozenset[Future[None]]] = ContextVar("convmem_held", default=frozenset())
"""The tickets under which the running code was started. Never reset: a generator may be closed
outside the context it ran in. Whether a ticket still holds its thread is for the queue to say."""

Place: TypeAlias = tuple[Hashable, ThreadKey]
"""A thread and the log it is in: equal names in two logs are two threads."""


class TurnQueue:
    """Gives threads to turns in order of arrival; synchronous and asynchronous turns share it.

    Thread-safe. A forked child starts with empty lines: the parent's turns do not live there.
    """

    def __init__(self) -> None:
        # Reentrant: the garbage collector may close a forgotten stream at any moment.
        self._lock = threading.RLock()
        self._lines: dict[Place, deque[Future[None]]] = {}
        self._pid = os.getpid()

    @contextmanager
    def turn(self, place: Place, timeout_s: float) -> Iterator[None]:
        """Hold the thread; wait for the turns before.

        Raises:
            ThreadBusyError: If the wait takes longer than `timeout_s`, or this very turn already
                holds the thread, so that waiting would never end.
        """
        self._refuse_reentry(place)
        ticket = self._enter(place)
        try:
            try:
                ticket.result(timeout_s)
            except TimeoutError:
                raise _busy(place, timeout_s) from None
            _HELD.set(_HELD.get() | {ticket})
            yield
        finally:
            self._leave(place, ticket)

    @asynccontextmanager
    async def aturn(self, place: Place, timeout_s: float) -> AsyncIterator[None]:
        """Hold the thread without blocking the event loop; see `turn`."""
        self._refuse_reentry(place)
        ticket = self._enter(place)
        try:
            try:
                async with asyncio.timeout(timeout_s):
                    await asyncio.wrap_future(ticket)
            except TimeoutError:
                raise _busy(place, timeout_s) from None
            _HELD.set(_HELD.get() | {ticket})
            yield
        finally:
            self._leave(place, ticket)

    def _refuse_reentry(self, place: Place) -> None:
        with self._lock:
            line = self._lines.get(place)
            holder = line[0] if line else None
        if holder in _HELD.get():
            thread_id = place[1].thread_id
            msg = (
                f"a turn of thread {thread_id!r} started another turn of the same thread, "
                "which would wait for itself; use another thread_id inside the chain"
            )
            raise ThreadBusyError(msg, thread_id=thread_id)

    def _enter(self, place: Place) -> Future[None]:
        if self._pid != os.getpid():
            TurnQueue.__init__(self)
        ticket: Future[None] = Future()
        with self._lock:
            self._lines.setdefault(place, deque()).append(ticket)
        self._admit(place)
        return ticket

    def _leave(self, place: Place, ticket: Future[None]) -> None:
        with self._lock:
            line = self._lines[place]
            line.remove(ticket)
            if not line:
                del self._lines[place]
        self._admit(place)

    def _admit(self, place: Place) -> None:
        with self._lock:
            line = self._lines.get(place)
            head = line[0] if line else None
            # A cancelled waiter at the head leaves by itself and admits the next one then.
            admitted = (
                head is not None
                and not head.running()
                and not head.done()
                and head.set_running_or_notify_cancel()
            )
        if admitted and head is not None:
            head.set_result(None)


def _busy(place: Place, timeout_s: float) -> ThreadBusyError:
    thread_id = place[1].thread_id
    msg = (
        f"thread {thread_id!r} was still busy after {timeout_s:g} s; is a stream of it left "
        "open? Close it, or raise queue_timeout_s"
    )
    return ThreadBusyError(msg, thread_id=thread_id)
