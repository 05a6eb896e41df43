"""A lock that threads and tasks wait for together, first come, first served."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field

from langchain_convmem.effects import Step
from langchain_convmem.errors import ThreadBusyError

__all__ = ["FairLock"]


@dataclass(eq=False, slots=True)
class _Ticket:
    """A place in the line; `loop` is the event loop of a task that waits."""

    loop: asyncio.AbstractEventLoop | None
    turn: Future[None] = field(default_factory=Future)


class FairLock:
    """Not reentrant. It may be released by another thread than the one that acquired it."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._line: deque[_Ticket] = deque()  # the first one holds the lock

    def taking(self) -> Step:
        """Return the step that waits for the lock."""
        return Step(self.acquire, self.aacquire)

    def acquire(self) -> None:
        """Wait for the lock.

        Raises:
            ThreadBusyError: If a task of the event loop that runs here has it or waits for it:
                that task could not go on before this call returns.
        """
        ticket = self._enter(_Ticket(None), running=_running_loop())
        try:
            ticket.turn.result()
        except BaseException:
            self._leave(ticket)
            raise

    async def aacquire(self) -> None:
        """Wait for the lock without blocking the event loop."""
        ticket = self._enter(_Ticket(asyncio.get_running_loop()), running=None)
        try:
            await asyncio.wrap_future(ticket.turn)
        except BaseException:
            self._leave(ticket)
            raise

    def release(self) -> None:
        """Give the lock to whoever waits longest."""
        with self._guard:
            holder = self._line[0]
        self._leave(holder)

    def _enter(self, ticket: _Ticket, *, running: asyncio.AbstractEventLoop | None) -> _Ticket:
        with self._guard:
            if running is not None and any(other.loop is running for other in self._line):
                msg = (
                    "a task of this event loop is using the log, and a synchronous call would "
                    "keep it from going on; await the asynchronous twin instead"
                )
                raise ThreadBusyError(msg)
            self._line.append(ticket)
        self._admit()
        return ticket

    def _leave(self, ticket: _Ticket) -> None:
        with self._guard:
            self._line.remove(ticket)
        self._admit()

    def _admit(self) -> None:
        with self._guard:
            head = self._line[0].turn if self._line else None
            # Who was cancelled at the head leaves by itself, and admits the next one then.
            admitted = head is not None and not head.done() and not head.running()
            admitted = admitted and head is not None and head.set_running_or_notify_cancel()
        if admitted and head is not None:
            head.set_result(None)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
