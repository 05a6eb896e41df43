"""First in, first out: the turns of one thread run one after the other within a process."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeAlias
from weakref import WeakValueDictionary

from langchain_convmem.errors import ThreadBusyError
from langchain_convmem.gates import Gate, Refusals
from langchain_convmem.records import ThreadKey

__all__ = ["TURN_QUEUE", "TurnQueue"]

Place: TypeAlias = tuple[Hashable, ThreadKey]
"""A thread and the log it is in: equal names in two logs are two threads."""


class TurnQueue:
    """Gives threads to turns in order of arrival; synchronous and asynchronous turns share it.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._gates: WeakValueDictionary[Place, Gate] = WeakValueDictionary()

    def gate(self, place: Place) -> Gate:
        """Return the gate of a thread; it lives as long as somebody holds it."""
        with self._lock:
            gate = self._gates.get(place)
            if gate is None:
                gate = self._gates[place] = Gate(_refusals(place[1].thread_id))
            return gate

    @contextmanager
    def turn(self, place: Place, timeout_s: float) -> Iterator[None]:
        """Hold the thread; wait for the turns before.

        Raises:
            ThreadBusyError: If the wait takes longer than `timeout_s`, or this very turn already
                holds the thread, so that waiting would never end.
        """
        with self.gate(place).held(timeout_s):
            yield

    @asynccontextmanager
    async def aturn(self, place: Place, timeout_s: float) -> AsyncIterator[None]:
        """Hold the thread without blocking the event loop; see `turn`."""
        async with self.gate(place).aheld(timeout_s):
            yield


def _refusals(thread_id: str) -> Refusals:
    def late(timeout_s: float) -> ThreadBusyError:
        msg = (
            f"thread {thread_id!r} was still busy after {timeout_s:g} s; is a stream of it left "
            "open? Close it, or raise queue_timeout_s"
        )
        return ThreadBusyError(msg, thread_id=thread_id)

    def inside() -> ThreadBusyError:
        msg = (
            f"a turn of thread {thread_id!r} started another turn of the same thread, "
            "which would wait for itself; use another thread_id inside the chain"
        )
        return ThreadBusyError(msg, thread_id=thread_id)

    return Refusals(late, inside)


TURN_QUEUE = TurnQueue()
"""One per process: whatever runs turns over one thread takes turns as well."""
