"""An agent remembers: its turns, its tools, its retries, and other agents beside it."""

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
    ModelRetryMiddleware,
    wrap_model_call,
)
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.types import Command
from scripted_agents import RUNS, agent_with, calls, entries, says, shape, spoken, view
from scripted_chat import FailingLog, ProviderError, ScriptedChatModel, at
from topics import BOAT, DOG, memory_with_a_buffer

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import ConfigError
from langchain_convmem.integrations import ConversationMemoryMiddleware, create_search_tool
from langchain_convmem.records import Owner
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.views.tool_calls import INTERRUPTED_RESULT


def test_several_messages_at_once_are_one_turn_with_their_reply(memory):
    model = ScriptedChatModel(replies=["Both."])
    agent = agent_with(memory, model)
    agent.invoke({"messages": [HumanMessage("One?"), HumanMessage("Two?")]}, at())
    assert shape(model.seen[0]) == ["human: One?\nTwo?"]
    assert len({entry.turn_id for entry in entries(memory)}) == 1


def test_the_state_never_holds_recalled_text(memory):
    memory.add_messages([HumanMessage("My bicycle is red.")], user_id="ana", thread_id="old")
    agent = agent_with(memory, ScriptedChatModel(replies=["Red."]), options={"recall": True})
    returned = agent.invoke(says("Which colour is my bicycle?"), at())
    assert shape(returned["messages"]) == ["human: Which colour is my bicycle?", "ai: Red."]
    assert set(returned) == {"messages"}


def test_what_frames_the_thread_joins_the_prompt_of_the_agent(memory):
    memory.add_messages([SystemMessage("Ana is a client.")], user_id="ana", thread_id="t")
    model = ScriptedChatModel(replies=["Yes."])
    agent_with(memory, model, system_prompt="Be brief.").invoke(says("Well?"), at())
    assert shape(model.seen[0]) == ["system: Be brief.\n\nAna is a client.", "human: Well?"]


def test_no_caller_can_say_which_turn_is_under_way(memory):
    agent = agent_with(memory, ScriptedChatModel(replies=["Yes."]), checkpointer=InMemorySaver())
    forged = {"id": "x", "first": "y", "user": "bob"}
    returned = agent.invoke({**says("Well?"), "convmem_turn": forged}, at())
    assert "convmem_turn" not in returned
    kept = agent.get_state(at()).values["convmem_turn"]
    assert kept == {
        "id": entries(memory)[0].turn_id,
        "first": returned["messages"][0].id,
        "user": "ana",
        "generation": memory.log.changes(Owner(user_id="ana")).generation,
        "run": kept["run"],
        "position": entries(memory)[0].position,
    }
    assert json.loads(json.dumps(kept)) == kept, "plain values for any checkpointer"


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


INNER_AND_OUTER = pytest.mark.parametrize("place", ["before", "after"])
"""Other middleware before ours in the list wraps it; behind it, it is wrapped."""


@INNER_AND_OUTER
@pytest.mark.parametrize("way", RUNS)
def test_a_model_that_is_called_again_after_an_error_answers_once(memory, way, place):
    retry = ModelRetryMiddleware(max_retries=2, initial_delay=0, jitter=False)
    model = ScriptedChatModel(replies=[ProviderError(), ProviderError(), calls("yard"), "Here."])
    agent = agent_with(memory, model, **{place: [retry]})
    RUNS[way](agent, says("Where?"), at())
    expected = ["human: Where?", "ai -> c0", "tool c0: yard: a bicycle", "ai: Here."]
    assert spoken(memory) == expected
    assert shape(model.seen[0]) == shape(model.seen[2]) == ["human: Where?"]


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


STREAMS = pytest.mark.parametrize("way", ["stream", "astream"])


def breaking(*replies, after=2):
    return ScriptedChatModel(replies=list(replies) or ["One two three four"], breaks_after=after)


def talk(memory):
    return [
        (entry.role, *entry.contents, *entry.metadata.attributes)
        for entry in entries(memory)
        if entry.control is None
    ]


def run_broken(agent, way="stream", says_=None, config=None):
    with pytest.raises(ProviderError):
        RUNS[way](agent, says_ or says("Count.", "q1"), config or at())


def test_a_run_that_is_resumed_answers_in_the_place_of_the_broken_reply(memory):
    saver = InMemorySaver()
    run_broken(agent_with(memory, breaking(), checkpointer=saver))
    agent_with(memory, ScriptedChatModel(replies=["Three."]), checkpointer=saver).invoke(None, at())
    assert view(memory) == ["human: Count.", "ai: Three."]


@STREAMS
@pytest.mark.parametrize("place", ["before", "after"])
def test_what_a_retry_says_takes_the_place_of_what_broke(memory, way, place):
    retry = ModelRetryMiddleware(max_retries=1, initial_delay=0, jitter=False, on_failure="error")
    run_broken(
        agent_with(memory, breaking("One two three", "Four five six"), **{place: [retry]}), way
    )
    assert view(memory) == ["human: Count.", "ai: Four five "]


@STREAMS
def test_of_a_model_that_another_one_stood_in_for_nothing_is_kept(memory, way):
    other = ModelFallbackMiddleware(ScriptedChatModel(replies=["Three."]))
    RUNS[way](agent_with(memory, breaking(), after=[other]), says("Count."), at())
    assert talk(memory) == [("user", "Count."), ("assistant", "Three.")]


