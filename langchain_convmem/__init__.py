"""Conversational memory for LangChain.

Public names load on first use: importing the package imports nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_convmem._lazy import load_lazily

if TYPE_CHECKING:
    from langchain_convmem.conversation import (
        Conversation,
        ConversationConfig,
        Engine,
        Preface,
        SendOptions,
        TurnHandle,
    )
    from langchain_convmem.errors import ConvMemError
    from langchain_convmem.history import AddedTurn, ConversationHistory
    from langchain_convmem.logs import DynamoDBLog, InMemoryLog, PostgresLog, SQLiteLog, to_dynamodb
    from langchain_convmem.memory import ConversationMemory, ThreadStats
    from langchain_convmem.prompts import PromptFile
    from langchain_convmem.recall import (
        DialogLineRetriever,
        EmbeddedEmbeddings,
        MiniLMEmbeddings,
        RecallOptions,
        RecallSettings,
    )
    from langchain_convmem.records import (
        DialogLine,
        Entry,
        ForgetReceipt,
        Metadata,
        ThreadInfo,
        ThreadKey,
    )
    from langchain_convmem.summarizing import (
        SummaryEvent,
        SummaryRecord,
        SummaryReport,
        SummarySettings,
    )
    from langchain_convmem.summarizing_memory import SummarizingMemory
    from langchain_convmem.text import ChatTemplate
    from langchain_convmem.views.shown import Context, Recall, RecalledBlock, Turn

__all__ = [
    "AddedTurn",
    "ChatTemplate",
    "Context",
    "ConvMemError",
    "Conversation",
    "ConversationConfig",
    "ConversationHistory",
    "ConversationMemory",
    "DialogLine",
    "DialogLineRetriever",
    "DynamoDBLog",
    "EmbeddedEmbeddings",
    "Engine",
    "Entry",
    "ForgetReceipt",
    "InMemoryLog",
    "Metadata",
    "MiniLMEmbeddings",
    "PostgresLog",
    "Preface",
    "PromptFile",
    "Recall",
    "RecallOptions",
    "RecallSettings",
    "RecalledBlock",
    "SQLiteLog",
    "SendOptions",
    "SummarizingMemory",
    "SummaryEvent",
    "SummaryRecord",
    "SummaryReport",
    "SummarySettings",
    "ThreadInfo",
    "ThreadKey",
    "ThreadStats",
    "Turn",
    "TurnHandle",
    "to_dynamodb",
]

_HOMES = {
    name: module
    for module, names in {
        "conversation": [
            "Conversation",
            "ConversationConfig",
            "Engine",
            "Preface",
            "SendOptions",
            "TurnHandle",
        ],
        "errors": ["ConvMemError"],
        "history": ["AddedTurn", "ConversationHistory"],
        "logs": ["DynamoDBLog", "InMemoryLog", "PostgresLog", "SQLiteLog", "to_dynamodb"],
        "memory": ["ConversationMemory", "ThreadStats"],
        "prompts": ["PromptFile"],
        "recall": [
            "DialogLineRetriever",
            "EmbeddedEmbeddings",
            "MiniLMEmbeddings",
            "RecallOptions",
            "RecallSettings",
        ],
        "records": [
            "Context",
            "DialogLine",
            "Entry",
            "ForgetReceipt",
            "Metadata",
            "Recall",
            "RecalledBlock",
            "ThreadInfo",
            "ThreadKey",
            "Turn",
        ],
        "summarizing": ["SummaryEvent", "SummaryRecord", "SummaryReport", "SummarySettings"],
        "summarizing_memory": ["SummarizingMemory"],
        "text": ["ChatTemplate"],
    }.items()
    for name in names
}

__getattr__, __dir__ = load_lazily(__name__, _HOMES)
