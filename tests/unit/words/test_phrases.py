"""The phrases of all languages are data: a file that is read once, checked here."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from langchain_convmem.words import speech
from langchain_convmem.words.speech import Phrases, get_forms, load_phrases

LANGUAGES = {
    "arabic",
    "chinese",
    "dutch",
    "english",
    "french",
    "german",
    "italian",
    "japanese",
    "korean",
    "portuguese",
    "russian",
    "spanish",
}
REQUIRED = set(Phrases._fields) - set(Phrases._field_defaults)
DATA = json.loads(files(speech.__package__).joinpath("phrases.json").read_text("utf-8"))


def test_every_language_has_its_phrases():
    assert set(load_phrases()) == LANGUAGES


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_a_language_has_every_field_that_it_needs_and_no_other(language):
    assert set(DATA[language]) >= REQUIRED
    assert set(DATA[language]) <= set(Phrases._fields)


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_every_phrase_is_a_regular_expression_of_its_own_line(language):
    for name, phrases in DATA[language].items():
        if name != "drops_subject":
            assert phrases
            assert all(
                isinstance(one, str) and one and one.splitlines() == [one] for one in phrases
            )
    assert get_forms(language) is not None


def test_no_word_marks_two_languages():
    marked = [word for phrases in load_phrases().values() for word in phrases.markers]
    assert len(marked) == len(set(marked))
