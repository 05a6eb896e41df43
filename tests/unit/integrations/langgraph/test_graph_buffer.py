"""With a relevance buffer, a graph reads it as a wrapped chain does."""

from __future__ import annotations

import asyncio

import pytest
from graphs import says
from langgraph.graph import START, MessagesState, StateGraph
from scripted_chat import ScriptedChatModel, at
from topics import BOAT, DOG, memory_of_topics, memory_with_a_buffer

from langchain_convmem.integrations.langgraph import model_node, recall_node, record_node


@pytest.fixture
def memory():
    with memory_with_a_buffer() as opened:
        yield opened


def graph_of(memory, model):
    builder = StateGraph(MessagesState)
    builder.add_sequence(
        [
            ("recall", recall_node(memory)),
            ("model", model_node(memory, model)),
            ("record", record_node(memory)),
        ]
    )
    builder.add_edge(START, "recall")
    return builder.compile()


def test_what_was_found_stays_in_sight_of_later_turns_latest_first(memory):
    model = ScriptedChatModel(replies=["Red.", "Rex.", "Bye."])
    graph = graph_of(memory, model)
    for text in ("What colour is my boat?", "How is my dog called?", "Thanks!"):
        graph.invoke(says(text), at())
    recalled = model.seen[-1][-1].content[0]["text"]
    assert 0 < recalled.index(DOG) < recalled.index(BOAT)


def test_a_call_that_is_not_remembered_leaves_the_buffer_as_it_is(memory):
    model = ScriptedChatModel(replies=["Red.", "Bye."])
    graph = graph_of(memory, model)
    graph.invoke(says("What colour is my boat?"), at(remember=False))
    assert BOAT in model.seen[-1][-1].content[0]["text"]
    assert memory.recall("Thanks!", user_id="ana", thread_id="t").buffer == ()


@pytest.mark.parametrize("is_async", [False, True])
def test_a_follow_up_recalls_what_its_topic_recalls(is_async):
    with memory_of_topics() as memory:
        model = ScriptedChatModel(replies=["Red.", "In May."])
        graph = graph_of(memory, model)
        for text in ("What colour is my boat?", "and since when?"):
            if is_async:
                asyncio.run(graph.ainvoke(says(text), at()))
            else:
                graph.invoke(says(text), at())
        assert BOAT in model.seen[-1][-1].content[0]["text"]
