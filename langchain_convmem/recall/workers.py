"""Worker threads for recalls that an event loop waits for.

They are recall's own: an application may fill the loop's default executor with synchronous turns,
which wait for the very turn that waits for its recall.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

__all__ = ["in_worker"]

T = TypeVar("T")

_WORKERS = 4


class _Pool:
    """The process's workers; a forked child gets its own, since threads do not survive a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = 0
        self._executor: ThreadPoolExecutor | None = None

    def executor(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._executor is None or self._pid != os.getpid():
                self._executor = ThreadPoolExecutor(_WORKERS, thread_name_prefix="convmem-recall")
                self._pid = os.getpid()
            return self._executor


_POOL = _Pool()
if hasattr(os, "register_at_fork"):
    # The lock may be held by another thread of the parent at the moment of the fork.
    os.register_at_fork(after_in_child=_POOL.__init__)  # type: ignore[misc]


async def in_worker(call: Callable[[], T]) -> T:
    """Return what the call returns, made in a worker with the caller's context variables."""
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_POOL.executor(), partial(context.run, call))
