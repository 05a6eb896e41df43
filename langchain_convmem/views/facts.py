"""What a summary must not lose: names, numbers, dates, ids and open promises. Pure.

Everything here compares texts, and asks no model. A text states a fact if it holds its key, so
a summary may say it in any words; what cannot be found by its key counts as missing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from langchain_convmem.priority import give_way
from langchain_convmem.views.wishes import is_promise

Kind = Literal["id", "date", "number", "price", "name", "promise", "preference"]
"""What `find_facts` finds; prices and preferences are told apart where summaries are checked."""


@dataclass(frozen=True, slots=True)
class FactSource:
    """A text with its place.

    Attributes:
        text: What was said.
        speaker: By whom; empty for what was no dialog line.
        position: Of the entry that says it; 0 for the summary before.
    """

    text: str
    speaker: str = ""
    position: int = 0


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that a summary has to say.

    Attributes:
        kind: What it is.
        key: What a text that states it holds, normalised.
        text: As it was said.
        sentence: Where it was said.
        said: Who said it where.
    """

    kind: Kind
    key: str
    text: str
    sentence: str
    said: FactSource


# After a mark only before a blank, so that "3.5", "a.b" and "e.g." inside a word stay whole.
_SENTENCE = re.compile(
    r"(?<=[.!?\u2026])[\"'\u2019\u201d)\]]*\s+|(?<=[\u3002\uff01\uff1f])|\s*\n\s*"
)

# A day before its month, as many languages write it: "bis 31. Juli", "5. kes\u00e4kuuta".
_DAY = re.compile(r"(?<!\w)\d\d?\.$")
_CAPITAL_MONTH = re.compile(r"Jan|Feb|M\u00e4r|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez")

_COLON = re.compile(r":\s")
_MOST_CHARS = 240
_URL = r"https?://[^\s<>\"')\]]+"
_MAIL = r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
# Codes are of ASCII letters: where words are not parted by blanks, a number stands alone.
_CODE = r"(?=[\w/#-]*\d)(?=[\w/#-]*[a-z])[\w#](?:[\w/#-]*\w)"
_ID = re.compile(rf"{_URL}|{_MAIL}|(?a:(?<![\w.]){_CODE}(?!\w))", re.IGNORECASE)

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]

_DATE = re.compile(
    rf"\b\d{{4}}-\d\d?-\d\d?\b|\b\d\d?[./]\d\d?[./]\d\d(?:\d\d)?\b|\b\d\d?:\d\d(?::\d\d)?\b"
    rf"|\b\d\d?(?:st|nd|rd|th)?(?:\s+of)?\s+{_MONTH}\b(?:,?\s+\d{{4}})?"
    rf"|\b{_MONTH}\s+\d\d?(?:st|nd|rd|th)?\b(?:,?\s+\d{{4}})?"
    r"|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b",
    re.IGNORECASE,
)

_NUMBER = re.compile(
    r"(?<![A-Za-z0-9_.,])[+-]?(?:\d{1,3}(?: \d{3})+(?!\d)|\d+)(?:[.,\u2019']\d+)*(?![A-Za-z0-9_])"
)

_DIGITS = re.compile(r"\d+(?:[.,]\d+)*")
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")

_PROMISE_SHARE = 0.6
"""A text states a promise if it holds this share of its words."""

# Capitalised as a matter of grammar, not because they name somebody.
_NO_NAMES_TEXT = """
    a about after all also am an and any are as at be because been before but by can could did do
    does don't for from get go going good great had has have he hello her here hey hi him his how
    i i'd i'll i'm i've if in is it it's its just let let's like maybe me more my no not now of off
    oh ok okay on one or our out please really right she should so some sorry sure thank thanks
    that that's the their them then there these they they're this those to today tomorrow tonight
    too up us user very was we we'll we're well were what what's when where which who why will
    with would wow yeah yes yesterday yet you you'll you're you've your assistant tool system
"""

_NO_NAMES = frozenset(_NO_NAMES_TEXT.split())
_NOUN_SHARE = 0.3
"""Where this share of the words inside sentences is capitalised, capitals say little (German)."""
_ENOUGH_WORDS = 60
"""Fewer words give no share; then a capital counts."""


