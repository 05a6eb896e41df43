"""Public test kit: contracts for every implementation, scripted services and a scripted engine.

Names load on first use, so that a test of one thing imports nothing of another.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from langchain_convmem._lazy import load_lazily

if TYPE_CHECKING:
    from langchain_convmem.recall.encoders import HashEmbeddings as HashEmbeddings
    from langchain_convmem.testing.bedrock import BedrockConverseServer as BedrockConverseServer
    from langchain_convmem.testing.chat_completions import (
        ChatCompletionsServer as ChatCompletionsServer,
    )
    from langchain_convmem.testing.log_contract import MessageLogContract as MessageLogContract
    from langchain_convmem.testing.scripted_engine import ScriptedEngine as ScriptedEngine
    from langchain_convmem.testing.scripted_engine import ScriptedSession as ScriptedSession
    from langchain_convmem.testing.scripted_engine import SessionEvent as SessionEvent
    from langchain_convmem.testing.scripted_engine import SessionFault as SessionFault
    from langchain_convmem.testing.scripted_engine import SessionMisuseError as SessionMisuseError
    from langchain_convmem.testing.scripted_replies import RecordedRequest as RecordedRequest
    from langchain_convmem.testing.scripted_replies import ScriptedError as ScriptedError
    from langchain_convmem.testing.scripted_replies import ScriptedReply as ScriptedReply
    from langchain_convmem.testing.scripted_replies import ScriptedToolCall as ScriptedToolCall

__getattr__, __dir__, __all__ = load_lazily(__name__)

if "pytest" in sys.modules:
    # Before it is imported: its failing assertions then show their values in the tests of others.
    sys.modules["pytest"].register_assert_rewrite("langchain_convmem.testing.log_contract")
