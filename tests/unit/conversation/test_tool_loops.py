"""Tools within a turn: calls and results in order, refusals, limits, and the manual way."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from pydantic import BaseModel
from scripted_chat import ScriptedChatModel

from langchain_convmem import ChatTemplate, Conversation, Preface
from langchain_convmem.errors import (
    ConfigError,
    ConversationError,
    InvalidMessageError,
)
from langchain_convmem.testing import ScriptedEngine


def weather(city: str) -> str:
    """Tell the weather."""
    return f"sunny in {city}"


@tool
async def traffic(city: str) -> dict[str, int]:
    """Count the cars."""
    await asyncio.sleep(0)
    return {"cars": len(city)}


class Timetable(BaseModel):
    """Look up trains; answered by the caller."""

    city: str


def call(name, city="Rome", call_id="c1"):
    return {"name": name, "args": {"city": city}, "id": call_id}


def calls(*made):
    return AIMessage("", tool_calls=list(made))


def talk(*replies, tools=(weather, traffic), **settings):
    model = ScriptedChatModel(replies=list(replies))
    return Conversation(model, preface=Preface(tools=tools), **settings), model


def send(conversation, message, way):
    if way == "send":
        return conversation.send_message(message)
    return asyncio.run(conversation.asend_message(message))


BOTH = pytest.mark.parametrize("way", ["send", "asend"])


@BOTH
def test_all_calls_of_a_reply_are_answered_in_one_send_and_in_order(way):
    said, model = talk(
        calls(call("weather", call_id="a"), call("traffic", "Bari", "b")), "Sunny, four cars."
    )
    assert send(said, "How is it?", way).text == "Sunny, four cars."
    asked, called, first, second, reply = said.history
    assert [first.tool_call_id, second.tool_call_id] == ["a", "b"]
    assert (first.text, second.text) == ("sunny in Rome", '{"cars": 4}')
    assert (asked.type, called.type, reply.type) == ("human", "ai", "ai")
    assert [one.type for one in model.seen[1]] == ["human", "ai", "tool", "tool"]


def test_a_loop_without_end_is_ended():
    said, model = talk(calls(call("weather")), max_tool_rounds=3)
    with pytest.raises(ConversationError, match="3 times") as raised:
        said.send_message("Go")
    assert raised.value.rounds == 3
    assert len(model.seen) == 4
    assert said.history == []


def test_a_tool_that_is_only_described_ends_the_loop():
    said, _ = talk(
        calls(call("Timetable"), call("weather", call_id="c2")),
        "At noon.",
        tools=[Timetable, weather],
    )
    reply = said.send_message("When?")
    assert [made["name"] for made in reply.tool_calls] == ["Timetable", "weather"]
    results = [ToolMessage("12:00", tool_call_id="c1"), ToolMessage("sunny", tool_call_id="c2")]
    assert said.send_message(results).text == "At noon."
    assert [one.type for one in said.history] == ["human", "ai", "tool", "tool", "ai"]


def test_calls_that_nobody_answered_are_cancelled_when_the_user_speaks():
    said, _ = talk(calls(call("weather")), "Never mind.", auto_tools=False)
    said.send_message("Go")
    assert said.send_message("Forget it").text == "Never mind."
    assert [one.type for one in said.history] == ["human", "ai", "tool", "human", "ai"]
    assert said.history[2].status == "error"


def test_a_result_that_answers_no_open_call_is_refused():
    said, _ = talk(calls(call("weather")), "Never mind.", auto_tools=False)
    said.send_message("Go")
    said.send_message("Forget it")
    before = said.history
    late = ToolMessage("sunny", tool_call_id="c1")
    with pytest.raises(InvalidMessageError, match="'c1' answers no call"):
        said.send_message(late)
    with pytest.raises(InvalidMessageError, match="'c1' answers no call"):
        said.send_message(["Hello?", late])
    assert said.history == before


def text_talk(*replies, **settings):
    engine = ScriptedEngine(
        list(replies), template=ChatTemplate.from_builtin("qwen"), end_text="<|im_end|>"
    )
    return Conversation(engine, preface=Preface(tools=[weather]), **settings), engine


BROKEN = '<tool_call>\n{"name": "weather", "arguments": {"city": \n</tool_call>'


def test_a_call_that_cannot_be_read_is_told_to_the_model():
    said, engine = text_talk(BROKEN, "Sorry.")
    assert said.send_message("Go").text == "Sorry."
    result = said.history[2]
    assert result.tool_call_id == said.history[1].invalid_tool_calls[0]["id"]
    assert "cannot be read" in result.text
    assert "cannot be read" in engine.sessions[0].text


@pytest.mark.parametrize(
    "model",
    [RunnableLambda(lambda _: AIMessage("x")), FakeListChatModel(responses=["x"])],
    ids=["has none", "implements none"],
)
def test_tools_of_a_model_that_takes_none_are_refused_at_once(model):
    with pytest.raises(ConfigError, match="takes no tools"):
        Conversation(model, preface=Preface(tools=[weather]))


def test_tools_that_a_template_does_not_show_are_refused_at_once():
    template = ChatTemplate("{% for one in messages %}{{ one.content }}{% endfor %}")
    with pytest.raises(ConfigError, match="shows no tools"):
        Conversation(ScriptedEngine("x", template=template), preface=Preface(tools=[weather]))
