"""From a question to a ranking of segments. Pure but for reading the owner's indexes.

Up to the exact limit every allowed segment is scored. Beyond, both indexes propose candidates;
candidates and their neighbours are scored with the same formula, standardised by the statistics of
all segments, so that the two ways differ only by what was not proposed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from langchain_convmem.recall.analysis import is_stop_word, query_terms
from langchain_convmem.recall.fusion import (
    session_bests,
    smooth,
    spread_of,
    standardize,
)
from langchain_convmem.recall.lexical import LexicalIndex
from langchain_convmem.recall.ranked import Columns, Ranking
from langchain_convmem.recall.segment_table import Links, SegmentTable
from langchain_convmem.recall.settings import RecallSettings
from langchain_convmem.recall.vectors import SegmentVectors

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Question", "Ranking", "named_speakers", "rank", "without_names"]

# A filter that leaves this few segments is scored whole even beyond the exact limit.
_WHOLE_SCOPE = 20_000
# Below this share of all, scoring the allowed ones alone saves more than gathering them costs.
_SMALL_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of an owner's segments.

    Attributes:
        text: The question.
        vector: Its embedding, shape (dim,); None if it could not be embedded or need not be.
        allowed: Which segments may be recalled.
    """

    text: str
    vector: NDArray[np.float32] | None
    allowed: NDArray[np.bool_]


# -- speakers --------------------------------------------------------------------------------


def named_speakers(text: str, speakers: Sequence[str]) -> list[int]:
    """Return which speakers (by index) the text names, whole or by the first part of the name."""
    return [n for n, speaker in enumerate(speakers) if _name_pattern(speaker).search(text)]


def without_names(text: str, speakers: Sequence[str]) -> str:
    """Return the text without the names of speakers; unchanged if nothing else would be left."""
    bare = text
    for speaker in speakers:
        bare = _name_pattern(speaker).sub(" ", bare)
    bare = " ".join(bare.split())
    return bare if re.search(r"\w", bare) else text


@lru_cache(maxsize=1024)
def _name_pattern(speaker: str) -> re.Pattern[str]:
    whole, first = speaker.strip(), (speaker.split() or [""])[0]
    names = {whole} if is_stop_word(first) else {whole, first}
    # "Will" and "May" are names only where they are written as such.
    parts = [
        re.escape(name) if is_stop_word(name) else f"(?i:{re.escape(name)})"
        for name in sorted(names - {""}, key=len, reverse=True)
    ]
    # A speaker without a name matches nothing.
    return re.compile(rf"(?<!\w)(?:{'|'.join(parts) or '(?!)'})(?:['\u2019]s)?(?!\w)")


# -- scoring ---------------------------------------------------------------------------------


