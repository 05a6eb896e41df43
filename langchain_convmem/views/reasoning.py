"""Reasoning blocks: which may be sent back to whom, and when they no longer may.

Reasoning is signed by the provider that made it; another one refuses it, and a provider may refuse
it behind a conversation other than the one it was made in, or when a part of it is missing. So a
message's reasoning is shown whole to its own provider behind an unchanged beginning, or not at all.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from langchain_convmem.records import Entry
from langchain_convmem.views.live import retracted_ids
from langchain_convmem.views.messages import block_type, clean_text, plain_value
from langchain_convmem.views.providers import Origin, ProviderProfile

REASONING_BLOCKS = frozenset({"reasoning", "reasoning_content", "redacted_thinking", "thinking"})


"""Types of content blocks that hold what a model thought."""


_ORIGINS: Mapping[str, Origin] = {
    "anthropic": "anthropic",
    "azure": "openai",
    "bedrock": "bedrock_converse",
    "bedrock_converse": "bedrock_converse",
    "google_genai": "gemini",
    "google_vertexai": "gemini",
    "openai": "openai",
}


_BY_TYPE: Mapping[str, Origin] = {
    "redacted_thinking": "anthropic",
    "reasoning_content": "bedrock_converse",
    "thinking": "anthropic",
}


def origin_of(message: BaseMessage, unnamed: Origin | None = None) -> Origin | None:
    """Return which provider made the message; None for one without a profile of its own.

    Args:
        message: The message.
        unnamed: What to return where it does not say.
    """
    named = message.response_metadata.get("model_provider")
    return unnamed if named is None else _ORIGINS.get(str(named))


def is_reasoning(block: object) -> bool:
    """Return whether a content block holds what a model thought."""
    kind = block_type(block)
    if kind:
        return kind in REASONING_BLOCKS
    return isinstance(block, dict) and "type" not in block and "reasoningContent" in block


def has_reasoning(message: BaseMessage | None) -> bool:
    """Return whether a message holds reasoning."""
    content = "" if message is None else message.content
    return isinstance(content, list) and any(map(is_reasoning, content))


def without_reasoning(message: BaseMessage) -> bool:
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
    if isinstance(message.content, list) and origin_of(message) not in profile.reasoning:
        told.pop("model_provider", None)


def without_idle_reasoning(message: BaseMessage) -> bool:
    """Take out reasoning that nothing follows; return whether any was.

    Call it once the message holds all its blocks: what is thought must lead to a text or a call.
    """
    content = message.content
    if not isinstance(content, list) or not content or not is_reasoning(content[-1]):
        return False
    told = [block.get("id") for block in content if isinstance(block, Mapping)]
    if any(call["id"] not in told for call in getattr(message, "tool_calls", ())):
        return False  # integrations put calls that no block tells behind the blocks
    return without_reasoning(message)


# -- what may be sent back ------------------------------------------------------------------------
def reasoning_blocks(message: AIMessage, profile: ProviderProfile) -> list[dict[str, Any]] | None:
    """Return the message's reasoning as the provider takes it back, block for block.

    None where it has none or where a block of it may not be sent.
    """
    blocks = [block for block in message.content if is_reasoning(block)]
    shown = [
        _shown(block, origin_of(message, _BY_TYPE.get(block_type(block))), profile)
        for block in blocks
    ]
    whole = [block for block in shown if block is not None]
    return whole if whole and len(whole) == len(shown) else None


def _shown(block: Any, origin: Origin | None, profile: ProviderProfile) -> dict[str, Any] | None:
    if origin is None or origin not in profile.reasoning:
        return None
    if block_type(block) == "redacted_thinking":
        data = block.get("data")
        is_whole = origin == "anthropic" and isinstance(data, str) and bool(data)
        return {"type": "redacted_thinking", "data": data} if is_whole else None
    text, signature = _said_and_signed(block)
    if not isinstance(text, str) or not isinstance(signature, str) or not signature.isascii():
        return None
    return _signed(origin, clean_text(text), signature) if signature else None


def _said_and_signed(block: Mapping[Any, Any]) -> tuple[Any, Any]:
    inner = block.get("reasoning_content")
    if isinstance(inner, Mapping):
        return inner.get("text"), inner.get("signature")
    extras = block.get("extras")
    signature = extras.get("signature") if isinstance(extras, Mapping) else None
    return block.get("thinking", block.get("reasoning")), block.get("signature", signature)


def _signed(origin: Origin, text: str, signature: str) -> dict[str, Any] | None:
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


# -- when it no longer may ------------------------------------------------------------------------
def made_behind_another_beginning(
    entries: Sequence[Entry], live: Sequence[Entry], shown: Sequence[Entry], *, hoists: bool
) -> frozenset[str]:
    """Return the ids of assistant entries that were made when the view began differently.

    Args:
        entries: The thread's entries, control entries included.
        live: Those that count, summaries included.
        shown: Those that the view shows, in its order.
        hoists: Whether the view puts system messages first, wherever they were written.
    """
    dead = retracted_ids(entries)
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


# -- Blocks of tools that ran at a provider -------------------------------------------------------


_USES = frozenset(
    {
        "code_interpreter_call",
        "computer_call",
        "executable_code",
        "file_search_call",
        "image_generation_call",
        "local_shell_call",
        "mcp_approval_request",
        "mcp_call",
        "mcp_list_tools",
        "mcp_tool_use",
        "server_tool_call",
        "server_tool_call_chunk",
        "server_tool_use",
        "web_search_call",
    }
)


_RESULTS = frozenset(
    {
        "bash_code_execution_tool_result",
        "code_execution_result",
        "code_execution_tool_result",
        "mcp_tool_result",
        "server_tool_result",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
        "web_fetch_tool_result",
        "web_search_tool_result",
    }
)


_PREFIXES = {"server_tool_use": "srvtoolu_", "mcp_tool_use": "mcptoolu_"}


"""How Anthropic's ids of such uses begin, by the type of their block."""


