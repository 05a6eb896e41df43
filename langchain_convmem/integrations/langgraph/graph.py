"""A ready graph: recall, model, record, and summarize where the memory has a summarizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.runnables import Runnable

from langchain_convmem.integrations.langgraph.nodes import (
    model_node,
    recall_node,
    record_node,
    summarize_node,
)
from langchain_convmem.integrations.langgraph.state import MemoryState
from langchain_convmem.memory import ConversationMemory

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph

__all__ = ["memory_graph"]


def memory_graph(
    memory: ConversationMemory,
    model: Runnable[Any, Any],
    *,
    state_schema: type[Any] = MemoryState,
    recall: bool = True,
    max_tokens: int = 1000,
    k: int | None = None,
    history_tokens: int | None = None,
    follow_edits: bool = True,
    checkpointer: BaseCheckpointSaver[Any] | bool | None = None,
    name: str = "memory",
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return a graph of the nodes `recall`, `model` and `record`, and `summarize` if there is need.

    It runs by itself, or as a node of another graph whose state has the same keys. Call it with
    `config={"configurable": {"thread_id": ..., "user_id": ...}}`; `thread_id` is required. Per
    call, `configurable` also takes `recall`, `max_tokens`, `k` and `remember=False`.

    Args:
        memory: Whose log and recall; stays the caller's to close.
        model: What `ConversationMemory.wrap` takes: a chat model, a chain or an agent.
        state_schema: A TypedDict, pydantic model or dataclass. With a key `messages` (such as
            LangGraph's `MessagesState`) the state keeps the messages, and the log follows it; with
            the keys of `MemoryState` it holds ids and plain values.
        recall: Whether to recall lines of earlier conversations.
        max_tokens: Budget of the recalled text (characters / 4).
        k: Recall exactly so many blocks instead.
        history_tokens: Budget of what was said in the thread before; None is all of it.
        follow_edits: See `recall_node`.
        checkpointer: LangGraph's; None takes that of the graph around it, if there is one.
        name: The graph's name in traces.

    Raises:
        MissingExtraError: If langgraph is not installed.
    """
    limits: dict[str, Any] = {"recall": recall, "max_tokens": max_tokens, "k": k}
    recalling = recall_node(memory, **limits, follow_edits=follow_edits)
    calling = model_node(memory, model, **limits, history_tokens=history_tokens)
    recording = record_node(memory, follow_edits=follow_edits)

    from langgraph.graph import END, START, StateGraph

    builder = StateGraph(state_schema)
    builder.add_node("recall", recalling)
    builder.add_node("model", calling)
    builder.add_node("record", recording)
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "model")
    builder.add_edge("model", "record")
    if memory.summarizes:
        builder.add_node("summarize", summarize_node(memory))
        builder.add_edge("record", "summarize")
        builder.add_edge("summarize", END)
    else:
        builder.add_edge("record", END)
    return builder.compile(checkpointer=checkpointer, name=name)
