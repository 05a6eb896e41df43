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
from typing import Any, Concatenate, ParamSpec, TypeVar

from langchain_convmem.effects import mark_background, name_twin
from langchain_convmem.errors import TurnCancelledError
from langchain_convmem.forks import make_lock
from langchain_convmem.records import ThreadKey

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

_logger = logging.getLogger("langchain_convmem")

_WORKERS = 4


def to_async(
    method: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Return the asynchronous form of a method: it calls that method off the event loop.

    In the body of a class, `aowners = to_async(owners)`. Who overrides `owners` overrides both.
    """
    name = method.__name__

    @wraps(method, updated=())  # not that it is abstract
    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        run: Callable[[], T] = partial(getattr(self, name), *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self.get_executor(), run)

    name_twin(call, method, owner=method.__qualname__.rpartition(".")[0])
    return call


async def run_in_worker(call: Callable[[], T]) -> T:
    """Return what the call returns, made in a worker with the caller's context variables."""
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_POOL.get_executor(), partial(context.run, call))


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
                self._executor = ThreadPoolExecutor(_WORKERS, thread_name_prefix="convmem-recall")
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
            with mark_background():
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
