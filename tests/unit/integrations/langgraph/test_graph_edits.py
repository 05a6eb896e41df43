from __future__ import annotations

import pytest
from graphs import echo, messages_of, says, shown, spoken
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from scripted_chat import ScriptedChatModel, at

from langchain_convmem.integrations.langgraph import (
    create_memory_graph,
    model_node,
    recall_node,
    record_node,
)


@pytest.fixture
def model():
    return ScriptedChatModel(replies=[echo])


@pytest.fixture
def graph(memory, saver, model):
    return create_memory_graph(memory, model, checkpointer=saver)


def chat(graph, *texts):
    for text in texts:
        graph.invoke(says(text), at())


def change(graph, *messages):
    graph.update_state(at(), {"messages": list(messages)})


def remove(graph, *numbers):
    messages = messages_of(graph)
    change(graph, *[RemoveMessage(id=messages[number].id) for number in numbers])


def controls(memory):
    entries = memory.history("t", user_id="ana").entries
    return [entry.control.reason for entry in entries if entry.control is not None]


@pytest.mark.parametrize(
    ("numbers", "left"),
    [
        ([0, 1], ["two", "re: two", "three", "re: three"]),
        ([2, 3], ["one", "re: one", "three", "re: three"]),
        ([4, 5], ["one", "re: one", "two", "re: two"]),
        ([1], ["one", "two", "re: two", "three", "re: three"]),
    ],
)
def test_removed_messages_go_out_of_the_views_by_a_control_entry(
    memory, model, graph, numbers, left
):
    chat(graph, "one", "two", "three")
    remove(graph, *numbers)
    chat(graph, "four")
    assert shown(memory) == [*left, "four", "re: four"]
    assert "three" in model.seen[-1][-2].text or 4 in numbers
    assert controls(memory) == ["rewind"]
    assert len(spoken(memory)) == 8


def test_removing_all_messages_begins_anew(memory, model, graph):
    chat(graph, "one", "two")
    change(graph, RemoveMessage(id=REMOVE_ALL_MESSAGES))
    chat(graph, "three")
    assert shown(memory) == ["three", "re: three"]
    assert [one.text for one in model.seen[-1]] == ["three"]
    assert spoken(memory)[:2] == ["one", "re: one"]


def test_a_message_with_the_id_of_another_takes_its_place(memory, model, graph):
    chat(graph, "one", "two")
    question, answer = messages_of(graph)[:2]
    change(graph, HumanMessage("ONE", id=question.id), AIMessage("RE: ONE", id=answer.id))
    chat(graph, "three")
    assert shown(memory)[:4] == ["ONE", "RE: ONE", "two", "re: two"]
    assert [one.text for one in model.seen[-1]][:2] == ["ONE", "RE: ONE"]
    assert controls(memory) == ["replaced", "replaced"]


def test_what_is_edited_in_the_log_stays_as_it_was_edited(memory, model, graph):
    chat(graph, "one", "two")
    history = memory.history("t", user_id="ana")
    history.replace(history.turns[-1].id, "RE: TWO")
    chat(graph, "three")
    assert shown(memory) == ["one", "re: one", "two", "RE: TWO", "three", "re: three"]
    assert [one.text for one in model.seen[-1]][-2:] == ["RE: TWO", "three"]


def test_messages_trimmed_to_keep_the_state_small_stay_in_the_log_if_told_so(memory, saver, model):
    def trim(state):
        return {"messages": [RemoveMessage(id=one.id) for one in state["messages"][:-2]]}

    builder = StateGraph(MessagesState)
    builder.add_node("recall", recall_node(memory, follow_edits=False))
    builder.add_node("model", model_node(memory, model))
    builder.add_node("record", record_node(memory, follow_edits=False))
    builder.add_node("trim", trim)
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "model")
    builder.add_edge("model", "record")
    builder.add_edge("record", "trim")
    graph = builder.compile(checkpointer=saver)
    chat(graph, "one", "two", "three")
    assert len(messages_of(graph)) == 2
    assert [one.text for one in model.seen[-1]] == ["one", "re: one", "two", "re: two", "three"]


def test_what_another_wrote_to_the_thread_is_not_taken_for_removed(memory, graph):
    chat(graph, "one")
    memory.history("t", user_id="ana").add("user", "from elsewhere")
    chat(graph, "two")
    assert shown(memory) == ["one", "re: one", "from elsewhere", "two", "re: two"]
