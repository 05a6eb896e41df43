"""Beside a checkpointer: nothing is stored twice, runs resume, and the state may stay small."""

from __future__ import annotations

import pytest
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from scripted_agents import agent_with, calls, entries, says, shape, spoken, view
from scripted_chat import FailingLog, ScriptedChatModel, at

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import LogUnavailableError

KEPT = pytest.mark.parametrize("keep_state", ["all", "turn"])
LOOP = ["human: Where?", "ai -> c0", "tool c0: yard: a bicycle", "ai: In the yard."]


@tool
def ask(place: str) -> str:
    """Ask a person."""
    return f"{place}: {interrupt(place)}"


def _loops(*answers, first=0):
    replies = [
        reply
        for number, text in enumerate(answers, first)
        for reply in (calls("yard", first=number), text)
    ]
    return ScriptedChatModel(replies=replies)


def test_nothing_leaves_the_state_before_it_is_in_the_log(memory):
    saver = InMemorySaver()
    agent = agent_with(memory, ScriptedChatModel(replies=["One."]), checkpointer=saver)
    agent.invoke(says("First?"), at())
    broken = ConversationMemory(FailingLog(memory.log, 1))
    agent = agent_with(
        broken,
        ScriptedChatModel(replies=["Two."]),
        options={"keep_state": "turn"},
        checkpointer=saver,
    )
    with pytest.raises(LogUnavailableError):
        agent.invoke(says("Second?"), at())
    assert shape(agent.get_state(at()).values["messages"])[:2] == ["human: First?", "ai: One."]


@KEPT
def test_an_agent_that_had_no_memory_so_far_brings_what_its_state_holds(memory, saver, keep_state):
    from langchain.agents import create_agent
    from scripted_agents import look

    before = create_agent(_loops("In the yard."), [look], checkpointer=saver)
    before.invoke(says("Where?"), at())
    model = ScriptedChatModel(replies=["Yes."])
    agent = agent_with(memory, model, options={"keep_state": keep_state}, checkpointer=saver)
    agent.invoke(says("Sure?"), at())
    assert view(memory) == [*LOOP, "human: Sure?", "ai: Yes."]
    assert len({entry.turn_id for entry in entries(memory)}) == 2


@KEPT
def test_a_run_that_was_interrupted_goes_on_in_the_same_turn(memory, saver, keep_state):
    model = ScriptedChatModel(
        replies=["Hello.", calls("yard", "hall", tool_name="ask"), "Both are there."]
    )
    options = {"keep_state": keep_state}
    agent = agent_with(memory, model, tools=[ask], options=options, checkpointer=saver)
    agent.invoke(says("Hi."), at())
    agent.invoke(says("Where?"), at())
    assert view(memory)[2:4] == ["human: Where?", "ai -> c0 c1"]
    waiting = agent.get_state(at()).interrupts
    agent.invoke(Command(resume={one.id: f"yes, {one.value}" for one in waiting}), at())
    assert view(memory)[3:] == [
        "ai -> c0 c1",
        "tool c0: yard: yes, yard",
        "tool c1: hall: yes, hall",
        "ai: Both are there.",
    ]
    assert sorted(spoken(memory)) == sorted(view(memory)), "tools end in any order"
    assert len({entry.turn_id for entry in entries(memory)}) == 2


def test_a_reply_that_was_stored_and_not_checkpointed_is_replaced_by_the_next(memory):
    """The process died between the log's write and the checkpointer's."""
    saver = InMemorySaver()
    model = ScriptedChatModel(replies=[calls("yard"), "Lost.", "In the yard."])
    agent = agent_with(memory, model, checkpointer=saver)
    agent.invoke(says("Where?"), at())
    snapshots = list(agent.get_state_history(at()))
    before_reply = next(one for one in snapshots if one.values["messages"][-1].type == "tool")
    saver.delete_thread("t")
    agent.update_state(at(), before_reply.values | {}, as_node="tools")
    agent.invoke(None, at())
    assert view(memory) == LOOP
    assert "ai: Lost." in spoken(memory)


# How far the checkpointer is behind when a process dies is a matter of chance by default
# (`durability="async"`), so the two ends of it are tested: not at all, and by the whole turn.
