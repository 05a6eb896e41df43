"""The seam between a turn and the model that replies; and chat models."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, message_chunk_to_message
from langchain_core.runnables import Runnable, RunnableConfig

from langchain_convmem.conversation.config import ConversationConfig, SendOptions
from langchain_convmem.conversation.inputs import copy_message
from langchain_convmem.conversation.tools import ToolSet
from langchain_convmem.errors import ConfigError
from langchain_convmem.ids import make_ulid
from langchain_convmem.text import RenderStats
from langchain_convmem.turns.turn import aclose_quietly, add_up, mark_interrupted
from langchain_convmem.views.codec import describe_as_json
from langchain_convmem.views.messages import count_tokens, merge_pieces


class ReplyRequest(NamedTuple):
    """What stays the same in all model calls of a turn.

    Attributes:
        config: Settings of the conversation.
        options: Those of the turn, with what the config says where the turn says nothing.
        tools: What the model may call.
        run: Callbacks, tags and metadata for the model's runs.
        streaming: Whether somebody reads the reply as it comes.
    """

    config: ConversationConfig
    options: SendOptions
    tools: ToolSet
    run: RunnableConfig
    streaming: bool


class ModelTurn:
    """The model's part of one turn: nothing of it stands before `commit`.

    A model that keeps nothing between turns has nothing to do but to reply.

    Attributes:
        stats: How the text of each call came about; empty for models that take messages.
    """

    def __init__(self, request: ReplyRequest) -> None:
        """Begin a turn."""
        self.request = request
        self.stats: list[RenderStats] = []

    def stream(self, context: Sequence[BaseMessage]) -> Generator[list[Any]]:
        """Let the model reply to all messages after the preface; yield what comes of the reply.

        The messages grow from call to call. A list is empty where there is nothing to show yet.
        """
        raise NotImplementedError

    def astream(self, context: Sequence[BaseMessage]) -> AsyncGenerator[list[Any]]:
        """Let the model reply without blocking the event loop; see `stream`."""
        raise NotImplementedError

    def remember(self, said: BaseMessage, shown: BaseMessage) -> None:
        """Note that a message was shown with more than it says.

        A session that has read it so is not asked to read it otherwise in later turns.
        """

    def commit(self) -> None:
        """Let what was done stand."""

    def rollback(self) -> None:
        """Let everything be as before the turn."""


class Backend:
    """A model as one conversation uses it. One turn at a time.

    What stands here is true of a model that keeps nothing between turns and takes messages.
    """

    def begin(self, request: ReplyRequest) -> ModelTurn:
        """Begin a turn."""
        raise NotImplementedError

    def read_ahead(self, request: ReplyRequest, context: Sequence[BaseMessage]) -> None:
        """Let the model read what is said so far, if it can: the last message goes on later.

        Without messages, it reads the preface.
        """

    async def aread_ahead(self, request: ReplyRequest, context: Sequence[BaseMessage]) -> None:
        """Let the model read without blocking the event loop; see `read_ahead`."""

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

    def __init__(self, model: Runnable[Any, Any], tools: ToolSet) -> None:
        """Use a chat model, or one with bound arguments, and offer it tools.

        Raises:
            ConfigError: If there are tools and the model takes none.
        """
        self._name = type(model).__name__
        self._model = _bind_tools(model, tools)

    def __repr__(self) -> str:
        return self._name

    def begin(self, request: ReplyRequest) -> ChatModelTurn:
        """Begin a turn."""
        return ChatModelTurn(self._model, request)


class ChatModelTurn(ModelTurn):
    """One turn of a chat model."""

    def __init__(self, model: Runnable[Any, Any], request: ReplyRequest) -> None:
        """Say what the turn's options are to the model.

        Raises:
            ConfigError: If the turn has extra context, which only chat templates read.
        """
        super().__init__(request)
        self._model = model
        if request.options.extra_context:
            given = sorted(request.options.extra_context)
            way = "pass parameters of its own, such as reasoning_effort, in model_kwargs"
            raise ConfigError(f"a chat model reads no extra context, got {given}; {way}")
        most = request.options.max_output_tokens
        limit = {} if most is None else {"max_tokens": most}
        self._kwargs = {**limit, **request.options.model_kwargs}

    def stream(self, context: Sequence[BaseMessage]) -> Generator[list[Any]]:
        """Send everything; see `ModelTurn`."""
        messages = self._copy(context)
        if not self.request.streaming:
            yield [self._model.invoke(messages, self.request.run, **self._kwargs)]
            return
        for piece in self._model.stream(messages, self.request.run, **self._kwargs):
            yield [piece]

    async def astream(self, context: Sequence[BaseMessage]) -> AsyncGenerator[list[Any]]:
        """Send everything; see `ModelTurn`."""
        messages = self._copy(context)
        if not self.request.streaming:
            yield [await self._model.ainvoke(messages, self.request.run, **self._kwargs)]
            return
        stream = self._model.astream(messages, self.request.run, **self._kwargs)
        try:
            async for piece in stream:
                yield [piece]
        finally:
            await aclose_quietly(stream)

    def _copy(self, context: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return all messages; a model, or a callback of its run, may change what it is given."""
        return list(map(copy_message, [*self.request.config.preface.messages, *context]))


