"""Calls of tools side by side, in threads that nobody has to wait for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, TypeVar

from langchain_convmem.background import start_in_thread
from langchain_convmem.errors import TurnCancelledError

T = TypeVar("T")


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
        check_cancelled(cancelled)
        while waiting and len(running) < at_most:
            number, call = waiting.popleft()
            running[start_in_thread(call)] = number
        done = wait([*end, *running], return_when=FIRST_COMPLETED).done
        check_cancelled(cancelled)
        for outcome in done:
            results[running.pop(outcome)] = outcome.result()
    return [results[number] for number in range(len(calls))]


def check_cancelled(cancelled: Future[Any] | None) -> None:
    """Raise if a turn was cancelled; see `run_in_threads`."""
    if cancelled is None or not cancelled.done():
        return
    if not cancelled.cancelled():
        cancelled.result()
    raise TurnCancelledError("the turn was cancelled while tools ran; their results are dropped")
