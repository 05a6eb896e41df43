"""Embedding behind the back of those who recall: one thread per process, shared by all indexes.

A turn waits for its question alone. What was said and imported is embedded here, a small batch at a
time, one index after the other; until then it is found by its words. Each batch is stored before
the next, so an end of the process loses nothing: the next recall goes on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from langchain_convmem.errors import LogClosedError, LogError
from langchain_convmem.recall.indexes.owner_index import OwnerIndex
from langchain_convmem.recall.indexes.pending import PendingLines
from langchain_convmem.steps import Step

__all__ = ["BACKLOG", "Backlog", "until_done"]

_log = logging.getLogger("langchain_convmem")

_FORK_TIMEOUT_S = 5.0
_CLOSING_S = 0.3


@dataclass(eq=False, slots=True)
class _Job:
    """An index with lines that wait."""

    index: OwnerIndex
    lines: PendingLines
    done: Future[None] = field(default_factory=Future)
    is_running: bool = False
    is_asked_again: bool = False
    is_dropped: bool = False


class Backlog:
    """Embeds the lines that wait in indexes, in turn. Thread-safe.

    A fork waits for the batch under way, so that a child inherits no lock that nobody releases; the
    child begins without jobs. The interpreter waits for that batch as well, and drops the rest.
    """

    def __init__(self) -> None:
        """Create an empty backlog; its thread starts with the first job."""
        self._lock = threading.Lock()
        self._batch = threading.RLock()
        self._jobs: dict[int, _Job] = {}
        self._executor: ThreadPoolExecutor | None = None
        self._is_held = False

    def submit(self, index: OwnerIndex) -> Future[None]:
        """Have all that waits in an index embedded; return what is done when that is so.

        It is done as well when lines cannot be embedded now; then the index has a problem.
        """
        with self._lock:
            job = self._jobs.get(id(index))
            if job is not None:
                job.is_asked_again = True
                return job.done
            job = _Job(index, PendingLines(index))
            self._jobs[id(index)] = job
            self._enqueue(job)
            return job.done

    def close(self, indexes: Iterable[OwnerIndex]) -> None:
        """Embed no more of these indexes: few lines are finished, of more the batch under way."""
        numbers = {id(index) for index in indexes}
        with self._lock:
            jobs = [job for number, job in self._jobs.items() if number in numbers]
        wait([job.done for job in jobs], _CLOSING_S)
        with self._lock:
            for job in jobs:
                job.is_dropped = True
                if not job.is_running:
                    self._finish(job)
        wait([job.done for job in jobs])

    def _enqueue(self, job: _Job) -> None:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="convmem-backlog")
        try:
            self._executor.submit(self._run, job).add_done_callback(_log_failure)
        except RuntimeError:
            # The interpreter ends. What is left is embedded by the next process that recalls.
            self._finish(job)

    def _run(self, job: _Job) -> None:
        left = 0
        with self._lock:
            if job.is_dropped:
                return
            job.is_running, job.is_asked_again = True, False
        try:
            with self._batch:
                left = job.lines.embed_some()
        except LogClosedError:
            job.is_dropped = True
        except LogError as error:
            # The next recall says so where it still cannot be read.
            _log.warning("lines could not be embedded: %s", error, exc_info=error)
        finally:
            with self._lock:
                job.is_running = False
                if (left or job.is_asked_again) and not job.is_dropped:
                    self._enqueue(job)
                else:
                    self._finish(job)

    def _finish(self, job: _Job) -> None:
        if self._jobs.pop(id(job.index), None) is not None:
            job.done.set_result(None)

    # -- forks -------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Wait for the batch under way, but not for ever: it may wait for who forks."""
        self._is_held = self._batch.acquire(timeout=_FORK_TIMEOUT_S)

    def after_fork(self) -> None:
        """Go on in the parent."""
        if self._is_held:
            self._batch.release()


BACKLOG = Backlog()
"""The backlog of the process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=BACKLOG.before_fork,
        after_in_parent=BACKLOG.after_fork,
        after_in_child=BACKLOG.__init__,  # type: ignore[misc]
    )


def _log_failure(run: Future[None]) -> None:
    """Log what a batch raised that should not: nobody waits for it who could say so."""
    error = run.exception()
    if error is not None:
        _log.error("could not embed lines", exc_info=error)


def until_done(job: Future[None], timeout_s: float) -> Step:
    """Return the step that waits until a job is done, so long at most."""

    async def await_job() -> None:
        await asyncio.wait([asyncio.wrap_future(job)], timeout=timeout_s)

    return Step(lambda: wait([job], timeout_s), await_job)
