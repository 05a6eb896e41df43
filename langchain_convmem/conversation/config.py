"""Settings of a conversation: what stands before it, and how its turns go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from langchain_core.messages import BaseMessage
from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveInt, field_validator

from langchain_convmem.conversation.inputs import MediaLimits, coerce_messages
from langchain_convmem.text import ChatTemplate
from langchain_convmem.text.reply_formats import Channel, ReplyFormat


class Preface(BaseModel):
    """What the model knows before the first message.

    Attributes:
        messages: Instructions, examples, an earlier conversation; whatever `send_message` takes.
        tools: What the model may call: functions, `BaseTool`, pydantic classes or schemas.
        extra_context: What the chat template reads besides, such as `enable_thinking`.
    """

    model_config = ConfigDict(
        frozen=True, arbitrary_types_allowed=True, extra="forbid", hide_input_in_errors=True
    )

    messages: tuple[BaseMessage, ...] = ()
    tools: tuple[Any, ...] = ()
    extra_context: Mapping[str, Any] = Field(default_factory=dict)

    @field_validator("messages", mode="before")
    @classmethod
    def _read_messages(cls, value: Any) -> tuple[BaseMessage, ...]:
        return tuple(coerce_messages(value))

    @field_validator("tools", mode="before")
    @classmethod
    def _list_tools(cls, value: Any) -> tuple[Any, ...]:
        return tuple(value)


class ConversationConfig(BaseModel):
    """Settings of a conversation; they do not change while it lives.

    Settings that the model does not heed are refused: `template`, `reply_format`, `channels`,
    `stop` and `prefill_preface` by chat models, `context_kwargs` by text engines.

    Attributes:
        preface: What stands before the first message.
        template: The chat template of a text engine, or the name of a built-in one; None takes
            the engine's own. Chat models have none.
        reply_format: How the replies of a text engine are read; None goes by the template.
        channels: Sections of a reply besides its text, such as thoughts; they replace those of
            the format. None keeps these.
        stop: Texts that end a reply of a text engine, besides those of template and format.
        prefill_preface: Let a text engine read the preface when the conversation is created.
        thinking: Sets `enable_thinking` in the extra context; None leaves it to the template.
        context_kwargs: What extra context means to a chat model, as arguments of its calls;
            without it a chat model takes none.
        auto_tools: Call tools and go on until the model replies without calls. Otherwise a reply
            with calls is returned, and their results are sent by the caller.
        max_tool_rounds: How often tools are called within one turn; to tell the model that its
            call cannot be read counts as well.
        on_tool_limit: `"rollback"` takes the turn back then; `"keep"` keeps what was said up to
            the last results. The error is the same.
        tool_handler: Asked before each call: False or a reason refuses it; a changed call is made
            instead.
        on_pending_tool_calls: What becomes of calls without result when the user speaks: `"error"`
            refuses the message, `"cancel"` answers them as cancelled.
        on_busy: `"wait"` for earlier turns, in order, or `"error"`.
        busy_timeout_s: How long to wait at most, in seconds; None waits for ever.
        on_cancel: `"discard"` a turn that is cancelled, or `"keep"` what was said, marked
            `interrupted`; calls that were interrupted are answered as cancelled.
        max_output_tokens: The most tokens of a reply.
        media_limits: How large media may be, and where the files may lie that messages name. Set a
            folder where messages come from strangers.
        model_kwargs: Arguments of every call of the model, such as `temperature`.
    """

    model_config = ConfigDict(
        frozen=True, arbitrary_types_allowed=True, extra="forbid", hide_input_in_errors=True
    )

    preface: Preface = Field(default_factory=Preface)
    template: ChatTemplate | str | None = None
    reply_format: ReplyFormat | str | None = None
    channels: tuple[Channel, ...] | None = None
    stop: tuple[str, ...] = ()
    prefill_preface: bool = False
    thinking: bool | None = None
    context_kwargs: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    auto_tools: bool = True
    max_tool_rounds: PositiveInt = 25
    on_tool_limit: Literal["rollback", "keep"] = "rollback"
    tool_handler: Callable[..., Any] | None = None
    on_pending_tool_calls: Literal["error", "cancel"] = "error"
    on_busy: Literal["wait", "error"] = "wait"
    busy_timeout_s: NonNegativeFloat | None = 300.0
    on_cancel: Literal["discard", "keep"] = "discard"
    max_output_tokens: PositiveInt | None = None
    media_limits: MediaLimits = Field(default_factory=MediaLimits)
    model_kwargs: Mapping[str, Any] = Field(default_factory=dict)
