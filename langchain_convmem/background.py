"""Threads for what may block: recalls, tools, functions of the caller, files.

Neither kind uses an event loop's own executor, which may be full of turns that wait for the very
turn that waits here. Work of our own that is sure to end runs in a small pool (`run_in_worker`).
Code that may never return gets a thread of its own, which nobody has to wait for
(`run_in_thread`): the threads of a pool are waited for when the process ends.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Future,
    ThreadPoolExecutor,
    wait,
)
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

from langchain_convmem.errors import TurnCancelledError
from langchain_convmem.forks import make_lock
from langchain_convmem.locks import FifoLock, Waiter
from langchain_convmem.records import ThreadKey
from langchain_convmem.streams import shield_write

P = ParamSpec("P")
T = TypeVar("T")

_logger = logging.getLogger("langchain_convmem")

_MOST_THREADS = 1_000
"""Of hops: few run at once, but any number may wait for answers."""


def to_async(method: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return the asynchronous form of a method: it calls that method off the event loop.

    In the body of a class, `aowners = to_async(owners)`. Who overrides `owners` overrides both.
    Works for functions too.
    """
    name = method.__name__
    owner = method.__qualname__.rpartition(".")[0]

    @wraps(method, updated=())  # not that it is abstract
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if not owner:
            return await hop(partial(method, *args, **kwargs))
        self: Any = args[0]
        run: Callable[[], T] = partial(getattr(self, name), *args[1:], **kwargs)
        run_off_loop: Callable[[Callable[[], T]], Awaitable[T]]
        run_off_loop = getattr(self, "_run_off_loop", hop)
        return await run_off_loop(run)

    name_twin(call, method, owner=owner)
    return call


# -- From an event loop to a thread, and back for what only the loop can do -----------------------


def make_slots(at_once: int) -> FifoLock:
    """Return the line of hops of which so many run at once; see `SLOTS`."""
    return FifoLock(lambda _: TimeoutError(), RuntimeError, capacity=at_once)


SLOTS = make_slots(10)
"""The line of the process's hops; as many run at once as a pool of PostgreSQL has connections."""
_HOP: contextvars.ContextVar[_Hop | None] = contextvars.ContextVar("convmem_hop", default=None)


async def hop(call: Callable[[], T]) -> T:
    """Return what a call returns, made in a thread with the caller's context variables.

    A few such calls run at once; the others wait in the order of their arrival, on their loops. No
    hop may wait for another one: who does so under a hop anyway, by an event loop of its own, is
    let through.

    Of a task that is cancelled, a call that has not begun does not begin. One that runs is waited
    for, but what it asks the event loop for is cancelled (see `ask`), so it ends soon.
    """
    loop = asyncio.get_running_loop()
    running = _Hop(loop, has_slot=_HOP.get() is None)
    await running.enter()
    context = contextvars.copy_context()
    run = partial(context.run, running.run, call)
    return await running.wait(loop.run_in_executor(_POOL.get_executor(), run))


async def finish(call: Callable[[], T]) -> T:
    """Return what a call returns, made by a `hop` that ends also if the task is cancelled.

    What was received is stored. The task hears that it is cancelled when the call has ended.
    """
    return await shield_write(hop(call))


def ask(call: Callable[[], T], acall: Callable[[], Awaitable[T]]) -> T:
    """Return what code that is not ours answers: a model, a callback, a function of the caller.

    Under a `hop`, the event loop that hopped awaits `acall` as a task of its own, with the context
    variables of the running code; the thread waits. Else this calls `call`.

    Raises:
        asyncio.CancelledError: If the task that hopped is cancelled.
        BaseException: What the code raises.
    """
    running = _HOP.get()
    if running is None or not can_await():
        return call()
    return running.ask(acall)


def can_await() -> bool:
    """Whether coroutines can be asked: whether this is the thread of a `hop`."""
    running = _HOP.get()
    return running is not None and running.thread == threading.get_ident()


