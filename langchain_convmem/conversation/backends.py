"""What writes a conversation's replies: the seam between a turn and a model, and chat models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    message_chunk_to_message,
)
from langchain_core.runnables import Runnable, RunnableConfig

from langchain_convmem.chat_templates import RenderStats
from langchain_convmem.conversation.config import ConversationConfig, SendOptions
from langchain_convmem.conversation.flows import Flow, Pulled
from langchain_convmem.conversation.tools import ToolSet
from langchain_convmem.errors import ConfigError, UnsupportedError
from langchain_convmem.ids import new_ulid
from langchain_convmem.steps import Steps, step
from langchain_convmem.views.tokens import count_tokens

__all__ = ["Attempt", "Backend", "ChatModelBackend", "ModelReply", "ReplyRequest", "Replying"]

_CUT_OFF = frozenset({"length", "max_tokens", "MAX_TOKENS", "model_length", "incomplete"})
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
    """

    config: ConversationConfig
    options: SendOptions
    tools: ToolSet
    run: RunnableConfig
    streaming: bool


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
    total: AIMessageChunk | None = None
    _rest: AIMessageChunk | None = field(default=None, repr=False)

    def add(self, chunk: AIMessageChunk) -> Flow[None]:
        """Take a chunk, and show it if there is something to see in it."""
        if self.name is None:
            self.name = chunk.id or f"{_RUN_ID}-{new_ulid()}"
        chunk = chunk.model_copy(update={"id": self.name, "chunk_position": None})
        self.total = chunk if self.total is None else self.total + chunk
        if chunk.content or chunk.tool_call_chunks or chunk.additional_kwargs:
            yield chunk
        else:
            self._rest = chunk if self._rest is None else self._rest + chunk

    def whole(self) -> ModelReply:
        """Return the reply.

        Raises:
            ConfigError: If the model said nothing at all, not even that it has nothing to say.
        """
        if self.total is None:
            raise ConfigError("the model's stream brought nothing; is it a chat model?")
        last = AIMessageChunk(content="", id=self.name, chunk_position="last")
        message = message_chunk_to_message(self.total + last)
        if not isinstance(message, AIMessage):
            raise ConfigError(f"the model answered a {type(message).__name__}, not an AIMessage")
        return ModelReply(message, self._rest, is_cut_off(message.response_metadata))


def is_cut_off(metadata: Mapping[str, Any]) -> bool:
    """Return whether a provider says that a reply has no end of its own."""
    reasons = ("finish_reason", "stop_reason", "stopReason", "status")
    return any(metadata.get(name) in _CUT_OFF for name in reasons)


def interrupted(total: AIMessageChunk | None) -> AIMessage | None:
    """Return the text that had come, as a message that says it was cancelled."""
    if total is None or not total.text:
        return None
    metadata = {**total.response_metadata, "finish_reason": "cancelled"}
    return AIMessage(total.text, id=total.id, response_metadata=metadata)


class ChatModelBackend:
    """A chat model: it is sent the preface and the whole view in each turn, and keeps nothing."""

    def __init__(self, model: BaseChatModel | Runnable[Any, Any]) -> None:
        """Use a chat model, or one with bound arguments."""
        self._model = model

    def attempt(self, request: ReplyRequest) -> ChatModelAttempt:
        """Begin a turn."""
        return ChatModelAttempt(self._model, request)

    def prefill_steps(self, request: ReplyRequest) -> Steps[None]:
        """Do nothing: a chat model keeps nothing."""
        del request
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
        messages = [*self._request.config.preface.messages, *context]
        run, kwargs = self._request.run, self._kwargs
        self._replying = replying = Replying()
        if not self._request.streaming:
            message: AIMessage = yield step(self._model, "invoke", messages, run, **kwargs)
            return ModelReply(message, None, is_cut_off(message.response_metadata))
        stream = Pulled(
            lambda: self._model.stream(messages, run, **kwargs),
            lambda: self._model.astream(messages, run, **kwargs),
        )
        yield from stream.chunks(replying.add)
        return replying.whole()

    def remember(self, said: BaseMessage, shown: BaseMessage) -> None:
        """Do nothing: each turn is sent anew."""

    def partial(self) -> AIMessage | None:
        """Return what had come; see `Attempt`."""
        return interrupted(self._replying.total)

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
