"""Conversations that are spoken: replies cut to what was heard, in lists, memories and sessions."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from scripted_chat import ScriptedChatModel

from langchain_convmem import ChatTemplate, Conversation, ConversationMemory, InMemoryLog
from langchain_convmem.conversation.chat_backend import make_interrupted
from langchain_convmem.errors import (
    ConfigError,
    InvalidMessageError,
    TurnCancelledError,
)
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing import ScriptedEngine

REPLY = "From platform 9, at noon."
USAGE = {"input_tokens": 3, "output_tokens": 6, "total_tokens": 9}
KEY = ThreadKey("ana", "t")
CALL = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}


def spoken(text=REPLY, **more):
    told = {"model_name": "m", "finish_reason": "stop"}
    return AIMessage(text, id="r1", usage_metadata=USAGE, response_metadata=told, **more)


@pytest.fixture(params=["list", "memory"])
def open_talk(request):
    """Opens conversations with one kind of history; `models` holds the model of each."""
    models = []
    with ExitStack() as stack:

        def opened(*replies, **settings):
            model = ScriptedChatModel(replies=list(replies))
            models.append(model)
            if request.param == "list":
                return Conversation(model, **settings)
            memory = stack.enter_context(ConversationMemory(InMemoryLog()))
            options = {"thread_id": "t", "user_id": "ana", "recall": False, **settings}
            return memory.conversation(model, **options)

        opened.models = models
        yield opened


def texts(talk):
    return [message.text for message in talk.history]


def text_engine(*replies, **options):
    return ScriptedEngine(
        list(replies),
        template=ChatTemplate.from_builtin("chatml"),
        end_text="<|im_end|>",
        **options,
    )


# -- what was heard -----------------------------------------------------------------------------


@pytest.mark.parametrize("until", [15, "from platform 9"])
def test_a_reply_is_cut_to_what_was_heard_and_the_model_reads_no_more(open_talk, until):
    talk = open_talk(spoken(), "You are welcome.")
    talk.send_message("When?")
    cut = talk.cut_reply(until)
    assert cut.text == "From platform 9"
    assert (cut.id, cut.usage_metadata) == ("r1", USAGE)
    assert cut.response_metadata["model_name"] == "m"
    assert cut.response_metadata["interrupted"] is True
    assert talk.last_message == cut
    talk.send_message("Thanks")
    seen = open_talk.models[-1].seen[-1]
    assert [message.text for message in seen] == ["When?", "From platform 9", "Thanks"]


def test_a_reply_of_which_nothing_was_heard_is_taken_out(open_talk):
    talk = open_talk(spoken(), "At noon.", "Bye.")
    talk.send_message("When?")
    assert talk.cut_reply(0) is None
    assert texts(talk) == ["When?"]
    talk.send_message("Hello?")
    talk.send_message("Bye")
    assert [message.text for message in talk.undo()] == ["Bye", "Bye."]
    assert texts(talk) == ["When?", "Hello?", "At noon."]


def test_a_reply_that_was_heard_whole_comes_back_as_it_is(open_talk):
    talk = open_talk(spoken())
    talk.send_message("When?")
    whole = talk.cut_reply(REPLY)
    assert (whole.text, whole.response_metadata.get("interrupted")) == (REPLY, None)


def test_an_earlier_reply_can_be_named(open_talk):
    talk = open_talk(spoken(), "At six.")
    talk.send_message("When?")
    talk.send_message(HumanMessage("And back?", id="q2"))
    talk.cut_reply("From", message_id="r1")
    assert texts(talk) == ["When?", "From", "And back?", "At six."]
    with pytest.raises(ConfigError, match="'r7'"):
        talk.cut_reply(1, message_id="r7")
    with pytest.raises(InvalidMessageError, match="'q2'"):
        talk.cut_reply(1, message_id="q2")


def test_there_must_be_a_reply_and_the_words_in_it(open_talk):
    talk = open_talk(spoken())
    with pytest.raises(ConfigError, match="no reply"):
        talk.cut_reply(1)
    talk.send_message("When?")
    with pytest.raises(InvalidMessageError, match="not in the reply"):
        talk.cut_reply("To Paris")
    assert texts(talk) == ["When?", REPLY]


async def test_the_asynchronous_twin_cuts_alike(open_talk):
    talk = open_talk(spoken())
    await talk.asend_message("When?")
    assert (await talk.acut_reply("From platform")).text == "From platform"
    assert await talk.acut_reply("") is None


def test_checkpoints_and_clones_stay_what_they_were(open_talk):
    talk = open_talk(spoken(), "At six.")
    talk.send_message("When?")
    point, twin = talk.checkpoint(), talk.clone()
    talk.cut_reply("From")
    talk.send_message("And back?")
    talk.rewind(point)
    assert (texts(talk), texts(twin)) == (["When?", "From"], ["When?", REPLY])


def test_a_reply_in_a_store_cannot_be_cut():
    class Store:
        messages = (HumanMessage("When?"), spoken())

        def add_messages(self, messages):
            raise AssertionError(messages)

    talk = Conversation(ScriptedChatModel(replies=["x"]), history=Store())
    with pytest.raises(ConfigError, match="cannot take messages back"):
        talk.cut_reply(4)
    assert talk.cut_reply(REPLY).text == REPLY


@pytest.mark.parametrize("rewindable", [True, False])
def test_a_session_goes_on_from_what_was_heard(rewindable):
    engine = text_engine(REPLY, "You are welcome.", rewindable=rewindable)
    talk = Conversation(engine)
    talk.send_message("When?")
    talk.cut_reply("From platform 9")
    talk.send_message("Thanks")
    expected = ChatTemplate.from_builtin("chatml").render(talk.history[:3]) + "You are welcome."
    assert engine.sessions[0].text == expected
    assert "noon" not in expected
    assert engine.misuses == []


def test_who_begins_to_speak_before_the_reply_is_cut_goes_on():
    engine = text_engine(REPLY, "Fine.")
    talk = Conversation(engine)
    talk.send_message("When?")
    talk.send_message("Stop, ", pending=True)
    talk.cut_reply("From platform 9")
    talk.send_message("please.")
    assert texts(talk) == ["When?", "From platform 9", "Stop, please.", "Fine."]
    assert "noon" not in engine.sessions[0].text


# -- who speaks while the model still writes ----------------------------------------------------


@pytest.mark.parametrize("kind", ["chat", "text"])
def test_a_reply_that_is_cancelled_is_kept_and_cut_to_what_was_heard(kind):
    model = ScriptedChatModel(replies=[spoken()]) if kind == "chat" else text_engine(REPLY)
    with ConversationMemory(InMemoryLog()) as memory:
        talk = memory.conversation(
            model, thread_id="t", user_id="ana", recall=False, on_cancel="keep"
        )
        stream = talk.stream("When?")
        pieces = [next(stream) for _ in range(3)]
        talk.cancel()
        with pytest.raises(TurnCancelledError):
            list(stream)
        reply = memory.history("t", user_id="ana").turns[-1]
        assert reply.metadata.attributes == ("interrupted",)
        assert talk.last_message.response_metadata["interrupted"] is True
        assert talk.last_message.response_metadata["finish_reason"] == "cancelled"
        cut = talk.cut_reply("From", message_id=pieces[0].id)
        assert (cut.text, cut.id) == ("From", pieces[0].id)
        turn = memory.history("t", user_id="ana").turns[-1]
        assert (turn.contents, turn.metadata.attributes) == (("From",), ("interrupted",))
        assert memory.stats("t", user_id="ana").interrupted == 1


def test_half_a_reply_keeps_what_is_known_of_it_and_no_calls():
    chunk = AIMessageChunk(
        "From plat",
        id="r1",
        usage_metadata=USAGE,
        response_metadata={"model_name": "m"},
        tool_call_chunks=[{"name": "look", "args": "{}", "id": "c1", "index": 0}],
    )
    told = {"model_name": "m", "finish_reason": "cancelled", "interrupted": True}
    assert make_interrupted(chunk) == AIMessage(
        "From plat", id="r1", usage_metadata=USAGE, response_metadata=told
    )
    assert make_interrupted(chunk.model_copy(update={"content": ""})) is None


def test_a_reply_that_was_discarded_is_not_cut_by_its_id(open_talk):
    talk = open_talk("Hello.", spoken())
    talk.send_message("Hi")
    stream = talk.stream("When?")
    piece = next(stream)
    stream.close()
    with pytest.raises(ConfigError, match="r1"):
        talk.cut_reply("From", message_id=piece.id)
    assert texts(talk) == ["Hi", "Hello."]


def test_a_reply_whose_calls_were_cancelled_is_marked_and_one_that_had_ended_is_not():
    def look() -> str:
        """Cancel."""
        talk.cancel()
        return "never told"

    talk = Conversation(
        ScriptedChatModel(replies=[spoken("Let me look.", tool_calls=[CALL]), "x"]),
        preface={"tools": [look]},
        on_cancel="keep",
    )
    with pytest.raises(TurnCancelledError):
        talk.send_message("When?")
    _, reply, result = talk.history
    assert isinstance(result, ToolMessage)
    assert reply.response_metadata["interrupted"] is True
    assert (reply.usage_metadata, reply.tool_calls) == (USAGE, [CALL])


# -- what the user said -------------------------------------------------------------------------


def test_a_voice_application_adds_times_while_the_model_writes():
    with ConversationMemory(InMemoryLog()) as memory:
        talk = memory.conversation(
            ScriptedChatModel(replies=[REPLY]), thread_id="t", user_id="ana", recall=False
        )
        stream = talk.stream("When?")
        next(stream)
        turn = memory.history("t", user_id="ana").turns[-1]
        turn.add_timing("listenStart", 5)
        list(stream)
        asked, reply = memory.history("t", user_id="ana").turns
        assert (asked.contents, asked.metadata.timing["listenStart"]) == (("When?",), 5)
        assert asked.metadata.timing["creation"] <= reply.metadata.timing["llmStart"]


@pytest.mark.parametrize("way", ["send", "asend", "stream"])
def test_what_is_asked_is_in_the_log_before_the_model_is_called(way):
    found = []

    def reply(_messages):
        found.extend(memory.log.entries(KEY))
        return AIMessage(REPLY)

    with ConversationMemory(InMemoryLog()) as memory:
        model = ScriptedChatModel(replies=[reply])
        talk = memory.conversation(model, thread_id="t", user_id="ana", recall=False)
        if way == "send":
            talk.send_message("When?")
        elif way == "asend":
            asyncio.run(talk.asend_message("When?"))
        else:
            list(talk.stream("When?"))
        [asked] = found
        assert asked.contents == ("When?",)
        entries = memory.log.entries(KEY)
        assert [entry.contents for entry in entries] == [("When?",), (REPLY,)]
        assert entries[0] == asked
        assert entries[1].turn_id == asked.turn_id
