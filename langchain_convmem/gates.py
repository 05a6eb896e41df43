"""A gate lets callers through in order of arrival: threads and asyncio tasks in one line."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future
from concurrent.futures import wait as wait_for_first
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from langchain_convmem.effects import Step, Steps, arun, run

__all__ = ["Gate", "Refusals", "Ticket", "hold", "tickets_held"]


class Ticket(Future[None]):
    """A place in the line of a gate; done when it is let through."""

    is_over = False
    """Whether its holder has left, or is being made to."""

    @property
    def is_mine(self) -> bool:
        """Whether the running code was started by the holder, who is still inside."""
        return not self.is_over and self in _HELD.get()


_HELD: ContextVar[frozenset[Ticket]] = ContextVar("convmem_held", default=frozenset())
"""The tickets under which the running code was started. Never reset: a generator may be closed
outside the context it ran in. Those that are over are dropped with the next one."""


def tickets_held() -> frozenset[Ticket]:
    """Return the tickets by which the running code is inside somewhere."""
    return _HELD.get()


def hold(tickets: frozenset[Ticket]) -> None:
    """Note that the running code, and what it starts, is inside by these tickets."""
    held = _HELD.get()
    if not tickets <= held:
        _HELD.set(frozenset(one for one in held | tickets if not one.is_over))


class Refusals(NamedTuple):
    """What callers are told that are not let through.

    Attributes:
        late: Makes the error of whoever waited so many seconds in vain.
        inside: Makes the error of whoever is inside already, and would wait for itself.
    """

    late: Callable[[float], Exception]
    inside: Callable[[], Exception]


class Gate:
    """Lets a few callers through at a time, first in, first out.

    Thread-safe; it never blocks an event loop. A forked child starts with an empty line: the
    parent's callers do not live there.
    """

    def __init__(self, refusals: Refusals, *, capacity: int = 1) -> None:
        """Create an open gate.

        Args:
            refusals: The errors of those who wait in vain.
            capacity: How many are inside at once.
        """
        # Reentrant: the garbage collector may close a forgotten stream at any moment.
        self._lock = threading.RLock()
        self._line: deque[Ticket] = deque()
        self._pid = os.getpid()
        self._refusals = refusals
        self._capacity = capacity

    @property
    def is_free(self) -> bool:
        """Whether nobody is inside or in the line."""
        with self._lock:
            return not self._line

    @contextmanager
    def held(self, timeout_s: float | None = None) -> Iterator[None]:
        """Be inside; wait for those before.

        Args:
            timeout_s: How long to wait at most; None waits for ever.

        Raises:
            Exception: What the refusals make: if the wait takes longer, or if this very caller is
                inside already, so that waiting would never end.
        """
        ticket = self.enter()
        try:
            run(self.wait_steps(ticket, timeout_s))
            yield
        finally:
            self.leave(ticket)

    @asynccontextmanager
    async def aheld(self, timeout_s: float | None = None) -> AsyncIterator[None]:
        """Be inside without blocking the event loop; see `held`."""
        ticket = self.enter()
        try:
            await arun(self.wait_steps(ticket, timeout_s))
            yield
        finally:
            self.leave(ticket)

    def wait_steps(
        self,
        ticket: Ticket,
        timeout_s: float | None = None,
        stopped: Future[None] | None = None,
    ) -> Steps[None]:
        """Wait until a ticket is let through; see `held`.

        Args:
            ticket: A place in the line.
            timeout_s: How long to wait at most.
            stopped: Ends the wait of a thread by its exception; a task is cancelled instead.
        """

        async def wait() -> None:
            if not ticket.done():  # nothing is waited for then, not even if there is no time
                async with asyncio.timeout(timeout_s):
                    await asyncio.wrap_future(ticket)

        try:
            yield Step(lambda: _wait_for(ticket, timeout_s, stopped), wait)
        except TimeoutError:
            raise self._refusals.late(timeout_s or 0) from None
        hold(frozenset({ticket}))

    @property
    def is_mine(self) -> bool:
        """Whether the running code was started by who is inside."""
        with self._lock:
            return any(ticket.is_mine for ticket in self._inside())

    def enter(self) -> Ticket:
        """Take the next place in the line; whoever does has to `leave`.

        Raises:
            Exception: What the refusals make: if this caller is inside already, and would have to
                wait.
        """
        ticket = Ticket()
        with self._lock:
            if self._pid != os.getpid():
                self._line.clear()
                self._pid = os.getpid()
            if len(self._line) >= self._capacity and self.is_mine:
                raise self._refusals.inside()
            self._line.append(ticket)
        self._admit()
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """Go out, or give up a place in the line. Idempotent."""
        with self._lock:
            ticket.is_over = True
            if ticket in self._line:
                self._line.remove(ticket)
        self._admit()

    def _inside(self) -> list[Ticket]:
        return list(self._line)[: self._capacity]

    def _admit(self) -> None:
        for ticket in self._next_ones():
            ticket.set_result(None)

    def _next_ones(self) -> list[Ticket]:
        with self._lock:
            # A cancelled waiter leaves by itself and admits the next one then.
            return [
                ticket
                for ticket in self._inside()
                if not ticket.running()
                and not ticket.done()
                and ticket.set_running_or_notify_cancel()
            ]


def _wait_for(ticket: Ticket, timeout_s: float | None, stopped: Future[None] | None) -> None:
    if stopped is None or ticket.done():
        ticket.result(timeout_s)
        return
    wait_for_first([ticket, stopped], timeout_s, return_when=FIRST_COMPLETED)
    (ticket if ticket.done() or not stopped.done() else stopped).result(0)
