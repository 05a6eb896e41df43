from __future__ import annotations

from typing import Any

import pytest
from graphs import messages_of, says, spoken
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from scripted_chat import ScriptedChatModel, at

from langchain_convmem.integrations.langgraph import (
    create_memory_graph,
    model_messages,
    model_node,
    recall_node,
    record_node,
)


def test_a_node_that_asks_a_human_runs_again_from_its_start_and_doubles_nothing(memory, saver):
    model = ScriptedChatModel(replies=["On level C."])

    def asking(state, config):
        said = model_messages(memory, state, config)
        approved = interrupt({"question": "May I answer?"})
        reply = model.invoke([*said]).text if approved else "I may not say."
        return {"messages": [("ai", reply)]}

    builder = StateGraph(MessagesState)
    builder.add_node("recall", recall_node(memory))
    builder.add_node("asking", asking)
    builder.add_node("record", record_node(memory))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "asking")
    builder.add_edge("asking", "record")
    graph = builder.compile(checkpointer=saver)

    graph.invoke(says("Where?"), at())
    assert spoken(memory) == ["Where?"]
    graph.invoke(Command(resume=True), at())
    assert spoken(memory) == ["Where?", "On level C."]


def test_a_reply_that_a_human_corrects_before_it_is_recorded_is_stored_as_corrected(memory, saver):
    model = ScriptedChatModel(replies=["On level D."])
    graph = create_memory_graph(memory, model, checkpointer=saver)
    graph.invoke(says("Where?"), at(), interrupt_before=["record"])
    reply = messages_of(graph)[-1]
    graph.update_state(at(), {"messages": [AIMessage("On level C.", id=reply.id)]})
    graph.invoke(None, at())
    assert spoken(memory) == ["Where?", "On level C."]


@pytest.mark.parametrize("has_note", [False, True])
def test_a_reply_before_a_pause_is_part_of_what_follows_it(memory, saver, has_note):
    model = ScriptedChatModel(replies=["First draft.", "Final."])

    def approve(state):
        return {"messages": [HumanMessage(interrupt("How is it?"))]}

    class NotedState(MessagesState):
        convmem_turn: Any

    builder = StateGraph(NotedState if has_note else MessagesState)
    builder.add_sequence(
        [
            ("recall", recall_node(memory)),
            ("draft", model_node(memory, model)),
            ("approve", approve),
            ("model", model_node(memory, model)),
            ("record", record_node(memory)),
        ]
    )
    builder.add_edge(START, "recall")
    graph = builder.compile(checkpointer=saver)
    graph.invoke(says("Write a title."), at())
    graph.invoke(Command(resume="Shorter, please."), at())
    told = ["Write a title.", "First draft.", "Shorter, please."]
    assert [message.text for message in model.seen[1]] == told
    assert spoken(memory) == [*told, "Final."]


def test_a_graph_without_a_node_that_records_stores_a_reply_in_the_next_turn(memory, saver):
    model = ScriptedChatModel(replies=["One.", "Two."])

    def answer(state, config):
        return {"messages": [model.invoke(model_messages(memory, state, config))]}

    builder = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
    graph = builder.compile(checkpointer=saver)
    graph.invoke(says("First?"), at())
    graph.invoke(says("Second?"), at())
    assert [message.text for message in model.seen[1]] == ["First?", "One.", "Second?"]
    assert spoken(memory) == ["First?", "One.", "Second?"]
