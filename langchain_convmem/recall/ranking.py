"""From a query to a ranking of segments: standardise, add, smooth over neighbours, order. Pure.

Every segment is scored, of however many: looking for candidates first takes longer than working the
formula out for all of them, and finds less.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from langchain_convmem.recall.options import (
    RecallQuery,
    RecallSettings,
    find_named_speakers,
    find_spans,
    read_parts,
    read_person,
)
from langchain_convmem.recall.segments import Links, SegmentTable, fold
from langchain_convmem.recall.vectors import SegmentVectors
from langchain_convmem.words.analysis import (
    extract_query_terms,
    find_kinds,
    select_telling_words,
)
from langchain_convmem.words.bm25 import LexicalIndex
from langchain_convmem.words.speech import Mark

if TYPE_CHECKING:
    from numpy.typing import NDArray


# More than what rounding adds to a cosine in single precision: each index sums in its own order,
# and in none of them may a cosine that equals the threshold surpass it.
_COSINE_ROUNDING = 1e-6
# Rounded to so many steps, so that lines of equal worth tie however their scores were summed.
_STEPS = 1e5
# From about so many words on, a line takes less of what lines around it score, and how sharply;
# long replies take nothing.
_SPEAKS_FOR_ITSELF = 60.0
_STEEPNESS = 3
WITHIN_LINE = np.float32(0.25)
"""Share that a segment takes of the other segments of its own line."""
# The smallest standard deviation that BM25 scores are divided by, as a share of the score of a word
# that a single line holds: such a word is worth no more, however few lines hold any word at all.
_LEAST_DEVIATION = 0.36
# Of what length takes from a BM25 score: lines of a dialog say about one thing each.
_LENGTH_SHARE = 0.3
# So many best scores of a session say how well it answers.
_SESSION_BEST = 3
# From so much evidence on a line of the person who is meant has its bonus in full.
_SUPPORT = 2.0
# Where the answer may be with either side, each has so much of its bonus.
_SHARED = 0.5
# So much less is the evidence for a user's line that asks and states nothing.
_ASKED = np.float32(3.0)
# So much of it has a line that only asks or requests something.
_ASKING = 0.5
# What decides about the bonus of a line, by its marks.
_MARKS: tuple[Mark, ...] = ("asks", "courtesy")
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
# A later statement may replace the leading one from this sum of standard deviations on, of its
# nearness to that and of a share of its nearness to the question, and leads from the next on, so
# many at most: the best of the usual number by chance comes nearly as far, of more further.
_MAY_REPLACE = 1.0
_REPLACES = 3.0
_MOST_LEADING = 5
_ASKED_SHARE = 0.5
_USUAL_COUNT = 150
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
    terms = extract_query_terms(query.search_text, lexical)
    muted = _find_muted(query.text, terms, table, lexical) if settings.skip_repeats else None
    similarity = np.zeros(len(table), dtype=np.float32)
    if vector is not None and vector.any():
        similarity = vectors.similarities(vector)
    view = _RankingView(query, settings, table, lexical, allowed, muted)
    columns = _score(view, _score_parts(view, similarity, vectors, list(terms)))
    if muted is not None and columns.evidence.max(initial=-np.inf) < _SOMETHING_ELSE:
        # Nothing else was said about it: an earlier asking is better than nothing.
        view = view._replace(muted=None)
        columns = _score(view, _score_parts(view, similarity, vectors, list(terms)))
    older = _lead_with_latest(view, columns, vectors, list(terms))
    later = _raise_successors(view, columns, vectors)
    return Ranking.from_columns(columns, allowed, older, later)


# -- scored segments in order of relevance --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Columns:
    """Scores by segment number; the columns have equal length.

    Attributes:
        relevance: Final scores.
        similarity: Cosines; 0.0 without a vector.
        meaning: The cosine's standardised and weighted part of the score.
        words: The same for BM25.
        own: The score before neighbours, speaker and session were counted.
        smoothed: The score after the neighbours.
        speaker: The bonus for a named speaker, or for the person whom the question is about.
        evidence: What speaks for the segment itself: the smoothed score with what the question
            names; minus infinity for what says nothing, such as an earlier asking, and for what
            may not be recalled.
    """

    relevance: NDArray[np.float32]
    similarity: NDArray[np.float32]
    meaning: NDArray[np.float32]
    words: NDArray[np.float32]
    own: NDArray[np.float32]
    smoothed: NDArray[np.float32]
    speaker: NDArray[np.float32]
    evidence: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """Segments in order of relevance, best first; ties in ascending number.

    Attributes:
        columns: The scores of all segments, those that do not rank included.
        ranked: Which segments rank.
        order: Their numbers, best first.
        older: Numbers of segments of which a later statement about the same thing ranks first.
        later: Numbers of statements that may replace the leading one.
        loose: Which segments are only loosely related to the question; None: none.
    """

    columns: Columns
    ranked: NDArray[np.bool_]
    order: NDArray[np.int64]
    older: frozenset[int] = frozenset()
    later: frozenset[int] = frozenset()
    loose: NDArray[np.bool_] | None = None

    @classmethod
    def from_columns(
        cls,
        columns: Columns,
        ranked: NDArray[np.bool_],
        older: frozenset[int] = frozenset(),
        later: frozenset[int] = frozenset(),
    ) -> Ranking:
        """Return segments in the order of their relevance, rounded, so that equal lines tie."""
        numbers = ranked.nonzero()[0]
        keys = np.rint(columns.relevance[numbers] * -_STEPS)
        return cls(columns, ranked, numbers[keys.argsort(kind="stable")], older, later)

    def __len__(self) -> int:
        """Return how many segments are ranked."""
        return len(self.order)

    def __iter__(self) -> Iterator[int]:
        """Yield the segment numbers, best first."""
        return iter(self.order.tolist())

    def select_above(self, similarity: float) -> Ranking:
        """Return the ranking of the segments that are more similar to the question than that."""
        return self.select_where(self.columns.similarity > similarity + _COSINE_ROUNDING)

    def reorder(self, numbers: Iterable[int]) -> Ranking:
        """Return the ranking of those of these segments that rank, in this order, each once."""
        order = np.array(list(dict.fromkeys(numbers)), dtype=np.int64)
        return replace(self, order=order[self.ranked[order]])

    def select_where(
        self, kept: NDArray[np.bool_], loose: NDArray[np.bool_] | None = None
    ) -> Ranking:
        """Return the ranking of some of the segments, by a mask over all."""
        loose = self.loose if loose is None else loose
        order = self.order[kept[self.order]]
        return replace(self, ranked=self.ranked & kept, order=order, loose=loose)


# -- scoring --------------------------------------------------------------------------------------


class _RankingView(NamedTuple):
    """What is scored, and what of it counts.

    Attributes:
        query: What is asked.
        settings: Weights and limits.
        table: The segments.
        lexical: Their terms.
        allowed: Which of them may come back.
        muted: Which say nothing themselves; None: all may.
    """

    query: RecallQuery
    settings: RecallSettings
    table: SegmentTable
    lexical: LexicalIndex
    allowed: NDArray[np.bool_]
    muted: NDArray[np.bool_] | None

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Which segments may come back and say something."""
        return self.allowed if self.muted is None else self.allowed & ~self.muted

    @property
    def is_two_sided(self) -> bool:
        """Whether a user and an assistant speak."""
        return len(self.table.roles) > 1

    @property
    def is_about_asker(self) -> bool:
        """Whether the question may be about the person who asks."""
        meant = read_person(self.query.text, self.query.before)
        return meant.asker or (meant.subject_open and not meant.listener)

    @property
    def passing(self) -> NDArray[np.int64] | None:
        """Those that say nothing, but pass their score on to what answers them."""
        return None if self.muted is None else (self.allowed & self.muted).nonzero()[0]


