"""Reasoning blocks: which may be sent back to whom, and when they no longer may.

Reasoning is signed by the provider that made it; another one refuses it, and a provider may refuse
it after a conversation other than the one it was made in, or when a part of it is missing. So a
message's reasoning is shown whole to its own provider after an unchanged beginning, or not at all.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from langchain_convmem.records import Entry
from langchain_convmem.views.live import find_retracted_ids
from langchain_convmem.views.messages import clean_text, get_block_type
from langchain_convmem.views.providers import Origin, ProviderProfile, find_origin

REASONING_BLOCKS = frozenset({"reasoning", "reasoning_content", "redacted_thinking", "thinking"})
"""Types of content blocks that hold what a model thought."""

_BY_TYPE: Mapping[str, Origin] = {
    "redacted_thinking": "anthropic",
    "reasoning_content": "bedrock_converse",
    "thinking": "anthropic",
}


def is_reasoning(block: object) -> bool:
    """Return whether a content block holds what a model thought."""
    kind = get_block_type(block)
    if kind:
        return kind in REASONING_BLOCKS
    return isinstance(block, dict) and "type" not in block and "reasoningContent" in block


def has_reasoning(message: BaseMessage | None) -> bool:
    """Return whether a message holds reasoning."""
    content = "" if message is None else message.content
    return isinstance(content, list) and any(map(is_reasoning, content))


def drop_reasoning(message: BaseMessage) -> bool:
    """Take the reasoning out of a message; return whether there was any."""
    if not isinstance(message.content, list):
        return False
    kept = [block for block in message.content if not is_reasoning(block)]
    had_any = len(kept) < len(message.content)
    if had_any:
        message.content = kept or ""
    return had_any


def forget_dialect(message: BaseMessage, profile: ProviderProfile) -> None:
    """Drop what a message says about the form of its content, where that is no longer so.

    Integrations read the blocks of another provider's message by it, and would lose those that
    they do not expect.
    """
    told = message.response_metadata
    if told.get("output_version") == "v1":
        del told["output_version"]
    if isinstance(message.content, list) and find_origin(message) not in profile.reasoning:
        told.pop("model_provider", None)


def drop_idle_reasoning(message: BaseMessage) -> bool:
    """Take out reasoning that nothing follows; return whether any was.

    Call it once the message holds all its blocks: what is thought must lead to a text or a call.
    """
    content = message.content
    if not isinstance(content, list) or not content or not is_reasoning(content[-1]):
        return False
    told = [block.get("id") for block in content if isinstance(block, Mapping)]
    if any(call["id"] not in told for call in getattr(message, "tool_calls", ())):
        return False  # integrations put calls without a block after the blocks
    return drop_reasoning(message)


# -- What may be sent back ------------------------------------------------------------------------
def find_reasoning_blocks(
    message: AIMessage, profile: ProviderProfile
) -> list[dict[str, Any]] | None:
    """Return the message's reasoning as the provider takes it back, block for block.

    None where it has none or where a block of it may not be sent.
    """
    blocks = [block for block in message.content if is_reasoning(block)]
    shown = [
        _show_block(block, find_origin(message, _BY_TYPE.get(get_block_type(block))), profile)
        for block in blocks
    ]
    whole = [block for block in shown if block is not None]
    return whole if whole and len(whole) == len(shown) else None


def _show_block(
    block: Any, origin: Origin | None, profile: ProviderProfile
) -> dict[str, Any] | None:
    if origin is None or origin not in profile.reasoning:
        return None
    if get_block_type(block) == "redacted_thinking":
        data = block.get("data")
        is_whole = origin == "anthropic" and isinstance(data, str) and bool(data)
        return {"type": "redacted_thinking", "data": data} if is_whole else None
    text, signature = _read_signed(block)
    if not isinstance(text, str) or not isinstance(signature, str) or not signature.isascii():
        return None
    return _write_signed(origin, clean_text(text), signature) if signature else None


def _read_signed(block: Mapping[Any, Any]) -> tuple[Any, Any]:
    inner = block.get("reasoning_content")
    if isinstance(inner, Mapping):
        return inner.get("text"), inner.get("signature")
    extras = block.get("extras")
    signature = extras.get("signature") if isinstance(extras, Mapping) else None
    return block.get("thinking", block.get("reasoning")), block.get("signature", signature)


def _write_signed(origin: Origin, text: str, signature: str) -> dict[str, Any] | None:
    if origin == "bedrock_converse":
        inner = {"text": text, "signature": signature}
        return {"type": "reasoning_content", "reasoning_content": inner} if text.strip() else None
    if origin == "gemini" and not (text.strip() and _is_base64(signature)):
        return None
    # Models that keep their thoughts to themselves sign an empty text.
    return {"type": "thinking", "thinking": text, "signature": signature}


def _is_base64(text: str) -> bool:
    try:
        return bool(base64.b64decode(text, validate=True))
    except binascii.Error:
        return False


# -- When it no longer may ------------------------------------------------------------------------
def find_stale_reasoning(
    entries: Sequence[Entry], live: Sequence[Entry], shown: Sequence[Entry], *, hoists: bool
) -> frozenset[str]:
    """Return the ids of entries whose reasoning was made when the view began differently.

    Args:
        entries: The thread's entries, control entries included.
        live: Those that count, summaries included.
        shown: Those that the view shows, in its order.
        hoists: Whether the view puts system messages first, wherever they were written.
    """
    if not any(has_reasoning(entry.message) for entry in shown if entry.role == "assistant"):
        return frozenset()
    dead = find_retracted_ids(entries)
    at = {entry.id: entry.position for entry in entries}
    changes = [
        (at.get(old, 0), entry.position)  # what is not among the entries was said before them
        for entry in entries
        if entry.control is not None and entry.id not in dead
        for old in entry.control.retracts
    ]
    changes += [
        (first, entry.position)
        for entry in live
        if entry.role == "summary" and entry.cover is not None
        for first, _last in entry.cover.ranges[:1]
    ]
    latest = max((e.position for e in shown if hoists and e.role == "system"), default=0)
    stale = set()
    for entry in shown:
        is_changed = any(begun <= entry.position < done for begun, done in changes)
        if entry.role == "assistant" and (entry.position < latest or is_changed):
            stale.add(entry.id)
        latest = max(latest, entry.position)
    return frozenset(stale)
