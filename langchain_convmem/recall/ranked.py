"""Scored segments in order of relevance, put in order only as far as somebody reads. Pure.

An answer shows the first few of thousands, so sorting them all would be most of the work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Columns", "Ranking"]

_T = TypeVar("_T", bound=np.generic)

_FIRST_LOOK = 256
_NEXT_LOOK = 8
# How many of the looked at stand in the sample that says how far to look.
_SAMPLED = 16
# More than what rounding adds to a cosine in single precision: each index sums in its own order,
# and in none of them may a cosine that equals the threshold surpass it.
_ROUNDING = 1e-6
# Rounded to so many steps, so that lines of equal worth tie however their scores were summed.
_STEPS = 1e5


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
        self._keys = _keys(columns.relevance) if keys is None else keys
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
        if self._rows is None:
            self._rows = np.arange(len(self))
        return self._rows

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

    def of_rows(self, column: NDArray[_T]) -> NDArray[_T]:
        """Return what a column as long as `columns` holds of the rows that rank; do not write."""
        return column if self._rows is None else column[self._rows]

    def row_of(self, number: int) -> int:
        """Return the row of `columns` that a ranked segment has."""
        numbers = self.columns.numbers
        if number < len(numbers) and numbers[number] == number:
            return number
        return int(np.searchsorted(numbers, number))

    def is_loose(self, number: int) -> bool:
        """Return whether a ranked segment is only loosely related to the question."""
        return self.loose is not None and bool(self.loose[self.row_of(number)])

    def above(self, similarity: float) -> Ranking:
        """Return the ranking of the segments that are more similar to the question than that."""
        return self.having(self.columns.similarity[self.rows] > similarity + _ROUNDING)

    def having(self, kept: NDArray[np.bool_]) -> Ranking:
        """Return the ranking of some of the rows, by a mask over `rows`."""
        rows = kept.nonzero()[0] if self._rows is None else self._rows[kept]
        ranking = Ranking(self.columns, rows, keys=self._keys)
        ranking.older, ranking.loose = self.older, self.loose
        ranking._follow(self)
        return ranking

    def _follow(self, other: Ranking) -> None:
        """Take over as much of the order of another ranking, which holds all of this one."""
        if len(other._ordered) != 1:
            return
        ranks = np.zeros(len(self.columns.numbers), dtype=np.bool_)
        ranks[self.rows] = True
        first = other._ordered[0]
        self._ordered.append(first[ranks[first]])
        self._unread -= len(self._ordered[0])
        self._last_key = other._last_key

    # -- in order ----------------------------------------------------------------------------

    def take(self, kept: NDArray[np.int64] | NDArray[np.bool_]) -> Ranking:
        """Return the ranking of some of the ranked segments, by their places or by a mask."""
        return Ranking(self.columns, np.sort(self._order[kept]))

    @property
    def _order(self) -> NDArray[np.int64]:
        while self._unread:
            self._look_further()
        return np.concatenate([self.rows[:0], *self._ordered])

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Segment numbers."""
        return self.columns.numbers[self._order]

    @property
    def relevance(self) -> NDArray[np.float32]:
        """Final scores."""
        return self.columns.relevance[self._order]

    @property
    def similarity(self) -> NDArray[np.float32]:
        """Cosines; 0.0 without a vector."""
        return self.columns.similarity[self._order]

    @property
    def meaning(self) -> NDArray[np.float32]:
        """The cosine's standardised and weighted part of the score."""
        return self.columns.meaning[self._order]

    @property
    def words(self) -> NDArray[np.float32]:
        """The same for BM25."""
        return self.columns.words[self._order]

    @property
    def smoothed(self) -> NDArray[np.float32]:
        """The score after the neighbours."""
        return self.columns.smoothed[self._order]

    @property
    def speaker(self) -> NDArray[np.float32]:
        """The bonus for a named speaker."""
        return self.columns.speaker[self._order]


def _keys(relevance: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return by what segments are put in order, ascending: lines of equal worth tie."""
    keys: NDArray[np.float32] = relevance * -_STEPS
    np.rint(keys, out=keys)
    return keys
