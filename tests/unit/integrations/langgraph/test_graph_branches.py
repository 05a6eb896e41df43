from __future__ import annotations

import operator
import threading
from typing import Annotated, TypedDict

import pytest
from graphs import answer_of, echo, messages_of, says, shown, spoken
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, Send, interrupt
from scripted_chat import ProviderError, ScriptedChatModel, at, entries

from langchain_convmem.integrations.langgraph import (
    create_memory_graph,
    model_node,
    recall_node,
    record_node,
)
from langchain_convmem.views.live import find_live_entries


def said_by(memory):
    """Return who said what in the thread, as the views have it."""
    return [
        (entry.message.name or entry.role, entry.contents[0])
        for entry in find_live_entries(entries(memory))
    ]


@tool
def ask(place: str) -> str:
    """Ask a person."""
    return f"{place}: {interrupt(place)}"


def a_tool_loop(memory, saver, model, tools=(ask,)):
    builder = StateGraph(MessagesState)
    builder.add_sequence([("recall", recall_node(memory)), ("model", model_node(memory, model))])
    builder.add_node("tools", ToolNode(list(tools)))
    builder.add_node("record", record_node(memory))
    builder.add_edge(START, "recall")
    builder.add_conditional_edges("model", tools_condition, {"tools": "tools", END: "record"})
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("stop", [{}, {"interrupt_before": ["tools"]}])
def test_a_call_that_waits_for_a_person_is_in_the_log_and_goes_on_in_its_turn(memory, saver, stop):
    call = {"name": "ask", "args": {"place": "yard"}, "id": "c0", "type": "tool_call"}
    replies = [AIMessage("", tool_calls=[call]), "It is there."]
    graph = a_tool_loop(memory, saver, ScriptedChatModel(replies=replies))
    graph.invoke(says("Where?"), at(), **stop)
    assert [one.role for one in entries(memory)] == ["user", "assistant"]
    assert entries(memory)[1].message.id == messages_of(graph)[1].id
    if stop:
        graph.invoke(None, at())
    graph.invoke(Command(resume="yes"), at())
    assert [one.role for one in entries(memory)] == ["user", "assistant", "tool", "assistant"]
    assert len({one.turn_id for one in entries(memory)}) == 1
    assert shown(memory)[-2:] == ["yard: yes", "It is there."]


def two_voices(memory, saver, *, record_each=False, **replies):
    """Return a graph in which two models answer at once, each in a branch of its own."""
    builder = StateGraph(MessagesState)
    builder.add_node("recall", recall_node(memory))
    builder.add_node("record", record_node(memory))
    builder.add_edge(START, "recall")
    for name in ("bea", "abe"):
        answer = replies.get(name, f"{name} thinks so.")
        model = ScriptedChatModel(replies=answer if isinstance(answer, list) else [answer])
        node = model_node(memory, model, name=name)
        branch = StateGraph(MessagesState).add_node("model", node).add_edge(START, "model")
        if record_each:
            branch.add_node("record", record_node(memory)).add_edge("model", "record")
        builder.add_node(name, branch.compile())
        builder.add_edge("recall", name)
    builder.add_edge(["bea", "abe"], "record")
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("record_each", [False, True])
def test_branches_at_once_each_leave_their_reply_under_their_own_name(memory, saver, record_each):
    graph = two_voices(memory, saver, record_each=record_each)
    for _ in range(2):
        graph.invoke(says("Is it so?"), at())
    turn = [("abe", "abe thinks so."), ("bea", "bea thinks so.")]
    found = said_by(memory)
    assert [found[0], *sorted(found[1:3])] == [("user", "Is it so?"), *turn]
    assert [found[3], *sorted(found[4:])] == [("user", "Is it so?"), *turn]
    assert not [one for one in entries(memory) if one.control is not None]


def test_branches_that_are_run_anew_each_take_the_place_of_their_own_reply(memory):
    for number in (1, 2):
        graph = two_voices(memory, None, record_each=True, abe=f"abe {number}", bea=f"bea {number}")
        graph.invoke(says("Is it so?", "q"), at())
    assert sorted(shown(memory)) == ["Is it so?", "abe 2", "bea 2"]


def test_a_turn_that_ends_last_hides_none_of_those_that_began_while_it_waited(memory, saver):
    asked = {name: threading.Event() for name in ("one", "two")}
    may_answer = {name: threading.Event() for name in asked}

    def answer(messages):
        name = messages[-1].text.splitlines()[-1]
        if name in asked:
            asked[name].set()
            may_answer[name].wait(30)
        return f"re: {name}"

    graph = create_memory_graph(
        memory, ScriptedChatModel(replies=[answer]), checkpointer=saver, recall=False
    )
    waiting = {
        name: threading.Thread(target=graph.invoke, args=(says(name), at())) for name in asked
    }
    for name, thread in waiting.items():
        thread.start()
        assert asked[name].wait(30)
    graph.invoke(says("three"), at())
    for name in ("two", "one"):
        may_answer[name].set()
        waiting[name].join(30)
    assert [entry for entry in entries(memory) if entry.role == "control"] == []
    replies = sorted(text for text in spoken(memory) if text.startswith("re: "))
    assert replies == ["re: one", "re: three", "re: two"]


class Several(TypedDict, total=False):
    questions: list[str]
    answers: Annotated[list[str], operator.add]


def test_questions_sent_to_the_graph_at_once_are_turns_of_their_own(memory, saver):
    chat = create_memory_graph(memory, ScriptedChatModel(replies=[echo]))
    builder = StateGraph(Several)
    builder.add_node("ask", lambda state: {"answers": [answer_of(chat.invoke(state))]})
    builder.add_conditional_edges(
        START, lambda state: [Send("ask", says(one)) for one in state["questions"]]
    )
    graph = builder.compile(checkpointer=saver)
    found = graph.invoke({"questions": ["one", "two", "three"]}, at())
    assert found["answers"] == ["re: one", "re: two", "re: three"]
    turns = {}
    for entry in entries(memory):
        turns.setdefault(entry.turn_id, []).extend(entry.contents)
    assert sorted(turns.values()) == [[one, f"re: {one}"] for one in ("one", "three", "two")]


def test_broken_words_stay_where_a_state_is_kept_that_never_held_them(memory, saver):
    breaking = ScriptedChatModel(replies=["One two three four"], breaks_after=2)
    graph = create_memory_graph(memory, breaking, checkpointer=saver)
    with pytest.raises(ProviderError):
        list(graph.stream(says("Count."), at(), stream_mode="messages"))
    model = ScriptedChatModel(replies=["Three.", "Four."])
    graph = create_memory_graph(memory, model, checkpointer=saver)
    for text in ("Go on.", "And now?"):
        graph.invoke(says(text), at())
    said = ["Count.", "One two ", "Go on.", "Three.", "And now?"]
    assert [one.text for one in model.seen[-1]] == said
    assert shown(memory) == [*said, "Four."]
