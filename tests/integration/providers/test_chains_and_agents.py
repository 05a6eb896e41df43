"""Chains and agents before the services of providers: tools, objects, retries, cut streams.

The services are strict: a request out of order is answered with 400, which raises in the chain.
"""

from __future__ import annotations

import asyncio
import json

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, BaseMessageChunk, HumanMessage
from langchain_core.runnables import ConfigurableField
from langchain_core.tools import ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from scripted_agents import entries, says
from scripted_chat import at
from wire_promises import CALL, ONCE, STREAMED, WAYS, Spot, last_attributes, look, stored, texts
from wire_providers import PROVIDERS

from langchain_convmem.integrations import ConversationMemoryMiddleware
from langchain_convmem.testing import ScriptedError, ScriptedReply, ScriptedToolCall
from langchain_convmem.views.tokens import count_text_tokens

pytestmark = [pytest.mark.sockets, pytest.mark.usefixtures("socket_enabled")]


@tool
def enter(place: str) -> str:
    """Enter a place."""
    raise ToolException(f"{place} is closed")


enter.handle_tool_error = True


def call(place, number=1, name="look"):
    return ScriptedToolCall(name, {"place": place}, f"call_{number}")


async def _stream(agent, value, config):
    def read():
        return list(agent.stream(value, config, stream_mode="values"))[-1]

    return await asyncio.to_thread(read)


async def _astream(agent, value, config):
    return [state async for state in agent.astream(value, config, stream_mode="values")][-1]


RUNS = {**ONCE, "stream": _stream, "astream": _astream}


def agent_with(memory, model, *, tools=(look, enter), before=(), **more):
    own = ConversationMemoryMiddleware(memory, recall=False)
    return create_agent(model, list(tools), middleware=[*before, own], **more)


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
    assert [entry.role for entry in entries(memory)[:5]] == ["user", *["assistant", "tool"] * 2]


@pytest.mark.parametrize("way", WAYS)
async def test_the_provider_may_be_chosen_at_the_call_within_a_thread(memory, provider, way):
    other = next(one for one in PROVIDERS.values() if one is not provider)
    async with (
        provider.answer([ROUNDS[1], "On level 3.", "Bye."]) as (model, here),
        other.answer("It is.") as (second, there),
    ):
        chosen = model.bind_tools([look]).configurable_alternatives(
            ConfigurableField("who"), default_key="first", second=second.bind_tools([look])
        )
        chain = memory.wrap(chosen, recall=False)
        asked = await WAYS[way](chain, "Where did I park?", at())
        await WAYS[way](chain, [look.invoke(one) for one in asked.tool_calls], at())
        await WAYS[way](chain, HumanMessage("Is it locked?", name="Ana Lee"), at(who="second"))
        await WAYS[way](chain, "Thanks.", at())
    [request] = there.requests
    assert request[:4] == [
        "user: Where did I park?",
        "call call_3 look on level 3",
        "result call_3: the car, on level 3",
        "assistant: On level 3.",
    ]
    assert [line.split(":")[0] for line in here.requests[2][-3:]] == ["user", "assistant", "user"]
    assert len(stored(memory)) == 8


@pytest.mark.parametrize("way", WAYS)
async def test_a_reply_is_stored_as_one_whole_message_with_its_usage(memory, provider, way):
    async with provider.answer("One two three four five six.") as (model, _):
        await WAYS[way](memory.wrap(model, recall=False), "Count!", at())
    [_, reply] = stored(memory)
    assert not isinstance(reply, BaseMessageChunk)
    assert isinstance(reply, AIMessage)
    assert reply.usage_metadata is not None
    assert reply.usage_metadata["input_tokens"] == count_text_tokens("Count!")
    assert reply.usage_metadata["output_tokens"] == count_text_tokens(str(reply.text))
    assert last_attributes(memory) == ()


WRITTEN = {
    "function_calling": ScriptedReply(
        tool_calls=[ScriptedToolCall("Spot", {"place": "level 3"}, "c1")]
    ),
    "json_schema": '{"place": "level 3"}',
}


@pytest.mark.parametrize("method", WRITTEN)
@pytest.mark.parametrize("include_raw", [False, True])
@pytest.mark.parametrize("way", ONCE)
async def test_an_object_is_returned_and_kept_as_its_text_and_leaves_no_call_open(
    memory, provider, way, include_raw, method
):
    async with provider.answer([WRITTEN[method], "Bye."]) as (model, service):
        spot = model.with_structured_output(Spot, method=method, include_raw=include_raw)
        found = await ONCE[way](memory.wrap(spot, recall=False), "Where did I park?", at())
        await ONCE[way](memory.wrap(model, recall=False), "Thanks.", at())
    assert (found["parsed"] if include_raw else found) == Spot(place="level 3")
    assert '"name": "Spot"' in json.dumps(service.bodies[0])
    assert service.requests[1] == [
        "user: Where did I park?",
        'assistant: {"place": "level 3"}',
        "user: Thanks.",
    ]
    assert stored(memory)[1].usage_metadata["output_tokens"] > 0


@pytest.mark.parametrize("way", WAYS)
async def test_a_client_that_waits_and_tries_again_makes_one_turn(memory, provider, way):
    busy = ScriptedError(status=429, retry_after_s=0.001)
    async with provider.answer([busy, busy, "Yes."], tries=3) as (model, service):
        await WAYS[way](memory.wrap(model, recall=False), "Really?", at())
        assert service.requests == [["user: Really?"]] * 3
    assert texts(stored(memory)) == ["human: Really?", "ai: Yes."]


@pytest.mark.parametrize("way", STREAMED)
@pytest.mark.parametrize("last_words", [None, ScriptedError(status=500)], ids=["broken", "told"])
async def test_a_cut_stream_is_stored_as_interrupted(memory, provider, way, last_words):
    cut = ScriptedReply(text="one two three four", cut_after_chunks=3, cut_with=last_words)
    async with provider.answer([cut, "five"]) as (model, service):
        chain = memory.wrap(model, recall=False)
        with pytest.raises(provider.errors):
            await STREAMED[way](chain, "Count!", at())
        assert texts(stored(memory)) == ["human: Count!", "ai: one two"]
        assert last_attributes(memory) == ("interrupted",)
        await STREAMED[way](chain, "Go on.", at())
        assert service.requests[1] == ["user: Count!", "assistant: one two", "user: Go on."]


@pytest.mark.parametrize("way", STREAMED)
async def test_half_a_call_is_neither_stored_to_be_run_nor_sent_again(memory, provider, way):
    cut = ScriptedReply(text="Looking.", tool_calls=[CALL], cut_after_chunks=6)
    async with provider.answer([cut, "On level 3."]) as (model, service):
        chain = memory.wrap(model.bind_tools([look]), recall=False)
        with pytest.raises(provider.errors):
            await STREAMED[way](chain, "Where did I park?", at())
        [_, half] = stored(memory)
        assert (half.text, half.tool_calls) == ("Looking.", [])
        assert last_attributes(memory) == ("interrupted",)
        await STREAMED[way](chain, "Well?", at())
        assert service.requests[1] == [
            "user: Where did I park?",
            "assistant: Looking.",
            "user: Well?",
        ]
