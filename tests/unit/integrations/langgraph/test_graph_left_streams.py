"""Synchronous streams whose reader leaves: what LangGraph does, and what is stored."""

from __future__ import annotations

import threading
from contextlib import closing

from graphs import answer_of, says, shown, spoken
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from scripted_chat import ScriptedChatModel, at

from langchain_convmem.integrations.langgraph import (
    create_memory_graph,
    model_node,
    recall_node,
    record_node,
)


def _leave(graph, text="Where?", **options):
    """Read the first piece of a stream, and no more."""
    more = {"stream_mode": "messages", **options}
    with closing(graph.stream(says(text), at(), **more)) as parts:
        return next(parts)


# -- LangGraph ------------------------------------------------------------------------------------


def test_langgraph_lets_a_node_end_and_starts_no_other_when_a_reader_leaves():
    """Nothing tells the node: so a graph of the application's own cannot keep what it says."""
    may_go_on, ran = threading.Event(), []

    def speak(state, config, writer):
        try:
            writer("a piece")
            may_go_on.wait(60)
            ran.append("came to its end")
        except BaseException as error:
            ran.append(error)
            raise
        return {"messages": [AIMessage("All of it.")]}

    builder = StateGraph(MessagesState)
    builder.add_node("speak", speak)
    builder.add_node("keep", lambda state: ran.append("keep"))
    builder.add_edge(START, "speak")
    builder.add_edge("speak", "keep")
    graph = builder.compile(checkpointer=InMemorySaver())
    parts = graph.stream(says("Hi"), at(), stream_mode="custom")
    assert next(parts) == "a piece"
    may_go_on.set()
    parts.close()  # waits for the node
    assert ran == ["came to its end"]
    graph.invoke(says("Well?"), at())
    said = [one.text for one in graph.get_state(at()).values["messages"]]
    assert said == ["Hi", "Well?", "All of it."], "the state never holds what was said first"


def test_a_graph_of_ones_own_keeps_the_question_of_a_stream_that_is_left(memory, saver):
    model = ScriptedChatModel(replies=["In the hall.", "At noon."])
    builder = StateGraph(MessagesState)
    builder.add_node("recall", recall_node(memory))
    builder.add_node("model", model_node(memory, model))
    builder.add_node("record", record_node(memory))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "model")
    builder.add_edge("model", "record")
    _leave(builder.compile(checkpointer=saver))
    assert spoken(memory) == ["Where?"]


# -- a memory graph -------------------------------------------------------------------------------


def test_a_question_that_comes_again_after_its_reader_left_has_one_answer(memory, saver):
    model = ScriptedChatModel(replies=["In the hall.", "In the yard."])
    graph = create_memory_graph(memory, model, checkpointer=saver)
    with closing(graph.stream(says("Where?", "q1"), at(), stream_mode="messages")) as parts:
        next(parts)
    graph.invoke(says("Where?", "q1"), at())
    assert shown(memory) == ["Where?", "In the yard."]


def test_a_run_that_is_resumed_after_its_reader_left_has_one_answer(memory, saver):
    model = ScriptedChatModel(replies=["In the hall.", "In the yard."])
    graph = create_memory_graph(memory, model, checkpointer=saver)
    _leave(graph)
    reply = answer_of(graph.invoke(None, at()))
    assert shown(memory) == ["Where?", reply]


def test_a_reply_that_waits_for_a_human_is_not_stored_before(memory, saver):
    model = ScriptedChatModel(replies=["In the hall."])
    graph = create_memory_graph(memory, model, checkpointer=saver)
    value, modes = says("Where?"), ["messages", "updates"]
    with closing(
        graph.stream(value, at(), stream_mode=modes, interrupt_before=["record"])
    ) as parts:
        for mode, part in parts:
            if mode == "updates" and "__interrupt__" in part:
                break
    assert spoken(memory) == ["Where?"]
    graph.invoke(None, at())
    assert spoken(memory) == ["Where?", "In the hall."]


def test_of_a_turn_that_is_not_to_be_stored_nothing_is(memory, saver):
    model = ScriptedChatModel(replies=["In the hall."])
    graph = create_memory_graph(memory, model, checkpointer=saver, remember=False)
    _leave(graph)
    assert spoken(memory) == []


def test_who_reads_to_the_end_finds_the_reply_stored_once(memory, saver):
    model = ScriptedChatModel(replies=["In the hall."])
    graph = create_memory_graph(memory, model, checkpointer=saver)
    for named in (graph, graph.with_config(tags=["a"])):
        list(named.stream(says("Where?"), at(), stream_mode="messages"))
    assert shown(memory) == ["Where?", "In the hall.", "Where?", "In the hall."]
    assert len(spoken(memory)) == 4