class _SegmentScores(NamedTuple):
    """What each segment scores on its own; columns of equal length.

    Segments out of scope count as average, so that they move nothing; so does, in its meaning, a
    segment without a vector. `kinds` is what is of the kinds that the question names; None where it
    names none that anything is of.
    """

    similarity: NDArray[np.float32]
    meaning: NDArray[np.float32]
    words: NDArray[np.float32]
    kinds: NDArray[np.float32] | None = None

    @property
    def told(self) -> NDArray[np.float32]:
        """Meaning and kinds together: what may be told in other words; do not write."""
        return self.meaning if self.kinds is None else self.meaning + self.kinds


def _score_parts(
    view: _RankingView,
    similarity: NDArray[np.float32],
    vectors: SegmentVectors,
    terms: Sequence[str],
) -> _SegmentScores:
    settings, lexical = view.settings, view.lexical
    words = np.zeros(len(lexical))
    if settings.lexical_weight:
        words = lexical.compute_scores(terms, b=_LENGTH_SHARE, ignored=view.muted)
    word_part = _standardize_words(view, words, settings.lexical_weight)
    kind_part: NDArray[np.float32] | None = None
    kinds = find_kinds(view.query.search_text) if settings.kind_weight else {}
    if kinds:
        scores = lexical.compute_kind_scores(kinds, ignored=view.muted)
        if scores.any():
            kind_part = _standardize_words(view, scores, settings.kind_weight)
    compared = view.counted & vectors.present
    meaning = standardize(similarity, compared, settings.dense_weight, also=view.passing)
    return _SegmentScores(similarity, meaning, word_part, kind_part)


