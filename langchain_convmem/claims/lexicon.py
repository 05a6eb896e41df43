"""Words that carry a claim, by language: negations, opposites, persons, roles, days. Pure.

`lexicon.json` lists them. A `*` ends the beginning of a word; everything else is a pattern.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from langchain_convmem.claims.numbers import is_number_word, list_number_words
from langchain_convmem.words.languages import STOP_WORDS, get_function_words, stem

UNSPACED = frozenset({"chinese", "japanese"})
"""Languages without blanks between words."""
_SCRIPTS = (
    ("japanese", re.compile("[\u3040-\u30ff]")),
    ("chinese", re.compile("[\u4e00-\u9fff]")),
    ("russian", re.compile("[\u0400-\u04ff]")),
    ("arabic", re.compile("[\u0600-\u06ff]")),
)
_UNLISTED = re.compile(
    "[\u0370-\u03ff\u0590-\u05ff\u0900-\u0dff\u0e00-\u10ff\u1100-\u11ff\u1780-\u17ff\uac00-\ud7af]"
)
OTHER = "other"
"""What a language is called whose words nobody listed; its values are read alone."""
_LATIN = (
    "english", "german", "french", "spanish", "italian", "portuguese", "dutch", "swedish",
    "turkish", "polish",
)  # fmt: skip
_POLISH = re.compile("[ąęłńśźż]", re.IGNORECASE)
_TURKISH = re.compile("[ışğİ]")
_SEVERAL = re.compile("[ \u0900-\u097f]")
"""What a pattern of several words has; signs for vowels of Hindi are no letters to `re`, either."""
_MARKS = (
    ("portuguese", re.compile("[ãõ]", re.IGNORECASE)),
    ("spanish", re.compile("[ñ¿¡]", re.IGNORECASE)),
    ("german", re.compile("ß")),
)
"""Letters that hardly any other of these languages has."""
_MARKED = 3
_LATIN_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
_FLAT = (
    ("skip", "unless"), ("skip", "skips"), ("not", "not"), ("without", "without"),
    ("promise", "promise"),
    ("debtor", "debtor"), ("creditor", "creditor"), ("lend", "lend"), ("user", "user"),
    ("assistant", "assistant"), ("i", "i"), ("you", "you"), ("third", "third"), ("by", "by"),
    ("from", "from"), ("to", "to"), ("passive", "passive"), ("only", "only"),
    ("instead", "instead"),
)  # fmt: skip
_MARGIN = 2
"""A sentence is in another language than the text around it if so many more words say so."""
_MOST_ASKED = 60
_LONG_NUMBER = 4
"""Shorter words for numbers are words of other languages, too."""
_FIRST = 4
"""So many of these are looked for before opposites and relatives, the others after them."""


@dataclass(frozen=True, slots=True)
class Sign:
    """What a word or phrase does in a claim.

    Attributes:
        kind: Such as "not", "concept", "kin", "user", "by".
        key: Which one, of kinds that have several.
        side: 0 or 1: which of two opposites.
    """

    kind: str
    key: str = ""
    side: int = 0


@dataclass(frozen=True)
class Lexicon:
    """The words of one language. Immutable."""

    language: str
    pattern: re.Pattern[str]
    phrases: re.Pattern[str] | None
    days: re.Pattern[str]
    day_keys: Sequence[str]
    signs: Sequence[Sign]
    instead: str
    morning: str
    evening: str
    synonyms: Mapping[str, str]
    contrasts: Mapping[str, tuple[int, str]]
    function_words: frozenset[str] = field(default=frozenset())

    @property
    def is_spaced(self) -> bool:
        """Whether blanks set words apart."""
        return self.language not in UNSPACED

    def get_sign(self, match: re.Match[str]) -> Sign:
        """Return what a match of `pattern` or `phrases` does."""
        return self.signs[int((match.lastgroup or "g0")[1:])]

    def get_day(self, match: re.Match[str]) -> str:
        """Return which day a match of `days` names."""
        return self.day_keys[int((match.lastgroup or "d0")[1:])]


@cache
def _load_data() -> dict[str, dict[str, Any]]:
    data: dict[str, dict[str, Any]] = json.loads(
        files(__package__).joinpath("lexicon.json").read_text("utf-8")
    )
    return data


@cache
def get_lexicon(language: str) -> Lexicon:
    """Return the words of a language; those of English for one that is not listed."""
    data = _load_data().get(language) or _load_data()["english"]
    pairs = [(sign, part) for sign, pattern in _list_signs(data) for part in _split_parts(pattern)]
    spaced = language not in UNSPACED
    groups = [f"(?P<g{number}>{_expand(part)})" for number, (_, part) in enumerate(pairs)]
    several = [
        group for group, (_, part) in zip(groups, pairs, strict=True) if _SEVERAL.search(part)
    ]
    days = list(_list_days(data))
    return Lexicon(
        language=language,
        pattern=_compile(groups, spaced=spaced),
        phrases=_compile(several, spaced=True) if spaced and several else None,
        days=_compile(
            [f"(?P<d{number}>{_expand(said)})" for number, (_, said) in enumerate(days)],
            spaced=spaced,
        ),
        day_keys=[key for key, _ in days],
        signs=[sign for sign, _ in pairs],
        instead=data.get("instead", ""),
        morning=data["am"],
        evening=data["pm"],
        synonyms=dict(_list_synonyms(data["synonyms"], language)),
        contrasts=dict(_list_contrasts(data.get("contrasts", ""), language)),
        function_words=_list_function_words(language, data),
    )


def _list_signs(data: Mapping[str, Any]) -> Iterator[tuple[Sign, str]]:
    flat = [(Sign(kind), data[name]) for kind, name in _FLAT[:_FIRST] if data.get(name)]
    yield from flat
    for key, said in data.get("kin", {}).items():
        yield Sign("kin", key), said
    for key, sides in data["concepts"].items():
        for side, said in enumerate(sides):
            yield Sign("concept", key, side), said
    yield from ((Sign(kind), data[name]) for kind, name in _FLAT[_FIRST:] if data.get(name))


def _split_parts(pattern: str) -> list[str]:
    """Return the alternatives of a pattern, those in brackets kept whole."""
    parts, depth = [""], 0
    for character in pattern:
        depth += (character == "(") - (character == ")")
        if character == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part]


def _expand(pattern: str) -> str:
    return re.sub(r"(?<=[^\W\d_])(?<!\\w)\*", r"\\w*", pattern)


def _compile(groups: Sequence[str], *, spaced: bool) -> re.Pattern[str]:
    longest = sorted(groups, key=lambda group: " " not in group)
    joined = "|".join(longest)
    return re.compile(rf"(?<!\w)(?:{joined})(?!\w)" if spaced else joined, re.IGNORECASE)


def _list_days(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for number, said in enumerate(data["weekdays"].split(";")):
        yield f"weekday {number}", said
    yield from data["days"].items()


def _list_synonyms(text: str, language: str) -> Iterator[tuple[str, str]]:
    for group in text.split(";"):
        words = [stem_word(word, language) for word in group.split()]
        yield from ((word, words[0]) for word in words)


def _list_contrasts(text: str, language: str) -> Iterator[tuple[str, tuple[int, str]]]:
    """Yield the words of which a thing is only one of several, each with its group and itself."""
    for number, group in enumerate(text.split(";")):
        for forms in group.split():
            first = forms.partition("/")[0]
            yield from ((stem_word(form, language), (number, first)) for form in forms.split("/"))


def _list_function_words(language: str, data: Mapping[str, Any]) -> frozenset[str]:
    known = get_function_words(language) if language in STOP_WORDS else frozenset()
    return known | frozenset(data.get("words", "").split())


def stem_word(word: str, language: str) -> str:
    """Return the stem of a lowercase word; of Polish, which has no stemmer, its beginning."""
    if language == OTHER:
        return word
    if language == "polish":
        return word[: max(4, len(word) - 2)]
    return stem(word, language)


@lru_cache(maxsize=4096)
def guess_language(text: str, default: str = "english") -> str:
    """Return what a sentence is written in, of the languages that are listed.

    Args:
        text: The sentence.
        default: What it is taken for if it gives no sign of its own.
    """
    for language, script in _SCRIPTS:
        if script.search(text):
            return language
    if _UNLISTED.search(text):
        return OTHER
    if _TURKISH.search(text):
        return "turkish"
    if _POLISH.search(text):
        return "polish"
    words = _LATIN_WORD.findall(text.lower().replace("\u2019", "'"))
    voters = _load_voters()
    counts = Counter(language for word in words for language in voters.get(word, ()))
    others = [word for word in words[:_MOST_ASKED] if word not in voters]
    counts.update(name for word in others for name in _find_languages(word))
    counts.update({name: _MARKED for name, sign in _MARKS if sign.search(text)})
    most = max(counts.values(), default=0)
    is_default = counts[default] > most - _MARGIN and (counts[default] or default != _LATIN[0])
    if is_default or not most:
        return default
    return next(language for language in _LATIN if counts[language] == most)


@lru_cache(maxsize=50_000)
def _find_languages(word: str) -> tuple[str, ...]:
    """Return the languages in which a form of a word is a sign."""
    return tuple(
        name
        for name in _LATIN
        if get_lexicon(name).pattern.fullmatch(word)
        or (len(word) >= _LONG_NUMBER and is_number_word(word, name))
    )


@cache
def _load_voters() -> dict[str, list[str]]:
    """Return the languages that each word speaks for."""
    voters: dict[str, list[str]] = {}
    for language in _LATIN:
        for word in _list_voters(language):
            voters.setdefault(word, []).append(language)
    return voters


def _list_voters(language: str) -> frozenset[str]:
    data = _load_data()[language]
    told = [data[name] for name in ("user", "i", "you", "not", "assistant", "debtor", "third")]
    told += [data["weekdays"].replace(";", "|"), *data["kin"].values()]
    told += [side.replace("*", "") for sides in data["concepts"].values() for side in sides]
    words = {word for said in told for word in said.split("|") if _LATIN_WORD.fullmatch(word)}
    numbers = {word for word in list_number_words(language) if len(word) >= _LONG_NUMBER}
    return _list_function_words(language, data) | words | numbers
