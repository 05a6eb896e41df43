"""Wrapped chains before the services of providers: tools, streams, objects, choices of a call."""

from __future__ import annotations

import json

import pytest
from langchain_core.exceptions import OutputParserException
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import ConfigurableField
from scripted_chat import at
from wire_promises import ONCE, STREAMED, WAYS, Spot, last_attributes, look, stored, texts
from wire_providers import PROVIDERS

from langchain_convmem.testing import ScriptedError, ScriptedReply, ScriptedToolCall

pytestmark = [pytest.mark.sockets, pytest.mark.usefixtures("socket_enabled")]


def call(place, number=1, name="look"):
    return ScriptedToolCall(name, {"place": place}, f"call_{number}")


def roles(memory, thread_id="t"):
    return [entry.role for entry in memory.history(thread_id, user_id="ana").entries]


# -- tool loops -----------------------------------------------------------------------------------

ROUNDS = [
    ScriptedReply(text="Let me look.", tool_calls=[call("in the yard"), call("in the hall", 2)]),
    ScriptedReply(tool_calls=[call("on level 3", 3)]),
    "On level 3.",
    "You are welcome.",
]
LOOP = [
    "user: Where did I park?",
    "assistant: Let me look.",
    "call call_1 look in the yard",
    "call call_2 look in the hall",
    "result call_1: the car, in the yard",
    "result call_2: the hall is closed",
    "call call_3 look on level 3",
    "result call_3: the car, on level 3",
]


@pytest.mark.parametrize("way", WAYS)
async def test_a_loop_of_parallel_calls_and_errors_goes_on_for_as_many_rounds_as_it_takes(
    memory, provider, way
):
    async with provider.answer(ROUNDS) as (model, service):
        chain = memory.wrap(model.bind_tools([look]), recall=False)
        asked = await WAYS[way](chain, "Where did I park?", at())
        first, second = asked.tool_calls
        broken = ToolMessage("the hall is closed", tool_call_id=second["id"], status="error")
        asked = await WAYS[way](chain, [look.invoke(first), broken], at())
        found = await WAYS[way](chain, [look.invoke(one) for one in asked.tool_calls], at())
        await WAYS[way](chain, "Thanks!", at())
    assert found.text == "On level 3."
    assert service.requests == [
        LOOP[:1],
        LOOP[:6],
        LOOP,
        [*LOOP, "assistant: On level 3.", "user: Thanks!"],
    ]
    if provider.name == "bedrock":
        results = [block["toolResult"] for block in service.bodies[1]["messages"][2]["content"]]
        assert [one.get("status", "success") for one in results] == ["success", "error"]
    entries = memory.history("t", user_id="ana").entries
    assert roles(memory) == [
        *("user", "assistant", "tool", "tool", "assistant", "tool", "assistant"),
        *("user", "assistant"),
    ]
    assert len({entry.turn_id for entry in entries[:7]}) == 1
    assert stored(memory)[3].status == "error"


@pytest.mark.parametrize("way", WAYS)
async def test_a_round_that_failed_is_tried_again_with_the_same_results(memory, provider, way):
    script = [ROUNDS[0], ScriptedError(status=500), "On level 3."]
    async with provider.answer(script) as (model, service):
        chain = memory.wrap(model.bind_tools([look]), recall=False)
        asked = await WAYS[way](chain, "Where did I park?", at())
        results = [look.invoke(one) for one in asked.tool_calls]
        with pytest.raises(Exception, match="scripted error"):
            await WAYS[way](chain, results, at())
        await WAYS[way](chain, None, at())
    assert service.requests[1] == service.requests[2]
    assert roles(memory) == ["user", "assistant", "tool", "tool", "assistant"]


@pytest.mark.parametrize("way", WAYS)
async def test_every_round_of_a_loop_reads_the_lines_that_its_question_recalled(
    memory, provider, way
):
    earlier = [HumanMessage("I parked the car on level 3."), AIMessage("Noted.")]
    memory.add_messages(earlier, user_id="ana", thread_id="earlier")
    async with provider.answer(ROUNDS[1:3]) as (model, service):
        chain = memory.wrap(model.bind_tools([look]), recall_k=1)
        asked = await WAYS[way](chain, "Where did I park the car?", at())
        await WAYS[way](chain, [look.invoke(one) for one in asked.tool_calls], at())
    first, second = service.requests
    assert "I parked the car on level 3." in first[0]
    assert second[0] == first[0]


