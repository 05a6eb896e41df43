"""What each part of the settings is worth, and whether they carry over to other dialogues."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from langchain_core.embeddings import Embeddings

from benchmarks.recall.data import Dialogue
from benchmarks.recall.measuring import Outcome, interval, mean, measure
from benchmarks.recall.systems import Recaller, recall_of
from langchain_convmem.recall import RecallSettings

__all__ = ["GRID", "ablation", "cross_validation"]

Say = Callable[[str], None]

_OFF: dict[str, dict[str, Any]] = {
    "dense": {"dense_weight": 0.0},
    "lexical": {"lexical_weight": 0.0},
    "smoothing": {"kernel": (1.0,)},
    "names": {"names_in_meaning": True},
    "speaker bonus": {"speaker_bonus": 0.0},
    "session prior": {"session_prior": 0.0},
    "dates": {"date_bonus": 0.0},
    "age in header": {"age_in_header": False},
}
_RANKERS = ("dense", "lexical")

GRID: dict[str, tuple[float, ...]] = {
    "lexical_weight": (0.7, 1.0, 1.4),
    "speaker_bonus": (1.5, 2.25, 3.0),
    "session_prior": (0.0, 0.3, 0.6),
    "date_bonus": (0.0, 4.5),
}
"""Every combination is tried; what is not named keeps its default."""


def _without(*parts: str) -> RecallSettings:
    off: dict[str, Any] = {}
    for part in parts:
        off |= _OFF[part]
    return replace(RecallSettings(), **off)


def _alone(part: str) -> RecallSettings:
    # What changes a ranking needs one to change: both rankers, standardised and added.
    kept = (part,) if part in _RANKERS else (part, *_RANKERS)
    return _without(*(other for other in _OFF if other not in kept))


def ablation(
    dialogues: Sequence[Dialogue], embeddings: Embeddings, max_tokens: int, say: Say
) -> dict[str, Any]:
    """Return evidence recall with each part alone and with each part left out.

    A ranker alone ranks by itself; any other part alone is added to the sum of both rankers.
    """
    variants = {"all": RecallSettings(), "both rankers": _without(*_OFF.keys() - set(_RANKERS))}
    variants |= {f"{part} alone": _alone(part) for part in _OFF}
    variants |= {f"without {part}": _without(part) for part in _OFF}
    tried = _tried(dialogues, embeddings, max_tokens, variants, say)
    recall = {
        name: mean([x.recall for part in parts for x in part]) for name, parts in tried.items()
    }
    return {
        "all": recall["all"],
        "both_rankers": recall["both rankers"],
        "parts": {
            part: {"alone": recall[f"{part} alone"], "left_out": recall[f"without {part}"]}
            for part in _OFF
        },
    }


def cross_validation(
    dialogues: Sequence[Dialogue], embeddings: Embeddings, max_tokens: int, say: Say
) -> dict[str, Any]:
    """Return evidence recall on each dialogue with the settings that are best on all others."""
    points = _points()
    tried = _tried(dialogues, embeddings, max_tokens, points, say)
    folds: dict[str, Any] = {}
    judged: list[Outcome] = []
    for left_out, dialogue in enumerate(dialogues):
        seen = {name: _seen(parts, left_out) for name, parts in tried.items()}
        chosen = max(seen, key=seen.__getitem__)
        outcomes = tried[chosen][left_out]
        judged += outcomes
        folds[dialogue.name] = {
            "chosen": chosen,
            "evidence_recall": mean([outcome.recall for outcome in outcomes]),
            "recall_at_20": mean([outcome.at_20 for outcome in outcomes]),
        }
    recalls, at_20 = [x.recall for x in judged], [x.at_20 for x in judged]
    return {
        "grid": {name: list(values) for name, values in GRID.items()},
        "evidence_recall": mean(recalls),
        "recall_at_20": mean(at_20),
        "interval_95": {"evidence_recall": interval(recalls), "recall_at_20": interval(at_20)},
        "best_on_all": max(mean([x.recall for p in parts for x in p]) for parts in tried.values()),
        "left_out": folds,
    }


def _points() -> dict[str, RecallSettings]:
    points = {}
    for values in product(*GRID.values()):
        chosen: dict[str, Any] = dict(zip(GRID, values, strict=True))
        name = ", ".join(f"{key} {value}" for key, value in chosen.items())
        points[name] = replace(RecallSettings(), **chosen)
    return points


def _seen(parts: Sequence[Sequence[Outcome]], left_out: int) -> float:
    return mean([x.recall for n, part in enumerate(parts) if n != left_out for x in part])


def _tried(
    dialogues: Sequence[Dialogue],
    embeddings: Embeddings,
    max_tokens: int,
    variants: Mapping[str, RecallSettings],
    say: Say,
) -> dict[str, list[list[Outcome]]]:
    """Return the outcomes of each variant, by dialogue; each dialogue is embedded once."""
    outcomes: dict[str, list[list[Outcome]]] = defaultdict(list)
    for dialogue in dialogues:
        warm = recall_of(dialogue, embeddings)
        for name, settings in variants.items():
            say(f"{dialogue.name}: {name}")
            system = Recaller(warm, settings)
            outcomes[name].append(measure(system, dialogue, max_tokens))
    return outcomes
