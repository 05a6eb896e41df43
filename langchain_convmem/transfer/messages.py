"""Messages of LangChain, made of what files hold: contents, tool calls. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from langchain_core.messages import (
    BaseMessage,
    InvalidToolCall,
    ToolCall,
    messages_from_dict,
)

from langchain_convmem.causes import ErrorTrap
from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.transfer.source import Node, format_time
from langchain_convmem.views.codec import get_line_time_ms


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """A message of a file, under the id that the file gives it, if any.

    Attributes:
        message: Verbatim.
        location: Where it stands in the file.
    """

    message: BaseMessage
    location: str


def build_stamp(time: datetime | None, session: str | None = None) -> dict[str, str]:
    """Return the `additional_kwargs` of a message said at `time` in the session `session`."""
    extra = {}
    if time is not None:
        extra["timestamp"] = format_time(time)
    if session is not None:
        extra["session"] = session
    return extra


# -- contents -------------------------------------------------------------------------------------

Block = dict[str, Any]


def make_text_block(words: str) -> Block:
    """Return the block of a text."""
    return {"type": "text", "text": words}


def make_reasoning_block(words: str) -> Block:
    """Return the block of what a model thought before it spoke."""
    return {"type": "reasoning", "reasoning": words}


def make_foreign_block(value: Any) -> Block:
    """Return the block that keeps what has no counterpart, such as a picture's reference."""
    return {"type": "non_standard", "value": value}


def make_attachment(text: str, name: str, value: Any) -> Block:
    """Return the block of an attached file: its text if that is known, else what names it."""
    if not text.strip():
        return make_foreign_block(value)
    title = {"title": name} if name.strip() else {}
    return {"type": "text-plain", "text": text, "mime_type": "text/plain", **title}


def build_content(blocks: Sequence[Block]) -> str | list[str | Block]:
    """Return a message's content: plain text where there is nothing else."""
    spoken = [block for block in blocks if block["type"] != "text" or block["text"].strip()]
    if not spoken:
        return ""
    if len(spoken) == 1 and spoken[0]["type"] == "text":
        return str(spoken[0]["text"])
    return list(spoken)


# -- tool calls -----------------------------------------------------------------------------------

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


def clean_tool_name(name: str) -> str:
    """Return the name in the characters that every provider takes for a tool's name."""
    return _NOT_IN_NAMES.sub("_", name) or "tool"


def parse_tool_call(name: str, arguments: str, call_id: str) -> ToolCall | None:
    """Return the call whose arguments are JSON text; None where they are not a JSON object."""
    try:
        values = json.loads(arguments or "{}", strict=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    return ToolCall(name=clean_tool_name(name), args=values, id=call_id, type="tool_call")


def make_text_call(name: str, words: str, call_id: str) -> ToolCall:
    """Return the call of a tool that takes plain text."""
    return ToolCall(name=clean_tool_name(name), args={"input": words}, id=call_id, type="tool_call")


def make_invalid_call(name: str, arguments: str, call_id: str) -> InvalidToolCall:
    """Return a call whose arguments are not a JSON object, as they are."""
    return InvalidToolCall(
        name=clean_tool_name(name),
        args=arguments,
        id=call_id,
        error="the arguments are not a JSON object",
        type="invalid_tool_call",
    )


# -- messages as LangChain's own histories store them ---------------------------------------------

_STORED_FORM = 'a stored message {"type": "human", "data": {"content": ...}}'


def read_stored_message(node: Node) -> FoundMessage:
    """Return the message that LangChain stored.

    Raises:
        ImportFormatError: If it is not one.
    """
    stored = node.value if isinstance(node.value, dict) else {}
    kind, data = stored.get("type"), stored.get("data")
    if not isinstance(kind, str) or not isinstance(data, dict) or "content" not in data:
        node.fail(_STORED_FORM)
    with ErrorTrap(ValueError, TypeError, LookupError, AttributeError) as trap:
        # Chooses from a fixed table of types; nothing is imported by name.
        [message] = messages_from_dict([{"type": kind, "data": dict(data)}])
        return repair_timestamp(message, node.location)
    return node.fail(f"{_STORED_FORM}: {trap.reason}")


def repair_timestamp(message: BaseMessage, location: str) -> FoundMessage:
    """Return a message of another store; a time that cannot be read is kept under another key."""
    try:
        get_line_time_ms(message)
    except InvalidMessageError:
        extra: dict[str, Any] = message.additional_kwargs
        extra["original_timestamp"] = extra.pop("timestamp")
    return FoundMessage(message, location)
