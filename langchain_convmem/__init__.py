"""Conversational memory for LangChain.

Public names load on first use: importing the package imports nothing else. What needs an extra says
which by a MissingExtraError when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_convmem._lazy import load_lazily

if TYPE_CHECKING:
    from langchain_convmem._version import __version__ as __version__
    from langchain_convmem.conversation import Conversation as Conversation
    from langchain_convmem.conversation import ConversationConfig as ConversationConfig
    from langchain_convmem.conversation import Engine as Engine
    from langchain_convmem.conversation import Preface as Preface
    from langchain_convmem.conversation import SendOptions as SendOptions
    from langchain_convmem.conversation import TurnHandle as TurnHandle
    from langchain_convmem.errors import ConvMemError as ConvMemError
    from langchain_convmem.history import ConversationHistory as ConversationHistory
    from langchain_convmem.integrations.agents import (
        ConversationMemoryMiddleware as ConversationMemoryMiddleware,
    )
    from langchain_convmem.integrations.langgraph import create_memory_graph as create_memory_graph
    from langchain_convmem.integrations.tools import create_search_tool as create_search_tool
    from langchain_convmem.logs import DynamoDBLog as DynamoDBLog
    from langchain_convmem.logs import InMemoryLog as InMemoryLog
    from langchain_convmem.logs import PostgresLog as PostgresLog
    from langchain_convmem.logs import SQLiteLog as SQLiteLog
    from langchain_convmem.logs import to_dynamodb as to_dynamodb
    from langchain_convmem.memory import ConversationMemory as ConversationMemory
    from langchain_convmem.prompts import PromptFile as PromptFile
    from langchain_convmem.recall import DialogLineRetriever as DialogLineRetriever
    from langchain_convmem.recall import MiniLMEmbeddings as MiniLMEmbeddings
    from langchain_convmem.recall import RecallOptions as RecallOptions
    from langchain_convmem.recall import RecallSettings as RecallSettings
    from langchain_convmem.recall import UniversalSentenceEmbeddings as UniversalSentenceEmbeddings
    from langchain_convmem.records import DialogLine as DialogLine
    from langchain_convmem.records import Entry as Entry
    from langchain_convmem.records import ForgetReceipt as ForgetReceipt
    from langchain_convmem.records import Metadata as Metadata
    from langchain_convmem.records import ThreadInfo as ThreadInfo
    from langchain_convmem.records import ThreadKey as ThreadKey
    from langchain_convmem.summarizing import SummaryEvent as SummaryEvent
    from langchain_convmem.summarizing import SummaryReport as SummaryReport
    from langchain_convmem.summarizing import SummarySettings as SummarySettings
    from langchain_convmem.summarizing_memory import SummarizingMemory as SummarizingMemory
    from langchain_convmem.text import ChatTemplate as ChatTemplate
    from langchain_convmem.turns.memory import TurnOptions as TurnOptions
    from langchain_convmem.views.context import Context as Context
    from langchain_convmem.views.lines import Recall as Recall
    from langchain_convmem.views.live import Turn as Turn

__getattr__, __dir__, __all__ = load_lazily(__name__)
