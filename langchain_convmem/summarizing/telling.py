"""Whether a text tells a fact: a value in any notation, a promise by who promised what. Pure.

A price, code, date or number is told by a value that means the same ("5 pm" by "17:00"); all but a
price, whose currency counts, also by the same digits. A name is told by its word. A promise or a
preference is told by one sentence that holds most of its words, replaces none, and says whose it
is.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache

from langchain_convmem.claims.comparison import SPEAKERS, compare_claims, split_restatement
from langchain_convmem.claims.findings import SourceSentence
from langchain_convmem.claims.lexicon import guess_language
from langchain_convmem.claims.reading import Claim, find_cast, is_same_stem, read_claim
from langchain_convmem.claims.values import Value
from langchain_convmem.summarizing.kinds import find_value, is_saying, read_values
from langchain_convmem.views.facts import Fact, FactSource, check_told

_SHARE = 0.6
"""A sentence may tell a promise if it holds this share of its words."""

_PREFIX = re.compile(r"\s*(?:[-*\u2022\u30fb]\s+)?(?P<who>[^\n:]{1,40}):\s+(?P<rest>.*)", re.DOTALL)
_BULLET = re.compile(r"^\s*(?:[-*\u2022\u30fb]\s*)+")


def find_untold_facts(facts: Sequence[Fact], text: str) -> list[Fact]:
    """Return the facts that a text does not tell, in their order."""
    told = tell_facts(facts, text)
    return [fact for fact, is_told in zip(facts, told, strict=True) if not is_told]


def tell_facts(facts: Sequence[Fact], text: str) -> list[bool]:
    """Return for each fact whether a text tells it."""
    body = _Body(text)
    by_key = check_told([fact for fact in facts if not is_saying(fact)], text)
    keys = iter(by_key)
    return [
        body.has_saying(fact) if is_saying(fact) else body.has_value(fact, has_key=next(keys))
        for fact in facts
    ]


def split_speaker(sentence: str) -> tuple[str, str]:
    """Return who a line of a transcript or a list of details is from, and what it says.

    Returns:
        The speaker, lowercase ("user", "assistant", a name), empty where none is named; the rest.
    """
    match = _PREFIX.fullmatch(sentence)
    if match is None or len(match["who"].split()) > 3:  # noqa: PLR2004 - names have no more words
        return "", _BULLET.sub("", sentence)
    who = match["who"].strip("[]* ").casefold()
    return SPEAKERS.get(who, who), match["rest"]


def name_speaker(said: FactSource) -> str:
    """Return who said something, as claims name them: "user", "assistant" or a name, lowercase."""
    who = said.speaker.casefold()
    return SPEAKERS.get(who, who)


class _Body:
    """A text, taken apart once for many facts."""

    def __init__(self, text: str) -> None:
        self._lines = [split_speaker(sentence) for sentence in split_restatement(text)]
        self._values: defaultdict[str, list[Value]] = defaultdict(list)
        for _, rest in self._lines:
            for value in read_values(rest):
                for key in value.keys:
                    self._values[key].append(value)

    def has_value(self, fact: Fact, *, has_key: bool) -> bool:
        if has_key and fact.kind != "price":
            return True
        value = find_value(fact)
        if value is None:
            return has_key
        near = (other for key in value.keys for other in self._values.get(key, ()))
        return any(value.matches(other) for other in near)

    def has_saying(self, fact: Fact) -> bool:
        return any(_is_saying_told(fact, who, rest) for who, rest in self._lines)


@lru_cache(maxsize=8192)
def _is_saying_told(fact: Fact, who: str, rest: str) -> bool:
    said = _read(fact.sentence, name_speaker(fact.said))
    told = _read(rest, who)
    if not _fits(said, told) or not _says_whose(fact, told, who):
        return False
    if _fold(rest) == _fold(fact.sentence):
        return True
    source = SourceSentence(fact.sentence, fact.said.speaker)
    return not compare_claims([source], rest).changed


def _read(text: str, speaker: str) -> Claim:
    return read_claim(text, guess_language(text), speaker)


def _fits(said: Claim, told: Claim) -> bool:
    """Return whether a sentence holds most words of another one, and replaces none of them."""
    wanted, known = _list_keys(said), _list_keys(told)
    lost = sum(not _is_among(key, known) for key in wanted)
    values = [any(map(value.matches, told.whole.values)) for value in said.whole.values]
    count, found = len(wanted) + len(values), len(wanted) - lost + sum(values)
    is_replaced = lost > 0 and not all(_is_among(key, wanted) for key in known)
    return count > 0 and found >= _SHARE * count and not is_replaced


def _list_keys(claim: Claim) -> list[str]:
    return [*claim.whole.content, *claim.whole.concepts]


def _is_among(key: str, keys: Sequence[str]) -> bool:
    return any(is_same_stem(key, other) for other in keys)


def _says_whose(fact: Fact, told: Claim, who: str) -> bool:
    """Return whether a sentence leaves no doubt whose a promise or preference is."""
    speaker = name_speaker(fact.said)
    if not speaker:
        return True
    if who:
        return who == speaker
    names = frozenset([speaker]) | told.whole.names
    agents = {find_cast(clause, names).agent for clause in told.clauses} - {""}
    if not agents:
        return fact.kind == "preference"
    persons = {speaker, "?"} if speaker in ("user", "assistant") else {speaker, "?", "user"}
    return not agents.isdisjoint(persons)


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())
