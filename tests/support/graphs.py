"""States, calls and looks for tests of the LangGraph nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from scripted_chat import at

from langchain_convmem import ConversationMemory
from langchain_convmem.integrations.langgraph import recall_node, record_node
from langchain_convmem.message_log import MessageLog


class TitledState(MessagesState):
    title: str


FORMS = [MessagesState, TitledState]
"""The state, and one with more keys."""


def graph_of(
    memory: ConversationMemory,
    *nodes: tuple[str, Any],
    saver: Any = None,
    schema: Any = MessagesState,
) -> Any:
    """Return a graph with named nodes of one's own between those that recall and record."""
    builder = StateGraph(schema)
    builder.add_sequence([("recall", recall_node(memory)), *nodes, ("record", record_node(memory))])
    builder.add_edge(START, "recall")
    return builder.compile(checkpointer=saver)


def says(text: str, message_id: str | None = None) -> dict[str, Any]:
    """Return the input of a graph."""
    return {"messages": [HumanMessage(text, id=message_id)]}


def echo(messages: list[BaseMessage]) -> str:
    """Answer with the line said last, whatever was recalled or not yet answered before it."""
    content = messages[-1].content
    said = content if isinstance(content, str) else content[-1]["text"]
    return f"re: {said.splitlines()[-1]}"


def answer_of(state: dict[str, Any]) -> str:
    """Return the text of the reply that a graph ended with."""
    answer: BaseMessage = state["messages"][-1]
    return str(answer.text)


def shown(
    memory: ConversationMemory, thread_id: str = "t", user_id: str | None = "ana"
) -> list[str]:
    """Return the texts of a thread's view, in order."""
    history = memory.history(thread_id, user_id=user_id)
    return [text for turn in history.turns for text in turn.contents]


def spoken(
    memory: ConversationMemory, thread_id: str = "t", user_id: str | None = "ana"
) -> list[str]:
    """Return the texts of all that was ever stored in a thread, in order."""
    history = memory.history(thread_id, user_id=user_id)
    return [text for entry in history.entries for text in entry.contents]


def messages_of(graph: Any, thread_id: str = "t") -> list[BaseMessage]:
    """Return the messages of a graph's state."""
    found: list[BaseMessage] = graph.get_state(at(thread_id)).values["messages"]
    return found


def snapshot(graph: Any, holds: Callable[[Any], bool], thread_id: str = "t") -> Any:
    """Return the config of the latest snapshot that holds something, with the user named."""
    found = next(s for s in graph.get_state_history(at(thread_id)) if holds(s))
    return {"configurable": {**found.config["configurable"], "user_id": "ana"}}


class Crash(BaseException):
    """What stops a process in the middle of a node."""


@MessageLog.register
class CrashingLog:
    """Writes, and then stops the process instead of coming back, at the given appends."""

    append_planned = MessageLog.append_planned
    aappend_planned = MessageLog.aappend_planned

    def __init__(self, log: Any, *crashes_at: int) -> None:
        self._log, self._crashes_at, self._appends = log, crashes_at, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def append(self, *args: Any, **kwargs: Any) -> Any:
        entries = self._log.append(*args, **kwargs)
        self._appends += 1
        if self._appends in self._crashes_at:
            raise Crash
        return entries