def rank(
    question: Question,
    table: SegmentTable,
    vectors: SegmentVectors,
    lexical: LexicalIndex,
    settings: RecallSettings,
) -> Ranking:
    """Return the allowed segments by relevance, best first; ties in ascending number.

    Beyond the exact limit only the proposed candidates and their neighbours come back.
    """
    words = _word_scores(question, lexical, settings)
    allowed = int(np.count_nonzero(question.allowed))
    exact = vectors.is_exact or allowed <= _WHOLE_SCOPE
    scored, shown = None, question.allowed
    if not exact:
        scored, shown = _candidates(question, table, vectors, words, settings)
        shown &= question.allowed[scored]
    elif allowed < _SMALL_SHARE * len(table):
        # With those around them, through which they are neighbours of each other.
        few = np.flatnonzero(question.allowed)
        scored = _with_neighbours(few, table.links(), len(settings.kernel) // 2)
        shown = question.allowed[scored]
    columns = _score(question, table, vectors, words, scored, exact=exact, settings=settings)
    return Ranking(columns, None if shown.all() else np.flatnonzero(shown))


def _word_scores(
    question: Question, lexical: LexicalIndex, settings: RecallSettings
) -> NDArray[np.float32]:
    if not settings.lexical_weight:
        return np.zeros(len(lexical), dtype=np.float32)
    terms = query_terms(question.text, stop_words=settings.stop_words)
    return lexical.scores(terms, k1=settings.k1, b=settings.b)


def _candidates(
    question: Question,
    table: SegmentTable,
    vectors: SegmentVectors,
    words: NDArray[np.float32],
    settings: RecallSettings,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the segments to score, ascending, and which of them have all neighbours scored."""
    by_words = np.flatnonzero((words > 0) & question.allowed)
    by_words = by_words[np.argsort(-words[by_words], kind="stable")[: settings.candidates]]
    found = [by_words]
    if question.vector is not None and settings.dense_weight:
        found.append(vectors.nearest(question.vector, settings.candidates, question.allowed))
    reach = len(settings.kernel) // 2
    shown = _with_neighbours(np.concatenate(found), table.links(), reach)
    scored = _with_neighbours(shown, table.links(), reach)
    return scored, np.isin(scored, shown)


def _with_neighbours(numbers: NDArray[np.int64], links: Links, reach: int) -> NDArray[np.int64]:
    for _ in range(reach):
        numbers = np.unique(np.concatenate([numbers, links.before[numbers], links.behind[numbers]]))
        numbers = numbers[numbers >= 0]
    return np.unique(numbers)


def _score(
    question: Question,
    table: SegmentTable,
    vectors: SegmentVectors,
    words: NDArray[np.float32],
    scored: NDArray[np.int64] | None,
    *,
    exact: bool,
    settings: RecallSettings,
) -> Columns:
    """Return the scores of the segments `scored`, ascending; None: of all."""
    # A slice takes no copy of a column.
    at = slice(None) if scored is None else scored
    allowed = question.allowed[at]
    similarity, meaning = _meaning(question, vectors, scored, exact=exact)
    word_part = standardize(words[at], spread_of(_masked(words, question.allowed)))
    # Segments out of scope count as average, so that they move nothing.
    meaning = _weighted(meaning, allowed, settings.dense_weight)
    word_part = _weighted(word_part, allowed, settings.lexical_weight)
    own = meaning + word_part
    smoothed = smooth(own, *_local_links(table, scored), settings.kernel)
    speaker = _speaker_bonus(question, table, at, settings)
    relevance = smoothed + speaker
    if settings.session_prior:
        in_scope = _weighted(relevance, allowed, 1.0)
        prior = session_bests(in_scope, table.session_column[at], settings.session_best)
        relevance = relevance + settings.session_prior * prior
    numbers = np.arange(len(table)) if scored is None else scored
    return Columns(numbers, relevance, similarity, meaning, word_part, own, smoothed, speaker)


def _masked(values: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.float32]:
    return values if mask.all() else values[mask]


def _weighted(
    part: NDArray[np.float64], counted: NDArray[np.bool_], weight: float
) -> NDArray[np.float64]:
    return weight * (part if counted.all() else np.where(counted, part, 0.0))


def _meaning(
    question: Question,
    vectors: SegmentVectors,
    scored: NDArray[np.int64] | None,
    *,
    exact: bool,
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    at = slice(None) if scored is None else scored
    present, allowed = vectors.present[at], question.allowed[at]
    if question.vector is None or not question.vector.any():
        return np.zeros(len(present), dtype=np.float32), np.zeros(len(present))
    similarity = vectors.similarities(question.vector, scored)
    spread = (
        spread_of(_masked(similarity, present & allowed))
        if exact
        else vectors.spread(question.vector)
    )
    # A line whose embedding is pending is neither near nor far.
    return similarity, _weighted(standardize(similarity, spread), present, 1.0)


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


def _speaker_bonus(
    question: Question,
    table: SegmentTable,
    at: slice | NDArray[np.int64],
    settings: RecallSettings,
) -> NDArray[np.float64]:
    speakers = table.speakers
    named = named_speakers(question.text, speakers) if settings.speaker_bonus else []
    # A question about everybody prefers nobody.
    everybody = len(named) == len(speakers)
    bonus = np.zeros(max(len(speakers), 1))
    bonus[[] if everybody else named] = settings.speaker_bonus
    return bonus[table.speaker_column[at]]
