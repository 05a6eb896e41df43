"""From a ranking to the values that a recall returns. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from langchain_convmem.recall.blocks import (
    Ground,
    Group,
    Passage,
    fill_budget,
    render,
    take_blocks,
    whole,
)
from langchain_convmem.recall.calibration import highest_coverage, related
from langchain_convmem.recall.indexes.segment_table import SegmentTable
from langchain_convmem.recall.query import find_spans, search_text
from langchain_convmem.recall.ranked import Ranking
from langchain_convmem.recall.settings import RecallSettings
from langchain_convmem.recall.words.analysis import query_terms
from langchain_convmem.recall.words.courtesies import is_courtesy
from langchain_convmem.recall.words.dates import Span
from langchain_convmem.recall.words.lexical import LexicalIndex
from langchain_convmem.recall.words.speech import statements
from langchain_convmem.records import DialogLine, LineMatch, Recall, RecalledBlock, Verdict

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Answer", "Wish", "build_recall", "hits_of"]

# A part this many standard deviations above the mean is worth naming as a reason.
_TELLING = 1.0
# A segment up to so many characters is shown whole.
_SHORT = 120
# A line answers that holds this share of what is asked about, and comes so near to the evidence for
# the best one. `python -m benchmarks.personal` counts verdicts by kind of question.
_ANSWERING = 0.66
_NEAR_BEST = 0.8


@dataclass(frozen=True, slots=True)
class Wish:
    """What a caller wants back.

    Attributes:
        query: The question.
        k: So many blocks; None for as many as fit.
        max_tokens: Budget of all blocks together; None for none.
        threshold: Cosine similarity that a hit must surpass; None lets every line be one, "auto"
            too, but none where the question is not related to anything.
        ranking: How many matches to report.
        settings: Windows and weights.
        now_ms: When it is asked, milliseconds since the epoch; None knows no dates.
        before: What was said just before, where the question borrows from it; else None.
    """

    query: str
    k: int | None
    max_tokens: int | None
    threshold: float | Literal["auto"] | None
    ranking: int
    settings: RecallSettings
    now_ms: int | None = None
    before: str | None = None

    @property
    def search_text(self) -> str:
        """What is searched for."""
        return search_text(self.query, self.before)

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
        kept, loose = related(wish.query, ranking, table, lexical, allowed, before=wish.before)
        hits = ranking.having(kept)
        hits.loose = loose
        return hits
    return ranking if wish.threshold is None else ranking.above(wish.threshold)


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
        wish: How much, and above what similarity.
        ranking: Segments, best first.
        table: Where they stand.
        lexical: Their terms.
        allowed: Which segments may come back at all, also as the surroundings of a hit.
        hits: Those of the ranking that may be hits, in their own order; None is `hits_of`.
        problems: To report.
    """
    if hits is None:
        hits = hits_of(wish, ranking, table, lexical, allowed)
    ground = _ground(wish, hits, table, allowed)
    groups = _groups(wish, hits, ground)
    best = _best_of_lines(hits, table, wish.ranking)
    own_hits = [_best_of_lines(group.hits, table) for group in groups]
    written = _Scribe(wish, ranking, table, lexical).matches(dict.fromkeys(chain(best, *own_hits)))
    shown = {line for group in groups for line in group.lines}
    recall = Recall(
        matches=tuple(written[number] for number in best),
        blocks=tuple(
            _block(group, [written[number] for number in numbers], ground)
            for group, numbers in zip(groups, own_hits, strict=True)
        ),
        best_rejected=_best_rejected(ranking, table, shown),
        problems=tuple(problems),
        verdict=_judge(wish, groups, ranking, table, lexical, allowed=allowed),
    )
    return Answer(recall, groups)


def _judge(
    wish: Wish,
    groups: Sequence[Group],
    ranking: Ranking,
    table: SegmentTable,
    lexical: LexicalIndex,
    *,
    allowed: NDArray[np.bool_],
) -> Verdict:
    """Return whether what is shown holds what is asked; neither thanks nor askings do."""
    if not groups:
        return "nothing"
    hits = np.array([number for group in groups for number in group.hits], dtype=np.int64)
    evidence = ranking.columns.evidence[ranking.columns.numbers.searchsorted(hits)]
    best = float(evidence.max())
    near = hits[evidence >= best - (1 - _NEAR_BEST) * abs(best)].tolist()
    asks, ignorant = lexical.marked("asks"), lexical.marked("ignorant")
    saying = [number for number in near if not (asks[number] or ignorant[number])]
    if is_courtesy(wish.query):
        return "related"
    coverage = highest_coverage(wish.search_text, saying, table, lexical, allowed)
    return "answered" if coverage >= _ANSWERING else "related"


def _ground(wish: Wish, hits: Ranking, table: SegmentTable, allowed: NDArray[np.bool_]) -> Ground:
    settings = wish.settings
    return Ground(
        table,
        allowed,
        settings.cross_sessions,
        wish.header_now_ms,
        hits.older,
        _passages(hits, table) if settings.passages else whole,
    )


