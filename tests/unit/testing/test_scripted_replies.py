"""What scripted services answer, and how it is cut for a stream."""

from __future__ import annotations

import pytest

from langchain_convmem.errors import ConfigError
from langchain_convmem.testing import ScriptedError, ScriptedReply, ScriptedToolCall
from langchain_convmem.testing.scripted_replies import split_pieces, split_words


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
