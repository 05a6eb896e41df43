"""How scores become one ranking: standardise, add, smooth over neighbours. Pure NumPy.

Columns of an owner's lines are long, and what costs most is memory that is touched for the first
time: each function makes as few new arrays as it can, in single precision.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Cosines in single precision differ by less for no reason: equal lines are not to be told apart.
_NEGLIGIBLE = 1e-6


def standardized(
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
        counted: Whose mean and deviation are meant; all others get 0, as does everybody where the
            counted ones are equal. None: all.
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

    def weights(
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
            received = scores[giving] * reception.weights(takers, giving)
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
    ends = _ends(starts, count) - 1
    # Where nothing comes from within the row. A row that is shorter ends in the next one, which
    # is just as far from this one.
    first = [np.minimum(starts + step, count - 1) for step in range(reach)]
    last = [np.maximum(ends - step, 0) for step in range(reach)]
    received = np.empty_like(scores)
    for far in range(1, reach + 1):
        here, there = slice(far, None), slice(None, -far)
        np.multiply(scores[there], kernel[middle - far], out=received[here])
        received[here] *= reception.weights(here, there)
        for numbers in first[:far]:
            received[numbers] = 0.0
        total += received
    for far in range(1, reach + 1):
        here, there = slice(None, -far), slice(far, None)
        np.multiply(scores[there], kernel[middle + far], out=received[here])
        received[here] *= reception.weights(here, there)
        for numbers in last[:far]:
            received[numbers] = 0.0
        total += received
    return total


def _ends(starts: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return where the rows end that start there; the last one of all at `count`."""
    return np.concatenate((starts[1:], [count]))[: len(starts)]


def session_bests(
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


def bests_of_runs(
    scores: NDArray[np.float32], starts: NDArray[np.int64], best: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the mean of each session's `best` highest scores, negative ones as 0, and its length.

    What `session_bests` finds where the segments of every session stand side by side.

    Args:
        scores: One per segment.
        starts: Where each session starts, ascending; the first one at 0.
        best: How many of a session's scores the mean takes.
    """
    lengths = _ends(starts, len(scores)) - starts
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


# -- Scored segments in order of relevance, put in order only as far as somebody reads ------------


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
