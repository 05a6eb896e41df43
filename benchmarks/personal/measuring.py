"""From answers to figures."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from benchmarks.personal.data import Kind, Piece, Question
from benchmarks.personal.memories import Answer, Way
from benchmarks.recall.measuring import fold_spaces, interval, mean, mean_or_none
from benchmarks.recall.systems import CHARS_PER_TOKEN

__all__ = ["Outcome", "ask_all", "figures", "judge", "share_found"]

_UNANSWERED: tuple[Kind, ...] = ("off_topic", "courtesies", "near_topic")


class Outcome(NamedTuple):
    """What came back for a question.

    Attributes:
        kind: The question's.
        tokens: Size of what came back.
        places: For each piece that is needed the first block in which it stands, or None.
        replaced: The same of the piece that an update replaced.
        verdict: What the recall says of itself.
    """

    kind: Kind
    tokens: float
    places: tuple[int | None, ...] = ()
    replaced: int | None = None
    verdict: str | None = None

    @property
    def found(self) -> float:
        """The share of the needed pieces that came back."""
        return sum(place is not None for place in self.places) / len(self.places)

    @property
    def is_new_first(self) -> bool:
        """Whether the new value came back, and in an earlier block than the old one."""
        [new] = self.places
        return new is not None and (self.replaced is None or new < self.replaced)


def ask_all(way: Way, questions: Iterable[Question]) -> list[Outcome]:
    """Return what comes back for each question."""
    return [judge(question, way(question.text)) for question in questions]


def judge(question: Question, answer: Answer) -> Outcome:
    """Return what an answer is worth."""
    folded = [fold_spaces(block) for block in answer.blocks]
    return Outcome(
        question.kind,
        sum(map(len, answer.blocks)) / CHARS_PER_TOKEN,
        tuple(_place(piece, folded) for piece in question.needs),
        None if question.replaced is None else _place(question.replaced, folded),
        answer.verdict,
    )


def _place(piece: Piece, folded: Sequence[str]) -> int | None:
    says = fold_spaces(piece.says)
    return next((number for number, block in enumerate(folded) if says in block), None)


# -- figures ---------------------------------------------------------------------------------


def figures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the figures of one way to ask; None where no question asks for them."""
    values = _values(outcomes)
    report: dict[str, Any] = {name: mean_or_none(part) for name, part in values.items()}
    report["verdicts"] = _verdicts(outcomes)
    report["interval_95"] = {
        name: interval(part) if part else None for name, part in values.items()
    }
    return report


def _values(outcomes: Sequence[Outcome]) -> dict[str, list[float]]:
    """Return by figure what its mean is taken of."""
    by_kind: dict[Kind, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_kind[outcome.kind].append(outcome)
    found = {
        kind: [outcome.found for outcome in part]
        for kind, part in by_kind.items()
        if kind not in _UNANSWERED
    }
    updates, several = by_kind["updates"], found.get("several", [])
    return {
        "word": found.get("word", []),
        "other": found.get("other", []),
        "replies": found.get("replies", []),
        "new_present": found.get("updates", []),
        "new_first": [outcome.is_new_first for outcome in updates],
        "new_leads": [x.places[0] == 0 for x in updates if 0 in (x.places[0], x.replaced)],
        "several": several,
        "complete": [share == 1.0 for share in several],
        "tokens": [x.tokens for x in outcomes if x.kind not in _UNANSWERED],
        **{kind: [outcome.tokens for outcome in by_kind[kind]] for kind in _UNANSWERED},
    }


def _verdicts(outcomes: Iterable[Outcome]) -> dict[str, dict[str, int]]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for outcome in outcomes:
        if outcome.verdict is not None:
            counts[outcome.kind][outcome.verdict] += 1
    return {kind: dict(sorted(part.items())) for kind, part in sorted(counts.items())}


def share_found(outcomes: Sequence[Outcome]) -> float:
    """Return the mean share of needed pieces that came back."""
    return mean([outcome.found for outcome in outcomes])
