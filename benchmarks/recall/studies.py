"""What each part of the settings is worth, and whether they carry over to other data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, product
from statistics import mean
from typing import Any

from langchain_core.embeddings import Embeddings

from benchmarks.recall.data import Dialogue
from benchmarks.recall.measuring import find_interval, measure
from benchmarks.recall.systems import Recaller, make_recall
from benchmarks.ui import show_progress
from langchain_convmem.recall import RecallSettings

PARTS: dict[str, dict[str, Any]] = {
    "dense": {"dense_weight": 0.0},
    "lexical": {"lexical_weight": 0.0},
    "smoothing": {"kernel": (1.0,)},
    "kinds": {"kind_weight": 0.0},
    "speaker bonus": {"speaker_bonus": 0.0},
    "who is meant": {"person_bonus": 0.0},
    "meaning first": {"meaning_first": False},
    "latest first": {"latest_first": False},
    "repeats": {"skip_repeats": False},
    "session prior": {"session_prior": 0.0},
    "dates": {"date_bonus": 0.0},
    "age in header": {"age_in_header": False},
}
"""By part the fields of `RecallSettings` that leave it out; every ablation goes by this table."""

_RANKERS = ("dense", "lexical")
"""The parts that can rank by themselves; the others change a ranking."""

GRID: dict[str, tuple[float, ...]] = {
    "lexical_weight": (0.7, 1.0, 1.4),
    "speaker_bonus": (1.5, 2.25, 3.0),
    "session_prior": (0.0, 0.3, 0.6),
    "date_bonus": (0.0, 4.5),
}
"""Every combination is tried; what is not named keeps its default."""


def make_settings_without(*parts: str) -> RecallSettings:
    """Return the default settings without some parts."""
    off = {name: value for part in parts for name, value in PARTS[part].items()}
    return replace(RecallSettings(), **off)


def _keep(*parts: str) -> RecallSettings:
    return make_settings_without(*(part for part in PARTS if part not in parts))


def ablate(
    dialogues: Sequence[Dialogue], embeddings: Embeddings, max_tokens: int
) -> dict[str, Any]:
    """Return what the ranking is worth with each part alone and with each part left out.

    A ranker alone ranks by itself; any other part alone is added to the sum of both rankers.
    """
    variants = {"all parts": RecallSettings(), "both rankers": _keep(*_RANKERS)}
    for part in PARTS:
        variants[f"{part} alone"] = _keep(part, *(() if part in _RANKERS else _RANKERS))
        variants[f"without {part}"] = make_settings_without(part)
    scores = _try(dialogues, embeddings, max_tokens, variants)
    return {name: round(mean(chain(*parts)), 4) for name, parts in scores.items()}


def cross_validate(
    dialogues: Sequence[Dialogue], embeddings: Embeddings, max_tokens: int
) -> dict[str, Any]:
    """Return what each dialogue scores with the settings that are best on all others."""
    points = {}
    for values in product(*GRID.values()):
        chosen: dict[str, Any] = dict(zip(GRID, values, strict=True))
        name = ", ".join(f"{key} {value}" for key, value in chosen.items())
        points[name] = replace(RecallSettings(), **chosen)
    scores = _try(dialogues, embeddings, max_tokens, points)
    folds: dict[str, Any] = {}
    judged: list[float] = []
    for number, dialogue in enumerate(dialogues):
        seen = {
            name: mean(chain(*parts[:number], *parts[number + 1 :]))
            for name, parts in scores.items()
        }
        best = max(seen, key=seen.__getitem__)
        judged += scores[best][number]
        folds[dialogue.name] = {"chosen": best, "score": round(mean(scores[best][number]), 4)}
    return {
        "score": round(mean(judged), 4),
        "interval_95": find_interval(judged),
        "best_on_all": round(max(mean(chain(*parts)) for parts in scores.values()), 4),
        "left_out": folds,
    }


def _try(
    dialogues: Sequence[Dialogue],
    embeddings: Embeddings,
    max_tokens: int,
    variants: Mapping[str, RecallSettings],
) -> dict[str, list[list[float]]]:
    """Return by variant and dialogue what each question scores.

    Dialogues by role are judged by pieces that are touched, others by whole lines.
    """
    scores: dict[str, list[list[float]]] = defaultdict(list)
    by = "touched" if all(dialogue.is_by_role for dialogue in dialogues) else "recall"
    for dialogue in dialogues:
        warm = make_recall(dialogue, embeddings)
        for name, settings in variants.items():
            show_progress(f"{dialogue.name}: {name}")
            outcomes = measure(Recaller(warm, settings), dialogue, max_tokens)
            scores[name].append([getattr(one, by) for one in outcomes])
    return scores
