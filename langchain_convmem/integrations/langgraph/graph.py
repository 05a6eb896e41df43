"""A ready graph: recall, model, record, and summarize where the memory has a summarizer."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, get_type_hints

from langchain_core.runnables.base import RunnableLike

from langchain_convmem.integrations.langgraph.nodes import memory_nodes
from langchain_convmem.integrations.langgraph.state import MemoryState, with_note
from langchain_convmem.memory import ConversationMemory
from langchain_convmem.turns.options import TurnSettings
from langchain_convmem.views.context import Profile

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph

__all__ = ["memory_graph"]


def memory_graph(
    memory: ConversationMemory,
    model: RunnableLike[Any, Any],
    *,
    state_schema: type[Any] = MemoryState,
    recall: bool = True,
    recall_tokens: int | None = None,
    recall_k: int | None = None,
    history_tokens: int | None = None,
    context_tokens: int | None = None,
    reserved_tokens: int = 0,
    remember: bool = True,
    profile: Profile | None = None,
    follow_edits: bool = True,
    checkpointer: BaseCheckpointSaver[Any] | bool | None = None,
    name: str = "memory",
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return a graph of the nodes `recall`, `model` and `record`, and `summarize` if there is need.

    It runs by itself, or as a node of another graph whose state has the same keys. Call it with
    `config={"configurable": {"thread_id": ..., "user_id": ...}}`; `thread_id` is required. A call
    may set options for itself, by the same names: `"memory": {"recall": False}`, also under
    `configurable`.

    Args:
        memory: Whose log and recall; stays the caller's to close.
        model: What `ConversationMemory.wrap` takes: a chat model, a chain or an agent.
        state_schema: A TypedDict, pydantic model or dataclass. With a key `messages` (such as
            LangGraph's `MessagesState`) the state keeps the messages, and the log follows it; with
            the keys of `MemoryState` it holds ids and plain values.
        recall: Whether to recall lines of earlier conversations.
        recall_tokens: Budget of the recalled text (characters / 4).
        recall_k: Recall exactly so many blocks instead.
        history_tokens: Budget of what was said in the thread before; None is all of it.
        context_tokens: One budget for all that the model gets; see `ConversationMemory.wrap`.
        reserved_tokens: Of these, so many are left for what stands outside the messages.
        remember: Whether turns are stored.
        profile: Whose rules the messages keep; None goes by the model.
        follow_edits: See `recall_node`.
        checkpointer: LangGraph's; None takes that of the graph around it, if there is one.
        name: The graph's name in traces.

    Raises:
        ConfigError: If an option makes no sense.
        MissingExtraError: If langgraph is not installed.
    """
    options: TurnSettings = {
        "recall": recall,
        "recall_tokens": recall_tokens,
        "recall_k": recall_k,
        "history_tokens": history_tokens,
        "context_tokens": context_tokens,
        "reserved_tokens": reserved_tokens,
        "remember": remember,
    }
    nodes = memory_nodes(
        memory,
        options,
        model=model,
        profile=profile,
        follow_edits=follow_edits,
        keeps_lines="recalled_ids" in get_type_hints(state_schema),
    )

    from langgraph.graph import END, START, StateGraph

    builder, noted = StateGraph(state_schema), with_note(state_schema)
    names = ["recall", "model", "record", *(["summarize"] if memory.summarizes else [])]
    for node in names:
        builder.add_node(node, nodes[node], input_schema=noted)
    for before, after in pairwise([START, *names, END]):
        builder.add_edge(before, after)
    return builder.compile(checkpointer=checkpointer, name=name)
