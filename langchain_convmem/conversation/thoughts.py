"""Replies without what the model thought before it spoke."""

from __future__ import annotations

from langchain_core.messages import AIMessage

from langchain_convmem.chat_templates.messages import REASONING_KEYS
from langchain_convmem.views.profiles.reasoning import REASONING_BLOCKS

__all__ = ["without_thoughts"]


def without_thoughts(message: AIMessage) -> AIMessage:
    """Return a reply without its reasoning; the reply itself if it has none."""
    content = message.content
    if isinstance(content, list):
        content = [
            block
            for block in content
            if isinstance(block, str) or block.get("type") not in REASONING_BLOCKS
        ]
    given = message.additional_kwargs
    kwargs = {key: value for key, value in given.items() if key not in REASONING_KEYS}
    if content == message.content and kwargs == given:
        return message
    return message.model_copy(update={"content": content, "additional_kwargs": kwargs})
