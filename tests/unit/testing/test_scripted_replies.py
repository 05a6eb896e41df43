from __future__ import annotations

import pytest

from langchain_convmem.errors import ConfigError
from langchain_convmem.testing import ScriptedError, ScriptedReply, ScriptedToolCall


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
