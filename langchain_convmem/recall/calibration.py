"""Whether a question has anything to do with what was said. Pure.

The scores of a ranking are relative: some line is always best. This looks for absolute evidence,
in two shares that every embedder and script has in common:

- coverage: how much of the question's rarity (the sum of its words' idf, to the power of 1.5) one
  line and the two beside it hold. A word that was never said is the rarest of all, so a question
  about something else covers little. Long lines hold many words by chance and count for less.
- closeness: how much of the way from the mean cosine of all lines to 1 the nearest line has come.
  Nearly all lines have nothing to do with a question, so their cosines with it are what chance
  gives: for this embedder, this script and this user.

Their sum is compared with one number, which grows with the lines up to `RELATED`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from langchain_convmem.recall.analysis import analyze, is_courtesy, query_terms
from langchain_convmem.recall.dates import NAMES_OF_TIMES
from langchain_convmem.recall.lexical import LexicalIndex
from langchain_convmem.recall.ranked import Columns
from langchain_convmem.recall.segment_table import Links, SegmentTable
from langchain_convmem.recall.stop_words import FUNCTION_CHARACTERS

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RELATED", "needed", "relatedness"]

RELATED = 0.55
"""From what sum of both shares on a question counts as related to a hundred lines or more.

Chosen on five dialogues between people, where 3 to 4 % of unrelated questions pass;
`python -m benchmarks.recall --off-topic` prints what it holds back and costs, cross-validated too.
"""

# From here on with one line, and so much more for every factor of e.
_RELATED_TO_ONE = 0.1
_RELATED_GROWTH = 0.098
# With few lines their mean says little about chance: as if so many more had cosine 0.
_UNSEEN_LINES = 10
_ALMOST_ONE = 0.99

# As if so many lines held no word of the question: in a log of three lines every word is rare.
_OTHER_LINES = 100
_RARITY_POWER = 1.5
# From this many words on, what a line and its neighbours hold counts for less, slowly.
_SHORT_STRETCH = 60
_LENGTH_WEIGHT = 0.4

_NUMBER = re.compile(r"\d+(?:st|nd|rd|th)?")


def needed(allowed: NDArray[np.bool_]) -> float:
    """Return from what sum on a question counts as related: less where less was said.

    The best of a few lines is seldom good by chance; of many it often is.

    Args:
        allowed: Which segments may be recalled.
    """
    count = max(int(np.count_nonzero(allowed)), 1)
    return min(RELATED, _RELATED_TO_ONE + _RELATED_GROWTH * math.log(count))


def relatedness(
    query: str,
    columns: Columns,
    table: SegmentTable,
    lexical: LexicalIndex,
    allowed: NDArray[np.bool_],
) -> float:
    """Return coverage plus closeness, each at most 1; 0 for a greeting or thanks.

    Args:
        query: The question.
        columns: The scores of its ranking.
        table: Where the segments stand.
        lexical: Their terms.
        allowed: Which segments may be recalled; no other counts.
    """
    if is_courtesy(query):
        return 0.0
    return _coverage(query, table, lexical, allowed) + _closeness(columns, allowed)


# -- words -----------------------------------------------------------------------------------


def _coverage(
    query: str, table: SegmentTable, lexical: LexicalIndex, allowed: NDArray[np.bool_]
) -> float:
    words = _telling(query_terms(query, lexical), table.speakers)
    lines_of = lexical.having(words)
    links = table.links()
    count = int(np.count_nonzero(allowed)) + _OTHER_LINES
    # One more place, where the links that lead nowhere point.
    held = np.zeros(len(table) + 1)
    total = 0.0
    for terms in _by_word(words):
        numbers = _union([lines_of[term] for term in terms if term in lines_of])
        numbers = numbers[allowed[numbers]]
        idf = np.log1p((count - len(numbers) + 0.5) / (len(numbers) + 0.5))
        rarity = float(idf) ** _RARITY_POWER
        total += rarity
        # Assigned by index, a place named twice counts once.
        near = np.concatenate([numbers, links.before[numbers], links.behind[numbers]])
        held[near] += rarity
    found = np.flatnonzero((held[:-1] > 0) & allowed)
    if not len(found):
        return 0.0
    return float((held[found] / _damping(found, links, lexical)).max()) / total


def _by_word(words: Mapping[str, str]) -> Iterable[list[str]]:
    """Return the terms of each word together: its stems in several languages are one word."""
    terms_of: dict[str, list[str]] = {}
    for term, word in words.items():
        terms_of.setdefault(word, []).append(term)
    return terms_of.values()


def _union(numbers: Sequence[Sequence[int]]) -> NDArray[np.intp]:
    if len(numbers) == 1:
        return np.array(numbers[0], dtype=np.intp)
    return np.array(sorted({number for some in numbers for number in some}), dtype=np.intp)


def _damping(found: NDArray[np.intp], links: Links, lexical: LexicalIndex) -> NDArray[np.float64]:
    lengths = np.append(lexical.lengths, 0)
    stretch = lengths[found] + lengths[links.before[found]] + lengths[links.behind[found]]
    excess = np.maximum(stretch / _SHORT_STRETCH, 1.0)
    damping: NDArray[np.float64] = 1.0 + _LENGTH_WEIGHT * np.log(excess)
    return damping


def _telling(words: Mapping[str, str], speakers: Iterable[str]) -> dict[str, str]:
    """Return the terms that say what is asked about; all of them if nothing else is left."""
    beside = {term for speaker in speakers for term in analyze(speaker)} | _when_terms()
    telling = {
        term: word
        for term, word in words.items()
        if term not in beside
        and not _NUMBER.fullmatch(term)
        and FUNCTION_CHARACTERS.isdisjoint(term)
    }
    return telling or dict(words)


@lru_cache(maxsize=1)
def _when_terms() -> frozenset[str]:
    return frozenset(term for name in NAMES_OF_TIMES for term in analyze(name))


# -- meaning ---------------------------------------------------------------------------------


def _closeness(columns: Columns, allowed: NDArray[np.bool_]) -> float:
    # A segment whose embedding is pending, or out of scope, was not standardised.
    compared = np.flatnonzero((columns.meaning != 0) & allowed[columns.numbers])
    if not len(compared):
        lone = columns.similarity.max(initial=0.0, where=allowed[columns.numbers])
        return float(lone)
    similarity, meaning = columns.similarity[compared], columns.meaning[compared]
    best, worst = int(similarity.argmax()), int(similarity.argmin())
    highest, lowest = float(similarity[best]), float(similarity[worst])
    rise = float(meaning[best]) - float(meaning[worst])
    # Where the standardised cosine would be 0 lies the mean of all, scored or not.
    mean = highest - float(meaning[best]) * (highest - lowest) / rise if rise else highest
    count = int(np.count_nonzero(allowed))
    mean = min(mean * count / (count + _UNSEEN_LINES), _ALMOST_ONE)
    return (highest - mean) / (1.0 - mean)