_OWN_ID = re.compile("[a-zA-Z0-9_]{1,64}")


_KEYS = ("type", "id", "name", "input", "server_name", "tool_use_id", "content", "is_error")


def is_server_tool(block: object) -> bool:
    """Return whether a content block tells of a tool that ran at a provider."""
    kind = block_type(block)
    return kind in _USES or kind in _RESULTS


def server_tool_name(block: Mapping[Any, Any]) -> str:
    """Return what to call the tool."""
    name = block.get("name")
    if isinstance(name, str) and name.strip():
        return clean_text(" ".join(name.split())[:64])
    return block_type(block).removesuffix("_call").removesuffix("_tool_result")


def is_told_by_its_use(block: Mapping[Any, Any], message: BaseMessage) -> bool:
    """Return whether the block is a result whose use stands in the same message."""
    if block_type(block) in _USES:
        return False
    uses = [other for other in message.content if block_type(other) in _USES]
    if block_type(block) == "code_execution_result":
        return any(block_type(other) == "executable_code" for other in uses)
    own = block.get("tool_use_id", block.get("tool_call_id"))
    return any(isinstance(other, Mapping) and other.get("id") == own for other in uses)


def sendable_server_tool(
    block: Mapping[Any, Any], message: BaseMessage, profile: ProviderProfile
) -> dict[str, Any] | None:
    """Return the use or result as its provider takes it back; None where it may not be sent.

    It must be whole, have its other half in the message, and go to the provider that ran it.
    """
    own = _whole_id(block)
    is_own = origin_of(message, "anthropic") in profile.server_tools
    if not is_own or own is None:
        return None
    pair = [
        block_type(other) in _PREFIXES
        for other in message.content
        if isinstance(other, Mapping) and is_server_tool(other) and _whole_id(other) == own
    ]
    if pair != [True, False]:
        return None
    return {key: plain_value(block[key]) for key in _KEYS if key in block}


def _whole_id(block: Mapping[Any, Any]) -> str | None:
    """Return the id of a use or result in Anthropic's form; None where it is not whole."""
    prefix = _PREFIXES.get(block_type(block))
    if prefix is not None:
        own = block.get("id")
        is_whole = bool(block.get("name")) and isinstance(block.get("name"), str)
        is_whole = is_whole and isinstance(block.get("input"), Mapping)
    else:
        own = block.get("tool_use_id")
        is_whole = bool(block.get("content")) and isinstance(block["content"], list | Mapping)
    if not is_whole or not isinstance(own, str) or not _OWN_ID.fullmatch(own):
        return None
    return own if own.startswith(prefix or tuple(_PREFIXES.values())) else None
