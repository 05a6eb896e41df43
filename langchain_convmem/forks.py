"""What a fork must not cut in two, and locks that a forked child can take.

A child has one thread, the one that forked. What other threads were doing stays half done in its
memory for ever, and a lock that one of them held is never released. So work that must be whole
enters a gate, which a fork waits for; and locks that are held for a moment are new in the child.

Imports are such work, too: much is imported when it is first used, by whatever thread that is. A
child that asks for a module whose import was cut short would wait for ever.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from weakref import WeakSet

_PATIENCE_S = 5.0
_PATIENCE_INSIDE_S = 0.2
"""Of a thread that forks while it is inside itself: the others may be waiting for it."""
PATIENCE_IMPORTING_S = 2.0
_PAUSE_S = 0.002


class ForkResource(Protocol):
    """What is closed before a fork, such as a set of connections; told in the child as well."""

    def prepare_fork(self) -> None:
        """Close what a child must not inherit. Nobody is inside, unless waiting was in vain."""

    def resume_after_fork(self) -> None:
        """Go on in the parent."""

    def begin_in_child(self) -> None:
        """Begin anew in a child; what is still open now belongs to the parent."""


class ForkGate:
    """Lets threads in while no thread forks; a fork waits, for a while, until they have left.

    Thread-safe. Who is inside may enter again at any time, even while a fork waits. A fork never
    waits for the thread that forks.

    Attributes:
        pid: The process whose threads are inside.
    """

    def __init__(self, patience_s: float = _PATIENCE_S) -> None:
        """Create a gate that nobody has entered; a fork waits so many seconds at most."""
        self.patience_s = patience_s
        self._resources: WeakSet[ForkResource] = WeakSet()
        self._never_done: set[int] = set()
        self._begin({})

    def _begin(self, inside: dict[int, int]) -> None:
        self.pid = os.getpid()
        # Reentrant: the garbage collector may close a forgotten generator at any moment.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._inside = inside
        self._forking: set[int] = set()
        self._prepared: dict[int, list[ForkResource]] = {}

    def add(self, resource: ForkResource) -> None:
        """Have a resource closed before each fork; it is held weakly."""
        with self._lock:
            self._resources.add(resource)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Be inside for a block."""
        thread = self.enter()
        try:
            yield
        finally:
            self.leave(thread)

    def enter(self) -> int:
        """Go inside, after the forks under way; return what `leave` takes."""
        if self.pid != os.getpid():
            self.begin_in_child()  # forked by what knows no hooks of Python
        thread = threading.get_ident()
        # No lock: who enters says so before looking for forks, and a fork the other way round.
        visits = self._inside.get(thread, 0)
        self._inside[thread] = visits + 1
        if self._forking and not visits:
            self._wait(thread)
        return thread

    def _wait(self, thread: int) -> None:
        with self._lock:
            while self._forking and thread not in self._forking:
                self._inside.pop(thread, None)
                self._changed.notify_all()
                self._changed.wait()
            self._inside[thread] = 1

    def leave(self, thread: int) -> None:
        """Go out, as often as inside; any thread may do it for another."""
        left = self._inside.get(thread, 0) - 1
        if left > 0:
            self._inside[thread] = left
            return
        self._inside.pop(thread, None)
        if self._forking:
            with self._lock:
                self._changed.notify_all()

    def prepare_fork(self) -> None:
        """Let nobody in, wait for those inside, and have the resources closed."""
        thread = threading.get_ident()
        with self._lock:
            self._forking.add(thread)
            patience_s = _PATIENCE_INSIDE_S if thread in self._inside else self.patience_s
            self._changed.wait_for(lambda: set(self._inside) <= {thread}, patience_s)
            self._prepared[thread] = list(self._resources)
        for resource in self._prepared[thread]:
            resource.prepare_fork()
        self._wait_for_imports(thread)

    def _wait_for_imports(self, thread: int) -> None:
        """Wait until no other thread imports; for who works within an import, in vain and once."""
        deadline = time.monotonic() + PATIENCE_IMPORTING_S
        while others := _list_importing() - self._never_done - {thread}:
            if time.monotonic() > deadline:
                self._never_done |= others
                return
            time.sleep(_PAUSE_S)

    def resume_after_fork(self) -> None:
        """Let callers in again, in the parent."""
        for resource in self._prepared.pop(threading.get_ident(), ()):
            resource.resume_after_fork()
        with self._lock:
            self._forking.discard(threading.get_ident())
            self._changed.notify_all()

    def begin_in_child(self) -> None:
        """Begin anew, with the thread that forked alone."""
        thread = threading.get_ident()
        visits = self._inside.get(thread)
        self._begin({} if visits is None else {thread: visits})
        for resource in list(self._resources):
            resource.begin_in_child()


def _list_importing() -> set[int]:
    """Return the threads that hold the lock of a module, as Python notes them."""
    locks = getattr(sys.modules.get("_frozen_importlib"), "_module_locks", {})
    owners = {getattr(held(), "owner", None) for held in list(locks.values())}
    return {owner for owner in owners if owner is not None}


FORKS = ForkGate()
"""The gate of the process."""


class GatedLock:
    """A reentrant lock whose holders are inside the gate: a fork waits, so all is whole in a child.

    It must not be waited for by who is waited for here. A child finds it free.
    """

    def __init__(self) -> None:
        """Create a lock that nobody holds."""
        self._lock = make_lock()

    def __enter__(self) -> None:
        FORKS.enter()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        FORKS.leave(threading.get_ident())


_LOCKS: WeakSet[Any] = WeakSet()


def make_lock() -> threading.RLock:
    """Return a reentrant lock that is free in a forked child, unless the forking thread has it.

    For what is done at once: a fork does not wait for it, and what it guards must do when a change
    was cut short.
    """
    lock = threading.RLock()
    _LOCKS.add(lock)
    return lock


def _free_locks() -> None:
    for lock in list(_LOCKS):
        if not lock._is_owned():  # noqa: SLF001 - as `threading.Condition` asks
            lock._at_fork_reinit()  # noqa: SLF001 - as `logging` does


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_locks)
    os.register_at_fork(
        before=FORKS.prepare_fork,
        after_in_parent=FORKS.resume_after_fork,
        after_in_child=FORKS.begin_in_child,
    )
