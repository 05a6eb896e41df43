"""A long chat as a script: small talk, tool calls, facts said once, and questions for them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks import synthetic_dialogue
from benchmarks.long_chat.facts import Fact, facts

__all__ = ["Call", "Exchange", "chat", "small_talk"]

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

_SMALL_TALK = (
    "I slept badly, the {thing} kept rattling until the {time}.",
    "The {food} turned out a bit {quality}, but nobody complained.",
    "I keep wondering whether I should paint the {thing} in the {room}.",
    "It has been raining since the {time} and the dog will not leave the {room}.",
    "I read half of the {quality} novel about a {thing} and still do not know who tells it.",
    "Could you cheer me up a little? The {food} fell onto the {thing}.",
    "My back is {quality} from moving the {thing} into the {room}, it will pass.",
    "I might go for a walk along the {place} later, with some {food}.",
    "What would you cook with a handful of {food} and a {quality} pan?",
    "Somebody practises the trumpet near the {place}, all {time}, badly.",
    "I cannot decide between the {place} and the {room} with some {food}.",
    "How do people find the time to clean a {thing} before the {time}?",
    "The tram to the {place} was late again and the {food} was {quality}.",
    "I tried to meditate in the {room} and thought of {food} instead.",
    "We laughed a lot about the {thing} last {time}, I forget why.",
    "The {food} sank in the middle, is the {thing} to blame?",
)
_REPLIES = (
    "That sounds {quality}. Take the {thing} slowly, and see how you feel in the {time}.",
    "I would try the {room} first and judge by the {food}.",
    "Fair enough. Shall we think the {thing} through together, after the {time}?",
    "A short walk to the {place} often helps, and it costs nothing but {food}.",
    "You could put the {thing} aside and look at it in the {time}.",
    "Let me think about the {place} and come back to you.",
    "It depends on the {food}, I suppose, and on how {quality} the {room} is.",
    "Good question; most people never ask about a {quality} {thing}.",
)
_WORDS = {
    "thing": """lampshade doormat teapot bookcase radiator birdhouse toaster mirror bench drawer
        mattress basket shutter vase stool parasol sewing-box clothesline pillow bucket""",
    "food": """lentils dumplings pancakes chutney gnocchi porridge meringue goulash pesto fritters
        stew crumble marmalade focaccia ratatouille custard borscht waffles pickles semolina""",
    "quality": """bland soggy crooked splendid stubborn peculiar mellow dreary cheerful wobbly
        dusty brittle gloomy tender fussy shabby""",
    "room": "hallway pantry attic bathroom cellar study porch laundry nursery conservatory",
    "place": "canal orchard promenade viaduct meadow quarry pier chapel common arcade",
    "time": "morning evening night afternoon weekend dawn",
}


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call with its result."""

    name: str
    topic: str
    result: str


@dataclass(frozen=True, slots=True)
class Exchange:
    """What happens in one turn.

    Attributes:
        number: The turn, from 1.
        user: What the user says.
        calls: What the model calls at once before it answers.
        answer: What it answers.
        asks: The fact that is asked for, if one is.
    """

    number: int
    user: str
    calls: tuple[Call, ...]
    answer: str
    asks: Fact | None = None


def chat(turns: int, planted: int) -> Iterator[Exchange]:
    """Yield the turns of a chat; the last ones ask for the facts, one each.

    Args:
        turns: How many turns.
        planted: How many facts are said in them.

    Raises:
        ValueError: If there is no room for the facts.
    """
    known = facts(planted)
    before = turns - planted
    if before < 4 * planted:
        raise ValueError(f"{planted} facts need at least {5 * planted} turns, not {turns}")
    chance = random.Random(f"chat {_SEED}")
    told, asked = _places(known, before, chance)
    for number in range(1, before + 1):
        yield _exchange(number, told.get(number), asked.get(number))
    chance.shuffle(known)
    for number, fact in enumerate(known, before + 1):
        yield _exchange(number, None, fact)


def _places(
    known: Sequence[Fact], turns: int, chance: random.Random
) -> tuple[dict[int, tuple[Fact, str]], dict[int, Fact]]:
    """Return what is said, and what is asked for, in which turn."""
    free = list(range(1, turns + 1))
    chance.shuffle(free)
    told: dict[int, tuple[Fact, str]] = {}
    asked: dict[int, Fact] = {}
    gap = min(_GAP, turns // 20)
    for fact in known:
        # Whatever follows has room behind it.
        at = _taken(free, 1, turns - 5 * gap)
        told[at] = fact, fact.said[0]
        for correction in fact.said[1:]:
            at = _taken(free, at + gap, turns - 2 * gap)
            told[at] = fact, correction
        if chance.random() < _EARLY_QUESTIONS:
            asked[_taken(free, min(at, turns - 2 * gap) + gap, turns)] = fact
    return told, asked


def _taken(free: list[int], first: int, last: int) -> int:
    at = next(number for number in free if first <= number <= last)
    free.remove(at)
    return at


def _exchange(number: int, told: tuple[Fact, str] | None, asks: Fact | None) -> Exchange:
    chance = random.Random(f"turn {_SEED} {number}")
    user, answer = _talk(number, chance)
    if asks is not None:
        # The answer says nothing, or it would be there for the next question.
        return Exchange(number, asks.question, (), _filled(_REPLIES, 1, chance), asks)
    if told is not None:
        fact, sentence = told
        around = [_filled(_SMALL_TALK, chance.random() < _ASIDE, chance) for _ in "12"]
        said = " ".join(part for part in (around[0], sentence, around[1]) if part)
        user, answer = (said, answer) if fact.by_user else (user, said)
    return Exchange(number, user, tuple(_calls(number, chance)), answer)


def _talk(number: int, chance: random.Random) -> tuple[str, str]:
    if chance.random() < _DETAILED:
        return synthetic_dialogue.said(number), synthetic_dialogue.answer(number)
    return small_talk(chance)


def small_talk(chance: random.Random) -> tuple[str, str]:
    """Return what the user says and what is answered, about nothing much."""
    said = _filled(_SMALL_TALK, chance.choice((1, 1, 2, 3)), chance)
    return said, _filled(_REPLIES, chance.choice((1, 2)), chance)


def _filled(templates: Sequence[str], count: int, chance: random.Random) -> str:
    """Return so many sentences of small talk."""
    words = {name: chance.choice(of.split()) for name, of in _WORDS.items()}
    return " ".join(chance.sample(templates, count)).format(**words)


def _calls(number: int, chance: random.Random) -> Iterator[Call]:
    if chance.random() < _CALLS:
        names = ("look_up", "search")[: 2 if chance.random() < _TWO_CALLS else 1]
        for place, name in enumerate(names):
            found = synthetic_dialogue.answer(10_000 * (place + 1) + number)
            yield Call(name, f"matter {number}", found)