def _standardize_words(
    view: _RankingView, scores: NDArray[np.float64], weight: float
) -> NDArray[np.float32]:
    """Return scores of all segments as deviations of those that count."""
    return standardize(
        scores,
        view.counted,
        weight,
        # Of a word that a single segment holds.
        least_deviation=_LEAST_DEVIATION * view.lexical.rarest,
        also=view.passing,
    )


def _score(view: _RankingView, parts: _SegmentScores) -> Columns:
    query, table, settings = view.query, view.table, view.settings
    own = parts.told + parts.words
    smoothed = _smooth(view, own)
    speaker = _compute_speaker_bonus(query, table)
    evidence = smoothed + speaker
    if settings.person_bonus and view.is_two_sided:
        evidence[view.lexical.select_marked("asks") & table.select_role("user")] -= _ASKED
    if settings.date_bonus and query.now_ms is not None:
        for since_ms, until_ms in find_spans(query.text, query.before, query.now_ms):
            said_then = table.select_allowed(since_ms=since_ms, until_ms=until_ms)
            evidence[said_then] += settings.date_bonus
    bonus = _compute_person_bonus(view)
    person = None if bonus is None else _weigh_by_evidence(bonus, evidence)
    if bonus is not None and settings.meaning_first and not _is_clear(view, evidence):
        relevance = _compute_vague_relevance(view, parts, smoothed, evidence, bonus)
    else:
        relevance = evidence.copy() if person is None else evidence + person
        if settings.session_prior:
            in_scope = np.where(view.counted, relevance, np.float32(0.0))
            prior = average_session_bests(in_scope, table.session_column, _SESSION_BEST)
            relevance += settings.session_prior * prior
    if person is not None:
        speaker = speaker + person
    if view.muted is not None:
        relevance[view.muted] -= _MUTED
        evidence[view.muted] = -np.inf
    evidence[~view.allowed] = -np.inf
    return Columns(
        relevance,
        parts.similarity,
        parts.meaning,
        parts.words,
        own,
        smoothed,
        speaker,
        evidence,
    )


# -- neighbours -----------------------------------------------------------------------------------


def _smooth(view: _RankingView, own: NDArray[np.float32]) -> NDArray[np.float32]:
    table, lexical, links = view.table, view.lexical, view.table.get_links()
    share = lexical.keep("share", None, lambda: _compute_shares(table, lexical))
    return smooth(own, links, view.settings.kernel, Reception(table.line_column, share))


def _compute_shares(table: SegmentTable, lexical: LexicalIndex) -> NDArray[np.float32]:
    """Return what share of its neighbours' scores each segment takes, by the words of its line."""
    lines = table.line_column
    words = np.bincount(lines, lexical.lengths)[lines] if len(lines) else lexical.lengths
    share = 1.0 / (1.0 + np.power(words / _SPEAKS_FOR_ITSELF, _STEEPNESS))
    return share.astype(np.float32)


# -- who is meant ------------------------------------------------------------------------------


def _compute_speaker_bonus(query: RecallQuery, table: SegmentTable) -> NDArray[np.float32]:
    speakers = table.speakers
    named: list[int] = []
    if query.settings.speaker_bonus:
        # Where the question names nobody, whom what was said before names.
        parts = read_parts(query.text, query.before)
        named = next(filter(None, (find_named_speakers(part, speakers) for part in parts)), [])
    # A question that names every speaker prefers none.
    bonus = np.zeros(len(speakers), dtype=np.float32)
    if len(named) < len(speakers):
        bonus[named] = query.settings.speaker_bonus
    preferred: NDArray[np.float32] = bonus.take(table.speaker_column)
    return preferred


