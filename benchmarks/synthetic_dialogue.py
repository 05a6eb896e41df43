"""What people might have said: seeded sentences over many threads, the same in every run."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

_START_MS = 1_700_000_000_000
_DAY_MS = 24 * 3_600_000
_WORDS: dict[str, list[str]] = json.loads(
    (Path(__file__).parent / "data" / "synthetic_dialogue.json").read_text("utf-8")
)


def _draw(chance: random.Random, *names: str) -> list[str]:
    return [chance.choice(_WORDS[name]) for name in names]


def _sentence(chance: random.Random) -> str:
    who, place, thing, act, day = _draw(chance, "people", "places", "things", "acts", "days")
    number = chance.randint(2, 9_999)
    tail = f", {chance.choice(_WORDS['tails'])}" if chance.random() < 0.5 else ""
    return f"{who} {act} the {thing} number {number} at the {place} on {day}{tail}."


def _text(chance: random.Random) -> str:
    return " ".join(_sentence(chance) for _ in range(chance.choice((1, 1, 2, 2, 3))))


def _question(chance: random.Random) -> str:
    who, place, thing = _draw(chance, "people", "places", "things")
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
