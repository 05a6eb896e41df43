"""Public test kit: contracts for every implementation, scripted services and a scripted engine.

Names load on first use, so that a test of one thing imports nothing of another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_convmem.lazy_names import lazy_names

if TYPE_CHECKING:
    from langchain_convmem.testing.bedrock_converse_server import BedrockConverseServer
    from langchain_convmem.testing.chat_completions_server import ChatCompletionsServer
    from langchain_convmem.testing.log_contract import MessageLogContract
    from langchain_convmem.testing.scripted_engine import ScriptedEngine
    from langchain_convmem.testing.scripted_replies import (
        RecordedRequest,
        ScriptedError,
        ScriptedReply,
        ScriptedToolCall,
    )
    from langchain_convmem.testing.scripted_session import ScriptedSession
    from langchain_convmem.testing.session_script import (
        SessionEvent,
        SessionFault,
        SessionMisuseError,
    )

__all__ = [
    "BedrockConverseServer",
    "ChatCompletionsServer",
    "MessageLogContract",
    "RecordedRequest",
    "ScriptedEngine",
    "ScriptedError",
    "ScriptedReply",
    "ScriptedSession",
    "ScriptedToolCall",
    "SessionEvent",
    "SessionFault",
    "SessionMisuseError",
]

_HOMES = {
    "BedrockConverseServer": "bedrock_converse_server",
    "ChatCompletionsServer": "chat_completions_server",
    "MessageLogContract": "log_contract",
    "RecordedRequest": "scripted_replies",
    "ScriptedEngine": "scripted_engine",
    "ScriptedError": "scripted_replies",
    "ScriptedReply": "scripted_replies",
    "ScriptedSession": "scripted_session",
    "ScriptedToolCall": "scripted_replies",
    "SessionEvent": "session_script",
    "SessionFault": "session_script",
    "SessionMisuseError": "session_script",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
