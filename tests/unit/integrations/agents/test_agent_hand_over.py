"""Several agents in one graph: each reply once, under the name of who said it, and in its turn."""

from __future__ import annotations

from typing import Annotated

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.types import Command
from scripted_agents import agent_with, calls, entries, says, shape, spoken, view
from scripted_chat import ProviderError, ScriptedChatModel, at

from langchain_convmem.views.live import find_live_entries


def said_by(memory):
    return [
        (entry.message.name or entry.role, entry.message.text)
        for entry in find_live_entries(entries(memory))
    ]


def controls(memory):
    return [entry.control.reason for entry in entries(memory) if entry.control is not None]


def an_agent(memory, name, *replies, **options):
    return agent_with(memory, ScriptedChatModel(replies=list(replies)), name=name, **options)


@tool
def ask_expert(place: str, messages: Annotated[list, InjectedState("messages")]) -> Command:
    """Hand over to the expert."""
    done = ToolMessage(f"handed over: {place}", tool_call_id="c0", name="ask_expert")
    update = {"messages": [*messages, done]}
    return Command(goto="expert", graph=Command.PARENT, update=update)


@pytest.mark.parametrize("keep_state", ["all", "turn"])
def test_an_agent_that_hands_over_to_another_leaves_each_message_once_and_named(
    memory, saver, keep_state
):
    options = {"options": {"keep_state": keep_state}}
    over = calls("garage", tool_name="ask_expert")
    host = an_agent(memory, "host", over, "You are welcome.", tools=[ask_expert], **options)
    expert = an_agent(memory, "expert", "On level C.", **options)
    builder = StateGraph(MessagesState).add_node("host", host).add_node("expert", expert)
    graph = builder.add_edge(START, "host").compile(checkpointer=saver)
    graph.invoke(says("Where?"), at())
    assert said_by(memory) == [
        ("user", "Where?"),
        ("host", ""),
        ("ask_expert", "handed over: garage"),
        ("expert", "On level C."),
    ]
    assert len({entry.turn_id for entry in entries(memory)}) == 1
    graph.invoke(says("Thanks."), at())
    assert said_by(memory)[4:] == [("user", "Thanks."), ("host", "You are welcome.")]
    assert controls(memory) == []


def side_by_side(memory, saver, abe, bea):
    builder = StateGraph(MessagesState).add_node("abe", abe).add_node("bea", bea)
    return builder.add_edge(START, "abe").add_edge(START, "bea").compile(checkpointer=saver)


def test_agents_side_by_side_each_leave_their_loop_under_their_own_name(memory, saver):
    abe = an_agent(memory, "abe", calls("yard"), "In the yard.", "Sure.")
    bea = an_agent(memory, "bea", calls("hall", first=1), "In the hall.", "Quite.")
    graph = side_by_side(memory, saver, abe, bea)
    graph.invoke(says("Where?", "q1"), at())
    assert sorted(said_by(memory)) == [
        ("abe", ""),
        ("abe", "In the yard."),
        ("bea", ""),
        ("bea", "In the hall."),
        ("look", "hall: a bicycle"),
        ("look", "yard: a bicycle"),
        ("user", "Where?"),
    ]
    graph.invoke(says("Sure?"), at())
    assert sorted(said_by(memory)[7:]) == [("abe", "Sure."), ("bea", "Quite."), ("user", "Sure?")]
    assert controls(memory) == []
    assert memory.history("t", user_id="ana").context().repairs == ()


def test_of_agents_side_by_side_the_one_that_failed_goes_on_and_the_other_stays(memory):
    saver = InMemorySaver()
    abe = an_agent(memory, "abe", "In the yard.")
    bea = an_agent(memory, "bea", calls("hall"), ProviderError("late"), "In the hall.")
    graph = side_by_side(memory, saver, abe, bea)
    with pytest.raises(ProviderError):
        graph.invoke(says("Where?"), at())
    graph.invoke(None, at())
    assert sorted(said_by(memory)) == [
        ("abe", "In the yard."),
        ("bea", ""),
        ("bea", "In the hall."),
        ("look", "hall: a bicycle"),
        ("user", "Where?"),
    ]
    assert sorted(spoken(memory)) == sorted(view_of_all(memory))


def view_of_all(memory):
    return shape([entry.message for entry in find_live_entries(entries(memory))])


# -- going back, and what was edited or taken back in the log -------------------------------------


def snapshot(agent, holds):
    found = next(one for one in agent.get_state_history(at()) if holds(one))
    return {"configurable": {**found.config["configurable"], "user_id": "ana"}}


def after(text):
    return lambda one: not one.next and one.values["messages"][-1].text == text


@pytest.mark.parametrize("keep_state", ["all", "turn"])
def test_a_branch_comes_back_whole_whatever_of_it_the_state_holds(memory, saver, keep_state):
    agent = an_agent(
        memory,
        None,
        *("One.", "Two.", "Three.", "Other.", "Four."),
        options={"keep_state": keep_state},
        checkpointer=saver,
    )
    for text in ("First?", "Second?", "Third?"):
        agent.invoke(says(text), at())
    agent.invoke(says("Instead?"), snapshot(agent, after("One.")))
    assert view(memory) == ["human: First?", "ai: One.", "human: Instead?", "ai: Other."]
    agent.invoke(says("Fourth?"), snapshot(agent, after("Three.")))
    assert [line for line in view(memory) if line.startswith("ai")] == [
        *("ai: One.", "ai: Two.", "ai: Three.", "ai: Four."),
    ]
