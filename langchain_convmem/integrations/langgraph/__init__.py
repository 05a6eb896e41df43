"""A memory in LangGraph: the nodes `recall`, `model` and `record`, and a graph made of them.

Needs the extra `langgraph`. The log keeps what was said; a checkpointer keeps where a graph stands.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_convmem.integrations.langgraph.graph import memory_graph
    from langchain_convmem.integrations.langgraph.nodes import (
        amodel_messages,
        model_messages,
        model_node,
        recall_node,
        record_node,
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
]

_HOMES = {
    "MemoryState": "state",
    "amodel_messages": "nodes",
    "memory_graph": "graph",
    "model_messages": "nodes",
    "model_node": "nodes",
    "recall_node": "nodes",
    "record_node": "nodes",
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
