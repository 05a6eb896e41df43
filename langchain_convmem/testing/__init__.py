"""Public test kit: contracts that every implementation must pass, and a scripted chat service.

Names load on first use, so that a test of one thing imports nothing of another.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_convmem.testing.chat_completions_server import (
        ChatCompletionsServer,
        RecordedRequest,
        ScriptedError,
        ScriptedReply,
        ScriptedToolCall,
    )
    from langchain_convmem.testing.index_contract import LineIndexContract
    from langchain_convmem.testing.log_contract import MessageLogContract

__all__ = [
    "ChatCompletionsServer",
    "LineIndexContract",
    "MessageLogContract",
    "RecordedRequest",
    "ScriptedError",
    "ScriptedReply",
    "ScriptedToolCall",
]

_HOMES = {
    "ChatCompletionsServer": "chat_completions_server",
    "LineIndexContract": "index_contract",
    "MessageLogContract": "log_contract",
    "RecordedRequest": "chat_completions_server",
    "ScriptedError": "chat_completions_wire",
    "ScriptedReply": "chat_completions_wire",
    "ScriptedToolCall": "chat_completions_wire",
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
