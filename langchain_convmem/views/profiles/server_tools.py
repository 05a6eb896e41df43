"""Blocks of tools that ran at a provider: a search, a sandbox. They mean nothing to another one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_convmem.views.copies import block_type, clean_text, plain_value
from langchain_convmem.views.profiles.reasoning import origin_of
from langchain_convmem.views.profiles.rules import ProviderProfile

__all__ = [
    "is_server_tool",
    "is_told_by_its_use",
    "sendable_server_tool",
    "server_tool_name",
]

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
