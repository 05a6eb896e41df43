"""Who reads a reply in an event loop: one who leaves is not waited for by himself."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from langchain_core.messages import AIMessageChunk

from langchain_convmem.conversation.flows import TurnControl

__all__ = ["Reader"]


class Reader(AsyncGenerator[AIMessageChunk, None]):
    """A stream of chunks that knows when its reader has dropped it.

    An asynchronous generator that is dropped is closed by the event loop a little later. Its turn
    still has its place in the line then, but whoever read it may get in that line again.
    """

    def __init__(self, stream: AsyncGenerator[AIMessageChunk], control: TurnControl) -> None:
        """Read a stream of the turn that `control` belongs to."""
        self._stream = stream
        self._control = control

    def __del__(self) -> None:
        for ticket in self._control.held:
            ticket.is_over = True

    async def asend(self, value: None) -> AIMessageChunk:
        """Return the next chunk."""
        return await self._stream.asend(value)

    async def athrow(self, *error: Any) -> AIMessageChunk:
        """Raise an error where the stream stands."""
        return await self._stream.athrow(*error)

    async def aclose(self) -> None:
        """Leave the turn: it is taken back if it is not complete."""
        await self._stream.aclose()
