"""From a query to a ranking of segments: standardise, add, smooth over neighbours, order. Pure.

Every segment in scope is scored, of however many: looking for candidates first takes longer than
working the formula out for all of them, and finds less. Columns of an owner's lines are long, and
what costs most is memory that is touched for the first time: each function makes as few new arrays
as it can, in single precision.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from langchain_convmem.recall.options import (
    RecallQuery,
    RecallSettings,
    find_named_speakers,
    find_spans,
    read_parts,
    read_person,
)
from langchain_convmem.recall.segments import SegmentTable, fold
from langchain_convmem.recall.vectors import SegmentVectors
from langchain_convmem.words.analysis import (
    extract_query_terms,
    find_kinds,
    select_telling_words,
)
from langchain_convmem.words.bm25 import LexicalIndex
from langchain_convmem.words.speech import Mark, is_asking_advice

if TYPE_CHECKING:
    from numpy.typing import NDArray


_T = TypeVar("_T", bound=np.generic)
_FIRST_LOOK = 256
_NEXT_LOOK = 8
# How many of the looked at stand in the sample that says how far to look.
_SAMPLED = 16
# More than what rounding adds to a cosine in single precision: each index sums in its own order,
# and in none of them may a cosine that equals the threshold surpass it.
_COSINE_ROUNDING = 1e-6
# Rounded to so many steps, so that lines of equal worth tie however their scores were summed.
_STEPS = 1e5
# Below this share of all, scoring the allowed ones alone saves more than gathering them costs.
_SMALL_SHARE = 0.25
# How sharply a line stops listening to its neighbours around `speaks_for_itself` words.
_STEEPNESS = 3
# From so much evidence on a line of the person who is meant has its bonus in full.
_SUPPORT = 2.0
# Where the answer may be with either side, each has so much of its bonus.
_SHARED = 0.5
# So much of it has a line that only asks or requests something.
_ASKING = 0.5
# What decides about the bonus of a line, by its marks.
_MARKS: tuple[Mark, ...] = ("states", "asks", "courtesy")
# A question that holds this share of the words of the present one asks it again.
_REPEATS = 0.75
# More than what the order of a sum adds to it.
_ROUNDING = 1e-9
# Where nothing else has so much evidence, they are better than nothing.
_SOMETHING_ELSE = 2.0
# Where nothing answers clearly: shares of the bonus, of words (up to so much) and of neighbours,
# and how much less a segment is worth for each factor of e that it is longer.
_VAGUE_BONUS = np.float32(0.65)
_VAGUE_WORDS = np.float32(0.3)
_MOST_OF_WORDS = np.float32(4.0)
_VAGUE_NEIGHBOURS = np.float32(0.5)
_VAGUE_LENGTH = np.float32(0.5)
# From this share of clear evidence on, more of it counts so much.
_NEARLY = 0.65
_NEARLY_CLEAR = np.float32(2.0)
_LEAST_LENGTH = np.float32(3.0)
# Evidence, in standard deviations, from where on one of so many segments answers clearly.
_CLEAR = 8.4
_MANY = 400
# Below every score that is one.
_MUTED = np.float32(1000.0)
# So many of the best segments are compared with the best one.
_LEADERS = 9
_FEW = 8
_BLOCK = 64
# They are about the same thing where so much comes together: the share of its evidence that they
# have (up to so large a one), that of its words of the question by a weight, and by another one the
# standard deviations (up to so many) that they are nearer to it than chance.
_SAME = 1.1
_SAME_WORDS = 0.5
_SAME_MEANING = 1 / 6
_NEAREST = 8.0
# What it adds that both say how many there are of what the question asks for: "28-hour contract",
# "32 hours a week".
_SAME_UNIT = 0.25
_COUNTED = re.compile(r"\d[\s-]?([^\W\d_]{2,})")
_WORD = re.compile(r"[^\W\d_]{2,}")
_UNIT_LETTERS = 4
# Evidence alone is not enough. Of a few segments one always stands out and another never
# does, so that they all have so large a share.
_MOST_EVIDENCE = 0.7
_NO_DEVIATION = 1e-6
_AHEAD = np.float32(1e-3)


def rank(
    query: RecallQuery,
    table: SegmentTable,
    vectors: SegmentVectors,
    lexical: LexicalIndex,
    *,
    vector: NDArray[np.float32] | None,
    allowed: NDArray[np.bool_],
) -> Ranking:
    """Return the allowed segments by relevance, best first; ties in ascending number.

    Args:
        query: What is asked, with the weights.
        table: The segments.
        vectors: Their vectors.
        lexical: Their terms.
        vector: The question's embedding, shape (dim,); None if it could not be embedded or need
            not be.
        allowed: Which segments may be recalled.
    """
    settings = query.settings
    terms = extract_query_terms(query.search_text, lexical, stop_words=settings.stop_words)
    muted = _find_muted(query.text, terms, table, lexical) if settings.skip_repeats else None
    scored, shown = None, allowed
    if np.count_nonzero(allowed) < _SMALL_SHARE * len(table):
        # With those around them, through which they are neighbours of each other.
        reach = len(settings.kernel) // 2
        scored = _add_neighbours(np.flatnonzero(allowed), table, reach)
        shown = allowed[scored]
    view = _make_view(query, table, lexical, shown, muted=muted, scored=scored)
    cosines = _compare(view, vector, vectors)
    columns = _score(view, _score_parts(view, cosines, list(terms)))
    if muted is not None and columns.evidence.max(initial=-np.inf) < _SOMETHING_ELSE:
        # Nothing else was said about it: an earlier asking is better than nothing.
        view = _make_view(query, table, lexical, shown, muted=None, scored=scored)
        columns = _score(view, _score_parts(view, cosines, list(terms)))
    rows = None if shown.all() else np.flatnonzero(shown)
    older = _lead_with_latest(view, columns, rows, vectors, list(terms))
    ranking = Ranking(columns, rows)
    ranking.older = older
    return ranking


# -- scored segments in order of relevance, put in order only as far as somebody reads ---------


@dataclass(frozen=True, slots=True)
class Columns:
    """Scores of segments, in ascending number; the columns have equal length.

    Attributes:
        numbers: Segment numbers.
        relevance: Final scores.
        similarity: Cosines; 0.0 without a vector.
        meaning: The cosine's standardised and weighted part of the score.
        words: The same for BM25.
        own: The score before neighbours, speaker and session were counted.
        smoothed: The score after the neighbours.
        speaker: The bonus for a named speaker, or for the person whom the question is about.
        evidence: What speaks for the segment itself: the smoothed score with what the question
            names; minus infinity for what says nothing, such as an earlier asking.
    """

    numbers: NDArray[np.int64]
    relevance: NDArray[np.float32]
    similarity: NDArray[np.float32]
    meaning: NDArray[np.float32]
    words: NDArray[np.float32]
    own: NDArray[np.float32]
    smoothed: NDArray[np.float32]
    speaker: NDArray[np.float32]
    evidence: NDArray[np.float32]


class Ranking:
    """Scored segments, best first; ties in ascending number.

    Iterating gives segment numbers, as often as wanted, and orders no more than it has to. The
    properties, one per column, order everything. Not thread-safe.
    """

    def __init__(
        self,
        columns: Columns,
        rows: NDArray[np.int64] | None = None,
        *,
        keys: NDArray[np.float32] | None = None,
    ) -> None:
        """Create the ranking of some rows of `columns` (ascending; None: of all).

        Args:
            columns: The scores.
            rows: Which of them rank.
            keys: By what they are put in order, where that is known from another ranking.
        """
        self.columns = columns
        """The scores themselves, in ascending number, rows that do not rank included."""
        self.older: frozenset[int] = frozenset()
        """Numbers of segments of which a later statement about the same thing ranks first."""
        self.loose: NDArray[np.bool_] | None = None
        """Which rows of `columns` are only loosely related to the question; None: none."""
        self._rows = rows
        if keys is None:
            # Ascending, and rounded, so that lines of equal worth tie.
            keys = columns.relevance * -_STEPS
            np.rint(keys, out=keys)
        self._keys: NDArray[np.float32] = keys
        # None: all, which saves gathering them.
        self._left = rows
        self._unread = len(self)
        self._last_key = -np.inf
        self._ordered: list[NDArray[np.int64]] = []
        # Their numbers, which one recall reads several times.
        self._listed: list[list[int]] = []

    @property
    def rows(self) -> NDArray[np.int64]:
        """Which rows of `columns` rank, ascending; do not write."""
        return np.arange(len(self)) if self._rows is None else self._rows

    def find_places(self, rows: Sequence[int]) -> Sequence[int] | NDArray[np.int64]:
        """Return where some rows of `columns` stand among those that rank."""
        return rows if self._rows is None else self._rows.searchsorted(rows)

    def __len__(self) -> int:
        """Return how many segments are ranked."""
        return len(self.columns.numbers if self._rows is None else self._rows)

    def __iter__(self) -> Iterator[int]:
        """Yield the segment numbers, best first."""
        done = 0
        while done < len(self._ordered) or self._unread:
            if done == len(self._ordered):
                self._look_further()
            if done == len(self._listed):
                self._listed.append(self.columns.numbers[self._ordered[done]].tolist())
            yield from self._listed[done]
            done += 1

    def _look_further(self) -> None:
        left, keys = self._left, self._keys
        if left is not None:
            keys = keys[left]
        if self._ordered:
            # What was put in order before is taken out only now: most answers end there.
            beyond = (keys > self._last_key).nonzero()[0]
            left, keys = beyond if left is None else left[beyond], keys[beyond]
            self._left = left
        count = _FIRST_LOOK * _NEXT_LOOK ** len(self._ordered)
        if count < len(keys):
            sample = keys[:: count // _SAMPLED]
            self._last_key = np.partition(sample, _SAMPLED - 1)[_SAMPLED - 1]
            near = (keys <= self._last_key).nonzero()[0]
            left, keys = near if left is None else left[near], keys[near]
        order = keys.argsort(kind="stable")
        self._ordered.append(order if left is None else left[order])
        self._unread -= len(order)

    def select_rows(self, column: NDArray[_T]) -> NDArray[_T]:
        """Return what a column as long as `columns` holds of the rows that rank; do not write."""
        return column if self._rows is None else column[self._rows]

    def gather(self, column: NDArray[_T]) -> NDArray[_T]:
        """Return what a column of all segments holds of those that rank; do not write."""
        numbers = self.columns.numbers
        if self._rows is None and len(numbers) == len(column):
            return column
        return column[self.select_rows(numbers)]

    def find_row(self, number: int) -> int:
        """Return the row of `columns` that a ranked segment has."""
        numbers = self.columns.numbers
        if number < len(numbers) and numbers[number] == number:
            return number
        return int(np.searchsorted(numbers, number))

    def spread(self, mask: NDArray[np.bool_], count: int) -> NDArray[np.bool_]:
        """Return a mask over `columns` as one over all segments, which are so many."""
        if len(mask) == count:
            return mask
        spread = np.zeros(count, dtype=np.bool_)
        spread[self.columns.numbers] = mask
        return spread

    def select_above(self, similarity: float) -> Ranking:
        """Return the ranking of the segments that are more similar to the question than that."""
        return self.select_where(self.columns.similarity[self.rows] > similarity + _COSINE_ROUNDING)

    def select_where(self, kept: NDArray[np.bool_]) -> Ranking:
        """Return the ranking of some of the rows, by a mask over `rows`."""
        rows = kept.nonzero()[0] if self._rows is None else self._rows[kept]
        ranking = Ranking(self.columns, rows, keys=self._keys)
        ranking.older, ranking.loose = self.older, self.loose
        if len(self._ordered) == 1:
            # What is in order here is so there.
            ranks = kept
            if self._rows is not None:
                ranks = np.zeros(len(self.columns.numbers), dtype=np.bool_)
                ranks[rows] = True
            first = self._ordered[0]
            ranking._ordered.append(first[ranks[first]])
            ranking._unread -= len(ranking._ordered[0])
            ranking._last_key = self._last_key
        return ranking


# -- scoring ------------------------------------------------------------------------------------


class _RankingView(NamedTuple):
    """What is scored, and what of it counts.

    Attributes:
        query: What is asked.
        settings: Weights and limits.
        table: Where the segments stand.
        lexical: Their terms.
        muted: Which of all segments say nothing themselves; None: all may.
        scored: Numbers of the segments that are scored, ascending, with all allowed ones; None: of
            all.
        at: Index of the scored ones in columns of all; a slice takes no copy.
        counted: Which of the scored ones may come back and say something; None: all.
        silent: Rows of the scored ones that are muted.
        passing: Those of them that may come back: they are passed on to what answers them.
    """

    query: RecallQuery
    settings: RecallSettings
    table: SegmentTable
    lexical: LexicalIndex
    muted: NDArray[np.bool_] | None
    scored: NDArray[np.int64] | None
    at: slice | NDArray[np.int64]
    counted: NDArray[np.bool_] | None
    silent: NDArray[np.int64] | None
    passing: NDArray[np.int64] | None


def _make_view(
    query: RecallQuery,
    table: SegmentTable,
    lexical: LexicalIndex,
    shown: NDArray[np.bool_],
    *,
    muted: NDArray[np.bool_] | None,
    scored: NDArray[np.int64] | None,
) -> _RankingView:
    """Return the view of the scored segments; `shown` is which of them may come back."""
    at = slice(None) if scored is None else scored
    counted, silent, passing = shown, None, None
    if muted is not None:
        counted = shown & ~muted[at]
        silent = muted[at].nonzero()[0]
        passing = silent[shown[silent]]
    # A mask that leaves nothing out would only be copied.
    some = None if counted.all() else counted
    return _RankingView(
        query, query.settings, table, lexical, muted, scored, at, some, silent, passing
    )


class _SegmentScores(NamedTuple):
    """What each segment scores on its own; columns of equal length.

    Segments out of scope count as average, so that they move nothing; so does, in its meaning, a
    segment without a vector. `kinds` is what is of the kinds that the question names; None where it
    names none that anything is of. `trust` is what the embedder knows of the texts, 0 to 1.
    """

    similarity: NDArray[np.float32]
    meaning: NDArray[np.float32]
    words: NDArray[np.float32]
    kinds: NDArray[np.float32] | None = None
    trust: float = 0.0

    @property
    def told(self) -> NDArray[np.float32]:
        """Meaning and kinds together: what may be told in other words; do not write."""
        return self.meaning if self.kinds is None else self.meaning + self.kinds


class _Cosines(NamedTuple):
    """What the question's vector says about the scored segments, muted or not.

    `similarity` is the cosine of each, `nearness` that less its share of the crowding around it,
    `present` which of them have a vector (None: all). `trust` is what the embedder knows of texts
    like the question, 0 to 1.
    """

    similarity: NDArray[np.float32]
    nearness: NDArray[np.float32]
    present: NDArray[np.bool_] | None
    trust: float


def _compare(
    view: _RankingView, vector: NDArray[np.float32] | None, vectors: SegmentVectors
) -> _Cosines | None:
    """Return the cosines of what is scored; None where the question has no vector."""
    settings = view.settings
    if vector is None or not vector.any():
        return None
    nearness = similarity = vectors.similarities(vector, view.scored)
    if settings.crowding:
        crowding = vectors.compute_crowding(view.table.line_column)[view.at]
        nearness = similarity - np.float32(settings.crowding) * crowding
    of_all = similarity if view.scored is None else None
    trust = vectors.trust(vector, of_all) if settings.doubt_embedder else 1.0
    present = vectors.present[view.at]
    return _Cosines(similarity, nearness, None if present.all() else present, trust)


def _score_parts(
    view: _RankingView, cosines: _Cosines | None, terms: Sequence[str]
) -> _SegmentScores:
    settings, counted = view.settings, view.counted
    if settings.lexical_weight:
        words = view.lexical.compute_scores(terms, k1=settings.k1, b=settings.b, ignored=view.muted)
    else:
        words = np.zeros(len(view.lexical))
    word_part = _standardize_words(view, words, settings.lexical_weight)
    kinds = find_kinds(view.query.search_text) if settings.kind_weight else {}
    kind_part: NDArray[np.float32] | None = None
    if kinds:
        scores = view.lexical.compute_kind_scores(kinds, ignored=view.muted)
        if scores.any():
            kind_part = _standardize_words(view, scores, settings.kind_weight)
    if cosines is None:
        nothing = np.zeros(len(word_part), dtype=np.float32)
        return _SegmentScores(nothing, nothing, word_part, kind_part)
    compared = cosines.present
    if compared is None or counted is None:
        compared = counted if compared is None else compared
    else:
        compared = compared & counted
    weight = settings.dense_weight * cosines.trust
    meaning = standardize(cosines.nearness, compared, weight, also=view.passing)
    return _SegmentScores(cosines.similarity, meaning, word_part, kind_part, cosines.trust)


def _standardize_words(
    view: _RankingView, scores: NDArray[np.float64], weight: float
) -> NDArray[np.float32]:
    """Return scores of all segments as deviations of those that are scored."""
    return standardize(
        scores[view.at],
        view.counted,
        weight,
        # Of a word that a single segment holds.
        least_deviation=view.settings.least_deviation * view.lexical.rarest,
        also=view.passing,
    )


def _add_neighbours(
    numbers: NDArray[np.int64], table: SegmentTable, reach: int
) -> NDArray[np.int64]:
    links = table.get_links()
    for _ in range(reach):
        numbers = np.unique(np.concatenate([numbers, links.before[numbers], links.after[numbers]]))
        numbers = numbers[numbers >= 0]
    return np.unique(numbers)


def _score(view: _RankingView, parts: _SegmentScores) -> Columns:
    query, table, settings, at = view.query, view.table, view.settings, view.at
    own = parts.told + parts.words
    starts = table.find_session_starts() if view.scored is None else None
    smoothed = _smooth(view, own, starts)
    speaker = _compute_speaker_bonus(query, table, at)
    evidence = smoothed.copy() if speaker is None else smoothed + speaker
    if settings.date_bonus and query.now_ms is not None:
        for since_ms, until_ms in find_spans(query.text, query.before, query.now_ms):
            said_then = table.select_allowed(since_ms=since_ms, until_ms=until_ms)[at]
            evidence[said_then.nonzero()[0]] += settings.date_bonus
    bonus = _compute_person_bonus(view)
    person = None if bonus is None else _weigh_by_evidence(bonus, evidence)
    if bonus is not None and settings.meaning_first and not _is_clear(view, evidence):
        relevance = _compute_vague_relevance(view, parts, smoothed, evidence, bonus)
    else:
        relevance = evidence if person is None else evidence + person
        relevance = relevance + _compute_session_prior(view, relevance, starts)
    if person is not None:
        speaker = person if speaker is None else speaker + person
    if speaker is None:
        speaker = np.zeros_like(evidence)
    if view.silent is not None:
        relevance[view.silent] -= _MUTED
        evidence[view.silent] = -np.inf
    numbers = np.arange(len(table)) if view.scored is None else view.scored
    return Columns(
        numbers,
        relevance,
        parts.similarity,
        parts.meaning,
        parts.words,
        own,
        smoothed,
        speaker,
        evidence,
    )


# -- neighbours --------------------------------------------------------------------------------


def _smooth(
    view: _RankingView, own: NDArray[np.float32], starts: NDArray[np.int64] | None
) -> NDArray[np.float32]:
    kernel = view.settings.kernel
    if len(kernel) == 1:
        alone: NDArray[np.float32] = own * np.float32(kernel[0])
        return alone
    table, half = view.table, view.settings.speaks_for_itself
    share = view.lexical.keep("share", half, lambda: _compute_shares(table, view.lexical, half))
    line = None if table.lines_are_whole else table.line_column[view.at]
    reception = Reception(line, share[view.at], view.settings.within_line)
    if starts is not None:
        return smooth_runs(own, starts, kernel, reception)
    links, scored = table.get_links(), view.scored
    before, after = links.before, links.after
    if scored is not None:
        before, after = _find_indices(scored, before[scored]), _find_indices(scored, after[scored])
    return smooth(own, before, after, kernel, reception)


def _compute_shares(table: SegmentTable, lexical: LexicalIndex, half: float) -> NDArray[np.float32]:
    """Return what share of its neighbours' scores each segment takes, by the words of its line."""
    words = lexical.lengths
    if not table.lines_are_whole:
        words = np.bincount(table.line_column, words).astype(np.int64)[table.line_column]
    # There are far fewer lengths than lines.
    lengths = np.arange(words.max(initial=0) + 1)
    share = 1.0 / (1.0 + np.power(lengths / half, _STEEPNESS))
    return share.astype(np.float32).take(words)


