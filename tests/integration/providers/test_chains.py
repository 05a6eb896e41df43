"""Wrapped chains before the services of providers: tools, streams, objects, choices of a call."""

from __future__ import annotations

import json

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables import ConfigurableField
from scripted_chat import at
from wire_promises import ONCE, WAYS, Spot, look, stored, texts
from wire_providers import PROVIDERS

from langchain_convmem.testing import ScriptedReply, ScriptedToolCall

pytestmark = [pytest.mark.sockets, pytest.mark.usefixtures("socket_enabled")]


def call(place, number=1, name="look"):
    return ScriptedToolCall(name, {"place": place}, f"call_{number}")


ROUNDS = [
    ScriptedReply(text="Let me look.", tool_calls=[call("in the yard"), call("in the hall", 2)]),
    ScriptedReply(tool_calls=[call("on level 3", 3)]),
    "On level 3.",
    "You are welcome.",
]


async def test_events_of_a_stream_show_its_tokens_its_recall_and_what_was_stored(memory, provider):
    memory.add_messages(
        [HumanMessage("I parked the car on level 3.")], user_id="ana", thread_id="earlier"
    )
    async with provider.answer("On level 3, as always.") as (model, service):
        chain = memory.wrap(model, recall_k=1)
        events = [
            event async for event in chain.astream_events("Where did I park?", at(), version="v2")
        ]
    tokens = [
        event["data"]["chunk"].text for event in events if event["event"] == "on_chat_model_stream"
    ]
    assert "".join(tokens) == "On level 3, as always."
    assert len([token for token in tokens if token]) == 5
    [found] = [event for event in events if event["event"] == "on_retriever_end"]
    assert "level 3" in found["data"]["output"][0].page_content
    own = {event["name"]: event["data"] for event in events if event["event"] == "on_custom_event"}
    assert own["convmem.stored"] == {"messages": 1, "replaced": 0, "interrupted": 0}
    assert own["convmem.context"]["blocks"] == 1
    assert texts(stored(memory)) == ["human: Where did I park?", "ai: On level 3, as always."]
    assert len(service.requests) == 1


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


@pytest.mark.parametrize("include_raw", [False, True])
@pytest.mark.parametrize("way", ONCE)
async def test_an_object_in_the_providers_own_form_is_returned_and_kept_as_its_text(
    memory, provider, way, include_raw
):
    async with provider.answer(['{"place": "level 3"}', "Bye."]) as (model, service):
        spot = model.with_structured_output(Spot, method="json_schema", include_raw=include_raw)
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
