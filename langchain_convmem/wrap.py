"""`memory.wrap(inner)`: a Runnable that remembers.

A turn keeps this order: the user's message is durable before the model is called, and the reply is
stored as one message when it is complete. If a stream breaks off, what it brought is stored, marked
`interrupted`. A failed write is raised, not just logged.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from langchain_core.language_models._compat_bridge import achunks_to_events, chunks_to_events
from langchain_core.language_models.chat_model_stream import AsyncChatModelStream, ChatModelStream
from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import Runnable, RunnableConfig, RunnableSerializable
from pydantic import ConfigDict, Field, PrivateAttr

from langchain_convmem.background import finish, hop
from langchain_convmem.causes import describe_name
from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.locks import FifoLock
from langchain_convmem.turns.chains import HISTORY_NAMES, ChainShape
from langchain_convmem.turns.memory import TurnOptions, get_turn_memory, read_key, stamp_config
from langchain_convmem.turns.tracing import TurnTrace
from langchain_convmem.turns.turn import (
    PartialReplyHandler,
    ReplyCollector,
    Turn,
    aclose_quietly,
    check_question,
    get_line,
    read_reply,
)
from langchain_convmem.views.codec import get_role
from langchain_convmem.views.messages import MESSAGE_FORMS, read_messages, unpack_messages


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

    # -- one call -------------------------------------------------------------------------------

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run one turn and return what the inner chain returns."""
        return self._call_with_config(self._invoke, input, stamp_config(config), **kwargs)  # type: ignore[arg-type]  # of four forms one is not declared

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run one turn and return what the inner chain returns."""
        return await self._acall_with_config(self._ainvoke, input, stamp_config(config), **kwargs)  # type: ignore[arg-type]  # see `invoke`

    def _invoke(self, value: Any, config: RunnableConfig, **kwargs: Any) -> Any:
        call = self._make_call(value, config)
        with call.line.hold(self.queue_timeout_s), call.turn.memory.active_turns.count():
            payload, config = call.begin(config)
            output = self.inner.invoke(payload, config, **kwargs)
            call.finish(output)
            call.turn.settle()
        return output

    async def _ainvoke(self, value: Any, config: RunnableConfig, **kwargs: Any) -> Any:
        call = self._make_call(value, config)
        async with call.line.ahold(self.queue_timeout_s):
            with call.turn.memory.active_turns.count():
                payload, config = await hop(partial(call.begin, config))
                output = await self.inner.ainvoke(payload, config, **kwargs)
                await finish(partial(call.finish, output))
                await hop(call.turn.settle)
        return output

    # -- streams --------------------------------------------------------------------------------

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Generator[Any]:
        """Run one turn and yield the answer in pieces as it arrives."""
        # The helper below drops the inner stream if the reader leaves. Closed here, that one ends
        # the turn, and raises if the partial reply cannot be written.
        with ExitStack() as opened:

            def open_stream(inputs: Any, config: RunnableConfig, **kwargs: Any) -> Iterator[Any]:
                return opened.enter_context(closing(self._stream(inputs, config, **kwargs)))

            stamped = stamp_config(config)
            said = iter([input])
            yield from self._transform_stream_with_config(said, open_stream, stamped, **kwargs)  # type: ignore[arg-type]  # see `invoke`

    def _stream(
        self, inputs: Iterator[Any], config: RunnableConfig, **kwargs: Any
    ) -> Generator[Any]:
        call = self._make_call(next(inputs), config)
        with call.line.hold(self.queue_timeout_s), call.turn.memory.active_turns.count():
            payload, config = call.begin(config)
            try:
                for chunk in self.inner.stream(payload, config, **kwargs):
                    call.take_chunk(chunk)
                    yield chunk
            except BaseException:
                call.cut()
                raise
            call.finish(call.reply.output)
            call.turn.settle()

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncGenerator[Any]:
        """Run one turn and yield the answer in pieces as it arrives."""

        async def yield_input() -> AsyncIterator[Any]:
            yield input

        said, stamped = yield_input(), stamp_config(config)
        stream = self._atransform_stream_with_config(said, self._astream, stamped, **kwargs)  # type: ignore[arg-type]  # see `invoke`
        try:
            async for chunk in stream:
                yield chunk
        finally:  # closing this stream closes all beneath it now, not when they are collected
            await aclose_quietly(stream)

    async def _astream(
        self, inputs: AsyncIterator[Any], config: RunnableConfig, **kwargs: Any
    ) -> AsyncIterator[Any]:
        call = self._make_call(await anext(inputs), config)
        async with call.line.ahold(self.queue_timeout_s):
            with call.turn.memory.active_turns.count():
                payload, config = await hop(partial(call.begin, config))
                stream = self.inner.astream(payload, config, **kwargs)
                try:
                    async for chunk in stream:
                        call.take_chunk(chunk)
                        yield chunk
                except BaseException:
                    await finish(call.cut)
                    raise
                finally:
                    await aclose_quietly(stream)
                await finish(partial(call.finish, call.reply.output))
                await hop(call.turn.settle)

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

    def _make_call(self, value: Any, config: RunnableConfig) -> ChainCall:
        """Return a call of the chain, with its turn.

        Raises:
            ConfigError: If the call names no thread, two threads or two users, or sets an unknown
                option.
            InvalidMessageError: If the input cannot be answered.
        """
        configurable, memory = config.get("configurable", {}), get_turn_memory(self.memory)
        shape = self._fixed_shape
        if shape is None:
            shape = ChainShape.from_chain(self.inner, configurable, self.provider)
            self._fixed_shape = shape if shape.is_fixed else None
            memory.use_model(shape.model)
        turn = Turn(
            memory=memory,
            key=read_key(configurable, host="the chain"),
            options=self.options.merge_call(configurable),
            shape=shape,
            trace=TurnTrace(config),
            record_recall=self.record_recall,
        )
        before = self.history_messages_key
        if before is None and shape.slots:
            before = next((name for name in reversed(HISTORY_NAMES) if name in shape.slots), None)
        said, extra = _read_input(value, self.input_messages_key, before)
        line = get_line((memory.log_place, turn.key))
        keys = (self.input_messages_key or "input", before or "history")
        return ChainCall(turn, line, said, extra, keys, self.output_messages_key)


# -- The input of a call -------------------------------------------------------------------------
def _read_input(
    value: Any, input_messages_key: str | None, history_messages_key: str | None
) -> tuple[Sequence[BaseMessage], Mapping[str, Any]]:
    """Read the input of a call, in any form that `read_messages` accepts.

    Args:
        value: The input; `None`, or only results of tools, go on with an open turn.
            A dict may hold `{"messages": ...}`, or the user's words under `input_messages_key`,
            earlier messages under `history_messages_key`, and further keys for the inner chain.
        input_messages_key: Key of what is said; None is `input`.
        history_messages_key: Key of what was said before; None is `history`.

    Returns:
        The messages: what the user says now, last, after whatever the caller sends along; or
        results of tools; or nothing, to go on with the turn as it stands. And the other keys of a
        dict.

    Raises:
        InvalidMessageError: If it cannot be answered: it has no messages, or ends with one of the
            assistant or a blank one of the user.
    """
    extra: Mapping[str, Any] = {}
    if isinstance(value, Mapping) and not _is_message(value):
        value, extra = _take_keys(value, input_messages_key, history_messages_key or "history")
    if value is None:
        return (), extra
    if hasattr(value, "goto"):
        raise InvalidMessageError("wrap takes no Command; use ConversationMemoryMiddleware instead")
    messages = read_messages(value)
    said = [message for message in messages if get_role(message) != "system"]
    if not said:
        what = "any message but instructions" if messages else "any message"
        msg = f"the input is a {type(value).__name__} without {what}; {MESSAGE_FORMS}"
        raise InvalidMessageError(msg)
    if get_role(said[-1]) not in ("user", "tool"):
        raise InvalidMessageError(
            f"the input ends with an {type(said[-1]).__name__}; it must end with what the user "
            "says, or with results of tools. Put messages into the thread with "
            "memory.add_messages()"
        )
    check_question(said[-1])
    return messages, extra


def _is_message(value: Mapping[Any, Any]) -> bool:
    is_named = "role" in value or isinstance(value.get("type"), str)
    return is_named and ("content" in value or "data" in value or "tool_calls" in value)


def _take_keys(
    value: Mapping[Any, Any], input_messages_key: str | None, history_messages_key: str
) -> tuple[Any, Mapping[str, Any]]:
    """Return what a dict says, and its other keys."""
    own = "messages" if "messages" in value and "input" not in value else "input"
    key = input_messages_key or own
    if key not in value:
        keys = sorted(map(describe_name, value))
        raise InvalidMessageError(
            f"a dict input needs the key {key!r}; got {keys}. Name the key of what the user says "
            "with wrap(..., input_messages_key=...)"
        )
    said, before = value[key], value.get(history_messages_key)
    is_text = isinstance(said, str) and input_messages_key not in (None, "messages")
    taken = set() if is_text else {key}
    earlier = None if isinstance(before, str) else unpack_messages(before)
    if said is not None and history_messages_key != key and earlier is not None:
        taken.add(history_messages_key)
        items = unpack_messages(said)
        said = [*earlier, *([said] if items is None else items)]
    return said, {str(name): item for name, item in value.items() if name not in taken}


# -- One call -------------------------------------------------------------------------------------
@dataclass(slots=True)
class ChainCall:
    """One call of a wrapped chain, and the turn that it makes.

    Attributes:
        turn: The turn.
        line: The line in which the turns of its thread wait.
        said: The messages of its input.
        extra: Other keys of its input.
        keys: The chain's keys of what is said, and of what was said before.
        answer_key: The key of the answer, if the chain returns a dict.
        heard: Collects what the chain's models say.
        reply: Collects the stream.
        given: The messages that the chain was called with.
    """

    turn: Turn
    line: FifoLock
    said: Sequence[BaseMessage]
    extra: Mapping[str, Any]
    keys: tuple[str, str]
    answer_key: str | None
    heard: PartialReplyHandler = field(default_factory=PartialReplyHandler)
    reply: ReplyCollector = field(default_factory=ReplyCollector)
    given: Sequence[BaseMessage] = ()

    def begin(self, config: RunnableConfig) -> tuple[Any, RunnableConfig]:
        """Store the user's message; return the input and the config of the inner chain."""
        context = self.turn.begin(self.said)
        self.given = context.given
        return context.make_call(self.heard.listen(config), self.extra, *self.keys)

    def take_chunk(self, chunk: Any) -> None:
        """Take a chunk of the stream, and note when the first words of the reply came."""
        self.reply.add(chunk)
        self.turn.note_first_token(self.heard.first_token_ms)

    def finish(self, output: Any) -> None:
        """Store what the chain returned."""
        heard, key = self.heard.message, self.answer_key
        self.turn.finish(read_reply(output, self.given, heard=heard, output_messages_key=key))

    def cut(self) -> None:
        """Store what a stream brought before it broke off, marked `interrupted`."""
        self.turn.finish(self.reply.collect_cut(self.given, self.answer_key), "interrupted")


