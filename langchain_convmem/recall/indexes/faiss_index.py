"""The line index for owners with many lines. The only file importing FAISS."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from langchain_convmem.errors import ConfigError
from langchain_convmem.recall.indexes.exact_index import (
    ExactIndex,
    checked_query,
    checked_rows,
    inverse_lengths,
    nearest,
)
from langchain_convmem.recall.indexes.growable import Growable

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Bits", "FaissIndex"]

Bits: TypeAlias = Literal[8, 16]
"""What a component of a vector takes in memory."""

_BYTE_STEPS = 127
_BYTE_ZERO = 128
_NUMBERED_BY_PLACE = True
_CONVERT_ROWS = 10_000
# A gathered copy of some vectors and their scan cost about as much as scanning four times as many.
_GATHER_COST = 4


class FaissIndex:
    """Vectors in half precision or in bytes, searched by a full scan with FAISS's kernels.

    A scan takes as long as it takes to read the vectors, so shorter ones are compared faster. With
    16 bits, vectors that were rounded to half precision before are kept as they are. With 8,
    vectors and questions are rounded to 127 steps on each side of 0, and cosines are off by some
    thousandths.

    Not thread-safe. FAISS is imported when the first index is made.
    """

    def __init__(self, dim: int, *, bits: Bits = 16) -> None:
        """Create an empty index of vectors of `dim` components.

        Raises:
            ConfigError: If `dim` is not positive, or `bits` neither 8 nor 16.
        """
        if dim < 1 or bits not in {8, 16}:
            msg = f"dim must be at least 1 and bits 8 or 16, got {dim!r} and {bits!r}"
            raise ConfigError(msg)
        import faiss

        self._faiss: Any = faiss
        self.dim = dim
        self._in_bytes = bits == 8  # noqa: PLR2004
        codec: Any = faiss.ScalarQuantizer
        self._codec = codec(dim, codec.QT_8bit_direct_signed if self._in_bytes else codec.QT_fp16)
        # Not an index of FAISS: that would start threads, which wait for each other on a busy
        # machine and do not survive a fork. One for all searches, since nothing frees it.
        self._scanner: Any = self._codec.select_InvertedListScanner(
            faiss.METRIC_INNER_PRODUCT, None, _NUMBERED_BY_PLACE, None
        )
        self._scanner.set_list(0, 0.0)
        self._codes = Growable(np.uint8 if self._in_bytes else np.float16, dim)
        # That of a zero vector is 0, and so is every cosine with it.
        self._inverse = Growable(np.float32)
        self._kept = Growable(np.bool_)

    @classmethod
    def over(cls, exact: ExactIndex, *, bits: Bits = 16) -> FaissIndex:
        """Return an index of the vectors of `exact`, removed ones included."""
        index = cls(exact.dim, bits=bits)
        for start in range(0, len(exact), _CONVERT_ROWS):
            index.add(exact.rows[start : start + _CONVERT_ROWS])
        index.remove(np.flatnonzero(~exact.kept).tolist())
        return index

    def __len__(self) -> int:
        """Return how many vectors were added, removed ones included."""
        return len(self._codes)

    def add(self, vectors: NDArray[np.floating[Any]]) -> None:
        """Append vectors; their numbers continue the earlier ones (see `LineIndex.add`)."""
        rows = checked_rows(vectors, self.dim)
        codes: NDArray[Any] = vectors
        if not self._is_kept_so(vectors, rows):
            rows = self._rounded(rows)
            codes = self._encoded(rows)
        self._codes.extend(codes)
        self._inverse.extend(inverse_lengths(rows))
        self._kept.extend(np.ones(len(rows), dtype=np.bool_))

    def reserve(self, length: int) -> None:
        """Make room for so many vectors in all."""
        self._codes.reserve(length)

    def replace(self, number: int, vector: NDArray[np.float32]) -> None:
        """Put another vector at `number`; a removed number stays removed."""
        row = self._rounded(checked_rows(np.asarray(vector)[None], self.dim))
        self._codes.view[number] = self._encoded(row)
        self._inverse.view[number] = inverse_lengths(row)[0]

    def remove(self, numbers: Iterable[int]) -> None:
        """Take vectors out of every later search. Idempotent."""
        self._kept.view[list(numbers)] = False

    def search(
        self, query: NDArray[np.float32], k: int, *, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return numbers and cosine similarities of the k nearest (see `LineIndex.search`)."""
        asked = self._question(query)
        mask = self._kept.view & (self._inverse.view > 0)
        if allowed is not None:
            mask &= allowed
        # Everything is equally far from a query that says nothing.
        numbers = np.flatnonzero(mask) if asked.any() else np.empty(0, dtype=np.int64)
        if len(numbers) * _GATHER_COST < len(self):
            rough = self.similarities(query, numbers)
        else:
            rough = self.similarities(query)[numbers]
        return nearest(numbers, rough, k, lambda some: self._one_by_one(asked, some))

    def similarities(
        self, query: NDArray[np.float32], numbers: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """Return the cosine similarity of the given numbers (None: of all), in order."""
        asked = self._question(query)
        at = slice(None) if numbers is None else numbers
        result = self._products(self._codes.view[at], asked)
        result *= self._inverse.view[at]
        return self._per_length(result, asked)

    def row(self, number: int) -> NDArray[np.float32] | None:
        """Return a vector of about unit length as it was added; None if it is kept in bytes."""
        return None if self._in_bytes else self._codes.view[number].astype(np.float32)

    # -- rounding ----------------------------------------------------------------------------

    def _rounded(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return rows, or one, as they are kept: scaled, since no length counts, and rounded."""
        if self._in_bytes:
            highest = np.abs(rows).max(axis=-1, keepdims=True)
            scale = np.divide(_BYTE_STEPS, highest, out=np.zeros_like(highest), where=highest > 0)
            steps: NDArray[np.float32] = np.rint(rows * scale)
            return steps
        # By a power of two, so that what is in half precision already stays as it is.
        scaled: NDArray[np.float32] = rows * np.exp2(-_powers(rows))
        return scaled.astype(np.float16).astype(np.float32)

    def _is_kept_so(self, given: NDArray[Any], rows: NDArray[np.float32]) -> bool:
        """Return whether rows stay as they were given, which takes longer to do than to see."""
        is_half = np.asarray(given).dtype == np.float16 and not self._in_bytes
        return is_half and not _powers(rows).any()

    def _encoded(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        return rows + _BYTE_ZERO if self._in_bytes else rows

    def _question(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        vector = checked_query(query, self.dim)
        return self._rounded(vector) if self._in_bytes else vector

    # -- comparing ---------------------------------------------------------------------------

    def _products(self, codes: NDArray[Any], asked: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the inner product of each row of codes with what is asked."""
        faiss, count = self._faiss, len(codes)
        if not count:
            return np.zeros(0, dtype=np.float32)
        self._scanner.set_query(faiss.swig_ptr(asked))
        found = faiss.RangeSearchResult(1)
        found.buffer_size = count
        part = faiss.RangeSearchPartialResult(found)
        self._scanner.scan_codes_range(
            count, faiss.swig_ptr(codes.view(np.uint8)), None, -np.inf, part.new_result(0)
        )
        part.finalize()
        result: NDArray[np.float32] = faiss.rev_swig_ptr(found.distances, count).copy()
        return result

    def _one_by_one(
        self, asked: NDArray[np.float32], numbers: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        rows = self._codes.view[numbers].astype(np.float32)
        if self._in_bytes:
            rows -= _BYTE_ZERO
        products: NDArray[np.float32] = (rows * asked).sum(axis=1, dtype=np.float32)
        return self._per_length(products * self._inverse.view[numbers], asked)

    def _per_length(
        self, products: NDArray[np.float32], asked: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        if self._in_bytes:
            products *= inverse_lengths(asked)
        return products


def _powers(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the power of two that is nearest to each row's length; 0 for a zero vector."""
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    powers: NDArray[np.float32] = np.log2(lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return np.rint(powers, out=powers)
