"""What stands before a conversation, and is no part of its history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import BaseMessage
from pydantic import BaseModel, ConfigDict, Field, field_validator

from langchain_convmem.conversation.inputs import as_messages

__all__ = ["Preface"]


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