# -- Streams --------------------------------------------------------------------------------------
def _open_typed_stream(chunks: Iterator[Any]) -> ChatModelStream:
    """Return LangChain's typed stream (`version="v3"`) of chunks; reading it runs the chain.

    Raises:
        ConfigError: While it is read, if the chain yields neither messages nor text.
    """
    events = chunks_to_events(map(_to_generation, chunks))
    stream = ChatModelStream()

    def pump() -> bool:
        with _failing(stream):
            return _dispatch(stream, next(events, None))

    stream.bind_pump(pump)
    return stream


async def _open_typed_async_stream(chunks: AsyncIterator[Any]) -> AsyncChatModelStream:
    """Return the typed stream of a chain's chunks for an event loop; see `_open_typed_stream`."""
    events = achunks_to_events(_to_generation(chunk) async for chunk in chunks)
    stream = AsyncChatModelStream()
    lock = asyncio.Lock()  # the text and the calls may be read side by side

    async def pump() -> bool:
        async with lock:
            with _failing(stream):
                return _dispatch(stream, await anext(events, None))

    stream.set_arequest_more(pump)
    return stream


@contextmanager
def _failing(stream: ChatModelStream | AsyncChatModelStream) -> Iterator[None]:
    """Let each reader of a typed stream know of an error, and not the one alone who met it."""
    try:
        yield
    except BaseException as error:
        stream.fail(error)
        raise


def _dispatch(stream: ChatModelStream | AsyncChatModelStream, event: Any) -> bool:
    """Pass on an event; return whether there was one."""
    if event is not None:
        stream.dispatch(event)
    return event is not None


def _to_generation(chunk: Any) -> ChatGenerationChunk:
    if isinstance(chunk, str):
        chunk = AIMessageChunk(content=chunk)
    if not isinstance(chunk, AIMessageChunk):
        kind = type(chunk).__name__
        raise ConfigError(f"version='v3' streams messages, and the chain yields {kind}; use 'v2'")
    return ChatGenerationChunk(message=chunk)
