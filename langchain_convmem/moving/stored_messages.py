"""Messages as LangChain's own histories store them: `{"type": "human", "data": {...}}`."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import BaseMessage, messages_from_dict

from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.moving.node import Node
from langchain_convmem.moving.threads import FoundMessage
from langchain_convmem.views.codec import line_time_ms

__all__ = ["found_message", "stored_message"]

_FORM = 'a stored message {"type": "human", "data": {"content": ...}}'


def stored_message(node: Node) -> FoundMessage:
    """Return the message that LangChain stored.

    Raises:
        ImportFormatError: If it is none.
    """
    kind, data = node.member("type"), node.member("data")
    if not kind.is_a(str) or not data.is_a(dict) or "content" not in data.value:
        node.fail(_FORM)
    try:
        # Chooses from a fixed table of types; nothing is imported by name.
        [message] = messages_from_dict([{"type": kind.value, "data": dict(data.value)}])
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        node.fail(f"{_FORM}: {str(error).splitlines()[0]}")
    return found_message(message, node.location)


def found_message(message: BaseMessage, location: str) -> FoundMessage:
    """Return a message of another store: a time that nobody can read keeps its value elsewhere."""
    try:
        line_time_ms(message)
    except InvalidMessageError:
        extra: dict[str, Any] = message.additional_kwargs
        extra["original_timestamp"] = extra.pop("timestamp")
    return FoundMessage(message, location)
