"""What each part of the settings is worth, and whether they carry over to other data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from langchain_core.embeddings import Embeddings

from benchmarks.recall.data import Dialogue
from benchmarks.recall.measuring import Outcome, interval, mean, measure, score_of
from benchmarks.recall.parts import PARTS, RANKERS, settings_without
from benchmarks.recall.systems import Recaller, recall_of
from langchain_convmem.recall import RecallSettings

__all__ = ["GRID", "Tried", "ablation", "cross_validation", "cross_validation_of_kinds", "try_grid"]

Say = Callable[[str], None]

GRID: dict[str, tuple[float, ...]] = {
    "lexical_weight": (0.7, 1.0, 1.4),
    "speaker_bonus": (1.5, 2.25, 3.0),
    "session_prior": (0.0, 0.3, 0.6),
    "date_bonus": (0.0, 4.5),
}
"""Every combination is tried; what is not named keeps its default."""


@dataclass(frozen=True)
class Tried:
    """The outcomes of several settings on the dialogues of one folder.

    Attributes:
        dialogues: In the order of the outcomes.
        outcomes: By the settings' name, then by dialogue.
    """

    dialogues: Sequence[Dialogue]
    outcomes: Mapping[str, Sequence[Sequence[Outcome]]]

    @property
    def judged_by(self) -> str:
        """The figure that says what settings are worth here."""
        return "touched" if self._is_by_role else "evidence_recall"

    @property
    def _is_by_role(self) -> bool:
        return all(dialogue.is_by_role for dialogue in self.dialogues)

    def scores(self, name: str, *, without: int | None = None) -> list[float]:
        """Return what each question scores with some settings, but for those of one dialogue."""
        return [
            score_of(outcome, by_role=self._is_by_role)
            for number, part in enumerate(self.outcomes[name])
            if number != without
            for outcome in part
        ]

    def scores_of_dialogue(self, name: str, number: int) -> list[float]:
        """Return what each question of one dialogue scores with some settings."""
        part = self.outcomes[name][number]
        return [score_of(outcome, by_role=self._is_by_role) for outcome in part]


# -- ablation --------------------------------------------------------------------------------


def _alone(part: str) -> RecallSettings:
    # What changes a ranking needs one to change: both rankers, standardised and added.
    kept = (part,) if part in RANKERS else (part, *RANKERS)
    return settings_without(*(other for other in PARTS if other not in kept))


def ablation(
    dialogues: Sequence[Dialogue], embeddings: Embeddings, max_tokens: int, say: Say
) -> dict[str, Any]:
    """Return what the ranking is worth with each part alone and with each part left out.

    A ranker alone ranks by itself; any other part alone is added to the sum of both rankers.
    """
    rankers = settings_without(*(part for part in PARTS if part not in RANKERS))
    variants = {"all": RecallSettings(), "both rankers": rankers}
    variants |= {f"{part} alone": _alone(part) for part in PARTS}
    variants |= {f"without {part}": settings_without(part) for part in PARTS}
    tried = _try(dialogues, embeddings, max_tokens, variants, say)
    worth = {name: mean(tried.scores(name)) for name in variants}
    return {
        "judged_by": tried.judged_by,
        "all": worth["all"],
        "both_rankers": worth["both rankers"],
        "parts": {
            part: {"alone": worth[f"{part} alone"], "left_out": worth[f"without {part}"]}
            for part in PARTS
        },
    }


# -- cross-validation ------------------------------------------------------------------------


def try_grid(
    dialogues: Sequence[Dialogue], embeddings: Embeddings, max_tokens: int, say: Say
) -> Tried:
    """Return the outcomes of every point of the grid."""
    return _try(dialogues, embeddings, max_tokens, _points(), say)


def cross_validation(tried: Tried) -> dict[str, Any]:
    """Return what each dialogue scores with the settings that are best on all others."""
    folds: dict[str, Any] = {}
    judged: list[float] = []
    judged_at_20: list[float] = []
    for number, dialogue in enumerate(tried.dialogues):
        seen = {name: mean(tried.scores(name, without=number)) for name in tried.outcomes}
        chosen = max(seen, key=seen.__getitem__)
        scores = tried.scores_of_dialogue(chosen, number)
        at_20 = [outcome.at_20 for outcome in tried.outcomes[chosen][number]]
        judged += scores
        judged_at_20 += at_20
        folds[dialogue.name] = {
            "chosen": chosen,
            tried.judged_by: mean(scores),
            "recall_at_20": mean(at_20),
        }
    return {
        "judged_by": tried.judged_by,
        "grid": {name: list(values) for name, values in GRID.items()},
        tried.judged_by: mean(judged),
        "recall_at_20": mean(judged_at_20),
        "interval_95": {tried.judged_by: interval(judged), "recall_at_20": interval(judged_at_20)},
        "best_on_all": max(mean(tried.scores(name)) for name in tried.outcomes),
        "left_out": folds,
    }


def cross_validation_of_kinds(tried: Mapping[str, Tried]) -> dict[str, Any]:
    """Return what each folder scores with the settings that are best on all other folders.

    Each folder counts the same in the choice, however many questions it has.
    """
    points = list(_points())
    scores = {
        kind: {point: mean(found.scores(point)) for point in points}
        for kind, found in tried.items()
    }
    folds: dict[str, Any] = {}
    for kind, found in tried.items():
        others = [other for other in tried if other != kind]
        seen = {point: mean([scores[other][point] for other in others]) for point in points}
        chosen = max(seen, key=seen.__getitem__)
        folds[kind] = {
            "chosen": chosen,
            "judged_by": found.judged_by,
            "score": scores[kind][chosen],
            "interval_95": interval(found.scores(chosen)),
            "best_on_it": max(scores[kind].values()),
        }
    return {"grid": {name: list(values) for name, values in GRID.items()}, "left_out": folds}


def _points() -> dict[str, RecallSettings]:
    points = {}
    for values in product(*GRID.values()):
        chosen: dict[str, Any] = dict(zip(GRID, values, strict=True))
        name = ", ".join(f"{key} {value}" for key, value in chosen.items())
        points[name] = replace(RecallSettings(), **chosen)
    return points


def _try(
    dialogues: Sequence[Dialogue],
    embeddings: Embeddings,
    max_tokens: int,
    variants: Mapping[str, RecallSettings],
    say: Say,
) -> Tried:
    """Return the outcomes of each variant; each dialogue is embedded once."""
    outcomes: dict[str, list[list[Outcome]]] = defaultdict(list)
    for dialogue in dialogues:
        warm = recall_of(dialogue, embeddings)
        for name, settings in variants.items():
            say(f"{dialogue.name}: {name}")
            system = Recaller(warm, settings)
            outcomes[name].append(measure(system, dialogue, max_tokens))
    return Tried(dialogues, outcomes)
