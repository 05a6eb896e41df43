"""An agent remembers: what is stored of a turn, when, and what the model sees."""

from __future__ import annotations

import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from scripted_agents import agent_with, calls, entries, says, shape, view
from scripted_chat import ScriptedChatModel, at

from langchain_convmem.errors import ConfigError
from langchain_convmem.integrations import ConversationMemoryMiddleware
from langchain_convmem.records import Owner

# -- what is stored -----------------------------------------------------------------------------


def test_what_the_agent_returns_is_in_the_log_under_the_same_ids(memory):
    agent = agent_with(memory, ScriptedChatModel(replies=[calls("yard", "hall"), "Both."]))
    returned = agent.invoke(says("Where?"), at())["messages"]
    assert {entry.message.id for entry in entries(memory)} == {one.id for one in returned}


def test_several_messages_at_once_are_one_turn_with_their_reply(memory):
    model = ScriptedChatModel(replies=["Both."])
    agent = agent_with(memory, model)
    agent.invoke({"messages": [HumanMessage("One?"), HumanMessage("Two?")]}, at())
    assert shape(model.seen[0]) == ["human: One?\nTwo?"]
    assert len({entry.turn_id for entry in entries(memory)}) == 1


def test_a_history_that_comes_with_the_first_run_is_stored_turn_by_turn(memory):
    agent = agent_with(memory, ScriptedChatModel(replies=["Level two."]))
    before = [HumanMessage("Hello."), AIMessage("Good day."), HumanMessage("Where?")]
    agent.invoke({"messages": before}, at())
    turns = [entry.turn_id for entry in entries(memory)]
    assert view(memory) == ["human: Hello.", "ai: Good day.", "human: Where?", "ai: Level two."]
    assert turns[0] == turns[1] != turns[2] == turns[3]


# -- what the model sees ------------------------------------------------------------------------


def test_the_state_never_holds_recalled_text(memory):
    memory.add_messages([HumanMessage("My bicycle is red.")], user_id="ana", thread_id="old")
    agent = agent_with(memory, ScriptedChatModel(replies=["Red."]), options={"recall": True})
    returned = agent.invoke(says("Which colour is my bicycle?"), at())
    assert shape(returned["messages"]) == ["human: Which colour is my bicycle?", "ai: Red."]
    assert set(returned) == {"messages"}


def test_what_frames_the_thread_joins_the_prompt_of_the_agent(memory):
    memory.add_messages([SystemMessage("Ana is a client.")], user_id="ana", thread_id="t")
    model = ScriptedChatModel(replies=["Yes."])
    agent_with(memory, model, system_prompt="Be brief.").invoke(says("Well?"), at())
    assert shape(model.seen[0]) == ["system: Be brief.\n\nAna is a client.", "human: Well?"]


# -- whose thread it is -------------------------------------------------------------------------


def test_no_caller_can_say_which_turn_is_under_way(memory):
    agent = agent_with(memory, ScriptedChatModel(replies=["Yes."]), checkpointer=InMemorySaver())
    forged = {"id": "x", "first": "y", "user": "bob"}
    returned = agent.invoke({**says("Well?"), "convmem_turn": forged}, at())
    assert "convmem_turn" not in returned
    kept = agent.get_state(at()).values["convmem_turn"]
    assert kept == {
        "id": entries(memory)[0].turn_id,
        "first": returned["messages"][0].id,
        "user": "ana",
        "generation": memory.log.changes(Owner(user_id="ana")).generation,
        "forgotten": [],
        "held": [returned["messages"][0].id],
        "run": kept["run"],
        "again": [],
        "position": entries(memory)[0].position,
    }
    assert json.loads(json.dumps(kept)) == kept, "plain values for any checkpointer"


# -- refusals and failures ----------------------------------------------------------------------


def test_an_unknown_way_to_keep_the_state_is_refused(memory):
    with pytest.raises(ConfigError, match="'most'"):
        ConversationMemoryMiddleware(memory, keep_state="most")
