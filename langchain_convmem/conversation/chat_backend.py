"""What writes a conversation's replies: the seam between a turn and a model, and chat models."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    message_chunk_to_message,
)
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.messages.base import BaseMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.runnables import Runnable, RunnableConfig

from langchain_convmem.conversation.config import ConversationConfig, SendOptions
from langchain_convmem.conversation.flows import Flow, Pulled
from langchain_convmem.conversation.inputs import copied
from langchain_convmem.conversation.tools import ToolSet
from langchain_convmem.effects import Steps, step
from langchain_convmem.errors import ConfigError, UnsupportedError
from langchain_convmem.ids import new_ulid
from langchain_convmem.text import RenderStats
from langchain_convmem.views.codec import add_up, to_json
from langchain_convmem.views.drafts import INTERRUPTED
from langchain_convmem.views.tokens import count_tokens
from langchain_convmem.views.tool_calls import cut_off_reason

_RUN_ID = "lc_run-"


_NO_TEXT = "a chat model is sent messages, and writes no prompt that could be shown"


class ReplyRequest(NamedTuple):
    """What stays the same in all model calls of a turn.

    Attributes:
        config: Settings of the conversation.
        options: Those of the turn.
        tools: What the model may call.
        run: Callbacks, tags and metadata for the model's runs.
        streaming: Whether somebody reads the reply as it comes.
        stopped: Gets the error of a turn that is to end early.
    """

    config: ConversationConfig
    options: SendOptions
    tools: ToolSet
    run: RunnableConfig
    streaming: bool
    stopped: Future[None] | None = None


class ModelReply(NamedTuple):
    """A reply, whole.

    Attributes:
        message: The reply.
        rest: What is part of it and was not shown yet, without content; None if nothing.
        is_cut: Whether the model had no room to end it.
    """

    message: AIMessage
    rest: AIMessageChunk | None
    is_cut: bool


class Attempt(Protocol):
    """The model's part of one turn: nothing of it stands before `commit`."""

    @property
    def stats(self) -> tuple[RenderStats, ...]:
        """How the text of each call came about; empty for models that take messages."""
        ...

    def reply(self, context: Sequence[BaseMessage]) -> Flow[ModelReply]:
        """Let the model reply to all messages behind the preface; they grow from call to call."""
        ...

    def remember(self, said: BaseMessage, shown: BaseMessage) -> None:
        """Note that a message was shown with more than it says.

        A session that has read it so is not asked to read it otherwise in later turns.
        """
        ...

    def partial(self) -> AIMessage | None:
        """Return what the model had said when it was interrupted; None if nothing."""
        ...

    def drop_reply(self) -> None:
        """Take the last reply back, whole or not: the history will not hold it as it came."""
        ...

    def commit(self) -> None:
        """Let what was done stand."""
        ...

    def rollback(self) -> None:
        """Let everything be as before the turn."""
        ...


class Backend(Protocol):
    """A model as one conversation uses it. One turn at a time."""

    def attempt(self, request: ReplyRequest) -> Attempt:
        """Begin a turn."""
        ...

    def prefill_steps(self, request: ReplyRequest) -> Steps[None]:
        """Let the model read the preface now, if it can."""
        ...

    def read_ahead_steps(
        self, request: ReplyRequest, context: Sequence[BaseMessage]
    ) -> Steps[None]:
        """Let the model read messages now, if it can; the last one is still being said."""
        ...

    def rendered(
        self, request: ReplyRequest, before: Sequence[BaseMessage], asked: Sequence[BaseMessage]
    ) -> str:
        """Return the text that the model would be sent for these messages; changes nothing."""
        ...

    def rendered_preface(self, request: ReplyRequest) -> str:
        """Return the text that the model reads before the first message."""
        ...

    def score_steps(
        self, request: ReplyRequest, context: Sequence[BaseMessage], texts: Sequence[str]
    ) -> Steps[list[float]]:
        """Return the logarithms of the probabilities of texts as the next reply."""
        ...

    def token_count(self, context: Sequence[BaseMessage]) -> int:
        """Return how many tokens the model holds, or would be sent."""
        ...

    def branch(self) -> Backend:
        """Return one for a conversation that goes on from here by itself."""
        ...

    def close(self) -> None:
        """Release what it holds. Idempotent."""
        ...