def find_facts(texts: Sequence[FactSource]) -> list[Fact]:
    """Return the facts of texts, in order, each key once."""
    found: dict[str, Fact] = {}
    for fact in list_mentions(texts):
        found.setdefault(f"{fact.kind}:{fact.key}", fact)
    return list(found.values())


def list_mentions(texts: Sequence[FactSource]) -> Iterator[Fact]:
    """Yield the facts of texts, in order, as often as they are said."""
    capitals = not _has_capitalised_nouns(texts)
    names = _find_sure_names(texts) if capitals else frozenset()
    for said in texts:
        for sentence in split_sentences(said.text):
            for kind, text in _find_in_sentence(sentence, names):
                yield Fact(kind, _make_key(kind, text), text, sentence, said)


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text; long ones cut at blanks."""
    give_way()
    parts: list[str] = []
    for part in filter(None, map(str.strip, _SENTENCE.split(text))):
        is_month = part[0].islower() or _CAPITAL_MONTH.match(part)
        if parts and is_month and _DAY.search(parts[-1]):
            parts[-1] += f" {part}"
        else:
            parts.append(part)
    return [piece for part in parts for piece in _split_long(part) if piece]


def _split_long(sentence: str) -> Iterator[str]:
    while len(sentence) > _MOST_CHARS:
        blank = sentence.rfind(" ", _MOST_CHARS // 2, _MOST_CHARS)
        end = _MOST_CHARS if blank < 0 else blank
        yield sentence[:end].strip()
        sentence = sentence[end:].strip()
    yield sentence


def _find_in_sentence(sentence: str, names: frozenset[str]) -> Iterator[tuple[Kind, str]]:
    rest = sentence
    patterns: tuple[tuple[Kind, re.Pattern[str]], ...] = (
        ("date", _DATE),
        ("id", _ID),
        ("number", _NUMBER),
    )
    for kind, pattern in patterns:
        for match in pattern.finditer(rest):
            yield kind, match.group()
        # A year inside a date is not a number of its own, nor is a number inside an id.
        rest = _blank_out(pattern, rest)
    for word in _WORD.findall(rest):
        if _fold(word) in names and word[0].isupper():
            yield "name", word
    if is_promise(sentence):
        yield "promise", sentence


def _blank_out(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda match: " " * len(match.group()), text)


# -- Names ----------------------------------------------------------------------------------------
def _has_capitalised_nouns(texts: Iterable[FactSource]) -> bool:
    inside = [word for said in texts for word in _find_words_inside(said.text)]
    upper = sum(word[0].isupper() for word in inside)
    return len(inside) >= _ENOUGH_WORDS and upper > _NOUN_SHARE * len(inside)


def _find_sure_names(texts: Sequence[FactSource]) -> frozenset[str]:
    """Return the words that begin with a capital where grammar asks for none, folded."""
    speakers = {_fold(word) for said in texts for word in _WORD.findall(said.speaker)}
    upper = (
        _fold(word) for said in texts for word in _find_words_inside(said.text) if word[0].isupper()
    )
    return frozenset(upper) - speakers - _NO_NAMES


def _find_words_inside(text: str) -> Iterator[str]:
    """Yield the words that do not open a sentence."""
    for sentence in split_sentences(text):
        for clause in _COLON.split(sentence):  # after a colon, too, a capital is grammar
            yield from (word for word in _WORD.findall(clause)[1:] if len(word) > 1)


# -- Comparing ------------------------------------------------------------------------------------
def check_told(facts: Sequence[Fact], text: str) -> list[bool]:
    """Return for each fact whether a text states it."""
    body = _TextBody(text)
    return [body.has_fact(fact) for fact in facts]


def find_untold(facts: Sequence[Fact], text: str) -> list[Fact]:
    """Return the facts that a text does not state."""
    return [
        fact for fact, is_told in zip(facts, check_told(facts, text), strict=True) if not is_told
    ]


class KnownFacts:
    """Facts by kind, to be looked for in many short texts. Immutable."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        """Take the facts, each kind and key once."""
        self._by_kind: dict[Kind, dict[str, Fact]] = {}
        for fact in facts:
            self._by_kind.setdefault(fact.kind, {})[fact.key] = fact

    def find_in(self, text: str) -> list[Fact]:
        """Return those that a text states; promises only where it promises something."""
        body = _TextBody(text)
        kind: Kind
        kinds: list[Kind] = ["id", "date"] if body.dates else ["id"]
        if is_promise(text):
            kinds.append("promise")
        found = [
            fact for kind in kinds for fact in self._get_kind(kind).values() if body.has_fact(fact)
        ]
        for kind, keys in (("name", body.words), ("number", body.numbers)):
            known = self._get_kind(kind)
            found += [known[key] for key in sorted(keys) if key in known]
        return found

    def _get_kind(self, kind: Kind) -> dict[str, Fact]:
        return self._by_kind.get(kind, {})


class _TextBody:
    """A text, taken apart once for many facts."""

    def __init__(self, text: str) -> None:
        self._folded = _fold(text)
        self.words = frozenset(map(_strip_possessive, _find_words(self._folded)))
        # Facts are read sentence by sentence; a summary may also state a date across a line's end.
        parts = dict.fromkeys((text, *split_sentences(text)))
        self.dates = [_split_date(date) for part in parts for date in _DATE.findall(part)]
        self.numbers = frozenset(_make_key("number", number) for number in _find_numbers(text))

    def has_fact(self, fact: Fact) -> bool:
        if fact.kind == "name":
            return fact.key in self.words
        if fact.kind in ("number", "price"):
            return fact.key in self.numbers
        if fact.kind == "date":
            parts = _split_date(fact.text)
            return any(parts <= date for date in self.dates)
        if fact.kind == "id":
            return fact.key in self._folded
        words = _find_promise_words(fact.key)
        return sum(word in self.words for word in words) >= _PROMISE_SHARE * len(words)


def _find_words(text: str) -> Iterator[str]:
    """Yield the words of a text, and the parts of those that hyphens or apostrophes join."""
    for word in _WORD.findall(text):
        yield word
        if not word.isalpha():
            yield from re.split(r"['\u2019-]", word)


def _find_numbers(text: str) -> Iterator[str]:
    """Yield all numbers that a text can be read to hold: groups of digits as one, and apart."""
    yield from _NUMBER.findall(text)
    yield from _NUMBER.findall(_blank_out(_DATE, text))
    yield from _DIGITS.findall(text)


@lru_cache(maxsize=4096)
def _find_promise_words(key: str) -> tuple[str, ...]:
    words = dict.fromkeys(_make_key("name", word) for word in _WORD.findall(key))
    return tuple(word for word in words if word not in _NO_NAMES) or tuple(words)


def _make_key(kind: Kind, text: str) -> str:
    folded = _fold(text)
    if kind == "number":
        return _strip_grouping(folded)
    if kind == "date":
        return " ".join(sorted(_split_date(text)))
    if kind == "name":
        return _strip_possessive(folded)
    return folded


def _strip_possessive(folded: str) -> str:
    """Return a word without the ending of what belongs to somebody."""
    return folded.removesuffix("'s").removesuffix("\u2019s")


@lru_cache(maxsize=4096)
def _split_date(date: str) -> frozenset[str]:
    """Return the parts of a date, so that 8 May 2023 and 2023-05-08 hold the same."""
    iso = re.fullmatch(r"(\d{4})-(\d\d?)-(\d\d?)", date)
    if iso:
        year, month, day = map(int, iso.groups())
        return frozenset({str(year), _MONTHS[month - 1] if 1 <= month <= 12 else "", str(day)})  # noqa: PLR2004
    words = re.findall(r"\d+(?::\d+)+|\d+|[a-z]{3,}", _fold(date))
    return frozenset(word.lstrip("0")[:3] if word.isalpha() else word.lstrip("0") for word in words)


def _strip_grouping(number: str) -> str:
    """Return a number without what groups its digits: 1,200 and 1200 are one."""
    return re.sub(r"[,\u2019' ](?=\d{3}(?:\D|$))", "", number).strip(".,+ \u2019'")


def _fold(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
