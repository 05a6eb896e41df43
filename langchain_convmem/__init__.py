"""Conversational memory for LangChain.

Public names load on first use: importing the package imports nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_convmem._lazy import lazy_names

if TYPE_CHECKING:
    from langchain_convmem.conversation import Conversation, Engine, Preface
    from langchain_convmem.history import ConversationHistory
    from langchain_convmem.logs import DynamoDBLog, InMemoryLog, PostgresLog, SQLiteLog, to_dynamodb
    from langchain_convmem.memory import ConversationMemory
    from langchain_convmem.prompts import PromptFile
    from langchain_convmem.recall import (
        DialogLineRetriever,
        EmbeddedEmbeddings,
        MiniLMEmbeddings,
        RecallSettings,
    )
    from langchain_convmem.summarizing import SummarySettings
    from langchain_convmem.summarizing_memory import SummarizingMemory
    from langchain_convmem.text import ChatTemplate

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
    "ChatTemplate": "text",
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
    "SummarizingMemory": "summarizing_memory",
    "SummarySettings": "summarizing",
    "to_dynamodb": "logs",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
