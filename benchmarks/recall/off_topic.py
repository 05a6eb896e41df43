"""What `threshold="auto"` holds back of unrelated questions, and what it costs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from langchain_core.embeddings import Embeddings

from benchmarks.recall.data import BadDataError, Dialogue
from benchmarks.recall.measuring import mean, measure
from benchmarks.recall.systems import Recaller, recall_of
from langchain_convmem.recall.calibration import RELATED, relatedness
from langchain_convmem.recall.ranked import Ranking

__all__ = ["load_off_topic", "off_topic"]

# A little below the 5 % that are wanted, since a new dialogue is never like the others.
_ALLOWED_SHARE = 0.035


def load_off_topic(file: Path) -> list[str]:
    """Return the questions of a file `{questions: [...]}`.

    Raises:
        BadDataError: If it is no such file.
    """
    try:
        questions = json.loads(file.read_text(encoding="utf-8"))["questions"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        msg = f"{file} is no JSON object with a list of questions: {error!r}"
        raise BadDataError(msg) from error
    return [str(question) for question in questions]


class _Asked(NamedTuple):
    """How related each question is, and the recall of those with evidence."""

    related_on: list[float]
    recall: list[float]
    related_off: list[float]


def off_topic(
    dialogues: Sequence[Dialogue],
    embeddings: Embeddings,
    questions: Sequence[str],
    max_tokens: int,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Return the share of off-topic questions that inject something, and the recall it costs.

    Cross-validated: with the threshold that lets 3.5 % of the off-topic questions of all other
    dialogues through.
    """
    asked = {}
    for dialogue in dialogues:
        say(f"{dialogue.name}: off topic")
        asked[dialogue.name] = _ask(dialogue, embeddings, questions, max_tokens)
    every = list(asked.values())
    report: dict[str, Any] = {
        "questions": len(questions) * len(every),
        "threshold": RELATED,
        **_judged(every, [RELATED] * len(every)),
        "by_dialogue": {name: _judged([part], [RELATED]) for name, part in asked.items()},
    }
    if len(every) > 1:
        chosen = [_let_through(every[:n] + every[n + 1 :]) for n in range(len(every))]
        report["cross_validated"] = {
            "thresholds": [round(value, 3) for value in chosen],
            **_judged(every, chosen),
        }
    return report


def _let_through(parts: Sequence[_Asked]) -> float:
    related = [value for part in parts for value in part.related_off]
    return float(np.quantile(related, 1 - _ALLOWED_SHARE))


def _judged(parts: Sequence[_Asked], thresholds: Sequence[float]) -> dict[str, float]:
    pairs = list(zip(parts, thresholds, strict=True))
    injected = [value >= least for part, least in pairs for value in part.related_off]
    before = [recall for part, _ in pairs for recall in part.recall]
    after = [
        recall if value >= least else 0.0
        for part, least in pairs
        for recall, value in zip(part.recall, part.related_on, strict=True)
    ]
    return {
        "injected": mean(injected),
        "evidence_recall": mean(after),
        "cost": round(mean(before) - mean(after), 4),
    }


def _ask(
    dialogue: Dialogue, embeddings: Embeddings, questions: Sequence[str], max_tokens: int
) -> _Asked:
    warm = recall_of(dialogue, embeddings)
    found = [outcome.recall for outcome in measure(Recaller(warm), dialogue, max_tokens)]
    speakers = list(dict.fromkeys(line.speaker for line in dialogue.lines.values()))
    off = [
        question.replace("{speaker}", speakers[number % len(speakers)])
        for number, question in enumerate(questions)
    ]
    with _watched() as related:
        for text in [*(question.text for question in dialogue.questions), *off]:
            warm.recall.recall(warm.owner, text, max_tokens=1, threshold="auto")
    return _Asked(related[: -len(off)], found, related[-len(off) :])


@contextmanager
def _watched() -> Iterator[list[float]]:
    """Collect what recalls compare with the threshold."""
    seen: list[float] = []

    def watching(query: str, ranking: Ranking, *around: Any) -> bool:
        seen.append(relatedness(query, ranking.columns, *around))
        return True

    with patch("langchain_convmem.recall.answer.is_related", watching):
        yield seen
