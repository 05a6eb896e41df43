from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage

from langchain_convmem.views.messages import TOKENS_PER_MEDIA, TOKENS_PER_MESSAGE, count_tokens
from langchain_convmem.views.tokens import count_text_tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("abcd", 1),
        ("abcde", 2),
        ("汉字汉字", 4),
        ("汉字ab", 3),
        ("かな한글", 4),
        ("🦊", 1),
        ("𠮷", 1),
        ("Überall", 2),
        ("x" * 4000, 1000),
    ],
)
def test_four_characters_are_a_token_and_wide_ones_count_whole(text, tokens):
    assert count_text_tokens(text) == tokens


@given(st.text("abé", max_size=50), st.text("汉かな한🦊", max_size=50))
def test_narrow_and_wide_characters_are_counted_apart(narrow, wide):
    assert count_text_tokens(narrow + wide) == math.ceil(len(narrow) / 4) + len(wide)


def test_a_message_costs_its_text_its_name_and_a_frame():
    assert count_tokens([HumanMessage("abcd")]) == TOKENS_PER_MESSAGE + 1
    assert count_tokens([HumanMessage("abcd", name="Bo")]) == TOKENS_PER_MESSAGE + 2
    assert count_tokens([HumanMessage("abcd", id="x" * 99)]) == TOKENS_PER_MESSAGE + 1


def test_media_cost_the_same_whatever_their_bytes():
    image = {"type": "image", "source_type": "base64", "data": "A" * 100_000}
    assert count_tokens([HumanMessage([image, "abcd"])]) == (
        TOKENS_PER_MESSAGE + TOKENS_PER_MEDIA + 1
    )


def test_tool_calls_are_counted_once():
    call = {"name": "weather", "args": {"city": "x" * 400}, "id": "c1"}
    block = {"type": "tool_use", "id": "c1", "name": "weather", "input": call["args"]}
    alone = count_tokens([AIMessage("", tool_calls=[call])])
    assert alone > 100
    assert count_tokens([AIMessage([block], tool_calls=[call])]) == alone
    assert count_tokens([ToolMessage("abcd", tool_call_id="c1")]) == TOKENS_PER_MESSAGE + 2


def test_reasoning_is_counted_as_text():
    thought = {"type": "reasoning", "reasoning": "x" * 400}
    assert count_tokens([AIMessage([thought])]) == TOKENS_PER_MESSAGE + 100


def test_broken_calls_are_counted_too():
    message = AIMessage("", invalid_tool_calls=[{"name": "w", "args": "x" * 400, "id": "c"}])
    assert count_tokens([message]) > 100


def test_whatever_stands_for_a_message_is_counted_and_removals_are_free():
    assert count_tokens(["abcd", ("ai", "abcd"), {"role": "user", "content": "abcd"}]) == 3 * (
        TOKENS_PER_MESSAGE + 1
    )
    assert count_tokens([RemoveMessage(id="m1")]) == 0
    assert count_tokens(iter(())) == 0
