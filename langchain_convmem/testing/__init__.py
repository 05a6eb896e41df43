"""Public test kit: contracts that every implementation must pass, and scripted chat services.

Names load on first use, so that a test of one thing imports nothing of another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_convmem.lazy_names import lazy_names

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

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
