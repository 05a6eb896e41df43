from __future__ import annotations

import asyncio
import json
import threading
from typing import Annotated

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    ModelFallbackMiddleware,
    before_model,
)
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, interrupt
from scripted_agents import RUNS, agent_with, calls, entries, look, says, shape, spoken, view
from scripted_chat import FailingLog, ProviderError, ScriptedChatModel, at

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import LogUnavailableError
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.views.tool_calls import INTERRUPTED_RESULT


def test_no_caller_can_say_which_turn_is_under_way(memory):
    agent = agent_with(memory, ScriptedChatModel(replies=["Yes."]), checkpointer=InMemorySaver())
    forged = {"id": "x", "first": "y", "user": "bob"}
    returned = agent.invoke({**says("Well?"), "convmem_turn": forged}, at())
    assert "convmem_turn" not in returned
    kept, asked = agent.get_state(at()).values["convmem_turn"], entries(memory)[0]
    assert (kept["id"], kept["position"]) == (asked.turn_id, asked.position)
    assert (kept["first"], kept["user"]) == (returned["messages"][0].id, "ana")
    assert json.loads(json.dumps(kept)) == kept, "plain values for any checkpointer"


def test_the_result_of_one_tool_is_kept_when_the_one_beside_it_breaks_down(memory):
    stored, append = threading.Event(), memory.log.append

    def append_and_tell(key, drafts, **more):
        added = append(key, drafts, **more)
        if drafts[-1].role == "tool":
            stored.set()
        return added

    memory.log.append = append_and_tell

    @tool
    async def wait(place: str) -> str:
        """Break down in the shop, once the result of the other one is stored."""
        if place == "yard":
            return place
        await asyncio.to_thread(stored.wait, 20)
        raise ProviderError(place)

    model = ScriptedChatModel(replies=[calls("yard", "shop", tool_name="wait"), "I see."])
    agent = agent_with(memory, model, tools=[wait])

    async def chat():
        with pytest.raises(ProviderError):
            await agent.ainvoke(says("Where?"), at())
        await agent.ainvoke(says("And?"), at())

    asyncio.run(chat())
    results = ["tool c0: yard", f"tool c1: {INTERRUPTED_RESULT}"]
    assert shape(model.seen[1])[1:4] == ["ai -> c0 c1", *results]


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


def test_what_is_said_in_the_middle_of_a_loop_belongs_to_the_turn(memory):
    @before_model
    def remind(state, runtime):
        said = state["messages"]
        return {"messages": [HumanMessage("Hurry.")]} if said[-1].type == "tool" else None

    model = ScriptedChatModel(replies=[calls("yard"), "Done.", "Yes."])
    agent = agent_with(memory, model, before=[remind])
    agent.invoke(says("Where?"), at())
    assert shape(model.seen[1])[-1] == "human: Hurry."
    assert len({entry.turn_id for entry in entries(memory)}) == 1


class ChatBedrockConverse(ScriptedChatModel):
    __module__ = "langchain_aws"


class ChatOpenAI(ScriptedChatModel):
    __module__ = "langchain_openai"


def test_each_model_gets_what_its_own_provider_takes(memory):
    picture = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
    audio = {"type": "audio", "base64": "aGk=", "mime_type": "audio/wav"}
    said = HumanMessage([{"type": "text", "text": "See and hear."}, picture, audio])
    memory.add_messages([said, AIMessage("I do.")], user_id="ana", thread_id="t")
    spare = ChatOpenAI(replies=["Yes."])
    model = ChatBedrockConverse(replies=[ProviderError()])
    agent_with(memory, model, before=[ModelFallbackMiddleware(spare)]).invoke(says("Well?"), at())
    kinds = [[block["type"] for block in one.seen[0][0].content] for one in (model, spare)]
    assert "audio" in kinds[1]
    assert "audio" not in kinds[0]


def test_a_run_that_is_resumed_answers_in_the_place_of_the_broken_reply(memory):
    saver = InMemorySaver()
    breaking = ScriptedChatModel(replies=["One two three four"], breaks_after=2)
    with pytest.raises(ProviderError):
        RUNS["stream"](agent_with(memory, breaking, checkpointer=saver), says("Count."), at())
    agent_with(memory, ScriptedChatModel(replies=["Three."]), checkpointer=saver).invoke(None, at())
    assert view(memory) == ["human: Count.", "ai: Three."]


def said_by(memory):
    return [
        (entry.message.name or entry.role, entry.message.text)
        for entry in find_live_entries(entries(memory))
    ]


def controls(memory):
    return [entry.control.reason for entry in entries(memory) if entry.control is not None]


def an_agent(memory, name, *replies, **options):
    return agent_with(memory, ScriptedChatModel(replies=list(replies)), name=name, **options)


@tool
def ask_expert(place: str, messages: Annotated[list, InjectedState("messages")]) -> Command:
    """Hand over to the expert."""
    done = ToolMessage(f"handed over: {place}", tool_call_id="c0", name="ask_expert")
    update = {"messages": [*messages, done]}
    return Command(goto="expert", graph=Command.PARENT, update=update)


@pytest.mark.parametrize("keep_state", ["all", "turn"])
def test_an_agent_that_hands_over_to_another_leaves_each_message_once_and_named(
    memory, saver, keep_state
):
    options = {"options": {"keep_state": keep_state}}
    over = calls("garage", tool_name="ask_expert")
    host = an_agent(memory, "host", over, "You are welcome.", tools=[ask_expert], **options)
    expert = an_agent(memory, "expert", "On level C.", **options)
    builder = StateGraph(MessagesState).add_node("host", host).add_node("expert", expert)
    graph = builder.add_edge(START, "host").compile(checkpointer=saver)
    graph.invoke(says("Where?"), at())
    handed = [("host", ""), ("ask_expert", "handed over: garage")]
    assert said_by(memory) == [("user", "Where?"), *handed, ("expert", "On level C.")]
    assert len({entry.turn_id for entry in entries(memory)}) == 1
    graph.invoke(says("Thanks."), at())
    assert said_by(memory)[4:] == [("user", "Thanks."), ("host", "You are welcome.")]
    assert controls(memory) == []


