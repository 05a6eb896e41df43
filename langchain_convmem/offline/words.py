"""Text to comparable words: lower case, accents folded, inflections and irregular forms undone.

Pure and deterministic. English endings are stemmed; other alphabets match by whole word, Chinese,
Japanese and Korean by pairs of characters. This module knows words only, not sentences or scores.
"""

from __future__ import annotations

import functools
import re
import threading
import unicodedata

import snowballstemmer

__all__ = ["content_terms", "fold", "is_reporting_word", "name_terms"]

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_TOKEN = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+(?:['\u2019][^\W_{_CJK}]+)*")
_CJK_RUN = re.compile(rf"[{_CJK}]+")
_NAME = re.compile(r"(?<![.!?\n\"] )(?<!^)\b[A-Z][^\W\d_]+")

_STOP_WORDS_TEXT = """
    a about above after again all also am an and any anything are as at be because been before being
    below between both but by can could d did do does doing done down during each either else ever
    few for from further get gets getting go goes going had has have having he her here hers herself
    hi him himself his how i if in into is it its itself just kind let like ll m many may me might
    more most much must my myself no nor not now of off oh ok okay on once one only or other our
    ours ourselves out over own please re really s same shall she should so some somebody someone
    something sort still such t than thank thanks that the their theirs them themselves then there
    these they thing things this those through to too under until up us ve very was we well were
    what when where which while who whom whose why will with would yeah yes yet you your yours
    yourself yourselves
"""
_STOP_WORDS = frozenset(_STOP_WORDS_TEXT.split())
_REPORTING_WORDS_TEXT = """
    again answer ask know mean mention name recall recommend remember remind say said speak suggest
    talk tell think told discuss call bring exactly earlier previously
"""
_IRREGULAR = {
    form: base
    for base, forms in {
        "become": "became",
        "begin": "began begun",
        "break": "broke broken",
        "bring": "brought",
        "build": "built",
        "buy": "bought",
        "catch": "caught",
        "child": "children",
        "choose": "chose chosen",
        "come": "came",
        "dig": "dug",
        "draw": "drew drawn",
        "drink": "drank drunk",
        "drive": "drove driven",
        "eat": "ate eaten",
        "fall": "fell fallen",
        "feed": "fed",
        "feel": "felt",
        "find": "found",
        "fly": "flew flown",
        "foot": "feet",
        "forget": "forgot forgotten",
        "give": "gave given",
        "grow": "grew grown",
        "hang": "hung",
        "hear": "heard",
        "hide": "hid hidden",
        "hold": "held",
        "keep": "kept",
        "know": "knew known",
        "learn": "learnt",
        "leave": "left",
        "lend": "lent",
        "lose": "lost",
        "make": "made",
        "man": "men",
        "mean": "meant",
        "meet": "met",
        "mouse": "mice",
        "pay": "paid",
        "person": "people",
        "ride": "rode ridden",
        "ring": "rang rung",
        "rise": "rose risen",
        "run": "ran",
        "say": "said",
        "see": "saw seen",
        "sell": "sold",
        "send": "sent",
        "sing": "sang sung",
        "sit": "sat",
        "sleep": "slept",
        "speak": "spoke spoken",
        "spend": "spent",
        "stand": "stood",
        "steal": "stole stolen",
        "swim": "swam swum",
        "take": "took taken",
        "teach": "taught",
        "tell": "told",
        "think": "thought",
        "throw": "threw thrown",
        "tooth": "teeth",
        "travel": "travelled travelling",
        "wake": "woke woken",
        "wear": "wore worn",
        "wife": "wives",
        "win": "won",
        "woman": "women",
        "write": "wrote written",
    }.items()
    for form in forms.split()
}
_STEMMER = snowballstemmer.stemmer("english")
_STEMMER_LOCK = threading.Lock()


def fold(text: str) -> str:
    """Return `text` in lower case without accents, with straight apostrophes."""
    plain = unicodedata.normalize("NFKD", text.casefold()).replace("\u2019", "'")
    return unicodedata.normalize(
        "NFC", "".join(mark for mark in plain if not unicodedata.combining(mark))
    )


@functools.lru_cache(maxsize=16_384)
def _stem(word: str) -> str:
    base = _IRREGULAR.get(word, word)
    if not base.isascii():
        return base
    # The stemmer keeps the word it works on in itself, so two threads would mix theirs.
    with _STEMMER_LOCK:
        return str(_STEMMER.stemWord(base))


def _pairs(run: str) -> list[str]:
    return [run] if len(run) == 1 else [run[at : at + 2] for at in range(len(run) - 1)]


@functools.lru_cache(maxsize=4_096)
def _analyse(text: str) -> tuple[tuple[str, str], ...]:
    """Return (word, term) pairs in order of appearance."""
    found: list[tuple[str, str]] = []
    for token in _TOKEN.findall(fold(text)):
        if _CJK_RUN.fullmatch(token):
            found += [(pair, pair) for pair in _pairs(token)]
            continue
        # "sister's" is about the sister, "don't" about nothing that could be matched.
        word = token.split("'", 1)[0]
        found.append((word, _stem(word)))
    return tuple(found)


def content_terms(text: str) -> list[str]:
    """Return the terms of `text` in order without words that carry no subject of their own."""
    return [term for word, term in _analyse(text) if word not in _STOP_WORDS]


def name_terms(text: str) -> frozenset[str]:
    """Return the terms of words that are capitalised although they do not open a sentence."""
    return frozenset(term for name in _NAME.findall(text) for term in content_terms(name))


_REPORTING_TERMS = frozenset(_stem(word) for word in _REPORTING_WORDS_TEXT.split())


def is_reporting_word(term: str) -> bool:
    """Tell whether `term` speaks about speaking (said, remember), which any line may match."""
    return term in _REPORTING_TERMS
