"""The exact line index: one product per vector and search. The reference for every other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from langchain_convmem.errors import ConfigError, DimensionMismatchError
from langchain_convmem.words.bm25 import Growable

if TYPE_CHECKING:
    from numpy.typing import NDArray


# More than the rounding error of a matrix product of unit vectors, less than any difference that
# means something: vectors this close to the k-th are compared again, bit by bit.
_SLACK = np.float32(1e-5)


_COPY_COST = 4


def inverse_lengths(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return 1 / length of each row (float32), or of one vector; 0 for a zero vector."""
    # What `np.linalg.norm` does, without what it does around it.
    lengths = np.asarray(np.sqrt(np.add.reduce(rows * rows, axis=-1)))
    result: NDArray[np.float32] = np.divide(
        np.float32(1), lengths, out=np.zeros_like(lengths), where=lengths > 0
    )
    return result


def unit_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the rows scaled to length 1 (float32); zero rows stay zero."""
    rows = np.asarray(vectors, dtype=np.float32)
    return rows * inverse_lengths(rows)[..., None]


def checked_rows(vectors: NDArray[np.floating[Any]], dim: int) -> NDArray[np.float32]:
    """Return vectors of shape (n, dim) in single precision.

    Raises:
        DimensionMismatchError: If the second axis is not `dim`.
    """
    rows = np.asarray(vectors, dtype=np.float32)
    if rows.ndim != 2 or rows.shape[1] != dim:  # noqa: PLR2004 - rows and components
        raise _mismatch(dim, rows.shape[-1] if rows.ndim else 0)
    return rows


def checked_query(query: NDArray[np.float32], dim: int) -> NDArray[np.float32]:
    """Return a query of shape (dim,) at unit length.

    Raises:
        DimensionMismatchError: If it does not have `dim` components.
    """
    vector = np.asarray(query, dtype=np.float32)
    if vector.shape != (dim,):
        raise _mismatch(dim, vector.size)
    length = math.sqrt(np.vecdot(vector, vector))
    return vector / np.float32(length) if length else vector


def _mismatch(expected: int, got: int) -> DimensionMismatchError:
    msg = (
        f"the index holds vectors of {expected} components, got {got}: one index serves one "
        "embedder; build another index for another embedder"
    )
    return DimensionMismatchError(msg, expected=expected, got=got)


def nearest(
    numbers: NDArray[np.int64],
    rough: NDArray[np.float32],
    k: int,
    one_by_one: Callable[[NDArray[np.int64]], NDArray[np.float32]],
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the k numbers of highest similarity, highest first, ties ascending.

    Args:
        numbers: What is compared, ascending.
        rough: Their similarities, from all compared at once: rounded by their place in memory,
            so that equal vectors may not tie.
        k: Fewer come back when there are fewer numbers.
        one_by_one: Returns the similarities of some numbers, each rounded alike.
    """
    if k <= 0 or not len(numbers):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
    if k < len(numbers):
        kth = np.partition(rough, len(rough) - k)[len(rough) - k]
        numbers = numbers[rough >= kth - _SLACK]
    similarities = one_by_one(numbers)
    order = np.argsort(-similarities, kind="stable")[:k]
    return numbers[order], similarities[order]


class ExactIndex:
    """Vectors in one growing matrix, searched by a full scan. Not thread-safe."""

    def __init__(self, dim: int) -> None:
        """Create an empty index of vectors of `dim` components.

        Raises:
            ConfigError: If `dim` is not positive.
        """
        if dim < 1:
            msg = f"dim must be at least 1, got {dim}"
            raise ConfigError(msg)
        self.dim = dim
        self._rows = Growable(np.float32, dim)
        # That of a zero vector is 0, and so is every cosine with it.
        self._inverse = Growable(np.float32)
        self._kept = Growable(np.bool_)

    def __len__(self) -> int:
        """Return how many vectors were added, removed ones included."""
        return len(self._rows)

    @property
    def rows(self) -> NDArray[np.float32]:
        """Every vector by number as it was added, removed ones included; do not write."""
        return self._rows.view

    def row(self, number: int) -> NDArray[np.float32]:
        """Return the vector at `number` as it was added; do not write."""
        result: NDArray[np.float32] = self._rows.view[number]
        return result

    def unit_rows(self, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors of some numbers at length 1; zeros for one that was removed."""
        scale = self._inverse.view[numbers] * self._kept.view[numbers]
        result: NDArray[np.float32] = self._rows.view[numbers] * scale[:, None]
        return result

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Whether a number was not removed; do not write."""
        return self._kept.view

    @property
    def searchable(self) -> NDArray[np.bool_]:
        """Whether a number can be found: not removed, and not the zero vector."""
        result: NDArray[np.bool_] = self._kept.view & (self._inverse.view > 0)
        return result

    def add(self, vectors: NDArray[np.floating[Any]]) -> None:
        """Append vectors; their numbers continue the earlier ones.

        Args:
            vectors: Shape (n, dim). Need not be unit length; a zero vector is similar to nothing.

        Raises:
            DimensionMismatchError: If the second axis is not `dim`.
        """
        rows = checked_rows(vectors, self.dim)
        self._rows.extend(rows)
        self._inverse.extend(inverse_lengths(rows))
        self._kept.extend(np.ones(len(rows), dtype=np.bool_))

    def reserve(self, length: int) -> None:
        """Make room for so many vectors in all."""
        self._rows.reserve(length)

    def replace(self, number: int, vector: NDArray[np.float32]) -> None:
        """Put another vector at `number`; a removed number stays removed."""
        row = checked_rows(np.asarray(vector)[None], self.dim)
        self._rows.view[number] = row
        self._inverse.view[number] = inverse_lengths(row)[0]

    def remove(self, numbers: Iterable[int]) -> None:
        """Take vectors out of every later search. Idempotent."""
        self._kept.view[list(numbers)] = False

    def search(
        self, query: NDArray[np.float32], k: int, *, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the numbers and cosine similarities of the k nearest, nearest first.

        Args:
            query: Shape (dim,), any length.
            k: Fewer come back when fewer are searchable.
            allowed: Shape (len(self),); only numbers that are True are searched.

        Returns:
            Two arrays of equal length; ties in ascending number.

        Raises:
            DimensionMismatchError: If `query` does not have `dim` components.
        """
        vector = checked_query(query, self.dim)
        mask = self.searchable if allowed is None else self.searchable & allowed
        # Everything is equally far from a query that says nothing.
        numbers = np.flatnonzero(mask) if vector.any() else np.empty(0, dtype=np.int64)
        # Multiplying rows in vain is cheaper than copying nearly all of them.
        if len(numbers) * _COPY_COST < len(self):
            rough = self.similarities(vector, numbers)
        else:
            rough = self.similarities(vector)[numbers]
        return nearest(numbers, rough, k, lambda some: self._one_by_one(vector, some))

    def _one_by_one(
        self, query: NDArray[np.float32], numbers: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        result: NDArray[np.float32] = (self.rows[numbers] * query).sum(axis=1, dtype=np.float32)
        result *= self._inverse.view[numbers]
        return result

    def similarities(
        self, query: NDArray[np.float32], numbers: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """Return the cosine similarity of the given numbers (None: of all), in order."""
        vector = checked_query(query, self.dim)
        at = slice(None) if numbers is None else numbers
        # Not `rows @ query`: BLAS shares that out to threads, and where other work keeps a core
        # busy, waiting for the last of them takes twenty times as long as the product.
        result: NDArray[np.float32] = np.vecdot(self.rows[at], vector)
        result *= self._inverse.view[at]
        return result