def _passages(hits: Ranking, table: SegmentTable) -> Callable[[int], Passage | None]:
    """Return what of a segment is worth its room: of a loosely related one, what it states."""
    if hits.loose is None:
        return whole
    by_user = table.of_role("user")

    def passage(number: int) -> Passage | None:
        if not (by_user.item(number) and hits.is_loose(number)):
            return None
        text = table.text(number)
        # What is shown whole need not be read.
        return _stated(text) if len(text) > _SHORT else None

    return passage


@lru_cache(maxsize=4096)
def _stated(text: str) -> Passage | None:
    # Kept, since what somebody told of themselves is loosely related to many a question.
    return tuple(statements(text)) or None


def _groups(wish: Wish, ranked: Iterable[int], ground: Ground) -> list[Group]:
    settings = wish.settings
    if settings.skip_repeats:
        ranked = _said_once(ranked, ground.table, again=wish.max_tokens is None)
    if wish.max_tokens is None:
        k, window = wish.k or 0, settings.window
        return take_blocks(ranked, ground, k, window=window, refill=settings.refill)
    return fill_budget(
        ranked, ground, wish.max_tokens, window=settings.budget_window, max_blocks=wish.k
    )


def _said_once(numbers: Iterable[int], table: SegmentTable, *, again: bool) -> Iterator[int]:
    """Yield segments in order, of those that say the same only the first.

    Args:
        numbers: Segments, best first.
        table: What they say.
        again: Whether the others follow in the end: of a number of blocks none may be missing.
    """
    first_of: dict[int, int] = {}
    repeated: list[int] = []
    folded = table.folded_hash
    for number in numbers:
        first = first_of.setdefault(folded(number), number)
        if first == number or not table.says_same(first, number):
            yield number
        else:
            repeated.append(number)
    if again:
        yield from repeated


def _best_rejected(ranking: Ranking, table: SegmentTable, shown: set[int]) -> float | None:
    for number in ranking:
        if table.line_number(number) not in shown:
            return float(ranking.columns.relevance[ranking.row_of(number)])
    return None


def _best_of_lines(
    numbers: Iterable[int], table: SegmentTable, most: int | None = None
) -> list[int]:
    """Return the first segment of each of so many lines, in the given order."""
    best: dict[int, int] = {}
    for number in numbers:
        if len(best) == most:
            break
        best.setdefault(table.line_number(number), number)
    return list(best.values())


def _block(group: Group, matches: Sequence[LineMatch], ground: Ground) -> RecalledBlock:
    """Return a group with its text and those of the hits that stand in it, best first."""
    table = ground.table
    return RecalledBlock(
        lines=tuple([table.line(number) for number in group.lines]),
        text=render(group, table, ground.now_ms, ground.older),
        matches=tuple(matches),
        relevance=matches[0].relevance,
        similarity=matches[0].similarity,
    )


class _Scribe:
    """Writes matches."""

    def __init__(
        self, wish: Wish, ranking: Ranking, table: SegmentTable, lexical: LexicalIndex
    ) -> None:
        self._columns = ranking.columns
        self._table = table
        self._lexical = lexical
        self._term_of: dict[str, str] = {}
        if wish.settings.lexical_weight:
            words = query_terms(wish.search_text, lexical, stop_words=wish.settings.stop_words)
            self._term_of = {words[term]: term for term in lexical.having(words)}
        self._spans: list[Span] = []
        if wish.now_ms is not None and wish.settings.date_bonus:
            self._spans = find_spans(wish.query, wish.before, wish.now_ms)

    def matches(self, numbers: Collection[int]) -> dict[int, LineMatch]:
        """Return the match of each segment; all at once take hardly longer than one."""
        columns = self._columns
        at = columns.numbers.searchsorted(list(numbers))
        # Of a few rows plain numbers take less time than arrays.
        relevance, similarity, meaning, speaker, own, smoothed = (
            column.take(at).tolist()
            for column in (
                columns.relevance,
                columns.similarity,
                columns.meaning,
                columns.speaker,
                columns.own,
                columns.smoothed,
            )
        )
        words = list(self._term_of)
        places = self._lexical.shared(list(self._term_of.values()), list(numbers))
        found: dict[int, LineMatch] = {}
        for row, number in enumerate(numbers):
            line = self._table.line_of(number)
            reasons = ["meaning"] if meaning[row] >= _TELLING else []
            if places[row]:
                reasons.append(f"words: {', '.join([words[place] for place in places[row]])}")
            if speaker[row] > 0:
                reasons.append("speaker")
            if self._was_said_then(line):
                reasons.append("date")
            if smoothed[row] - own[row] > max(own[row], 0.0):
                reasons.append("neighbours")
            found[number] = LineMatch(line, relevance[row], similarity[row], tuple(reasons))
        return found

    def _was_said_then(self, line: DialogLine) -> bool:
        for since_ms, until_ms in self._spans:  # noqa: SIM110 - `any` takes a generator: time
            if since_ms <= line.time_ms < until_ms:
                return True
        return False
