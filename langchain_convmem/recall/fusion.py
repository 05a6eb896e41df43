"""How scores become one ranking: standardise, add, smooth over neighbours. Pure NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Moments", "Spread", "session_bests", "smooth", "spread_of", "standardize"]

_NEGLIGIBLE = 1e-9


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and standard deviation of a score over everything it was compared with."""

    mean: float
    deviation: float


def spread_of(scores: NDArray[np.float32]) -> Spread:
    """Return the spread of the scores themselves; of none, that of a constant 0."""
    if not len(scores):
        return Spread(0.0, 0.0)
    exact = scores.astype(np.float64)
    mean = float(exact.mean())
    exact -= mean
    exact *= exact
    return Spread(mean, float(exact.mean()) ** 0.5)


def standardize(scores: NDArray[np.float32], spread: Spread) -> NDArray[np.float64]:
    """Return scores as distances from the mean in standard deviations (0 if all are equal)."""
    if spread.deviation < _NEGLIGIBLE:
        return np.zeros(len(scores))
    result = scores.astype(np.float64)
    result -= spread.mean
    result /= spread.deviation
    return result


class Moments:
    """Running first and second moments of vectors, so that the spread of q.x needs no scan.

    Mean and variance of q.x over all x are exactly q.m and q.(S/n)q - (q.m)^2, with m the mean
    and S the sum of outer products. Not thread-safe.
    """

    def __init__(self, dim: int) -> None:
        """Start with no vectors of `dim` components."""
        self._count = 0
        self._sum = np.zeros(dim)
        self._products = np.zeros((dim, dim))

    def add(self, rows: NDArray[np.float32], *, sign: int = 1) -> None:
        """Take in rows of shape (n, dim), or with sign -1 take out rows that were in."""
        exact = rows.astype(np.float64)
        self._count += sign * len(exact)
        self._sum += sign * exact.sum(axis=0)
        self._products += sign * (exact.T @ exact)

    def spread(self, query: NDArray[np.float32]) -> Spread:
        """Return the spread of the inner products with `query`, shape (dim,)."""
        if not self._count:
            return Spread(0.0, 0.0)
        exact = query.astype(np.float64)
        mean = float(exact @ self._sum) / self._count
        square = float(exact @ self._products @ exact) / self._count
        return Spread(mean, max(square - mean * mean, 0.0) ** 0.5)


def smooth(
    scores: NDArray[np.float64],
    before: NDArray[np.int64],
    behind: NDArray[np.int64],
    kernel: Sequence[float],
) -> NDArray[np.float64]:
    """Return each score plus its neighbours' scores by the kernel's weights.

    Args:
        scores: One per segment.
        before: Index of the segment before each one in its sitting, -1 for none.
        behind: Index of the segment behind each one, -1 for none.
        kernel: Odd number of weights; the middle one weighs the segment itself, the first the
            one farthest before. A missing neighbour counts 0, which is the mean of any
            standardised score.
    """
    reach = len(kernel) // 2
    padded = np.zeros(len(scores) + 1)
    padded[:-1] = scores
    total = kernel[reach] * scores
    for links, weights in ((before, kernel[:reach][::-1]), (behind, kernel[reach + 1 :])):
        # Index -1 meets the padding: no neighbour, and none of none.
        chain = np.append(links, -1)
        at = links
        for number, weight in enumerate(weights):
            at = chain[at] if number else at
            total += weight * padded[at]
    return total


def session_bests(
    scores: NDArray[np.float64], sessions: NDArray[np.int64], best: int
) -> NDArray[np.float64]:
    """Return for each score the mean of its session's `best` highest, negative ones as 0.

    Args:
        scores: One per segment.
        sessions: The session of each, numbered from 0.
        best: How many of a session's scores the mean takes.
    """
    if not len(scores):
        return np.zeros(0)
    totals = np.zeros(int(sessions.max()) + 1)
    # All others count 0, so they need not be looked at.
    positive = np.flatnonzero(scores > 0)
    left, session_of = scores[positive], sessions[positive]
    for _ in range(best):
        highest = np.zeros_like(totals)
        np.maximum.at(highest, session_of, left)
        totals += highest
        # Only the first of equal scores is used up; what is written last to a place stays there.
        at = np.flatnonzero((left == highest[session_of]) & (left > 0))[::-1]
        first = np.zeros(len(totals), dtype=np.intp)
        first[session_of[at]] = at
        left[first[highest > 0]] = 0.0
    result: NDArray[np.float64] = totals[sessions] / best
    return result
