"""The seam between a turn and the model that replies; and chat models."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, message_chunk_to_message
from langchain_core.messages.base import BaseMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.runnables import Runnable, RunnableConfig

from langchain_convmem.background import hop
from langchain_convmem.conversation.config import ConversationConfig
from langchain_convmem.conversation.inputs import SendOptions, copy_message
from langchain_convmem.conversation.streams import aclose_quietly, add_up
from langchain_convmem.conversation.tools import ToolSet
from langchain_convmem.errors import ConfigError
from langchain_convmem.ids import make_ulid
from langchain_convmem.text import RenderStats
from langchain_convmem.views.codec import describe_as_json
from langchain_convmem.views.edits import INTERRUPTED
from langchain_convmem.views.messages import count_tokens, merge_pieces

_RUN_ID = "lc_run-"

_PARSED = "parsed"
"""Where a message holds the object that it stands for, as with LangChain's own classes."""

_THINKING = "enable_thinking"


class ReplyRequest(NamedTuple):
    """What stays the same in all model calls of a turn.

    Attributes:
        config: Settings of the conversation.
        options: Those of the turn.
        tools: What the model may call.
        run: Callbacks, tags and metadata for the model's runs.
        streaming: Whether somebody reads the reply as it comes.
    """

    config: ConversationConfig
    options: SendOptions
    tools: ToolSet
    run: RunnableConfig
    streaming: bool

    @property
    def extra_context(self) -> dict[str, Any]:
        """The extra context of the turn."""
        thinking = self.options.thinking
        thinking = self.config.thinking if thinking is None else thinking
        switch = {} if thinking is None else {_THINKING: thinking}
        return {**self.config.preface.extra_context, **switch, **self.options.extra_context}

    @property
    def model_kwargs(self) -> dict[str, Any]:
        """The arguments of the turn's model calls."""
        return {**self.config.model_kwargs, **self.options.model_kwargs}

    @property
    def max_output_tokens(self) -> int | None:
        """The most tokens of a reply."""
        return self.options.max_output_tokens or self.config.max_output_tokens


class ModelReply(NamedTuple):
    """A reply, whole.

    Attributes:
        message: The reply.
        rest: What is part of it and was not shown yet, without content; None if nothing.
    """

    message: AIMessage
    rest: AIMessageChunk | None


class TurnTransaction:
    """The model's part of one turn: nothing of it stands before `commit`.

    A model that keeps nothing between turns has nothing to do but to reply.
    """

    def __init__(self, request: ReplyRequest) -> None:
        """Begin a turn."""
        self._request = request
        self._builder = ReplyBuilder()

    @property
    def stats(self) -> tuple[RenderStats, ...]:
        """How the text of each call came about; empty for models that take messages."""
        return ()

    def pieces(self, context: Sequence[BaseMessage]) -> Generator[Any]:
        """Let the model reply to all messages after the preface; they grow from call to call.

        Each piece is to be passed to `take` before the next; `end` and `build` come last.
        """
        raise NotImplementedError

    def apieces(self, context: Sequence[BaseMessage]) -> AsyncGenerator[Any]:
        """Let the model reply without blocking the event loop; see `pieces`."""
        raise NotImplementedError

    def take(self, piece: Any) -> Iterable[AIMessageChunk]:
        """Take a piece of the reply; yield what of it is shown."""
        return self._builder.add(piece)

    def end(self) -> Iterable[AIMessageChunk]:
        """Take the end of the reply; yield what is shown yet: an object that came, if one did."""
        return self._builder.add_value()

    def build(self) -> ModelReply:
        """Return the reply, whole."""
        return self._builder.build()

    def get_partial(self) -> AIMessage | None:
        """Return what the model had said when it was interrupted; None if nothing."""
        return make_interrupted(self._builder.combine())

    def remember(self, said: BaseMessage, shown: BaseMessage) -> None:
        """Note that a message was shown with more than it says.

        A session that has read it so is not asked to read it otherwise in later turns.
        """

    def drop_reply(self) -> None:
        """Take the last reply back, whole or not: the history will not hold it as it came."""

    def commit(self) -> None:
        """Let what was done stand."""

    def rollback(self) -> None:
        """Let everything be as before the turn."""


