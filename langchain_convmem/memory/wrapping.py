"""`memory.wrap(inner)`: a Runnable that remembers.

The order of a turn is its promise: the user's message is durable before the model is called, the
reply is stored as one message when it is complete, and what a cut stream had brought is stored as
`interrupted`. A failed write is raised, never logged away.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator
from contextlib import aclosing
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
from langchain_core.runnables import Runnable, RunnableConfig, RunnableSerializable
from langchain_core.runnables.utils import ConfigurableFieldSpec
from pydantic import ConfigDict, Field, PrivateAttr

from langchain_convmem.errors import ConfigError
from langchain_convmem.memory.chain_shape import prompt_slots, provider_profile, takes_messages
from langchain_convmem.memory.replies import ReplyCollector
from langchain_convmem.memory.turn import Turn, TurnSwitches
from langchain_convmem.memory.turn_queue import TurnQueue
from langchain_convmem.steps import arun, run

__all__ = ["RememberingRunnable"]

_QUEUES = TurnQueue()
"""One per process: two wrapped chains over one thread take turns as well."""


class RememberingRunnable(RunnableSerializable[Any, Any]):
    """A chain with a memory; made by `ConversationMemory.wrap`."""

    memory: Any = Field(exclude=True, repr=False)
    inner: Runnable[Any, Any]
    recall: bool = True
    max_tokens: int = 1000
    k: int | None = None
    history_tokens: int | None = None
    queue_timeout_s: float = 300.0

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    _slots: frozenset[str] | None = PrivateAttr(default=None)

    @property
    def InputType(self) -> Any:  # noqa: N802 - LangChain's name
        """Text, a human message, or a dict with `input`."""
        return Any

    @property
    def OutputType(self) -> Any:  # noqa: N802 - LangChain's name
        """Whatever the inner chain returns."""
        return self.inner.OutputType

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """What a call may carry under `configurable`."""
        own = [
            _spec("thread_id", str, "The conversation; required.", None),
            _spec("user_id", str, "Whose lines are recalled.", None),
            _spec("recall", bool, "Whether to recall lines.", self.recall),
            _spec("max_tokens", int, "Budget of the recalled text.", self.max_tokens),
            _spec("k", int, "Recall exactly so many blocks.", self.k),
            _spec("remember", bool, "Whether to store this turn.", True),
        ]
        named = {spec.id for spec in own}
        return [*own, *(spec for spec in self.inner.config_specs if spec.id not in named)]

    # -- one call -------------------------------------------------------------------------------

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run one turn and return what the inner chain returns."""
        return self._call_with_config(self._invoke, input, config, **kwargs)

    async def ainvoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run one turn and return what the inner chain returns."""
        return await self._acall_with_config(self._ainvoke, input, config, **kwargs)

    def _invoke(
        self,
        value: Any,
        run_manager: CallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> Any:
        turn = self._turn(value, config, run_manager.parent_run_id)
        with _QUEUES.turn(turn.place, self.queue_timeout_s):
            payload = run(turn.begin())
            output = self.inner.invoke(payload, config, **kwargs)
            run(turn.finish(output))
        return output

    async def _ainvoke(
        self,
        value: Any,
        run_manager: AsyncCallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> Any:
        turn = self._turn(value, config, run_manager.parent_run_id)
        async with _QUEUES.aturn(turn.place, self.queue_timeout_s):
            payload = await arun(turn.begin())
            output = await self.inner.ainvoke(payload, config, **kwargs)
            await _carried_through(arun(turn.finish(output)))
        return output

    # -- streams --------------------------------------------------------------------------------

    def stream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Iterator[Any]:
        """Run one turn and pass on the inner chain's chunks as they come."""
        yield from self.transform(iter([input]), config, **kwargs)

    def transform(
        self,
        input: Iterator[Any],
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Iterator[Any]:
        """Run one turn once the input is complete, and pass on the chunks of the answer."""
        opened: list[Iterator[Any]] = []

        def transformer(
            inputs: Iterator[Any],
            run_manager: CallbackManagerForChainRun,
            config: RunnableConfig,
            **kwargs: Any,
        ) -> Iterator[Any]:
            opened.append(self._stream(inputs, run_manager, config, **kwargs))
            return opened[0]

        try:
            yield from self._transform_stream_with_config(input, transformer, config, **kwargs)
        finally:
            # The helper drops a stream that its reader left; closing it here stores what came,
            # and raises here if that cannot be written.
            for stream in opened:
                stream.close()  # type: ignore[attr-defined]  # a generator

    def _stream(
        self,
        inputs: Iterator[Any],
        run_manager: CallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> Iterator[Any]:
        turn = self._turn(_summed(list(inputs)), config, run_manager.parent_run_id)
        with _QUEUES.turn(turn.place, self.queue_timeout_s):
            payload = run(turn.begin())
            reply = ReplyCollector()
            try:
                for chunk in _unbroken(self.inner.stream(payload, config, **kwargs)):
                    turn.saw(reply, chunk)
                    yield chunk
            except BaseException:
                run(turn.cut(reply))
                raise
            run(turn.complete(reply))

    async def astream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[Any]:
        """Run one turn and pass on the inner chain's chunks as they come."""

        async def once() -> AsyncIterator[Any]:
            yield input

        # Closing this stream must close all beneath it now, not when they are collected.
        async with aclosing(self.atransform(once(), config, **kwargs)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def atransform(
        self,
        input: AsyncIterator[Any],
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[Any]:
        """Run one turn once the input is complete, and pass on the chunks of the answer."""
        stream = self._atransform_stream_with_config(input, self._astream, config, **kwargs)
        try:
            async for chunk in stream:
                yield chunk
        finally:
            await _closed(stream)

    async def _astream(
        self,
        inputs: AsyncIterator[Any],
        run_manager: AsyncCallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        parts = [part async for part in inputs]
        turn = self._turn(_summed(parts), config, run_manager.parent_run_id)
        async with _QUEUES.aturn(turn.place, self.queue_timeout_s):
            payload = await arun(turn.begin())
            reply = ReplyCollector()
            stream = self.inner.astream(payload, config, **kwargs)
            try:
                async for chunk in stream:
                    turn.saw(reply, chunk)
                    yield chunk
            except BaseException:
                await _carried_through(arun(turn.cut(reply)))
                raise
            finally:
                await _closed(stream)
            await _carried_through(arun(turn.complete(reply)))

    # -- the turn -------------------------------------------------------------------------------

    def _turn(self, value: Any, config: RunnableConfig, parent_run_id: Any) -> Turn:
        defaults = TurnSwitches(
            recall=self.recall,
            max_tokens=self.max_tokens,
            k=self.k,
            history_tokens=self.history_tokens,
        )
        return Turn.of(
            self.memory,
            value,
            config.get("configurable", {}),
            defaults=defaults,
            slots=self._prompt_slots(),
            profile=provider_profile(self.inner),
            attempt_of=None if parent_run_id is None else str(parent_run_id),
        )

    def _prompt_slots(self) -> frozenset[str] | None:
        """Return the variables that prompts inside use; None when a chat model gets messages."""
        if takes_messages(self.inner):
            return None
        if self._slots is None:
            self._slots = prompt_slots(self.inner)
        return self._slots


async def _closed(stream: AsyncIterator[Any]) -> None:
    """Close a stream now, if it can be closed, rather than when it is collected."""
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()


async def _carried_through(writing: Coroutine[Any, Any, None]) -> None:
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


def _unbroken(stream: Iterator[Any]) -> Iterator[Any]:
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


def _summed(parts: list[Any]) -> Any:
    if not parts:
        raise ConfigError("the chain was called without input; pass what the user said")
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _spec(name: str, annotation: Any, text: str, default: Any) -> ConfigurableFieldSpec:
    return ConfigurableFieldSpec(
        id=name, annotation=annotation, name=name, description=text, default=default, is_shared=True
    )
