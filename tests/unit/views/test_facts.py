"""What a summary must tell: names, numbers, dates, ids and promises, in whatever form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.views.facts import (
    FactSource,
    KnownFacts,
    check_told,
    find_facts,
    find_untold,
    split_sentences,
)


def facts(*texts, speaker=""):
    return find_facts([FactSource(text, speaker, at) for at, text in enumerate(texts)])


def keys(*texts, kind=None, speaker=""):
    found = facts(*texts, speaker=speaker)
    return [fact.key for fact in found if kind in (None, fact.kind)]


# -- what is one --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("I met Carla and Anna-Maria there.", "name", ["carla", "anna-maria"]),
        ("I saw Carla's boat.", "name", ["carla"]),
        ("Nobody came. Then they left: Well, fine.", "name", []),
        ("It costs 1,200.50 or 1 200 or 3.5 euros.", "number", ["1200.50", "1200", "3.5"]),
        ("Buy 3, 5, 7 apples at -5 degrees.", "number", ["3", "5", "7", "-5"]),
        ("It is 2023-05-08 or May 8th, 2023.", "date", ["2023 8 may"]),
        ("Come on Friday at 12:30.", "date", ["fri", "12:30"]),
        ("See #A-12/7, x9 and https://a.b/c1?d=2.", "id", ["#a-12/7", "x9", "https://a.b/c1?d=2."]),
        ("Mail ana@example.org.", "id", ["ana@example.org"]),
        ("I'll call you.", "promise", ["i'll call you."]),
        ("Remind me to pay.", "promise", ["remind me to pay."]),
        ("I feel ill today.", "promise", []),
    ],
)
def test_facts_are_found_by_kind(text, kind, expected):
    assert keys(text, kind=kind) == expected


def test_where_words_are_not_parted_by_blanks_numbers_and_codes_stand_alone():
    assert keys("我的车牌是京A12345停在3层\uff0c5月8日去北京。") == ["a12345", "3", "5", "8"]


def test_a_language_that_capitalises_every_noun_has_no_names():
    german = "Der Hund und die Katze sind im Haus, aber das Auto steht vor der Garage am Weg. " * 4
    assert keys(german, kind="name") == []


def test_speakers_are_no_facts():
    assert keys("I think Ana is right.", kind="name", speaker="Ana") == []


def test_a_fact_knows_who_said_it_where_and_comes_once():
    [fact] = facts("Nothing.", "It was 42 then. Truly.", "42!", speaker="Ana")
    assert (fact.kind, fact.text, fact.sentence) == ("number", "42", "It was 42 then.")
    assert (fact.said.speaker, fact.said.position) == ("Ana", 1)


def test_a_day_is_not_parted_from_its_month():
    said = "Erinnere mich bis 31. Juli. Am 5. kesäkuuta menen. I have 3. They have 4."
    assert split_sentences(said) == [
        "Erinnere mich bis 31. Juli.",
        "Am 5. kesäkuuta menen.",
        "I have 3.",
        "They have 4.",
    ]


def test_sentences_keep_numbers_and_abbreviations_whole_and_are_never_long():
    assert split_sentences("It is 3.5. Is it? Yes!\n好。对\uff01") == [
        "It is 3.5.",
        "Is it?",
        "Yes!",
        "好。",
        "对\uff01",
    ]
    assert max(map(len, split_sentences("word " * 500 + "x" * 600))) <= 240


# -- who tells it -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("said", "summary"),
    [
        ("It costs 1,200 euros.", "1200 euros"),
        ("It costs 1200 euros.", "1,200 EUR"),
        ("It costs 1200 euros.", "1 200 euros"),
        ("There are 5.", "In 2023 5 came"),
        ("We met on 8 May 2023.", "on 2023-05-08"),
        ("We met on 2023-05-08.", "on May 8th, 2023"),
        ("We met on 8 May.", "on the 8th of May 2023"),
        ("Come on Friday.", "on friday evening"),
        ("I met Carla's son.", "the son of CARLA"),
        ("See the code XK-42.", "xk-42"),
        ("I'll call the garage tomorrow morning.", "promised to call the garage tomorrow"),
    ],
)
def test_a_fact_may_be_told_in_other_forms(said, summary):
    assert facts(said)
    assert find_untold(facts(said), summary) == []


@pytest.mark.parametrize(
    ("said", "summary"),
    [
        ("It costs 1200 euros.", "It costs 120 euros."),
        ("There are 5.", "There are 15 or 5.5."),
        ("We met on 8 May 2023.", "on 8 May 2024"),
        ("We met on 8 May 2023.", "on 8 May"),
        ("I met Carla there.", "I met Carlotta."),
        ("See the code XK-42.", "XK-43"),
        ("I'll call the garage tomorrow morning.", "Somebody will do something."),
    ],
)
def test_what_is_not_quite_told_is_missing(said, summary):
    assert check_told(facts(said), summary) == [False] * len(facts(said))


TEXT = (
    "Ana Carla boat the. we I'll call on 8 May 2023 2023-05-08 12:30 1,200 5 -5 3.5 XK-42 a1 "
    "Friday, #7b (x9) 'yes' Anna-Maria's 京A12 在3层。 20 300 \n"
)
words = st.sampled_from(TEXT.split(" "))


@given(st.lists(words, max_size=14).map(" ".join))
def test_a_text_tells_all_its_own_facts(text):
    assert find_untold(facts(text), text) == []


@given(st.lists(words, max_size=14).map(" ".join), st.lists(words, max_size=8).map(" ".join))
def test_more_text_tells_no_less(text, more):
    known = facts(text)
    before = check_told(known, text)
    after = check_told(known, f"{text}\n{more}")
    assert all(later or not earlier for earlier, later in zip(before, after, strict=True))


@given(st.lists(words, max_size=14).map(" ".join), st.lists(words, max_size=8).map(" ".join))
def test_looking_for_many_facts_at_once_finds_the_same(text, other):
    known = [fact for fact in facts(text) if fact.kind != "promise"]
    found = {fact.key for fact in KnownFacts(known).find_in(other)}
    is_told = check_told(known, other)
    assert found == {fact.key for fact, tells in zip(known, is_told, strict=True) if tells}
