"""How scores become one ranking: standardise, add, smooth over neighbours. Pure NumPy.

Columns of an owner's lines are long, and what costs most is memory that is touched for the first
time: each function makes as few new arrays as it can, in single precision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Reception",
    "bests_of_runs",
    "session_bests",
    "smooth",
    "smooth_runs",
    "standardized",
]

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
