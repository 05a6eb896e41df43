"""What joins this package to others; each part is imported only when asked for.

`BaseStoreLog` needs the extra `langgraph`, `ConversationMemoryMiddleware` the extra `agents`;
`search_dialog_tool` and `VectorStoreRecall` need neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_convmem._lazy import lazy_names

if TYPE_CHECKING:
    from langchain_convmem.integrations.agents import ConversationMemoryMiddleware
    from langchain_convmem.integrations.base_store_log import BaseStoreLog
    from langchain_convmem.integrations.search_tool import search_dialog_tool
    from langchain_convmem.integrations.vector_store import VectorStoreRecall
    from langchain_convmem.integrations.vector_store_sync import StoreDialect

__all__ = [
    "BaseStoreLog",
    "ConversationMemoryMiddleware",
    "StoreDialect",
    "VectorStoreRecall",
    "search_dialog_tool",
]

_HOMES = {
    "BaseStoreLog": "integrations.base_store_log",
    "ConversationMemoryMiddleware": "integrations.agents",
    "StoreDialect": "integrations.vector_store_sync",
    "VectorStoreRecall": "integrations.vector_store",
    "search_dialog_tool": "integrations.search_tool",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
