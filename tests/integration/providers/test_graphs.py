"""Graphs before the services of providers: interrupts, going back, subgraphs, branches."""

from __future__ import annotations

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt
from scripted_chat import at
from wire_promises import Spot, last_attributes, look, stored, texts

from langchain_convmem.integrations.langgraph import (
    create_memory_graph,
    model_node,
    recall_node,
    record_node,
)
from langchain_convmem.testing import ScriptedReply, ScriptedToolCall

pytestmark = [pytest.mark.sockets, pytest.mark.usefixtures("socket_enabled")]


@tool
def ask(place: str) -> str:
    """Ask a person about a place."""
    return f"{place}: {interrupt(place)}"


def call(place, number=1, name="look"):
    return ScriptedToolCall(name, {"place": place}, f"call_{number}")


def says(text, message_id=None):
    return {"messages": [HumanMessage(text, id=message_id)]}


def entries(memory, thread_id="t"):
    return memory.history(thread_id, user_id="ana").entries


def roles(memory):
    return [entry.role for entry in entries(memory)]


def a_tool_loop(memory, model, *, tools=(look, ask), saver=None, name=None):
    """Return a graph whose model calls tools between the nodes of the memory."""
    builder = StateGraph(MessagesState)
    builder.add_node("recall", recall_node(memory, recall=False))
    bound = model.bind_tools(list(tools))
    builder.add_node("model", model_node(memory, bound, recall=False, name=name))
    builder.add_node("tools", ToolNode(list(tools)))
    builder.add_node("record", record_node(memory))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "model")
    builder.add_conditional_edges("model", tools_condition, {"tools": "tools", END: "record"})
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=saver)


LOOKED = [
    ScriptedReply(text="Let me look.", tool_calls=[call("in the yard"), call("in the hall", 2)]),
    ScriptedReply(tool_calls=[call("on level 3", 3)]),
    "On level 3.",
]
LOOP = [
    "user: Where did I park?",
    "assistant: Let me look.",
    "call call_1 look in the yard",
    "call call_2 look in the hall",
    "result call_1: the car, in the yard",
    "result call_2: the car, in the hall",
    "call call_3 look on level 3",
    "result call_3: the car, on level 3",
]


# -- tools and people -----------------------------------------------------------------------------


@pytest.mark.parametrize("saver", [None, InMemorySaver])
async def test_a_loop_of_parallel_calls_is_stored_and_sent_again(memory, provider, saver):
    async with provider.answer([*LOOKED, "Bye."]) as (model, service):
        graph = a_tool_loop(memory, model, saver=saver and saver())
        await graph.ainvoke(says("Where did I park?"), at())
        await graph.ainvoke(says("Thanks!"), at())
    assert service.requests == [
        LOOP[:1],
        LOOP[:6],
        LOOP,
        [*LOOP, "assistant: On level 3.", "user: Thanks!"],
    ]
    assert len({entry.turn_id for entry in entries(memory)[:7]}) == 1


async def test_a_call_that_waits_for_a_person_is_in_the_log_and_goes_on_in_its_turn(
    memory, provider
):
    asking = ScriptedReply(tool_calls=[call("in the yard", 1, "ask"), call("in the hall", 2)])
    async with provider.answer([asking, "In the yard."]) as (model, service):
        graph = a_tool_loop(memory, model, saver=InMemorySaver())
        waiting = await graph.ainvoke(says("Where did I park?"), at())
        assert [one.value for one in waiting["__interrupt__"]] == ["in the yard"]
        assert roles(memory)[:2] == ["user", "assistant"]
        assert [one["id"] for one in stored(memory)[1].tool_calls] == ["call_1", "call_2"]
        await graph.ainvoke(Command(resume="it is"), at())
    assert service.requests[1] == [
        "user: Where did I park?",
        "call call_1 ask in the yard",
        "call call_2 look in the hall",
        "result call_1: in the yard: it is",
        "result call_2: the car, in the hall",
    ]
    assert roles(memory) == ["user", "assistant", "tool", "tool", "assistant"]
    assert len({entry.turn_id for entry in entries(memory)}) == 1


# -- failures -------------------------------------------------------------------------------------


async def test_the_words_of_a_stream_that_broke_are_kept_and_sent_again(memory, provider):
    cut = ScriptedReply(text="one two three four", cut_after_chunks=3)
    async with provider.answer([cut, "five"]) as (model, service):
        graph = create_memory_graph(memory, model, recall=False)
        with pytest.raises(Exception):  # noqa: B017, PT011 - each client has its own
            async for _ in graph.astream(says("Count!"), at(), stream_mode="messages"):
                pass
        assert texts(stored(memory)) == ["human: Count!", "ai: one two"]
        assert last_attributes(memory) == ("interrupted",)
        await graph.ainvoke(says("Go on."), at())
    assert service.requests[1] == ["user: Count!", "assistant: one two", "user: Go on."]


# -- objects, chats -------------------------------------------------------------------------------


async def test_an_object_is_kept_as_text_and_leaves_no_call_open(memory, provider):
    made = ScriptedReply(tool_calls=[ScriptedToolCall("Spot", {"place": "level 3"}, "c1")])
    method = {"method": "function_calling"} if provider.name == "openai" else {}
    async with provider.answer([made, "Bye."]) as (model, service):
        spot = model.with_structured_output(Spot, **method)
        graph = create_memory_graph(memory, spot, recall=False)
        await graph.ainvoke(says("Where?"), at())
        await memory.wrap(model, recall=False).ainvoke("Thanks!", at())
    assert service.requests[1] == [
        "user: Where?",
        'assistant: {"place": "level 3"}',
        "user: Thanks!",
    ]
