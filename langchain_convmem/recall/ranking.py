"""From a question to a ranking of segments. Pure but for reading the owner's indexes.

Every segment in scope is scored, of however many: looking for candidates first takes longer than
working the formula out for all of them, and finds less.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from langchain_convmem.recall.calibration import clear_evidence
from langchain_convmem.recall.question import (
    find_spans,
    named_speakers,
    read_parts,
    read_person,
    search_text,
)
from langchain_convmem.recall.scores import (
    Columns,
    Ranking,
    Reception,
    bests_of_runs,
    session_bests,
    smooth,
    smooth_runs,
    standardized,
)
from langchain_convmem.recall.segments import SegmentTable
from langchain_convmem.recall.settings import RecallSettings
from langchain_convmem.recall.vectors import SegmentVectors
from langchain_convmem.words.analysis import query_terms, telling_words
from langchain_convmem.words.bm25 import LexicalIndex
from langchain_convmem.words.speech import Mark, asks_advice

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Question", "Ranking", "rank"]

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
# Evidence alone is not enough. Of a few segments one always stands out and another always stays
# behind, so that they all have so large a share.
_MOST_EVIDENCE = 0.7
_NO_DEVIATION = 1e-6
_AHEAD = np.float32(1e-3)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of an owner's segments.

    Attributes:
        text: The question.
        vector: Its embedding, shape (dim,); None if it could not be embedded or need not be.
        allowed: Which segments may be recalled.
        now_ms: When it is asked, milliseconds since the epoch; None names no times.
        before: What was said just before, from which a short follow-up borrows.
    """

    text: str
    vector: NDArray[np.float32] | None
    allowed: NDArray[np.bool_]
    now_ms: int | None = None
    before: str | None = None

    @property
    def search_text(self) -> str:
        """What is searched for."""
        return search_text(self.text, self.before)


# -- scoring ---------------------------------------------------------------------------------


def rank(
    question: Question,
    table: SegmentTable,
    vectors: SegmentVectors,
    lexical: LexicalIndex,
    settings: RecallSettings,
) -> Ranking:
    """Return the allowed segments by relevance, best first; ties in ascending number."""
    terms = query_terms(question.search_text, lexical, stop_words=settings.stop_words)
    muted = _muted(question.text, terms, table, lexical) if settings.skip_repeats else None
    scored, shown = None, question.allowed
    if np.count_nonzero(question.allowed) < _SMALL_SHARE * len(table):
        # With those around them, through which they are neighbours of each other.
        reach = len(settings.kernel) // 2
        scored = _with_neighbours(np.flatnonzero(question.allowed), table, reach)
        shown = question.allowed[scored]
    view = _view(question, table, lexical, settings, muted=muted, scored=scored)
    cosines = _compare(view, vectors)
    columns = _score(view, _parts(view, cosines, list(terms)))
    if muted is not None and columns.evidence.max(initial=-np.inf) < _SOMETHING_ELSE:
        # Nothing else was said about it: an earlier asking is better than nothing.
        view = _view(question, table, lexical, settings, muted=None, scored=scored)
        columns = _score(view, _parts(view, cosines, list(terms)))
    rows = None if shown.all() else np.flatnonzero(shown)
    older = _lead_with_latest(view, columns, rows, vectors, list(terms))
    ranking = Ranking(columns, rows)
    ranking.older = older
    return ranking


class _View(NamedTuple):
    """What is scored, and what of it counts.

    Attributes:
        question: What is asked.
        table: Where the segments stand.
        lexical: Their terms.
        settings: Weights and limits.
        muted: Which of all segments say nothing themselves; None: all may.
        scored: Numbers of the segments that are scored, ascending, with all allowed ones; None: of
            all.
        counted: Which of the scored ones may come back and say something; None: all.
        silent: Rows of the scored ones that are muted.
        passing: Those of them that may come back: they are passed on to what answers them.
    """

    question: Question
    table: SegmentTable
    lexical: LexicalIndex
    settings: RecallSettings
    muted: NDArray[np.bool_] | None
    scored: NDArray[np.int64] | None
    counted: NDArray[np.bool_] | None
    silent: NDArray[np.int64] | None
    passing: NDArray[np.int64] | None

    @property
    def at(self) -> slice | NDArray[np.int64]:
        """Index of the scored segments in columns of all; a slice takes no copy."""
        return slice(None) if self.scored is None else self.scored