def _compute_person_bonus(view: _RankingView) -> NDArray[np.float32] | None:
    """Return what lines gain at most from being said by the person whom the question is about.

    It grows with the evidence for a line: a bonus for lines that have nothing to do with the
    question would push aside what answers it from the other side.
    """
    settings, table = view.settings, view.table
    if not settings.person_bonus or not view.is_two_sided:
        return None
    meant = read_person(view.query.text, view.query.before)
    about_user = view.is_about_asker
    if not about_user and not meant.listener:
        return None
    share = np.float32(_SHARED if about_user and meant.listener else 1.0)
    kinds = view.lexical.keep("kinds", None, lambda: _classify_segments(table, view.lexical))
    bonus = _compute_kind_bonus(
        settings.person_bonus, about_user=about_user, about_listener=meant.listener
    )
    person: NDArray[np.float32] = (share * bonus).take(kinds)
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
    of_person: float, *, about_user: bool, about_listener: bool
) -> NDArray[np.float32]:
    """Return what a segment of each of the `_kinds` gains in full; do not write."""
    bonus = np.zeros(2 << len(_MARKS), dtype=np.float32)
    for kind in range(len(bonus)):
        is_user, asks, is_courtesy = (bool(kind >> bit & 1) for bit in range(3))
        if about_user and is_user and not is_courtesy:
            # Who only asked something has said little about themselves.
            bonus[kind] = of_person * _ASKING if asks else of_person
        elif about_listener and not is_user:
            bonus[kind] = of_person
    return bonus


# -- where nothing answers ---------------------------------------------------------------------


def _is_clear(view: _RankingView, evidence: NDArray[np.float32]) -> bool:
    """Return whether a segment answers clearly; undecidable with few segments."""
    count = int(np.count_nonzero(view.counted))
    best = evidence.max(initial=-np.inf, where=view.counted)
    return count <= _FEW or bool(best >= clear_evidence(count))


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
    count = int(np.count_nonzero(view.counted))
    near_clear = np.float32(_NEARLY * clear_evidence(count))
    told, words = parts.told, parts.words
    loss = view.lexical.keep("length loss", None, lambda: _compute_length_loss(view.lexical))
    relevance: NDArray[np.float32] = (
        told
        + bonus * _VAGUE_BONUS
        + np.minimum(words, _MOST_OF_WORDS) * _VAGUE_WORDS
        + (smoothed - told - words) * _VAGUE_NEIGHBOURS
        + (evidence - smoothed)
        + np.maximum(evidence - near_clear, np.float32(0.0)) * _NEARLY_CLEAR
        - loss
    )
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
    if not terms:
        return []
    rarities = lexical.compute_rarities(terms)
    rarest = dict.fromkeys(terms.values(), 0.0)
    for term, rarity in rarities.items():
        rarest[terms[term]] = max(rarity, rarest[terms[term]])
    # A word that was never said is as rare as one can be.
    least = _REPEATS * sum(rarity or lexical.rarest for rarity in rarest.values())
    held = np.zeros(len(lexical))
    for term, having in lexical.find_documents(rarities).items():
        held[having] += rarities[term]
    found: list[int] = (among & (held >= least - _ROUNDING)).nonzero()[0].tolist()
    return found


def _is_alike(words: Collection[str], others: Collection[str]) -> bool:
    """Return whether two questions are about the same words, most of them."""
    mine, theirs = ({word.casefold() for word in some} for some in (words, others))
    return 2 * len(mine & theirs) >= len(mine | theirs)


# -- the latest word ---------------------------------------------------------------------------


def _lead_with_latest(
    view: _RankingView, columns: Columns, vectors: SegmentVectors, terms: Sequence[str]
) -> frozenset[int]:
    """Let the latest of the statements about the same thing as the best one lead.

    Returns:
        The numbers of the older ones.
    """
    if not view.settings.latest_first:
        return frozenset()
    lead, *others = _select_best(columns, view.allowed) or (-1,)
    candidates = _select_comparable(view, columns, lead, others)
    if not candidates:
        return frozenset()
    sameness = _measure_sameness(view, [lead, *candidates], vectors, terms)
    count = int(np.count_nonzero(view.allowed))
    shares = _compute_evidence_shares(columns.evidence, count, lead, candidates)
    same = [
        number
        for number, share, more in zip(candidates, shares, sameness, strict=True)
        if share + more >= _SAME
    ]
    # What was written later counts as said later within the same millisecond.
    moments = {number: (view.table.time_column.item(number), number) for number in (lead, *same)}
    latest = max(moments, key=moments.__getitem__)
    if latest != lead:
        columns.relevance[latest] = columns.relevance[lead] + _AHEAD
    return frozenset(moments.keys() - {latest})