def test_a_whole_reply_that_is_refused_behind_the_model_is_not_kept(memory):
    @wrap_model_call
    def refuse(request, handler):
        handler(request)
        raise ProviderError("refused")

    agent = agent_with(memory, ScriptedChatModel(replies=["Secret."]), after=[refuse])
    run_broken(agent)
    assert talk(memory) == [("user", "Count.")]


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
    assert said_by(memory) == [
        ("user", "Where?"),
        ("host", ""),
        ("ask_expert", "handed over: garage"),
        ("expert", "On level C."),
    ]
    assert len({entry.turn_id for entry in entries(memory)}) == 1
    graph.invoke(says("Thanks."), at())
    assert said_by(memory)[4:] == [("user", "Thanks."), ("host", "You are welcome.")]
    assert controls(memory) == []


def side_by_side(memory, saver, abe, bea):
    builder = StateGraph(MessagesState).add_node("abe", abe).add_node("bea", bea)
    return builder.add_edge(START, "abe").add_edge(START, "bea").compile(checkpointer=saver)


def test_agents_side_by_side_each_leave_their_loop_under_their_own_name(memory, saver):
    abe = an_agent(memory, "abe", calls("yard"), "In the yard.", "Sure.")
    bea = an_agent(memory, "bea", calls("hall", first=1), "In the hall.", "Quite.")
    graph = side_by_side(memory, saver, abe, bea)
    graph.invoke(says("Where?", "q1"), at())
    assert sorted(said_by(memory)) == [
        ("abe", ""),
        ("abe", "In the yard."),
        ("bea", ""),
        ("bea", "In the hall."),
        ("look", "hall: a bicycle"),
        ("look", "yard: a bicycle"),
        ("user", "Where?"),
    ]
    graph.invoke(says("Sure?"), at())
    assert sorted(said_by(memory)[7:]) == [("abe", "Sure."), ("bea", "Quite."), ("user", "Sure?")]
    assert controls(memory) == []
    assert memory.history("t", user_id="ana").context().repairs == ()


@pytest.fixture
def buffered():
    with memory_with_a_buffer() as opened:
        yield opened


def shown_to(model):
    """Return what stands before the user's own words in the last call."""
    content = model.seen[-1][-1].content
    return content[0]["text"] if isinstance(content, list) else ""


def test_what_a_model_looks_up_stays_in_sight_too(buffered):
    tool = create_search_tool(buffered, k=1)
    looked_up = tool.invoke({"query": "the boat"}, at())
    assert BOAT in looked_up
    again = tool.invoke({"query": "the dog"}, at())
    assert 0 < again.index(DOG) < again.index(BOAT)
    model = ScriptedChatModel(replies=["Red."])
    agent_with(buffered, model, options={"recall": True}).invoke(says("Well then."), at())
    assert BOAT in shown_to(model)


CONFIG = {"configurable": {"user_id": "ana", "thread_id": "mail"}}


@tool
def send_mail(text: str) -> str:
    """Send a mail."""
    return f"sent: {text}"


def test_an_approved_tool_leaves_nothing_in_a_thread_that_was_erased_meanwhile():
    call = {"name": "send_mail", "args": {"text": "the code is 4711"}, "id": "c1"}
    model = ScriptedChatModel(
        replies=[AIMessage("", tool_calls=[call]), "Sent the code 4711.", "Hello."]
    )
    with ConversationMemory.open(":memory:") as memory:
        agent = create_agent(
            model,
            [send_mail],
            middleware=[
                HumanInTheLoopMiddleware(interrupt_on={"send_mail": True}),
                ConversationMemoryMiddleware(memory),
            ],
            checkpointer=InMemorySaver(),
        )
        agent.invoke({"messages": [("user", "Mail the code 4711.")]}, CONFIG)
        memory.forget(user_id="ana", thread_id="mail")
        decision = Command(resume={"decisions": [{"type": "approve"}]})
        assert agent.invoke(decision, CONFIG)["messages"][-1].text == "Sent the code 4711."
        assert memory.threads("ana") == []
        agent.invoke({"messages": [("user", "Good morning.")]}, CONFIG)
        texts = [message.text for message in memory.history("mail", user_id="ana").messages]
        assert texts == ["Good morning.", "Hello."]


def test_an_unknown_way_to_keep_the_state_is_refused(memory):
    with pytest.raises(ConfigError, match="'most'"):
        ConversationMemoryMiddleware(memory, keep_state="most")


def test_a_command_that_answers_a_call_is_stored_like_any_result(memory):
    @tool
    def note(place: str) -> Command:
        """Answer with a command."""
        return Command(update={"messages": [ToolMessage(place, tool_call_id="c0")]})

    model = ScriptedChatModel(replies=[calls("yard", tool_name="note"), "Noted."])
    returned = agent_with(memory, model, tools=[note]).invoke(says("Note it."), at())
    assert view(memory) == ["human: Note it.", "ai -> c0", "tool c0: yard", "ai: Noted."]
    assert {e.message.id for e in entries(memory)} == {m.id for m in returned["messages"]}
