"""The lines that fit a question best."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.offline.context import ContextLine
from langchain_convmem.offline.matching import (
    MAX_QUOTES,
    WHOLE_LINE_CHARS,
    find_matches,
)


def _line(text, speaker="You", *, date=None, source="dialogue", group=0):
    return ContextLine(speaker, text, date, source, group)


def _best(question, *lines):
    return find_matches(question, lines)[0].text


def test_rare_words_weigh_more_than_frequent_ones():
    lines = [_line(f"The garden looks fine, plant {n}.") for n in range(6)]
    wanted = _line("The orchid stands by the window.")
    assert _best("Where in the garden is the orchid?", *lines, wanted) == wanted.text


def test_a_statement_beats_a_question_with_the_same_words():
    statement = _line("My blue umbrella is in the office.")
    question = _line("Is the blue umbrella in the office?", "Assistant", group=1)
    assert _best("Where is my blue umbrella?", statement, question) == statement.text


def test_the_line_behind_a_question_is_taken_for_its_answer():
    asked = _line("What is the name of your dog?", "Assistant")
    told = _line("Biscuit, after the bakery.")
    other = _line("Anyway, how are you?", "Assistant")
    assert _best("What is my dog's name?", asked, told, other) == told.text


def test_lines_of_different_groups_do_not_answer_each_other():
    asked = _line("What is the name of your dog?", "Assistant", group=1)
    told = _line("The rent is due on Friday.", group=2)
    assert _best("What is my dog's name?", asked, told) == asked.text


def test_the_question_itself_is_never_quoted_however_it_is_written():
    lines = [_line("where did I PARK the car"), _line("I parked it on level 3.")]
    assert [match.text for match in find_matches("Where did I park the car?", lines)] == [
        "I parked it on level 3."
    ]


def test_a_speaker_who_is_asked_about_is_preferred():
    ana = _line("I adopted a parrot.", "Ana", group=1)
    ben = _line("I adopted a parrot.", "Ben", group=2)
    assert find_matches("What did Ben adopt?", [ben, ana])[0].line is ben
    assert find_matches("What did Ana adopt?", [ana, ben])[0].line is ana


def test_of_two_equal_lines_the_later_one_is_quoted():
    old = _line("I live in Bern.", group=1)
    new = _line("I live in Rome.", group=2)
    assert find_matches("Where do I live?", [old, new])[0].line is new


def test_what_was_said_beats_what_instructions_say():
    said = _line("Refunds are slow.", "Ana", group=1)
    rule = _line("Refunds are slow, be patient.", "", source="system", group=2)
    assert find_matches("How are refunds?", [said, rule])[0].line is said


def test_words_about_speaking_hardly_count():
    trip = _line("The trip was long.", group=1)
    talk = _line("Please remember that.", group=2)
    assert find_matches("Do you remember the trip?", [trip, talk])[0].line is trip


def test_a_much_weaker_line_is_not_quoted_beside_the_best():
    best = _line("The spare key of the cottage is in the shed.", group=1)
    weak = _line("The shed has a new key.", group=2)
    question = "Where in the shed is the spare key of the cottage?"
    assert [match.line for match in find_matches(question, [best, weak])] == [best]


def test_lines_that_fit_equally_well_are_quoted_together():
    lines = [_line(f"I baked bread in {town}.", group=n) for n, town in enumerate("abcd")]
    matches = find_matches("Where did I bake bread?", lines)
    assert [match.line for match in matches] == [lines[3], lines[2], lines[1]]


def test_a_short_line_is_quoted_whole_and_a_long_one_in_part():
    long = "Some words about the weather. " * 12 + "The locker code is 4711. Keep it safe."
    assert len(long) > WHOLE_LINE_CHARS
    assert _best("What is the locker code?", _line(long)) == "The locker code is 4711."
    short = "Hello. The locker code is 4711. Keep it safe."
    assert _best("What is the locker code?", _line(short)) == short


def test_a_repeated_line_is_quoted_once():
    lines = [_line("The pin is 99."), _line("the pin is 99", "Assistant")]
    assert len(find_matches("What is the pin?", lines)) == 1


@pytest.mark.parametrize("question", ["", "?!", "what is it", "Who was that with you?"])
def test_a_question_without_a_subject_fits_nothing(question):
    assert find_matches(question, [_line("What is it with you?"), _line("That was it.")]) == []


def test_one_shared_word_among_many_is_not_enough():
    lines = [_line("The report has a cover."), _line("Rain all day.")]
    assert find_matches("Which colour has the cover of Peter's green passport?", lines) == []


WORD = st.sampled_from(
    ["tea", "lake", "dog", "walk", "blue", "seven", "where", "the", "my", "?", ".", "Ana", "\n"]
)

TEXTS = st.lists(WORD, min_size=1, max_size=60).map(" ".join).filter(str.strip)


@given(TEXTS, st.lists(TEXTS, max_size=8))
def test_matches_are_few_verbatim_ordered_and_repeatable(question, texts):
    lines = [
        _line(text, "You" if number % 2 else "Assistant", group=number % 3)
        for number, text in enumerate(texts)
    ]
    matches = find_matches(question, lines)
    assert len(matches) <= MAX_QUOTES
    assert all(match.text and match.text in match.line.text for match in matches)
    scores = [match.score for match in matches]
    assert scores == sorted(scores, reverse=True)
    assert matches == find_matches(question, lines)
