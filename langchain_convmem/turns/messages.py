"""What a call says: the message border of every host of a turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.views.codec import role_of, text_pieces
from langchain_convmem.views.coercion import (
    MESSAGE_FORMS,
    change_class,
    read_messages,
    unpack_messages,
)

__all__ = ["Incoming", "check_question", "read_input"]


@dataclass(frozen=True)
class Incoming:
    """What a call passes, as messages.

    Attributes:
        messages: All of them in order: what is new, and what callers who send the whole chat, or
            its last messages, send along. None to go on with the turn as it stands.
        extra: What else a dict held, for the inner chain.
    """

    messages: Sequence[BaseMessage]
    extra: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def instructions(self) -> list[BaseMessage]:
        """System messages: they steer this call, and are not stored."""
        return [message for message in self.messages if role_of(message) == "system"]

    @cached_property
    def said(self) -> list[BaseMessage]:
        """All that is no instruction."""
        return [message for message in self.messages if role_of(message) != "system"]

    @cached_property
    def results(self) -> list[ToolMessage]:
        """Results of tools at the end, which an open turn goes on with."""
        said = self.said
        first = len(said)
        while first and isinstance(said[first - 1], ToolMessage):
            first -= 1
        return [message for message in said[first:] if isinstance(message, ToolMessage)]

    @cached_property
    def continues(self) -> bool:
        """Whether a turn goes on whose calls were answered, rather than a new one begins."""
        said = self.said
        return not said or isinstance(said[-1], ToolMessage)

    @cached_property
    def human(self) -> HumanMessage | None:
        """What the user says now; None where a turn goes on."""
        last = self.said[-1:]
        return last[0] if last and isinstance(last[0], HumanMessage) else None


def read_input(
    value: Any, *, input_key: str | None = None, history_key: str | None = None
) -> Incoming:
    """Return what a call says, in any of the forms that `read_messages` takes.

    Args:
        value: The input; `None`, or results of tools alone, go on with a turn whose calls are open.
            A dict may hold `{"messages": ...}`, or the user's words under `input_key`, earlier
            messages under `history_key`, and further keys for the inner chain.
        input_key: Key of what is said; None is `input`.
        history_key: Key of what was said before; None is `history`.

    Raises:
        InvalidMessageError: If it is nothing that can be answered: no message, one that the
            assistant said last, or a blank one of the user.
    """
    extra: Mapping[str, Any] = {}
    if isinstance(value, Mapping) and not _is_message(value):
        value, extra = _take_keys(value, input_key, history_key or "history")
    if value is None:
        return Incoming((), extra)
    messages = [_to_human(message) for message in _read(value)]
    said = [message for message in messages if role_of(message) != "system"]
    if not said:
        kind = type(value).__name__
        msg = f"the input is a {kind} in which nobody says anything; {MESSAGE_FORMS}"
        raise InvalidMessageError(msg)
    last = said[-1]
    if not isinstance(last, HumanMessage | ToolMessage):
        msg = (
            f"the input ends with an {type(last).__name__}; it must end with what the user says, "
            "or with results of tools. Put messages into the thread with memory.add_messages()"
        )
        raise InvalidMessageError(msg)
    check_question(last)
    return Incoming(messages, extra)


def check_question(message: BaseMessage) -> None:
    """Refuse a message of the user with which nothing is said.

    Raises:
        InvalidMessageError: If it has neither text nor media.
    """
    if isinstance(message, HumanMessage) and _is_blank(message):
        raise InvalidMessageError("the user's message is blank; there is nothing to answer")


def _is_message(value: Mapping[Any, Any]) -> bool:
    is_named = "role" in value or isinstance(value.get("type"), str)
    return is_named and ("content" in value or "data" in value or "tool_calls" in value)


def _take_keys(
    value: Mapping[Any, Any], input_key: str | None, history_key: str
) -> tuple[Any, Mapping[str, Any]]:
    """Return what a dict says, and its other keys."""
    key = input_key or next((name for name in ("input", "messages") if name in value), "input")
    if key not in value:
        keys = sorted(map(str, value))
        msg = (
            f"a dict input needs the key {key!r}; got {keys}. Name the key of what the user says "
            "with wrap(..., input_key=...)"
        )
        raise InvalidMessageError(msg)
    said, before = value[key], value.get(history_key)
    taken = {key}
    if said is not None and history_key != key and _is_list(before):
        taken.add(history_key)
        said = [*_list_items(before), *_list_items(said)]
    return said, {str(name): item for name, item in value.items() if name not in taken}


def _is_list(value: Any) -> bool:
    return value is not None and not isinstance(value, str) and unpack_messages(value) is not None


def _list_items(value: Any) -> list[Any]:
    items = unpack_messages(value)
    return [value] if items is None else items


def _read(value: Any) -> list[BaseMessage]:
    if isinstance(value, int | float | bytes | bytearray):
        msg = f"the input is of type {type(value).__name__}; {MESSAGE_FORMS}"
        raise InvalidMessageError(msg)
    return read_messages(value)


def _to_human(message: BaseMessage) -> BaseMessage:
    """Return a chat message of a user's role as what it is."""
    if role_of(message) != "user" or isinstance(message, HumanMessage):
        return message
    return change_class(message, HumanMessage)


def _is_blank(message: HumanMessage) -> bool:
    """Return whether a message has neither text nor media."""
    content = message.content
    if isinstance(content, str):
        return not content.strip()
    media = [b for b in content if not isinstance(b, str) and b.get("type") != "text"]
    return not media and not text_pieces(message)
