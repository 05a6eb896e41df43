"""How much of a spoken reply was heard, by what voice stacks report of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.views.edits import count_heard, cut_to_heard

REPLY = "Your train leaves from platform 9, at noon. Do you need a ticket?"
CALL = {"name": "platform", "args": {}, "id": "c1", "type": "tool_call"}
USAGE = {"input_tokens": 3, "output_tokens": 20, "total_tokens": 23}


def heard(text, until):
    return text[: count_heard(text, until)]


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        (0, ""),
        (10, "Your train"),
        (len(REPLY), REPLY),
        (10_000, REPLY),
        ("", ""),
        ("  ", ""),
        (REPLY, REPLY),
        ("Your train leaves ", "Your train leaves "),
        ("Your train leaves from plat", "Your train leaves from plat"),
        ("your TRAIN   leaves\nfrom", "Your train leaves from"),
        ("Your train leaves from platform 9 at noon", "Your train leaves from platform 9, at noon"),
        ("your train leaves from platform 9, at noon.", REPLY[:43]),
        ("yourtrain", "Your train"),
        ("Do you need", "Your train leaves from platform 9, at noon. Do you need"),
    ],
)
def test_characters_or_words_tell_how_much_was_heard(until, expected):
    assert heard(REPLY, until) == expected


@pytest.mark.parametrize(
    ("text", "until", "expected"),
    [
        ("**Platform 9**, at *noon*.", "platform 9 at", "**Platform 9**, at"),
        ("Le café est fermé.", "le cafe est", "Le café est"),
        ("Le cafe\u0301 est ferme\u0301.", "Le caf\u00e9", "Le cafe\u0301"),
        ("Die Straße ist gesperrt.", "die strasse", "Die Straße"),
        ("在九号站台，中午发车。", "九号站台", "在九号站台"),  # noqa: RUF001 - as it is written
        ("😀😀 Fine.", "😀", "😀"),
        ("One, two, three, two.", "two", "One, two"),
        ("Really?! Yes.", "really?!", "Really?!"),
    ],
)
def test_words_are_found_however_they_are_written(text, until, expected):
    assert heard(text, until) == expected


@pytest.mark.parametrize("until", ["Goodbye", "rain leaves", "Your train leaves at ten"])
def test_words_that_were_never_said_are_refused_and_not_repeated(until):
    with pytest.raises(InvalidMessageError, match="not in the reply") as raised:
        count_heard(REPLY, until)
    assert until not in str(raised.value)


@pytest.mark.parametrize("until", [-1, True, 2.5, None])
def test_what_is_neither_a_number_nor_words_is_refused(until):
    with pytest.raises(ConfigError, match="heard_until"):
        count_heard(REPLY, until)


@given(st.text(), st.integers(0, 40))
def test_every_beginning_of_a_text_is_found_as_it_is(text, length):
    assert count_heard(text, text[:length]) == len(text[:length])


def test_a_cut_reply_keeps_all_that_is_known_of_it():
    reply = AIMessage(
        REPLY,
        id="r1",
        name="agent",
        usage_metadata=USAGE,
        response_metadata={"model_name": "m", "finish_reason": "stop"},
        additional_kwargs={"voice": "alto", "audio": {"id": "a1"}},
    )
    cut = cut_to_heard(reply, "Your train leaves ")
    assert cut == AIMessage(
        "Your train leaves",
        id="r1",
        name="agent",
        usage_metadata=USAGE,
        response_metadata={"model_name": "m", "finish_reason": "stop", "interrupted": True},
        additional_kwargs={"voice": "alto"},
    )
    assert reply.content == REPLY


def test_a_reply_that_was_heard_is_left_as_it_is():
    reply = AIMessage("Fine. ")
    assert cut_to_heard(reply, "Fine.") is reply
    assert cut_to_heard(reply, 5) is reply


def test_of_a_reply_of_which_nothing_was_heard_only_its_calls_are_left():
    assert cut_to_heard(AIMessage(REPLY), 0) is None
    cut = cut_to_heard(AIMessage(REPLY, tool_calls=[CALL]), 0)
    assert (cut.content, cut.tool_calls) == ("", [CALL])
