"""The composition root: log, recall and history as one memory, and as LangChain Runnables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_convmem.lazy_names import lazy_names
from langchain_convmem.memory.conversation_memory import ConversationMemory
from langchain_convmem.views.drafting import WriteHook

if TYPE_CHECKING:
    from langchain_convmem.memory.conversing import ThreadOptions
    from langchain_convmem.memory.memory_options import MemoryOptions
    from langchain_convmem.memory.summarizing_memory import SummarizingMemory
    from langchain_convmem.memory.thread_stats import ThreadStats
    from langchain_convmem.memory.wrapping import RememberingRunnable

__all__ = [
    "ConversationMemory",
    "MemoryOptions",
    "RememberingRunnable",
    "SummarizingMemory",
    "ThreadOptions",
    "ThreadStats",
    "WriteHook",
]

_LATER = {
    "MemoryOptions": "memory_options",
    "RememberingRunnable": "wrapping",
    "SummarizingMemory": "summarizing_memory",
    "ThreadOptions": "conversing",
    "ThreadStats": "thread_stats",
}
"""What is imported when it is first asked for: most of its import time is LangChain's."""

__getattr__, __dir__ = lazy_names(__name__, _LATER)
