"""Integrations with other packages; each module is imported on first use.

`ConversationMemoryMiddleware` needs the extra `agents`, `make_mcp_server` the extra `mcp`,
`ConversationStore` the extra `langgraph`; the others need none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_convmem._lazy import load_lazily

if TYPE_CHECKING:
    from langchain_convmem.integrations.agents import (
        ConversationMemoryMiddleware as ConversationMemoryMiddleware,
    )
    from langchain_convmem.integrations.mcp_server import make_mcp_server as make_mcp_server
    from langchain_convmem.integrations.store import ConversationStore as ConversationStore
    from langchain_convmem.integrations.tools import create_search_tool as create_search_tool
    from langchain_convmem.integrations.vector_store import VectorStoreRecall as VectorStoreRecall

__getattr__, __dir__, __all__ = load_lazily(__name__)
