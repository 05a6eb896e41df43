"""Public test kit: contracts that every implementation must pass, and scripted chat services.

Names load on first use, so that a test of one thing imports nothing of another.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_convmem.testing.bedrock_converse_server import BedrockConverseServer
    from langchain_convmem.testing.chat_completions_server import ChatCompletionsServer
    from langchain_convmem.testing.index_contract import LineIndexContract
    from langchain_convmem.testing.log_contract import MessageLogContract
    from langchain_convmem.testing.scripted_replies import (
        RecordedRequest,
        ScriptedError,
        ScriptedReply,
        ScriptedToolCall,
    )

__all__ = [
    "BedrockConverseServer",
    "ChatCompletionsServer",
    "LineIndexContract",
    "MessageLogContract",
    "RecordedRequest",
    "ScriptedError",
    "ScriptedReply",
    "ScriptedToolCall",
]

_HOMES = {
    "BedrockConverseServer": "bedrock_converse_server",
    "ChatCompletionsServer": "chat_completions_server",
    "LineIndexContract": "index_contract",
    "MessageLogContract": "log_contract",
    "RecordedRequest": "scripted_replies",
    "ScriptedError": "scripted_replies",
    "ScriptedReply": "scripted_replies",
    "ScriptedToolCall": "scripted_replies",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted({*globals(), *__all__})
