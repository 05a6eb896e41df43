"""The exact line index: one matrix product per search. The reference for every other index."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from langchain_convmem.errors import ConfigError, DimensionMismatchError
from langchain_convmem.recall.growable import Growable

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ExactIndex", "checked_query", "checked_rows", "nearest", "unit_rows"]

# More than the rounding error of a matrix product of unit vectors, less than any difference that
# means something: vectors this close to the k-th are compared again, bit by bit.
_SLACK = np.float32(1e-5)
_COPY_COST = 4


def unit_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the rows scaled to length 1 (float32); zero rows stay zero."""
    rows = np.asarray(vectors, dtype=np.float32)
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    result: NDArray[np.float32] = np.divide(
        rows, lengths, out=np.zeros_like(rows), where=lengths > 0
    )
    return result


def checked_rows(vectors: NDArray[np.float32], dim: int) -> NDArray[np.float32]:
    """Return vectors of shape (n, dim) as unit rows.

    Raises:
        DimensionMismatchError: If the second axis is not `dim`.
    """
    rows = np.asarray(vectors, dtype=np.float32)
    if rows.ndim != 2 or rows.shape[1] != dim:  # noqa: PLR2004 - rows and components
        raise _mismatch(dim, rows.shape[-1] if rows.ndim else 0)
    return unit_rows(rows)


def checked_query(query: NDArray[np.float32], dim: int) -> NDArray[np.float32]:
    """Return a query of shape (dim,) at unit length.

    Raises:
        DimensionMismatchError: If it does not have `dim` components.
    """
    vector = np.asarray(query, dtype=np.float32)
    if vector.shape != (dim,):
        raise _mismatch(dim, vector.size)
    return unit_rows(vector)


def _mismatch(expected: int, got: int) -> DimensionMismatchError:
    msg = (
        f"the index holds vectors of {expected} components, got {got}: one index serves one "
        "embedder; build another index for another embedder"
    )
    return DimensionMismatchError(msg, expected=expected, got=got)


def nearest(
    rows: NDArray[np.float32], numbers: NDArray[np.int64], query: NDArray[np.float32], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the k rows nearest to `query` among `numbers`, nearest first, ties ascending.

    Args:
        rows: Unit rows by number, shape (n, dim).
        numbers: The rows to compare, ascending.
        query: Unit vector, shape (dim,).
        k: Fewer come back when there are fewer numbers.
    """
    if k <= 0 or not len(numbers):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
    if k < len(numbers):
        # Multiplying rows in vain is cheaper than copying nearly all of them.
        few = len(numbers) * _COPY_COST < len(rows)
        rough = _products(rows[numbers], query) if few else _products(rows, query)[numbers]
        kth = np.partition(rough, len(rough) - k)[len(rough) - k]
        numbers = numbers[rough >= kth - _SLACK]
    # A matrix product rounds by position in the matrix, so equal vectors would not tie.
    similarities = (rows[numbers] * query).sum(axis=1, dtype=np.float32)
    order = np.argsort(-similarities, kind="stable")[:k]
    return numbers[order], similarities[order]


def _products(rows: NDArray[np.float32], query: NDArray[np.float32]) -> NDArray[np.float32]:
    # Not `rows @ query`: BLAS shares that out to threads, and where other work keeps a core busy,
    # waiting for the last of them takes twenty times as long as the product.
    result: NDArray[np.float32] = np.vecdot(rows, query)
    return result


class ExactIndex:
    """Unit vectors in one growing matrix, searched by a full scan. Not thread-safe."""

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
        self._kept = Growable(np.bool_)
        self._nonzero = Growable(np.bool_)

    def __len__(self) -> int:
        """Return how many vectors were added, removed ones included."""
        return len(self._rows)

    @property
    def rows(self) -> NDArray[np.float32]:
        """Every vector by number at unit length, removed ones included; do not write."""
        return self._rows.view

    @property
    def searchable(self) -> NDArray[np.bool_]:
        """Whether a number can be found: not removed, and not the zero vector."""
        result: NDArray[np.bool_] = self._kept.view & self._nonzero.view
        return result

    def add(self, vectors: NDArray[np.float32]) -> None:
        """Append vectors; their numbers continue the earlier ones (see `LineIndex.add`)."""
        rows = checked_rows(vectors, self.dim)
        self._rows.extend(rows)
        self._nonzero.extend(rows.any(axis=1))
        self._kept.extend(np.ones(len(rows), dtype=np.bool_))

    def replace(self, number: int, vector: NDArray[np.float32]) -> None:
        """Put another vector at `number`; a removed number stays removed."""
        row = checked_query(vector, self.dim)
        self._rows.view[number] = row
        self._nonzero.view[number] = row.any()

    def remove(self, numbers: Iterable[int]) -> None:
        """Take vectors out of every later search. Idempotent."""
        self._kept.view[list(numbers)] = False

    def search(
        self, query: NDArray[np.float32], k: int, *, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return numbers and cosine similarities of the k nearest (see `LineIndex.search`)."""
        vector = checked_query(query, self.dim)
        mask = self.searchable if allowed is None else self.searchable & allowed
        # Everything is equally far from a query that says nothing.
        numbers = np.flatnonzero(mask) if vector.any() else np.empty(0, dtype=np.int64)
        return nearest(self.rows, numbers, vector, k)

    def similarities(
        self, query: NDArray[np.float32], numbers: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """Return the cosine similarity of the given numbers (None: of all), in order."""
        vector = checked_query(query, self.dim)
        rows = self.rows if numbers is None else self.rows[numbers]
        return _products(rows, vector)
