"""From a ranking to the values that a recall returns. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from langchain_convmem.recall.blocks import Ground, Group, fill_budget, render, take_blocks
from langchain_convmem.recall.lexical import LexicalIndex, query_terms
from langchain_convmem.recall.ranking import Ranking
from langchain_convmem.recall.segment_table import SegmentTable
from langchain_convmem.recall.settings import RecallSettings
from langchain_convmem.records import LineMatch, Recall, RecalledBlock

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Wish", "build_recall"]

# A part this many standard deviations above the mean is worth naming as a reason.
_TELLING = 1.0


@dataclass(frozen=True, slots=True)
class Wish:
    """What a caller wants back.

    Attributes:
        query: The question.
        k: So many blocks; None for as many as fit.
        max_tokens: Budget of all blocks together; None for none.
        threshold: Least cosine similarity of a hit; None lets every line be one.
        ranking: How many matches to report.
        settings: Windows and weights.
    """

    query: str
    k: int | None
    max_tokens: int | None
    threshold: float | None
    ranking: int
    settings: RecallSettings


def build_recall(
    wish: Wish,
    ranking: Ranking,
    table: SegmentTable,
    lexical: LexicalIndex,
    *,
    allowed: NDArray[np.bool_],
    problems: Sequence[str] = (),
) -> Recall:
    """Return the answer that `wish` asks for.

    Args:
        wish: How much, and from what similarity on.
        ranking: Segments, best first.
        table: Where they stand.
        lexical: Their terms.
        allowed: Which segments may come back at all, also as the surroundings of a hit.
        problems: To report.
    """
    hits = ranking
    if wish.threshold is not None:
        hits = ranking.take(np.flatnonzero(ranking.similarity >= wish.threshold))
    scribe = _Scribe(wish, ranking, table, lexical)
    ranked = hits.numbers.tolist()
    groups = _groups(wish, ranked, Ground(table, allowed, wish.settings.cross_sessions))
    shown = {line for group in groups for line in group.lines}
    return Recall(
        matches=tuple(scribe.matches(ranked, wish.ranking)),
        blocks=tuple(scribe.block(group) for group in groups),
        best_rejected=_best_rejected(ranking, table, shown),
        problems=tuple(problems),
    )


def _groups(wish: Wish, ranked: list[int], ground: Ground) -> list[Group]:
    settings = wish.settings
    if wish.max_tokens is None:
        return take_blocks(ranked, ground, wish.k or 0, window=settings.window)
    return fill_budget(
        ranked, ground, wish.max_tokens, window=settings.budget_window, max_blocks=wish.k
    )


def _best_rejected(ranking: Ranking, table: SegmentTable, shown: set[int]) -> float | None:
    for number, relevance in zip(ranking.numbers, ranking.relevance, strict=True):
        if table.line_number(number) not in shown:
            return float(relevance)
    return None


class _Scribe:
    """Writes matches and blocks; knows each segment's place in the ranking."""

    def __init__(
        self, wish: Wish, ranking: Ranking, table: SegmentTable, lexical: LexicalIndex
    ) -> None:
        self._ranking = ranking
        self._table = table
        self._lexical = lexical
        self._place = np.full(len(table), -1)
        self._place[ranking.numbers] = np.arange(len(ranking.numbers))
        self._words = query_terms(wish.query, stop_words=wish.settings.stop_words)
        self._use_words = bool(wish.settings.lexical_weight)
        self._written: dict[int, LineMatch] = {}

    def matches(self, numbers: Iterable[int], most: int | None = None) -> list[LineMatch]:
        """Return a match per line, by its best segment, best first."""
        best: dict[int, int] = {}
        for number in numbers:
            if len(best) == most:
                break
            best.setdefault(self._table.line_number(number), number)
        return [self._match(line, number) for line, number in best.items()]

    def _match(self, line: int, number: int) -> LineMatch:
        if number not in self._written:
            at = self._place[number]
            self._written[number] = LineMatch(
                line=self._table.line(line),
                relevance=float(self._ranking.relevance[at]),
                similarity=float(self._ranking.similarity[at]),
                why=self._why(number, at),
            )
        return self._written[number]

    def _why(self, number: int, at: int) -> tuple[str, ...]:
        ranking = self._ranking
        words = self._shared_words(number)
        from_neighbours = float(ranking.smoothed[at] - ranking.own[at])
        reasons = {
            "meaning": ranking.meaning[at] >= _TELLING,
            f"words: {', '.join(words)}": bool(words),
            "speaker": ranking.speaker[at] > 0,
            "neighbours": from_neighbours > max(float(ranking.own[at]), 0.0),
        }
        return tuple(reason for reason, holds in reasons.items() if holds)

    def _shared_words(self, number: int) -> list[str]:
        if not self._use_words:
            return []
        has = self._lexical.has
        return [word for term, word in self._words.items() if has(term, number)]

    def block(self, group: Group) -> RecalledBlock:
        """Return a group with its text and its hits."""
        matches = self.matches(sorted(group.hits, key=self._place.__getitem__))
        return RecalledBlock(
            lines=tuple(self._table.line(line) for line in group.lines),
            text=render(group, self._table),
            matches=tuple(matches),
            relevance=matches[0].relevance,
            similarity=matches[0].similarity,
        )
