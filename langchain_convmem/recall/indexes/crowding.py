"""How crowded it is around each vector: what its nearest few have in common with it.

In any collection some vectors are near to everything: long texts, and texts about what is talked of
all the time. Their cosine with a question says less than that of a text which stands alone. Taking
a share of a vector's crowding from its cosines corrects that (cross-domain similarity local
scaling: Conneau et al. 2018, section 2.3).

The nearest are looked for in a sample, so that a vector that is added costs a few hundred products.
Adding one by one gives the same as building it from all. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Crowding", "Rows"]

Rows: TypeAlias = "Callable[[NDArray[np.int64]], NDArray[np.float32]]"
"""Returns the unit vectors of some numbers; zeros where there is none."""

_NEAREST = 5
# Fewer where the sample is small, and none at first: of ten texts five are no crowd.
_SAMPLED_FOR_EACH = 16
_SAMPLE = 256
_AT_ONCE = 2048
# Nearer ones say the same once more, as templates and repetitions do, which is no crowd.
_THE_SAME = 0.85


class Crowding:
    """The mean cosine of each vector with its nearest few; grows with the vectors."""

    def __init__(self) -> None:
        """Create one for no vectors."""
        self._step = 1
        self._nearest = np.empty((0, _NEAREST), dtype=np.float32)
        self._column = np.empty(0, dtype=np.float32)

    def column(
        self, rows: Rows, lines: NDArray[np.int64], late: Collection[int] = ()
    ) -> NDArray[np.float32]:
        """Return how crowded it is around each vector; do not write.

        Args:
            rows: Returns vectors.
            lines: Line of each vector, by number. Vectors of one line are no crowd.
            late: Numbers whose vector has come since this was asked for last.
        """
        known, count = len(self._nearest), len(lines)
        if count == known and not late:
            return self._column
        step = self._step
        while count > step * _SAMPLE:
            step *= 2
        if step > self._step:
            self._step, known = step, 0
        changed = np.array([*(n for n in late if n < known), *range(known, count)], dtype=np.int64)
        nearest = np.zeros((count, _NEAREST), dtype=np.float32)
        nearest[:known] = self._nearest[:known]
        sample = np.arange(0, count, step)
        for some in _in_parts(changed):
            nearest[some] = _highest(_cosines(rows, some, sample, lines))
        joined = changed[changed % step == 0]
        others = np.setdiff1d(np.arange(known), changed) if len(joined) else changed[:0]
        for some in _in_parts(others):
            cosines = _cosines(rows, some, joined, lines)
            nearest[some] = _highest(np.concatenate([nearest[some], cosines], axis=1))
        few = min(len(sample) // _SAMPLED_FOR_EACH, _NEAREST)
        column = nearest[:, -few:].mean(axis=1) if few else np.zeros(count, dtype=np.float32)
        self._nearest, self._column = nearest, column
        return self._column


def _in_parts(numbers: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return [numbers[start : start + _AT_ONCE] for start in range(0, len(numbers), _AT_ONCE)]


def _cosines(
    rows: Rows, numbers: NDArray[np.int64], others: NDArray[np.int64], lines: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return the cosines of vectors with others, 0 where these say nothing about a crowd."""
    cosines: NDArray[np.float32] = rows(numbers) @ rows(others).T
    cosines[cosines > _THE_SAME] = 0.0
    cosines[lines[numbers][:, None] == lines[others]] = 0.0
    return cosines


def _highest(cosines: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the few highest of each row, ascending, none of them below 0."""
    few = min(_NEAREST, cosines.shape[1])
    highest = np.zeros((len(cosines), _NEAREST), dtype=np.float32)
    if few:
        best = np.partition(cosines, cosines.shape[1] - few, axis=1)[:, -few:]
        highest[:, _NEAREST - few :] = np.sort(np.maximum(best, 0.0), axis=1)
    return highest
