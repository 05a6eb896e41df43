"""The composition root: log, recall and history as one memory, and as LangChain Runnables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_convmem.memory.conversation_memory import ConversationMemory
from langchain_convmem.views.drafting import WriteHook

if TYPE_CHECKING:
    from langchain_convmem.memory.wrapping import RememberingRunnable

__all__ = ["ConversationMemory", "RememberingRunnable", "WriteHook"]


def __getattr__(name: str) -> Any:
    """Import the Runnable when it is first asked for: most of its import time is LangChain's."""
    if name != "RememberingRunnable":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from langchain_convmem.memory.wrapping import RememberingRunnable

    return RememberingRunnable
