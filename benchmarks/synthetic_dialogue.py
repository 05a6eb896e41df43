"""What people might have said: seeded sentences over many threads, the same in every run."""

from __future__ import annotations

import random
from collections.abc import Iterator

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

_START_MS = 1_700_000_000_000
_DAY_MS = 24 * 3_600_000
_PEOPLE = [
    "Ana", "Boris", "Chen", "Dara", "Emil", "Farah", "Goran", "Hana", "Ivo", "Jana", "Kemal",
    "Lena", "Milo", "Nora", "Omar", "Petra",
]  # fmt: skip
_PLACES = [
    "harbour", "market", "library", "station", "museum", "garden", "bakery", "clinic", "school",
    "theatre", "bridge", "office", "kitchen", "workshop", "airport", "valley", "lighthouse",
    "pharmacy", "stadium", "archive",
]  # fmt: skip
_THINGS = [
    "umbrella", "bicycle", "invoice", "recipe", "passport", "violin", "blanket", "ladder",
    "notebook", "camera", "kettle", "lamp", "parcel", "ticket", "carpet", "drill", "guitar",
    "jacket", "keyboard", "medicine", "painting", "receipt", "suitcase", "tractor",
]  # fmt: skip
_ACTS = [
    "bought", "lost", "repaired", "borrowed", "photographed", "returned", "painted", "measured",
    "cancelled", "ordered", "forgot", "found", "sold", "cleaned", "shipped", "reserved",
    "translated", "weighed",
]  # fmt: skip
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_TAILS = (
    "and it took much longer than anybody expected",
    "because the weather changed in the afternoon",
    "so we have to decide before the end of the month",
    "although the price had gone up again",
    "which reminded me of our trip two years ago",
    "and nobody has called back since",
    "but the second one works better anyway",
)


def _sentence(chance: random.Random) -> str:
    who, place, thing = chance.choice(_PEOPLE), chance.choice(_PLACES), chance.choice(_THINGS)
    act, day, number = chance.choice(_ACTS), chance.choice(_DAYS), chance.randint(2, 9_999)
    tail = f", {chance.choice(_TAILS)}" if chance.random() < 0.5 else ""
    return f"{who} {act} the {thing} number {number} at the {place} on {day}{tail}."


def _text(chance: random.Random) -> str:
    return " ".join(_sentence(chance) for _ in range(chance.choice((1, 1, 2, 2, 3))))


def _question(chance: random.Random) -> str:
    who, place, thing = chance.choice(_PEOPLE), chance.choice(_PLACES), chance.choice(_THINGS)
    return f"{_sentence(chance)} What did {who} do with the {thing} at the {place}?"


def threads(lines: int, *, per_thread: int = 40, seed: int = 7) -> Iterator[list[BaseMessage]]:
    """Yield so many lines in threads of `per_thread` each, a thread a day."""
    chance = random.Random(seed)
    for day, first in enumerate(range(0, lines, per_thread)):
        messages: list[BaseMessage] = []
        for number in range(first, min(first + per_thread, lines)):
            kind = AIMessage if number % 2 else HumanMessage
            at_ms = _START_MS + day * _DAY_MS + (number - first) * 30_000
            messages.append(kind(_text(chance), additional_kwargs={"timestamp": at_ms}))
        yield messages


def said(number: int) -> str:
    """Return what the user says in turn `number`."""
    return _question(random.Random(f"said {number}"))


def answer(number: int) -> str:
    """Return what is answered in turn `number`."""
    return _text(random.Random(f"answer {number}"))
