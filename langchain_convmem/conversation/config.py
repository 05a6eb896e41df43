"""How a conversation goes on: settings that hold for all its turns, and options of a single one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from langchain_core.messages import BaseMessage
from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveInt, field_validator

from langchain_convmem.conversation.inputs import as_messages
from langchain_convmem.conversation.media import MediaLimits
from langchain_convmem.errors import ConfigError
from langchain_convmem.text import ChatTemplate
from langchain_convmem.text.reply_formats import Channel, ReplyFormat

_THINKING = "enable_thinking"


# -- What stands before a conversation, and is no part of its history -----------------------------


class Preface(BaseModel):
    """What the model knows before the first message.

    Attributes:
        messages: Instructions, examples, an earlier conversation; whatever `send_message` takes.
        tools: What the model may call: functions, `BaseTool`, pydantic classes or schemas.
        extra_context: What the chat template reads besides, such as `enable_thinking`.
    """

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True, extra="forbid")

    messages: tuple[BaseMessage, ...] = ()
    tools: tuple[Any, ...] = ()
    extra_context: Mapping[str, Any] = Field(default_factory=dict)

    @field_validator("messages", mode="before")
    @classmethod
    def _read(cls, value: Any) -> tuple[BaseMessage, ...]:
        return tuple(as_messages(value))

    @field_validator("tools", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> tuple[Any, ...]:
        return tuple(value)


# -- How a conversation goes on -------------------------------------------------------------------


class ConversationConfig(BaseModel):
    """Settings of a conversation; they do not change while it lives.

    Attributes:
        preface: What stands before the first message.
        template: The chat template of a text engine, or the name of a built-in one; None takes
            the engine's own. Chat models have none.
        reply_format: How the replies of a text engine are read; None goes by the template.
        channels: Sections of a reply besides its text, such as thoughts; they replace those of
            the format. None keeps these.
        stop: Texts that end a reply of a text engine, besides those of template and format.
        prefill_preface: Let a text engine read the preface when the conversation is created.
        keep_reasoning: `"all"`: the template decides what becomes of earlier thoughts. `"loop"`:
            it never sees those of turns before the present one.
        thinking: Sets `enable_thinking` in the extra context; None leaves it to the template.
        context_kwargs: What extra context means to a chat model, as arguments of its calls;
            without it a chat model takes none.
        auto_tools: Call tools and go on until the model replies without calls. Otherwise a reply
            with calls is returned, and their results are sent by the caller.
        max_tool_rounds: How often tools are called within one turn.
        on_tool_limit: `"undo"` takes the turn back then; `"keep"` keeps what was said up to the
            last results. The error is the same.
        tool_handler: Asked before each call: False or a reason refuses it; a changed call is made
            instead.
        on_tool_result: May rewrite a result before the model sees it.
        parallel_tools: Run the calls of one reply at the same time.
        on_broken_call: `"raise"` a `ReplyFormatError` if a call in a reply cannot be read, or tell
            the model (`"invalid"`), which counts as a round.
        answer_missing: What becomes of calls that were left without result when the user speaks:
            `"error"` refuses the message, `"cancelled"` answers them so.
        on_divergence: What a text engine's session does when the template writes earlier turns
            otherwise than the session has them: `"rewind"` and read again, or `"error"`.
        on_busy: `"wait"` for earlier turns, in order, or `"error"`.
        busy_timeout_s: How long to wait at most, in seconds; None waits for ever.
        on_cancel: `"discard"` a turn that is cancelled, or `"keep"` what was said, marked
            `interrupted`; calls that were interrupted are answered as cancelled.
        on_max_tokens: `"return"` a reply that was cut short, or `"raise"` and take it back.
        max_output_tokens: The most tokens of a reply.
        media_limits: How large media may be, and where the files may lie that messages name. Set a
            folder where messages come from strangers.
        model_kwargs: Arguments of every call of the model, such as `temperature`.
    """

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True, extra="forbid")

    preface: Preface = Field(default_factory=Preface)
    template: ChatTemplate | str | None = None
    reply_format: ReplyFormat | str | None = None
    channels: tuple[Channel, ...] | None = None
    stop: tuple[str, ...] = ()
    prefill_preface: bool = False
    keep_reasoning: Literal["all", "loop"] = "all"
    thinking: bool | None = None
    context_kwargs: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    auto_tools: bool = True
    max_tool_rounds: PositiveInt = 25
    on_tool_limit: Literal["undo", "keep"] = "undo"
    tool_handler: Callable[..., Any] | None = None
    on_tool_result: Callable[..., Any] | None = None
    parallel_tools: bool = True
    on_broken_call: Literal["raise", "invalid"] = "invalid"
    answer_missing: Literal["error", "cancelled"] = "error"
    on_divergence: Literal["rewind", "error"] = "rewind"
    on_busy: Literal["wait", "error"] = "wait"
    busy_timeout_s: NonNegativeFloat | None = 300.0
    on_cancel: Literal["discard", "keep"] = "discard"
    on_max_tokens: Literal["return", "raise"] = "return"
    max_output_tokens: PositiveInt | None = None
    media_limits: MediaLimits = Field(default_factory=MediaLimits)
    model_kwargs: Mapping[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOptions:
    """What one send may set for itself.

    Attributes:
        extra_context: Goes before that of the preface, in every call of the model of this turn.
        thinking: See `ConversationConfig`.
        max_output_tokens: See `ConversationConfig`.
        timeout: Seconds until the turn is cancelled; None is no limit.
        pending: Whether the message is to go on with the next send. Its parts become one message,
            put together without a space between them; the model is asked when the last part is
            sent. A message of another role ends it.
        group: A name by which `Engine.cancel_group` finds the turn.
        model_kwargs: What else is given to the model.
    """

    extra_context: Mapping[str, Any] = field(default_factory=dict)
    thinking: bool | None = None
    max_output_tokens: int | None = None
    timeout: float | None = None
    pending: bool = False
    group: str | None = None
    model_kwargs: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> SendOptions:
        """Return the options among keyword arguments; what is none goes to the model.

        Raises:
            ConfigError: If a limit is not positive.
        """
        own = {one.name for one in fields(cls)} - {"model_kwargs"}
        named = {name: given[name] for name in own & set(given) if given[name] is not None}
        for name in ("max_output_tokens", "timeout"):
            if name in named and not named[name] > 0:
                raise ConfigError(f"{name} must be positive, got {named[name]!r}")
        rest = {name: value for name, value in given.items() if name not in own}
        return cls(**named, model_kwargs=rest)

    def context(self, config: ConversationConfig) -> dict[str, Any]:
        """Return the extra context of the turn."""
        thinking = config.thinking if self.thinking is None else self.thinking
        switch = {} if thinking is None else {_THINKING: thinking}
        return {**config.preface.extra_context, **switch, **self.extra_context}

    def kwargs(self, config: ConversationConfig) -> dict[str, Any]:
        """Return the arguments of the turn's model calls."""
        return {**config.model_kwargs, **self.model_kwargs}

    def max_tokens(self, config: ConversationConfig) -> int | None:
        """Return the most tokens of a reply."""
        return self.max_output_tokens or config.max_output_tokens
