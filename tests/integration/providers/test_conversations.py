"""Conversations in a thread before the services of providers: tools, streams, failures."""

from __future__ import annotations

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import ToolException, tool
from scripted_chat import at
from wire_promises import STREAMED, WAYS, last_attributes, look, stored, texts

from langchain_convmem import Preface
from langchain_convmem.testing import ScriptedReply, ScriptedToolCall

pytestmark = [pytest.mark.sockets, pytest.mark.usefixtures("socket_enabled")]


@tool
def enter(place: str) -> str:
    """Enter a place."""
    raise ToolException(f"{place} is closed")


def call(place, number=1, name="look"):
    return ScriptedToolCall(name, {"place": place}, f"call_{number}")


def talk(memory, model, *, tools=(look, enter), **settings):
    preface = Preface(tools=tools)
    return memory.conversation(
        model, thread_id="t", user_id="ana", recall=False, preface=preface, **settings
    )


def roles(memory):
    return [entry.role for entry in memory.history("t", user_id="ana").entries]


ROUNDS = [
    ScriptedReply(
        text="Let me look.", tool_calls=[call("in the yard"), call("in the hall", 2, "enter")]
    ),
    ScriptedReply(tool_calls=[call("on level 3", 3)]),
    "On level 3.",
    "You are welcome.",
]


@pytest.mark.parametrize("way", WAYS)
async def test_a_loop_of_parallel_calls_and_errors_is_stored_and_sent_again(memory, provider, way):
    async with provider.answer(ROUNDS) as (model, service):
        with talk(memory, model) as conversation:
            await WAYS[way](conversation, "Where did I park?", None)
            await WAYS[way](conversation, "Thanks!", None)
    [*loop, reply, last] = service.requests[3]
    assert loop[:5] == [
        "user: Where did I park?",
        "assistant: Let me look.",
        "call call_1 look in the yard",
        "call call_2 enter in the hall",
        "result call_1: the car, in the yard",
    ]
    assert loop[5].startswith("result call_2: ")
    assert "in the hall is closed" in loop[5]
    assert loop[6:] == ["call call_3 look on level 3", "result call_3: the car, on level 3"]
    assert (reply, last) == ("assistant: On level 3.", "user: Thanks!")
    assert [len(request) for request in service.requests] == [1, 6, 8, 10]
    entries = memory.history("t", user_id="ana").entries
    assert len({entry.turn_id for entry in entries[:7]}) == 1
    assert [one.status for one in stored(memory) if one.type == "tool"] == [
        *("success", "error", "success"),
    ]


@pytest.mark.parametrize("way", WAYS)
async def test_results_that_the_caller_brings_go_on_with_the_turn(memory, provider, way):
    async with provider.answer(ROUNDS[1:3]) as (model, service):
        with talk(memory, model, auto_tools=False) as conversation:
            asked = await WAYS[way](conversation, "Where did I park?", None)
            results = [look.invoke(one) for one in asked.tool_calls]
            assert all(isinstance(one, ToolMessage) for one in results)
            found = await WAYS[way](conversation, results, None)
    assert found.text == "On level 3."
    assert service.requests[1] == [
        "user: Where did I park?",
        "call call_3 look on level 3",
        "result call_3: the car, on level 3",
    ]
    assert roles(memory) == ["user", "assistant", "tool", "assistant"]


@pytest.mark.parametrize("way", WAYS)
async def test_a_conversation_goes_on_in_a_thread_that_a_chain_began(memory, provider, way):
    async with provider.answer([ROUNDS[1], "On level 3.", "Yes.", "Bye."]) as (model, service):
        chain = memory.wrap(model.bind_tools([look]), recall=False)
        asked = await chain.ainvoke("Where did I park?", at())
        await chain.ainvoke([look.invoke(one) for one in asked.tool_calls], at())
        with talk(memory, model) as conversation:
            await WAYS[way](conversation, "Sure?", None)
        await chain.ainvoke("Thanks!", at())
    assert service.requests[3] == [
        "user: Where did I park?",
        "call call_3 look on level 3",
        "result call_3: the car, on level 3",
        "assistant: On level 3.",
        "user: Sure?",
        "assistant: Yes.",
        "user: Thanks!",
    ]


@pytest.mark.parametrize("way", STREAMED)
async def test_a_stream_that_breaks_takes_its_turn_back(memory, provider, way):
    cut = ScriptedReply(text="one two three four", cut_after_chunks=3)
    async with provider.answer([cut, "five"]) as (model, service):
        with talk(memory, model) as conversation:
            with pytest.raises(Exception):  # noqa: B017, PT011 - each client has its own
                await STREAMED[way](conversation, "Count!", None)
            await STREAMED[way](conversation, "Go on.", None)
    assert service.requests[1] == ["user: Go on."]
    view = memory.history("t", user_id="ana").messages
    assert [one.text for one in view] == ["Go on.", "five"]
    assert "human: Count!" in texts(stored(memory)), "the log keeps it"


async def test_what_was_heard_of_a_cancelled_stream_is_kept_where_that_is_asked_for(
    memory, provider
):
    async with provider.answer(["one two three four", "five"]) as (model, service):
        conversation = talk(memory, model, on_cancel="keep")
        stream = conversation.astream("Count!")
        async for chunk in stream:
            if "two" in chunk.text:
                break
        await stream.aclose()
        assert last_attributes(memory) == ("interrupted",)
        kept = stored(memory)[1].text.strip()
        await conversation.asend_message("Go on.")
        await conversation.aclose()
    assert kept.startswith("one two")
    assert service.requests[1] == ["user: Count!", f"assistant: {kept}", "user: Go on."]