@pytest.mark.parametrize("way", WAYS)
async def test_a_question_instead_of_a_result_closes_the_calls(memory, provider, way):
    async with provider.answer([ROUNDS[0], "As you like."]) as (model, service):
        chain = memory.wrap(model.bind_tools([look]), recall=False)
        asked = await WAYS[way](chain, "Where did I park?", at())
        await WAYS[way](chain, "Never mind.", at())
    *said, last = service.requests[1]
    assert last == "user: Never mind."
    assert [line.split(":")[0] for line in said[-2:]] == ["result call_1", "result call_2"]
    assert len(asked.tool_calls) == 2


# -- events and batches ---------------------------------------------------------------------------


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


@pytest.mark.parametrize("way", ["batch", "abatch"])
async def test_a_batch_over_threads_returns_its_errors_and_keeps_every_question(
    memory, provider, way
):
    def answer(body):
        asked = provider.lines_of(body)[-1]
        return ScriptedError(status=500) if asked == "user: B?" else f"Re {asked}"

    async with provider.answer(answer) as (model, _):
        chain = memory.wrap(model, recall=False)
        configs = [at("a"), at("b"), at("c")]
        if way == "batch":
            found = chain.batch(["A?", "B?", "C?"], configs, return_exceptions=True)
        else:
            found = await chain.abatch(["A?", "B?", "C?"], configs, return_exceptions=True)
    assert [found[0].text, found[2].text] == ["Re user: A?", "Re user: C?"]
    assert isinstance(found[1], Exception)
    assert [texts(stored(memory, name)) for name in "abc"] == [
        ["human: A?", "ai: Re user: A?"],
        ["human: B?"],
        ["human: C?", "ai: Re user: C?"],
    ]


# -- choices of a call ----------------------------------------------------------------------------


def most_tokens(body):
    """Return how many tokens a request allows its reply."""
    allowed = body.get("inferenceConfig", {}).get("maxTokens")
    return allowed or body.get("max_completion_tokens") or body.get("max_tokens")


@pytest.mark.parametrize("way", WAYS)
async def test_max_tokens_of_a_call_reach_the_model_and_not_the_memory(memory, provider, way):
    told = "I parked the car on level 3. " + "It rained on that day. " * 40
    memory.add_messages([HumanMessage(told)], user_id="ana", thread_id="earlier")
    async with provider.answer("Yes.") as (model, service):
        # Without it, a model of Bedrock cannot be made anew from its own fields.
        update = {"base_model_id": model.model_id} if provider.name == "bedrock" else {}
        chosen = model.model_copy(update=update).configurable_fields(
            max_tokens=ConfigurableField("max_tokens"), temperature=ConfigurableField("heat")
        )
        chain = memory.wrap(chosen)
        await WAYS[way](chain, "Where did I park the car?", at(max_tokens=20, heat=0.25))
        await WAYS[way](chain, "Where did I park the car?", at("u", recall_tokens=20))
    first, second = service.bodies
    assert most_tokens(first) == 20
    assert first.get("temperature", first.get("inferenceConfig", {}).get("temperature")) == 0.25
    assert service.requests[0][-1].count("It rained on that day.") > 20
    assert most_tokens(second) is None
    assert service.requests[1][-1].count("It rained on that day.") < 5


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


# -- tried again ----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
async def test_a_chain_that_stands_in_for_another_one_stores_one_turn(memory, provider, way):
    async with (
        provider.answer(ScriptedError(status=500)) as (broken, failed),
        provider.answer(["On level 3.", "Yes."]) as (working, service),
    ):
        chain = memory.wrap(broken, recall=False).with_fallbacks(
            [memory.wrap(working, recall=False)]
        )
        await WAYS[way](chain, "Where did I park?", at())
        await WAYS[way](chain, "Sure?", at())
    assert failed.requests == service.requests
    assert texts(stored(memory)) == [
        "human: Where did I park?",
        "ai: On level 3.",
        "human: Sure?",
        "ai: Yes.",
    ]


