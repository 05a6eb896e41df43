"""The default token counter: one everywhere, without a network, honest about CJK text.

Latin text is about four characters a token; a CJK character is about one, so that dividing its
characters by four would be three quarters too low.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    MessageLikeRepresentation,
    RemoveMessage,
    ToolMessage,
    convert_to_messages,
)

from langchain_convmem.views.messages import get_block_type

TokenCounter: TypeAlias = Callable[[Sequence[BaseMessage]], int]
"""Counts the tokens of messages; it need not be additive."""
TOKENS_PER_MESSAGE = 3
"""Role and separators that every chat format adds."""
TOKENS_PER_MEDIA = 85
"""An image, audio clip or file; its bytes are not text and are not counted as text."""
_COUNTED_WITH_CALLS = frozenset({"function_call", "tool_call", "tool_call_chunk", "tool_use"})
"""Blocks that repeat what a message's tool calls say."""

_CJK = re.compile(
    "[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef"
    "\U0001f000-\U0001faff\U00020000-\U0003ffff]"
)


def count_tokens(messages: Iterable[MessageLikeRepresentation]) -> int:
    """Return the approximate size of messages in tokens, tool calls and media included."""
    plain = list(messages)
    if not all(isinstance(message, BaseMessage) for message in plain):
        plain = list(convert_to_messages(plain))
    return sum(
        [
            _count_message_tokens(message)
            for message in plain
            if isinstance(message, BaseMessage) and not isinstance(message, RemoveMessage)
        ]
    )


def count_text_tokens(text: str) -> int:
    """Return ceil(characters / 4) outside CJK, plus one per CJK character or emoji."""
    wide = len(_CJK.findall(text)) if not text.isascii() else 0
    return wide - (wide - len(text)) // 4


def _count_message_tokens(message: BaseMessage) -> int:
    content = message.content
    total = TOKENS_PER_MESSAGE
    if isinstance(content, str):
        total += count_text_tokens(content)
    else:
        total += sum(_count_block_tokens(block) for block in content)
    if message.name:
        total += count_text_tokens(message.name)
    if isinstance(message, AIMessage):
        for call in (*message.tool_calls, *message.invalid_tool_calls):
            total += count_text_tokens(json.dumps(call, default=str, ensure_ascii=False))
    elif isinstance(message, ToolMessage):
        total += count_text_tokens(message.tool_call_id)
    return total


def _count_block_tokens(block: Any) -> int:
    if isinstance(block, str):
        return count_text_tokens(block)
    if not isinstance(block, Mapping):
        return TOKENS_PER_MEDIA
    for key in ("text", "reasoning", "thinking", "refusal"):
        if isinstance(block.get(key), str):
            return count_text_tokens(block[key])
    kind = get_block_type(block)
    if kind in _COUNTED_WITH_CALLS:
        return 0
    if kind.endswith(("_tool_use", "_tool_result")):  # tools that ran at a provider
        return count_text_tokens(json.dumps(block, default=str, ensure_ascii=False))
    return TOKENS_PER_MEDIA
