"""Memory for agents made with `langchain.agents.create_agent`.

`ConversationMemoryMiddleware` needs the extra `agents`; `search_dialog_tool` needs nothing more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_convmem.lazy_names import lazy_names

if TYPE_CHECKING:
    from langchain_convmem.integrations.agents.middleware import ConversationMemoryMiddleware
    from langchain_convmem.integrations.agents.search_dialog import search_dialog_tool

__all__ = ["ConversationMemoryMiddleware", "search_dialog_tool"]

_HOMES = {"ConversationMemoryMiddleware": "middleware", "search_dialog_tool": "search_dialog"}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
