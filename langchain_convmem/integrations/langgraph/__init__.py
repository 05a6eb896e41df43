"""A memory in LangGraph: the nodes `recall`, `model`, `record` and `summarize`, and a graph.

Needs the extra `langgraph`. The log keeps what was said; a checkpointer keeps where a graph stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_convmem.lazy_names import lazy_names

if TYPE_CHECKING:
    from langchain_convmem.integrations.langgraph.graph import memory_graph
    from langchain_convmem.integrations.langgraph.nodes import (
        amodel_messages,
        model_messages,
        model_node,
        recall_node,
        record_node,
        summarize_node,
    )
    from langchain_convmem.integrations.langgraph.state import MemoryState

__all__ = [
    "MemoryState",
    "amodel_messages",
    "memory_graph",
    "model_messages",
    "model_node",
    "recall_node",
    "record_node",
    "summarize_node",
]

_HOMES = {
    "MemoryState": "state",
    "amodel_messages": "nodes",
    "memory_graph": "graph",
    "model_messages": "nodes",
    "model_node": "nodes",
    "recall_node": "nodes",
    "record_node": "nodes",
    "summarize_node": "nodes",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
