"""Tool loops: every message is in the log as soon as it is there, whatever breaks after it."""

from __future__ import annotations

import asyncio
import threading

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.types import Command
from scripted_agents import RUNS, agent_with, calls, entries, says, shape, spoken, view
from scripted_chat import FailingLog, ProviderError, ScriptedChatModel, at

from langchain_convmem import ConversationMemory
from langchain_convmem.views.tool_calls import INTERRUPTED_RESULT


@pytest.mark.parametrize("way", RUNS)
def test_a_tool_that_breaks_down_leaves_what_was_done_before(memory, way):
    model = ScriptedChatModel(
        replies=[calls("yard"), calls("shop", tool_name="break_down", first=1), "I see."]
    )
    agent = agent_with(memory, model)
    with pytest.raises(ProviderError):
        RUNS[way](agent, says("Where?"), at())
    RUNS[way](agent, says("What happened?"), at())
    assert shape(model.seen[2]) == [
        "human: Where?",
        "ai -> c0",
        "tool c0: yard: a bicycle",
        "ai -> c1",
        f"tool c1: {INTERRUPTED_RESULT}",
        "human: What happened?",
    ]


def test_the_result_of_one_tool_is_kept_when_the_one_beside_it_breaks_down(memory):
    stored = threading.Event()

    class WatchedLog(FailingLog):
        """Tells when a result is stored."""

        def append(self, key, drafts, **more):
            added = super().append(key, drafts, **more)
            if drafts[-1].role == "tool":
                stored.set()
            return added

    @tool
    async def quick_one(place: str) -> str:
        """Return at once."""
        return place

    @tool
    async def broken_one(place: str) -> str:
        """Break down once the result of the other one is stored."""
        await asyncio.to_thread(stored.wait, 20)
        raise ProviderError(place)

    both = AIMessage(
        "",
        tool_calls=[
            {"name": "quick_one", "args": {"place": "yard"}, "id": "c0", "type": "tool_call"},
            {"name": "broken_one", "args": {"place": "shop"}, "id": "c1", "type": "tool_call"},
        ],
    )
    model = ScriptedChatModel(replies=[both, "I see."])
    memory = ConversationMemory(WatchedLog(memory.log, fails_at=0))
    agent = agent_with(memory, model, tools=[quick_one, broken_one])

    async def chat():
        with pytest.raises(ProviderError):
            await agent.ainvoke(says("Where?"), at())
        await agent.ainvoke(says("And?"), at())

    asyncio.run(chat())
    assert shape(model.seen[1])[1:4] == [
        "ai -> c0 c1",
        "tool c0: yard",
        f"tool c1: {INTERRUPTED_RESULT}",
    ]


@pytest.mark.parametrize("way", RUNS)
def test_a_tool_that_returns_a_message_and_a_command_has_one_result(memory, way):
    @tool
    def note(place: str) -> list:
        """Answer, and change the state besides."""
        answer = ToolMessage(place, tool_call_id="c0", name="note")
        return [answer, Command(update={"jump_to": None})]

    model = ScriptedChatModel(replies=[calls("yard", tool_name="note"), "Noted."])
    RUNS[way](agent_with(memory, model, tools=[note]), says("Note it."), at())
    assert spoken(memory) == ["human: Note it.", "ai -> c0", "tool c0: yard", "ai: Noted."]


def test_a_tool_whose_result_is_the_answer_is_stored(memory):
    @tool(return_direct=True)
    def direct(place: str) -> str:
        """Answer for the model."""
        return place

    model = ScriptedChatModel(replies=[calls("yard", tool_name="direct")])
    agent_with(memory, model, tools=[direct]).invoke(says("Where?"), at())
    assert view(memory) == ["human: Where?", "ai -> c0", "tool c0: yard"]


def test_what_is_said_in_the_middle_of_a_loop_belongs_to_the_turn(memory):
    from langchain.agents.middleware import before_model

    @before_model
    def remind(state, runtime):
        del runtime
        said = state["messages"]
        return {"messages": [HumanMessage("Hurry.")]} if said[-1].type == "tool" else None

    model = ScriptedChatModel(replies=[calls("yard"), "Done.", "Yes."])
    agent = agent_with(memory, model, before=[remind])
    agent.invoke(says("Where?"), at())
    assert shape(model.seen[1])[-1] == "human: Hurry."
    assert len({entry.turn_id for entry in entries(memory)}) == 1
