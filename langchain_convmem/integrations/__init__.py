"""What joins this package to others; each part is imported only when asked for.

`ConversationMemoryMiddleware` needs the extra `agents`; the others need none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_convmem.lazy_names import lazy_names

if TYPE_CHECKING:
    from langchain_convmem.integrations.agents.middleware import ConversationMemoryMiddleware
    from langchain_convmem.integrations.agents.search_dialog import search_dialog_tool
    from langchain_convmem.integrations.vector_store_dialects import StoreDialect
    from langchain_convmem.integrations.vector_store_recall import VectorStoreRecall

__all__ = [
    "ConversationMemoryMiddleware",
    "StoreDialect",
    "VectorStoreRecall",
    "search_dialog_tool",
]

_HOMES = {
    "ConversationMemoryMiddleware": "agents.middleware",
    "StoreDialect": "vector_store_dialects",
    "VectorStoreRecall": "vector_store_recall",
    "search_dialog_tool": "agents.search_dialog",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