def test_agents_side_by_side_each_leave_their_loop_under_their_own_name(memory, saver):
    abe = an_agent(memory, "abe", calls("yard"), "In the yard.", "Sure.")
    bea = an_agent(memory, "bea", calls("hall", first=1), "In the hall.", "Quite.")
    builder = StateGraph(MessagesState).add_node("abe", abe).add_node("bea", bea)
    graph = builder.add_edge(START, "abe").add_edge(START, "bea").compile(checkpointer=saver)
    graph.invoke(says("Where?", "q1"), at())
    loops = [("abe", ""), ("abe", "In the yard."), ("bea", ""), ("bea", "In the hall.")]
    looks = [("look", "hall: a bicycle"), ("look", "yard: a bicycle")]
    assert sorted(said_by(memory)) == [*loops, *looks, ("user", "Where?")]
    graph.invoke(says("Sure?"), at())
    assert sorted(said_by(memory)[7:]) == [("abe", "Sure."), ("bea", "Quite."), ("user", "Sure?")]
    assert controls(memory) == []
    assert memory.history("t", user_id="ana").context().repairs == ()


def test_an_approved_tool_leaves_nothing_in_a_thread_that_was_erased_meanwhile(memory):
    model = ScriptedChatModel(replies=[calls("safe 4711"), "Seen: 4711.", "Hello."])
    person = HumanInTheLoopMiddleware({"look": True})
    agent = agent_with(memory, model, before=[person], checkpointer=InMemorySaver())
    agent.invoke(says("Look into safe 4711."), at())
    memory.forget(user_id="ana", thread_id="t")
    decision = Command(resume={"decisions": [{"type": "approve"}]})
    assert agent.invoke(decision, at())["messages"][-1].text == "Seen: 4711."
    assert memory.threads("ana") == []
    agent.invoke(says("Good morning."), at())
    assert view(memory) == ["human: Good morning.", "ai: Hello."]


KEPT = pytest.mark.parametrize("keep_state", ["all", "turn"])
LOOP = ["human: Where?", "ai -> c0", "tool c0: yard: a bicycle", "ai: In the yard."]


@tool
def ask(place: str) -> str:
    """Ask a person."""
    return f"{place}: {interrupt(place)}"


def test_nothing_leaves_the_state_before_it_is_in_the_log(memory):
    saver = InMemorySaver()
    agent = agent_with(memory, ScriptedChatModel(replies=["One."]), checkpointer=saver)
    agent.invoke(says("First?"), at())
    broken = ConversationMemory(FailingLog(memory.log, 1))
    options, model = {"keep_state": "turn"}, ScriptedChatModel(replies=["Two."])
    agent = agent_with(broken, model, options=options, checkpointer=saver)
    with pytest.raises(LogUnavailableError):
        agent.invoke(says("Second?"), at())
    assert shape(agent.get_state(at()).values["messages"])[:2] == ["human: First?", "ai: One."]


@KEPT
def test_an_agent_that_had_no_memory_so_far_brings_what_its_state_holds(memory, saver, keep_state):
    looking = ScriptedChatModel(replies=[calls("yard"), "In the yard."])
    create_agent(looking, [look], checkpointer=saver).invoke(says("Where?"), at())
    model = ScriptedChatModel(replies=["Yes."])
    agent = agent_with(memory, model, options={"keep_state": keep_state}, checkpointer=saver)
    agent.invoke(says("Sure?"), at())
    assert view(memory) == [*LOOP, "human: Sure?", "ai: Yes."]
    assert len({entry.turn_id for entry in entries(memory)}) == 2


@KEPT
def test_a_run_that_was_interrupted_goes_on_in_the_same_turn(memory, saver, keep_state):
    asks = calls("yard", "hall", tool_name="ask")
    model = ScriptedChatModel(replies=["Hello.", asks, "Both are there."])
    options = {"keep_state": keep_state}
    agent = agent_with(memory, model, tools=[ask], options=options, checkpointer=saver)
    agent.invoke(says("Hi."), at())
    agent.invoke(says("Where?"), at())
    assert view(memory)[2:4] == ["human: Where?", "ai -> c0 c1"]
    waiting = agent.get_state(at()).interrupts
    agent.invoke(Command(resume={one.id: f"yes, {one.value}" for one in waiting}), at())
    results = ["tool c0: yard: yes, yard", "tool c1: hall: yes, hall"]
    assert view(memory)[3:] == ["ai -> c0 c1", *results, "ai: Both are there."]
    assert sorted(spoken(memory)) == sorted(view(memory)), "tools end in any order"
    assert len({entry.turn_id for entry in entries(memory)}) == 2


def test_a_reply_that_was_stored_and_not_checkpointed_is_replaced_by_the_next(memory):
    """The process died between the log's write and the checkpointer's."""
    saver = InMemorySaver()
    model = ScriptedChatModel(replies=[calls("yard"), "Lost.", "In the yard."])
    agent = agent_with(memory, model, checkpointer=saver)
    agent.invoke(says("Where?"), at())
    snapshots = list(agent.get_state_history(at()))
    before_reply = next(one for one in snapshots if one.values["messages"][-1].type == "tool")
    saver.delete_thread("t")
    agent.update_state(at(), before_reply.values | {}, as_node="tools")
    agent.invoke(None, at())
    assert view(memory) == LOOP
    assert "ai: Lost." in spoken(memory)
