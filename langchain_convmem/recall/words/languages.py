"""Which language words are written in, and their stems in it. Pure.

A script of its own tells the language of a word. Latin letters do not: there the function words of
a line decide, line by line, so that the answer depends on nothing else. A line that gives no sign
is taken for English, whose stemmer does little harm to words of other languages.
"""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache

import snowballstemmer

from langchain_convmem.recall.words.stop_words import STOP_WORDS

__all__ = ["ENGLISH", "LATIN", "function_words", "is_function_word", "language_of", "stem"]

ENGLISH = "english"

_OTHER_SCRIPTS = {
    "GREEK": "greek",
    "CYRILLIC": "russian",
    "ARABIC": "arabic",
    "DEVANAGARI": "hindi",
}
LATIN = tuple(name for name in STOP_WORDS if name not in _OTHER_SCRIPTS.values())
"""The languages that only their words tell apart, English first."""

# "l'amico", "d'un ami": what follows the apostrophe is the word.
_ELIDING = ("french", "italian")

# Votes for all languages are summed as one number, a field of this many bits for each.
_FIELD = 12
_FIELD_MASK = (1 << _FIELD) - 1
# More words than these say no more about a language, and might overflow a field.
_MOST_VOTES = 200
# Of running text function words are two in five; of anything else at most one in so many.
_LEAST_SHARE = 10

_stemmers = threading.local()


@cache
def function_words(language: str) -> frozenset[str]:
    """Return the casefolded words of a language that say nothing about the topic."""
    return frozenset(unicodedata.normalize("NFKC", STOP_WORDS[language]).casefold().split())


@cache
def _votes() -> dict[str, int]:
    votes: dict[str, int] = {}
    for field, language in enumerate(LATIN):
        for word in function_words(language):
            if len(word) == 1 and language != ENGLISH:
                # A lone letter may be anything: an initial, a variable, half of "e-mail".
                continue
            votes[word] = votes.get(word, 0) + (1 << field * _FIELD)
    return votes


def language_of(words: Sequence[str]) -> str:
    """Return the Latin-script language with the most function words among casefolded `words`.

    Ties go to the language that stands first in `LATIN`: English, so without a sign it is English.
    """
    votes, asked = _votes(), words[:_MOST_VOTES]
    total = sum([votes[word] for word in asked if word in votes])
    if total == total & _FIELD_MASK:
        return ENGLISH
    counts = [total >> field * _FIELD & _FIELD_MASK for field in range(len(LATIN))]
    most = max(counts)
    # A word or two in a page of code are no sign.
    return LATIN[counts.index(most)] if most * _LEAST_SHARE >= len(asked) else ENGLISH


@lru_cache(maxsize=10_000)
def is_function_word(word: str, language: str) -> bool:
    """Return whether a casefolded word says nothing about the topic of a text.

    Args:
        word: The word.
        language: Of the text; words of other scripts than Latin tell themselves.
    """
    bare = _without_elision(word.removesuffix("'s"), language)
    words = _saying_nothing(language)
    return word in words or bare in words


@cache
def _saying_nothing(language: str) -> frozenset[str]:
    """Return the function words of a language, and of those that tell themselves."""
    return function_words(language).union(*map(function_words, _OTHER_SCRIPTS.values()))


@lru_cache(maxsize=100_000)
def stem(word: str, language: str) -> str:
    """Return the stem of a casefolded word.

    Args:
        word: Of one script.
        language: Of the line, if its script is Latin; other scripts tell themselves.
    """
    word = _without_elision(word, language)
    if word.isascii():
        return word if word.isdigit() else _snowball(word, language)
    name = unicodedata.name(word[0], "").partition(" ")[0]
    if name != "LATIN":
        language = _OTHER_SCRIPTS.get(name, "")
        return _snowball(word, language) if language else word
    return _without_accents(_snowball(word, language))


def _without_elision(word: str, language: str) -> str:
    """Return the word alone where an apostrophe joins it to an article or to a case."""
    if "'" not in word:
        return word
    if language in _ELIDING:
        return word.rpartition("'")[2]
    return word.partition("'")[0] if language == "turkish" else word


def _without_accents(word: str) -> str:
    """Return the word as people type it in a hurry."""
    letters = unicodedata.normalize("NFD", word).replace("\u0131", "i").replace("\u00f8", "o")
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def _snowball(word: str, language: str) -> str:
    # A Snowball stemmer keeps the word it works on, so each thread has its own.
    stemmer = _stemmers.__dict__.get(language)
    if stemmer is None:
        stemmer = _stemmers.__dict__[language] = snowballstemmer.stemmer(language)
    return str(stemmer.stemWord(word))
