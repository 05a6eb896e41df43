"""What a summary must tell, by kind: prices, codes, dates, numbers, names, promises, preferences.

Pure. What is a price or a preference is decided here, for the check, the list of details and the
record alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Literal, TypeAlias

from langchain_convmem.claims.lexicon import guess_language
from langchain_convmem.claims.reading import read_claim
from langchain_convmem.claims.values import Value
from langchain_convmem.views.facts import Fact, FactSource, Kind, list_mentions, split_sentences

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

_PREFERENCE = re.compile(
    r"\b(?:prefer|favou?rite|allergic|intolerant|vegetarian|vegan|i (?:really |absolutely )?(?:like|love"
    r"|hate|dislike|enjoy|adore|detest)|i (?:can(?:no|'|\u2019)?t|cannot) (?:stand|eat|drink)"
    r"|i (?:don(?:'|\u2019)?t|do not|never) (?:like|eat|drink)|i(?:'|\u2019)d rather"
    r"|ich (?:mag|liebe|hasse|bevorzuge|esse|trinke)|allergisch|am liebsten"
    r"|je (?:pr\u00e9f\u00e8re|d\u00e9teste|n(?:'|\u2019)aime)|j(?:'|\u2019)(?:aime|adore)|allergique"
    r"|prefiero|me (?:gusta|encanta)|odio|al\u00e9rgic[oa]|preferisco|mi piace|allergic[oa]"
    r"|prefiro|adoro|eu gosto|ik (?:hou|haat)|liever|allergisch"
    r"|предпочитаю|люблю|ненавижу|аллергия|wolę|lubię|uwielbiam|uczulon\w+"
    r"|severim|sevmem|tercih ederim|alerjim)\b"
    r"|喜欢|喜歡|讨厌|討厭|过敏|過敏|不吃|好き|嫌い|アレルギー|苦手|أفضل|أحب|أكره|حساسية",
    re.IGNORECASE,
)  # noqa: RUF001 - words in the letters they are written in


def find_kinds(texts: Sequence[FactSource]) -> list[Fact]:
    """Return what texts tell that a summary must tell, in order, each kind and key once."""
    found: dict[str, Fact] = {}
    for fact in _list_all(texts):
        found.setdefault(f"{fact.kind}:{fact.key}", fact)
    return list(found.values())


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
    values = read_values(fact.sentence)
    return next((one for one in values if fact.text in one.text or one.text in fact.text), None)


def has_days(sources: Sequence[FactSource]) -> bool:
    """Return whether somebody names a day that is only known by when it was said: "Friday"."""
    sentences = (part for source in sources for part in split_sentences(source.text))
    return any(value.kind == "day" for part in sentences for value in read_values(part))


def _list_all(texts: Sequence[FactSource]) -> Iterator[Fact]:
    """Yield the facts of texts, sentence by sentence, with their final kinds."""
    mentions = [_name_kind(fact) for fact in list_mentions(texts)]
    promised = {(fact.said, fact.sentence) for fact in mentions if fact.kind == "promise"}
    yield from mentions
    for said in texts:
        for sentence in split_sentences(said.text):
            is_asked = sentence.endswith(("?", "\uff1f", "\u061f"))
            if (said, sentence) in promised or is_asked or not _PREFERENCE.search(sentence):
                continue
            key = " ".join(sentence.casefold().split())
            yield Fact("preference", key, sentence, sentence, said)


def _name_kind(fact: Fact) -> Fact:
    if fact.kind != "number":
        return fact
    value = find_value(fact)
    is_price = value is not None and (value.unit.isupper() or value.unit in _CENTS)
    return replace(fact, kind="price") if is_price else fact
