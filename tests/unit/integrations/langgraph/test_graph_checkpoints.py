from __future__ import annotations

import logging

import pytest
from graphs import FORMS, answer_of, echo, says, shown
from langchain_core.messages import HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from scripted_chat import ScriptedChatModel, at

from langchain_convmem.integrations.langgraph import create_memory_graph


@pytest.mark.parametrize("schema", FORMS)
def test_a_strict_checkpointer_reads_back_all_that_a_turn_puts_into_it(
    memory, saver, schema, caplog
):
    graph = create_memory_graph(
        memory, ScriptedChatModel(replies=[echo]), state_schema=schema, checkpointer=saver
    )
    with caplog.at_level(logging.WARNING):
        graph.invoke(says("one", "h1"), at(), interrupt_before=["record"])
        graph.invoke(None, at())
        graph.invoke(says("two"), at())
        [*_] = graph.get_state_history(at())
    assert shown(memory) == ["one", "re: one", "two", "re: two"]
    assert caplog.records == []


# -- inside another graph -------------------------------------------------------------------------


def outer(inner, saver, schema=MessagesState):
    builder = StateGraph(schema)
    builder.add_node("chat", inner)
    builder.add_node("after", lambda state: {})
    builder.add_edge(START, "chat")
    builder.add_edge("chat", "after")
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("schema", FORMS)
def test_the_graph_is_a_node_of_a_graph_with_the_same_keys(memory, saver, schema):
    model = ScriptedChatModel(replies=[echo])
    graph = outer(create_memory_graph(memory, model, state_schema=schema), saver, schema)
    for text in ("one", "two"):
        assert answer_of(graph.invoke(says(text), at())) == f"re: {text}"
    assert [one.text for one in model.seen[1]] == ["one", "re: one", "two"]
    assert shown(memory) == ["one", "re: one", "two", "re: two"]


def test_a_subgraph_that_was_interrupted_goes_on_where_it_was(memory, saver):
    model = ScriptedChatModel(replies=[echo])
    graph = outer(create_memory_graph(memory, model), saver)
    graph.invoke(says("one"), at())
    stream = graph.stream(says("two"), at(), interrupt_before=["model"], subgraphs=True)
    [*_] = stream
    graph.invoke(None, at())
    assert shown(memory) == ["one", "re: one", "two", "re: two"]
    assert len(model.seen) == 2


def test_the_graph_is_called_from_a_node_with_a_state_of_its_own(memory, saver):
    chat = create_memory_graph(memory, ScriptedChatModel(replies=[echo]))

    def asking(state):
        return {"messages": [("ai", answer_of(chat.invoke(says(state["messages"][-1].text))))]}

    builder = StateGraph(MessagesState)
    builder.add_node("asking", asking)
    builder.add_edge(START, "asking")
    graph = builder.compile(checkpointer=saver)
    for text in ("one", "two"):
        graph.invoke({"messages": [HumanMessage(text)]}, at())
    assert shown(memory) == ["one", "re: one", "two", "re: two"]


def test_a_graph_with_a_memory_of_its_own_inside_another_is_saved_as_its_own(memory, saver):
    chat = create_memory_graph(memory, ScriptedChatModel(replies=[echo]), checkpointer=True)
    builder = StateGraph(MessagesState)
    builder.add_node("chat", chat)
    builder.add_edge(START, "chat")
    graph = builder.compile(checkpointer=saver)
    for text in ("one", "two"):
        graph.invoke(says(text), at())
    assert shown(memory) == ["one", "re: one", "two", "re: two"]