class Backend:
    """A model as one conversation uses it. One turn at a time.

    What stands here is true of a model that keeps nothing between turns and takes messages.
    """

    def begin(self, request: ReplyRequest) -> TurnTransaction:
        """Begin a turn."""
        raise NotImplementedError

    def read_ahead(self, request: ReplyRequest, context: Sequence[BaseMessage]) -> None:
        """Let the model read what is said so far, if it can: the last message goes on later.

        Without messages, it reads the preface.
        """

    async def aread_ahead(self, request: ReplyRequest, context: Sequence[BaseMessage]) -> None:
        """Let the model read without blocking the event loop; see `read_ahead`."""

    def render(
        self, request: ReplyRequest, before: Sequence[BaseMessage], asked: Sequence[BaseMessage]
    ) -> str:
        """Return the text that the model would be sent for these messages; changes nothing."""
        del before, asked
        return self.render_preface(request)

    def render_preface(self, request: ReplyRequest) -> str:
        """Return the text that the model reads before the first message."""
        del request
        raise ConfigError("a chat model is sent messages, and writes no prompt that could be shown")

    def count_tokens(self, context: Sequence[BaseMessage]) -> int:
        """Return how many tokens the model holds, or would be sent."""
        return count_tokens(context)

    def branch(self) -> Backend:
        """Return one for a conversation that goes on from here by itself."""
        return self

    def close(self) -> None:
        """Release what it holds. Idempotent."""


# -- Chat models ----------------------------------------------------------------------------------


class ChatModelBackend(Backend):
    """A chat model: it is sent the preface and the whole view in each turn, and keeps nothing."""

    def __init__(self, model: BaseChatModel | Runnable[Any, Any]) -> None:
        """Use a chat model, or one with bound arguments."""
        self._model = model

    def __repr__(self) -> str:
        return type(self._model).__name__

    def begin(self, request: ReplyRequest) -> ChatModelTransaction:
        """Begin a turn."""
        return ChatModelTransaction(self._model, request)


class ChatModelTransaction(TurnTransaction):
    """One turn of a chat model."""

    def __init__(self, model: Runnable[Any, Any], request: ReplyRequest) -> None:
        """Bind the turn's tools and arguments to the model.

        Raises:
            ConfigError: If the turn has extra context, and no `context_kwargs` say what it means.
        """
        super().__init__(request)
        self._kwargs = _make_kwargs(request)
        self._model = bind_tools(model, request.tools)
        self._answer: Any = None

    def pieces(self, context: Sequence[BaseMessage]) -> Generator[Any]:
        """Send everything; see `TurnTransaction`."""
        messages = self._begin(context)
        if self._request.streaming:
            yield from self._model.stream(messages, self._request.run, **self._kwargs)
        else:
            yield self._model.invoke(messages, self._request.run, **self._kwargs)

    async def apieces(self, context: Sequence[BaseMessage]) -> AsyncGenerator[Any]:
        """Send everything; see `TurnTransaction`."""
        messages = await hop(partial(self._begin, context))
        if not self._request.streaming:
            yield await self._model.ainvoke(messages, self._request.run, **self._kwargs)
            return
        stream = self._model.astream(messages, self._request.run, **self._kwargs)
        try:
            async for piece in stream:
                yield piece
        finally:
            await aclose_quietly(stream)

    def _begin(self, context: Sequence[BaseMessage]) -> list[BaseMessage]:
        self._builder = ReplyBuilder()
        # Copies: a model, or a callback of its run, may change what it is given.
        return list(map(copy_message, [*self._request.config.preface.messages, *context]))

    def take(self, piece: Any) -> Iterable[AIMessageChunk]:
        """Take a chunk, or the whole answer; see `TurnTransaction`."""
        if self._request.streaming:
            return super().take(piece)
        self._answer = piece
        return ()

    def build(self) -> ModelReply:
        """Return the reply; see `TurnTransaction`."""
        if self._request.streaming:
            return super().build()
        # A copy: some models give the same object again and again.
        answer = self._answer
        is_chunk = isinstance(answer, BaseMessageChunk)
        message = copy_message(
            _to_message(message_chunk_to_message(answer) if is_chunk else answer)
        )
        message.id = message.id or _create_name()
        return ModelReply(message, None)


def _make_kwargs(request: ReplyRequest) -> dict[str, Any]:
    context, context_kwargs = request.extra_context, request.config.context_kwargs
    meant: Mapping[str, Any] = {}
    if context:
        if context_kwargs is None:
            raise ConfigError(
                f"a chat model knows no extra context, got {sorted(context)}; say what it means "
                "to this one by context_kwargs=lambda context: {...}, as arguments of its calls"
            )
        meant = context_kwargs(context)
    most = request.max_output_tokens
    limit = {} if most is None else {"max_tokens": most}
    return {**limit, **meant, **request.model_kwargs}


