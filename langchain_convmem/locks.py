"""Waiting for turns: a lock with threads and asyncio tasks in one line, and a count of turns."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future
from concurrent.futures import wait as wait_for_futures
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from itertools import takewhile

from langchain_convmem.errors import ThreadBusyError
from langchain_convmem.forks import make_lock

_LATE = (
    "was still busy after {:g} s; is a stream of it left open? Close it, or raise queue_timeout_s, "
    "busy_timeout_s for a conversation"
)
_STUCK = (
    "has a turn going on right here, so the call would wait for itself; close its stream first, "
    "or, inside a chain or a tool, use another thread_id"
)


_GUARD = make_lock()
"""Held for a moment, whichever line changes. Reentrant: the garbage collector may close a
forgotten stream at any time."""


class FifoLock:
    """Lets one caller through at a time, first in, first out.

    Thread-safe; it never blocks an event loop. It may be left by another thread than the one that
    entered. A forked child starts with an empty line: the parent's callers do not live there.
    """

    def __init__(self, thread_id: str) -> None:
        """Create a lock that nobody holds.

        Args:
            thread_id: Whose turns wait in the line, for errors.
        """
        self._line: deque[Waiter] = deque()
        self._pid = os.getpid()
        self._thread_id = thread_id

    @property
    def is_mine(self) -> bool:
        """Whether the running code was started by who is inside."""
        return any(waiter.is_mine for waiter in list(self._line)[:1])

    @contextmanager
    def hold(self, timeout_s: float | None = None) -> Iterator[None]:
        """Be inside; wait for those before.

        Args:
            timeout_s: How long to wait at most; None waits for ever.

        Raises:
            ThreadBusyError: If the wait takes longer, or would never end, since this very caller
                is inside already, or a task of the event loop that runs here.
        """
        waiter = self.enter()
        try:
            self.wait(waiter, timeout_s)
            yield
        finally:
            self.leave(waiter)

    @asynccontextmanager
    async def ahold(self, timeout_s: float | None = None) -> AsyncIterator[None]:
        """Be inside without blocking the event loop; see `hold`."""
        waiter = self.enter()
        try:
            await self.await_turn(waiter, timeout_s)
            yield
        finally:
            self.leave(waiter)

    def wait(
        self,
        waiter: Waiter,
        timeout_s: float | None = None,
        stopped: Future[None] | None = None,
    ) -> None:
        """Wait until a waiter is let through; see `hold`.

        Args:
            waiter: A place in the line.
            timeout_s: How long to wait at most.
            stopped: Ends the wait by its exception.
        """
        if not waiter.done():
            self._check_own_loop(waiter)
            try:
                _wait_for(waiter, timeout_s, stopped)
            except TimeoutError:
                raise self._make_error(_LATE.format(timeout_s or 0)) from None
        note_held(frozenset({waiter}))

    async def await_turn(self, waiter: Waiter, timeout_s: float | None = None) -> None:
        """Wait until a waiter is let through, without blocking the event loop; see `wait`."""
        waiter.loop = asyncio.get_running_loop()
        try:
            if not waiter.done():  # nothing is waited for then, not even if there is no time
                async with asyncio.timeout(timeout_s):
                    await asyncio.wrap_future(waiter)
        except TimeoutError:
            raise self._make_error(_LATE.format(timeout_s or 0)) from None
        note_held(frozenset({waiter}))

    def _check_own_loop(self, waiter: Waiter) -> None:
        """Refuse to block an event loop whose tasks are ahead in the line."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return
        with _GUARD:
            ahead = takewhile(lambda other: other is not waiter, list(self._line))
            is_stuck = any(other.loop is running for other in ahead)
        if is_stuck:
            raise self._make_error(_STUCK)

    def _make_error(self, problem: str) -> ThreadBusyError:
        msg = f"thread {self._thread_id!r} {problem}"
        return ThreadBusyError(msg, thread_id=self._thread_id)

    def enter(self) -> Waiter:
        """Take the next place in the line; whoever does has to `leave`.

        Raises:
            ThreadBusyError: If this caller is inside already, and would have to wait.
        """
        waiter = Waiter()
        with _GUARD:
            if self._pid != os.getpid():
                self._line.clear()
                self._pid = os.getpid()
            if self._line and self.is_mine:
                raise self._make_error(_STUCK)
            self._line.append(waiter)
        self._admit()
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """Go out, or give up a place in the line. Idempotent."""
        with _GUARD:
            waiter.is_over = True
            if waiter in self._line:
                self._line.remove(waiter)
        self._admit()

    def _admit(self) -> None:
        admitted = []
        with _GUARD:
            for waiter in list(self._line)[:1]:
                is_waiting = not (waiter.running() or waiter.done())
                # A cancelled waiter leaves by itself and admits the next one then.
                if is_waiting and waiter.set_running_or_notify_cancel():
                    admitted.append(waiter)
        for waiter in admitted:
            waiter.set_result(None)


class Waiter(Future[None]):
    """A place in the line of a lock; done when it is let through."""

    is_over = False
    """Whether its holder has left, or is being made to."""
    loop: asyncio.AbstractEventLoop | None = None
    """The event loop of a task that waits, or has waited."""

    @property
    def is_mine(self) -> bool:
        """Whether the running code was started by the holder, who is still inside."""
        return not self.is_over and self in _HELD.get()


_HELD: ContextVar[frozenset[Waiter]] = ContextVar("convmem_held", default=frozenset())
"""The waiters under which the running code was started. Never reset: a generator may be closed
outside the context it ran in. Those that are over are dropped with the next one."""


def note_held(waiters: frozenset[Waiter]) -> None:
    """Note that the running code, and what it starts, is inside by these waiters."""
    held = _HELD.get()
    if not waiters <= held:
        _HELD.set(frozenset([one for one in held | waiters if not one.is_over]))


def _wait_for(waiter: Waiter, timeout_s: float | None, stopped: Future[None] | None) -> None:
    if stopped is None or waiter.done():
        waiter.result(timeout_s)
        return
    wait_for_futures([waiter, stopped], timeout_s, return_when=FIRST_COMPLETED)
    (waiter if waiter.done() or not stopped.done() else stopped).result(0)


class WritingTurns:
    """Counts turns from the first write to the last. Thread-safe; a forked child has none."""

    def __init__(self) -> None:
        """Start with none; of each, the process and the thread in which it began are noted."""
        self._begun: dict[Future[None], tuple[int, int]] = {}

    @contextmanager
    def count(self) -> Iterator[None]:
        """Count a turn while it runs."""
        over: Future[None] = Future()
        self._begun[over] = (os.getpid(), threading.get_ident())
        try:
            yield
        finally:
            del self._begun[over]
            over.set_result(None)

    def wait(self, timeout_s: float | None) -> bool:
        """Wait until the turns of other threads are over.

        Those that began in this thread cannot go on while it waits.

        Args:
            timeout_s: Seconds to wait at most; None waits for ever.

        Returns:
            Whether they are.
        """
        this = (os.getpid(), threading.get_ident())
        begun = self._begun.copy().items()
        others = [over for over, place in begun if place[0] == this[0] and place != this]
        return not wait_for_futures(others, timeout_s).not_done
