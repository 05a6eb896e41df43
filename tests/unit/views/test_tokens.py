from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_convmem.views.messages import TOKENS_PER_MEDIA, TOKENS_PER_MESSAGE, count_tokens
from langchain_convmem.views.tokens import count_text_tokens, weigh_text

DATA = Path(__file__).parent / "data"
TEXTS = json.loads((DATA / "texts.json").read_text(encoding="utf-8"))
COUNTS = json.loads((DATA / "counts.json").read_text(encoding="utf-8"))
ENGLISH = "I moved to Lisbon in March because my sister lives there."


@pytest.mark.parametrize("kind", list(TEXTS))
@pytest.mark.parametrize("vocabulary", list(COUNTS))
def test_no_script_and_no_kind_is_counted_more_than_a_few_percent_low(kind, vocabulary):
    real = sum(COUNTS[vocabulary][kind])
    assert sum(map(count_text_tokens, TEXTS[kind])) >= 0.97 * real


@pytest.mark.parametrize("vocabulary", list(COUNTS))
def test_english_is_counted_close(vocabulary):
    kind = "latin, English"
    assert sum(map(count_text_tokens, TEXTS[kind])) <= 1.2 * sum(COUNTS[vocabulary][kind])


@given(st.text(max_size=200))
def test_any_text_has_a_price(text):
    weights = weigh_text(text)
    assert all(weight >= 0 for weight in weights.values())
    assert (count_text_tokens(text) > 0) is bool(text.strip("\x00") or text)


@given(st.text(max_size=100), st.text("ทดสอบ漢字абв", min_size=1, max_size=50))
def test_letters_of_other_scripts_never_make_a_text_cheaper(text, more):
    assert count_text_tokens(text + more) >= count_text_tokens(text)


def test_a_message_costs_its_text_its_name_and_a_frame():
    text, name = count_text_tokens(ENGLISH), count_text_tokens("Bo")
    assert count_tokens([HumanMessage(ENGLISH)]) == TOKENS_PER_MESSAGE + text
    assert count_tokens([HumanMessage(ENGLISH, name="Bo")]) == TOKENS_PER_MESSAGE + text + name
    assert count_tokens([HumanMessage(ENGLISH, id="x" * 99)]) == TOKENS_PER_MESSAGE + text


def test_media_cost_the_same_whatever_their_bytes():
    image = {"type": "image", "source_type": "base64", "data": "A" * 100_000}
    assert count_tokens([HumanMessage([image, ENGLISH])]) == (
        TOKENS_PER_MESSAGE + TOKENS_PER_MEDIA + count_text_tokens(ENGLISH)
    )


def test_tool_calls_are_counted_once():
    call = {"name": "weather", "args": {"city": "x" * 400}, "id": "c1"}
    block = {"type": "tool_use", "id": "c1", "name": "weather", "input": call["args"]}
    alone = count_tokens([AIMessage("", tool_calls=[call])])
    assert alone > 100
    assert count_tokens([AIMessage([block], tool_calls=[call])]) == alone
    assert count_tokens([ToolMessage(ENGLISH, tool_call_id="c1")]) == (
        TOKENS_PER_MESSAGE + count_text_tokens(ENGLISH) + count_text_tokens("c1")
    )
