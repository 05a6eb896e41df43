"""From a question to a ranking of segments. Pure but for reading the owner's indexes.

Every segment in scope is scored, of however many: looking for candidates first takes longer than
working the formula out for all of them, and finds less.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from langchain_convmem.recall.fusion import (
    bests_of_runs,
    session_bests,
    smooth,
    smooth_runs,
    standardized,
)
from langchain_convmem.recall.indexes.segment_table import SegmentTable
from langchain_convmem.recall.indexes.vectors import SegmentVectors
from langchain_convmem.recall.ranked import Columns, Ranking
from langchain_convmem.recall.settings import RecallSettings
from langchain_convmem.recall.words.analysis import is_stop_word, query_terms
from langchain_convmem.recall.words.dates import spans
from langchain_convmem.recall.words.lexical import LexicalIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Question", "Ranking", "named_speakers", "rank", "without_names"]

# Below this share of all, scoring the allowed ones alone saves more than gathering them costs.
_SMALL_SHARE = 0.25
_WORD_SIGN = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of an owner's segments.

    Attributes:
        text: The question.
        vector: Its embedding, shape (dim,); None if it could not be embedded or need not be.
        allowed: Which segments may be recalled.
        now_ms: When it is asked, milliseconds since the epoch; None names no times.
    """

    text: str
    vector: NDArray[np.float32] | None
    allowed: NDArray[np.bool_]
    now_ms: int | None = None


# -- speakers --------------------------------------------------------------------------------


def named_speakers(text: str, speakers: Sequence[str]) -> list[int]:
    """Return which speakers (by index) the text names, whole or by the first part of the name."""
    return list(_named(text, tuple(speakers)))


@lru_cache(maxsize=16)
def _named(text: str, speakers: tuple[str, ...]) -> tuple[int, ...]:
    # Kept for a moment: one recall asks when it embeds the question and when it ranks.
    return tuple(n for n, speaker in enumerate(speakers) if _name_pattern(speaker).search(text))


def without_names(text: str, speakers: Sequence[str]) -> str:
    """Return the text without the names of speakers; unchanged if nothing else would be left."""
    bare = text
    for number in named_speakers(text, speakers):
        bare = _name_pattern(speakers[number]).sub(" ", bare)
    bare = " ".join(bare.split())
    return bare if _WORD_SIGN.search(bare) else text


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
    """Return the allowed segments by relevance, best first; ties in ascending number."""
    words = _word_scores(question, lexical, settings)
    scored, shown = None, question.allowed
    if np.count_nonzero(question.allowed) < _SMALL_SHARE * len(table):
        # With those around them, through which they are neighbours of each other.
        reach = len(settings.kernel) // 2
        scored = _with_neighbours(np.flatnonzero(question.allowed), table, reach)
        shown = question.allowed[scored]
    parts = _parts(question, vectors, words, scored, settings)
    columns = _score(question, table, parts, scored, settings)
    return Ranking(columns, None if shown.all() else np.flatnonzero(shown))


def _word_scores(
    question: Question, lexical: LexicalIndex, settings: RecallSettings
) -> NDArray[np.float64]:
    if not settings.lexical_weight:
        return np.zeros(len(lexical))
    terms = query_terms(question.text, lexical, stop_words=settings.stop_words)
    return lexical.scores(terms, k1=settings.k1, b=settings.b)


class _Parts(NamedTuple):
    """What each segment scores on its own; columns of equal length.

    Segments out of scope count as average, so that they move nothing; so does, in its meaning, a
    segment without a vector.
    """

    similarity: NDArray[np.float32]
    meaning: NDArray[np.float32]
    words: NDArray[np.float32]


def _parts(
    question: Question,
    vectors: SegmentVectors,
    words: NDArray[np.float64],
    scored: NDArray[np.int64] | None,
    settings: RecallSettings,
) -> _Parts:
    """Return the parts of the segments `scored`, ascending, with all allowed ones; None: of all."""
    # A slice takes no copy of a column.
    at = slice(None) if scored is None else scored
    allowed = question.allowed[at]
    word_part = standardized(words[at], _some(allowed), settings.lexical_weight)
    if question.vector is None or not question.vector.any():
        similarity = np.zeros(len(allowed), dtype=np.float32)
        meaning = np.zeros_like(similarity)
    else:
        similarity = vectors.similarities(question.vector, scored)
        compared = _some(vectors.present[at] & allowed)
        meaning = standardized(similarity, compared, settings.dense_weight)
    return _Parts(similarity, meaning, word_part)


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


def _score(
    question: Question,
    table: SegmentTable,
    parts: _Parts,
    scored: NDArray[np.int64] | None,
    settings: RecallSettings,
) -> Columns:
    """Return the scores of the segments `scored`, ascending; None: of all."""
    at = slice(None) if scored is None else scored
    own = parts.meaning + parts.words
    starts = table.starts() if scored is None else None
    if starts is None:
        smoothed = smooth(own, *_local_links(table, scored), settings.kernel)
    else:
        smoothed = smooth_runs(own, starts, settings.kernel)
    speaker = _speaker_bonus(question, table, at, settings)
    relevance = smoothed + speaker
    if settings.session_prior:
        allowed = _some(question.allowed[at])
        in_scope = relevance if allowed is None else np.where(allowed, relevance, 0.0)
        if starts is None:
            prior = session_bests(in_scope, table.session_column[at], settings.session_best)
            prior *= settings.session_prior
        else:
            bests, lengths = bests_of_runs(in_scope, starts, settings.session_best)
            prior = np.repeat(bests * settings.session_prior, lengths)
        relevance += prior
    if settings.date_bonus and question.now_ms is not None:
        for since_ms, until_ms in spans(question.text, question.now_ms):
            said_then = table.allowed(since_ms=since_ms, until_ms=until_ms)[at]
            relevance[said_then.nonzero()[0]] += settings.date_bonus
    numbers = np.arange(len(table)) if scored is None else scored
    return Columns(
        numbers, relevance, parts.similarity, parts.meaning, parts.words, own, smoothed, speaker
    )


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
) -> NDArray[np.float32]:
    speakers = table.speakers
    named = named_speakers(question.text, speakers) if settings.speaker_bonus else []
    column = table.speaker_column[at]
    # A question about everybody prefers nobody.
    if not named or len(named) == len(speakers):
        return np.zeros(len(column), dtype=np.float32)
    bonus = np.zeros(len(speakers), dtype=np.float32)
    bonus[named] = settings.speaker_bonus
    return bonus[column]
