"""States, calls and looks for tests of the LangGraph nodes."""

from __future__ import annotations

from langchain_core.messages import HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from scripted_chat import at

from langchain_convmem.integrations.langgraph import recall_node, record_node
from langchain_convmem.message_log import MessageLog


class TitledState(MessagesState):
    title: str


FORMS = [MessagesState, TitledState]
"""The state, and one with more keys."""


def graph_of(memory, *nodes, saver=None, schema=MessagesState):
    """Return a graph with named nodes of one's own between those that recall and record."""
    builder = StateGraph(schema)
    builder.add_sequence([("recall", recall_node(memory)), *nodes, ("record", record_node(memory))])
    builder.add_edge(START, "recall")
    return builder.compile(checkpointer=saver)


def says(text, message_id=None):
    """Return the input of a graph."""
    return {"messages": [HumanMessage(text, id=message_id)]}


def echo(messages):
    """Answer with the line said last, whatever was recalled or not yet answered before it."""
    content = messages[-1].content
    said = content if isinstance(content, str) else content[-1]["text"]
    return f"re: {said.splitlines()[-1]}"


def answer_of(state):
    """Return the text of the reply that a graph ended with."""
    answer = state["messages"][-1]
    return str(answer.text)


def shown(memory, thread_id="t", user_id="ana"):
    """Return the texts of a thread's view, in order."""
    history = memory.history(thread_id, user_id=user_id)
    return [text for turn in history.turns for text in turn.contents]


def spoken(memory, thread_id="t", user_id="ana"):
    """Return the texts of all that was ever stored in a thread, in order."""
    history = memory.history(thread_id, user_id=user_id)
    return [text for entry in history.entries for text in entry.contents]


def messages_of(graph, thread_id="t"):
    """Return the messages of a graph's state."""
    return graph.get_state(at(thread_id)).values["messages"]


def snapshot(graph, holds, thread_id="t"):
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

    def __init__(self, log, *crashes_at):
        self._log, self._crashes_at, self._appends = log, crashes_at, 0

    def __getattr__(self, name):
        return getattr(self._log, name)

    def append(self, *args, **kwargs):
        entries = self._log.append(*args, **kwargs)
        self._appends += 1
        if self._appends in self._crashes_at:
            raise Crash
        return entries