class _Hop:
    """A call that an event loop waits for."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, has_slot: bool) -> None:
        self._loop = loop
        self._has_slot = has_slot
        self.thread = 0
        self._slot: Waiter | None = None
        self._asked: Future[Any] | None = None
        self._is_cancelled = False

    async def enter(self) -> None:
        """Wait for a slot."""
        if not self._has_slot:
            return
        self._slot = SLOTS.enter()
        try:
            if not self._slot.done():
                await asyncio.wrap_future(self._slot)
        except BaseException:
            self._leave()
            raise

    def run(self, call: Callable[[], T]) -> T:
        """Make the call, in its thread."""
        _HOP.set(self)
        self.thread = threading.get_ident()
        try:
            return call()
        except StopIteration as error:  # no future can carry it
            raise RuntimeError("the call raised StopIteration") from error
        finally:
            self.thread = 0
            self._leave()

    async def wait(self, call: asyncio.Future[T]) -> T:
        """Return what the call returns. If this task is cancelled, so is what the call asks for."""
        cancelled: asyncio.CancelledError | None = None
        while not call.done():
            try:
                await asyncio.wait([call])
            except asyncio.CancelledError as error:
                cancelled = error
                self._cancel()
        if cancelled is not None:
            if not call.cancelled():
                call.exception()  # or the loop reports that nobody looked
            raise cancelled
        return call.result()

    def _cancel(self) -> None:
        self._is_cancelled = True
        if self._asked is not None:
            self._asked.cancel()

    def ask(self, acall: Callable[[], Awaitable[T]]) -> T:
        """Return what the loop gets by awaiting a call; others may run meanwhile."""

        async def await_call() -> T:
            _HOP.set(None)  # what it calls on the loop is not under this hop
            return await acall()

        asked = self._asked = asyncio.run_coroutine_threadsafe(await_call(), self._loop)
        if self._is_cancelled:
            asked.cancel()
        self._leave()
        try:
            answer: T = asked.result()
        except CancelledError:
            raise asyncio.CancelledError from None
        finally:
            self._asked = None
            if self._has_slot:
                self._slot = SLOTS.enter()
                self._slot.result()
        return answer

    def _leave(self) -> None:
        if self._slot is not None:
            SLOTS.leave(self._slot)
            self._slot = None


def name_twin(twin: Callable[..., Any], method: Callable[..., Any], *, owner: str) -> None:
    """Name and document the asynchronous twin of a method after it.

    Args:
        twin: The twin.
        method: The method.
        owner: Name of the class that has the twin; empty for a function.
    """
    name = method.__name__
    twin.__name__ = f"a{name}"
    twin.__qualname__ = f"{owner}.a{name}".lstrip(".")
    twin.__doc__ = f"Async `{name}`; blocks no event loop.\n\n{method.__doc__}"


async def run_in_thread(call: Callable[[], T]) -> T:
    """Return what the call returns, made in a thread. If cancelled, its outcome is dropped."""
    return await asyncio.wrap_future(start_in_thread(call))


def run_in_own_loop(call: Callable[[], Awaitable[T]]) -> T:
    """Return what an asynchronous call returns, made in a thread with an event loop of its own."""

    async def await_call() -> T:
        return await call()

    return start_in_thread(lambda: asyncio.run(await_call())).result()


def run_in_threads(
    calls: Sequence[Callable[[], T]], *, at_most: int, cancelled: Future[Any] | None = None
) -> list[T]:
    """Return what calls return, in their order, made in threads.

    Args:
        calls: Started in this order.
        at_most: How many run at once.
        cancelled: As soon as it has a result, nothing is waited for any more.

    Raises:
        TurnCancelledError: If `cancelled` has a result; if it has an exception, that one.
        BaseException: The first that a call raises; the others are left to themselves.
    """
    waiting = deque(enumerate(calls))
    running: dict[Future[Any], int] = {}
    results: dict[int, T] = {}
    end = [] if cancelled is None else [cancelled]
    while waiting or running:
        while waiting and len(running) < at_most:
            number, call = waiting.popleft()
            running[start_in_thread(call)] = number
        done = wait([*end, *running], return_when=FIRST_COMPLETED).done
        if cancelled in done:
            _give_up(cancelled)
        for outcome in done:
            results[running.pop(outcome)] = outcome.result()
    return [results[number] for number in range(len(calls))]


def _give_up(cancelled: Future[Any] | None) -> None:
    if cancelled is not None and not cancelled.cancelled():
        cancelled.result()
    raise TurnCancelledError("the turn was cancelled while tools ran; their results are dropped")


def start_in_thread(call: Callable[[], T]) -> Future[T]:
    """Start a call in a thread with the caller's context variables, and return its outcome.

    A caller that no longer wants the outcome may drop it; the process does not wait for it.
    """
    outcome: Future[T] = Future()
    context = contextvars.copy_context()
    run = partial(context.run, _settle, outcome, call)
    threading.Thread(target=run, name="convmem-conversation", daemon=True).start()
    return outcome


def _settle(outcome: Future[T], call: Callable[[], T]) -> None:
    if not outcome.set_running_or_notify_cancel():
        return
    try:
        outcome.set_result(call())
    except StopIteration as error:  # no future can carry it
        failure = RuntimeError("the call raised StopIteration")
        failure.__cause__ = error
        outcome.set_exception(failure)
    except BaseException as error:  # noqa: BLE001 - handed to the waiter
        outcome.set_exception(error)


class _Pool:
    """The process's workers; a forked child gets its own, since threads do not survive a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None

    def get_executor(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(
                    _MOST_THREADS, thread_name_prefix="convmem-worker"
                )
            return self._executor


_POOL = _Pool()
if hasattr(os, "register_at_fork"):
    # The lock may be held by another thread of the parent at the moment of the fork.
    os.register_at_fork(after_in_child=_POOL.__init__)  # type: ignore[misc]


# -- Jobs behind turns ----------------------------------------------------------------------------


class BackgroundJobs:
    """Runs one kind of job for threads of a log. Thread-safe; a forked child starts with none."""

    def __init__(
        self, job: Callable[[ThreadKey], object], *, name: str = "job", workers: int = 2
    ) -> None:
        """Create the workers' place; they start with the first job.

        Args:
            job: What to do for a thread. It reports its own failures; what it raises is logged.
            name: What it is, for the log and the workers' names.
            workers: How many threads work at most.
        """
        self._job = job
        self._name = name
        self._workers = workers
        self._lock = make_lock()
        self._clear()

    def _clear(self) -> None:
        self._pid = os.getpid()
        self._executor: ThreadPoolExecutor | None = None
        self._jobs: dict[ThreadKey, Future[None]] = {}
        self._again: set[ThreadKey] = set()
        self._is_closed = False

    def submit(self, key: ThreadKey) -> bool:
        """Have the job done for a thread; say whether it will be.

        A job that waits serves everyone who asks; after one that runs there is one more.
        """
        with self._lock:
            if self._pid != os.getpid():
                self._clear()
            if self._is_closed:
                return False
            running = self._jobs.get(key)
            if running is None:
                self._start(key)
            elif running.running():
                self._again.add(key)
            return True

    def _start(self, key: ThreadKey) -> None:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(
                self._workers, thread_name_prefix=f"convmem-{self._name}"
            )
        future = self._jobs[key] = self._executor.submit(self._run, key)
        future.add_done_callback(self._log_failure)

    def _run(self, key: ThreadKey) -> None:
        try:
            self._job(key)
        finally:
            with self._lock:
                del self._jobs[key]
                if key in self._again and not self._is_closed:
                    self._again.discard(key)
                    self._start(key)

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until no job is left; say whether that came true in time."""
        ends = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            with self._lock:
                jobs = self._jobs.values() if self._pid == os.getpid() else ()
                waiting = [job for job in jobs if not job.cancelled()]
            if not waiting:
                return True
            left = None if ends is None else ends - time.monotonic()
            try:
                waiting[0].exception(left)
            except CancelledError:
                continue  # closed meanwhile
            except TimeoutError:
                return False

    def close(self) -> None:
        """Finish what runs, drop what waits, and take no more. Idempotent."""
        with self._lock:
            self._is_closed = True
            executor, self._executor = self._executor, None
            is_ours = self._pid == os.getpid()
        if executor is not None and is_ours:
            executor.shutdown(wait=True, cancel_futures=True)
            with self._lock:
                self._jobs.clear()

    def _log_failure(self, job: Future[None]) -> None:
        """Log what a job raised: the turn that asked is over, and the next one asks again."""
        error = None if job.cancelled() else job.exception()
        if error is not None:
            _logger.error("the %s of a thread failed", self._name, exc_info=error)
