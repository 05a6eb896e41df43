"""The vectors of one owner's segments: the right index for their number, and those still missing.

Vectors are rounded to half precision on the way in: what comes back from storage equals what was
computed, and a warm index answers exactly like a cold one. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from langchain_convmem.recall.exact_index import ExactIndex, unit_rows
from langchain_convmem.recall.fusion import Moments, Spread, spread_of
from langchain_convmem.recall.growable import Growable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_convmem.recall.faiss_index import FaissIndex

__all__ = ["SegmentVectors", "half_bytes", "rounded"]

_CONVERT_ROWS = 10_000


def rounded(vector: Sequence[float] | NDArray[np.float32]) -> NDArray[np.float16]:
    """Return the vector at unit length in half precision; zero stays zero."""
    return unit_rows(np.asarray(vector, dtype=np.float32)).astype(np.float16)


def half_bytes(vector: NDArray[np.float16]) -> bytes:
    """Return the stored form of a rounded vector: little endian."""
    return vector.astype("<f2").tobytes()


class SegmentVectors:
    """Vectors by segment number. A missing one is a zero vector until it is filled in."""

    def __init__(self, exact_limit: int) -> None:
        """Create an empty store that turns to an approximate index beyond `exact_limit`."""
        self._exact_limit = exact_limit
        self._index: ExactIndex | FaissIndex | None = None
        self._moments: Moments | None = None
        self._present = Growable(np.bool_)
        self._removed: set[int] = set()
        self.missing: set[int] = set()
        """Numbers whose embedding is pending."""

    def __len__(self) -> int:
        """Return how many numbers there are, missing and removed ones included."""
        return len(self._present)

    @property
    def dim(self) -> int | None:
        """Components of a vector; None before the first one."""
        return None if self._index is None else self._index.dim

    @property
    def is_exact(self) -> bool:
        """Whether every vector is compared in a search."""
        return self._moments is None

    @property
    def present(self) -> NDArray[np.bool_]:
        """Whether a number has a vector that is similar to anything; do not write."""
        return self._present.view

    # -- writing -----------------------------------------------------------------------------

    def extend(self, vectors: Sequence[NDArray[np.float16] | None]) -> None:
        """Append rounded vectors of equal length; None marks a number as missing.

        Raises:
            DimensionMismatchError: If one has another length than those before.
        """
        first = len(self)
        self._present.extend(np.zeros(len(vectors), dtype=np.bool_))
        given = {first + i: v for i, v in enumerate(vectors) if v is not None}
        self.missing.update(number for number in range(first, len(self)) if number not in given)
        if self._index is None and given:
            self._index = ExactIndex(len(next(iter(given.values()))))
            self._index.add(np.zeros((first, self._index.dim), dtype=np.float32))
        if self._index is None:
            return
        rows = np.zeros((len(vectors), self._index.dim), dtype=np.float32)
        for number, vector in given.items():
            rows[number - first] = vector
        self._index.add(rows)
        self._present.view[first:] = rows.any(axis=1)
        if self._moments is not None:
            self._moments.add(unit_rows(rows[rows.any(axis=1)]))
        self._choose_index()

    def fill(self, numbers: Sequence[int], vectors: Sequence[NDArray[np.float16]]) -> None:
        """Put vectors where they were missing; a removed number is only no longer missing."""
        for number, vector in zip(numbers, vectors, strict=True):
            if number not in self._removed:
                self._fill_one(number, vector.astype(np.float32))
        self.missing.difference_update(numbers)

    def _fill_one(self, number: int, vector: NDArray[np.float32]) -> None:
        if self._index is None:
            self._index = ExactIndex(len(vector))
            self._index.add(np.zeros((len(self), len(vector)), dtype=np.float32))
            self._choose_index()
        self._index.replace(number, vector)
        self._present.view[number] = vector.any()
        if self._moments is not None and vector.any():
            self._moments.add(unit_rows(vector[None, :]))

    def remove(self, numbers: Sequence[int]) -> None:
        """Take numbers out of every later search. Idempotent."""
        gone = [number for number in numbers if number not in self._removed]
        if not gone:
            return
        if self._index is not None:
            if self._moments is not None:
                rows = self._index.rows[gone]
                self._moments.add(rows[rows.any(axis=1)], sign=-1)
            self._index.remove(gone)
        self._present.view[gone] = False
        self._removed.update(gone)
        self.missing.difference_update(gone)

    def _choose_index(self) -> None:
        if not isinstance(self._index, ExactIndex) or len(self._index) <= self._exact_limit:
            return
        from langchain_convmem.recall.faiss_index import FaissIndex

        self._moments = Moments(self._index.dim)
        kept = self._index.rows[self._present.view]
        for start in range(0, len(kept), _CONVERT_ROWS):
            self._moments.add(kept[start : start + _CONVERT_ROWS])
        self._index = FaissIndex.over(self._index)

    # -- reading -----------------------------------------------------------------------------

    def similarities(
        self, query: NDArray[np.float32], numbers: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """Return the cosine of the given numbers (None: of all); 0 where there is no vector."""
        if self._index is None:
            count = len(self) if numbers is None else len(numbers)
            return np.zeros(count, dtype=np.float32)
        return self._index.similarities(query, numbers)

    def nearest(
        self, query: NDArray[np.float32], k: int, allowed: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Return the numbers of the k nearest vectors among the allowed ones, nearest first."""
        if self._index is None:
            return np.empty(0, dtype=np.int64)
        return self._index.search(query, k, allowed=allowed)[0]

    def spread(self, query: NDArray[np.float32]) -> Spread:
        """Return the spread of the cosines of all present vectors, without comparing them."""
        if self._moments is None:
            return spread_of(self.similarities(query)[self.present])
        return self._moments.spread(unit_rows(query))
