"""Compactions behind the back of the conversation: worker threads, one job per thread at a time.

Workers run the synchronous core, whatever the turns are: an event loop may end at any moment, and
a job would end with it.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor

from langchain_convmem.records import ThreadKey

__all__ = ["BackgroundJobs"]

_logger = logging.getLogger("langchain_convmem")


class BackgroundJobs:
    """Runs one kind of job for threads of a log. Thread-safe; a forked child starts with none."""

    def __init__(self, job: Callable[[ThreadKey], object], *, workers: int = 2) -> None:
        """Create the workers' place; they start with the first job.

        Args:
            job: What to do for a thread. It reports its own failures; what it raises is logged.
            workers: How many threads work at most.
        """
        self._job = job
        self._workers = workers
        self._lock = threading.Lock()
        self._clear()

    def _clear(self) -> None:
        self._pid = os.getpid()
        self._executor: ThreadPoolExecutor | None = None
        self._jobs: dict[ThreadKey, Future[None]] = {}
        self._again: set[ThreadKey] = set()
        self._is_closed = False

    def submit(self, key: ThreadKey) -> bool:
        """Have the job done for a thread; say whether it will be.

        A job that waits serves everyone who asks; behind one that runs there is one more.
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
            self._executor = ThreadPoolExecutor(self._workers, thread_name_prefix="convmem-summary")
        future = self._jobs[key] = self._executor.submit(self._run, key)
        future.add_done_callback(_log_failure)

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


def _log_failure(job: Future[None]) -> None:
    """Log what a job raised: the turn that asked for it is over, and the next one asks again."""
    error = None if job.cancelled() else job.exception()
    if error is not None:
        _logger.error("could not compact a thread", exc_info=error)
