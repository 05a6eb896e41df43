"""Promises of the kinds of things that questions name: what is of a kind is found by its name."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from langchain_convmem.words import analysis
from langchain_convmem.words.analysis import find_kinds
from langchain_convmem.words.languages import LATIN, stem

DATA = json.loads(files(analysis.__package__).joinpath("kinds.json").read_text("utf-8"))
KINDS = [(language, kind) for language, listed in DATA.items() for kind in listed]


def test_every_kind_is_of_a_language_that_is_stemmed():
    assert set(DATA) <= set(LATIN)
    assert all(set(kind) == {"names", "members"} and kind["names"] for _, kind in KINDS)


def test_words_of_a_kind_are_single_words_in_lowercase_each_once():
    for _, kind in KINDS:
        words = [*kind["names"], *kind["members"]]
        assert all(word.isalpha() and word == word.casefold() for word in words)
        assert len(words) == len(set(words))


@pytest.mark.parametrize(
    ("question", "name", "member"),
    [
        ("Which pets do I have?", "pets", "cat"),
        ("What's my job?", "job", "nurse"),
        ("Where does my sibling live?", "sibling", "brother"),
        ("Which instrument am I learning?", "instrument", "cello"),
        ("Am I allergic to anything?", "allergic", "peanut"),
    ],
)
def test_a_question_finds_the_kind_that_it_names_with_what_is_of_it(question, name, member):
    found = find_kinds(question)[stem(name, "english")]
    assert {stem(name, "english"), stem(member, "english")} <= found


def test_what_is_of_a_kind_does_not_name_it():
    assert find_kinds("Where is my cello?") == {}
