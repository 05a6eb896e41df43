"""From a ranking to the values that a recall returns. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from langchain_convmem.recall.analysis import query_terms
from langchain_convmem.recall.blocks import Ground, Group, fill_budget, render, take_blocks
from langchain_convmem.recall.calibration import needed, relatedness
from langchain_convmem.recall.dates import Span, spans
from langchain_convmem.recall.lexical import LexicalIndex, stands_in
from langchain_convmem.recall.ranked import Ranking
from langchain_convmem.recall.segment_table import SegmentTable
from langchain_convmem.recall.settings import RecallSettings
from langchain_convmem.records import LineMatch, Recall, RecalledBlock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Answer", "Wish", "build_recall", "hits_of"]

# A part this many standard deviations above the mean is worth naming as a reason.
_TELLING = 1.0


@dataclass(frozen=True, slots=True)
class Wish:
    """What a caller wants back.

    Attributes:
        query: The question.
        k: So many blocks; None for as many as fit.
        max_tokens: Budget of all blocks together; None for none.
        threshold: Least cosine similarity of a hit; None lets every line be one, "auto" too, but
            none where the question is not related to anything.
        ranking: How many matches to report.
        settings: Windows and weights.
        now_ms: When it is asked, milliseconds since the epoch; None knows no dates.
    """

    query: str
    k: int | None
    max_tokens: int | None
    threshold: float | Literal["auto"] | None
    ranking: int
    settings: RecallSettings
    now_ms: int | None = None

    @property
    def header_now_ms(self) -> int | None:
        """From when headers count how long ago a block was said; None: they do not."""
        return self.now_ms if self.settings.age_in_header else None


class Answer(NamedTuple):
    """A recall, and the groups that its blocks were made of, in the same order."""

    recall: Recall
    groups: list[Group]


def hits_of(
    wish: Wish,
    ranking: Ranking,
    table: SegmentTable,
    lexical: LexicalIndex,
    allowed: NDArray[np.bool_],
) -> Ranking:
    """Return the ranked segments that the threshold lets pass."""
    if wish.threshold == "auto":
        found = relatedness(wish.query, ranking.columns, table, lexical, allowed)
        return ranking if found >= needed(allowed) else ranking.at_least(math.inf)
    return ranking if wish.threshold is None else ranking.at_least(wish.threshold)


def build_recall(
    wish: Wish,
    ranking: Ranking,
    table: SegmentTable,
    lexical: LexicalIndex,
    *,
    allowed: NDArray[np.bool_],
    hits: Ranking | None = None,
    problems: Sequence[str] = (),
) -> Answer:
    """Return the recall that `wish` asks for, with what it was made of.

    Args:
        wish: How much, and from what similarity on.
        ranking: Segments, best first.
        table: Where they stand.
        lexical: Their terms.
        allowed: Which segments may come back at all, also as the surroundings of a hit.
        hits: Those of the ranking that may be hits, in their own order; None is `hits_of`.
        problems: To report.
    """
    if hits is None:
        hits = hits_of(wish, ranking, table, lexical, allowed)
    scribe = _Scribe(wish, ranking, table, lexical)
    groups = _groups(wish, hits, _ground(wish, table, allowed))
    shown = {line for group in groups for line in group.lines}
    recall = Recall(
        matches=tuple(scribe.matches(hits, wish.ranking)),
        blocks=tuple(scribe.block(group, hits) for group in groups),
        best_rejected=_best_rejected(ranking, table, shown),
        problems=tuple(problems),
    )
    return Answer(recall, groups)


def _ground(wish: Wish, table: SegmentTable, allowed: NDArray[np.bool_]) -> Ground:
    return Ground(table, allowed, wish.settings.cross_sessions, wish.header_now_ms)


def _groups(wish: Wish, ranked: Iterable[int], ground: Ground) -> list[Group]:
    settings = wish.settings
    if wish.max_tokens is None:
        k, window = wish.k or 0, settings.window
        return take_blocks(ranked, ground, k, window=window, refill=settings.refill)
    return fill_budget(
        ranked, ground, wish.max_tokens, window=settings.budget_window, max_blocks=wish.k
    )


def _best_rejected(ranking: Ranking, table: SegmentTable, shown: set[int]) -> float | None:
    for number in ranking:
        if table.line_number(number) not in shown:
            return float(ranking.columns.relevance[ranking.row_of(number)])
    return None


class _Scribe:
    """Writes matches and blocks."""

    def __init__(
        self, wish: Wish, ranking: Ranking, table: SegmentTable, lexical: LexicalIndex
    ) -> None:
        self._wish = wish
        self._ranking = ranking
        self._table = table
        self._words: dict[str, Sequence[int]] = {}
        if wish.settings.lexical_weight:
            words = query_terms(wish.query, lexical, stop_words=wish.settings.stop_words)
            numbers_of = lexical.having(words)
            self._words = {words[term]: numbers for term, numbers in numbers_of.items()}
        self._spans: list[Span] = []
        if wish.now_ms is not None and wish.settings.date_bonus:
            self._spans = spans(wish.query, wish.now_ms)
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
            at = self._ranking.row_of(number)
            columns = self._ranking.columns
            self._written[number] = LineMatch(
                line=self._table.line(line),
                relevance=columns.relevance.item(at),
                similarity=columns.similarity.item(at),
                why=self._why(number, at),
            )
        return self._written[number]

    def _why(self, number: int, at: int) -> tuple[str, ...]:
        columns = self._ranking.columns
        words = self._shared_words(number)
        own = columns.own.item(at)
        from_neighbours = columns.smoothed.item(at) - own
        reasons = {
            "meaning": columns.meaning.item(at) >= _TELLING,
            f"words: {', '.join(words)}": bool(words),
            "speaker": columns.speaker.item(at) > 0,
            "date": self._was_said_then(number),
            "neighbours": from_neighbours > max(own, 0.0),
        }
        return tuple(reason for reason, holds in reasons.items() if holds)

    def _was_said_then(self, number: int) -> bool:
        time_ms = self._table.line_of(number).time_ms
        return any(since_ms <= time_ms < until_ms for since_ms, until_ms in self._spans)

    def _shared_words(self, number: int) -> list[str]:
        return [word for word, numbers in self._words.items() if stands_in(numbers, number)]

    def block(self, group: Group, hits: Ranking) -> RecalledBlock:
        """Return a group with its text and those of the hits that stand in it."""
        matches = self.matches(sorted(group.hits, key=hits.place_of))
        return RecalledBlock(
            lines=tuple(self._table.line(line) for line in group.lines),
            text=render(group, self._table, self._wish.header_now_ms),
            matches=tuple(matches),
            relevance=matches[0].relevance,
            similarity=matches[0].similarity,
        )
