"""Streams that end the right way: closed in time, whole or known to be cut, and stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any

from langchain_convmem.errors import ConfigError

__all__ = ["carried_through", "closed", "summed", "unbroken"]


async def closed(stream: AsyncIterator[Any]) -> None:
    """Close a stream now, if it can be closed, rather than when it is collected."""
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()


async def carried_through(writing: Coroutine[Any, Any, None]) -> None:
    """Await a write to its end, also when the caller is cancelled meanwhile, even repeatedly.

    A reply that was shown must not be lost because its reader left before it was stored.
    """
    task = asyncio.create_task(writing)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled


def unbroken(stream: Iterator[Any]) -> Iterator[Any]:
    """Pass on a stream; raise if it was closed from outside instead of coming to its end.

    When a forgotten chain is collected, what stands behind this turn may read on after the
    collector has closed what stands before it: that is no whole reply.
    """
    while getattr(stream, "gi_frame", stream) is not None:
        try:
            chunk = next(stream)
        except StopIteration:
            return
        yield chunk
    raise GeneratorExit


def summed(parts: list[Any]) -> Any:
    """Return the input of a chain that came in parts.

    Raises:
        ConfigError: If none came.
    """
    if not parts:
        raise ConfigError("the chain was called without input; pass what the user said")
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