def _raise_successors(
    view: _RankingView, columns: Columns, vectors: SegmentVectors
) -> frozenset[int]:
    """Let what the user said later about the leading statement come before it.

    Who tells months later what has changed uses other words than the question, and is often nearer
    to what was so before. What comes out near enough to it leads; what may be meant, is not lost.

    Returns:
        The numbers of the statements that may replace the leading one.
    """
    if not (view.settings.latest_first and view.is_two_sided and view.is_about_asker):
        return frozenset()
    stated = view.counted & view.table.select_role("user") & ~view.lexical.select_marked("asks")
    stated &= vectors.present
    count = int(np.count_nonzero(stated))
    if count <= _FEW:
        return frozenset()
    lead = int(np.where(stated, columns.relevance, -np.inf).argmax())
    nearness = vectors.similarities(vectors.get_unit_rows([lead])[0])
    score = standardize(nearness, stated) + standardize(columns.similarity, stated, _ASKED_SHARE)
    scale = max(math.log(count) / math.log(_USUAL_COUNT), 1.0) ** 2
    times, lines = view.table.time_column, view.table.line_column
    later = stated & (times > times[lead]) & (lines != lines[lead])
    later &= (nearness > columns.similarity) & (score >= _MAY_REPLACE * scale)
    found: list[int] = later.nonzero()[0].tolist()
    leading = sorted(found, key=lambda number: -score[number])[:_MOST_LEADING]
    for place, number in enumerate(leading, 1):
        if score[number] >= _REPLACES * scale:
            ahead = np.float32((_MOST_LEADING + 1 - place) * _AHEAD)
            columns.relevance[number] = columns.relevance[lead] + ahead
    return frozenset(found)


def _select_comparable(
    view: _RankingView, columns: Columns, lead: int, others: Sequence[int]
) -> list[int]:
    """Return those of the others in which the speaker of the first states something elsewhere."""
    table, asks = view.table, view.lexical.select_marked("asks")
    if not others or asks.item(lead):
        return []
    speakers, lines = table.speaker_column, table.line_column
    return [
        number
        for number in others
        if speakers.item(number) == speakers.item(lead)
        and lines.item(number) != lines.item(lead)
        and not asks.item(number)
        and columns.evidence.item(number) > -math.inf
    ]


def _select_best(columns: Columns, allowed: NDArray[np.bool_]) -> list[int]:
    """Return the few best segments, best first."""
    numbers = allowed.nonzero()[0]
    relevance = columns.relevance[numbers]
    if len(numbers) > _LEADERS:
        least = np.partition(relevance, len(numbers) - _LEADERS)[len(numbers) - _LEADERS]
        numbers = numbers[relevance >= least]
    found: list[int] = numbers[(-columns.relevance[numbers]).argsort(kind="stable")].tolist()
    return found[:_LEADERS]


def _compute_evidence_shares(
    evidence: NDArray[np.float32], count: int, lead: int, others: Sequence[int]
) -> list[float]:
    """Return what share of the first one's evidence others of so many segments have."""
    if count <= _FEW:
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


class Reception(NamedTuple):
    """How much of their neighbours' scores segments take; columns of equal length.

    A segment takes the less from other lines, the more its own line says: a short answer is found
    through the question before it, a long reply speaks for itself.

    Attributes:
        line: Number of each segment's line.
        share: Of what segments of other lines pass on, from 0 to 1. Of what other segments of the
            same line pass on, all take `WITHIN_LINE`.
    """

    line: NDArray[np.int64]
    share: NDArray[np.float32]


def smooth(
    scores: NDArray[np.float32],
    links: Links,
    kernel: Sequence[float],
    reception: Reception,
) -> NDArray[np.float32]:
    """Return each score plus its neighbours' scores by the kernel's weights.

    Args:
        scores: One per segment.
        links: The segments before and after each one in its session.
        kernel: Odd number of weights; the middle one weighs the segment itself, the first the
            one farthest before. A missing neighbour counts 0, which is the mean of any
            standardized score.
        reception: How much each segment takes of its neighbours.
    """
    reach, line = len(kernel) // 2, reception.line
    total: NDArray[np.float32] = kernel[reach] * scores
    for side, weights in ((links.before, kernel[:reach][::-1]), (links.after, kernel[reach + 1 :])):
        takers = giving = np.arange(len(scores))
        for weight in weights:
            found = side[giving]
            takers, giving = takers[found >= 0], found[found >= 0]
            share = np.where(line[takers] == line[giving], WITHIN_LINE, reception.share[takers])
            total[takers] += np.float32(weight) * scores[giving] * share
    return total


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
    # In order of session, and within one the highest first.
    order = np.lexsort((-scores, sessions))
    ordered = sessions[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    highest = np.maximum(scores[order], 0) * (rank < best)
    totals = np.bincount(ordered, highest)
    result: NDArray[np.float32] = (totals[sessions] / best).astype(np.float32)
    return result
