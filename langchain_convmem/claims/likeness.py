"""How much clauses, values and names of a restatement and its source are alike. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from langchain_convmem.claims.reading import Claim, Clause, is_same_stem
from langchain_convmem.claims.values import Value, is_month

CONVERSES = frozenset({"buy", "win"})
"""Opposites that say the same of the other person."""

_FORMS = frozenset({"s", "es", "n", "an", "en", "a", "o", "e", "i", "ish", "ian"})

SMALL = 12

ALIKE = 3
"""So many first letters of a word are enough to say that a denial is about it."""

DENYING = frozenset({"accept", "confirm", "like", "can", "safe", "true", "allergic"})
"""Opposites of which one side says the same as a negation of the other."""

MANY_NEW = 3
"""So many new words where none of the source is lost are no other words for it."""


def score_content(content: Iterable[str], values: Iterable[Value], other: Clause) -> float:
    """Return how many words and values a clause shares with others."""
    words = sum(holds_key(other.content, key) for key in content)
    return words + sum(any(value.matches(one) for one in other.values) for value in values)


def is_form(one: str, two: str) -> bool:
    """Return whether two words with a capital are forms of one: "Spain's", "Italians"."""
    start = count_alike(one, two)
    ends = {one[start:].strip("'"), two[start:].strip("'")}
    return ends <= _FORMS | {""}


def holds_key(keys: Collection[str], key: str) -> bool:
    """Return whether a word is among others, in this form or in another."""
    if key in keys:
        return True
    start = key[:4]
    return any(other[:4] == start and is_same_stem(key, other) for other in keys)


def holds_name(keys: Collection[str], name: str) -> bool:
    """Return whether a name is among words, in full or as consonants: "Ln" for "Lane"."""
    return holds_key(keys, name) or any(
        _is_shortened(*sorted((name, key), key=len)) for key in keys if key[:1] == name[:1]
    )


def _is_shortened(short: str, whole: str) -> bool:
    if len(short) > ALIKE or not _CONSONANTS.fullmatch(short):
        return False
    letters = iter(whole)
    return all(letter in letters for letter in short)


_CONSONANTS = re.compile("[bcdfghjklmnpqrstvwxz]{2,}")


def score_clauses(one: Clause, two: Clause) -> float:
    """Return how much two clauses are about the same: words, values and concepts."""
    shared = one.concepts.keys() & two.concepts.keys()
    return score_content(one.content, one.values, two) + len(shared)


def group_values(values: Iterable[Value]) -> dict[str, list[Value]]:
    """Return values by each of the keys that they are compared by."""
    places: defaultdict[str, list[Value]] = defaultdict(list)
    for value in values:
        for key in value.keys:
            places[key].append(value)
    return dict(places)


def is_among(value: Value, places: Mapping[str, Sequence[Value]]) -> bool:
    """Return whether a value is one of those that are grouped by their keys."""
    return any(value.matches(other) for key in value.keys for other in places.get(key, ()))


def is_small(value: Value) -> bool:
    """Return whether a value is a number that texts name in many ways: "the third", "both"."""
    numbers = [one for one in value.readings if isinstance(one, float)]
    return value.kind == "amount" and not value.unit and max(numbers, default=0) <= SMALL


def is_half_read(clock: str, texts: Iterable[str]) -> bool:
    """Return whether a part of an hour stands in a text but not in what was read of its clock."""
    is_whole = _PART_OF_CLOCK.search(clock) or re.search(r"\d[:.]\d\d|\d[분分]", clock)
    return not is_whole and any(map(_PART_OF_CLOCK.search, texts))


_PART_OF_CLOCK = re.compile(
    r"(?i)(?<!\w)(?:half|halb|halv|demie?|media|mezz[ao]|meia|viertel|dreiviertel|kwart|kvart|quart|quarter"
    r"|cuarto|quarto|wpół|kwadrans|пол\w*|четверт\w*|без|menos|meno|moins|buçu\w*|çeyre\w*|साढ़े|सवा|पौने"
    r"|(?:و|وال|ال)(?:نصف|ربع|ثلث)|إلا)(?!\w)|[반半刻]"
)


def is_one_more(value: Value) -> bool:
    """Return whether a value is one of a larger unit, which needs no number: "7 days", "a week"."""
    wholes = _WHOLES.get(value.unit, frozenset()) if value.kind == "amount" else frozenset()
    return not wholes.isdisjoint(value.readings)


_WHOLES: dict[str, frozenset[object]] = {
    "minute": frozenset([60.0, 1440.0, 10_080.0, 20_160.0]),
    "month": frozenset([1.0, 12.0]),
}


def is_one(value: Value) -> bool:
    """Return whether a value is the plain number one."""
    return value.kind == "amount" and value.readings == {1.0} and not value.unit


def list_names(claim: Claim) -> list[str]:
    """Return the names of a sentence; none of a language whose nouns are all capitalised."""
    if claim.language == "german":
        return []
    return [
        item.key for item in claim.items if item.kind == "name" and not is_month(item.text.lower())
    ]


def list_kin(claim: Claim) -> set[str]:
    """Return the relatives that a claim names."""
    return {item.key for item in claim.items if item.kind == "kin"}


def count_alike(one: str, two: str) -> int:
    """Return how many first characters two texts share."""
    pairs = enumerate(zip(one, two, strict=False))
    return next((number for number, (a, b) in pairs if a != b), min(len(one), len(two)))


VERB_LAST = frozenset({"turkish", "japanese"})
