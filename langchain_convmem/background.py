"""Threads: for what would block an event loop, for what may never return, for jobs behind turns.

None is an event loop's own executor, which may be full of turns that wait for the very turn that
waits here. Work of our own that is sure to end is a `hop` from the loop into a small pool, whose
threads are waited for when the process ends. Code that may never return gets a thread of its own,
which nobody has to wait for (`run_in_thread`). `BackgroundJobs` are what no turn waits for.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cache, partial, wraps
from typing import Any, Generic, ParamSpec, TypeVar, cast

from langchain_convmem.forks import make_lock

K = TypeVar("K")
P = ParamSpec("P")
T = TypeVar("T")

_logger = logging.getLogger("langchain_convmem")


def to_async(method: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return the asynchronous form of a method: it calls that method off the event loop.

    In the body of a class, `aowners = to_async(owners)`. Who overrides `owners` overrides both.
    Works for functions and properties, too.
    """
    function: Callable[P, T] = getattr(method, "fget", method)  # of a property
    name = function.__name__
    owner = function.__qualname__.rpartition(".")[0]

    @wraps(function, updated=())  # not that it is abstract
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if not owner:
            return await hop(partial(method, *args, **kwargs))
        self: Any = args[0]
        get: Callable[[], Any] = partial(getattr, self, name)
        run: Callable[[], T] = partial(get(), *args[1:], **kwargs) if function is method else get
        run_off_loop: Callable[[Callable[[], T]], Awaitable[T]]
        run_off_loop = getattr(self, "_run_off_loop", hop)
        return await run_off_loop(run)

    call.__name__ = f"a{name}"
    call.__qualname__ = f"{owner}.a{name}".lstrip(".")
    told = inspect.cleandoc(function.__doc__ or "")
    call.__doc__ = f"Async `{name}`; blocks no event loop.\n\n{told}"
    return call


# -- From an event loop to a thread, and back for what only the loop can do -----------------------


HOPS_AT_ONCE = 10
"""How many hops of an event loop run at once: as many as a pool of PostgreSQL has connections."""
_LOCAL = threading.local()


def _get_slots(loop: asyncio.AbstractEventLoop) -> asyncio.Semaphore:
    """Return the semaphore at which a loop's hops wait; a loop runs in one thread at a time."""
    if getattr(_LOCAL, "loop", None) is not loop:
        _LOCAL.loop, _LOCAL.slots = loop, asyncio.Semaphore(HOPS_AT_ONCE)
    return cast("asyncio.Semaphore", _LOCAL.slots)


_MOST_THREADS = 1_000
"""Few run at once, but any number may wait for answers."""


@cache
def _get_executor() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="convmem-worker")


if hasattr(os, "register_at_fork"):  # threads survive no fork
    os.register_at_fork(after_in_child=_get_executor.cache_clear)

_HOP: contextvars.ContextVar[_Hop | None] = contextvars.ContextVar("convmem_hop", default=None)


async def hop(call: Callable[[], T]) -> T:
    """Return what a call returns, made in a thread with the caller's context variables.

    A few such calls of a loop run at once; the others wait in the order of their arrival. No hop
    may wait for another one of its loop.

    Of a task that is cancelled, a call that has not begun does not begin. One that runs is waited
    for, but what it asks the event loop for is cancelled (see `ask`), so it ends soon.
    """
    loop = asyncio.get_running_loop()
    running = _Hop(loop)
    await running.enter()
    context = contextvars.copy_context()
    run = partial(context.run, running.run, call)
    return await running.wait(loop.run_in_executor(_get_executor(), run))


async def finish(call: Callable[[], T]) -> T:
    """Return what a call returns, made by a `hop` that ends also if the task is cancelled.

    What was received is stored, even if the task is cancelled repeatedly; it hears of that when the
    call has ended. Where the event loop ends, or has ended, the call is made on the spot.
    """
    has_begun = False

    def begin() -> T:
        nonlocal has_begun
        has_begun = True
        return call()

    try:
        writing = asyncio.get_running_loop().create_task(hop(begin))
    except RuntimeError:
        return call()
    cancelled: asyncio.CancelledError | None = None
    while not writing.done():
        try:
            await asyncio.wait([writing])
        except asyncio.CancelledError as error:
            cancelled = error
    # Who ends a loop cancels all its tasks, also one that waits in the line.
    result = writing.result() if has_begun or not writing.cancelled() else call()
    if cancelled is not None:
        raise cancelled
    return result


def ask(call: Callable[[], T], acall: Callable[[], Awaitable[T]]) -> T:
    """Return what code that is not ours answers: a model, a callback, a function of the caller.

    Under a `hop`, the event loop that hopped awaits `acall` as a task of its own, with the context
    variables of the running code; the thread waits. Else this calls `call`.

    Raises:
        asyncio.CancelledError: If the task that hopped is cancelled.
        BaseException: What the code raises.
    """
    running = _find_hop()
    return call() if running is None else running.ask(acall)


def can_await() -> bool:
    """Whether coroutines can be asked: whether this is the thread of a `hop`."""
    return _find_hop() is not None


def _find_hop() -> _Hop | None:
    """Return the hop whose thread this is; none in a thread that only has its context."""
    running = _HOP.get()
    return running if running is not None and running.thread == threading.get_ident() else None