def _view(
    question: Question,
    table: SegmentTable,
    lexical: LexicalIndex,
    settings: RecallSettings,
    *,
    muted: NDArray[np.bool_] | None,
    scored: NDArray[np.int64] | None,
) -> _View:
    at = slice(None) if scored is None else scored
    allowed = question.allowed[at]
    counted, silent, passing = allowed, None, None
    if muted is not None:
        counted = allowed & ~muted[at]
        silent = muted[at].nonzero()[0]
        passing = silent[allowed[silent]]
    return _View(question, table, lexical, settings, muted, scored, _some(counted), silent, passing)


class _Parts(NamedTuple):
    """What each segment scores on its own; columns of equal length.

    Segments out of scope count as average, so that they move nothing; so does, in its meaning, a
    segment without a vector. `trust` is what the embedder knows of the texts, 0 to 1.
    """

    similarity: NDArray[np.float32]
    meaning: NDArray[np.float32]
    words: NDArray[np.float32]
    trust: float = 0.0


def _word_scores(view: _View, terms: Sequence[str]) -> NDArray[np.float64]:
    settings = view.settings
    if not settings.lexical_weight:
        return np.zeros(len(view.lexical))
    return view.lexical.scores(terms, k1=settings.k1, b=settings.b, ignored=view.muted)


class _Cosines(NamedTuple):
    """What the question's vector tells of the segments that are scored, muted or not.

    `similarity` is the cosine of each, `nearness` that less its share of the crowding around it,
    `present` which of them have a vector (None: all). `trust` is what the embedder knows of texts
    like the question, 0 to 1.
    """

    similarity: NDArray[np.float32]
    nearness: NDArray[np.float32]
    present: NDArray[np.bool_] | None
    trust: float


def _compare(view: _View, vectors: SegmentVectors) -> _Cosines | None:
    """Return the cosines of what is scored; None where the question has no vector."""
    vector, settings = view.question.vector, view.settings
    if vector is None or not vector.any():
        return None
    nearness = similarity = vectors.similarities(vector, view.scored)
    if settings.crowding:
        crowding = vectors.crowding(view.table.line_column)[view.at]
        nearness = similarity - np.float32(settings.crowding) * crowding
    trust = vectors.trust(vector) if settings.doubt_embedder else 1.0
    return _Cosines(similarity, nearness, _some(vectors.present[view.at]), trust)


def _parts(view: _View, cosines: _Cosines | None, terms: Sequence[str]) -> _Parts:
    settings, counted = view.settings, view.counted
    word_part = standardized(
        _word_scores(view, terms)[view.at],
        counted,
        settings.lexical_weight,
        # Of a word that a single segment holds.
        least_deviation=settings.least_deviation * view.lexical.rarest,
        also=view.passing,
    )
    if cosines is None:
        nothing = np.zeros(len(word_part), dtype=np.float32)
        return _Parts(nothing, nothing, word_part)
    compared = cosines.present
    if compared is None or counted is None:
        compared = counted if compared is None else compared
    else:
        compared = compared & counted
    weight = settings.dense_weight * cosines.trust
    meaning = standardized(cosines.nearness, compared, weight, also=view.passing)
    return _Parts(cosines.similarity, meaning, word_part, cosines.trust)


