"""What a summary must tell, by kind: prices, codes, dates, numbers, names, promises, preferences.

Pure. What is a price or a preference is decided here, for the check, the list of details and the
record alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from types import MappingProxyType
from typing import Literal, TypeAlias

from langchain_convmem.claims.lexicon import guess_language
from langchain_convmem.claims.reading import read_claim
from langchain_convmem.claims.values import Value
from langchain_convmem.views.facts import Fact, FactSource, Kind, list_mentions, split_sentences
from langchain_convmem.views.wishes import is_asking, is_preference

FactKind: TypeAlias = Literal[
    "price", "code", "date", "number", "name", "promise", "preference"
]  # fmt: skip
"""Kinds as records count them."""

KINDS: tuple[FactKind, ...] = (
    "promise", "preference", "price", "code", "date", "name", "number",
)  # fmt: skip
"""All of them, in the order in which they get a place in a list of details."""

_NAMES: Mapping[Kind, FactKind] = MappingProxyType(
    {
        "id": "code",
        "date": "date",
        "number": "number",
        "price": "price",
        "name": "name",
        "promise": "promise",
        "preference": "preference",
    }
)

_CENTS = frozenset({"pound", "cent"})


def find_kinds(texts: Sequence[FactSource]) -> list[Fact]:
    """Return what texts tell that a summary must tell, in order, each kind and key once."""
    found: dict[str, Fact] = {}
    for fact in list_told(texts):
        found.setdefault(f"{fact.kind}:{fact.key}", fact)
    return list(found.values())


def name_kinds(sentence: str) -> frozenset[Kind]:
    """Return the kinds of what a sentence tells."""
    return frozenset(fact.kind for fact in list_told([FactSource(sentence)]))


def get_kind(fact: Fact) -> FactKind:
    """Return what a record counts a fact as."""
    return _NAMES[fact.kind]


def is_saying(fact: Fact) -> bool:
    """Return whether a fact is what a whole sentence says, and no value or name in it."""
    return fact.kind in ("promise", "preference")


def read_values(text: str) -> tuple[Value, ...]:
    """Return the values that a sentence names."""
    return read_claim(text, guess_language(text)).whole.values


def find_value(fact: Fact) -> Value | None:
    """Return the value that a fact is, as its sentence names it; None for names and sayings."""
    if is_saying(fact) or fact.kind == "name":
        return None
    values = [one for one in read_values(fact.sentence) if _is_same_text(one, fact)]
    right = (one for one in values if _is_money(one) == (fact.kind == "price"))
    return next(right, values[0] if values else None)


def has_days(sources: Sequence[FactSource]) -> bool:
    """Return whether somebody names a day that is only known by when it was said: "Friday"."""
    sentences = (part for source in sources for part in split_sentences(source.text))
    return any(value.kind == "day" for part in sentences for value in read_values(part))


def list_told(texts: Sequence[FactSource]) -> Iterator[Fact]:
    """Yield what texts tell, as often as they do; preferences come after all else."""
    promised: set[tuple[FactSource, str]] = set()
    by_sentence = groupby(list_mentions(texts), key=lambda fact: (fact.said, fact.sentence))
    for place, facts in by_sentence:
        for fact in _name_kinds(list(facts)):
            if fact.kind == "promise":
                promised.add(place)
            yield fact
    for said in texts:
        for sentence in split_sentences(said.text):
            if (said, sentence) in promised or is_asking(sentence) or not is_preference(sentence):
                continue
            key = " ".join(sentence.casefold().split())
            yield Fact("preference", key, sentence, sentence, said)


def _name_kinds(facts: Sequence[Fact]) -> Iterator[Fact]:
    """Yield the facts of a sentence, numbers of money as prices; units are no names."""
    numbers = any(fact.kind == "number" for fact in facts)
    values = list(read_values(facts[0].sentence)) if numbers else []
    units = {word for value in values for word in value.text.split()}
    for fact in facts:
        value = next((one for one in values if _is_same_text(one, fact)), None)
        if fact.kind == "name" and fact.text in units:
            continue
        if fact.kind != "number" or value is None:
            yield fact
            continue
        values.remove(value)  # the next number of the same digits is another value
        yield replace(fact, kind="price") if _is_money(value) else fact


def _is_same_text(value: Value, fact: Fact) -> bool:
    return fact.text in value.text or value.text in fact.text


def _is_money(value: Value) -> bool:
    return value.unit.isupper() or value.unit in _CENTS
