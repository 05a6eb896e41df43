"""Contents and tool calls as LangChain writes them, from what services export. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import InvalidToolCall, ToolCall

__all__ = [
    "Block",
    "called",
    "content_of",
    "foreign",
    "reasoning",
    "refused_call",
    "text",
    "tool_name",
    "whole_call",
]

Block = dict[str, Any]
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


def text(words: str) -> Block:
    """Return the block of a text."""
    return {"type": "text", "text": words}


def reasoning(words: str) -> Block:
    """Return the block of what a model thought before it spoke."""
    return {"type": "reasoning", "reasoning": words}


def foreign(value: Any) -> Block:
    """Return the block that keeps what has no counterpart, such as a picture's reference."""
    return {"type": "non_standard", "value": value}


def content_of(blocks: Sequence[Block]) -> str | list[str | Block]:
    """Return a message's content: plain text where there is nothing else."""
    spoken = [block for block in blocks if block["type"] != "text" or block["text"].strip()]
    if not spoken:
        return ""
    if len(spoken) == 1 and spoken[0]["type"] == "text":
        return str(spoken[0]["text"])
    return list(spoken)


def tool_name(name: str) -> str:
    """Return the name in the characters that every provider takes for a tool's name."""
    return _NOT_IN_NAMES.sub("_", name) or "tool"


def called(name: str, arguments: str, call_id: str) -> ToolCall | None:
    """Return the call whose arguments are JSON text; None where they are no JSON object."""
    try:
        values = json.loads(arguments or "{}", strict=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    return ToolCall(name=tool_name(name), args=values, id=call_id, type="tool_call")


def whole_call(name: str, words: str, call_id: str) -> ToolCall:
    """Return the call of a tool that takes plain text."""
    return ToolCall(name=tool_name(name), args={"input": words}, id=call_id, type="tool_call")


def refused_call(name: str, arguments: str, call_id: str) -> InvalidToolCall:
    """Return a call whose arguments are no JSON object, as they are."""
    return InvalidToolCall(
        name=tool_name(name),
        args=arguments,
        id=call_id,
        error="the arguments are no JSON object",
        type="invalid_tool_call",
    )
