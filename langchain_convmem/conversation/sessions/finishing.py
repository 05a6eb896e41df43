"""Steps of a model in threads, which nobody leaves behind while they run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from langchain_convmem.conversation.worker_threads import started

__all__ = ["finished_in_thread"]

T = TypeVar("T")


async def finished_in_thread(call: Callable[[], T]) -> T:
    """Return what a call returns, made in a thread.

    If cancelled, the call is waited for all the same: whoever then takes its session back must not
    meet it at work there.
    """
    running = asyncio.wrap_future(started(call))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await _settled(running)
        raise


async def _settled(running: asyncio.Future[T]) -> None:
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError:
            continue  # the first one is raised once the call is over
    if not running.cancelled():
        running.exception()  # nobody asks for it any more
