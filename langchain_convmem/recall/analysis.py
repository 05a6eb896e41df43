"""Words of a text, as the terms that a lexical index searches. Pure.

The analysis is part of what a log stores beside its lines: raise `ANALYSIS_VERSION` whenever
`analyze` answers differently, or old rows would be searched with new words.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

import snowballstemmer

__all__ = ["ANALYSIS_VERSION", "analyze", "is_stop_word", "query_terms"]

ANALYSIS_VERSION = 1

# Han, kana, Hangul, and Thai/Lao/Khmer/Myanmar, all written without blanks between words (Hangul
# with, but its particles stick to the words): characters themselves are the terms there.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u30ff\u3130-\u318f"
_UNSPACED += "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
_UNSPACED += "\uff66-\uff9f\U00020000-\U0003ffff"
# Vowel signs and points are no word characters to a regular expression, yet stand inside words.
_MARKS = "\u0300-\u036f\u0591-\u05bd\u064b-\u0652\u0900-\u0963\u0966-\u0dff"
_LETTER = rf"(?:[^\W_{_UNSPACED}]|[{_MARKS}])"
_RUN = re.compile(rf"[{_UNSPACED}]+|{_LETTER}+(?:'{_LETTER}+)*")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")

# Words that shape an English question without saying what it is about. They are searched for in
# no question but stay in the index, so that a question of nothing else still finds something.
_STOP_WORDS = """
a an the and or but nor if then than so as because while of at by for from with without about into
over under to in on up down out off between through during before after above below again
i me my mine myself you your yours yourself he him his himself she her hers herself it its itself
we us our ours ourselves they them their theirs themselves this that these those there here
am is are was were be been being do does did doing done have has had having
can could may might must shall should will would
what which who whom whose when where why how not no any some such same too very just only
i'm i've i'd i'll you're you've you'd you'll he'd he'll she'd she'll it'll we're we've we'd we'll
they're they've they'd they'll isn't aren't wasn't weren't don't doesn't didn't haven't hasn't
hadn't can't couldn't won't wouldn't shouldn't
"""

_stemmer = threading.local()


@lru_cache(maxsize=100_000)
def _stem(word: str) -> str:
    # A Snowball stemmer keeps the word it works on, so each thread has its own.
    stemmer = getattr(_stemmer, "english", None)
    if stemmer is None:
        stemmer = _stemmer.english = snowballstemmer.stemmer("english")
    return str(stemmer.stemWord(word))


def _runs(text: str) -> list[str]:
    if not text.isascii():
        # Composed letters, plain-width forms, one apostrophe: the same word, the same term.
        text = unicodedata.normalize("NFKC", text).replace("\u2019", "'")
    runs: list[str] = _RUN.findall(text)
    return runs


def _terms_of_run(run: str) -> Iterable[str]:
    if not _IS_UNSPACED.match(run):
        return (_stem(run.removesuffix("'s")),)
    if len(run) == 1:
        return (run,)
    return (run[i : i + 2] for i in range(len(run) - 1))


def analyze(text: str) -> list[str]:
    """Return the search terms of `text`, in order, repeats included.

    Words are casefolded and reduced to their English stem; scripts without blanks between words
    give the overlapping pairs of their characters (a lone character stands for itself).
    """
    return [term for run in _runs(text) for term in _terms_of_run(run.casefold())]


def query_terms(text: str, *, stop_words: bool = False) -> dict[str, str]:
    """Return the distinct terms of a question in order, each with the word that stands for it.

    Args:
        text: The question.
        stop_words: Keep function words. They stay in any case if there is nothing else.
    """
    words = dict(_query_words(text))
    stop_terms = _stop_terms()
    telling = {term: word for term, word in words.items() if term not in stop_terms}
    return words if stop_words or not telling else telling


@lru_cache(maxsize=16)
def _query_words(text: str) -> tuple[tuple[str, str], ...]:
    # Kept for a moment, since one recall asks for them several times.
    words: dict[str, str] = {}
    for run in _runs(text):
        unspaced = _IS_UNSPACED.match(run)
        for term in _terms_of_run(run.casefold()):
            words.setdefault(term, term if unspaced else run)
    return tuple(words.items())


def is_stop_word(word: str) -> bool:
    """Return whether questions leave the word out."""
    return word.casefold() in _stop_words()


@lru_cache(maxsize=1)
def _stop_words() -> frozenset[str]:
    return frozenset(_STOP_WORDS.split())


@lru_cache(maxsize=1)
def _stop_terms() -> frozenset[str]:
    return frozenset(analyze(_STOP_WORDS))