@dataclass(slots=True)
class Replying:
    """A reply as it comes: what of it is shown, and what it adds up to."""

    name: str | None = None
    _chunks: list[AIMessageChunk] = field(default_factory=list)
    _rest: AIMessageChunk | None = None
    _value: Any = None

    def add(self, chunk: Any) -> Flow[None]:
        """Take a chunk, and show it if there is something to see in it.

        Raises:
            ConfigError: If it is a message, and none of a model.
        """
        if not isinstance(chunk, str | BaseMessage):
            # Parsers write an object anew as it grows: it is shown when it is whole.
            self._value = chunk if self._value is None else add_up(self._value, chunk)
            return
        chunk = _as_chunk(_as_message(chunk))
        if self.name is None:
            self.name = chunk.id or _new_name()
        chunk = chunk.model_copy(update={"id": self.name, "chunk_position": None})
        self._chunks.append(chunk)
        if chunk.content or chunk.tool_call_chunks or chunk.additional_kwargs:
            yield copied(chunk)
        else:
            self._rest = chunk if self._rest is None else self._rest + chunk

    def add_value(self) -> Flow[None]:
        """Show the object that came, if one did, as the message that stands for it."""
        if self._value is not None:
            yield from self.add(_as_message(self._value))

    def total(self, *more: AIMessageChunk) -> AIMessageChunk | None:
        """Return all that came, and what comes besides, as one chunk; None if nothing came."""
        return add_ai_message_chunks(*self._chunks, *more) if self._chunks else None

    def whole(self) -> ModelReply:
        """Return the reply.

        Raises:
            ConfigError: If the model said nothing at all, not even that it has nothing to say.
        """
        total = self.total(AIMessageChunk(content="", id=self.name, chunk_position="last"))
        if total is None:
            raise ConfigError("the model's stream brought nothing; is it a chat model?")
        message = _as_message(message_chunk_to_message(total))
        return ModelReply(message, self._rest, _is_cut(message))


_PARSED = "parsed"


"""Where a message holds the object that it stands for, as with LangChain's own classes."""


def _as_message(answer: Any) -> AIMessage:
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
        return AIMessage(to_json(answer), additional_kwargs={_PARSED: answer})
    value = answer.get(_PARSED)
    if value is None:
        return raw
    return AIMessage(
        to_json(value),
        id=raw.id,
        additional_kwargs={_PARSED: value},
        response_metadata=raw.response_metadata,
        usage_metadata=raw.usage_metadata,
    )


def _is_cut(message: AIMessage) -> bool:
    return cut_off_reason(message.response_metadata) is not None


def _as_chunk(message: AIMessage) -> AIMessageChunk:
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


def _new_name() -> str:
    return f"{_RUN_ID}-{new_ulid()}"


def interrupted(total: AIMessageChunk | None) -> AIMessage | None:
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


