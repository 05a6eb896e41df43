"""LangChain's typed streams (`stream_events(version="v3")`) over what a chain streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

from langchain_core.language_models._compat_bridge import achunks_to_events, chunks_to_events
from langchain_core.language_models.chat_model_stream import AsyncChatModelStream, ChatModelStream
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk

from langchain_convmem.errors import ConfigError


def open_typed_stream(chunks: Iterator[Any]) -> ChatModelStream:
    """Return the typed stream of a chain's chunks; reading it is what runs the chain.

    Raises:
        ConfigError: When it is read, if the chain yields neither messages nor text.
    """
    events = chunks_to_events(_to_generation(chunk) for chunk in chunks)
    stream = ChatModelStream()

    def pump() -> bool:
        try:
            event = next(events, None)
        except BaseException as error:
            stream.fail(error)
            raise
        if event is not None:
            stream.dispatch(event)
        return event is not None

    stream.bind_pump(pump)
    return stream


def open_typed_async_stream(chunks: AsyncIterator[Any]) -> AsyncChatModelStream:
    """Return the typed stream of a chain's chunks for an event loop; see `open_typed_stream`."""
    events = achunks_to_events(_to_generation(chunk) async for chunk in chunks)
    stream = AsyncChatModelStream()
    lock = asyncio.Lock()  # the text and the calls may be read side by side

    async def pump() -> bool:
        async with lock:
            try:
                event = await anext(events, None)
            except BaseException as error:
                stream.fail(error)
                raise
            if event is not None:
                stream.dispatch(event)
            return event is not None

    stream.set_arequest_more(pump)
    return stream


def _to_generation(chunk: Any) -> ChatGenerationChunk:
    if isinstance(chunk, str):
        chunk = AIMessageChunk(content=chunk)
    if not isinstance(chunk, AIMessageChunk):
        msg = (
            "version='v3' streams the messages of a chat model, and this chain yields values of "
            f"type {type(chunk).__name__}; use version='v2'"
        )
        raise ConfigError(msg)
    return ChatGenerationChunk(message=chunk)
