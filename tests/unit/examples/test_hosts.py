from __future__ import annotations

from pathlib import Path

import pytest
from agents import Agent, Runner, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel
from hosts.openai_session import MemorySession
from hosts.pydantic_ai_history import MemoryHistory
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart
from pydantic_ai.models.test import TestModel
from scripted_chat import ScriptedChatModel

set_tracing_disabled(disabled=True)

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "hosts"
AT = {"configurable": {"user_id": "ana", "thread_id": "t"}}
LOOP = [
    HumanMessage("How warm is it?"),
    AIMessage(
        "Let me see.", tool_calls=[{"name": "weather", "args": {"city": "Porto"}, "id": "c1"}]
    ),
    ToolMessage("21 degrees", tool_call_id="c1", name="weather"),
    AIMessage("It is 21 degrees."),
]
CALL = ResponseFunctionToolCall(
    type="function_call", call_id="c1", name="weather", arguments='{"city": "Porto"}'
)
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
ANSWER = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Yes.", "annotations": []}],
}


@pytest.fixture
def session(memory):
    return MemorySession(memory, "t", user_id="ana")


@pytest.fixture
def history(memory):
    return MemoryHistory(memory, "t", user_id="ana")


def say(text):
    part = ResponseOutputText(text=text, type="output_text", annotations=[])
    reply = {"id": "msg", "type": "message", "role": "assistant", "status": "completed"}
    return [ResponseOutputMessage(**reply, content=[part])]


def list_parts(messages):
    return [(part.part_kind, part.content) for one in messages for part in one.parts]


def read_view(memory):
    return [(one.type, one.text) for one in memory.history("t", user_id="ana").messages]


@pytest.mark.parametrize("name", ["openai_session.py", "pydantic_ai_history.py"])
def test_an_example_is_below_150_lines_and_uses_the_package_root_alone(name):
    source = (EXAMPLES / name).read_text()
    assert len(source.splitlines()) < 150
    ours = [line for line in source.splitlines() if "langchain_convmem" in line]
    assert ours == ["from langchain_convmem import ConversationMemory"]


async def test_a_thread_goes_on_from_one_framework_to_the_next(memory, session, history):
    agent = Agent(name="A", model=ScriptedModel([say("A fine name.")]))
    await Runner.run(agent, "My cat is called Miso.", session=session)
    other = PydanticAgent(TestModel(custom_output_text="Tabby."), instructions="Be brief.")
    result = await other.run("What colour is it?", message_history=history.load())
    history.add(result.new_messages())
    model = ScriptedChatModel(replies=["Miso."])
    memory.wrap(model, recall=False).invoke("What is it called?", AT)
    said = ["My cat is called Miso.", "A fine name.", "What colour is it?", "Tabby."]
    said += ["What is it called?"]
    assert [str(one.text) for one in model.seen[0]] == said
    assert [text for _, text in list_parts(history.load())] == [*said, "Miso."]
    latest = [(item["role"], item["content"]) for item in await session.get_items(2)]
    assert latest == [("user", said[-1]), ("assistant", "Miso.")]


async def test_a_tool_loop_of_a_chain_is_accepted_by_both(memory, session, history):
    memory.add_messages(LOOP, thread_id="t", user_id="ana")
    items = await session.get_items()
    kinds = ["user", "assistant", "function_call", "function_call_output", "assistant"]
    assert [item.get("type", item.get("role")) for item in items] == kinds
    assert items[2]["arguments"] == '{"city": "Porto"}'
    assert (items[3]["call_id"], items[3]["output"]) == ("c1", "21 degrees")
    loaded = history.load()
    agent = PydanticAgent(TestModel(custom_output_text="Yes."))
    assert (await agent.run("Sure?", message_history=loaded)).output == "Yes."
    again = Agent(name="A", model=ScriptedModel([say("Still 21.")]))
    assert (await Runner.run(again, "And now?", session=session)).final_output == "Still 21."


async def test_a_tool_loop_of_the_agents_sdk_is_one_of_ours(memory, session):
    @function_tool
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"21 degrees in {city}"

    model = ScriptedModel([[CALL], say("It is 21 degrees.")])
    await Runner.run(Agent(name="A", model=model, tools=[weather]), "How warm?", session=session)
    view = memory.history("t", user_id="ana").messages
    assert [one.type for one in view] == ["human", "ai", "tool", "ai"]
    assert view[1].tool_calls[0]["args"] == {"city": "Porto"}
    assert view[2].text == "21 degrees in Porto"


async def test_a_tool_loop_of_pydantic_ai_is_one_of_ours(memory, history):
    agent = PydanticAgent(TestModel(custom_output_text="Done."))

    @agent.tool_plain
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"21 degrees in {city}"

    result = await agent.run("How warm?")
    history.add(result.new_messages())
    assert [kind for kind, _ in read_view(memory)] == ["human", "ai", "tool", "ai"]
    assert history.load() == result.new_messages()


async def test_items_of_a_framework_come_back_to_it_alone(memory, session, history):
    items = [{"role": "user", "content": "Is it?"}, REASONING, ANSWER, REASONING]
    await session.add_items(items)
    thinking = ModelResponse(parts=[ThinkingPart(content="Hm."), TextPart("So.")])
    history.add([thinking])
    assert (await session.get_items())[:4] == items
    assert (await session.get_items())[4:] == [{"role": "assistant", "content": "So."}]
    assert history.load()[-1].parts == thinking.parts
    assert "gAAAA" not in str(list_parts(history.load()))
    assert not any("gAAAA" in text or "Hm." in text for _, text in read_view(memory))


async def test_a_session_takes_back_item_by_item_and_starts_anew(memory, session):
    items = [{"role": "user", "content": f"line {n}"} for n in range(3)]
    await session.add_items([*items, REASONING, ANSWER])
    assert await session.get_items(2) == [REASONING, ANSWER]
    assert await session.get_items(0) == []
    assert await session.pop_item() == ANSWER
    assert await session.pop_item() == REASONING
    assert await session.get_items() == items
    await session.clear_session()
    assert await session.get_items() == []
    assert await session.pop_item() is None
    await session.add_items(items[:1])
    assert await session.get_items() == items[:1]


async def test_both_read_the_summary_instead_of_what_it_covers(memory, session, history):
    thread = memory.history("t", user_id="ana")
    thread.add_messages([("user", "I live in Porto."), ("ai", "Noted.")])
    thread.add_summary("Ana lives in Porto.", thread.summary_window())
    thread.add("user", "And now?")
    told = [item["content"] for item in await session.get_items()]
    assert told == ["Ana lives in Porto.", "And now?"]
    assert [text for _, text in list_parts(history.load())] == told
