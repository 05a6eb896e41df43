from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.offline.context import ContextLine
from langchain_convmem.offline.matching import MAX_QUOTES, WHOLE_LINE_CHARS, find_matches


def _line(text, speaker="You", *, source="dialogue", group=0):
    return ContextLine(speaker, text, None, source, group)


PIN = _line("My blue umbrella is in the office.")
DOG = _line("What is the name of your dog?", "Assistant")
BISCUIT = _line("Biscuit, after the bakery.")
ANA, BEN = (_line("I adopted a parrot.", name, group=n) for n, name in enumerate(("Ana", "Ben")))
OLD, NEW = _line("I live in Bern.", group=1), _line("I live in Rome.", group=2)
SAID = _line("Refunds are slow.", "Ana", group=1)
TRIP = _line("The trip was long.", group=1)
LONG = "Some words about the weather. " * 12
CODE = "The locker code is 4711."
PLANTS = [_line(f"The garden looks fine, plant {n}.") for n in range(6)]
ORCHID = _line("The orchid stands by the window.")

BEST = [
    ("Where in the garden is the orchid?", [*PLANTS, ORCHID], ORCHID.text),  # rare words
    ("Where is my blue umbrella?", [PIN, _line("Is the blue umbrella in?", group=1)], PIN.text),
    ("What is my dog's name?", [DOG, BISCUIT, _line("Anyway?", "Assistant")], BISCUIT.text),
    ("What is my dog's name?", [DOG, _line("The rent is due.", group=2)], DOG.text),
    ("Where do I live?", [OLD, NEW], NEW.text),
    (
        "How are refunds?",
        [SAID, _line("Refunds are slow, be patient.", "", source="system", group=2)],
        SAID.text,
    ),
    ("Do you remember the trip?", [TRIP, _line("Please remember that.", group=2)], TRIP.text),
    ("What is the locker code?", [_line(f"{LONG}{CODE} Keep it safe.")], CODE),
    (
        "What is the locker code?",
        [_line(f"Hello. {CODE} Keep it safe.")],
        f"Hello. {CODE} Keep it safe.",
    ),
]


@pytest.mark.parametrize(("question", "lines", "quoted"), BEST, ids=range(len(BEST)))
def test_the_best_quote_is(question, lines, quoted):
    assert find_matches(question, lines)[0].text == quoted
    assert len(LONG) > WHOLE_LINE_CHARS


def test_a_speaker_who_is_asked_about_is_preferred():
    assert find_matches("What did Ben adopt?", [BEN, ANA])[0].line is BEN
    assert find_matches("What did Ana adopt?", [ANA, BEN])[0].line is ANA


KEY = _line("The spare key of the cottage is in the shed.", group=1)
WEAK = _line("The shed has a new key.", group=2)
BREAD = [_line(f"I baked bread in {town}.", group=n) for n, town in enumerate("abcd")]
PARKED = _line("I parked it on level 3.")
ALL = [
    ("Where in the shed is the spare key of the cottage?", [KEY, WEAK], [KEY]),
    ("Where did I bake bread?", BREAD, [BREAD[3], BREAD[2], BREAD[1]]),
    ("Where did I park the car?", [_line("where did I PARK the car"), PARKED], [PARKED]),
    ("Which colour has the cover of Peter's passport?", [_line("The report has a cover.")], []),
    *((question, [_line("What is it with you?")], []) for question in ("", "?!", "what is it")),
]


@pytest.mark.parametrize(("question", "lines", "matched"), ALL, ids=range(len(ALL)))
def test_what_fits_about_as_well_is_quoted_and_nothing_else(question, lines, matched):
    assert [match.line for match in find_matches(question, lines)] == matched


def test_a_repeated_line_is_quoted_once():
    lines = [_line("The pin is 99."), _line("the pin is 99", "Assistant")]
    assert len(find_matches("What is the pin?", lines)) == 1


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
