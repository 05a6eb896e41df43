"""What scripted services answer: replies, and the script that plays them."""

from __future__ import annotations

import pytest

from langchain_convmem.errors import ConfigError
from langchain_convmem.testing import ScriptedError, ScriptedReply, ScriptedToolCall
from langchain_convmem.testing.scripted_replies import (
    RecordedRequest,
    Script,
    split_pieces,
    split_words,
)


def test_one_reply_answers_every_request():
    script = Script("Yes.")
    assert [script.answer_to({}) for _ in range(3)] == [ScriptedReply(text="Yes.")] * 3


def test_a_list_answers_one_request_each_in_order():
    error = ScriptedError(status=429)
    script = Script(["One.", error, ScriptedReply(text="Two.")])
    answers = [script.answer_to({}) for _ in range(3)]
    assert answers == [ScriptedReply(text="One."), error, ScriptedReply(text="Two.")]


def test_a_request_behind_the_end_of_the_list_is_an_error_that_says_so():
    script = Script(["One."])
    script.answer_to({})
    with pytest.raises(ConfigError, match="1 replies, and one more"):
        script.answer_to({})


def test_a_callable_gets_a_copy_of_the_request():
    request = {"messages": ["hi"]}
    script = Script(lambda body: body["messages"].pop())
    assert script.answer_to(request) == ScriptedReply(text="hi")
    assert request == {"messages": ["hi"]}


def test_records_are_handed_out_as_copies():
    script = Script("Yes.")
    script.record(RecordedRequest({"a": "b"}, {"messages": []}, "/path"))
    script.list_recorded()[0].body.clear()
    assert script.list_recorded() == [RecordedRequest({"a": "b"}, {"messages": []}, "/path")]


def test_numbers_count_from_one():
    script = Script("Yes.")
    assert [script.take_number() for _ in range(3)] == [1, 2, 3]


def test_two_calls_of_a_reply_need_different_ids():
    with pytest.raises(ConfigError, match="different ids"):
        ScriptedReply(tool_calls=[ScriptedToolCall("a"), ScriptedToolCall("b")])


def test_last_words_need_a_place_where_the_stream_is_cut():
    with pytest.raises(ConfigError, match="cut_after_chunks"):
        ScriptedReply(text="a b", cut_with=ScriptedError(status=500))


def test_an_answer_counts_its_reasoning_its_text_and_its_calls():
    call = ScriptedToolCall("look", {})
    assert ScriptedReply(text="12345678").tokens == 8
    assert ScriptedReply(text="12345678", reasoning="1234").tokens == 12
    assert ScriptedReply(text="12345678", reasoning="1234", tool_calls=[call]).tokens == 15


@pytest.mark.parametrize("text", ["", " ", "one", "one two", " one\n\ttwo  ", "\u3000全 角 "])
def test_words_join_to_their_text(text):
    assert "".join(split_words(text)) == text


@pytest.mark.parametrize("arguments", ["", "{}", '{"a": "two\nlines, and long"}', "grün" * 9])
def test_pieces_join_to_their_arguments(arguments):
    pieces = split_pieces(arguments)
    assert "".join(pieces) == arguments
    assert all(0 < len(piece) <= 12 for piece in pieces)
