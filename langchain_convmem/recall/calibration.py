"""Whether a question has anything to do with what was said. Pure.

The scores of a ranking are relative: some line is always best. This looks for absolute evidence,
in two shares that every embedder and script has in common:

- coverage: how much of the question's rarity (the sum of its words' idf) one line and the two
  beside it hold. A word that was never said is the rarest of all, so a question about something
  else covers little.
- closeness: how much of the way from the mean cosine of all lines to 1 the nearest line has come.
  Nearly all lines have nothing to do with a question, so their cosines with it are what chance
  gives: for this embedder, this script and this user.

Their sum is compared with one number, `RELATED`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from langchain_convmem.recall.analysis import analyze, query_terms
from langchain_convmem.recall.lexical import LexicalIndex
from langchain_convmem.recall.ranked import Columns
from langchain_convmem.recall.segment_table import SegmentTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RELATED", "relatedness"]

RELATED = 0.6
"""From what sum of both shares on a question counts as related.

Chosen on five dialogues between people, a little above where 5 % of unrelated questions pass;
`python -m benchmarks.recall --off-topic` prints what it holds back and costs, cross-validated too.
"""

# With few lines their mean says little about chance: as if so many more had cosine 0.
_UNSEEN_LINES = 10
_ALMOST_ONE = 0.99

# When something was is known of a line but seldom said in it.
_WHEN = """
january february march april may june july august september october november december
monday tuesday wednesday thursday friday saturday sunday
"""
_NUMBER = re.compile(r"\d+(?:st|nd|rd|th)?")


def relatedness(
    query: str,
    columns: Columns,
    table: SegmentTable,
    lexical: LexicalIndex,
    allowed: NDArray[np.bool_],
) -> float:
    """Return coverage plus closeness, each at most 1.

    Args:
        query: The question.
        columns: The scores of its ranking.
        table: Where the segments stand.
        lexical: Their terms.
        allowed: Which segments may be recalled; no other counts.
    """
    return _coverage(query, table, lexical, allowed) + _closeness(columns, allowed)


# -- words -----------------------------------------------------------------------------------


def _coverage(
    query: str, table: SegmentTable, lexical: LexicalIndex, allowed: NDArray[np.bool_]
) -> float:
    terms = _telling(query_terms(query), table.speakers)
    lines_of = lexical.having(terms)
    links = table.links()
    count = int(np.count_nonzero(allowed))
    # One more place, where the links that lead nowhere point.
    held = np.zeros(len(table) + 1)
    total = 0.0
    for term in terms:
        numbers = np.array(lines_of.get(term, ()), dtype=np.intp)
        numbers = numbers[allowed[numbers]]
        idf = float(np.log1p((count - len(numbers) + 0.5) / (len(numbers) + 0.5)))
        total += idf
        # Assigned by index, a place named twice counts once.
        near = np.concatenate([numbers, links.before[numbers], links.behind[numbers]])
        held[near] += idf
    return float(held[:-1].max(initial=0.0, where=allowed)) / total if total else 0.0


def _telling(terms: Iterable[str], speakers: Iterable[str]) -> list[str]:
    """Return the terms that say what is asked about; all of them if nothing else is left."""
    every = list(terms)
    names = {term for speaker in speakers for term in analyze(speaker)}
    beside = names | _when_terms()
    telling = [term for term in every if term not in beside and not _NUMBER.fullmatch(term)]
    return telling or every


@lru_cache(maxsize=1)
def _when_terms() -> frozenset[str]:
    return frozenset(analyze(_WHEN))


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
