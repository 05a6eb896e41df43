"""Streams in the shapes that graphs give them: updates, states, tokens with their metadata."""

from __future__ import annotations

from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.runnables import RunnableGenerator
from scripted_chat import at

CALL = {"name": "look", "args": {"where": "garage"}, "id": "c1", "type": "tool_call"}


def _told(memory):
    """Return the thread's entries as (role, text)."""
    entries = memory.history("t", user_id="ana").entries
    return [(entry.role, str(entry.message.text)) for entry in entries]


def test_the_updates_of_a_graph_are_read_node_by_node(memory):
    def updates(inputs):
        for _ in inputs:
            yield {"agent": {"messages": [AIMessage("", tool_calls=[CALL], id="a1")]}}
            yield {"tools": {"messages": [ToolMessage("found", tool_call_id="c1", id="r1")]}}
            yield {"counter": {"steps": 3}}
            yield {"agent": {"messages": [AIMessage("On level three.", id="a2")]}}

    list(memory.wrap(RunnableGenerator(updates), recall=False).stream("Where?", at()))
    assert [role for role, _ in _told(memory)] == ["user", "assistant", "tool", "assistant"]


def _loop():
    return [
        AIMessage("Let me look.", tool_calls=[CALL], id="m1"),
        ToolMessage("level three", tool_call_id="c1"),
        AIMessage("On level three.", id="m2"),
    ]


def test_whole_states_that_grow_are_stored_once(memory):
    def states(inputs):
        for given in inputs:
            state = list(given["messages"])
            for message in _loop():
                yield {"messages": list(state)}
                state.append(message)
            yield {"messages": state}

    list(memory.wrap(RunnableGenerator(states), recall=False).stream("Where?", at()))
    assert [role for role, _ in _told(memory)] == ["user", "assistant", "tool", "assistant"]


def test_tokens_with_their_metadata_are_read_as_tokens(memory):
    def tokens(inputs):
        for _ in inputs:
            for word in ("On ", "level ", "three."):
                yield AIMessageChunk(content=word, id="m1"), {"langgraph_node": "agent"}

    list(memory.wrap(RunnableGenerator(tokens), recall=False).stream("Where?", at()))
    assert _told(memory) == [("user", "Where?"), ("assistant", "On level three.")]
