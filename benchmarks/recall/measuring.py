"""From questions to figures."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from benchmarks.recall.data import Dialogue, Evidence, Question, Role
from benchmarks.recall.systems import CHARS_PER_TOKEN, System
from langchain_convmem.views.lines import indent_text

__all__ = [
    "Outcome",
    "Unanswered",
    "figures",
    "fold_spaces",
    "interval",
    "is_touched",
    "mean",
    "mean_or_none",
    "measure",
    "measure_unanswerable",
    "score_of",
]

_RESAMPLES = 2000
_SEED = 5
_PIECE_CHARS = 60
_PIECE_STEP = 10


class Outcome(NamedTuple):
    """What came back for a question with evidence.

    Attributes:
        recall: Share of the evidence that was returned whole.
        at_20: Share of the evidence lines among the first 20 of the ranking.
        touched: Of each piece of evidence whether a part of it was returned, and whose line it is.
        tokens: Size of what was returned.
        ms: Time of the retrieval.
        category: The question's.
        new_present: Of an update, whether the new value came back; None of other questions.
        new_first: Whether it did in an earlier block than any old one.
    """

    recall: float
    at_20: float
    touched: tuple[tuple[bool, Role | None], ...]
    tokens: float
    ms: float
    category: str
    new_present: bool | None = None
    new_first: bool | None = None

    @property
    def touched_share(self) -> float:
        return sum(is_found for is_found, _ in self.touched) / len(self.touched)


class Unanswered(NamedTuple):
    """What came back for a question that nothing answers."""

    tokens: float


# -- asking ----------------------------------------------------------------------------------


def measure(system: System, dialogue: Dialogue, max_tokens: int) -> list[Outcome]:
    """Return what a system finds for each question with evidence of a dialogue."""
    return [_ask(system, dialogue, question, max_tokens) for question in dialogue.questions]


def measure_unanswerable(system: System, dialogue: Dialogue, max_tokens: int) -> list[Unanswered]:
    """Return what a system returns for each question of a dialogue that nothing answers."""
    found = (system.find(question.text, max_tokens).texts for question in dialogue.unanswerable)
    return [Unanswered(_tokens(texts)) for texts in found]


def _ask(system: System, dialogue: Dialogue, question: Question, max_tokens: int) -> Outcome:
    start = time.perf_counter()
    texts, ranked = system.find(question.text, max_tokens)
    elapsed_ms = (time.perf_counter() - start) * 1000
    returned = "\n" + "\n".join(texts) + "\n"
    folded = fold_spaces(returned)
    found = [_stands_in(returned, item, dialogue) for item in question.evidence]
    touched = tuple(
        (is_touched(_text_of(item, dialogue), folded), dialogue.lines[item.line].role)
        for item in question.evidence
    )
    best = set(ranked)
    return Outcome(
        sum(found) / len(found),
        sum(item.line in best for item in question.evidence) / len(found),
        touched,
        _tokens(texts),
        elapsed_ms,
        question.category,
        *_judge_update(question, dialogue, texts),
    )


def _tokens(texts: Iterable[str]) -> float:
    return sum(map(len, texts)) / CHARS_PER_TOKEN


def _text_of(evidence: Evidence, dialogue: Dialogue) -> str:
    return evidence.part or dialogue.lines[evidence.line].text


def _stands_in(returned: str, evidence: Evidence, dialogue: Dialogue) -> bool:
    if evidence.part is not None:
        return evidence.part in returned
    # Whole lines only: an answer of "Yes" must not count as found in "Yes, of course". Ours indents
    # further lines of a text.
    line = dialogue.lines[evidence.line].labelled
    return any(f"\n{whole}\n" in returned for whole in (line, indent_text(line)))


# -- touching --------------------------------------------------------------------------------


def fold_spaces(text: str) -> str:
    """Return the text with every run of white space as one blank."""
    return " ".join(text.split())


def is_touched(text: str, folded: str) -> bool:
    """Return whether a piece of 60 characters of a text stands in another one.

    Args:
        text: Pieces of it begin at every tenth character; a shorter text is one piece.
        folded: The other one, its white space folded.
    """
    return any(piece in folded for piece in _pieces(text))


@lru_cache(maxsize=4096)
def _pieces(text: str) -> tuple[str, ...]:
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
    new, old = (
        _first_touching([dialogue.lines[line].text for line in lines], folded)
        for lines in (question.new, question.old)
    )
    return new is not None, new is not None and (old is None or new < old)


def _first_touching(lines: Sequence[str], folded: Sequence[str]) -> int | None:
    """Return the first block in which a piece of any of the lines stands."""
    numbers = (n for n, block in enumerate(folded) if any(is_touched(x, block) for x in lines))
    return next(numbers, None)


# -- figures ---------------------------------------------------------------------------------


def score_of(outcome: Outcome, *, by_role: bool) -> float:
    """Return what studies judge by: whole lines, or pieces of them in dialogues by role."""
    return outcome.touched_share if by_role else outcome.recall


def figures(outcomes: Sequence[Outcome], unanswered: Sequence[Unanswered] = ()) -> dict[str, Any]:
    """Return the figures of a system; None where no question asks for them."""
    times = [outcome.ms for outcome in outcomes]
    recalls = [outcome.recall for outcome in outcomes]
    at_20 = [outcome.at_20 for outcome in outcomes]
    touched = [outcome.touched_share for outcome in outcomes]
    present = [x.new_present for x in outcomes if x.new_present is not None]
    first = [x.new_first for x in outcomes if x.new_first is not None]
    return {
        "evidence_recall": mean(recalls),
        "full_evidence": mean([recall == 1.0 for recall in recalls]),
        "recall_at_20": mean(at_20),
        "touched": mean(touched),
        "all_touched": mean([share == 1.0 for share in touched]),
        "mean_tokens": round(float(np.mean([outcome.tokens for outcome in outcomes])), 1),
        "nothing_on_answerable": mean([outcome.tokens == 0 for outcome in outcomes]),
        "something_on_unanswerable": mean_or_none([asked.tokens > 0 for asked in unanswered]),
        "tokens_on_unanswerable": mean_or_none([asked.tokens for asked in unanswered]),
        "new_value_present": mean_or_none(present),
        "new_value_first": mean_or_none(first),
        "p50_ms": round(float(np.percentile(times, 50)), 2),
        "p95_ms": round(float(np.percentile(times, 95)), 2),
        "by_category": _by_category(outcomes, recalls),
        "touched_by_category": _by_category(outcomes, touched),
        "touched_by_role": _by_role(outcomes),
        "interval_95": {
            "evidence_recall": interval(recalls),
            "recall_at_20": interval(at_20),
            "touched": interval(touched),
            "new_value_first": interval(first) if first else None,
        },
    }


def _by_category(outcomes: Sequence[Outcome], values: Sequence[float]) -> dict[str, float]:
    found: dict[str, list[float]] = defaultdict(list)
    for outcome, value in zip(outcomes, values, strict=True):
        found[outcome.category].append(value)
    return {name: mean(found[name]) for name in sorted(found)}


def _by_role(outcomes: Sequence[Outcome]) -> dict[str, float]:
    found: dict[str, list[bool]] = defaultdict(list)
    for is_found, role in (item for outcome in outcomes for item in outcome.touched):
        if role is not None:
            found[role].append(is_found)
    return {role: mean(found[role]) for role in ("user", "assistant") if role in found}


def mean(values: Sequence[float]) -> float:
    return round(float(np.mean(values)), 4)


def mean_or_none(values: Sequence[float]) -> float | None:
    """Return the mean, None of nothing."""
    return mean(values) if values else None


def interval(values: Sequence[float]) -> list[float]:
    """Return the 95 % interval of the mean by bootstrap over the values, the same every time."""
    exact = np.array(values, dtype=np.float64)
    draws = np.random.default_rng(_SEED).integers(0, len(exact), (_RESAMPLES, len(exact)))
    low, high = np.percentile(exact[draws].mean(axis=1), [2.5, 97.5])
    return [round(float(low), 4), round(float(high), 4)]
