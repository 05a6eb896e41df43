"""Conversational memory for LangChain.

Public names load on first use: importing the package imports nothing else.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_convmem.chat_templates import ChatTemplate
    from langchain_convmem.conversation import Conversation, Engine, Preface
    from langchain_convmem.history import ConversationHistory
    from langchain_convmem.logs import DynamoDBLog, InMemoryLog, PostgresLog, SQLiteLog, to_dynamodb
    from langchain_convmem.memory import ConversationMemory, SummarizingMemory
    from langchain_convmem.prompts import PromptFile
    from langchain_convmem.recall import (
        DialogLineRetriever,
        EmbeddedEmbeddings,
        MiniLMEmbeddings,
        RecallSettings,
    )
    from langchain_convmem.summarizing import SummarySettings

__all__ = [
    "ChatTemplate",
    "Conversation",
    "ConversationHistory",
    "ConversationMemory",
    "DialogLineRetriever",
    "DynamoDBLog",
    "EmbeddedEmbeddings",
    "Engine",
    "InMemoryLog",
    "MiniLMEmbeddings",
    "PostgresLog",
    "Preface",
    "PromptFile",
    "RecallSettings",
    "SQLiteLog",
    "SummarizingMemory",
    "SummarySettings",
    "to_dynamodb",
]

_HOMES = {
    "ChatTemplate": "chat_templates",
    "Conversation": "conversation",
    "ConversationHistory": "history",
    "ConversationMemory": "memory",
    "DialogLineRetriever": "recall",
    "DynamoDBLog": "logs",
    "EmbeddedEmbeddings": "recall",
    "Engine": "conversation",
    "InMemoryLog": "logs",
    "MiniLMEmbeddings": "recall",
    "PostgresLog": "logs",
    "Preface": "conversation",
    "PromptFile": "prompts",
    "RecallSettings": "recall",
    "SQLiteLog": "logs",
    "SummarizingMemory": "memory",
    "SummarySettings": "summarizing",
    "to_dynamodb": "logs",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    home = _HOMES.get(name)
    if home is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted({*globals(), *__all__})
