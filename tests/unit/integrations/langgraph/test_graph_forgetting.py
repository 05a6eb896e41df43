"""What was forgotten or undone stays so, though a state still holds it; and whose state it is."""

from __future__ import annotations

import json

import pytest
from graphs import FORMS, echo, says, shown, spoken
from langgraph.graph import START, MessagesState, StateGraph
from scripted_chat import ProviderError, ScriptedChatModel, at

from langchain_convmem import ConversationMemory
from langchain_convmem.integrations.langgraph import (
    create_memory_graph,
    model_node,
    recall_node,
    record_node,
)


def a_graph(memory, saver, **options):
    model = ScriptedChatModel(replies=[echo])
    return create_memory_graph(memory, model, checkpointer=saver, **options)


def own_nodes(memory, saver, schema=MessagesState):
    """Return a graph made of the nodes, whose state has the keys of its schema alone."""
    builder = StateGraph(schema)
    builder.add_node("recall", recall_node(memory))
    builder.add_node("model", model_node(memory, ScriptedChatModel(replies=[echo])))
    builder.add_node("record", record_node(memory))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "model")
    builder.add_edge("model", "record")
    return builder.compile(checkpointer=saver)


def chat(graph, *texts):
    for text in texts:
        graph.invoke(says(text), at())


# -- forgotten ------------------------------------------------------------------------------------


@pytest.mark.parametrize("follow_edits", [True, False])
@pytest.mark.parametrize("schema", FORMS)
def test_a_thread_that_was_forgotten_does_not_come_back_from_a_state(
    memory, saver, schema, follow_edits
):
    graph = a_graph(memory, saver, state_schema=schema, follow_edits=follow_edits)
    chat(graph, "The word is hullabaloo.", "one")
    memory.forget(thread_id="t", user_id="ana")
    chat(graph, "two", "three")
    assert shown(memory) == ["two", "re: two", "three", "re: three"]
    assert "hullabaloo" not in str(spoken(memory))


@pytest.mark.parametrize("make", [a_graph, own_nodes])
def test_a_message_that_was_forgotten_does_not_come_back_from_a_state(memory, saver, make):
    graph = make(memory, saver)
    graph.invoke(says("The word is hullabaloo.", "secret"), at())
    chat(graph, "one")
    memory.forget(thread_id="t", user_id="ana", entry_ids=["secret"])
    chat(graph, "two")
    assert spoken(memory)[0] == "re: The word is hullabaloo."
    assert "The word is hullabaloo." not in spoken(memory)
    assert shown(memory)[-2:] == ["two", "re: two"]


def test_what_is_forgotten_while_a_run_waits_does_not_come_back_with_it(memory, saver):
    graph = a_graph(memory, saver)
    chat(graph, "one")
    graph.invoke(says("The code is 1234."), at(), interrupt_before=["model"])
    memory.forget(thread_id="t", user_id="ana")
    graph.invoke(None, at())
    assert spoken(memory) == []  # nor is what answers it stored
    chat(graph, "two")
    assert spoken(memory) == ["two", "re: two"]


def test_a_question_without_an_answer_that_was_forgotten_does_not_come_back(memory, saver):
    model = ScriptedChatModel(replies=[ProviderError(), "One."])
    graph = create_memory_graph(memory, model, checkpointer=saver)
    with pytest.raises(ProviderError):
        graph.invoke(says("The code is 1234."), at())
    memory.forget(thread_id="t", user_id="ana")
    chat(graph, "First?")
    assert spoken(memory) == ["First?", "One."]
    assert [message.text for message in model.seen[1]] == ["First?"]


def test_a_log_that_is_new_gets_what_the_state_holds(memory, saver):
    chat(a_graph(memory, saver), "one")
    with ConversationMemory.open(":memory:") as other:
        chat(a_graph(other, saver), "two")
        assert shown(other) == ["one", "re: one", "two", "re: two"]


@pytest.mark.parametrize("schema", FORMS)
def test_the_note_is_a_plain_value_in_the_state_and_none_that_the_graph_returns(
    memory, saver, schema
):
    graph = a_graph(memory, saver, state_schema=schema)
    assert "convmem_turn" not in graph.invoke(says("one"), at())
    note = graph.get_state(at()).values["convmem_turn"]
    assert json.loads(json.dumps(note)) == note


# -- undone ---------------------------------------------------------------------------------------


def test_what_was_undone_stays_undone_though_the_state_has_it(memory, saver):
    graph = a_graph(memory, saver)
    chat(graph, "one", "two")
    memory.history("t", user_id="ana").undo()
    chat(graph, "three")
    assert shown(memory) == ["one", "re: one", "three", "re: three"]


# -- whose it is ----------------------------------------------------------------------------------


def test_a_thread_may_get_a_user_later(memory, saver):
    graph = a_graph(memory, saver)
    graph.invoke(says("one"), at(user_id=None))
    chat(graph, "two")
    assert shown(memory) == ["one", "re: one", "two", "re: two"]
