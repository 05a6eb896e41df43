"""A long chat as a script: small talk, tool calls, facts said once, and questions for them. Seeded.

What facts are about, and how people put them, stands in `benchmarks/data/long_chat`.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import repeat
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage

from benchmarks import synthetic_dialogue

_SEED = 23
_CALLS = 0.25
"""Share of the turns in which the model calls tools."""
_TWO_CALLS = 0.4
"""Share of these in which it calls two at once."""
_DETAILED = 0.4
"""Share of the small talk that is full of names, numbers and days of its own."""
_ASIDE = 0.5
"""How often small talk stands before a fact, and how often behind it."""
_EARLY_QUESTIONS = 0.25
"""Share of the facts that are asked for before the end, too."""
_GAP = 15
"""Turns between a fact and its correction, and before it is asked for; fewer in a short chat."""
_BY_ASSISTANT = 0.15
_CORRECTED = 0.3
"""How often a fact that can be corrected is."""
_MADE_BY = {"price": "price", "code": "code", "date": "date", "name": "person"}


@cache
def read_data(name: str) -> Any:
    """Return a file of `benchmarks/data/long_chat`."""
    folder = Path(__file__).parents[1] / "data" / "long_chat"
    return json.loads((folder / f"{name}.json").read_text("utf-8"))


def tells(messages: Sequence[BaseMessage], answer: str) -> bool:
    """Return whether the answer stands in a message, as words of its own."""
    pattern = re.compile(rf"(?<!\w){re.escape(answer)}(?!\w)", re.IGNORECASE)
    return any(pattern.search(str(message.text)) for message in messages)


# -- facts -----------------------------------------------------------------------------------


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
        plain: Asks for it with the words it was said in; empty where nobody does.
    """

    kind: str
    said: tuple[str, ...]
    by_user: bool
    question: str
    answer: str
    plain: str = ""


