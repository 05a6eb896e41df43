"""Settings of a conversation and of one send: what stands before it, and how its turns go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self

from langchain_core.messages import BaseMessage, SystemMessage, merge_message_runs
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveInt,
    ValidationError,
    field_validator,
)

from langchain_convmem.causes import describe_value, suggest_name
from langchain_convmem.conversation.inputs import MediaLimits, coerce_messages
from langchain_convmem.errors import ConfigError
from langchain_convmem.text import ChatTemplate
from langchain_convmem.text.reply_formats import Channel, ReplyFormat


class _Settings(BaseModel):
    """Settings of which a wrong one is refused by name."""

    model_config = ConfigDict(
        frozen=True, arbitrary_types_allowed=True, extra="forbid", hide_input_in_errors=True
    )

    def __init__(self, **given: Any) -> None:
        try:
            super().__init__(**given)
        except ValidationError as error:
            found, known = error.errors(include_url=False)[0], type(self).model_fields
            name = str(found["loc"][0])
            problem = f"{found['msg']}, got {describe_value(found['input'])}"
            problem += "; system_prompt= takes text" if name == "preface" else ""
            if name not in known:
                near = "; system_prompt= says it" if "system" in name else suggest_name(name, known)
                near = f"; preface=Preface({name}=...)" if name in Preface.model_fields else near
                problem = f"there is no such setting; there are {', '.join(known)}{near}"
            raise ConfigError(f"{name!r} in {type(self).__name__}: {problem}") from None


class Preface(_Settings):
    """What the model gets before the first message.

    Attributes:
        messages: Instructions, examples or an earlier conversation, in any form that `send_message`
            accepts.
        tools: Tools for the model: functions, `BaseTool`, pydantic classes or schemas.
        extra_context: Other variables of the chat template, such as `enable_thinking`.
    """

    messages: tuple[BaseMessage, ...] = ()
    tools: tuple[Any, ...] = ()
    extra_context: Mapping[str, Any] = Field(default_factory=dict)

    @field_validator("messages", mode="before")
    @classmethod
    def _read_messages(cls, value: Any) -> tuple[BaseMessage, ...]:
        return tuple(coerce_messages(value))


class ConversationConfig(_Settings):
    """Settings of a conversation; they cannot be changed afterwards.

    Settings that do not apply to the model are refused. With a chat model, these are `template`,
    `reply_format`, `channels`, `stop`, `prefill_preface` and `thinking_tokens`.

    Attributes:
        preface: Instructions, examples and tools before the first message.
        template: The chat template of a text engine, or the name of a built-in one; None uses the
            engine's own. Chat models have none.
        reply_format: How to parse a text engine's replies; None detects it from the template.
        channels: Sections of a reply other than its text, such as thoughts. They replace those of
            the format; None keeps these.
        stop: Texts that end a text engine's reply, in addition to those of template and format.
        prefill_preface: Let a text engine read the preface when the conversation is created.
        thinking: Sets `enable_thinking` in the extra context; None leaves it to the template.
        thinking_tokens: How many tokens a text engine may spend on thinking. At the limit, its
            thoughts are closed and it continues with the reply. This needs a session that reports
            `finish_reason`. None means no limit.
        auto_tools: Call tools until the model replies without calls. If False, a reply with calls
            is returned, and the caller sends the results.
        max_tool_rounds: Maximum rounds of tool calls in one turn. Telling the model that its call
            cannot be read counts as a round.
        tool_handler: Asked before each call. False or a reason refuses the call; a changed call
            replaces it.
        busy_timeout_s: How long to wait for earlier turns, in seconds. None waits forever, 0 not at
            all.
        on_cancel: `"discard"` drops a cancelled turn; `"keep"` keeps its text, marked
            `interrupted`, and answers interrupted calls as cancelled.
        max_output_tokens: Maximum tokens of a reply.
        media_limits: How large media may be, and the folder that must contain any files named in
            messages. Set a folder if untrusted users send messages.
        model_kwargs: Arguments for every model call, such as `temperature`.
    """

    preface: Preface = Field(default_factory=Preface)
    template: ChatTemplate | str | None = None
    reply_format: ReplyFormat | str | None = None
    channels: tuple[Channel, ...] | None = None
    stop: tuple[str, ...] = ()
    prefill_preface: bool = False
    thinking: bool | None = None
    thinking_tokens: PositiveInt | None = None
    auto_tools: bool = True
    max_tool_rounds: PositiveInt = 25
    tool_handler: Callable[..., Any] | None = None
    busy_timeout_s: NonNegativeFloat | None = 300.0
    on_cancel: Literal["discard", "keep"] = "discard"
    max_output_tokens: PositiveInt | None = None
    media_limits: MediaLimits = Field(default_factory=MediaLimits)
    model_kwargs: Mapping[str, Any] = Field(default_factory=dict)

    def change(self, settings: Mapping[str, Any]) -> Self:
        """Return the config with other settings; `system_prompt` begins the preface.

        Raises:
            ConfigError: If a setting is unknown, or of the wrong kind.
        """
        given = {name: getattr(self, name) for name in self.model_fields_set} | dict(settings)
        system = given.pop("system_prompt", None)
        if not isinstance(system, str | None):
            raise ConfigError(f"system_prompt must be text, got {describe_value(system)}")
        if system is not None:
            preface = type(self)(preface=given.get("preface", Preface())).preface
            first = [SystemMessage(system), *preface.messages[:1]]  # few models take two of these
            messages = [*merge_message_runs(first, chunk_separator="\n\n"), *preface.messages[1:]]
            given["preface"] = Preface(**{**dict(preface), "messages": messages})
        return type(self)(**given) if settings else self


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOptions:
    """Settings for one message.

    Attributes:
        extra_context: Comes before the preface's extra context, in every model call of this turn.
        thinking: See `ConversationConfig`.
        max_output_tokens: See `ConversationConfig`.
        timeout: Seconds until the turn is cancelled; None means no limit.
        pending: Whether the message continues with the next send. The parts are joined without a
            space, and the model is called when the last part is sent. A message with another role
            ends it.
        model_kwargs: Other arguments for the model.
    """

    extra_context: Mapping[str, Any] = field(default_factory=dict)
    thinking: bool | None = None
    max_output_tokens: int | None = None
    timeout: float | None = None
    pending: bool = False
    model_kwargs: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, given: Mapping[str, Any], config: ConversationConfig) -> SendOptions:
        """Return the options among keyword arguments, with what the config says besides.

        What is no option goes to the model.

        Raises:
            ConfigError: If a limit is not positive.
        """
        own = {one.name for one in fields(cls)} - {"model_kwargs"}
        named = {name: given[name] for name in own & set(given) if given[name] is not None}
        for name, kind in (("max_output_tokens", int), ("timeout", int | float)):
            if not isinstance(value := named.get(name, 1), kind) or not 0 < value < 10**9:
                raise ConfigError(f"{name} must be positive and < 1e9, got {describe_value(value)}")
        thinking = named.get("thinking", config.thinking)
        switch = {} if thinking is None else {"enable_thinking": thinking}
        extra = {**config.preface.extra_context, **switch, **named.get("extra_context", {})}
        rest = {name: value for name, value in given.items() if name not in own}
        named.setdefault("max_output_tokens", config.max_output_tokens)
        named |= {"extra_context": extra, "model_kwargs": {**config.model_kwargs, **rest}}
        return cls(**named)
