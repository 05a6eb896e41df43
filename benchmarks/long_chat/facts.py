"""Facts that are said once, in varied words, each with a question that it answers. Seeded."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

from benchmarks.long_chat.wordings import (
    FAMILIES,
    FIRST_NAMES,
    LAST_NAMES,
    MONTHS,
    PET_NAMES,
    Family,
)

__all__ = ["Fact", "Values", "facts"]


@dataclass(frozen=True, slots=True)
class Fact:
    """Something worth remembering.

    Attributes:
        kind: What sort of thing it is.
        said: What is said, each in a turn of its own: the fact, and behind it a correction, if
            there is one.
        by_user: Whether the user says it; else the assistant does, in its answer.
        question: Asks for it, in other words.
        answer: What a text must hold that answers the question.
    """

    kind: str
    said: tuple[str, ...]
    by_user: bool
    question: str
    answer: str


_SPOKEN_BY_ASSISTANT = 0.15
_CORRECTED = 0.3
"""How often a fact that can be corrected is."""


class Values:
    """Makes values, none twice. Not thread-safe."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._given: set[str] = set()

    def from_chain(self, name: str) -> str:
        """Return the next value of a kind."""
        made: str
        while (made := getattr(self, f"_{name}")()) in self._given:
            pass
        self._given.add(made)
        return made

    def _letters(self, count: int) -> str:
        return "".join(self._chance.choices("ABCDEFGHJKLMNPQRSTUVWXYZ", k=count))

    def _code(self) -> str:
        return f"{self._chance.randint(1000, 9999)}{self._letters(1)}"

    def _reference(self) -> str:
        return f"{self._letters(2)}-{self._chance.randint(10_000, 99_999)}"

    def _person(self) -> str:
        return f"{self._chance.choice(FIRST_NAMES)} {self._chance.choice(LAST_NAMES)}"

    def _pet(self) -> str:
        return self._chance.choice(PET_NAMES)

    def _date(self) -> str:
        return f"{self._chance.randint(1, 28)} {self._chance.choice(MONTHS)}"

    def _length(self) -> str:
        return f"{self._chance.randint(60, 420)} cm"

    def _price(self) -> str:
        return f"{self._chance.randint(120, 9_800)} euros"

    def _phone(self) -> str:
        return f"0{self._chance.randint(200, 999)} {self._chance.randint(100_000, 999_999)}"

    def _size(self) -> str:
        return f"{self._chance.randint(34, 62)} {self._chance.choice(('slim', 'wide', 'tall'))}"


def facts(count: int, *, seed: int = 11) -> list[Fact]:
    """Return so many facts of all kinds, in random order.

    Raises:
        ValueError: If there are not so many.
    """
    chance = random.Random(f"facts {seed}")
    made = list(_all(chance))
    if count > len(made):
        raise ValueError(f"there are {len(made)} facts, not {count}")
    chance.shuffle(made)
    return made[:count]


def _all(chance: random.Random) -> Iterator[Fact]:
    made_up = Values(chance)
    for kind, family in FAMILIES.items():
        values = _drawn(family, made_up, chance)
        for subject in family.subjects:
            yield _fact(kind, family, subject, values, chance)


def _drawn(family: Family, made_up: Values, chance: random.Random) -> Iterator[str]:
    if isinstance(family.values, str):
        return map(made_up.from_chain, repeat(family.values))
    listed = list(family.values)
    chance.shuffle(listed)
    return reversed(listed)


def _fact(
    kind: str, family: Family, subject: str, values: Iterator[str], chance: random.Random
) -> Fact:
    by_user = chance.random() >= _SPOKEN_BY_ASSISTANT
    value = next(values)
    wordings = family.wordings if by_user else family.replies
    said = [chance.choice(wordings).format(subject=subject, value=value)]
    # Values that are listed suffice for one each.
    can_change = by_user and bool(family.corrections) and isinstance(family.values, str)
    if can_change and chance.random() < _CORRECTED:
        value = next(values)
        said.append(chance.choice(family.corrections).format(subject=subject, value=value))
    question = chance.choice(family.questions).format(subject=subject)
    return Fact(kind, tuple(map(_sentence, said)), by_user, _sentence(question), value)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
