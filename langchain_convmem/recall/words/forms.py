"""The phrases of a language, compiled, and the language of a text. Pure."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

from langchain_convmem.recall.words.languages import language_of
from langchain_convmem.recall.words.phrases import MARKERS, PHRASES, Phrases

__all__ = ["Forms", "Kind", "forms_of", "lower_in_place", "spoken_language", "words_of"]

Kind: TypeAlias = Literal["standing", "request", "question", "condition", "own", "says", "fragment"]


class Forms(NamedTuple):
    """The phrases of one language, compiled."""

    language: str
    opening: re.Pattern[str]
    heads: tuple[tuple[Kind, re.Pattern[str]], ...]
    own_clause: re.Pattern[str]
    first_person: re.Pattern[str]
    finite: re.Pattern[str]
    says_early: re.Pattern[str]
    run_on: re.Pattern[str]
    ignorant: re.Pattern[str]
    offer: re.Pattern[str]
    listener: re.Pattern[str]
    advice: re.Pattern[str]
    unmeant: re.Pattern[str]
    favour: re.Pattern[str]
    follow_up: re.Pattern[str]
    drops_subject: bool
    endings: str
    """What may stand at the end of a clause and tells nothing more about it."""


_ENDINGS = " \t\r\n.!\u2026\u3002\uff01\"'\u201d\u300d)"


# Of an expression: an escaped sign, a set of signs, or what stands between alternatives.
_SIGN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()|]")


def _alternatives(lines: str) -> str:
    return "(?:" + "|".join(line for line in lines.splitlines() if line) + ")"


def _anywhere(lines: str) -> re.Pattern[str]:
    """Return the pattern of what is looked for anywhere, not of where it ends.

    What begins at the border of a word stands together, so that few places need be tried.
    """
    parts = [part for line in lines.splitlines() if line for part in _split(line)]
    at_border = "|".join(part[len(r"\b") :] for part in parts if part.startswith(r"\b"))
    others = "|".join(part for part in parts if not part.startswith(r"\b"))
    both = (rf"\b(?:{at_border})" if at_border else "", others)
    return re.compile("|".join(filter(None, both)))


def _split(line: str) -> list[str]:
    """Return the alternatives of an expression, those inside of brackets left together."""
    parts, depth, start = [], 0, 0
    for sign in _SIGN.finditer(line):
        depth += {"(": 1, ")": -1}.get(sign[0], 0)
        if sign[0] == "|" and not depth:
            parts.append(line[start : sign.start()])
            start = sign.end()
    return [*parts, line[start:]]


@cache
def forms_of(language: str) -> Forms | None:
    """Return the phrases of a language; None if it is not recognised."""
    phrases = PHRASES.get(language)
    return None if phrases is None else _compiled(language, phrases)


def _compiled(language: str, phrases: Phrases) -> Forms:
    def compiled(lines: str) -> re.Pattern[str]:
        return re.compile(_alternatives(lines))

    finite = _alternatives(phrases.finite)
    return Forms(
        language=language,
        # Possessive, since no opening begins with a sign: without one, nothing is tried again.
        opening=re.compile(rf"(?:\W*+{_alternatives(phrases.opening)}(?![\w']))*+\W*+"),
        heads=(
            ("standing", compiled(phrases.standing)),
            ("request", compiled(phrases.request)),
            ("question", compiled(phrases.question)),
            ("condition", compiled(phrases.condition)),
            ("own", compiled(phrases.own_clause)),
        ),
        own_clause=compiled(phrases.own_clause),
        first_person=_anywhere(phrases.first_person),
        finite=_anywhere(phrases.finite),
        says_early=re.compile(rf"(?:[^\s]+ ){{0,4}}?{finite}"),
        run_on=compiled(phrases.run_on),
        ignorant=compiled(phrases.ignorant),
        offer=_anywhere(phrases.offer),
        listener=_anywhere(phrases.listener),
        advice=_anywhere(phrases.advice),
        unmeant=compiled(phrases.unmeant),
        favour=_anywhere(phrases.favour),
        follow_up=compiled(phrases.follow_up),
        drops_subject=phrases.drops_subject,
        endings=_ENDINGS + "?\uff1f" if phrases.drops_subject else _ENDINGS,
    )


_KANA = re.compile("[\u3041-\u30ff\uff66-\uff9f]")
_HANGUL = re.compile("[\uac00-\ud7af\u1100-\u11ff]")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_CYRILLIC = re.compile("[\u0400-\u04ff]")
_ARABIC = re.compile("[\u0600-\u06ff]")
_LATIN_LETTER = re.compile("[a-z\u00df-\u024f]")
_UNKNOWN_LETTER = re.compile("[\u0370-\u03ff\u0590-\u05ff\u0900-\u109f\u1780-\u17ff]")
# One character of a script without blanks says about as much as so many letters.
_LETTERS_PER_CHARACTER = 3
_FEW_WORDS = 8


def spoken_language(lowered: str, words: list[str]) -> str:
    """Return the language of a text by its script, or by its function words if that is Latin."""
    if not lowered.isascii():
        language = _language_of_script(lowered)
        if language is not None:
            return language
    language = language_of(words)
    if len(words) <= _FEW_WORDS:
        # So few words tell little: "la" and "a" are words of several languages.
        markers = _markers()
        return next((markers[word] for word in words if word in markers), language)
    return language


def _language_of_script(lowered: str) -> str | None:
    """Return the language of the script that most of a text is in; None if that is Latin."""
    latin = len(_LATIN_LETTER.findall(lowered))
    kana, han = len(_KANA.findall(lowered)), len(_HAN.findall(lowered))
    counts = {
        "japanese" if kana else "chinese": (kana + han) * _LETTERS_PER_CHARACTER,
        "korean": len(_HANGUL.findall(lowered)) * _LETTERS_PER_CHARACTER,
        "russian": len(_CYRILLIC.findall(lowered)),
        "arabic": len(_ARABIC.findall(lowered)),
        "": len(_UNKNOWN_LETTER.findall(lowered)),
    }
    most = max(counts, key=counts.__getitem__)
    return most if counts[most] > latin else None


@cache
def _markers() -> dict[str, str]:
    return {word: language for language, words in MARKERS.items() for word in words.split()}


def lower_in_place(text: str) -> str:
    """Return the text in lowercase with plain apostrophes, every character in its place."""
    lowered = text.lower().replace("\u2019", "'")
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)


_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
_ASCII_WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")


def words_of(lowered: str) -> list[str]:
    """Return the words of a lowercase text, in order."""
    return (_ASCII_WORD if lowered.isascii() else _WORD).findall(lowered)
