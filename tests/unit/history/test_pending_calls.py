"""A call that waits for an approval is open in a history, and closed for a provider."""

from __future__ import annotations

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_convmem import ConversationMemory


def make_history(memory, *results):
    calls = [{"name": "send", "args": {}, "id": name} for name in ("c1", "c2")]
    history = memory.history("t", user_id="ana")
    history.add_messages([HumanMessage("Send both."), AIMessage("", tool_calls=calls), *results])
    return history


def test_pending_calls_are_open_in_messages():
    with ConversationMemory.open(":memory:") as memory:
        history = make_history(memory)
        assert [message.type for message in history.messages] == ["human", "ai"]
        assert len(history.messages[-1].tool_calls) == 2
        closed = [message.type for message in history.context().messages]
        assert closed == ["human", "ai", "tool", "tool"]


def test_of_parallel_calls_the_answered_ones_have_their_results():
    with ConversationMemory.open(":memory:") as memory:
        history = make_history(memory, ToolMessage("sent", tool_call_id="c2"))
        assert [message.text for message in history.messages if message.type == "tool"] == ["sent"]


def test_calls_that_something_follows_stay_closed():
    with ConversationMemory.open(":memory:") as memory:
        history = make_history(memory, HumanMessage("Never mind."))
        assert [message.type for message in history.messages] == [
            *("human", "ai", "tool", "tool"),
            "human",
        ]
