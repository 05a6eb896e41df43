"""Threads for what may block: tools, functions of the caller, files.

Each call gets a thread of its own that nobody has to wait for. An event loop's own executor may be
full of turns which wait for the very turn that waits here, and the threads of a pool are waited
for when the process ends, even if one of them never will.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from typing import Any, TypeVar

from langchain_convmem.errors import TurnCancelledError

T = TypeVar("T")


def started(call: Callable[[], T]) -> Future[T]:
    """Start a call in a thread with the caller's context variables, and return its outcome.

    Whoever does not want the outcome any more may forget it; the process does not wait for it.
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
    except BaseException as error:  # noqa: BLE001 - handed to whoever waits
        outcome.set_exception(error)


async def in_thread(call: Callable[[], T]) -> T:
    """Return what the call returns, made in a thread. If cancelled, its outcome is dropped."""
    return await asyncio.wrap_future(started(call))


def in_own_loop(call: Callable[[], Awaitable[T]]) -> T:
    """Return what an asynchronous call returns, made in a thread with an event loop of its own."""

    async def awaited() -> T:
        return await call()

    return started(lambda: asyncio.run(awaited())).result()


def in_threads(
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
            running[started(call)] = number
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
