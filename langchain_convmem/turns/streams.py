"""Streams that end the right way: closed in time, whole or known to be cut, and stored.

`ClosingStreams` are those of a Runnable that runs turns; below stands what else streams with.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_convmem.errors import ConfigError

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

T = TypeVar("T")


class ClosingStreams:
    """The streams of a Runnable that runs turns: who leaves one ends the turn, now and in order.

    For a class that is a `Runnable` too, and has the generators `_stream` and `_astream`, each of
    which takes inputs, a run manager, a config and keyword arguments.
    """

    def _stamp(self, config: RunnableConfig | None) -> RunnableConfig | None:
        """Return the config of a call, with what every call says."""
        return config

    def stream(
        self,
        input: Any,  # noqa: A002 - Runnable's name
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Generator[Any]:
        """Run one turn and yield what is new of the answer as it comes."""
        yield from self.transform(iter([input]), config, **kwargs)

    def transform(
        self,
        input: Iterator[Any],  # noqa: A002 - Runnable's name
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Generator[Any]:
        """Run one turn once the input is complete, and yield what is new of the answer."""
        opened: list[Any] = []
        stamp = self._stamp(config)

        def open_stream(
            inputs: Iterator[Any], run_manager: Any, config: RunnableConfig, **kwargs: Any
        ) -> Iterator[Any]:
            stream = self._stream(inputs, run_manager, config, **kwargs)  # type: ignore[attr-defined]
            opened.append(stream)
            return stream  # type: ignore[no-any-return]

        try:
            yield from self._transform_stream_with_config(  # type: ignore[attr-defined]
                input, open_stream, stamp, **kwargs
            )
        finally:
            # The helper drops a stream that its reader left; closing it here ends the turn, and
            # raises here if what came cannot be written.
            for stream in opened:
                stream.close()

    async def astream(
        self,
        input: Any,  # noqa: A002 - Runnable's name
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[Any]:
        """Run one turn and yield what is new of the answer as it comes."""

        async def yield_input() -> AsyncIterator[Any]:
            yield input

        # Closing this stream must close all beneath it now, not when they are collected.
        async with aclosing(self.atransform(yield_input(), config, **kwargs)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def atransform(
        self,
        input: AsyncIterator[Any],  # noqa: A002 - Runnable's name
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[Any]:
        """Run one turn once the input is complete, and yield what is new of the answer."""
        stream = self._atransform_stream_with_config(  # type: ignore[attr-defined]
            input,
            self._astream,  # type: ignore[attr-defined]
            self._stamp(config),
            **kwargs,
        )
        try:
            async for chunk in stream:
                yield chunk
        finally:
            await aclose_quietly(stream)


async def aclose_quietly(stream: AsyncIterator[Any]) -> None:
    """Close a stream now, if it can be closed, rather than when it is collected."""
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()


def require_complete(stream: Iterator[Any]) -> Iterator[Any]:
    """Pass on a stream; raise if it was closed from outside instead of coming to its end.

    When a forgotten chain is collected, what follows this turn may read on after the
    collector has closed what comes before it: that is not a whole reply.
    """
    while getattr(stream, "gi_frame", stream) is not None:
        try:
            chunk = next(stream)
        except StopIteration:
            return
        yield chunk
    raise GeneratorExit


def merge_chunks(parts: list[Any]) -> Any:
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


def add_up(total: Any, chunk: Any) -> Any:
    """Return the value of a stream so far, as LangChain adds values up."""
    try:
        return total + chunk
    except TypeError:
        return chunk