def _some(mask: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
    """Return the mask, or None where it leaves nothing out, which saves copies."""
    return None if mask.all() else mask


def _with_neighbours(
    numbers: NDArray[np.int64], table: SegmentTable, reach: int
) -> NDArray[np.int64]:
    links = table.links()
    for _ in range(reach):
        numbers = np.unique(np.concatenate([numbers, links.before[numbers], links.behind[numbers]]))
        numbers = numbers[numbers >= 0]
    return np.unique(numbers)


def _score(view: _View, parts: _Parts) -> Columns:
    question, table, settings, at = view.question, view.table, view.settings, view.at
    own = parts.meaning + parts.words
    starts = table.starts() if view.scored is None else None
    smoothed = _smoothed(view, own, starts)
    speaker = _speaker_bonus(question, table, at, settings)
    evidence = smoothed + speaker
    if settings.date_bonus and question.now_ms is not None:
        for since_ms, until_ms in find_spans(question.text, question.before, question.now_ms):
            said_then = table.allowed(since_ms=since_ms, until_ms=until_ms)[at]
            evidence[said_then.nonzero()[0]] += settings.date_bonus
    bonus = _person_bonus(view)
    person = None if bonus is None else bonus * np.clip(evidence / _SUPPORT, 0.0, 1.0)
    if bonus is not None and settings.meaning_first and not _is_clear(view, evidence):
        relevance = _vague_relevance(view, parts, smoothed, evidence, bonus)
    else:
        relevance = evidence if person is None else evidence + person
        relevance = relevance + _session_prior(view, relevance, starts)
    if person is not None:
        speaker = speaker + person
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


# -- neighbours ------------------------------------------------------------------------------


def _smoothed(
    view: _View, own: NDArray[np.float32], starts: NDArray[np.int64] | None
) -> NDArray[np.float32]:
    kernel = view.settings.kernel
    if len(kernel) == 1:
        alone: NDArray[np.float32] = own * np.float32(kernel[0])
        return alone
    reception = _reception(view)
    if starts is None:
        return smooth(own, *_local_links(view.table, view.scored), kernel, reception)
    return smooth_runs(own, starts, kernel, reception)


def _reception(view: _View) -> Reception:
    table, half = view.table, view.settings.speaks_for_itself
    share = view.lexical.keep("share", half, lambda: _shares(table, view.lexical, half))
    line = None if table.lines_are_whole else table.line_column[view.at]
    return Reception(line, share[view.at], view.settings.within_line)


def _shares(table: SegmentTable, lexical: LexicalIndex, half: float) -> NDArray[np.float32]:
    """Return what share of its neighbours' scores each segment takes, by the words of its line."""
    words = lexical.lengths
    if not table.lines_are_whole:
        words = np.bincount(table.line_column, words).astype(np.int64)[table.line_column]
    # There are far fewer lengths than lines.
    lengths = np.arange(words.max(initial=0) + 1)
    share = 1.0 / (1.0 + np.power(lengths / half, _STEEPNESS))
    return share.astype(np.float32).take(words)


def _session_prior(
    view: _View, relevance: NDArray[np.float32], starts: NDArray[np.int64] | None
) -> NDArray[np.float32] | float:
    settings = view.settings
    if not settings.session_prior:
        return 0.0
    counted = view.counted
    in_scope = relevance if counted is None else np.where(counted, relevance, np.float32(0.0))
    if starts is None:
        sessions = view.table.session_column[view.at]
        prior = session_bests(in_scope, sessions, settings.session_best)
        prior *= settings.session_prior
        return prior
    bests, lengths = bests_of_runs(in_scope, starts, settings.session_best)
    return np.repeat(bests * settings.session_prior, lengths)


def _local_links(
    table: SegmentTable, scored: NDArray[np.int64] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the links as indices into `scored`, which is ascending."""
    links = table.links()
    if scored is None:
        return links.before, links.behind
    return _index_in(scored, links.before[scored]), _index_in(scored, links.behind[scored])


def _index_in(ascending: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    at = np.minimum(np.searchsorted(ascending, numbers), len(ascending) - 1)
    return np.where(ascending[at] == numbers, at, -1)


# -- who is meant ----------------------------------------------------------------------------


def _speaker_bonus(
    question: Question,
    table: SegmentTable,
    at: slice | NDArray[np.int64],
    settings: RecallSettings,
) -> NDArray[np.float32]:
    speakers = table.speakers
    named = _named(question, speakers) if settings.speaker_bonus else []
    column = table.speaker_column[at]
    # A question about everybody prefers nobody.
    if not named or len(named) == len(speakers):
        return np.zeros(len(column), dtype=np.float32)
    bonus = np.zeros(len(speakers), dtype=np.float32)
    bonus[named] = settings.speaker_bonus
    return bonus[column]


def _named(question: Question, speakers: Sequence[str]) -> list[int]:
    """Return which speakers a question names; where it names none, those named before."""
    named = (named_speakers(part, speakers) for part in read_parts(question.text, question.before))
    return next(filter(None, named), [])


def _person_bonus(view: _View) -> NDArray[np.float32] | None:
    """Return what lines gain at most from being said by the person whom the question is about.

    It grows with the evidence for a line: a bonus for lines that have nothing to do with the
    question would push aside what answers it from the other side.
    """
    settings, table = view.settings, view.table
    if not settings.person_bonus or len(table.roles) < 2:  # noqa: PLR2004 - user and assistant
        return None
    meant = read_person(view.question.text, view.question.before)
    about_user = meant.asker or (meant.subject_open and not meant.listener)
    if not about_user and not meant.listener:
        return None
    both = about_user and (meant.listener or asks_advice(view.question.text))
    share = np.float32(_SHARED if both else 1.0)
    kinds = view.lexical.keep("kinds", None, lambda: _kinds(table, view.lexical))
    worth = settings.person_bonus, settings.statement_bonus
    bonus = _bonus_by_kind(*worth, about_user=about_user, about_listener=meant.listener)
    person: NDArray[np.float32] = (share * bonus).take(kinds[view.at])
    return person


def _kinds(table: SegmentTable, lexical: LexicalIndex) -> NDArray[np.uint8]:
    """Return of each segment whether the user has said it and what it does, as bits."""
    kinds = table.of_role("user").astype(np.uint8)
    for bit, mark in enumerate(_MARKS, 1):
        kinds |= lexical.marked(mark).view(np.uint8) << bit
    return kinds


@lru_cache(maxsize=16)
def _bonus_by_kind(
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


# -- where nothing answers -------------------------------------------------------------------


def _is_clear(view: _View, evidence: NDArray[np.float32]) -> bool:
    """Return whether a segment answers clearly; of a few segments there is nothing to tell."""
    counted = evidence if view.counted is None else evidence[view.counted]
    return len(counted) <= _FEW or bool(counted.max() >= clear_evidence(len(counted)))


def _vague_relevance(
    view: _View,
    parts: _Parts,
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
    words = view.lexical.lengths[view.at] + _LEAST_LENGTH
    relevance: NDArray[np.float32] = parts.meaning + _VAGUE_BONUS * bonus
    share = np.float32(1.0) - (np.float32(1.0) - _VAGUE_WORDS) * np.float32(parts.trust)
    relevance += share * np.minimum(parts.words, _MOST_OF_WORDS)
    relevance += _VAGUE_NEIGHBOURS * (smoothed - parts.meaning - parts.words)
    relevance += evidence - smoothed
    relevance += _NEARLY_CLEAR * np.maximum(evidence - near_clear, np.float32(0.0))
    relevance -= _VAGUE_LENGTH * np.log(words, dtype=np.float32)
    return relevance


# -- what says nothing -----------------------------------------------------------------------


def _muted(
    text: str, terms: Mapping[str, str], table: SegmentTable, lexical: LexicalIndex
) -> NDArray[np.bool_] | None:
    """Return which segments only ask what is asked now, or answer that nothing is known.

    A reply that the question quotes is what it looks for.
    """
    assistant = table.of_role("assistant")
    asking = lexical.marked("asks") & ~assistant
    muted = lexical.marked("ignorant") & assistant
    words, quoted = telling_words(text), _folded(text)
    for number in _repeating(terms, lexical, asking | muted):
        said = table.text(number)
        muted[number] = (
            _is_alike(words, telling_words(said)) if asking[number] else _folded(said) != quoted
        )
    return muted if muted.any() else None


def _repeating(
    terms: Mapping[str, str], lexical: LexicalIndex, among: NDArray[np.bool_]
) -> list[int]:
    """Return which of some segments hold most of what a question holds, each word by its rarity."""
    if not terms or not among.any():
        return []
    rarities = lexical.rarities(terms)
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
    having = lexical.having(telling)
    holding = [np.array(having[term], dtype=np.intp) for term in telling]
    found = np.unique(np.concatenate([among.nonzero()[0][:0], *holding]))
    numbers: list[int] = found[among[found]].tolist()
    held_by = lexical.shared(list(rarities), numbers) if numbers else ()
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


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


# -- the latest word -------------------------------------------------------------------------


def _lead_with_latest(
    view: _View,
    columns: Columns,
    rows: NDArray[np.int64] | None,
    vectors: SegmentVectors,
    terms: Sequence[str],
) -> frozenset[int]:
    """Let the latest of the statements about the same thing as the best one lead.

    Returns:
        The numbers of the older ones.
    """
    best = _best_rows(columns, rows) if view.settings.latest_first else columns.numbers[:0]
    if len(best) < 2:  # noqa: PLR2004 - nothing to compare
        return frozenset()
    lead, others = int(best[0]), best[1:]
    table, numbers = view.table, columns.numbers
    asks = view.lexical.marked("asks")
    if asks[numbers[lead]]:
        return frozenset()
    speakers, lines = table.speaker_column, table.line_column
    comparable = (
        (speakers[numbers[others]] == speakers[numbers[lead]])
        & (lines[numbers[others]] != lines[numbers[lead]])
        & (columns.evidence[others] > -np.inf)
        & ~asks[numbers[others]]
    )
    candidates = others[comparable].tolist()
    numbers_of = [int(numbers[at]) for at in (lead, *candidates)]
    sameness = _sameness(view, numbers_of, vectors, terms)
    shares = _shares_of_evidence(columns.evidence, lead, candidates)
    same = [
        at
        for at, share, more in zip(candidates, shares, sameness, strict=True)
        if share + more >= _SAME
    ]
    # What was written later counts as said later within the same millisecond.
    moments = {at: (int(table.time_column[numbers[at]]), int(numbers[at])) for at in (lead, *same)}
    latest = max(moments, key=moments.__getitem__)
    if latest != lead:
        columns.relevance[latest] = columns.relevance[lead] + _AHEAD
    return frozenset(number for at, (_, number) in moments.items() if at != latest)


def _best_rows(columns: Columns, rows: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Return the rows of the few best segments, best first."""
    relevance = columns.relevance if rows is None else columns.relevance[rows]
    if len(relevance) > _LEADERS * _BLOCK:
        # So many blocks have a best one that is as good: most segments are in none of them.
        bests = np.maximum.reduceat(relevance, np.arange(0, len(relevance), _BLOCK))
        least = np.partition(bests, len(bests) - _LEADERS)[len(bests) - _LEADERS]
        near = (relevance >= least).nonzero()[0]
    else:
        near = np.arange(len(relevance))
    best: NDArray[np.int64] = near[np.argsort(-relevance[near], kind="stable")][:_LEADERS]
    return best if rows is None else rows[best]


def _shares_of_evidence(
    evidence: NDArray[np.float32], lead: int, others: Sequence[int]
) -> list[float]:
    """Return what share of the first one's evidence other segments have."""
    if len(evidence) <= _FEW:
        return [_MOST_EVIDENCE] * len(others)
    most = float(evidence[lead])
    if most <= 0:
        return [-np.inf] * len(others)
    return [min(float(evidence[at]) / most, _MOST_EVIDENCE) for at in others]


def _sameness(
    view: _View, numbers: Sequence[int], vectors: SegmentVectors, terms: Sequence[str]
) -> list[float]:
    """Return how much words and meaning say that statements are about the same as the first one.

    Minus infinity for one that lacks a number of the question which the first one holds.
    """
    if len(numbers) == 1:
        return []
    of_lead, *of_others = view.lexical.shared(terms, numbers)
    # Floor 3 is not floor 5: what the question numbers, it means.
    numbered = {place for place in of_lead if terms[place].isdigit()}
    rarity = view.lexical.rarities([terms[place] for place in of_lead])
    total = sum(rarity.values())
    found: list[float] = []
    for held, near in zip(of_others, _nearness(vectors, numbers), strict=True):
        shared = sum(rarity[terms[place]] for place in of_lead if place in held)
        words = shared / total if total else 0.0
        is_same = numbered.issubset(held)
        # Of a few segments some are farther apart than chance: that says nothing against them.
        said = _SAME_WORDS * words + _SAME_MEANING * min(max(near, 0.0), _NEAREST)
        found.append(said if is_same else -np.inf)
    return found


def _nearness(vectors: SegmentVectors, numbers: Sequence[int]) -> list[float]:
    """Return by how many standard deviations segments are nearer to the first one than chance."""
    rows = vectors.unit_rows(numbers)
    if not rows[0].any():
        return [0.0] * (len(numbers) - 1)
    lead, others = rows[0], rows[1:]
    chance = np.vecdot(vectors.sample(), lead)
    mean = float(chance.sum()) / len(chance)
    chance -= mean
    deviation = math.sqrt(float(np.square(chance).sum()) / len(chance))
    near: list[float] = ((np.vecdot(others, lead) - mean) / max(deviation, _NO_DEVIATION)).tolist()
    return near
