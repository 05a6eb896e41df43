"""One thread under every host: what one of them writes, all others read the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from agents import Agent, Runner, function_tool
from agents.testing import ScriptedModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from mcp import Client
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.messages import ModelResponse, ThinkingPart
from pydantic_ai.messages import TextPart as PydanticText
from pydantic_ai.models.test import TestModel
from scripted_chat import ScriptedChatModel
from turn_hosts import HOSTS

from langchain_convmem import ConversationMemory, EmbeddedEmbeddings, InMemoryLog
from langchain_convmem.integrations import (
    ConversationSession,
    ConversationStore,
    PydanticAIHistory,
    make_mcp_server,
)

Said = list[tuple[str, str]]
CONFIG = {"configurable": {"user_id": "ana", "thread_id": "t"}}


@pytest.fixture
def memory():
    with ConversationMemory(InMemoryLog(), embeddings=EmbeddedEmbeddings()) as memory:
        yield memory


# -- how each host writes an exchange, and reads a thread -----------------------------------------
def write_by_turn(host: Any) -> Callable[..., Coroutine[Any, Any, None]]:
    async def write(memory: Any, user_id: str, asked: str, answered: str) -> None:
        app = host.app(memory, ScriptedChatModel(replies=[answered]), recall=False)
        await app.ainvoke(asked, {"configurable": {"user_id": user_id, "thread_id": "t"}})

    return write


async def write_by_mcp(memory: Any, user_id: str, asked: str, answered: str) -> None:
    async with Client(make_mcp_server(memory, user_id=user_id)) as client:
        for text, said_by in ((asked, "user"), (answered, "assistant")):
            call = {"text": text, "said_by": said_by, "thread_id": "t"}
            assert not (await client.call_tool("remember", call)).is_error


async def write_by_store(memory: Any, user_id: str, asked: str, answered: str) -> None:
    store = ConversationStore(memory, user_id=user_id)
    number = len(memory.history("t", user_id=user_id).entries)
    for role, text in (("user", asked), ("assistant", answered)):
        await store.aput(("threads", "t"), f"{role}{number}", {"role": role, "content": text})


def say(text: str) -> list[Any]:
    """Return the output of a scripted model of the Agents SDK."""
    part = ResponseOutputText(text=text, type="output_text", annotations=[])
    return [
        ResponseOutputMessage(
            id="msg", type="message", role="assistant", status="completed", content=[part]
        )
    ]


async def write_by_session(memory: Any, user_id: str, asked: str, answered: str) -> None:
    session = ConversationSession(memory, "t", user_id=user_id)
    agent = Agent(name="A", model=ScriptedModel([say(answered)]))
    await Runner.run(agent, asked, session=session)


async def write_by_pydantic_ai(memory: Any, user_id: str, asked: str, answered: str) -> None:
    history = PydanticAIHistory(memory, "t", user_id=user_id)
    agent = PydanticAgent(TestModel(custom_output_text=answered), instructions="Be brief.")
    result = await agent.run(asked, message_history=await history.aload())
    await history.aadd(result.new_messages())


def read_by_turn(host: Any) -> Callable[..., Coroutine[Any, Any, Said]]:
    async def read(memory: Any, user_id: str) -> Said:
        model = ScriptedChatModel(replies=["-"])
        app = host.app(memory, model, recall=False)
        copy = {"configurable": {"user_id": user_id, "thread_id": "t"}}
        await app.ainvoke("What was said?", copy)
        roles = {"human": "user", "ai": "assistant"}
        said = [(roles[one.type], str(one.text)) for one in model.seen[-1] if one.type in roles]
        memory.history("t", user_id=user_id).undo()
        return said[:-1]

    return read


async def read_by_history(memory: Any, user_id: str) -> Said:
    view = await memory.history("t", user_id=user_id).aget_messages()
    return [("user" if one.type == "human" else "assistant", str(one.text)) for one in view]


async def read_by_mcp(memory: Any, user_id: str) -> Said:
    async with Client(make_mcp_server(memory, user_id=user_id)) as client:
        page = (await client.call_tool("read_thread", {"thread_id": "t"})).structured_content
    return [(line["role"], line["text"]) for line in page["lines"]]


async def read_by_store(memory: Any, user_id: str) -> Said:
    items = await ConversationStore(memory, user_id=user_id).asearch(("threads", "t"), limit=99)
    return [(item.value["role"], item.value["content"]) for item in reversed(items)]


async def read_by_session(memory: Any, user_id: str) -> Said:
    items = await ConversationSession(memory, "t", user_id=user_id).get_items()
    said: Said = []
    for item in items:
        content = item["content"]
        text = content if isinstance(content, str) else content[0]["text"]
        said.append((item["role"], text))
    return said


async def read_by_pydantic_ai(memory: Any, user_id: str) -> Said:
    loaded = await PydanticAIHistory(memory, "t", user_id=user_id).aload()
    return [
        ("user" if one.kind == "request" else "assistant", str(part.content))
        for one in loaded
        for part in one.parts
    ]


WRITERS = {name: write_by_turn(host) for name, host in HOSTS.items()} | {
    "MCP": write_by_mcp,
    "store": write_by_store,
    "openai-agents": write_by_session,
    "pydantic-ai": write_by_pydantic_ai,
}
READERS = {
    "history": read_by_history,
    "MCP": read_by_mcp,
    "store": read_by_store,
    "openai-agents": read_by_session,
    "pydantic-ai": read_by_pydantic_ai,
}
EXCHANGE = [("user", "My cat is called Miso."), ("assistant", "A fine name.")]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("writer", WRITERS)
async def test_what_one_host_writes_another_reads(memory, writer, reader):
    await WRITERS[writer](memory, "ana", EXCHANGE[0][1], EXCHANGE[1][1])
    assert await READERS[reader](memory, "ana") == EXCHANGE


@pytest.mark.parametrize("host", HOSTS.values(), ids=list(HOSTS))
async def test_a_turn_continues_what_all_others_wrote(memory, host):
    expected: Said = []
    for number, write in enumerate(WRITERS.values()):
        await write(memory, "ana", f"Question {number}?", f"Answer {number}.")
        expected += [("user", f"Question {number}?"), ("assistant", f"Answer {number}.")]
    assert await read_by_turn(host)(memory, "ana") == expected
    for read in READERS.values():
        assert (await read(memory, "ana"))[: len(expected)] == expected


async def test_all_at_once_and_two_users_apart(memory):
    users = ("ana", "bo")
    await asyncio.gather(
        *(
            write(memory, user, f"{name} asks for {user}.", f"{name} answers {user}.")
            for user in users
            for name, write in WRITERS.items()
        )
    )
    for user in users:
        wanted = {f"{name} asks for {user}." for name in WRITERS} | {
            f"{name} answers {user}." for name in WRITERS
        }
        for reader in ("MCP", "store"):
            said = [text for _, text in await READERS[reader](memory, user)]
            assert sorted(said) == sorted(wanted)


# -- tool calls -----------------------------------------------------------------------------------
LOOP = [
    HumanMessage("How warm is it?"),
    AIMessage(
        "Let me see.", tool_calls=[{"name": "weather", "args": {"city": "Porto"}, "id": "c1"}]
    ),
    ToolMessage("21 degrees", tool_call_id="c1", name="weather"),
    AIMessage("It is 21 degrees."),
]


async def test_a_tool_loop_of_ours_is_one_of_theirs(memory):
    memory.add_messages(LOOP, thread_id="t", user_id="ana")
    items = await ConversationSession(memory, "t", user_id="ana").get_items()
    assert [item.get("type", item.get("role")) for item in items] == [
        "user",
        "assistant",
        "function_call",
        "function_call_output",
        "assistant",
    ]
    assert items[2]["arguments"] == '{"city": "Porto"}'
    assert (items[3]["call_id"], items[3]["output"]) == ("c1", "21 degrees")
    loaded = PydanticAIHistory(memory, "t", user_id="ana").load()
    parts = [part for one in loaded for part in one.parts if hasattr(part, "content")]
    assert [(part.part_kind, part.content) for part in parts] == [
        ("user-prompt", "How warm is it?"),
        ("text", "Let me see."),
        ("tool-return", "21 degrees"),
        ("text", "It is 21 degrees."),
    ]
    # Both packages accept what they are given.
    model = ScriptedModel([say("Still 21.")])
    session = ConversationSession(memory, "t", user_id="ana")
    said = await Runner.run(Agent(name="A", model=model), "And now?", session=session)
    assert said.final_output == "Still 21."
    agent = PydanticAgent(TestModel(custom_output_text="Yes."))
    assert (await agent.run("Sure?", message_history=loaded)).output == "Yes."


async def test_a_tool_loop_of_the_agents_sdk_is_one_of_ours(memory):
    @function_tool
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"21 degrees in {city}"

    call = ResponseFunctionToolCall(
        type="function_call", call_id="c1", name="weather", arguments='{"city": "Porto"}'
    )
    model = ScriptedModel([[call], say("It is 21 degrees.")])
    session = ConversationSession(memory, "t", user_id="ana")
    await Runner.run(Agent(name="A", model=model, tools=[weather]), "How warm?", session=session)
    view = memory.history("t", user_id="ana").messages
    assert [one.type for one in view] == ["human", "ai", "tool", "ai"]
    assert view[1].tool_calls[0]["args"] == {"city": "Porto"}
    assert view[2].text == "21 degrees in Porto"


async def test_a_tool_loop_of_pydantic_ai_is_one_of_ours(memory):
    agent = PydanticAgent(TestModel(custom_output_text="Done."))

    @agent.tool_plain
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"21 degrees in {city}"

    history = PydanticAIHistory(memory, "t", user_id="ana")
    result = await agent.run("How warm?")
    history.add(result.new_messages())
    assert [one.type for one in memory.history("t", user_id="ana").messages] == [
        "human",
        "ai",
        "tool",
        "ai",
    ]
    assert history.load() == result.new_messages()


def test_calls_that_nothing_answers_reach_no_other_host(memory):
    memory.add_messages(LOOP[:2], thread_id="t", user_id="ana")
    loaded = PydanticAIHistory(memory, "t", user_id="ana").load()
    assert [part.part_kind for one in loaded for part in one.parts] == ["user-prompt", "text"]
    items = asyncio.run(ConversationSession(memory, "t", user_id="ana").get_items())
    assert [item["role"] for item in items] == ["user", "assistant"]


# -- items of a host's own ------------------------------------------------------------------------
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
COMPACTION = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gBBBB"}
ANSWER = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Yes.", "annotations": []}],
}


async def test_a_hosts_own_items_come_back_to_it_and_to_nobody_else(memory):
    session = ConversationSession(memory, "t", user_id="ana")
    items = [{"role": "user", "content": "Is it?"}, REASONING, COMPACTION, ANSWER]
    await session.add_items(items)
    history = PydanticAIHistory(memory, "t", user_id="ana")
    thought = ThinkingPart(content="Hm.", signature="sig")
    thinking = ModelResponse(parts=[thought, PydanticText("So.")])
    await history.aadd([thinking])
    assert (await session.get_items())[:4] == items
    assert (await session.get_items())[4:] == [{"role": "assistant", "content": "So."}]
    assert (await history.aload())[-1].parts == thinking.parts
    for reader in READERS.keys() - {"openai-agents"}:
        assert "gAAAA" not in str(await READERS[reader](memory, "ana"))
    view = memory.history("t", user_id="ana").messages
    assert not any("gBBBB" in str(one.content) for one in view)


async def test_a_session_takes_back_item_by_item_and_starts_anew(memory):
    session = ConversationSession(memory, "t", user_id="ana")
    items = [{"role": "user", "content": f"line {n}"} for n in range(3)]
    await session.add_items([*items, items[2]])
    assert await session.get_items(2) == [items[2], items[2]]
    assert await session.get_items(0) == []
    assert await session.pop_item() == items[2]
    assert await session.get_items() == items
    await session.clear_session()
    assert await session.get_items() == []
    assert await session.pop_item() is None
    await session.add_items(items[:1])
    assert await session.get_items() == items[:1]
    assert len(memory.history("t", user_id="ana").entries) > len(items)


async def test_what_a_write_hook_hides_is_in_no_item(memory):
    def hide(message):
        hidden = str(message.content).replace("47-11", "[pin]")
        return message.model_copy(update={"content": hidden})

    hooked = ConversationMemory(InMemoryLog(), before_write=hide)
    session = ConversationSession(hooked, "t", user_id="ana")
    await session.add_items([{"role": "user", "content": "PIN 47-11"}])
    agent = PydanticAgent(TestModel(custom_output_text="47-11 it is."))
    history = PydanticAIHistory(hooked, "t", user_id="ana")
    await history.aadd((await agent.run("Say 47-11.")).new_messages())
    assert "47-11" not in str(await session.get_items())
    assert "47-11" not in str(await history.aload())
    assert "47-11" not in str(hooked.history("t", user_id="ana").entries)
