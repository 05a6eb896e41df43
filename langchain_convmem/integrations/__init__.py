"""Integrations with other packages; each module is imported on first use.

`ConversationMemoryMiddleware` needs the extra `agents`, `make_mcp_server` the extra `mcp`,
`ConversationStore` and `import_checkpoints` the extra `langgraph`; the others need none.
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
    from langchain_convmem.integrations.mcp_server import make_mcp_server
    from langchain_convmem.integrations.read_tool import read_message_tool
    from langchain_convmem.integrations.search_tool import search_dialog_tool
    from langchain_convmem.integrations.store import ConversationStore
    from langchain_convmem.integrations.vector_store import VectorStoreRecall

__all__ = [
    "CheckpointReport",
    "ConversationMemoryMiddleware",
    "ConversationStore",
    "VectorStoreRecall",
    "aimport_checkpoints",
    "import_checkpoints",
    "make_mcp_server",
    "read_message_tool",
    "search_dialog_tool",
]

_HOMES = {
    "CheckpointReport": "integrations.checkpoints",
    "ConversationMemoryMiddleware": "integrations.agents",
    "ConversationStore": "integrations.store",
    "VectorStoreRecall": "integrations.vector_store",
    "aimport_checkpoints": "integrations.checkpoints",
    "import_checkpoints": "integrations.checkpoints",
    "make_mcp_server": "integrations.mcp_server",
    "read_message_tool": "integrations.read_tool",
    "search_dialog_tool": "integrations.search_tool",
}

__getattr__, __dir__ = load_lazily(__name__, _HOMES)
