"""`memory.wrap(inner)`: a Runnable that remembers.

A turn guarantees its order: the user's message is durable before the model is called, the
reply is stored as one message when it is complete, and what a cut stream had brought is stored as
`interrupted`. Failed writes are raised, not just logged.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableSerializable
from langchain_core.runnables.utils import ConfigurableFieldSpec
from langchain_core.utils.pydantic import TypeBaseModel
from pydantic import ConfigDict, Field, PrivateAttr

from langchain_convmem.background import finish, hop
from langchain_convmem.turns.chains import HISTORY_NAMES, ChainShape
from langchain_convmem.turns.memory import get_turn_memory
from langchain_convmem.turns.messages import CallInput, read_input
from langchain_convmem.turns.options import TurnOptions, read_key
from langchain_convmem.turns.replies import (
    PartialReplyHandler,
    ReplyCollector,
    cut_last,
    is_unfinished,
    read_reply,
)
from langchain_convmem.turns.streams import (
    ClosingStreams,
    aclose_quietly,
    merge_chunks,
    require_complete,
)
from langchain_convmem.turns.tracing import TurnTrace, stamp_config
from langchain_convmem.turns.turn import Turn, get_line
from langchain_convmem.turns.typed_streams import open_typed_async_stream, open_typed_stream


class RememberingRunnable(ClosingStreams, RunnableSerializable[Any, Any]):
    """A chain with a memory; made by `ConversationMemory.wrap`."""

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
        """Messages in any form, or a dict with them; None goes on with an open turn."""
        return str | HumanMessage | dict[str, Any] | list[Any] | None

    @property
    def OutputType(self) -> Any:  # noqa: N802 - LangChain's name
        """Whatever the inner chain returns."""
        return self.inner.OutputType

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """What a call may choose of the inner chain."""
        return self.inner.config_specs

    def get_output_schema(self, config: RunnableConfig | None = None) -> TypeBaseModel:
        """Return the schema of what the inner chain returns."""
        return self.inner.get_output_schema(config)

    # -- one call -------------------------------------------------------------------------------

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run one turn and return what the inner chain returns."""
        return self._call_with_config(self._invoke, input, self._stamp(config), **kwargs)

    async def ainvoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run one turn and return what the inner chain returns."""
        stamp = self._stamp(config)
        return await self._acall_with_config(self._ainvoke, input, stamp, **kwargs)

    def _invoke(
        self,
        value: Any,
        run_manager: Any,  # noqa: ARG002 - LangChain's
        config: RunnableConfig,
        **kwargs: Any,
    ) -> Any:
        turn = self._make_turn(value, config)
        with self._hold(turn):
            payload, config = turn.begin(config)
            output = self.inner.invoke(payload, config, **kwargs)
            turn.finish(output)
            turn.turn.settle()
        return output

    async def _ainvoke(
        self,
        value: Any,
        run_manager: Any,  # noqa: ARG002 - LangChain's
        config: RunnableConfig,
        **kwargs: Any,
    ) -> Any:
        turn = self._make_turn(value, config)
        async with self._ahold(turn):
            payload, config = await hop(partial(turn.begin, config))
            output = await self.inner.ainvoke(payload, config, **kwargs)
            await finish(partial(turn.finish, output))
            await hop(turn.turn.settle)
        return output

    # -- streams --------------------------------------------------------------------------------

    def _stream(
        self,
        inputs: Iterator[Any],
        run_manager: Any,  # noqa: ARG002 - LangChain's
        config: RunnableConfig,
        **kwargs: Any,
    ) -> Iterator[Any]:
        turn = self._make_turn(merge_chunks(list(inputs)), config)
        with self._hold(turn):
            payload, config = turn.begin(config)
            reply = ReplyCollector()
            try:
                for chunk in require_complete(self.inner.stream(payload, config, **kwargs)):
                    turn.take_chunk(reply, chunk)
                    yield chunk
            except BaseException:
                turn.cut(reply)
                raise
            turn.finish(reply)
            turn.turn.settle()

    async def _astream(
        self,
        inputs: AsyncIterator[Any],
        run_manager: Any,  # noqa: ARG002 - LangChain's
        config: RunnableConfig,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        parts = [part async for part in inputs]
        turn = self._make_turn(merge_chunks(parts), config)
        async with self._ahold(turn):
            payload, config = await hop(partial(turn.begin, config))
            reply = ReplyCollector()
            stream = self.inner.astream(payload, config, **kwargs)
            try:
                async for chunk in stream:
                    turn.take_chunk(reply, chunk)
                    yield chunk
            except BaseException:
                await finish(partial(turn.cut, reply))
                raise
            finally:
                await aclose_quietly(stream)
            await finish(partial(turn.finish, reply))
            await hop(turn.turn.settle)

    def stream_events(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        version: Any = "v2",
        **kwargs: Any,
    ) -> Any:
        """Run one turn and return its events; for `v3`, the typed stream of a chat model."""
        if version == "v3":
            return open_typed_stream(self.stream(input, config, **kwargs))
        return super().stream_events(input, config, version=version, **kwargs)

    def astream_events(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        version: Any = "v2",
        **kwargs: Any,
    ) -> Any:
        """Run one turn and return its events; for `v3`, what awaits the typed stream."""
        if version == "v3":
            return self._open_typed(input, config, **kwargs)
        return super().astream_events(input, config, version=version, **kwargs)

    async def _open_typed(self, value: Any, config: RunnableConfig | None, **kwargs: Any) -> Any:
        return open_typed_async_stream(self.astream(value, config, **kwargs))

    # -- the turn -------------------------------------------------------------------------------

    def _make_turn(self, value: Any, config: RunnableConfig) -> WrappedTurn:
        """Return the turn of one call.

        Raises:
            ConfigError: If the call names no thread, two threads or two users, or sets an option
                that there is not.
            InvalidMessageError: If nothing in the input can be answered.
        """
        configurable = config.get("configurable", {})
        shape = self._read_shape(configurable)
        memory = get_turn_memory(self.memory)
        memory.use_model(shape.model)
        named = (name for name in HISTORY_NAMES if name in (shape.slots or ()))
        said, before = self.input_messages_key, self.history_messages_key or next(named, None)
        turn = Turn(
            memory=memory,
            key=read_key(configurable, host="the chain"),
            options=self.options.merge_call(configurable, self.inner),
            shape=shape,
            trace=TurnTrace(config),
            record_recall=self.record_recall,
        )
        incoming = read_input(value, input_messages_key=said, history_messages_key=before)
        heard = PartialReplyHandler()
        return WrappedTurn(turn, incoming, heard, said, before, self.output_messages_key)

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

    def _stamp(self, config: RunnableConfig | None) -> RunnableConfig:
        return stamp_config(config)

    def _read_shape(self, configurable: dict[str, Any]) -> ChainShape:
        if self._fixed_shape is not None:
            return self._fixed_shape
        shape = ChainShape.from_chain(self.inner, configurable, self.provider)
        if shape.is_fixed:
            self._fixed_shape = shape
        return shape


# -- One turn of a chain --------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class WrappedTurn:
    """One turn of a wrapped chain: what the chain is called with, and what it said as messages.

    Attributes:
        turn: The turn.
        incoming: What the call says.
        heard: Hears the models of the chain, and learns what they take.
        said_key: Under which a dict holds what is said.
        history_key: Under which one holds what was said before.
        answer_key: Under which one holds the answer.
    """

    turn: Turn
    incoming: CallInput
    heard: PartialReplyHandler
    said_key: str | None = None
    history_key: str | None = None
    answer_key: str | None = None

    def begin(self, config: RunnableConfig) -> tuple[Any, RunnableConfig]:
        """Store the user's message; return the input and the config of the inner chain."""
        context = self.turn.begin(self.incoming.messages)
        payload = context.build_payload(self.incoming.extra)
        if isinstance(payload, dict):
            payload[self.history_key or "history"] = payload["history"]
            payload[self.said_key or "input"] = payload["input"]
        names = filter(None, [self.said_key])
        config = self.heard.listen(config)
        return self.turn.shape.make_call(payload, config, context.said, names)

    def take_chunk(self, reply: ReplyCollector, chunk: Any) -> None:
        """Add a chunk of the reply; note the time of the first one."""
        reply.add(chunk)
        if reply.has_text:
            self.turn.note_first_token()

    def finish(self, output: Any) -> None:
        """Store a complete reply, or one that its provider never finished.

        Args:
            output: What the chain returned, or the chunks that it streamed.
        """
        read = (
            output.complete if isinstance(output, ReplyCollector) else partial(read_reply, output)
        )
        heard, key = self.heard.message, self.answer_key
        reply = read(self._given, heard=heard, output_messages_key=key)
        messages, is_cut = reply.messages, reply.messages and is_unfinished(reply.messages[-1])
        if is_cut:
            messages = cut_last(messages, keeps_calls=True)
        self.turn.finish(messages, "interrupted" if is_cut else "done", aux=reply.aux)

    def cut(self, reply: ReplyCollector) -> None:
        """Store the part of a stream received before it was cut off, marked `interrupted`."""
        self.turn.finish(reply.collect_cut(self._given), "interrupted")

    @property
    def _given(self) -> Sequence[BaseMessage]:
        """The messages that the inner chain was called with."""
        return () if self.turn.context is None else self.turn.context.given
