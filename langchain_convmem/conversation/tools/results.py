"""What a model is told of a call: the result, or why there is none. Every call gets an answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.tools import ToolException

from langchain_convmem.views.profiles.media import read_media

__all__ = ["answered", "cancelled_answers", "failed", "refused", "rewritten"]

CANCELLED = "the call was cancelled"


def refused(call: Mapping[str, Any], reason: str) -> ToolMessage:
    """Return the answer to a call that nothing came of."""
    return ToolMessage(
        f"Error: {reason}",
        tool_call_id=str(call.get("id") or ""),
        name=call.get("name"),
        status="error",
    )


def failed(call: Mapping[str, Any], error: Exception) -> ToolMessage:
    """Return the answer to a call whose tool raised an error.

    The error's type is in `additional_kwargs["exception"]`.
    """
    kind = type(error).__name__
    # A ToolException is written for the model; of others the type often says more than the text.
    told = str(error) if isinstance(error, ToolException) else f"{kind}: {error}"
    answer = refused(call, told.removesuffix(": ") or kind)
    answer.additional_kwargs["exception"] = kind
    return answer


def cancelled_answers(calls: Iterable[ToolCall]) -> list[ToolMessage]:
    """Return answers, in order, that close calls which nobody will answer any more."""
    return [refused(call, CANCELLED) for call in calls]


def answered(call: ToolCall, result: Any) -> ToolMessage:
    """Return what a tool returned as the answer to the call.

    A `ToolMessage` is kept, text stays text, content blocks stay blocks, anything else is JSON.
    """
    if not isinstance(result, ToolMessage):
        kind = type(result).__name__
        return refused(call, f"the tool returned a {kind}, which only a graph can carry out")
    answer = result.model_copy()
    answer.tool_call_id = str(call["id"] or "")
    answer.name = answer.name or call["name"]
    if isinstance(answer.content, list) and not _are_blocks(answer.content):
        answer.content = as_json(answer.content)
    return answer


def _are_blocks(content: Sequence[Any]) -> bool:
    return bool(content) and all(map(_is_block, content))


def _is_block(block: Any) -> bool:
    """Return whether a value is content, not just a map with a `type` (of a folder, say)."""
    if not isinstance(block, Mapping):
        return False
    if block.get("type") == "text":
        return isinstance(block.get("text"), str)
    media = read_media(block)
    return media is None or bool(media.data) or "source" in block


def as_json(value: Any) -> str:
    """Return a value as JSON text; what JSON lacks is written as text."""
    return json.dumps(value, ensure_ascii=False, default=str)


def rewritten(answer: ToolMessage, new: Any) -> ToolMessage:
    """Return an answer as the caller wants it; what it said before is kept in its artifact.

    Args:
        answer: What the model would be told.
        new: What to tell instead: text, a `ToolMessage`, or a value to write as JSON; None leaves
            the answer as it is.
    """
    if new is None or new is answer:
        return answer
    before = {"original": answer.content}
    if answer.artifact is not None:
        before["artifact"] = answer.artifact
    if isinstance(new, ToolMessage):
        changed = new.model_copy(update={"tool_call_id": answer.tool_call_id})
        if changed.artifact is None:
            changed.artifact = before
        return changed
    content = new if isinstance(new, str) else as_json(new)
    return answer.model_copy(update={"content": content, "artifact": before})
