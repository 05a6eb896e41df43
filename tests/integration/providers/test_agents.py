"""Agents before the services of providers: tools, objects, people who decide, broken streams."""

from __future__ import annotations

import asyncio

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import HumanMessage
from langchain_core.tools import ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from scripted_chat import at
from wire_promises import Spot, look, stored

from langchain_convmem.integrations import ConversationMemoryMiddleware
from langchain_convmem.testing import ScriptedReply, ScriptedToolCall

pytestmark = [pytest.mark.sockets, pytest.mark.usefixtures("socket_enabled")]


@tool
def enter(place: str) -> str:
    """Enter a place."""
    raise ToolException(f"{place} is closed")


enter.handle_tool_error = True


def call(place, number=1, name="look"):
    return ScriptedToolCall(name, {"place": place}, f"call_{number}")


async def _invoke(agent, value, config):
    return await asyncio.to_thread(agent.invoke, value, config)


async def _ainvoke(agent, value, config):
    return await agent.ainvoke(value, config)


async def _stream(agent, value, config):
    def read():
        return list(agent.stream(value, config, stream_mode="values"))[-1]

    return await asyncio.to_thread(read)


async def _astream(agent, value, config):
    return [state async for state in agent.astream(value, config, stream_mode="values")][-1]


RUNS = {"invoke": _invoke, "ainvoke": _ainvoke, "stream": _stream, "astream": _astream}


def agent_with(memory, model, *, tools=(look, enter), before=(), **more):
    own = ConversationMemoryMiddleware(memory, recall=False)
    return create_agent(model, list(tools), middleware=[*before, own], **more)


def says(text, message_id=None):
    return {"messages": [HumanMessage(text, id=message_id)]}


def entries(memory, thread_id="t"):
    return memory.history(thread_id, user_id="ana").entries


def roles(memory):
    return [entry.role for entry in entries(memory)]


ROUNDS = [
    ScriptedReply(
        text="Let me look.", tool_calls=[call("in the yard"), call("in the hall", 2, "enter")]
    ),
    ScriptedReply(tool_calls=[call("on level 3", 3)]),
    "On level 3.",
    "You are welcome.",
]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("saver", [None, InMemorySaver])
async def test_a_loop_of_parallel_calls_and_errors_is_stored_and_sent_again(
    memory, provider, saver, run
):
    async with provider.answer(ROUNDS) as (model, service):
        agent = agent_with(memory, model, checkpointer=saver and saver())
        await RUNS[run](agent, says("Where did I park?"), at())
        await RUNS[run](agent, says("Thanks!"), at())
    loop = [
        "user: Where did I park?",
        "assistant: Let me look.",
        "call call_1 look in the yard",
        "call call_2 enter in the hall",
        "result call_1: the car, in the yard",
        "result call_2: in the hall is closed",
        "call call_3 look on level 3",
        "result call_3: the car, on level 3",
    ]
    assert service.requests == [
        loop[:1],
        loop[:6],
        loop,
        [*loop, "assistant: On level 3.", "user: Thanks!"],
    ]
    assert len({entry.turn_id for entry in entries(memory)[:7]}) == 1
    by_call = {one.tool_call_id: one.status for one in stored(memory) if one.type == "tool"}
    assert by_call == {"call_1": "success", "call_2": "error", "call_3": "success"}


@pytest.mark.parametrize("run", RUNS)
async def test_an_object_made_of_a_call_is_returned_and_the_next_request_is_valid(
    memory, provider, run
):
    made = ScriptedReply(tool_calls=[ScriptedToolCall("Spot", {"place": "level 3"}, "call_9")])
    async with provider.answer([ROUNDS[1], made, "Bye."]) as (model, service):
        spot = agent_with(memory, model, response_format=ToolStrategy(Spot))
        found = await RUNS[run](spot, says("Where did I park?"), at())
        await RUNS[run](agent_with(memory, model), says("Thanks!"), at())
    assert found["structured_response"] == Spot(place="level 3")
    *said, last = service.requests[2]
    assert said[:4] == [
        "user: Where did I park?",
        "call call_3 look on level 3",
        "result call_3: the car, on level 3",
        "call call_9 Spot level 3",
    ]
    assert said[4].startswith("result call_9: ")
    assert last == "user: Thanks!"
    assert roles(memory)[:5] == ["user", "assistant", "tool", "assistant", "tool"]
