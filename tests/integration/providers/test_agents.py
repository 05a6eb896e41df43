"""Agents before the services of providers: tools, objects, people who decide, broken streams."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, ModelFallbackMiddleware
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.types import Command
from scripted_chat import at
from wire_promises import Spot, last_attributes, look, stored, texts

from langchain_convmem.integrations import ConversationMemoryMiddleware
from langchain_convmem.testing import ScriptedError, ScriptedReply, ScriptedToolCall

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


async def _astream_messages(agent, value, config):
    async for _ in agent.astream(value, config, stream_mode="messages"):
        pass


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


# -- tools ----------------------------------------------------------------------------------------

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


async def test_a_page_that_sends_the_whole_chat_doubles_nothing(memory, provider):
    async with provider.answer([*ROUNDS[1:], "Bye."]) as (model, service):
        agent = agent_with(memory, model)
        shown = []
        for number, text in enumerate(("Where did I park?", "Thanks!", "Thanks!")):
            shown.append({"role": "user", "content": text, "id": f"u{number}"})
            found = await agent.ainvoke({"messages": list(shown)}, at())
            shown.append({"role": "assistant", "content": found["messages"][-1].text})
    assert service.requests[-1] == [
        "user: Where did I park?",
        "call call_3 look on level 3",
        "result call_3: the car, on level 3",
        "assistant: On level 3.",
        "user: Thanks!",
        "assistant: You are welcome.",
        "user: Thanks!",
    ]
    assert len(stored(memory)) == 8


async def test_events_show_the_tokens_and_what_was_stored(memory, provider):
    async with provider.answer(ROUNDS[1:3]) as (model, _):
        agent = agent_with(memory, model)
        events = [event async for event in agent.astream_events(says("Where?"), at(), version="v2")]
    tokens = [
        event["data"]["chunk"].text for event in events if event["event"] == "on_chat_model_stream"
    ]
    assert "".join(tokens) == "On level 3."
    told = [event["data"] for event in events if event["name"] == "convmem.stored"]
    assert sum(one["messages"] for one in told) == 3
    assert roles(memory) == ["user", "assistant", "tool", "assistant"]


# -- objects --------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("run", RUNS)
async def test_an_object_in_the_providers_own_form_is_returned_and_kept_as_its_text(
    memory, provider, run
):
    async with provider.answer([ROUNDS[1], '{"place": "level 3"}']) as (model, service):
        spot = agent_with(memory, model, response_format=ProviderStrategy(Spot))
        found = await RUNS[run](spot, says("Where did I park?"), at())
    assert found["structured_response"] == Spot(place="level 3")
    assert '"name": "Spot"' in json.dumps(service.bodies[1])
    assert stored(memory)[-1].text == '{"place": "level 3"}'
    assert roles(memory) == ["user", "assistant", "tool", "assistant"]


# -- people ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("decision", ["approve", "reject"])
async def test_a_call_that_waits_for_a_person_is_in_the_log_and_goes_on_in_its_turn(
    memory, provider, decision
):
    async with provider.answer([*ROUNDS[1:3], "Bye."]) as (model, service):
        agent = agent_with(
            memory,
            model,
            before=[HumanInTheLoopMiddleware(interrupt_on={"look": True})],
            checkpointer=InMemorySaver(),
        )
        await agent.ainvoke(says("Where did I park?"), at())
        assert roles(memory) == ["user", "assistant"]
        assert stored(memory)[1].tool_calls[0]["id"] == "call_3"
        resumed = Command(resume={"decisions": [{"type": decision}]})
        await agent.ainvoke(resumed, at())
        await agent.ainvoke(says("Thanks!"), at())
    assert roles(memory)[:4] == ["user", "assistant", "tool", "assistant"]
    assert len({entry.turn_id for entry in entries(memory)[:4]}) == 1
    assert service.requests[1][:2] == ["user: Where did I park?", "call call_3 look on level 3"]
    assert len(service.requests[1]) == 3
    is_run = service.requests[1][2] == "result call_3: the car, on level 3"
    assert is_run is (decision == "approve")
    assert service.requests[2] == [
        *service.requests[1],
        "assistant: On level 3.",
        "user: Thanks!",
    ]


async def test_a_question_that_comes_instead_of_a_decision_closes_the_call(memory, provider):
    async with provider.answer([ROUNDS[1], "Bye."]) as (model, service):
        agent = agent_with(
            memory,
            model,
            before=[HumanInTheLoopMiddleware(interrupt_on={"look": True})],
            checkpointer=InMemorySaver(),
        )
        await agent.ainvoke(says("Where did I park?"), at())
        await agent.ainvoke(says("Never mind."), at())
    *said, result, last = service.requests[1]
    assert said == ["user: Where did I park?", "call call_3 look on level 3"]
    assert result.startswith("result call_3: ")
    assert last == "user: Never mind."


# -- failures -------------------------------------------------------------------------------------


async def test_the_words_of_a_stream_that_broke_are_kept_and_sent_again(memory, provider):
    cut = ScriptedReply(text="one two three four", cut_after_chunks=3)
    async with provider.answer([ROUNDS[1], cut, "five"]) as (model, service):
        agent = agent_with(memory, model)
        with pytest.raises(Exception):  # noqa: B017, PT011 - each client has its own
            await _astream_messages(agent, says("Count!"), at())
        assert roles(memory) == ["user", "assistant", "tool", "assistant"]
        assert last_attributes(memory) == ("interrupted",)
        await _astream_messages(agent, says("Go on."), at())
    assert service.requests[2] == [
        "user: Count!",
        "call call_3 look on level 3",
        "result call_3: the car, on level 3",
        "assistant: one two",
        "user: Go on.",
    ]


@pytest.mark.parametrize("run", RUNS)
async def test_the_reply_of_the_model_that_stands_in_is_stored_once(memory, provider, run):
    async with (
        provider.answer(ScriptedError(status=500)) as (broken, failed),
        provider.answer(ROUNDS[1:3]) as (working, service),
    ):
        agent = agent_with(memory, broken, before=[ModelFallbackMiddleware(working)])
        await RUNS[run](agent, says("Where did I park?"), at())
    assert failed.requests == service.requests
    assert roles(memory) == ["user", "assistant", "tool", "assistant"]


@pytest.mark.parametrize("run", RUNS)
async def test_a_run_that_failed_is_run_again_in_its_turn(memory, provider, run):
    script = [ROUNDS[1], ScriptedError(status=500), ROUNDS[1], "On level 3."]
    async with provider.answer(script) as (model, service):
        agent = agent_with(memory, model)
        with pytest.raises(Exception, match="scripted error"):
            await RUNS[run](agent, says("Where did I park?", "q"), at())
        await RUNS[run](agent, says("Where did I park?", "q"), at())
    assert service.requests[2:] == service.requests[:2]
    view = memory.history("t", user_id="ana").messages
    assert [one.type for one in view] == ["human", "ai", "tool", "ai"]


# -- several agents -------------------------------------------------------------------------------


@tool
def ask_expert(
    place: str,
    messages: Annotated[list, InjectedState("messages")],
    tool_call_id: Annotated[str, InjectedToolCallId],
) -> Command:
    """Hand over to the expert."""
    done = ToolMessage(f"handed over: {place}", tool_call_id=tool_call_id)
    return Command(goto="expert", graph=Command.PARENT, update={"messages": [*messages, done]})


async def test_an_agent_that_hands_over_leaves_each_reply_under_its_own_name(memory, provider):
    over = ScriptedReply(tool_calls=[call("in the garage", 1, "ask_expert")])
    async with provider.answer([over, ROUNDS[1], "On level 3.", "Bye."]) as (model, service):
        builder = StateGraph(MessagesState)
        builder.add_node("host", agent_with(memory, model, name="host", tools=[ask_expert]))
        builder.add_node("expert", agent_with(memory, model, name="expert"))
        graph = builder.add_edge(START, "host").compile(checkpointer=InMemorySaver())
        await graph.ainvoke(says("Where did I park?"), at())
        await graph.ainvoke(says("Thanks!"), at())
    said = [(one.type, one.name, one.text) for one in stored(memory) if one.type != "tool"]
    assert said == [
        ("human", None, "Where did I park?"),
        ("ai", "host", ""),
        ("ai", "expert", ""),
        ("ai", "expert", "On level 3."),
        ("human", None, "Thanks!"),
        ("ai", "host", "Bye."),
    ]
    assert len({entry.turn_id for entry in entries(memory)[:6]}) == 1
    loop = [
        "user: Where did I park?",
        "call call_1 ask_expert in the garage",
        "result call_1: handed over: in the garage",
        "call call_3 look on level 3",
        "result call_3: the car, on level 3",
    ]
    assert service.requests[1:3] == [loop[:3], loop]
    *before, reply, last = service.requests[3]
    assert (before, last) == (loop, "user: Thanks!")
    assert reply.endswith("On level 3.")


async def test_agents_side_by_side_each_leave_their_loop_under_their_own_name(memory, provider):
    def answer(body):
        lines = provider.lines_of(body)
        if lines[-1] == "user: Thanks!":
            return "Bye."
        if lines[-1].startswith("result"):
            return "It is there."
        has_room = "abe" in str(body)
        return ScriptedReply(tool_calls=[call("in the yard", 1 if has_room else 2)])

    async with provider.answer(answer) as (model, service):
        builder = StateGraph(MessagesState)
        for name in ("abe", "bea"):
            own = agent_with(memory, model, name=name, system_prompt=f"You are {name}.")
            builder.add_node(name, own)
        builder.add_edge(START, "abe")
        builder.add_edge(START, "bea")
        graph = builder.compile(checkpointer=InMemorySaver())
        await graph.ainvoke(says("Where did I park?"), at())
        after = agent_with(memory, model)
        await after.ainvoke(says("Thanks!"), at())
    assert sorted((one.name, one.text) for one in stored(memory)[:-2] if one.type == "ai") == [
        ("abe", ""),
        ("abe", "It is there."),
        ("bea", ""),
        ("bea", "It is there."),
    ]
    assert len({entry.turn_id for entry in entries(memory)[:7]}) == 1
    sent = service.requests[-1]
    assert sent[-1] == "user: Thanks!"
    assert sorted(line for line in sent if line.startswith(("call", "result"))) == [
        "call call_1 look in the yard",
        "call call_2 look in the yard",
        "result call_1: the car, in the yard",
        "result call_2: the car, in the yard",
    ]


async def test_an_agent_goes_on_in_a_thread_that_a_chain_began(memory, provider):
    async with provider.answer([ROUNDS[1], "On level 3.", "Yes."]) as (model, service):
        chain = memory.wrap(model.bind_tools([look]), recall=False)
        asked = await chain.ainvoke("Where did I park?", at())
        await chain.ainvoke([look.invoke(one) for one in asked.tool_calls], at())
        await agent_with(memory, model).ainvoke(says("Sure?"), at())
    assert service.requests[2] == [
        "user: Where did I park?",
        "call call_3 look on level 3",
        "result call_3: the car, on level 3",
        "assistant: On level 3.",
        "user: Sure?",
    ]
    assert texts(stored(memory))[-2:] == ["human: Sure?", "ai: Yes."]
    assert isinstance(stored(memory)[-1], AIMessage)
