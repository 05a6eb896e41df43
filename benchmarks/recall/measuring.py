"""From questions to figures."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.recall.data import Dialogue, Evidence, Question
from benchmarks.recall.systems import CHARS_PER_TOKEN, System

__all__ = ["Outcome", "figures", "interval", "mean", "measure"]

_RESAMPLES = 2000
_SEED = 5


class Outcome(NamedTuple):
    recall: float
    at_20: float
    tokens: float
    ms: float
    category: str


def measure(system: System, dialogue: Dialogue, max_tokens: int) -> list[Outcome]:
    """Return what a system finds for each question of a dialogue."""
    return [_ask(system, dialogue, question, max_tokens) for question in dialogue.questions]


def _ask(system: System, dialogue: Dialogue, question: Question, max_tokens: int) -> Outcome:
    start = time.perf_counter()
    texts, ranked = system.find(question.text, max_tokens)
    elapsed_ms = (time.perf_counter() - start) * 1000
    returned = "\n" + "\n".join(texts) + "\n"
    found = [_stands_in(returned, item, dialogue) for item in question.evidence]
    best = set(ranked)
    return Outcome(
        recall=sum(found) / len(found),
        at_20=sum(item.line in best for item in question.evidence) / len(found),
        tokens=sum(map(len, texts)) / CHARS_PER_TOKEN,
        ms=elapsed_ms,
        category=question.category,
    )


def _stands_in(returned: str, evidence: Evidence, dialogue: Dialogue) -> bool:
    if evidence.part is not None:
        return evidence.part in returned
    # Whole lines only: an answer of "Yes" must not count as found in "Yes, of course".
    return f"\n{dialogue.lines[evidence.line].labelled}\n" in returned


def figures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    by_category: dict[str, list[float]] = defaultdict(list)
    for outcome in outcomes:
        by_category[outcome.category].append(outcome.recall)
    times = [outcome.ms for outcome in outcomes]
    recalls = [outcome.recall for outcome in outcomes]
    at_20 = [outcome.at_20 for outcome in outcomes]
    return {
        "evidence_recall": mean(recalls),
        "full_evidence": mean([recall == 1.0 for recall in recalls]),
        "recall_at_20": mean(at_20),
        "mean_tokens": round(float(np.mean([outcome.tokens for outcome in outcomes])), 1),
        "p50_ms": round(float(np.percentile(times, 50)), 2),
        "p95_ms": round(float(np.percentile(times, 95)), 2),
        "by_category": {name: mean(by_category[name]) for name in sorted(by_category)},
        "interval_95": {
            "evidence_recall": interval(recalls),
            "recall_at_20": interval(at_20),
        },
    }


def mean(values: Sequence[float]) -> float:
    return round(float(np.mean(values)), 4)


def interval(values: Sequence[float]) -> list[float]:
    """Return the 95 % interval of the mean by bootstrap over the values, the same every time."""
    exact = np.array(values, dtype=np.float64)
    draws = np.random.default_rng(_SEED).integers(0, len(exact), (_RESAMPLES, len(exact)))
    low, high = np.percentile(exact[draws].mean(axis=1), [2.5, 97.5])
    return [round(float(low), 4), round(float(high), 4)]
