"""From questions to figures."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from benchmarks.recall.data import Dialogue, Evidence, Question
from benchmarks.recall.systems import CHARS_PER_TOKEN, System
from langchain_convmem.views.lines import indent_text

_RESAMPLES = 2000
_SEED = 5
_PIECE_CHARS = 60
_PIECE_STEP = 10


class Outcome(NamedTuple):
    """What came back for a question with evidence.

    Attributes:
        recall: Share of the evidence that was returned whole.
        touched: Share of the evidence of which a piece was returned.
        tokens: Size of what was returned.
        ms: Time of the retrieval.
        new_present: Of an update, whether the new value came back; None of other questions.
        new_first: Whether it did in an earlier block than any old one.
    """

    recall: float
    touched: float
    tokens: float
    ms: float
    new_present: bool | None = None
    new_first: bool | None = None


def measure(system: System, dialogue: Dialogue, max_tokens: int) -> list[Outcome]:
    """Return what a system finds for each question with evidence of a dialogue."""
    return [_ask(system, dialogue, question, max_tokens) for question in dialogue.questions]


def _ask(system: System, dialogue: Dialogue, question: Question, max_tokens: int) -> Outcome:
    start = time.perf_counter()
    texts = system.find(question.text, max_tokens)
    elapsed_ms = (time.perf_counter() - start) * 1000
    returned = "\n" + "\n".join(texts) + "\n"
    folded, count = fold_spaces(returned), len(question.evidence)
    whole = sum(_stands_in(returned, one, dialogue) for one in question.evidence)
    touched = sum(
        _is_touched(one.part or dialogue.lines[one.line].text, folded) for one in question.evidence
    )
    update = _judge_update(question, dialogue, texts)
    return Outcome(whole / count, touched / count, count_tokens(texts), elapsed_ms, *update)


def count_tokens(texts: Iterable[str]) -> float:
    """Return the size of texts in tokens of four characters."""
    return sum(map(len, texts)) / CHARS_PER_TOKEN


def _stands_in(returned: str, evidence: Evidence, dialogue: Dialogue) -> bool:
    if evidence.part is not None:
        return evidence.part in returned
    # Whole lines only: an answer of "Yes" must not count as found in "Yes, of course". Ours indents
    # further lines of a text.
    line = dialogue.lines[evidence.line].labelled
    return any(f"\n{whole}\n" in returned for whole in (line, indent_text(line)))


def fold_spaces(text: str) -> str:
    """Return the text with every run of white space as one blank."""
    return " ".join(text.split())


def _is_touched(text: str, folded: str) -> bool:
    """Return whether a piece of 60 characters stands there, begun at any tenth character."""
    return any(piece in folded for piece in _list_pieces(text))


@lru_cache(maxsize=4096)
def _list_pieces(text: str) -> tuple[str, ...]:
    whole = fold_spaces(text)
    starts = range(0, max(len(whole) - _PIECE_CHARS, 0) + 1, _PIECE_STEP)
    return tuple(whole[start : start + _PIECE_CHARS] for start in starts)


def _judge_update(
    question: Question, dialogue: Dialogue, texts: Sequence[str]
) -> tuple[bool | None, bool | None]:
    """Return whether the new value came back, and whether it did before any old one."""
    if not (question.old and question.new):
        return None, None
    folded = [fold_spaces(text) for text in texts]

    def find(lines: Sequence[str]) -> int | None:
        said = [dialogue.lines[line].text for line in lines]
        numbers = (n for n, block in enumerate(folded) if any(_is_touched(x, block) for x in said))
        return next(numbers, None)

    new, old = find(question.new), find(question.old)
    return new is not None, new is not None and (old is None or new < old)


def list_figures(outcomes: Sequence[Outcome], unanswered: Sequence[float] = ()) -> dict[str, Any]:
    """Return the figures of a system; None where no question asks for them.

    Args:
        outcomes: Of the questions with evidence.
        unanswered: Tokens returned for the others.
    """
    values: dict[str, list[float]] = {
        "evidence_recall": [one.recall for one in outcomes],
        "touched": [one.touched for one in outcomes],
        "all_touched": [one.touched == 1.0 for one in outcomes],
        "new_value_present": [x.new_present for x in outcomes if x.new_present is not None],
        "new_value_first": [x.new_first for x in outcomes if x.new_first is not None],
        "mean_tokens": [one.tokens for one in outcomes],
        "nothing_on_answerable": [one.tokens == 0 for one in outcomes],
        "something_on_unanswerable": [tokens > 0 for tokens in unanswered],
    }
    shown = ("evidence_recall", "touched", "new_value_first")
    return {
        **{name: find_mean(part) for name, part in values.items()},
        "p50_ms": round(float(np.percentile([one.ms for one in outcomes], 50)), 2),
        "interval_95": {name: find_interval(values[name]) for name in shown},
    }


def find_mean(values: Sequence[float]) -> float | None:
    """Return the mean, None of nothing."""
    return round(float(np.mean(values)), 4) if values else None


def find_interval(values: Sequence[float]) -> list[float] | None:
    """Return the 95 % interval of the mean by bootstrap over the values, the same every time."""
    if not values:
        return None
    exact = np.array(values, dtype=np.float64)
    draws = np.random.default_rng(_SEED).integers(0, len(exact), (_RESAMPLES, len(exact)))
    low, high = np.percentile(exact[draws].mean(axis=1), [2.5, 97.5])
    return [round(float(low), 4), round(float(high), 4)]
