"""Replies without what the model thought before it spoke."""

from __future__ import annotations

from langchain_core.messages import AIMessage

__all__ = ["without_thoughts"]

_BLOCKS = frozenset({"reasoning", "thinking", "redacted_thinking"})
_KEYS = frozenset({"reasoning_content", "reasoning", "thinking"})


def without_thoughts(message: AIMessage) -> AIMessage:
    """Return a reply without its reasoning; the reply itself if it has none."""
    content = message.content
    if isinstance(content, list):
        content = [
            block for block in content if isinstance(block, str) or block.get("type") not in _BLOCKS
        ]
    kwargs = {key: value for key, value in message.additional_kwargs.items() if key not in _KEYS}
    if content == message.content and kwargs == message.additional_kwargs:
        return message
    return message.model_copy(update={"content": content, "additional_kwargs": kwargs})
