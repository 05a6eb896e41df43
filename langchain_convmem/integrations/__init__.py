"""Integrations with other packages; each module is imported on first use.

`ConversationMemoryMiddleware` needs the extra `agents`, `make_mcp_server` the extra `mcp`,
`ConversationStore` the extra `langgraph`, `ConversationSession` the extra `openai-agents`, and
`PydanticAIHistory` the extra `pydantic-ai`, `MemoryTelemetry` the extra `otel`,
`import_checkpoints` the extra `langgraph`, `ClaudeMemoryMiddleware` and `MemoryFiles` the extra
`anthropic`; the others need none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_convmem._lazy import load_lazily

if TYPE_CHECKING:
    from langchain_convmem.integrations.agents import ConversationMemoryMiddleware
    from langchain_convmem.integrations.checkpoints import (
        CheckpointReport,
        aimport_checkpoints,
        import_checkpoints,
    )
    from langchain_convmem.integrations.claude_memory import ClaudeMemoryMiddleware, MemoryFiles
    from langchain_convmem.integrations.mcp_server import make_mcp_server
    from langchain_convmem.integrations.openai_agents import ConversationSession
    from langchain_convmem.integrations.pydantic_ai import PydanticAIHistory
    from langchain_convmem.integrations.read_tool import read_message_tool
    from langchain_convmem.integrations.search_tool import search_dialog_tool
    from langchain_convmem.integrations.store import ConversationStore
    from langchain_convmem.integrations.telemetry import MemoryTelemetry
    from langchain_convmem.integrations.vector_store import VectorStoreRecall
    from langchain_convmem.integrations.vector_store_sync import StoreDialect

__all__ = [
    "CheckpointReport",
    "ClaudeMemoryMiddleware",
    "ConversationMemoryMiddleware",
    "ConversationSession",
    "ConversationStore",
    "MemoryFiles",
    "MemoryTelemetry",
    "PydanticAIHistory",
    "StoreDialect",
    "VectorStoreRecall",
    "aimport_checkpoints",
    "import_checkpoints",
    "make_mcp_server",
    "read_message_tool",
    "search_dialog_tool",
]

_HOMES = {
    "CheckpointReport": "integrations.checkpoints",
    "ClaudeMemoryMiddleware": "integrations.claude_memory",
    "ConversationMemoryMiddleware": "integrations.agents",
    "ConversationSession": "integrations.openai_agents",
    "ConversationStore": "integrations.store",
    "MemoryFiles": "integrations.claude_memory",
    "MemoryTelemetry": "integrations.telemetry",
    "PydanticAIHistory": "integrations.pydantic_ai",
    "StoreDialect": "integrations.vector_store_sync",
    "VectorStoreRecall": "integrations.vector_store",
    "aimport_checkpoints": "integrations.checkpoints",
    "import_checkpoints": "integrations.checkpoints",
    "make_mcp_server": "integrations.mcp_server",
    "read_message_tool": "integrations.read_tool",
    "search_dialog_tool": "integrations.search_tool",
}

__getattr__, __dir__ = load_lazily(__name__, _HOMES)
