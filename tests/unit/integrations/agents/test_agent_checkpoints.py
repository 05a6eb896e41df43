"""Beside a checkpointer: nothing is stored twice, runs resume, and the state may stay small."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked_processes import ForkedProcess
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
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


def test_the_state_may_hold_the_latest_turn_only(memory, saver):
    model = _loops("In the yard.", "Still there.")
    agent = agent_with(memory, model, options={"keep_state": "turn"}, checkpointer=saver)
    agent.invoke(says("Where?"), at())
    returned = agent.invoke(says("And now?"), at())
    assert shape(returned["messages"]) == view(memory)[4:]
    assert shape(agent.get_state(at()).values["messages"]) == view(memory)[4:]


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


@KEPT
def test_an_agent_made_anew_goes_on_with_the_same_files(tmp_path: Path, keep_state):
    texts = iter([("Where?", "In the yard."), ("And now?", "Still there."), ("Sure?", "Yes.")])
    for number, (text, reply) in enumerate(texts):
        model = _loops(reply, first=number)
        with (
            ConversationMemory.open(tmp_path / "memory.db") as memory,
            SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as saver,
        ):
            options = {"keep_state": keep_state}
            agent = agent_with(memory, model, options=options, checkpointer=saver)
            agent.invoke(says(text), at())
            assert len(model.seen[1]) == 4 * number + 3
            assert spoken(memory) == view(memory)
            assert len(entries(memory)) == 4 * (number + 1)


_DYING = """
import os, sys
from langgraph.checkpoint.sqlite import SqliteSaver
from langchain_convmem import ConversationMemory
from scripted_agents import agent_with, calls, says
from scripted_chat import ScriptedChatModel, at

def die(messages):
    os._exit(9)

memory = ConversationMemory.open(sys.argv[1] + "/memory.db")
with SqliteSaver.from_conn_string(sys.argv[1] + "/checkpoints.db") as saver:
    model = ScriptedChatModel(replies=["Hello.", calls("yard"), die])
    agent = agent_with(memory, model, options={"keep_state": sys.argv[2]}, checkpointer=saver)
    for text in ("Hi.", "Where?"):
        agent.invoke(says(text), at(), durability=sys.argv[3])
"""


def _dies_in_a_loop(folder, keep_state, durability):
    """Run two turns in another process, which dies in the middle of the second."""
    assert ForkedProcess(_DYING, folder, keep_state, durability).ends() == 9


# How far the checkpointer is behind when a process dies is a matter of chance by default
# (`durability="async"`), so the two ends of it are tested: not at all, and by the whole turn.


@KEPT
@pytest.mark.parametrize("goes_on", [True, False], ids=["the run goes on", "a new turn comes"])
def test_a_process_that_dies_in_a_loop_leaves_all_that_was_said(tmp_path, keep_state, goes_on):
    _dies_in_a_loop(tmp_path, keep_state, "sync")
    with (
        ConversationMemory.open(tmp_path / "memory.db") as memory,
        SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as saver,
    ):
        before = ["human: Hi.", "ai: Hello.", *LOOP[:3]]
        assert spoken(memory) == before
        model = ScriptedChatModel(replies=["In the yard."])
        options = {"keep_state": keep_state}
        agent = agent_with(memory, model, options=options, checkpointer=saver)
        agent.invoke(None if goes_on else says("Well?"), at())
        asked = [] if goes_on else ["human: Well?"]
        assert shape(model.seen[0]) == [*before, *asked]
        assert spoken(memory) == [*before, *asked, "ai: In the yard."]