class _Hop:
    """A call that an event loop waits for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._slots = _get_slots(loop)
        self._has_slot = False
        self.thread = 0
        self._asked: Future[Any] | None = None
        self._is_cancelled = False

    async def enter(self) -> None:
        """Wait for a slot."""
        await self._slots.acquire()
        self._has_slot = True

    def _leave(self) -> None:
        if self._has_slot:
            self._has_slot = False
            self._slots.release()

    def run(self, call: Callable[[], T]) -> T:
        """Make the call, in its thread."""
        _HOP.set(self)
        self.thread = threading.get_ident()
        try:
            return _call(call)
        finally:
            self.thread = 0

    async def wait(self, call: asyncio.Future[T]) -> T:
        """Return what the call returns. If this task is cancelled, so is what the call asks for."""
        cancelled: asyncio.CancelledError | None = None
        try:
            while not call.done():
                try:
                    await asyncio.wait([call])
                except asyncio.CancelledError as error:
                    cancelled = error
                    self._cancel()
        finally:
            self._leave()  # here, where the thread is idle again: the next call needs no new one
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
            self._leave()
            try:
                return await acall()
            finally:
                await self.enter()

        asked = self._asked = asyncio.run_coroutine_threadsafe(await_call(), self._loop)
        if self._is_cancelled:
            asked.cancel()
        try:
            answer: T = asked.result()
        except CancelledError:
            self._is_cancelled = False  # once: what the call asks while it ends is answered
            raise asyncio.CancelledError from None
        finally:
            self._asked = None
        return answer


async def run_in_thread(call: Callable[[], T]) -> T:
    """Return what the call returns, made in a thread. If cancelled, its outcome is dropped."""
    return await asyncio.wrap_future(start_in_thread(call))


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
        outcome.set_result(_call(call))
    except BaseException as error:  # noqa: BLE001 - handed to the waiter
        outcome.set_exception(error)


def _call(call: Callable[[], T]) -> T:
    try:
        return call()
    except StopIteration as error:  # no future can carry it
        raise RuntimeError("the call raised StopIteration") from error


# -- Jobs behind turns ----------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class _Job:
    """What is to be done for a key."""

    key: Any
    done: Future[None] = field(default_factory=Future)
    is_running: bool = False
    is_asked_again: bool = False
    is_dropped: bool = False


class BackgroundJobs(Generic[K]):
    """Runs one kind of job, for one key after the other. Thread-safe.

    A forked child starts with none. Whatever waits when the interpreter ends is dropped.
    """

    def __init__(self, job: Callable[[K], object], *, name: str = "job", workers: int = 2) -> None:
        """Create the workers' place; they start with the first job.

        Args:
            job: Does a part of it for a key; a true answer says that more is left, which waits its
                turn behind the other keys. It reports its own failures; what it raises is logged.
            name: What it is, for the log and the workers' names.
            workers: How many threads work at most.
        """
        self._job = job
        self._name = name
        self._workers = workers
        self._lock = make_lock()
        self._is_closed = False
        self._clear()

    def _clear(self) -> None:
        self._pid = os.getpid()
        self._executor: ThreadPoolExecutor | None = None
        self._jobs: dict[K, _Job] = {}

    def submit(self, key: K) -> Future[None]:
        """Have the job done for a key; return what is done when that is so, or never will be.

        A job that waits serves everyone who asks; after one that runs there is one more.
        """
        with self._lock:
            if self._pid != os.getpid():
                self._clear()
            job = self._jobs.get(key)
            if job is None:
                job = self._jobs[key] = _Job(key)
                self._enqueue(job)
            job.is_asked_again = job.is_running
            return job.done

    def _enqueue(self, job: _Job) -> None:
        if self._is_closed:
            self._finish(job)
            return
        if self._executor is None:
            name = f"convmem-{self._name}"
            self._executor = ThreadPoolExecutor(self._workers, thread_name_prefix=name)
        try:
            self._executor.submit(self._run, job).add_done_callback(self._log_failure)
        except RuntimeError:  # the interpreter ends
            self._finish(job)

    def _run(self, job: _Job) -> None:
        with self._lock:
            if job.is_dropped:
                return
            job.is_running, job.is_asked_again = True, False
        is_more: object = False
        try:
            is_more = self._job(job.key)
        finally:
            with self._lock:
                job.is_running = False
                if (is_more or job.is_asked_again) and not job.is_dropped:
                    self._enqueue(job)
                else:
                    self._finish(job)

    def _finish(self, job: _Job) -> None:
        if not job.done.done():
            del self._jobs[job.key]
            job.done.set_result(None)

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until what is to be done is done; say whether that came true in time."""
        with self._lock:
            jobs = list(self._jobs.values()) if self._pid == os.getpid() else []
        return not wait([job.done for job in jobs], timeout_s).not_done

    def drop(self, keys: Iterable[K], patience_s: float = 0) -> None:
        """Do no more for these keys after a while; what runs is finished."""
        with self._lock:
            found = map(self._jobs.get, keys) if self._pid == os.getpid() else ()
            jobs = [job for job in found if job is not None]
        done = [job.done for job in jobs]
        wait(done, patience_s)
        with self._lock:
            for job in jobs:
                job.is_dropped = True
                if not job.is_running:
                    self._finish(job)
        wait(done)

    def close(self) -> None:
        """Finish what runs, drop what waits, and take no more. Idempotent."""
        with self._lock:
            self._is_closed = True
            executor, self._executor = self._executor, None
            keys = list(self._jobs)
        self.drop(keys)
        if executor is not None and self._pid == os.getpid():
            executor.shutdown()

    def _log_failure(self, run: Future[None]) -> None:
        """Log what a job raised: the turn that asked is over, and the next one asks again."""
        error = run.exception()
        if error is not None:
            _logger.error("the %s of a thread failed", self._name, exc_info=error)