class ChatModelBackend:
    """A chat model: it is sent the preface and the whole view in each turn, and keeps nothing."""

    def __init__(self, model: BaseChatModel | Runnable[Any, Any]) -> None:
        """Use a chat model, or one with bound arguments."""
        self._model = model

    def __repr__(self) -> str:
        return type(self._model).__name__

    def attempt(self, request: ReplyRequest) -> ChatModelAttempt:
        """Begin a turn."""
        return ChatModelAttempt(self._model, request)

    def prefill_steps(self, request: ReplyRequest) -> Steps[None]:
        """Do nothing: a chat model keeps nothing."""
        del request
        yield from ()

    def read_ahead_steps(
        self, request: ReplyRequest, context: Sequence[BaseMessage]
    ) -> Steps[None]:
        """Do nothing: a chat model reads whole messages."""
        del request, context
        yield from ()

    def rendered(
        self, request: ReplyRequest, before: Sequence[BaseMessage], asked: Sequence[BaseMessage]
    ) -> str:
        """Refuse: what a chat model is sent is no text."""
        del request, before, asked
        raise UnsupportedError(_NO_TEXT)

    def rendered_preface(self, request: ReplyRequest) -> str:
        """Refuse: what a chat model is sent is no text."""
        del request
        raise UnsupportedError(_NO_TEXT)

    def score_steps(
        self, request: ReplyRequest, context: Sequence[BaseMessage], texts: Sequence[str]
    ) -> Steps[list[float]]:
        """Refuse: chat models tell no likelihoods."""
        del request, context, texts
        yield from ()
        raise UnsupportedError("a chat model tells no likelihoods; use a text engine that does")

    def token_count(self, context: Sequence[BaseMessage]) -> int:
        """Return the tokens of what the model would be sent."""
        return count_tokens(context)

    def branch(self) -> ChatModelBackend:
        """Return itself: there is nothing to copy."""
        return self

    def close(self) -> None:
        """Leave the model to its owner."""


class ChatModelAttempt:
    """One turn of a chat model."""

    stats: tuple[RenderStats, ...] = ()

    def __init__(self, model: Runnable[Any, Any], request: ReplyRequest) -> None:
        """Bind the turn's tools and arguments to the model.

        Raises:
            ConfigError: If the turn has extra context, and nobody says what the model makes of it.
        """
        self._request = request
        self._kwargs = _kwargs(request)
        self._model = _with_tools(model, request.tools)
        self._replying = Replying()

    def reply(self, context: Sequence[BaseMessage]) -> Flow[ModelReply]:
        """Send everything; see `Attempt`."""
        # Copies: a model, or a callback of its run, may change what it is given.
        messages = list(map(copied, [*self._request.config.preface.messages, *context]))
        run, kwargs = self._request.run, self._kwargs
        self._replying = replying = Replying()
        if not self._request.streaming:
            answer = yield step(self._model, "invoke", messages, run, **kwargs)
            # A copy: some models give the same object again and again.
            is_chunk = isinstance(answer, BaseMessageChunk)
            message = copied(_as_message(message_chunk_to_message(answer) if is_chunk else answer))
            message.id = message.id or _new_name()
            return ModelReply(message, None, _is_cut(message))
        stream = Pulled(
            lambda: self._model.stream(messages, run, **kwargs),
            lambda: self._model.astream(messages, run, **kwargs),
        )
        yield from stream.chunks(replying.add)
        yield from replying.add_value()
        return replying.whole()

    def remember(self, said: BaseMessage, shown: BaseMessage) -> None:
        """Do nothing: each turn is sent anew."""

    def partial(self) -> AIMessage | None:
        """Return what had come; see `Attempt`."""
        return interrupted(self._replying.total())

    def drop_reply(self) -> None:
        """Do nothing: the model keeps nothing."""

    def commit(self) -> None:
        """Do nothing: the model keeps nothing."""

    def rollback(self) -> None:
        """Do nothing: the model keeps nothing."""


def _kwargs(request: ReplyRequest) -> dict[str, Any]:
    config, options = request.config, request.options
    context = options.context(config)
    meant: Mapping[str, Any] = {}
    if context:
        if config.context_kwargs is None:
            raise ConfigError(
                f"a chat model knows no extra context, got {sorted(context)}; say what it means "
                "to this one by context_kwargs=lambda context: {...}, as arguments of its calls"
            )
        meant = config.context_kwargs(context)
    most = options.max_tokens(config)
    limit = {} if most is None else {"max_tokens": most}
    return {**limit, **meant, **options.kwargs(config)}


def _with_tools(model: Runnable[Any, Any], tools: ToolSet) -> Runnable[Any, Any]:
    if not tools.bindable:
        return model
    bind = getattr(model, "bind_tools", None)
    if bind is None:
        raise ConfigError(f"{type(model).__name__} takes no tools: it has no bind_tools")
    bound: Runnable[Any, Any] = bind(list(tools.bindable))
    return bound
