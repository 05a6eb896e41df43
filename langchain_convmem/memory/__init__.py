"""The composition root: log, recall and history as one memory, and as LangChain Runnables."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from langchain_convmem.memory.conversation_memory import ConversationMemory
from langchain_convmem.views.drafting import WriteHook

if TYPE_CHECKING:
    from langchain_convmem.memory.thread_stats import ThreadStats
    from langchain_convmem.memory.wrapping import RememberingRunnable

__all__ = ["ConversationMemory", "RememberingRunnable", "ThreadStats", "WriteHook"]

_LATER = {"RememberingRunnable": "wrapping", "ThreadStats": "thread_stats"}
"""What is imported when it is first asked for: most of its import time is LangChain's."""


def __getattr__(name: str) -> Any:
    """Import a name when it is first asked for."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
