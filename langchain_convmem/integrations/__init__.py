"""What joins this package to others; each part is imported only when asked for.

`BaseStoreLog` needs the extra `langgraph`, `ConversationMemoryMiddleware` the extra `agents`;
`search_dialog_tool` and `VectorStoreRecall` need neither.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_convmem.integrations.agents.middleware import ConversationMemoryMiddleware
    from langchain_convmem.integrations.agents.search_dialog import search_dialog_tool
    from langchain_convmem.integrations.base_store_log import BaseStoreLog
    from langchain_convmem.integrations.vector_store_dialects import StoreDialect
    from langchain_convmem.integrations.vector_store_recall import VectorStoreRecall

__all__ = [
    "BaseStoreLog",
    "ConversationMemoryMiddleware",
    "StoreDialect",
    "VectorStoreRecall",
    "search_dialog_tool",
]

_HOMES = {
    "BaseStoreLog": "base_store_log",
    "ConversationMemoryMiddleware": "agents.middleware",
    "StoreDialect": "vector_store_dialects",
    "VectorStoreRecall": "vector_store_recall",
    "search_dialog_tool": "agents.search_dialog",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted({*globals(), *__all__})
