"""From questions to figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from benchmarks.recall.data import Dialogue, Evidence, Question
from benchmarks.recall.systems import CHARS_PER_TOKEN, Entry, System
from benchmarks.rounds import time_ms
from benchmarks.ui import read_peak
from langchain_convmem.views.lines import indent_text

_RESAMPLES = 2000
_SEED = 5
_PIECE_CHARS = 60
_PIECE_STEP = 10


class Outcome(NamedTuple):
    """What came back for a question.

    Attributes:
        origin: Where the question is from.
        tokens: Size of what was returned.
        useful: Size of the lines of it that are evidence.
        recall: Share of the evidence that was returned whole; None where there is no evidence.
        touched: Share of the evidence of which a piece was returned.
        new_present: Of an update, whether the new value came back; None of other questions.
    """

    origin: str
    tokens: float
    useful: float = 0.0
    recall: float | None = None
    touched: float | None = None
    new_present: bool | None = None


def measure(system: System, dialogue: Dialogue, max_tokens: int) -> list[Outcome]:
    """Return what a filled system finds for each question of a dialogue."""
    asked = (*dialogue.questions, *dialogue.unanswerable)
    return [_ask(system, dialogue, question, max_tokens) for question in asked]


def _ask(system: System, dialogue: Dialogue, question: Question, max_tokens: int) -> Outcome:
    texts = take(system.find(question.text, max_tokens), max_tokens)
    if not question.evidence:
        return Outcome(question.origin, count_tokens(texts))
    returned = "\n" + "\n".join(texts) + "\n"
    folded, total = fold_spaces(returned), len(question.evidence)
    whole = sum(_stands_in(returned, one, dialogue) for one in question.evidence)
    said = [one.part or dialogue.lines[one.line].labelled for one in question.evidence]
    touched = sum(
        _is_touched(one.part or dialogue.lines[one.line].text, folded) for one in question.evidence
    )
    useful = [line for text in texts for line in text.splitlines() if _is_useful(line, said)]
    new = [dialogue.lines[line].text for line in question.new]
    return Outcome(
        question.origin,
        count_tokens(texts),
        count_tokens(useful),
        whole / total,
        touched / total,
        any(_is_touched(text, folded) for text in new) if new else None,
    )


def take(texts: Iterable[str], max_tokens: int) -> list[str]:
    """Return the first texts that fit, the last one of them cut at the budget."""
    room, taken = max_tokens * CHARS_PER_TOKEN, []
    for text in texts:
        if room < 1:
            break
        taken.append(text[:room])
        room -= len(text) + 1
    return taken


def count_tokens(texts: Iterable[str]) -> float:
    """Return the size of texts in tokens of four characters."""
    return sum(map(len, texts)) / CHARS_PER_TOKEN


def _is_useful(line: str, said: Iterable[str]) -> bool:
    """Return whether a returned line is a part of evidence, or has a piece of it."""
    folded = fold_spaces(line)
    return bool(folded) and any(
        folded in fold_spaces(text) or _is_touched(text, folded) for text in said
    )


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


def list_figures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the figures of a system; None where no question asks for them."""
    asked = [one for one in outcomes if one.recall is not None]
    values: dict[str, list[tuple[str, float]]] = {
        "evidence_recall": [(one.origin, one.recall or 0.0) for one in asked],
        "touched": [(one.origin, one.touched or 0.0) for one in asked],
    }
    unanswerable = [one.tokens > 0 for one in outcomes if one.recall is None]
    tokens = sum(one.tokens for one in outcomes)
    return {
        **{name: find_mean([share for _, share in part]) for name, part in values.items()},
        "all_touched": find_mean([one.touched == 1.0 for one in asked]),
        "new_value_present": find_mean([x.new_present for x in asked if x.new_present is not None]),
        "surplus": round(1 - sum(one.useful for one in asked) / tokens, 4) if tokens else None,
        "mean_tokens": find_mean([one.tokens for one in outcomes]),
        "nothing_on_answerable": find_mean([one.tokens == 0 for one in asked]),
        "something_on_unanswerable": find_mean(unanswerable),
        "interval_95": {name: find_interval_by_origin(part) for name, part in values.items()},
    }


def measure_costs(entry: Entry, system: System, dialogue: Dialogue) -> dict[str, float]:
    """Return what an empty system takes to store a dialogue and to answer its questions.

    The process must be a new one, with the embedder loaded.
    """
    lines = list(dialogue.lines.values())
    steps = [lines] if entry.at_once else [[line] for line in lines]
    written = [time_ms(lambda step=step: system.write(step)) for step in steps]  # type: ignore[misc]
    asked = [question.text for question in dialogue.questions]
    system.find(asked[0], 1000)
    times = [time_ms(lambda text=text: system.find(text, 1000)) for text in asked]  # type: ignore[misc]
    return {
        "write_ms": round(sum(written) / len(lines), 3),
        "query_ms": round(median(times), 3),
        "mb": round(read_peak() / 1e6, 1),
    }


def find_mean(values: Sequence[float]) -> float | None:
    """Return the mean, None of nothing."""
    return round(float(np.mean(values)), 4) if values else None


def find_interval_by_origin(values: Sequence[tuple[str, float]]) -> list[float] | None:
    """Return the 95 % interval of the mean by bootstrap over the origins of the values."""
    groups: dict[str, list[float]] = defaultdict(list)
    for origin, value in values:
        groups[origin].append(value)
    if len(groups) < 2:
        return None
    sums = np.array([[sum(group), len(group)] for group in groups.values()])
    draws = np.random.default_rng(_SEED).integers(0, len(sums), (_RESAMPLES, len(sums)))
    drawn = sums[draws].sum(axis=1)
    low, high = np.percentile(drawn[:, 0] / drawn[:, 1], [2.5, 97.5])
    return [round(float(low), 4), round(float(high), 4)]


def find_interval(values: Sequence[float]) -> list[float] | None:
    """Return the 95 % interval of the mean, each value drawn by itself."""
    return find_interval_by_origin([(str(number), value) for number, value in enumerate(values)])
