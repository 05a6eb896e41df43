from __future__ import annotations

import pytest
from graphs import Crash, CrashingLog, says, shown, spoken
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import RetryPolicy
from scripted_chat import FailingLog, ProviderError, ScriptedChatModel, at

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import LogUnavailableError
from langchain_convmem.integrations.langgraph import (
    create_memory_graph,
    model_messages,
    recall_node,
    record_node,
)

# -- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("crash", [1, 2])
def test_a_node_that_stopped_right_after_its_write_stores_nothing_twice(memory, saver, crash):
    crashing = ConversationMemory(CrashingLog(memory.log, crash))
    model = ScriptedChatModel(replies=["On level C."])
    graph = create_memory_graph(crashing, model, checkpointer=saver)
    with pytest.raises(Crash):
        graph.invoke(says("Where?"), at(), durability="sync")
    graph = create_memory_graph(memory, model, checkpointer=saver)
    graph.invoke(None, at(), durability="sync")
    assert spoken(memory) == ["Where?", "On level C."]


def test_a_reply_that_could_not_be_written_is_raised_and_written_on_resuming(memory, saver):
    model = ScriptedChatModel(replies=["On level C.", "another"])
    memory = ConversationMemory(FailingLog(memory.log, fails_at=2))
    graph = create_memory_graph(memory, model, checkpointer=saver)
    with pytest.raises(LogUnavailableError):
        graph.invoke(says("Where?"), at())
    graph.invoke(None, at())
    assert spoken(memory) == ["Where?", "On level C."]
    assert len(model.seen) == 1


def test_a_retry_policy_stores_nothing_twice(memory):
    memory = ConversationMemory(CrashingLog(memory.log))
    failures = iter([ProviderError("once"), ProviderError("twice")])

    def shaky(state, config):
        model_messages(memory, state, config)
        for failure in failures:
            raise failure
        return {"messages": [("ai", "At last.")]}

    policy = RetryPolicy(max_attempts=3, initial_interval=0, jitter=False, retry_on=ProviderError)
    builder = StateGraph(MessagesState)
    builder.add_node("recall", recall_node(memory))
    builder.add_node("shaky", shaky, retry_policy=policy)
    builder.add_node("record", record_node(memory), retry_policy=policy)
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "shaky")
    builder.add_edge("shaky", "record")
    builder.compile().invoke(says("Hi"), at())
    assert spoken(memory) == ["Hi", "At last."]


def test_a_turn_of_very_many_messages_is_stored_once(memory, saver):
    parts = [AIMessage(f"part {number}") for number in range(80)]

    def a_graph(memory):
        builder = StateGraph(MessagesState)
        builder.add_node("recall", recall_node(memory))
        builder.add_node("answering", lambda state: {"messages": parts})
        builder.add_node("record", record_node(memory))
        builder.add_edge(START, "recall")
        builder.add_edge("recall", "answering")
        builder.add_edge("answering", "record")
        return builder.compile(checkpointer=saver)

    with pytest.raises(Crash):
        a_graph(ConversationMemory(CrashingLog(memory.log, 2))).invoke(says("Go on."), at())
    a_graph(memory).invoke(None, at())
    assert len(spoken(memory)) == 81
    assert shown(memory)[-1] == "part 79"
