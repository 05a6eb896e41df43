from __future__ import annotations

import logging

import pytest
from graphs import FORMS, KINDS, answer_of, echo, says, shown
from langchain_core.messages import HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from scripted_chat import ScriptedChatModel, at

from langchain_convmem.integrations.langgraph import MemoryState, create_memory_graph

PLAIN = (str, int, float, bool, type(None))


def is_plain(value):
    if isinstance(value, dict):
        return all(map(is_plain, (*value, *value.values())))
    return all(map(is_plain, value)) if isinstance(value, list) else isinstance(value, PLAIN)


@pytest.mark.parametrize("schema", FORMS)
def test_a_strict_checkpointer_reads_back_all_that_a_turn_puts_into_it(
    memory, saver, schema, caplog
):
    graph = create_memory_graph(
        memory, ScriptedChatModel(replies=[echo]), state_schema=schema, checkpointer=saver
    )
    with caplog.at_level(logging.WARNING):
        graph.invoke(says(schema, "one", "h1"), at(), interrupt_before=["record"])
        graph.invoke(None, at())
        graph.invoke(says(schema, "two"), at())
        [*_] = graph.get_state_history(at())
    assert shown(memory) == ["one", "re: one", "two", "re: two"]
    assert caplog.records == []


def test_a_state_of_ids_puts_nothing_but_plain_values_into_a_checkpointer(memory, saver):
    graph = create_memory_graph(memory, ScriptedChatModel(replies=[echo]), checkpointer=saver)
    graph.invoke({"input": "I parked on level C."}, at("monday"))
    graph.invoke({"input": "Where did I park?"}, at())
    checkpoints = list(saver.list(at()))
    values = [one.checkpoint["channel_values"] for one in checkpoints]
    writes = [write for one in checkpoints for _, _, write in one.pending_writes]
    assert any(value.get("recalled_ids") for value in values)
    assert is_plain([*values, *writes])


def test_the_state_of_a_long_chat_grows_by_nothing(memory, saver):
    graph = create_memory_graph(
        memory, ScriptedChatModel(replies=["Noted."]), checkpointer=saver, recall=False
    )
    sizes = []
    for _ in range(20):
        graph.invoke({"input": "And then?"}, at(), durability="exit")
        newest = next(saver.list(at()))
        sizes.append(len(str(newest.checkpoint["channel_values"])))
    assert len(set(sizes)) == 1


@pytest.mark.parametrize("schema", KINDS)
def test_a_chat_goes_on_in_every_checkpointer(filed, saver, schema):
    model = ScriptedChatModel(replies=[echo])
    for text in ("one", "two"):
        graph = create_memory_graph(filed, model, state_schema=schema, checkpointer=saver)
        assert answer_of(graph.invoke(says(schema, text), at())) == f"re: {text}"
    assert [one.text for one in model.seen[1]] == ["one", "re: one", "two"]
    assert shown(filed) == ["one", "re: one", "two", "re: two"]


# -- inside another graph -------------------------------------------------------------------------


def outer(inner, schema, saver):
    builder = StateGraph(schema)
    builder.add_node("chat", inner)
    builder.add_node("after", lambda state: {})
    builder.add_edge(START, "chat")
    builder.add_edge("chat", "after")
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("schema", FORMS)
def test_the_graph_is_a_node_of_a_graph_with_the_same_keys(memory, saver, schema):
    model = ScriptedChatModel(replies=[echo])
    graph = outer(create_memory_graph(memory, model, state_schema=schema), schema, saver)
    for text in ("one", "two"):
        assert answer_of(graph.invoke(says(schema, text), at())) == f"re: {text}"
    assert [one.text for one in model.seen[1]] == ["one", "re: one", "two"]
    assert shown(memory) == ["one", "re: one", "two", "re: two"]


@pytest.mark.parametrize("schema", KINDS)
def test_a_subgraph_that_was_interrupted_goes_on_where_it_was(memory, saver, schema):
    model = ScriptedChatModel(replies=[echo])
    graph = outer(create_memory_graph(memory, model, state_schema=schema), schema, saver)
    graph.invoke(says(schema, "one"), at())
    stream = graph.stream(says(schema, "two"), at(), interrupt_before=["model"], subgraphs=True)
    [*_] = stream
    graph.invoke(None, at())
    assert shown(memory) == ["one", "re: one", "two", "re: two"]
    assert len(model.seen) == 2


def test_the_graph_is_called_from_a_node_with_a_state_of_its_own(memory, saver):
    chat = create_memory_graph(memory, ScriptedChatModel(replies=[echo]))

    def asking(state):
        return {"messages": [("ai", chat.invoke({"input": state["messages"][-1].text})["answer"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("asking", asking)
    builder.add_edge(START, "asking")
    graph = builder.compile(checkpointer=saver)
    for text in ("one", "two"):
        graph.invoke({"messages": [HumanMessage(text)]}, at())
    assert shown(memory) == ["one", "re: one", "two", "re: two"]


def test_a_graph_with_a_memory_of_its_own_inside_another_is_saved_as_its_own(memory, saver):
    chat = create_memory_graph(memory, ScriptedChatModel(replies=[echo]), checkpointer=True)
    builder = StateGraph(MemoryState)
    builder.add_node("chat", chat)
    builder.add_edge(START, "chat")
    graph = builder.compile(checkpointer=saver)
    for text in ("one", "two"):
        graph.invoke({"input": text}, at())
    assert shown(memory) == ["one", "re: one", "two", "re: two"]
