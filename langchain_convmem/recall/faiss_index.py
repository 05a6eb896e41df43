"""The line index for owners with many lines. The only file importing FAISS."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from langchain_convmem.errors import ConfigError
from langchain_convmem.recall.exact_index import (
    ExactIndex,
    checked_query,
    checked_rows,
    inverse_lengths,
    nearest,
)
from langchain_convmem.words.bm25 import Growable

if TYPE_CHECKING:
    from numpy.typing import NDArray


Bits: TypeAlias = Literal[8, 16]


"""What a component of a vector takes in memory."""


_BYTE_STEPS = 127


_BYTE_ZERO = 128


_CONVERT_ROWS = 10_000


# The only list of the index, and that vectors stand in it as they are, not as a difference.
_LIST = 0


_BY_RESIDUAL = False


class FaissIndex:
    """Vectors in half precision or in bytes, searched by FAISS: a full scan in the calling thread.

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
        kinds: Any = faiss.ScalarQuantizer
        kind = kinds.QT_8bit_direct_signed if self._in_bytes else kinds.QT_fp16
        center = np.zeros((1, dim), dtype=np.float32)
        quantizer = faiss.IndexFlatIP(dim)
        quantizer.add(center)
        # One inverted list with every vector, in ascending number: FAISS scans it in the calling
        # thread when there is one question. Its `IndexScalarQuantizer` starts threads even then,
        # which wait for each other on a busy machine and do not survive a fork, and takes about
        # thirty times as long for the similarities of all vectors.
        self._index: Any = faiss.IndexIVFScalarQuantizer(
            quantizer, dim, 1, kind, faiss.METRIC_INNER_PRODUCT, _BY_RESIDUAL
        )
        self._index.train(center)
        self._reserved = 0
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
        return len(self._kept)

    def add(self, vectors: NDArray[np.floating[Any]]) -> None:
        """Append vectors; their numbers continue the earlier ones (see `ExactIndex.add`)."""
        rows = checked_rows(vectors, self.dim)
        if not len(rows):
            return
        codes: NDArray[Any] = vectors
        if not self._is_kept_so(vectors, rows):
            rows = self._rounded(rows)
            codes = self._encoded(rows)
        # `add` would start threads to make the codes.
        self._index.add_sa_codes(np.ascontiguousarray(codes).view(np.uint8))
        self._inverse.extend(inverse_lengths(rows))
        self._kept.extend(np.ones(len(rows), dtype=np.bool_))

    def reserve(self, length: int) -> None:
        """Make room for so many vectors in all."""
        if length > max(len(self), self._reserved):
            lists = self._index.invlists
            # A list that was longer keeps its memory.
            lists.resize(_LIST, length)
            lists.resize(_LIST, len(self))
            self._reserved = length

    def replace(self, number: int, vector: NDArray[np.float32]) -> None:
        """Put another vector at `number`; a removed number stays removed."""
        row = self._rounded(checked_rows(np.asarray(vector)[None], self.dim))
        # FAISS does not check where it writes.
        number = range(len(self))[number]
        code = self._encoded(row).view(np.uint8)
        self._index.invlists.update_entry(_LIST, number, number, self._faiss.swig_ptr(code))
        self._inverse.view[number] = inverse_lengths(row)[0]

    def remove(self, numbers: Iterable[int]) -> None:
        """Take vectors out of every later search. Idempotent."""
        self._kept.view[list(numbers)] = False

    def search(
        self, query: NDArray[np.float32], k: int, *, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return numbers and cosine similarities of the k nearest (see `ExactIndex.search`)."""
        asked = self._question(query)
        mask = self._kept.view & (self._inverse.view > 0)
        if allowed is not None:
            mask &= allowed
        if not asked.any():
            # Everything is equally far from a query that says nothing.
            mask[:] = False
        numbers, rough = self._compared(asked, mask)
        return nearest(numbers, rough, k, lambda some: self._one_by_one(asked, some))

    def similarities(
        self, query: NDArray[np.float32], numbers: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """Return the cosine similarity of the given numbers (None: of all), in order."""
        asked = self._question(query)
        if numbers is None:
            return self._compared(asked)[1]
        wanted = np.zeros(len(self), dtype=np.bool_)
        wanted[numbers] = True
        found, result = self._compared(asked, wanted)
        return result[found.searchsorted(numbers)]

    def row(self, number: int) -> NDArray[np.float32] | None:
        """Return a vector of about unit length as it was added; None if it is kept in bytes."""
        return None if self._in_bytes else self._decoded(number)

    def unit_rows(self, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors of some numbers at length 1; zeros for one that was removed."""
        scale = self._inverse.view[numbers] * self._kept.view[numbers]
        result: NDArray[np.float32] = self._decoded(numbers) * scale[:, None]
        return result

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

    def _encoded(self, rows: NDArray[np.float32]) -> NDArray[Any]:
        """Return the codes that FAISS keeps of rounded rows."""
        if self._in_bytes:
            return (rows + _BYTE_ZERO).astype(np.uint8)
        return rows.astype(np.float16)

    def _decoded(self, at: int | NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the rounded row at a number, or those at several."""
        # `sa_decode` and `reconstruct` start threads in some releases.
        codes = self._faiss.rev_swig_ptr(
            self._index.invlists.get_codes(_LIST), len(self) * self._index.code_size
        )
        kind = np.uint8 if self._in_bytes else np.float16
        rows: NDArray[np.float32] = codes.view(kind).reshape(-1, self.dim)[at].astype(np.float32)
        if self._in_bytes:
            rows -= _BYTE_ZERO
        return rows

    def _question(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        vector = checked_query(query, self.dim)
        return self._rounded(vector) if self._in_bytes else vector

    # -- comparing ---------------------------------------------------------------------------

    def _compared(
        self, asked: NDArray[np.float32], wanted: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the wanted numbers (None: all), ascending, and their cosine similarities."""
        faiss, inverse, parameters = self._faiss, self._inverse.view, None
        if wanted is not None and not wanted.all():
            inverse = inverse[wanted]
            bits = np.packbits(wanted, bitorder="little")
            parameters = faiss.IVFSearchParameters(sel=faiss.IDSelectorBitmap(bits))
        _, result, numbers = self._index.range_search(asked[None], -np.inf, params=parameters)
        result *= inverse
        return numbers, self._per_length(result, asked)

    def _one_by_one(
        self, asked: NDArray[np.float32], numbers: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        products: NDArray[np.float32] = (self._decoded(numbers) * asked).sum(
            axis=1, dtype=np.float32
        )
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
