"""Counters: the estimate, calibrated by reported usage, and those of applications."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem.errors import ConfigError
from langchain_convmem.views.counting import (
    TokenCounters,
    find_prefix,
    find_suffix,
    get_text_counter,
    read_counter,
)
from langchain_convmem.views.messages import count_tokens
from langchain_convmem.views.tokens import count_text_tokens

ENGLISH = "We are thinking about opening a small bakery together next year, my sister and I. "
THAI = "ฉันย้ายไปลิสบอนในเดือนมีนาคมเพราะพี่สาวของฉันอยู่ที่นั่น "
SAID = [HumanMessage(ENGLISH * 30), AIMessage(ENGLISH * 10)]
THAI_SAID = [HumanMessage(THAI * 20)]


def teach(counters, messages, ratio, times=1, model="m"):
    return [
        counters.learn(model, messages, round(ratio * count_tokens(messages))) for _ in range(times)
    ]


@pytest.mark.parametrize("ratio", [0.3, 0.6, 0.8, 1.3, 2.0])
def test_after_some_replies_the_count_is_what_the_model_reports(ratio):
    counters = TokenCounters()
    teach(counters, SAID, ratio, times=30)
    real = ratio * count_tokens(SAID)
    assert real <= counters.get_counter("m")(SAID) <= 1.12 * real + 10


def test_one_reply_that_took_more_counts_at_once_and_one_that_took_less_little():
    counters = TokenCounters()
    teach(counters, SAID, 0.5)
    assert counters.get_counter("m")(SAID) > 0.8 * count_tokens(SAID)
    teach(counters, SAID, 0.5, times=30)
    teach(counters, SAID, 1.5)
    assert counters.get_counter("m")(SAID) >= 1.5 * count_tokens(SAID)


def test_what_is_learned_of_one_script_says_nothing_of_another():
    counters = TokenCounters()
    teach(counters, THAI_SAID, 0.3, times=30)
    counter = counters.get_counter("m")
    assert counter(THAI_SAID) < 0.5 * count_tokens(THAI_SAID)
    assert counter(SAID) == count_tokens(SAID)


def test_what_is_learned_of_one_model_says_nothing_of_another():
    counters = TokenCounters()
    teach(counters, SAID, 0.5, times=30, model="small")
    teach(counters, SAID, 1.0, model="other")
    assert counters.get_counter("small")(SAID) < 0.7 * count_tokens(SAID)
    assert counters.get_counter("other")(SAID) == count_tokens(SAID)
    assert counters.get_counter("never seen")(SAID) == count_tokens(SAID)
    assert counters.get_counter()(SAID) == count_tokens(SAID)


@pytest.mark.parametrize("tokens", [0, -5, 1, 10**9, None, True, 3.5, "700", float("nan")])
def test_numbers_that_cannot_be_true_are_not_believed(tokens):
    counters = TokenCounters()
    assert counters.learn("m", SAID, tokens) is False
    assert counters.get_counter("m")(SAID) == count_tokens(SAID)


@given(st.lists(st.integers(-(10**6), 10**7), max_size=30))
def test_whatever_is_reported_the_count_stays_within_bounds(reported):
    counters = TokenCounters()
    for tokens in reported:
        counters.learn("m", SAID, tokens)
    assert 0.1 * count_tokens(SAID) <= counters.get_counter("m")(SAID) <= 3.1 * count_tokens(SAID)


def test_descriptions_of_tools_are_part_of_what_was_read():
    tools = [{"name": "look", "description": ENGLISH * 30, "parameters": {}}]
    counters = TokenCounters()
    real = count_tokens(SAID) + count_text_tokens(ENGLISH * 30)
    counters.learn("m", SAID, real, tools)
    assert counters.get_counter("m")(SAID) <= 1.05 * count_tokens(SAID)


def count_words(messages):
    return sum(len(one.text.split()) for one in messages)


def test_a_counter_of_the_application_counts_messages_and_texts_and_learns_nothing():
    counters = TokenCounters(read_counter(count_words))
    assert counters.learn("m", SAID, 700) is False
    assert counters.get_counter("m")(SAID) == 40 * len(ENGLISH.split())
    assert get_text_counter(counters.get_counter())("three plain words") == 3


def test_a_model_counts_for_itself():
    class Model(GenericFakeChatModel):
        def get_num_tokens_from_messages(self, messages, tools=None):
            return 7 * len(messages)

    assert read_counter(Model(messages=iter(())))(SAID) == 14


@pytest.mark.parametrize("value", ["gpt-4", 7, [], GenericFakeChatModel])
def test_what_can_count_nothing_is_refused(value):
    with pytest.raises(ConfigError, match="token_counter"):
        read_counter(value)


@pytest.mark.parametrize("answer", [None, "9", 2.5, -1, True])
def test_a_counter_that_returns_no_number_of_tokens_is_named(answer):
    with pytest.raises(ConfigError, match="token_counter must return a whole number"):
        read_counter(lambda _: answer)(SAID)


@given(st.text("ab 1ทé\n", max_size=300), st.integers(0, 60))
def test_what_fits_of_a_text_fits(text, room):
    first, last = (
        find_prefix(text, room, count_text_tokens),
        find_suffix(text, room, count_text_tokens),
    )
    assert count_text_tokens(text[:first]) <= room
    assert count_text_tokens(text[len(text) - last :]) <= room
    if count_text_tokens(text) <= room:
        assert first == last == len(text)
