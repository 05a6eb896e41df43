"""Messages as they are handed out: copies the caller may change, in types every provider knows."""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import NoneType
from typing import Any, TypeVar

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
)
from langchain_core.messages.base import BaseMessageChunk

from langchain_convmem.records import Entry, Role

__all__ = [
    "block_type",
    "clean_text",
    "copied",
    "handed_out",
    "is_blank_message",
    "is_plain_text",
    "message_key",
    "plain_value",
]

M = TypeVar("M", bound=BaseMessage)

_PLAIN: dict[Role, type[BaseMessage]] = {
    "user": HumanMessage,
    "assistant": AIMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
}
_USER_ROLES = frozenset({"user", "human"})
_MESSAGES = frozenset(_PLAIN.values())
_UNSHAREABLE = frozenset({NoneType, str, int, float, bool, bytes})
"""Types of which nobody can change a value."""


def handed_out(entry: Entry) -> BaseMessage:
    """Return a whole message of the entry's role, with an id.

    Nothing in it is shared with the entry.
    """
    message = _copied(entry)
    plain = _PLAIN.get(entry.role)
    if plain is not None and not isinstance(message, plain):
        more = {"tool_call_id": ""} if plain is ToolMessage else {}
        message = plain(
            message.content,
            name=message.name or _role_as_name(message, entry.role),
            additional_kwargs=message.additional_kwargs,
            response_metadata=message.response_metadata,
            **more,
        )
    key = message_key(entry)
    if message.id != key:
        message.id = key
    return message


def message_key(entry: Entry) -> str:
    """Return what names the entry's message: its own id, else the entry's; an empty id is none."""
    return entry.message_id or entry.id


def is_plain_text(message: BaseMessage) -> bool:
    """Return whether a message is text that every provider takes, and nothing beside it."""
    content = message.content
    return (
        isinstance(content, str)
        and not message.additional_kwargs
        and message.name is None
        and "output_version" not in message.response_metadata
        and (content.isascii() or clean_text(content) == content)
        and not content.isspace()
    )


def is_blank_message(message: BaseMessage) -> bool:
    """Return whether a message that was handed out has neither content nor tool calls."""
    return not message.content and not getattr(message, "tool_calls", None)


def _copied(entry: Entry) -> BaseMessage:
    if entry.message is None:
        return HumanMessage("\n".join(entry.contents))
    message = copied(entry.message)
    return message_chunk_to_message(message) if isinstance(message, BaseMessageChunk) else message


def copied(message: M, shared: Collection[str] = ()) -> M:
    """Return a message that shares nothing with another but the fields named in `shared`."""
    twin = message.model_copy() if type(message) not in _MESSAGES else _new_like(message)
    for fields in (twin.__dict__, twin.__pydantic_extra__ or {}):
        for name, value in fields.items():
            if type(value) not in _UNSHAREABLE and name not in shared:
                fields[name] = _apart(value)
    return twin


def _new_like(message: M) -> M:
    """Return what `model_copy` does of a message without private values, in a third of the time."""
    twin = object.__new__(type(message))
    extra = message.__pydantic_extra__
    _set_slot(twin, "__dict__", message.__dict__.copy())
    _set_slot(twin, "__pydantic_extra__", None if extra is None else extra.copy())
    _set_slot(twin, "__pydantic_fields_set__", message.__pydantic_fields_set__.copy())
    _set_slot(twin, "__pydantic_private__", None)
    return twin


_set_slot = object.__setattr__


def _apart(value: Any) -> Any:
    """Return a deep copy; lists, mappings and texts, which is nearly all, without `deepcopy`."""
    kind = type(value)
    if kind in _UNSHAREABLE:
        return value
    if kind is list:
        return [_apart(item) for item in value] if value else []
    if kind is dict:
        return {key: _apart(item) for key, item in value.items()} if value else {}
    if isinstance(value, str | int | float | bytes):
        return value
    return copy.deepcopy(value)


def _role_as_name(message: BaseMessage, role: Role) -> str | None:
    """Return a chat role that no model knows: it says who speaks."""
    said = message.role if role == "user" and isinstance(message, ChatMessage) else "user"
    return said if said.lower() not in _USER_ROLES else None


def block_type(block: object) -> str:
    """Return what a content block says it is; empty where it is plain text or says nothing."""
    # Nearly every block is a dict, and whether something is a mapping is slow to find out.
    if not isinstance(block, dict) and not isinstance(block, Mapping):
        return ""
    kind = block.get("type")
    return kind if isinstance(kind, str) else ""


def clean_text(text: str) -> str:
    """Return text that can be sent: half characters, which no encoding carries, are replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def plain_value(value: Any) -> Any:
    """Return `value` as JSON can carry it; what JSON has no form for becomes text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, Mapping):
        return {clean_text(str(key)): plain_value(item) for key, item in value.items()}
    if isinstance(value, AbstractSet):
        return sorted((plain_value(item) for item in value), key=repr)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return [plain_value(item) for item in value]
    return clean_text(str(value))