def _bind_tools(model: Runnable[Any, Any], tools: ToolSet) -> Runnable[Any, Any]:
    if not tools.names:
        return model
    with suppress(NotImplementedError, AttributeError):
        bound: Runnable[Any, Any] = model.bind_tools(tools.bindable)  # type: ignore[attr-defined]
        return bound
    raise ConfigError(f"{type(model).__name__} takes no tools; use a model that has `bind_tools`")


# -- A reply as it comes --------------------------------------------------------------------------


@dataclass(slots=True)
class ReplyBuilder:
    """A reply as it comes: what of it is shown, and what it adds up to.

    Attributes:
        rest: What was not shown, without content; None if nothing.
    """

    rest: AIMessageChunk | None = None
    _name: str | None = None
    _chunks: list[AIMessageChunk] = field(default_factory=list)
    _value: Any = None

    def add(self, piece: Any) -> Iterator[AIMessageChunk]:
        """Take a piece of the reply, and show it if there is something to see in it.

        Raises:
            ConfigError: If it is a message, and none of a model.
        """
        if not isinstance(piece, str | BaseMessage):
            # Parsers write an object anew as it grows: it is shown when it is whole.
            self._value = piece if self._value is None else add_up(self._value, piece)
            return
        message = _to_message(piece)
        chunk = message if isinstance(message, AIMessageChunk) else _to_chunk(message)
        self._name = self._name or chunk.id or f"lc_run--{make_ulid()}"
        chunk = chunk.model_copy(update={"id": self._name, "chunk_position": None})
        self._chunks.append(chunk)
        if chunk.content or chunk.tool_call_chunks or chunk.additional_kwargs:
            yield copy_message(chunk)
        else:  # an empty list would swallow the text that follows it
            chunk = chunk.model_copy(update={"content": ""})
            self.rest = chunk if self.rest is None else self.rest + chunk

    def add_value(self) -> Iterator[AIMessageChunk]:
        """Show the object that came, if one did, as the message that stands for it."""
        if self._value is not None:
            yield from self.add(_to_message(self._value))

    def build(self) -> AIMessage:
        """Return the reply.

        Raises:
            ConfigError: If the model said nothing at all, not even that it has nothing to say.
        """
        if not self._chunks:
            raise ConfigError("the model's stream brought nothing; is it a chat model?")
        last = AIMessageChunk(content="", id=self._name, chunk_position="last")
        total = merge_pieces([*self._chunks, last])
        return _to_message(message_chunk_to_message(total))

    def build_part(self, told: Mapping[str, Any]) -> list[BaseMessage]:
        """Return the text that had come of a reply that broke off, marked so; nothing if none.

        Half a call looks like a whole one, so that calls are left out.

        Args:
            told: What else its metadata say.
        """
        total = merge_pieces(self._chunks) if self._chunks else None
        if total is None or not total.text:
            return []
        usage, known = total.usage_metadata, {**total.response_metadata, **told}
        part = AIMessage(total.text, id=total.id, usage_metadata=usage, response_metadata=known)
        return [mark_interrupted(part)]


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
        return AIMessage(describe_as_json(answer), additional_kwargs={"parsed": answer})
    value = answer.get("parsed")
    if value is None:
        return raw
    return AIMessage(
        describe_as_json(value),
        id=raw.id,
        additional_kwargs={"parsed": value},
        response_metadata=raw.response_metadata,
        usage_metadata=raw.usage_metadata,
    )


def _to_chunk(message: AIMessage) -> AIMessageChunk:
    """Return a message as a chunk: a model that does not stream shows it whole."""
    return AIMessageChunk(**message.model_dump(exclude={"type"}))
