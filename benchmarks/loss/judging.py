"""What a model is called with, held against what was said and shown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

__all__ = ["KINDS", "Happened", "Verdict", "judged"]

KINDS = ("lost", "doubled", "misplaced", "refused", "swallowed")
"""What may be wrong, in the order of the table."""


@dataclass(frozen=True, slots=True)
class Happened:
    """What the user knows to have happened.

    Attributes:
        expected: `Q1` for what the user said, `A1` for what was answered and shown, in the order
            of the turns.
        shown: Text that was shown of an answer that was cut, by its name.
        swallowed: Failed writes of which the user heard nothing.
        failed: Names of what belongs to a turn that the application was told has failed.
    """

    expected: Sequence[str]
    shown: Mapping[str, str] = field(default_factory=dict)
    swallowed: int = 0
    failed: Sequence[str] = ()

    def without_failed(self) -> Happened:
        """Return what remains for a system that leaves a chat as it was before a failed turn."""
        gone = set(self.failed)
        return Happened(
            [name for name in self.expected if name not in gone],
            {name: text for name, text in self.shown.items() if name not in gone},
            self.swallowed,
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong with what the model was called with; all empty when nothing is.

    Attributes:
        lost: Names of what is missing.
        doubled: Names of what is there though it should not be, or no longer.
        misplaced: Names of answers behind another question.
        refused: Why a provider would refuse the messages.
        swallowed: Failed writes of which the user heard nothing.
    """

    lost: tuple[str, ...]
    doubled: tuple[str, ...]
    misplaced: tuple[str, ...]
    refused: tuple[str, ...]
    swallowed: int

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong."""
        return not any(getattr(self, kind) for kind in KINDS)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return {kind: value for kind in KINDS if (value := _plain(getattr(self, kind)))}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def judged(happened: Happened, messages: Sequence[BaseMessage]) -> Verdict:
    """Hold the messages before the user's latest word against what happened."""
    found = list(_named(messages))
    names = Counter(name for name, _ in found)
    expected = Counter(happened.expected)
    texts = dict(found)
    cut = [name for name, text in happened.shown.items() if text not in texts.get(name, text)]
    return Verdict(
        lost=tuple((expected - names).elements()) + tuple(cut),
        doubled=tuple((names - expected).elements()),
        misplaced=tuple(_misplaced(name for name, _ in found)),
        refused=tuple(_refusals(messages)),
        swallowed=happened.swallowed,
    )


def _named(messages: Sequence[BaseMessage]) -> Iterator[tuple[str, str]]:
    """Yield `Q1` and `A1` as they stand there, each with the text of its message."""
    letters = {"human": "Q", "ai": "A"}
    for message in messages:
        letter = letters.get(message.type)
        if letter is not None:
            text = _said_in(message)
            yield from ((name, text) for name in re.findall(rf"{letter}\d", text))


def _said_in(message: BaseMessage) -> str:
    """Return the text of a message; an object that it is made of stands in its calls."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return "\n".join([str(message.text), *(str(call["args"]) for call in calls)])


def _misplaced(names: Iterator[str]) -> Iterator[str]:
    asked = ""
    for name in names:
        if name.startswith("Q"):
            asked = name[1:]
        elif name[1:] != asked:
            yield name


def _refusals(messages: Sequence[BaseMessage]) -> Iterator[str]:
    """Yield what breaks the rule of every provider: a call, then its results, then the rest."""
    waiting: set[str] = set()
    for message in messages:
        if message.type == "tool":
            call_id = str(getattr(message, "tool_call_id", ""))
            if call_id not in waiting:
                yield f"result of {call_id}, which was not called"
            waiting.discard(call_id)
            continue
        yield from (f"{call_id} was called and has no result" for call_id in sorted(waiting))
        waiting = set()
        if isinstance(message, AIMessage):
            waiting = {str(call["id"]) for call in message.tool_calls}
    yield from (f"{call_id} was called and has no result" for call_id in sorted(waiting))
