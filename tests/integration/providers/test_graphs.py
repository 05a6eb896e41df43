"""Graphs before the services of providers: interrupts, going back, subgraphs, branches."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt
from scripted_chat import at
from wire_promises import Spot, last_attributes, look, stored, texts

from langchain_convmem.integrations.langgraph import (
    MemoryState,
    memory_graph,
    model_node,
    recall_node,
    record_node,
)
from langchain_convmem.testing import ScriptedError, ScriptedReply, ScriptedToolCall

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


def shown(memory):
    return [one.text for one in memory.history("t", user_id="ana").messages]


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


async def test_a_question_that_comes_instead_of_an_answer_closes_the_call(memory, provider):
    asking = ScriptedReply(tool_calls=[call("in the yard", 1, "ask")])
    async with provider.answer([asking, "As you like."]) as (model, service):
        graph = a_tool_loop(memory, model, saver=InMemorySaver())
        await graph.ainvoke(says("Where did I park?"), at())
        await graph.ainvoke(says("Never mind."), at())
    *said, result, last = service.requests[1]
    assert said == ["user: Where did I park?", "call call_1 ask in the yard"]
    assert result.startswith("result call_1: ")
    assert last == "user: Never mind."


# -- failures -------------------------------------------------------------------------------------


async def test_a_run_that_failed_goes_on_where_it_was(memory, provider):
    async with provider.answer([LOOKED[0], ScriptedError(status=500), "There."]) as (
        model,
        service,
    ):
        graph = a_tool_loop(memory, model, saver=InMemorySaver())
        with pytest.raises(Exception, match="scripted error"):
            await graph.ainvoke(says("Where did I park?"), at())
        assert roles(memory) == ["user", "assistant", "tool", "tool"]
        await graph.ainvoke(None, at())
    assert service.requests[1] == service.requests[2] == LOOP[:6]
    assert roles(memory) == ["user", "assistant", "tool", "tool", "assistant"]


@pytest.mark.parametrize("schema", [MemoryState, MessagesState])
async def test_the_words_of_a_stream_that_broke_are_kept_and_sent_again(memory, provider, schema):
    def said(text):
        return {"input": text} if schema is MemoryState else says(text)

    cut = ScriptedReply(text="one two three four", cut_after_chunks=3)
    async with provider.answer([cut, "five"]) as (model, service):
        graph = memory_graph(memory, model, state_schema=schema, recall=False)
        with pytest.raises(Exception):  # noqa: B017, PT011 - each client has its own
            async for _ in graph.astream(said("Count!"), at(), stream_mode="messages"):
                pass
        assert texts(stored(memory)) == ["human: Count!", "ai: one two"]
        assert last_attributes(memory) == ("interrupted",)
        await graph.ainvoke(said("Go on."), at())
    assert service.requests[1] == ["user: Count!", "assistant: one two", "user: Go on."]


# -- going back -----------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [MemoryState, MessagesState])
async def test_a_run_from_an_earlier_checkpoint_asks_without_what_came_after(
    memory, provider, schema
):
    def said(text):
        return {"input": text} if schema is MemoryState else says(text)

    replies = ["On level 3.", "In your coat.", "In the car.", "Bye."]
    async with provider.answer(replies) as (model, service):
        graph = memory_graph(
            memory, model, state_schema=schema, checkpointer=InMemorySaver(), recall=False
        )
        await graph.ainvoke(said("Where did I park?"), at())
        first = graph.get_state(at()).config["configurable"]
        await graph.ainvoke(said("And the key?"), at())
        back = {"configurable": {**first, "user_id": "ana"}}
        await graph.ainvoke(said("And the bag?"), back)
        await graph.ainvoke(said("Thanks!"), at())
    parked = ["user: Where did I park?", "assistant: On level 3."]
    assert service.requests[2] == [*parked, "user: And the bag?"]
    assert service.requests[3] == [*service.requests[2], "assistant: In the car.", "user: Thanks!"]
    assert "human: And the key?" in texts(stored(memory)), "the log keeps it"


async def test_an_edit_of_the_state_is_what_the_service_gets(memory, provider):
    async with provider.answer(["To Lisbon.", "Ok."]) as (model, service):
        graph = memory_graph(
            memory, model, state_schema=MessagesState, checkpointer=InMemorySaver(), recall=False
        )
        await graph.ainvoke(says("Where to?", "q1"), at())
        edited = AIMessage("To Porto.", id=graph.get_state(at()).values["messages"][-1].id)
        graph.update_state(at(), {"messages": [edited]})
        await graph.ainvoke(says("When?"), at())
    assert service.requests[1] == ["user: Where to?", "assistant: To Porto.", "user: When?"]
    assert shown(memory) == ["Where to?", "To Porto.", "When?", "Ok."]


# -- graphs in graphs -----------------------------------------------------------------------------


async def test_a_tool_loop_that_is_a_node_of_a_graph_remembers_as_one_that_is_not(memory, provider):
    async with provider.answer([*LOOKED, "Bye."]) as (model, service):
        builder = StateGraph(MessagesState)
        builder.add_node("loop", a_tool_loop(memory, model))
        graph = builder.add_edge(START, "loop").compile(checkpointer=InMemorySaver())
        await graph.ainvoke(says("Where did I park?"), at())
        await graph.ainvoke(says("Thanks!"), at())
    assert service.requests[2:] == [LOOP, [*LOOP, "assistant: On level 3.", "user: Thanks!"]]
    assert len(entries(memory)) == 9


def by_voice(provider, answers):
    """Return what answers each voice by the system message of its request."""

    def answer(body):
        lines = provider.lines_of(body)
        voice = next((name for name in answers if f"You are {name}." in lines[0]), None)
        return "Bye." if voice is None else answers[voice]

    return answer


def voice(memory, model, name):
    """Return the node of a model with a system prompt and a name of its own."""
    prompt = ChatPromptTemplate([("system", f"You are {name}."), MessagesPlaceholder("messages")])
    return model_node(memory, prompt | model, recall=False, name=name)


async def test_branches_at_once_each_leave_their_reply_under_their_own_name(memory, provider):
    answers = {"abe": "It is so.", "bea": "It is not."}
    async with provider.answer(by_voice(provider, answers)) as (model, service):
        builder = StateGraph(MessagesState)
        builder.add_node("recall", recall_node(memory, recall=False))
        builder.add_node("record", record_node(memory))
        builder.add_edge(START, "recall")
        for name in answers:
            builder.add_node(name, voice(memory, model, name))
            builder.add_edge("recall", name)
        builder.add_edge(list(answers), "record")
        graph = builder.compile(checkpointer=InMemorySaver())
        await graph.ainvoke(says("Is it so?"), at())
        await memory.wrap(model, recall=False).ainvoke("Hm.", at())
    said = [(one.name, one.text) for one in stored(memory) if one.type == "ai"]
    assert sorted(said[:2]) == [("abe", "It is so."), ("bea", "It is not.")]
    assert len({entry.turn_id for entry in entries(memory)[:3]}) == 1
    first, both, last = service.requests[2]
    assert (first, last) == ("user: Is it so?", "user: Hm.")
    assert sorted(both.removeprefix("assistant: ").splitlines()) == [
        "abe: It is so.",
        "bea: It is not.",
    ]


# -- objects, chats -------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [MemoryState, MessagesState])
async def test_an_object_is_kept_as_text_and_leaves_no_call_open(memory, provider, schema):
    made = ScriptedReply(tool_calls=[ScriptedToolCall("Spot", {"place": "level 3"}, "c1")])
    said = {"input": "Where?"} if schema is MemoryState else says("Where?")
    method = {"method": "function_calling"} if provider.name == "openai" else {}
    async with provider.answer([made, "Bye."]) as (model, service):
        spot = model.with_structured_output(Spot, **method)
        graph = memory_graph(memory, spot, state_schema=schema, recall=False)
        await graph.ainvoke(said, at())
        await memory.wrap(model, recall=False).ainvoke("Thanks!", at())
    assert service.requests[1] == [
        "user: Where?",
        'assistant: {"place": "level 3"}',
        "user: Thanks!",
    ]


async def test_a_page_that_sends_the_last_messages_doubles_nothing(memory, provider):
    replies = ["On level 3.", "In your coat.", "Fine.", "Fine."]
    async with provider.answer(replies) as (model, service):
        graph = memory_graph(memory, model, state_schema=MessagesState, recall=False)
        page = []
        for number, text in enumerate(("Where did I park?", "And the key?", "yes", "yes")):
            page.append({"role": "user", "content": text})
            system = {"role": "system", "content": f"Day {number}."}
            found = await graph.ainvoke({"messages": [system, *page[-3:]]}, at())
            page.append({"role": "assistant", "content": found["messages"][-1].text})
    told = [f"{one['role']}: {one['content']}" for one in page]
    assert service.requests[3] == ["system: Day 3.", *told[:-1]]
    assert texts(stored(memory)) == [
        line.replace("user", "human").replace("assistant", "ai") for line in told
    ]
