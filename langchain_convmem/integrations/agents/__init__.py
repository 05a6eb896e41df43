"""Memory for agents made with `langchain.agents.create_agent`.

`ConversationMemoryMiddleware` needs the extra `agents`; `search_dialog_tool` needs nothing more.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_convmem.integrations.agents.middleware import ConversationMemoryMiddleware
    from langchain_convmem.integrations.agents.search_dialog import search_dialog_tool

__all__ = ["ConversationMemoryMiddleware", "search_dialog_tool"]

_HOMES = {"ConversationMemoryMiddleware": "middleware", "search_dialog_tool": "search_dialog"}


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