class _Values:
    """Makes values, none twice."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._given: set[str] = set()

    def draw(self, name: str) -> str:
        """Return the next value of a sort."""
        while (made := self._make(name)) in self._given:
            pass
        self._given.add(made)
        return made

    def _make(self, name: str) -> str:
        draw, number, known = self._chance.choice, self._chance.randint, read_data("families")
        makers: dict[str, Callable[[], str]] = {
            "code": lambda: f"{number(1000, 9999)}{self._letters(1)}",
            "reference": lambda: f"{self._letters(2)}-{number(10_000, 99_999)}",
            "person": lambda: f"{draw(known['first_names'])} {draw(known['last_names'])}",
            "pet": lambda: str(draw(known["pet_names"])),
            "date": lambda: f"{number(1, 28)} {draw(known['months'])}",
            "length": lambda: f"{number(60, 420)} cm",
            "price": lambda: f"{number(120, 9_800)} euros",
            "phone": lambda: f"0{number(200, 999)} {number(100_000, 999_999)}",
            "size": lambda: f"{number(34, 62)} {draw(('slim', 'wide', 'tall'))}",
        }
        return makers[name]()

    def _letters(self, count: int) -> str:
        return "".join(self._chance.choices("ABCDEFGHJKLMNPQRSTUVWXYZ", k=count))


def facts(count: int, *, seed: int = 11) -> list[Fact]:
    """Return so many facts of all kinds, in random order.

    Raises:
        ValueError: If there are not so many.
    """
    chance = random.Random(f"facts {seed}")
    made_up = _Values(chance)
    made: list[Fact] = []
    for kind, family in read_data("families")["families"].items():
        listed = family["values"]
        if isinstance(listed, str):
            values: Iterator[str] = map(made_up.draw, repeat(listed))
        else:
            drawn = list(listed)
            chance.shuffle(drawn)
            values = reversed(drawn)
        made += (_make_fact(kind, family, one, values, chance) for one in family["subjects"])
    if count > len(made):
        raise ValueError(f"there are {len(made)} facts, not {count}")
    chance.shuffle(made)
    return made[:count]


def _make_fact(
    kind: str, family: dict[str, Any], subject: str, values: Iterator[str], chance: random.Random
) -> Fact:
    by_user = chance.random() >= _BY_ASSISTANT
    value = next(values)
    wordings = family["wordings"] if by_user else family["replies"]
    said = [chance.choice(wordings).format(subject=subject, value=value)]
    # Values that are listed suffice for one each.
    can_change = by_user and family["corrections"] and isinstance(family["values"], str)
    if can_change and chance.random() < _CORRECTED:
        value = next(values)
        said.append(chance.choice(family["corrections"]).format(subject=subject, value=value))
    question = chance.choice(family["questions"]).format(subject=subject)
    return Fact(kind, tuple(map(_capitalise, said)), by_user, _capitalise(question), value)


def _capitalise(text: str) -> str:
    return text[0].upper() + text[1:]


def list_sayings(count: int | None = None, name: str = "sayings") -> list[Fact]:
    """Return facts of some kinds by turns, each asked for in words that share none of weight."""
    chance = random.Random("sayings 3")
    values = _Values(chance)
    by_kind = [
        [_make_saying(kind, one, line, values, chance) for line in one["lines"]]
        for kind, one in read_data(name).items()
    ]
    for of_kind in by_kind:
        chance.shuffle(of_kind)
    return [saying for row in zip(*by_kind, strict=True) for saying in row][:count]


def _make_saying(
    kind: str, one: dict[str, Any], line: Sequence[str], values: _Values, chance: random.Random
) -> Fact:
    subject, told, question = line
    by_user = chance.random() >= _BY_ASSISTANT
    value = told or values.draw(_MADE_BY[kind])
    wording = chance.choice(one["wordings"] if by_user else one["replies"])
    said = _capitalise(wording.format(subject=subject, value=value))
    return Fact(kind, (said,), by_user, question, value, one["plain"].format(subject=subject))


# -- the chat --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Exchange:
    """What happens in one turn.

    Attributes:
        number: The turn, from 1.
        user: What the user says.
        calls: Names and results of what the model calls at once before it answers.
        answer: What it answers.
        asks: The fact that is asked for, if one is.
    """

    number: int
    user: str
    calls: tuple[tuple[str, str], ...]
    answer: str
    asks: Fact | None = None


def chat(turns: int, planted: int) -> Iterator[Exchange]:
    """Yield the turns of a chat in which facts are said; the last ones ask for them, one each.

    Raises:
        ValueError: If there is no room for the facts.
    """
    known = facts(planted)
    before = turns - planted
    if before < 4 * planted:
        raise ValueError(f"{planted} facts need at least {5 * planted} turns, not {turns}")
    chance = random.Random(f"chat {_SEED}")
    told, asked = _find_places(known, before, chance)
    for number in range(1, before + 1):
        yield _make_exchange(number, told.get(number), asked.get(number))
    chance.shuffle(known)
    for number, fact in enumerate(known, before + 1):
        yield _make_exchange(number, None, fact)


def _find_places(
    known: Sequence[Fact], turns: int, chance: random.Random
) -> tuple[dict[int, tuple[Fact, str]], dict[int, Fact]]:
    """Return what is said, and what is asked for, in which turn."""
    free = list(range(1, turns + 1))
    chance.shuffle(free)

    def take(first: int, last: int) -> int:
        at = next(number for number in free if first <= number <= last)
        free.remove(at)
        return at

    told: dict[int, tuple[Fact, str]] = {}
    asked: dict[int, Fact] = {}
    gap = min(_GAP, turns // 20)
    for fact in known:
        # Whatever follows has room behind it.
        at = take(1, turns - 5 * gap)
        told[at] = fact, fact.said[0]
        for correction in fact.said[1:]:
            at = take(at + gap, turns - 2 * gap)
            told[at] = fact, correction
        if chance.random() < _EARLY_QUESTIONS:
            asked[take(min(at, turns - 2 * gap) + gap, turns)] = fact
    return told, asked


def _make_exchange(number: int, told: tuple[Fact, str] | None, asks: Fact | None) -> Exchange:
    chance = random.Random(f"turn {_SEED} {number}")
    if chance.random() < _DETAILED:
        user, answer = synthetic_dialogue.said(number), synthetic_dialogue.answer(number)
    else:
        user, answer = small_talk(chance)
    if asks is not None:
        # The answer says nothing, or it would be there for the next question.
        return Exchange(number, asks.question, (), _fill("replies", 1, chance), asks)
    if told is not None:
        fact, sentence = told
        around = [_fill("said", chance.random() < _ASIDE, chance) for _ in "12"]
        said = " ".join(part for part in (around[0], sentence, around[1]) if part)
        user, answer = (said, answer) if fact.by_user else (user, said)
    return Exchange(number, user, tuple(_call(number, chance)), answer)


def small_talk(chance: random.Random) -> tuple[str, str]:
    """Return what the user says and what is answered, about nothing much."""
    said = _fill("said", chance.choice((1, 1, 2, 3)), chance)
    return said, _fill("replies", chance.choice((1, 2)), chance)


def _fill(name: str, count: int, chance: random.Random) -> str:
    """Return so many sentences of small talk."""
    known = read_data("small_talk")
    words = {sort: chance.choice(of) for sort, of in known["words"].items()}
    return " ".join(chance.sample(known[name], count)).format(**words)


def _call(number: int, chance: random.Random) -> Iterator[tuple[str, str]]:
    if chance.random() < _CALLS:
        names = ("look_up", "search")[: 2 if chance.random() < _TWO_CALLS else 1]
        for place, name in enumerate(names, 1):
            yield name, synthetic_dialogue.answer(10_000 * place + number)