@pytest.mark.parametrize("way", ONCE)
async def test_a_model_that_tries_again_inside_the_chain_answers_once(memory, provider, way):
    async with provider.answer([ScriptedError(status=500), "On level 3."]) as (model, service):
        tried = model.with_retry(stop_after_attempt=2, wait_exponential_jitter=False)
        await ONCE[way](memory.wrap(tried, recall=False), "Where did I park?", at())
    assert service.requests == [["user: Where did I park?"]] * 2
    assert texts(stored(memory)) == ["human: Where did I park?", "ai: On level 3."]


@pytest.mark.parametrize("way", STREAMED)
async def test_what_a_stream_had_brought_makes_way_for_the_whole_reply(memory, provider, way):
    cut = ScriptedReply(text="On level three.", cut_after_chunks=3)
    async with provider.answer([cut, "On level 3."]) as (model, service):
        chain = memory.wrap(model, recall=False)
        with pytest.raises(Exception):  # noqa: B017, PT011 - each client has its own
            await STREAMED[way](chain, "Where did I park?", at())
        assert last_attributes(memory) == ("interrupted",)
        asked = stored(memory)[0].model_copy(
            update={"id": memory.history("t", user_id="ana").entries[0].message_id}
        )
        await STREAMED[way](chain, asked, at())
    assert service.requests == [["user: Where did I park?"]] * 2
    view = memory.history("t", user_id="ana").messages
    assert [one.text for one in view] == ["Where did I park?", "On level 3."]


# -- objects --------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ONCE)
async def test_an_object_that_cannot_be_read_is_an_error_and_the_reply_is_kept(
    memory, provider, way
):
    wrong = ScriptedReply(tool_calls=[ScriptedToolCall("Spot", {"level": 3}, "c1")])
    async with provider.answer([wrong, "Bye."]) as (model, service):
        spot = model.with_structured_output(Spot, include_raw=True, **_by_calls(provider))
        found = await ONCE[way](memory.wrap(spot, recall=False), "Where?", at())
        assert isinstance(found["parsing_error"], ValueError | OutputParserException)
        await ONCE[way](memory.wrap(model, recall=False), "Thanks.", at())
    assert service.requests[1][0] == "user: Where?"
    assert service.requests[1][-1] == "user: Thanks."
    assert '"level": 3' in "\n".join(service.requests[1][1:-1])


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


@pytest.mark.parametrize("way", ["stream", "astream"])
async def test_an_object_is_streamed_in_parts_and_kept_whole(memory, provider, way):
    made = ScriptedReply(tool_calls=[ScriptedToolCall("Spot", {"place": "level 3"}, "c1")])
    async with provider.answer([made, "Bye."]) as (model, service):
        spot = model.with_structured_output(Spot.model_json_schema(), **_by_calls(provider))
        chain = memory.wrap(spot, recall=False)
        if way == "stream":
            parts = list(chain.stream("Where did I park?", at()))
        else:
            parts = [part async for part in chain.astream("Where did I park?", at())]
        await memory.wrap(model, recall=False).ainvoke("Thanks.", at())
    assert parts[-1] == {"place": "level 3"}
    assert service.requests[1][1] == 'assistant: {"place": "level 3"}'


def _by_calls(provider):
    return {"method": "function_calling"} if provider.name == "openai" else {}


@pytest.mark.parametrize("way", WAYS)
async def test_the_system_message_of_a_call_is_sent_once_and_not_stored(memory, provider, way):
    async with provider.answer(["Yes.", "No."]) as (model, service):
        chain = memory.wrap(model, recall=False)
        for day, said in (("Monday", "Really?"), ("Tuesday", "Sure?")):
            system = SystemMessage(f"It is {day}.")
            await WAYS[way](chain, [system, HumanMessage(said)], at())
    assert service.requests[1] == [
        "system: It is Tuesday.",
        "user: Really?",
        "assistant: Yes.",
        "user: Sure?",
    ]
    assert len(stored(memory)) == 4
