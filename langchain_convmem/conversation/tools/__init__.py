"""Tools of a conversation: what a model may call, who allows it, and what it is told."""

from __future__ import annotations

from langchain_convmem.conversation.tools.answering import ResultHook, ToolHandler
from langchain_convmem.conversation.tools.results import cancelled_answers
from langchain_convmem.conversation.tools.tool_set import ToolLike, ToolSet
from langchain_convmem.conversation.tools.unanswered import find_stray_results, unanswered_calls

__all__ = [
    "ResultHook",
    "ToolHandler",
    "ToolLike",
    "ToolSet",
    "cancelled_answers",
    "find_stray_results",
    "unanswered_calls",
]
