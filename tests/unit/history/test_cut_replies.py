"""Replies that were cut to what was heard of them, and what a replacement keeps."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.history import ConversationHistory
from langchain_convmem.logs import InMemoryLog

USAGE = {"input_tokens": 3, "output_tokens": 20, "total_tokens": 23}
TOLD = {"model_name": "m", "finish_reason": "stop"}
CALL = {"name": "platform", "args": {}, "id": "c1", "type": "tool_call"}


def spoken(text="From platform 9, at noon.", **more):
    return AIMessage(text, id="r1", usage_metadata=USAGE, response_metadata=TOLD, **more)


@pytest.fixture
def asked(history):
    history.add_messages([HumanMessage("When?", id="q1"), spoken()])
    history.turns[-1].add_timing("playStart", 7)
    history.turns[-1].add_data("voice", "Alto")
    return history


def test_a_reply_is_cut_to_what_was_heard_and_the_log_keeps_it_whole(asked):
    created = asked.turns[-1].metadata.timing["creation"]
    turn = asked.cut_reply("from platform 9")
    assert turn.contents == ("From platform 9",)
    assert turn.metadata.attributes == ("interrupted",)
    assert turn.metadata.timing == {"creation": created, "playStart": 7}
    assert turn.metadata.aux == {"voice": "Alto"}
    [_, reply] = asked.messages
    assert (reply.id, reply.text, reply.usage_metadata) == ("r1", "From platform 9", USAGE)
    assert reply.response_metadata == {**TOLD, "interrupted": True}
    assert asked.entries[1].contents == ("From platform 9, at noon.",)
    assert asked.to_maps(exclude_last=False)[-1]["metadata"]["attribute"] == ["interrupted"]


def test_a_reply_of_which_nothing_was_heard_is_taken_out(asked, shape):
    asked.add("user", "Hello?")
    assert asked.cut_reply("") is None
    assert shape() == ["When? Hello?"]
    assert not asked.redo()
    assert [entry.role for entry in asked.entries] == ["user", "assistant", "user", "control"]


def test_a_reply_that_was_heard_whole_is_not_marked(asked):
    count = len(asked.entries)
    turn = asked.cut_reply("From platform 9, at noon.")
    assert turn.contents == ("From platform 9, at noon.",)
    assert turn.metadata.attributes == ()
    assert len(asked.entries) == count


def test_any_reply_can_be_named(asked, shape):
    asked.add_messages([HumanMessage("And back?"), AIMessage("At six.", id="r2")])
    asked.cut_reply(4, message_id="r1")
    assert shape() == ["When?", "From", "And back?", "At six."]
    with pytest.raises(ConfigError, match="'r7'"):
        asked.cut_reply(4, message_id="r7")
    with pytest.raises(InvalidMessageError, match="'q1'"):
        asked.cut_reply(4, message_id="q1")


def test_words_that_are_not_in_the_reply_change_nothing(asked):
    count = len(asked.entries)
    with pytest.raises(InvalidMessageError):
        asked.cut_reply("To Paris")
    assert len(asked.entries) == count


def test_a_reply_that_calls_a_tool_keeps_its_calls(history, shape):
    history.add_messages(
        [
            HumanMessage("When?"),
            AIMessage("Let me look that up.", id="r1", tool_calls=[CALL]),
            ToolMessage("9", tool_call_id="c1"),
            AIMessage("Platform 9."),
        ]
    )
    history.cut_reply("Let me", message_id="r1")
    history.cut_reply(0, message_id="r1")
    assert [message.type for message in history.messages] == ["human", "ai", "tool", "ai"]
    assert history.messages[1].tool_calls == [CALL]


def test_a_summary_that_tells_of_the_reply_goes(asked, read):
    asked.add_summary("They leave at noon.", asked.summary_window())
    asked.cut_reply(4)
    assert read() == ["When?", "From"]


def test_the_write_hook_is_asked_about_what_is_left():
    def redact(message):
        if message.text == "From":
            return None
        return message.model_copy(update={"content": message.text.replace("9", "[number]")})

    history = ConversationHistory(InMemoryLog(), "t", before_write=redact)
    history.add_messages([HumanMessage("When?"), spoken()])
    assert history.cut_reply("From platform").contents == ("From platform",)
    assert history.cut_reply("From") is None
    assert [message.text for message in history.messages] == ["When?"]


# -- replace ------------------------------------------------------------------------------------


def test_a_replacement_keeps_when_it_was_said_marks_and_data(asked):
    asked.turns[-1].add_attribute("speechInterrupted")
    before = asked.turns[-1].metadata
    for new in ("From platform 8.", AIMessage("From platform 7.")):
        assert asked.replace("r1", new).metadata == before


def test_how_an_entry_came_into_the_log_is_not_told_of_what_takes_its_place(asked):
    for name in ("attempt_of", "forked_from", "own_tokens", "provenance"):
        asked.turns[-1].add_data(name, {"calls": 1})
    assert asked.replace("r1", "At one.").metadata.aux == {"voice": "Alto"}
    assert asked.cut_reply("At").metadata.aux == {"voice": "Alto"}


def test_a_text_in_the_place_of_a_message_keeps_what_is_known_of_it(history):
    history.add_messages(
        [
            HumanMessage("When?", id="q1", additional_kwargs={"session": "s1"}),
            spoken(additional_kwargs={"reasoning_content": "hm", "voice": "alto"}),
        ]
    )
    history.replace("r1", "At one.", keep_later=True)
    history.replace("q1", "When, please?", keep_later=True)
    question, reply = history.messages
    assert question.additional_kwargs == {"session": "s1"}
    assert (reply.usage_metadata, reply.response_metadata) == (USAGE, TOLD)
    assert reply.additional_kwargs == {"voice": "alto"}