def _compute_session_prior(
    view: _RankingView, relevance: NDArray[np.float32], starts: NDArray[np.int64] | None
) -> NDArray[np.float32] | float:
    settings = view.settings
    if not settings.session_prior:
        return 0.0
    counted = view.counted
    in_scope = relevance if counted is None else np.where(counted, relevance, np.float32(0.0))
    if starts is None:
        sessions = view.table.session_column[view.at]
        prior = average_session_bests(in_scope, sessions, settings.session_best)
        prior *= settings.session_prior
        return prior
    bests, lengths = average_run_bests(in_scope, starts, settings.session_best)
    return np.repeat(bests * settings.session_prior, lengths)


def _find_indices(ascending: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where the numbers stand in ascending ones; -1 for those that do not."""
    at = np.minimum(np.searchsorted(ascending, numbers), len(ascending) - 1)
    return np.where(ascending[at] == numbers, at, -1)


# -- who is meant ------------------------------------------------------------------------------


def _compute_speaker_bonus(
    query: RecallQuery, table: SegmentTable, at: slice | NDArray[np.int64]
) -> NDArray[np.float32] | None:
    speakers = table.speakers
    named: list[int] = []
    if query.settings.speaker_bonus:
        # Where the question names nobody, whom what was said before names.
        parts = read_parts(query.text, query.before)
        named = next(filter(None, (find_named_speakers(part, speakers) for part in parts)), [])
    # A question that names every speaker prefers none.
    if not named or len(named) == len(speakers):
        return None
    bonus = np.zeros(len(speakers), dtype=np.float32)
    bonus[named] = query.settings.speaker_bonus
    preferred: NDArray[np.float32] = bonus.take(table.speaker_column[at])
    return preferred


def _compute_person_bonus(view: _RankingView) -> NDArray[np.float32] | None:
    """Return what lines gain at most from being said by the person whom the question is about.

    It grows with the evidence for a line: a bonus for lines that have nothing to do with the
    question would push aside what answers it from the other side.
    """
    settings, table = view.settings, view.table
    if not settings.person_bonus or len(table.roles) < 2:  # noqa: PLR2004 - user and assistant
        return None
    meant = read_person(view.query.text, view.query.before)
    about_user = meant.asker or (meant.subject_open and not meant.listener)
    if not about_user and not meant.listener:
        return None
    both = about_user and (meant.listener or is_asking_advice(view.query.text))
    share = np.float32(_SHARED if both else 1.0)
    kinds = view.lexical.keep("kinds", None, lambda: _classify_segments(table, view.lexical))
    worth = settings.person_bonus, settings.statement_bonus
    bonus = _compute_kind_bonus(*worth, about_user=about_user, about_listener=meant.listener)
    person: NDArray[np.float32] = (share * bonus).take(kinds[view.at])
    return person


def _weigh_by_evidence(
    bonus: NDArray[np.float32], evidence: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the bonus of lines as far as there is evidence for them."""
    person = evidence * np.float32(1.0 / _SUPPORT)
    np.maximum(person, np.float32(0.0), out=person)
    np.minimum(person, np.float32(1.0), out=person)
    person *= bonus
    return person


def _classify_segments(table: SegmentTable, lexical: LexicalIndex) -> NDArray[np.uint8]:
    """Return of each segment whether the user has said it and what it does, as bits."""
    kinds = table.select_role("user").astype(np.uint8)
    for bit, mark in enumerate(_MARKS, 1):
        kinds |= lexical.select_marked(mark).view(np.uint8) << bit
    return kinds


@lru_cache(maxsize=16)
def _compute_kind_bonus(
    of_person: float, of_statement: float, *, about_user: bool, about_listener: bool
) -> NDArray[np.float32]:
    """Return what a segment of each of the `_kinds` gains in full; do not write."""
    bonus = np.zeros(2 << len(_MARKS), dtype=np.float32)
    for kind in range(len(bonus)):
        is_user, states, asks, is_courtesy = (bool(kind >> bit & 1) for bit in range(4))
        if about_user and is_user and not is_courtesy:
            gain = of_person + of_statement if states else of_person
            # Who only asked something has said little about themselves.
            bonus[kind] = gain * _ASKING if asks else gain
        elif about_listener and not is_user:
            bonus[kind] = of_person
    return bonus


# -- where nothing answers ---------------------------------------------------------------------


def _is_clear(view: _RankingView, evidence: NDArray[np.float32]) -> bool:
    """Return whether a segment answers clearly; undecidable with few segments."""
    counted = evidence if view.counted is None else evidence[view.counted]
    return len(counted) <= _FEW or bool(counted.max() >= clear_evidence(len(counted)))


def clear_evidence(count: int) -> float:
    """Return from what evidence on the best of so many segments answers a question clearly."""
    return _CLEAR * scale_evidence(count)


def scale_evidence(count: int) -> float:
    """Return how much stands out by chance: the best of many does, as that of a few never can."""
    return math.log1p(count) / math.log1p(_MANY)


def _compute_vague_relevance(
    view: _RankingView,
    parts: _SegmentScores,
    smoothed: NDArray[np.float32],
    evidence: NDArray[np.float32],
    bonus: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Return what decides the order where nothing answers a question about the user clearly.

    Then no line holds the question's words as an answer would: that some do is mostly chance, so
    meaning decides, unless the evidence comes near to clear. Many lines are worth a look, so that a
    line has to be worth its length.
    """
    count = len(evidence) if view.counted is None else int(np.count_nonzero(view.counted))
    near_clear = np.float32(_NEARLY * clear_evidence(count))
    loss = view.lexical.keep("length loss", None, lambda: _compute_length_loss(view.lexical))
    # Each summand is worked out in the same place, which is still at hand then.
    relevance: NDArray[np.float32] = bonus * _VAGUE_BONUS
    told = parts.told
    relevance += told
    share = np.float32(1.0) - (np.float32(1.0) - _VAGUE_WORDS) * np.float32(parts.trust)
    more = np.minimum(parts.words, _MOST_OF_WORDS)
    more *= share
    relevance += more
    np.subtract(smoothed, told, out=more)
    more -= parts.words
    more *= _VAGUE_NEIGHBOURS
    relevance += more
    relevance += np.subtract(evidence, smoothed, out=more)
    np.subtract(evidence, near_clear, out=more)
    np.maximum(more, np.float32(0.0), out=more)
    more *= _NEARLY_CLEAR
    relevance += more
    relevance -= loss[view.at]
    return relevance


def _compute_length_loss(lexical: LexicalIndex) -> NDArray[np.float32]:
    """Return how much less each segment is worth for its length where nothing answers clearly."""
    loss: NDArray[np.float32] = np.log(lexical.lengths + _LEAST_LENGTH, dtype=np.float32)
    loss *= _VAGUE_LENGTH
    return loss


# -- what says nothing -------------------------------------------------------------------------


def _find_muted(
    text: str, terms: Mapping[str, str], table: SegmentTable, lexical: LexicalIndex
) -> NDArray[np.bool_] | None:
    """Return which segments only ask what is asked now, or answer that nothing is known.

    A reply that the question quotes is what it looks for.
    """
    saying_little = lexical.keep("little", None, lambda: _select_saying_little(table, lexical))
    repeating = _find_repeating(terms, lexical, saying_little)
    ignorant = lexical.keep("ignorant", None, lambda: _select_ignorant(table, lexical))
    if not repeating:
        return ignorant if ignorant.any() else None
    muted = ignorant.copy()
    words, quoted = select_telling_words(text), fold(text)
    for number in repeating:
        said = table.get_text(number)
        muted[number] = (
            fold(said) != quoted
            if ignorant[number]
            else _is_alike(words, select_telling_words(said))
        )
    return muted if muted.any() else None


def _select_saying_little(table: SegmentTable, lexical: LexicalIndex) -> NDArray[np.bool_]:
    """Return what may say nothing: what a user asks, and replies that know nothing."""
    asking = lexical.select_marked("asks") & ~table.select_role("assistant")
    return asking | _select_ignorant(table, lexical)


def _select_ignorant(table: SegmentTable, lexical: LexicalIndex) -> NDArray[np.bool_]:
    return lexical.select_marked("ignorant") & table.select_role("assistant")


def _find_repeating(
    terms: Mapping[str, str], lexical: LexicalIndex, among: NDArray[np.bool_]
) -> list[int]:
    """Return which of some segments hold most of what a question holds, each word by its rarity."""
    if not terms or not among.any():
        return []
    rarities = lexical.compute_rarities(terms)
    rarest = dict.fromkeys(terms.values(), 0.0)
    for term, rarity in rarities.items():
        rarest[terms[term]] = max(rarity, rarest[terms[term]])
    # A word that was never said is as rare as one can be.
    least = _REPEATS * sum(rarity or lexical.rarest for rarity in rarest.values())
    # Whoever holds so much holds one of the rarest terms, and few segments hold one of those.
    left, telling = sum(rarities.values()), list[str]()
    for term in sorted(rarities, key=rarities.__getitem__, reverse=True):
        if left < least - _ROUNDING:
            break
        telling.append(term)
        left -= rarities[term]
    having = lexical.find_documents(telling)
    holding = [np.array(having[term], dtype=np.intp) for term in telling]
    found = np.unique(np.concatenate([among.nonzero()[0][:0], *holding]))
    numbers: list[int] = found[among[found]].tolist()
    held_by = lexical.find_shared(list(rarities), numbers) if numbers else ()
    worth = list(rarities.values())
    return [
        number
        for number, held in zip(numbers, held_by, strict=True)
        if held and sum([worth[place] for place in held]) >= least
    ]


def _is_alike(words: Collection[str], others: Collection[str]) -> bool:
    """Return whether two questions are about the same words, most of them."""
    mine, theirs = ({word.casefold() for word in some} for some in (words, others))
    return 2 * len(mine & theirs) >= len(mine | theirs)


# -- the latest word ---------------------------------------------------------------------------


def _lead_with_latest(
    view: _RankingView,
    columns: Columns,
    rows: NDArray[np.int64] | None,
    vectors: SegmentVectors,
    terms: Sequence[str],
) -> frozenset[int]:
    """Let the latest of the statements about the same thing as the best one lead.

    Returns:
        The numbers of the older ones.
    """
    best = _select_best_rows(columns, rows) if view.settings.latest_first else []
    table, numbers = view.table, columns.numbers
    candidates = _select_comparable(view, columns, best)
    if not candidates:
        return frozenset()
    lead = best[0]
    numbers_of = [numbers.item(at) for at in (lead, *candidates)]
    sameness = _measure_sameness(view, numbers_of, vectors, terms)
    shares = _compute_evidence_shares(columns.evidence, lead, candidates)
    same = [
        at
        for at, share, more in zip(candidates, shares, sameness, strict=True)
        if share + more >= _SAME
    ]
    # What was written later counts as said later within the same millisecond.
    number_of = {at: numbers.item(at) for at in (lead, *same)}
    moments = {at: (table.time_column.item(n), n) for at, n in number_of.items()}
    latest = max(moments, key=moments.__getitem__)
    if latest != lead:
        columns.relevance[latest] = columns.relevance[lead] + _AHEAD
    return frozenset(number for at, (_, number) in moments.items() if at != latest)


def _select_comparable(view: _RankingView, columns: Columns, best: Sequence[int]) -> list[int]:
    """Return the rows, after the first, of other lines in which its speaker states something."""
    if not best:
        return []
    table, asks = view.table, view.lexical.select_marked("asks")
    number_of, speaker_of, line_of = (
        column.item for column in (columns.numbers, table.speaker_column, table.line_column)
    )
    lead = number_of(best[0])
    if asks.item(lead):
        return []
    speaker, line = speaker_of(lead), line_of(lead)
    found: list[int] = []
    # Of a few rows plain numbers take less time than arrays.
    for at in best[1:]:
        number = number_of(at)
        is_other = speaker_of(number) == speaker and line_of(number) != line
        if is_other and not asks.item(number) and columns.evidence.item(at) > -math.inf:
            found.append(at)
    return found


def _select_best_rows(columns: Columns, rows: NDArray[np.int64] | None) -> list[int]:
    """Return the rows of the few best segments, best first."""
    relevance = columns.relevance if rows is None else columns.relevance[rows]
    if len(relevance) > _LEADERS * _BLOCK:
        # So many blocks have a best one that is as good: most segments are in none of them.
        bests = np.maximum.reduceat(relevance, np.arange(0, len(relevance), _BLOCK))
        least = np.partition(bests, len(bests) - _LEADERS)[len(bests) - _LEADERS]
        near = (relevance >= least).nonzero()[0]
    else:
        near = np.arange(len(relevance))
    best = near[(-relevance[near]).argsort(kind="stable")[:_LEADERS]]
    found: list[int] = (best if rows is None else rows[best]).tolist()
    return found


def _compute_evidence_shares(
    evidence: NDArray[np.float32], lead: int, others: Sequence[int]
) -> list[float]:
    """Return what share of the first one's evidence other segments have."""
    if len(evidence) <= _FEW:
        return [_MOST_EVIDENCE] * len(others)
    most = float(evidence[lead])
    if most <= 0:
        return [-np.inf] * len(others)
    return [min(float(evidence[at]) / most, _MOST_EVIDENCE) for at in others]


def _measure_sameness(
    view: _RankingView, numbers: Sequence[int], vectors: SegmentVectors, terms: Sequence[str]
) -> list[float]:
    """Return how much words and meaning say that statements are about the same as the first one.

    Minus infinity for one that lacks a number of the question which the first one holds.
    """
    of_lead, *of_others = view.lexical.find_shared(terms, numbers)
    # Floor 3 is not floor 5: what the question numbers, it means.
    numbered = {place for place in of_lead if terms[place].isdigit()}
    rarity = view.lexical.compute_rarities([terms[place] for place in of_lead])
    total = sum(rarity.values())
    found: list[float] = []
    lead, *others = numbers
    units = _find_units(view.table.get_text(lead))
    units = units and units & _find_beginnings(view.query.text)
    nearness = _measure_nearness(vectors, numbers)
    for number, held, near in zip(others, of_others, nearness, strict=True):
        shared = sum(rarity[terms[place]] for place in of_lead if place in held)
        words = shared / total if total else 0.0
        is_same = numbered.issubset(held)
        # Of a few segments some are farther apart than chance: that says nothing against them.
        said = _SAME_WORDS * words + _SAME_MEANING * min(max(near, 0.0), _NEAREST)
        if units and not units.isdisjoint(_find_units(view.table.get_text(number))):
            said += _SAME_UNIT
        found.append(said if is_same else -np.inf)
    return found


def _find_units(text: str) -> frozenset[str]:
    """Return how the words behind numbers begin, so that hour and hours are the same."""
    return frozenset(word[:_UNIT_LETTERS].casefold() for word in _COUNTED.findall(text))


def _find_beginnings(text: str) -> frozenset[str]:
    """Return how the words of a text begin."""
    return frozenset(word[:_UNIT_LETTERS].casefold() for word in _WORD.findall(text))


def _measure_nearness(vectors: SegmentVectors, numbers: Sequence[int]) -> list[float]:
    """Return by how many standard deviations segments are nearer to the first one than chance."""
    rows = vectors.get_unit_rows(numbers)
    if not rows[0].any():
        return [0.0] * (len(numbers) - 1)
    lead, others = rows[0], rows[1:]
    chance = vectors.compare_sample(lead)
    mean = float(chance.sum()) / len(chance)
    chance -= mean
    deviation = math.sqrt(float(np.square(chance).sum()) / len(chance))
    near: list[float] = ((np.vecdot(others, lead) - mean) / max(deviation, _NO_DEVIATION)).tolist()
    return near


# -- how scores become one ranking: standardise, add, smooth over neighbours -------------------

# Cosines in single precision differ by less for no reason: equal lines are not to be told apart.
_NEGLIGIBLE = 1e-6


def standardize(
    scores: NDArray[np.floating[Any]],
    counted: NDArray[np.bool_] | None = None,
    weight: float = 1.0,
    *,
    least_deviation: float = 0.0,
    also: NDArray[np.int64] | None = None,
) -> NDArray[np.float32]:
    """Return scores as distances from the mean in standard deviations, times a weight.

    Args:
        scores: One per segment.
        counted: Segments that define mean and deviation; all others get 0, as do all if the
            counted ones are equal. None counts all.
        weight: Of all scores.
        least_deviation: What a smaller deviation is taken for, so that a few scores that differ
            from many equal ones do not become arbitrarily large.
        also: Places of those whose distance from that mean is returned too, though they are not
            counted.
    """
    # Of many a product takes less time than gathering those that count.
    some = scores if counted is None else scores * counted
    count = max(len(scores) if counted is None else int(np.count_nonzero(counted)), 1)
    mean = some.sum(dtype=np.float64) / count
    distances: NDArray[np.float32] = np.subtract(scores, mean, dtype=np.float32)
    passing = None if also is None else distances[also]
    if counted is not None:
        distances *= counted
    # Not `dot`: BLAS shares that out to threads and waits for the last of them.
    deviation = math.sqrt(np.square(distances).sum() / count)
    if deviation < _NEGLIGIBLE:
        return np.zeros(len(scores), dtype=np.float32)
    factor = np.float32(weight / max(deviation, least_deviation))
    distances *= factor
    if passing is not None:
        distances[also] = passing * factor
    return distances


@dataclass(frozen=True, slots=True)
class Reception:
    """How much of their neighbours' scores segments take; columns of equal length.

    A segment takes the less from other lines, the more its own line says: a short answer is found
    through the question before it, a long reply speaks for itself.

    Attributes:
        line: Number of each segment's line; None where each is a line of its own.
        share: Of what segments of other lines pass on, from 0 to 1.
        within: Of what other segments of the same line pass on, the same for all.
    """

    line: NDArray[np.int64] | None
    share: NDArray[np.float32]
    within: float

    def compute_weights(
        self, at: NDArray[np.int64] | slice, giving: NDArray[np.int64] | slice
    ) -> NDArray[np.float32]:
        """Return how much the segments `at` take of those at `giving`, pair by pair."""
        if self.line is None:
            return self.share[at]
        same = self.line[at] == self.line[giving]
        weights: NDArray[np.float32] = np.where(same, np.float32(self.within), self.share[at])
        return weights


def smooth(
    scores: NDArray[np.float32],
    before: NDArray[np.int64],
    after: NDArray[np.int64],
    kernel: Sequence[float],
    reception: Reception,
) -> NDArray[np.float32]:
    """Return each score plus its neighbours' scores by the kernel's weights.

    Args:
        scores: One per segment.
        before: Index of the segment before each one in its session, -1 for none.
        after: Index of the segment after each one, -1 for none.
        kernel: Odd number of weights; the middle one weighs the segment itself, the first the
            one farthest before. A missing neighbour counts 0, which is the mean of any
            standardized score.
        reception: How much each segment takes of its neighbours.
    """
    reach = len(kernel) // 2
    total: NDArray[np.float32] = kernel[reach] * scores
    every = np.arange(len(scores))
    for links, weights in ((before, kernel[:reach][::-1]), (after, kernel[reach + 1 :])):
        giving, takers = every, every
        for weight in weights:
            found = links[giving]
            takers, giving = takers[found >= 0], found[found >= 0]
            received = scores[giving] * reception.compute_weights(takers, giving)
            total[takers] += np.float32(weight) * received
    return total


def smooth_runs(
    scores: NDArray[np.float32],
    starts: NDArray[np.int64],
    kernel: Sequence[float],
    reception: Reception,
) -> NDArray[np.float32]:
    """Return what `smooth` does where neighbours stand side by side, without following links.

    Args:
        scores: One per segment.
        starts: Where each row of neighbours starts, ascending; the first one at 0.
        kernel: See `smooth`.
        reception: See `smooth`.
    """
    count, reach = len(scores), min(len(kernel) // 2, max(len(scores) - 1, 0))
    middle = len(kernel) // 2
    total: NDArray[np.float32] = kernel[middle] * scores
    ends = _find_ends(starts, count) - 1
    # Where nothing comes from within the row. A row that is shorter ends in the next one, which
    # is just as far from this one.
    first = [np.minimum(starts + step, count - 1) for step in range(reach)]
    last = [np.maximum(ends - step, 0) for step in range(reach)]
    received = np.empty_like(scores)
    for far in range(1, reach + 1):
        here, there = slice(far, None), slice(None, -far)
        np.multiply(scores[there], kernel[middle - far], out=received[here])
        received[here] *= reception.compute_weights(here, there)
        for numbers in first[:far]:
            received[numbers] = 0.0
        total += received
    for far in range(1, reach + 1):
        here, there = slice(None, -far), slice(far, None)
        np.multiply(scores[there], kernel[middle + far], out=received[here])
        received[here] *= reception.compute_weights(here, there)
        for numbers in last[:far]:
            received[numbers] = 0.0
        total += received
    return total


def _find_ends(starts: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return where the rows end that start there; the last one of all at `count`."""
    return np.concatenate((starts[1:], [count]))[: len(starts)]


def average_session_bests(
    scores: NDArray[np.float32], sessions: NDArray[np.int64], best: int
) -> NDArray[np.float32]:
    """Return for each score the mean of its session's `best` highest, negative ones as 0.

    Args:
        scores: One per segment.
        sessions: The session of each, numbered from 0.
        best: How many of a session's scores the mean takes.
    """
    if not len(scores):
        return scores
    # Segments of a session mostly stand together: what holds for a run is worked out once.
    borders = np.flatnonzero(sessions[1:] != sessions[:-1]) + 1
    limits = np.concatenate([[0], borders, [len(scores)]])
    starts, lengths = limits[:-1], limits[1:] - limits[:-1]
    session_of = sessions[starts]
    totals = np.zeros(int(session_of.max()) + 1, dtype=scores.dtype)
    left = scores.copy()
    for number in range(best):
        highest = np.zeros_like(totals)
        np.maximum.at(highest, session_of, np.maximum.reduceat(left, starts))
        totals += highest
        if number + 1 < best:
            # Only the first of equal scores is used up; what is written last to a place stays.
            at = np.flatnonzero(left == np.repeat(highest[session_of], lengths))[::-1]
            first = np.full(len(totals), -1)
            first[sessions[at]] = at
            left[first[first >= 0]] = -np.inf
    totals /= best
    result: NDArray[np.float32] = np.repeat(totals[session_of], lengths)
    return result


def average_run_bests(
    scores: NDArray[np.float32], starts: NDArray[np.int64], best: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the mean of each session's `best` highest scores, negative ones as 0, and its length.

    What `average_session_bests` finds where the segments of every session stand side by side.

    Args:
        scores: One per segment.
        starts: Where each session starts, ascending; the first one at 0.
        best: How many of a session's scores the mean takes.
    """
    lengths = _find_ends(starts, len(scores)) - starts
    totals = np.zeros(len(starts), dtype=scores.dtype)
    left = scores.copy()
    for number in range(best if len(starts) else 0):
        highest = np.maximum(np.maximum.reduceat(left, starts), 0.0)
        totals += highest
        if number + 1 < best:
            at = (left == np.repeat(highest, lengths)).nonzero()[0]
            if len(at) > np.count_nonzero(highest):
                # Only the first of equal scores is used up.
                at = at[np.unique(starts.searchsorted(at, side="right"), return_index=True)[1]]
            left[at] = -np.inf
    totals /= best
    return totals, lengths