def bind_tools(model: Runnable[Any, Any], tools: ToolSet) -> Runnable[Any, Any]:
    """Return a model that is offered tools; the model itself where there are none.

    Raises:
        ConfigError: If the model takes none.
    """
    if not tools.bindable:
        return model
    bind = getattr(model, "bind_tools", None)
    with suppress(NotImplementedError):
        if bind is not None:
            bound: Runnable[Any, Any] = bind(list(tools.bindable))
            return bound
    raise ConfigError(f"{type(model).__name__} takes no tools; use a model that has `bind_tools`")


# -- A reply as it comes --------------------------------------------------------------------------


@dataclass(slots=True)
class ReplyBuilder:
    """A reply as it comes: what of it is shown, and what it adds up to."""

    name: str | None = None
    _chunks: list[AIMessageChunk] = field(default_factory=list)
    _rest: AIMessageChunk | None = None
    _value: Any = None

    def add(self, chunk: Any) -> Iterator[AIMessageChunk]:
        """Take a chunk, and show it if there is something to see in it.

        Raises:
            ConfigError: If it is a message, and none of a model.
        """
        if not isinstance(chunk, str | BaseMessage):
            # Parsers write an object anew as it grows: it is shown when it is whole.
            self._value = chunk if self._value is None else add_up(self._value, chunk)
            return
        chunk = _to_chunk(_to_message(chunk))
        if self.name is None:
            self.name = chunk.id or _create_name()
        chunk = chunk.model_copy(update={"id": self.name, "chunk_position": None})
        self._chunks.append(chunk)
        if chunk.content or chunk.tool_call_chunks or chunk.additional_kwargs:
            yield copy_message(chunk)
        else:
            rest = chunk.model_copy(update={"content": ""})
            self._rest = rest if self._rest is None else self._rest + rest

    def add_value(self) -> Iterator[AIMessageChunk]:
        """Show the object that came, if one did, as the message that stands for it."""
        if self._value is not None:
            yield from self.add(_to_message(self._value))

    def combine(self, *more: AIMessageChunk) -> AIMessageChunk | None:
        """Return all that came, and what comes besides, as one chunk; None if nothing came."""
        return merge_pieces([*self._chunks, *more]) if self._chunks else None

    def build(self) -> ModelReply:
        """Return the reply.

        Raises:
            ConfigError: If the model said nothing at all, not even that it has nothing to say.
        """
        total = self.combine(AIMessageChunk(content="", id=self.name, chunk_position="last"))
        if total is None:
            raise ConfigError("the model's stream brought nothing; is it a chat model?")
        message = _to_message(message_chunk_to_message(total))
        return ModelReply(message, self._rest)


def _to_message(answer: Any) -> AIMessage:
    """Return what a model answered as a message: an object that a parser made stands in it as JSON.

    Raises:
        ConfigError: If it is a message, and none of a model, or nothing.
    """
    if isinstance(answer, AIMessage):
        return answer
    if answer is None or isinstance(answer, BaseMessage):
        raise ConfigError(f"the model answered a {type(answer).__name__}, not an AIMessage")
    if isinstance(answer, str):
        return AIMessage(answer)
    raw = answer.get("raw") if isinstance(answer, Mapping) else None
    if not isinstance(raw, AIMessage):
        return AIMessage(describe_as_json(answer), additional_kwargs={_PARSED: answer})
    value = answer.get(_PARSED)
    if value is None:
        return raw
    return AIMessage(
        describe_as_json(value),
        id=raw.id,
        additional_kwargs={_PARSED: value},
        response_metadata=raw.response_metadata,
        usage_metadata=raw.usage_metadata,
    )


def _to_chunk(message: AIMessage) -> AIMessageChunk:
    """Return a message as a chunk: a model that does not stream may show it whole."""
    if isinstance(message, AIMessageChunk):
        return message
    found = message.model_dump(exclude={"type", "tool_calls", "invalid_tool_calls"})
    calls = [
        tool_call_chunk(name=call["name"], args=args, id=call["id"], index=number)
        for number, (call, args) in enumerate(
            [
                *((call, json.dumps(call["args"])) for call in message.tool_calls),
                *((call, call["args"]) for call in message.invalid_tool_calls),
            ]
        )
    ]
    return AIMessageChunk(**found, tool_call_chunks=calls)


def _create_name() -> str:
    return f"{_RUN_ID}-{make_ulid()}"


def make_interrupted(total: AIMessageChunk | None) -> AIMessage | None:
    """Return the text that had come, as a message that says it was cancelled.

    Half a call looks like a whole one, so that calls are left out.
    """
    if total is None or not total.text:
        return None
    metadata = {**total.response_metadata, "finish_reason": "cancelled", INTERRUPTED: True}
    return AIMessage(
        total.text,
        id=total.id,
        name=total.name,
        usage_metadata=total.usage_metadata,
        response_metadata=metadata,
    )
