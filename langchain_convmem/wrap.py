"""`memory.wrap(inner)`: a Runnable that remembers.

A turn guarantees its order: the user's message is durable before the model is called, the
reply is stored as one message when it is complete, and what a cut stream had brought is stored as
`interrupted`. Failed writes are raised, not just logged.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import add
from typing import Any

from langchain_core.language_models._compat_bridge import achunks_to_events, chunks_to_events
from langchain_core.language_models.chat_model_stream import AsyncChatModelStream, ChatModelStream
from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import Runnable, RunnableConfig, RunnableSerializable
from langchain_core.runnables.utils import ConfigurableFieldSpec
from langchain_core.utils.pydantic import TypeBaseModel
from pydantic import ConfigDict, Field, PrivateAttr

from langchain_convmem.background import finish, hop
from langchain_convmem.errors import ConfigError
from langchain_convmem.turns.chains import HISTORY_NAMES, ChainShape
from langchain_convmem.turns.memory import get_turn_memory
from langchain_convmem.turns.messages import read_input
from langchain_convmem.turns.options import TurnOptions, read_key
from langchain_convmem.turns.replies import (
    PartialReplyHandler,
    ReplyCollector,
    aclose_quietly,
    cut_last,
    is_unfinished,
    read_reply,
)
from langchain_convmem.turns.tracing import TurnTrace, stamp_config
from langchain_convmem.turns.turn import Turn, get_line


class RememberingRunnable(RunnableSerializable[Any, Any]):
    """A chain with a memory; created by `ConversationMemory.wrap`.

    Closing one of its streams ends the turn immediately and in order.
    """

    memory: Any = Field(exclude=True, repr=False)
    inner: Runnable[Any, Any]
    options: TurnOptions = TurnOptions()
    """Options of every turn unless a call overrides them."""
    queue_timeout_s: float = 300.0
    provider: Any = Field(default=None, repr=False)
    input_messages_key: str | None = None
    history_messages_key: str | None = None
    output_messages_key: str | None = None
    record_recall: bool = False

    model_config = ConfigDict(
        arbitrary_types_allowed=True, extra="forbid", frozen=True, hide_input_in_errors=True
    )

    _fixed_shape: ChainShape | None = PrivateAttr(default=None)

    # -- what it is -----------------------------------------------------------------------------

    @property
    def InputType(self) -> Any:  # noqa: N802 - LangChain's name
        """Messages in any form, or a dict with them; None continues an open turn."""
        return str | HumanMessage | dict[str, Any] | list[Any] | None

    @property
    def OutputType(self) -> Any:  # noqa: N802 - LangChain's name
        """Whatever the inner chain returns."""
        return self.inner.OutputType

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """The configurable fields of the inner chain."""
        return self.inner.config_specs

    def get_output_schema(self, config: RunnableConfig | None = None) -> TypeBaseModel:
        """Return the schema of what the inner chain returns."""
        return self.inner.get_output_schema(config)

    # -- one call -------------------------------------------------------------------------------

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run one turn and return what the inner chain returns."""
        stamped = stamp_config(config)
        return self._call_with_config(self._invoke, input, stamped, **kwargs)  # type: ignore[arg-type]  # of four forms one is not declared

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run one turn and return what the inner chain returns."""
        stamped = stamp_config(config)
        return await self._acall_with_config(self._ainvoke, input, stamped, **kwargs)  # type: ignore[arg-type]  # see `invoke`

    def _invoke(self, value: Any, config: RunnableConfig, **kwargs: Any) -> Any:
        turn = self._make_turn(value, config)
        with self._hold(turn):
            payload, config = turn.begin(config)
            output = self.inner.invoke(payload, config, **kwargs)
            turn.finish(output)
            turn.turn.settle()
        return output

    async def _ainvoke(self, value: Any, config: RunnableConfig, **kwargs: Any) -> Any:
        turn = self._make_turn(value, config)
        async with self._ahold(turn):
            payload, config = await hop(partial(turn.begin, config))
            output = await self.inner.ainvoke(payload, config, **kwargs)
            await finish(partial(turn.finish, output))
            await hop(turn.turn.settle)
        return output

    # -- streams --------------------------------------------------------------------------------

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Generator[Any]:
        """Run one turn and yield the answer in pieces as it arrives."""
        yield from self.transform(iter([input]), config, **kwargs)

    def transform(
        self, input: Iterator[Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> Generator[Any]:
        """Run one turn once the input is complete, and yield the answer in pieces."""
        opened: list[Generator[Any]] = []

        def open_stream(
            inputs: Iterator[Any], config: RunnableConfig, **kwargs: Any
        ) -> Iterator[Any]:
            opened.append(self._stream(inputs, config, **kwargs))
            return opened[-1]

        stamped = stamp_config(config)
        try:
            yield from self._transform_stream_with_config(input, open_stream, stamped, **kwargs)  # type: ignore[arg-type]  # see `invoke`
        finally:
            # The helper drops a stream that its reader left; closing it here ends the turn, and
            # raises here if what came cannot be written.
            for stream in opened:
                stream.close()

    def _stream(
        self, inputs: Iterator[Any], config: RunnableConfig, **kwargs: Any
    ) -> Generator[Any]:
        turn = self._make_turn(_merge_chunks(list(inputs)), config)
        with self._hold(turn):
            payload, config = turn.begin(config)
            try:
                for chunk in _require_complete(self.inner.stream(payload, config, **kwargs)):
                    turn.take_chunk(chunk)
                    yield chunk
            except BaseException:
                turn.cut()
                raise
            turn.finish(turn.reply)
            turn.turn.settle()

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncGenerator[Any]:
        """Run one turn and yield the answer in pieces as it arrives."""

        async def yield_input() -> AsyncIterator[Any]:
            yield input

        # Closing this stream must close all beneath it now, not when they are collected.
        async with aclosing(self.atransform(yield_input(), config, **kwargs)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def atransform(
        self, input: AsyncIterator[Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncGenerator[Any]:
        """Run one turn once the input is complete, and yield the answer in pieces."""
        stamped = stamp_config(config)
        stream = self._atransform_stream_with_config(input, self._astream, stamped, **kwargs)  # type: ignore[arg-type]  # see `invoke`
        try:
            async for chunk in stream:
                yield chunk
        finally:
            await aclose_quietly(stream)

    async def _astream(
        self, inputs: AsyncIterator[Any], config: RunnableConfig, **kwargs: Any
    ) -> AsyncIterator[Any]:
        turn = self._make_turn(_merge_chunks([part async for part in inputs]), config)
        async with self._ahold(turn):
            payload, config = await hop(partial(turn.begin, config))
            stream = self.inner.astream(payload, config, **kwargs)
            try:
                async for chunk in stream:
                    turn.take_chunk(chunk)
                    yield chunk
            except BaseException:
                await finish(turn.cut)
                raise
            finally:
                await aclose_quietly(stream)
            await finish(partial(turn.finish, turn.reply))
            await hop(turn.turn.settle)

    def stream_events(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run one turn and return its events; for `version="v3"`, the typed stream of a model."""
        if kwargs.get("version") != "v3":
            return super().stream_events(input, config, **kwargs)
        del kwargs["version"]
        return _open_typed_stream(self.stream(input, config, **kwargs))

    def astream_events(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        """Run one turn and return its events; for `version="v3"`, awaits the typed stream."""
        if kwargs.get("version") != "v3":
            return super().astream_events(input, config, **kwargs)
        del kwargs["version"]
        return _open_typed_async_stream(self.astream(input, config, **kwargs))

    # -- the turn -------------------------------------------------------------------------------

    def _make_turn(self, value: Any, config: RunnableConfig) -> WrappedTurn:
        """Return the turn of one call.

        Raises:
            ConfigError: If the call names no thread, two threads or two users, or sets an option
                that there is not.
            InvalidMessageError: If nothing in the input can be answered.
        """
        configurable = config.get("configurable", {})
        shape = self._fixed_shape
        if shape is None:
            shape = ChainShape.from_chain(self.inner, configurable, self.provider)
            self._fixed_shape = shape if shape.is_fixed else None
        memory = get_turn_memory(self.memory)
        memory.use_model(shape.model)
        turn = Turn(
            memory=memory,
            key=read_key(configurable, host="the chain"),
            options=self.options.merge_call(configurable, self.inner),
            shape=shape,
            trace=TurnTrace(config),
            record_recall=self.record_recall,
        )
        before = self.history_messages_key
        if before is None and shape.slots:
            before = next((name for name in HISTORY_NAMES if name in shape.slots), None)
        said, extra = read_input(
            value, input_messages_key=self.input_messages_key, history_messages_key=before
        )
        names = (self.input_messages_key, before, self.output_messages_key)
        return WrappedTurn(turn, said, extra, *names)

    @contextmanager
    def _hold(self, turn: WrappedTurn) -> Iterator[None]:
        """Hold the thread of a turn, and let who closes the memory wait for it."""
        line = get_line((turn.turn.memory.log_place, turn.turn.key))
        with line.hold(self.queue_timeout_s), turn.turn.memory.active_turns.count():
            yield

    @asynccontextmanager
    async def _ahold(self, turn: WrappedTurn) -> AsyncIterator[None]:
        """Hold the thread of a turn without blocking the event loop; see `_hold`."""
        line = get_line((turn.turn.memory.log_place, turn.turn.key))
        async with line.ahold(self.queue_timeout_s):
            with turn.turn.memory.active_turns.count():
                yield


# -- One turn of a chain --------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class WrappedTurn:
    """One turn of a wrapped chain: what the chain is called with, and what it said as messages.

    Attributes:
        turn: The turn.
        said: What the call says.
        extra: What else its input held.
        said_key: Under which a dict holds what is said.
        history_key: Under which one holds what was said before.
        answer_key: Under which one holds the answer.
        heard: Hears the models of the chain, and learns what they take.
        reply: What came of a stream.
    """

    turn: Turn
    said: Sequence[BaseMessage]
    extra: Mapping[str, Any]
    said_key: str | None = None
    history_key: str | None = None
    answer_key: str | None = None
    heard: PartialReplyHandler = field(default_factory=PartialReplyHandler)
    reply: ReplyCollector = field(default_factory=ReplyCollector)

    def begin(self, config: RunnableConfig) -> tuple[Any, RunnableConfig]:
        """Store the user's message; return the input and the config of the inner chain."""
        context, config = self.turn.begin(self.said), self.heard.listen(config)
        keys = {"said_key": self.said_key, "history_key": self.history_key}
        return context.make_call(config, self.extra, **keys)

    def take_chunk(self, chunk: Any) -> None:
        """Add a chunk of the reply; note the time of the first one."""
        self.reply.add(chunk)
        if self.reply.has_text:
            self.turn.note_first_token()

    def finish(self, output: Any) -> None:
        """Store a complete reply, or one that its provider never finished.

        Args:
            output: What the chain returned, or the chunks that it streamed.
        """
        given, heard = self._given, self.heard.message
        if isinstance(output, ReplyCollector):
            messages = output.complete(given, heard=heard, output_messages_key=self.answer_key)
        else:
            messages = read_reply(output, given, heard=heard, output_messages_key=self.answer_key)
        if messages and is_unfinished(messages[-1]):
            self.turn.finish(cut_last(messages, keeps_calls=True), "interrupted")
        else:
            self.turn.finish(messages)

    def cut(self) -> None:
        """Store the part of a stream received before it was cut off, marked `interrupted`."""
        self.turn.finish(self.reply.collect_cut(self._given), "interrupted")

    @property
    def _given(self) -> Sequence[BaseMessage]:
        """The messages that the inner chain was called with."""
        return () if self.turn.context is None else self.turn.context.given


# -- Streams --------------------------------------------------------------------------------------
def _require_complete(stream: Iterator[Any]) -> Iterator[Any]:
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


def _merge_chunks(parts: list[Any]) -> Any:
    """Return the input of a chain that came in parts.

    Raises:
        ConfigError: If none came.
    """
    if not parts:
        raise ConfigError("the chain was called without input; pass what the user said")
    return reduce(add, parts)


def _open_typed_stream(chunks: Iterator[Any]) -> ChatModelStream:
    """Return LangChain's typed stream (`version="v3"`) of chunks; reading it runs the chain.

    Raises:
        ConfigError: When it is read, if the chain yields neither messages nor text.
    """
    events = chunks_to_events(map(_to_generation, chunks))
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


async def _open_typed_async_stream(chunks: AsyncIterator[Any]) -> AsyncChatModelStream:
    """Return the typed stream of a chain's chunks for an event loop; see `_open_typed_stream`."""
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
