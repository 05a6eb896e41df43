"""Branches side by side, hand-over, subgraphs: each reply once, under its own name, none lost."""

from __future__ import annotations

import pytest
from graphs import messages_of, says, shown, spoken
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt
from scripted_chat import ProviderError, ScriptedChatModel, at

from langchain_convmem.integrations.langgraph import (
    model_node,
    recall_node,
    record_node,
)
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.views.tool_calls import INTERRUPTED_RESULT


def said_by(memory):
    """Return who said what in the thread, as the views have it."""
    return [
        (entry.message.name or entry.role, entry.contents[0])
        for entry in find_live_entries(memory.history("t", user_id="ana").entries)
    ]


def entries(memory):
    return memory.history("t", user_id="ana").entries


def call_of(place, number=0):
    call = {"name": "ask", "args": {"place": place}, "id": f"c{number}", "type": "tool_call"}
    return AIMessage("", tool_calls=[call])


@tool
def ask(place: str) -> str:
    """Ask a person."""
    return f"{place}: {interrupt(place)}"


# -- a tool that waits for a person ---------------------------------------------------------------


def a_tool_loop(memory, saver, model, tools=(ask,)):
    builder = StateGraph(MessagesState)
    builder.add_node("recall", recall_node(memory))
    builder.add_node("model", model_node(memory, model))
    builder.add_node("tools", ToolNode(list(tools)))
    builder.add_node("record", record_node(memory))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "model")
    builder.add_conditional_edges("model", tools_condition, {"tools": "tools", END: "record"})
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("stop", [{}, {"interrupt_before": ["tools"]}])
def test_a_call_that_waits_for_a_person_is_in_the_log_and_goes_on_in_its_turn(memory, saver, stop):
    graph = a_tool_loop(memory, saver, ScriptedChatModel(replies=[call_of("yard"), "It is there."]))
    graph.invoke(says("Where?"), at(), **stop)
    assert [one.role for one in entries(memory)] == ["user", "assistant"]
    assert entries(memory)[1].message.id == messages_of(graph)[1].id
    if stop:
        graph.invoke(None, at())
    graph.invoke(Command(resume="yes"), at())
    assert [one.role for one in entries(memory)] == ["user", "assistant", "tool", "assistant"]
    assert len({one.turn_id for one in entries(memory)}) == 1
    assert shown(memory)[-2:] == ["yard: yes", "It is there."]


def test_a_question_that_comes_instead_of_an_answer_leaves_the_call_closed(memory, saver):
    model = ScriptedChatModel(replies=[call_of("yard"), "Never mind."])
    graph = a_tool_loop(memory, saver, model)
    graph.invoke(says("Where?"), at())
    graph.invoke(says("Forget it."), at())
    assert [one.type for one in model.seen[1]] == ["human", "ai", "tool", "human"]
    assert model.seen[1][2].text == INTERRUPTED_RESULT
    assert shown(memory)[-2:] == ["Forget it.", "Never mind."]


def test_a_call_whose_attempt_came_to_nothing_makes_way_for_the_next(memory):
    @tool("ask")
    def broken(place: str) -> str:
        """Break down."""
        raise ProviderError(place)

    model = ScriptedChatModel(replies=[call_of("yard"), call_of("hall"), "In the hall."])
    with pytest.raises(ProviderError):
        a_tool_loop(memory, None, model, [broken]).invoke(says("Where?", "q"), at())

    @tool("ask")
    def answered(place: str) -> str:
        """Answer."""
        return place

    a_tool_loop(memory, None, model, [answered]).invoke(says("Where?", "q"), at())
    assert [one.text for one in model.seen[1]] == ["Where?"]
    assert shown(memory) == ["Where?", "hall", "In the hall."]
    assert len([one for one in entries(memory) if one.role == "assistant"]) == 3


# -- branches side by side ------------------------------------------------------------------------


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


def test_a_branch_that_failed_is_run_again_and_the_reply_beside_it_stays(memory, saver):
    graph = two_voices(memory, saver, record_each=True, bea=[ProviderError("late"), "bea, later."])
    with pytest.raises(ProviderError):
        graph.invoke(says("Is it so?"), at())
    graph.invoke(None, at())
    assert sorted(spoken(memory)) == ["Is it so?", "abe thinks so.", "bea, later."]
    assert sorted(shown(memory)) == sorted(spoken(memory))


def test_branches_that_are_run_anew_each_take_the_place_of_their_own_reply(memory):
    for number in (1, 2):
        graph = two_voices(memory, None, record_each=True, abe=f"abe {number}", bea=f"bea {number}")
        graph.invoke(says("Is it so?", "q"), at())
    assert sorted(shown(memory)) == ["Is it so?", "abe 2", "bea 2"]


# -- hand-over ------------------------------------------------------------------------------------


def test_a_graph_that_hands_over_to_another_leaves_each_reply_under_its_own_name(memory, saver):
    first = ScriptedChatModel(replies=["Ask the expert.", "Welcome back."])
    expert = ScriptedChatModel(replies=["On level C."])
    builder = StateGraph(MessagesState)
    builder.add_node("recall", recall_node(memory))
    builder.add_node("host", model_node(memory, first, name="host"))
    builder.add_node("expert", model_node(memory, expert, name="expert"))
    builder.add_node("record", record_node(memory))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "host")
    builder.add_edge("host", "expert")
    builder.add_edge("expert", "record")
    graph = builder.compile(checkpointer=saver)
    graph.invoke(says("Where?"), at())
    assert said_by(memory) == [
        ("user", "Where?"),
        ("host", "Ask the expert."),
        ("expert", "On level C."),
    ]
    assert len({one.turn_id for one in entries(memory)}) == 1
