"""What may be sent, in any form, as LangChain messages of ours.

What comes out shares nothing with what was given; media are read and checked, so that a turn can
be repeated from its messages alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    message_chunk_to_message,
)
from langchain_core.messages.base import BaseMessageChunk
from langchain_core.prompt_values import PromptValue

from langchain_convmem.conversation.copies import copied
from langchain_convmem.conversation.media import MediaLimits, has_media, settle_media
from langchain_convmem.conversation.message_maps import KNOWN_ROLES, describe, message_of_map
from langchain_convmem.conversation.worker_threads import in_thread
from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.steps import Step, Steps, run
from langchain_convmem.views.codec import decode_message
from langchain_convmem.views.coercion import change_class, unpack_messages

__all__ = ["ConversationInput", "as_messages", "prepared_steps"]

OneMessage: TypeAlias = str | BaseMessage | Mapping[str, Any] | tuple[str, Any]
ConversationInput: TypeAlias = OneMessage | PromptValue | Sequence[OneMessage]
"""Text is the user's; a pair is role and content; a map holds `role` and `content`; or a list."""

_CLASSES: dict[str, type[BaseMessage]] = {
    "user": HumanMessage,
    "assistant": AIMessage,
    "system": SystemMessage,
}
_FORMS = (
    "pass text, a LangChain message, a map with 'role' and 'content', a pair of role and content, "
    "or a list of these"
)


def as_messages(
    value: ConversationInput, *, limits: MediaLimits | None = None
) -> list[BaseMessage]:
    """Return what was given as LangChain messages; reads the files that parts name.

    Args:
        value: Text of the user, a LangChain message, a map, a pair, a prompt's value, or a list of
            messages; an empty list is allowed.
        limits: How large media may be and where they may lie; the defaults if None.

    Returns:
        Copies, in order. Keys of a map that have no place of their own in a message stand in
        `additional_kwargs` for chat templates.

    Raises:
        InvalidMessageError: If a message lacks its role or content, or holds parts or media that
            nobody can read.
        TypeError: If it is nothing that could be a message.
    """
    return run(prepared_steps(value, limits=limits))


def prepared_steps(
    value: ConversationInput, *, limits: MediaLimits | None = None
) -> Steps[list[BaseMessage]]:
    """Do what `as_messages` does; media are read and checked in a step, off an event loop."""
    messages = _messages(value)
    if any(map(has_media, messages)):
        chosen = limits or MediaLimits()
        yield Step(
            lambda: settle_media(messages, chosen),
            lambda: in_thread(lambda: settle_media(messages, chosen)),
        )
    return messages


def _messages(value: Any) -> list[BaseMessage]:
    items = unpack_messages(value)
    if items is None:
        return [_message(value, "the message")]
    return [_message(item, f"message {number}") for number, item in enumerate(items)]


def _is_pair(value: tuple[Any, ...]) -> bool:
    return len(value) == len(("role", "content")) and not isinstance(value[0], BaseMessage | dict)


def _message(value: Any, what: str) -> BaseMessage:
    if isinstance(value, str):
        return HumanMessage(str(value))
    if isinstance(value, BaseMessage):
        return _copied(value, what)
    if isinstance(value, tuple) and _is_pair(value):
        return message_of_map({"role": value[0], "content": value[1]}, what)
    if isinstance(value, Mapping):
        return message_of_map(value, what) if "role" in value else _of_stored(value, what)
    raise TypeError(f"{what} is {describe(value)}; {_FORMS}")


def _copied(message: BaseMessage, what: str) -> BaseMessage:
    if isinstance(message, RemoveMessage):
        raise InvalidMessageError(f"{what} is a RemoveMessage; take turns back with undo or rewind")
    try:
        twin = copied(message)
    except (TypeError, RecursionError) as error:
        raise InvalidMessageError(f"{what} holds what cannot be copied: {error}") from error
    whole = message_chunk_to_message(twin) if isinstance(twin, BaseMessageChunk) else twin
    return _convert_chat_message(whole) if isinstance(whole, ChatMessage) else whole


def _convert_chat_message(message: ChatMessage) -> BaseMessage:
    """Return a message of a role that has a class of its own as one of that, such as `model`."""
    kind = _CLASSES.get(KNOWN_ROLES.get(message.role.lower(), ""))
    return message if kind is None else change_class(message, kind)


def _of_stored(value: Mapping[str, Any], what: str) -> BaseMessage:
    """Return the message that LangChain wrote as a map: with its type, flat or with `data`."""
    fields = value.get("data", value)
    kind = value.get("type")
    if not isinstance(fields, Mapping) or not isinstance(kind, str) or "content" not in fields:
        is_part = isinstance(kind, str)
        hint = "wrap parts as {'role': 'user', 'content': [...]}" if is_part else _FORMS
        raise InvalidMessageError(f"{what} has no role: it is {describe(value)}; {hint}")
    try:
        message = decode_message({**fields, "type": kind})
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidMessageError(
            f"{what} is no stored message of type {kind!r}: {error}"
        ) from error
    return _copied(message, what)
