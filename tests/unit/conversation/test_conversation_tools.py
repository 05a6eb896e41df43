import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from pydantic import BaseModel
from scripted_chat import ScriptedChatModel
from talks import QWEN, chat, text_engine, texts

from langchain_convmem import ChatTemplate, Conversation
from langchain_convmem.errors import (
    ConfigError,
    ConversationError,
    InvalidMessageError,
    TurnCancelledError,
)
from langchain_convmem.testing import ScriptedEngine


def look(place: str = "there") -> str:
    """Look at a place."""
    return f"seen {place}"


class Timetable(BaseModel):
    """Look up trains; answered by the caller."""

    city: str


LOOKS = {"tools": [look]}


def calling(*names, text="", first=1):
    """Return a message that calls tools, under the ids `c1` and so on."""
    calls = [{"name": name, "args": {}, "id": f"c{n}"} for n, name in enumerate(names, first)]
    return AIMessage(text, tool_calls=calls)


def types(talk):
    return [one.type for one in talk.history]


def test_a_loop_without_end_is_ended():
    model = ScriptedChatModel(replies=[calling("look")])
    talk = Conversation(model, preface=LOOKS, max_tool_rounds=3)
    with pytest.raises(ConversationError, match="3 times") as raised:
        talk.send_message("Go")
    assert raised.value.rounds == 3
    assert len(model.seen) == 4
    assert talk.history == []


def test_a_turn_cancelled_in_a_tool_may_keep_what_was_said():
    def stop() -> str:
        """Cancel."""
        talk.cancel()
        return "stopped"

    replies = [calling("look", text="First."), calling("stop", text="Then.", first=2), "Done."]
    talk = chat(*replies, preface={"tools": [look, stop]}, on_cancel="keep")
    with pytest.raises(TurnCancelledError):
        talk.send_message("Go")
    told = ["Go", "First.", "seen there", "Then.", "Error: the call was cancelled"]
    assert texts(talk) == told
    assert talk.send_message("And?").text == "Done."


def test_a_tool_that_is_only_described_ends_the_loop():
    talk = chat(calling("Timetable", "look"), "At noon.", preface={"tools": [Timetable, look]})
    reply = talk.send_message("When?")
    assert [made["name"] for made in reply.tool_calls] == ["Timetable", "look"]
    results = [ToolMessage("12:00", tool_call_id="c1"), ToolMessage("sunny", tool_call_id="c2")]
    assert talk.send_message(results).text == "At noon."
    assert types(talk) == ["human", "ai", "tool", "tool", "ai"]


def test_some_results_are_not_all():
    talk = chat(calling("look", "look"), "Done.", preface=LOOKS, auto_tools=False)
    talk.send_message("Go")
    assert talk.send_message(ToolMessage("found", tool_call_id="c1")).text == "Done."
    status = {one.tool_call_id: one.status for one in talk.history[2:4]}
    assert status == {"c1": "success", "c2": "error"}


def test_calls_are_cancelled_when_the_user_speaks_and_no_result_answers_them_later():
    talk = chat(calling("look"), "Never mind.", preface=LOOKS, auto_tools=False)
    talk.send_message("Go")
    assert talk.send_message("Forget it").text == "Never mind."
    assert types(talk) == ["human", "ai", "tool", "human", "ai"]
    assert talk.history[2].status == "error"
    before, late = talk.history, ToolMessage("sunny", tool_call_id="c1")
    for message in (late, ["Hello?", late]):
        with pytest.raises(InvalidMessageError, match="'c1' answers no call"):
            talk.send_message(message)
    assert talk.history == before


def test_a_call_that_cannot_be_read_is_told_to_the_model():
    broken = '<tool_call>\n{"name": "look", "arguments": {"city": \n</tool_call>'
    engine = text_engine([broken, "Sorry."], QWEN)
    talk = Conversation(engine, preface=LOOKS)
    assert talk.send_message("Go").text == "Sorry."
    _, called, result, _ = talk.history
    assert result.tool_call_id == called.invalid_tool_calls[0]["id"]
    assert "cannot be read" in result.text
    assert "cannot be read" in engine.sessions[0].text


UNTEMPLATED = ChatTemplate("{% for one in messages %}{{ one.content }}{% endfor %}")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (RunnableLambda(lambda _: AIMessage("x")), "takes no tools"),
        (FakeListChatModel(responses=["x"]), "takes no tools"),
        (ScriptedEngine("x", template=UNTEMPLATED), "shows no tools"),
    ],
    ids=["has none", "implements none", "a template that shows none"],
)
def test_tools_that_a_model_cannot_take_are_refused_at_once(model, words):
    with pytest.raises(ConfigError, match=words):
        Conversation(model, preface=LOOKS)
