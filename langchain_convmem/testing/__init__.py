"""Public test kit: contracts for every implementation, scripted services and a scripted engine.

Names load on first use, so that a test of one thing imports nothing of another.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from langchain_convmem._lazy import load_lazily

if TYPE_CHECKING:
    from langchain_convmem.testing.bedrock import BedrockConverseServer
    from langchain_convmem.testing.chat_completions import ChatCompletionsServer
    from langchain_convmem.testing.log_contract import MessageLogContract
    from langchain_convmem.testing.scripted_engine import (
        ScriptedEngine,
        ScriptedSession,
        SessionEvent,
        SessionFault,
        SessionMisuseError,
    )
    from langchain_convmem.testing.scripted_replies import (
        RecordedRequest,
        ScriptedError,
        ScriptedReply,
        ScriptedToolCall,
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
    "BedrockConverseServer": "testing.bedrock",
    "ChatCompletionsServer": "testing.chat_completions",
    "MessageLogContract": "testing.log_contract",
    "RecordedRequest": "testing.scripted_replies",
    "ScriptedEngine": "testing.scripted_engine",
    "ScriptedError": "testing.scripted_replies",
    "ScriptedReply": "testing.scripted_replies",
    "ScriptedSession": "testing.scripted_engine",
    "ScriptedToolCall": "testing.scripted_replies",
    "SessionEvent": "testing.scripted_engine",
    "SessionFault": "testing.scripted_engine",
    "SessionMisuseError": "testing.scripted_engine",
}

__getattr__, __dir__ = load_lazily(__name__, _HOMES)

if "pytest" in sys.modules:
    # Before it is imported: its failing assertions then show their values in the tests of others.
    sys.modules["pytest"].register_assert_rewrite("langchain_convmem.testing.log_contract")
