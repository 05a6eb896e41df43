"""The vectors of an index's segments, searched by FAISS.

Vectors are rounded to half precision at unit length on the way in: what comes back from storage
equals what was computed, and a warm index answers exactly like a cold one. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from langchain_convmem.words.bm25 import GrowableArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float16]

_LIST = 0


def round_vector(vector: Any) -> Vector:
    """Return a vector, or each row, at unit length in half precision; zero stays zero."""
    rows = np.asarray(vector, dtype=np.float32)
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    unit: Vector = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0).astype(
        np.float16
    )
    return unit


class SegmentVectors:
    """Vectors by segment number. A missing one is a zero vector until it is filled in."""

    def __init__(self) -> None:
        """Create an empty store."""
        self.dim: int | None = None
        """Components of a vector; None before the first one."""
        self.missing: set[int] = set()
        """Numbers whose embedding is pending."""
        self._index: Any = None
        self._present = GrowableArray(np.bool_)
        self._removed: set[int] = set()

    def __len__(self) -> int:
        """Return how many numbers there are, missing and removed ones included."""
        return len(self._present)

    @property
    def present(self) -> NDArray[np.bool_]:
        """Whether a number has a vector that is similar to anything; do not write."""
        return self._present.view

    # -- writing ----------------------------------------------------------------------------------

    def extend(self, vectors: Sequence[Vector | None]) -> None:
        """Append rounded vectors; None, or one of another length than the first, is missing."""
        first, count = len(self), len(vectors)
        self._present.extend(np.zeros(count, dtype=np.bool_))
        self.missing.update(range(first, first + count))
        if self._index is not None:
            self._append_zeros(count)
        self.fill({n: one for n, one in enumerate(vectors, first) if one is not None})

    def fill(self, made: Mapping[int, Vector]) -> None:
        """Put vectors where they were missing; a removed number is only no longer missing."""
        self.missing.difference_update(self._removed & made.keys())
        given = {n: one for n, one in made.items() if n not in self._removed}
        if given and self._index is None:
            self._begin(len(next(iter(given.values()))))
        fitting = [n for n, one in given.items() if len(one) == self.dim]
        if fitting:
            rows = np.array([given[n] for n in fitting])
            self._get_codes()[fitting] = rows
            self._present.view[fitting] = rows.any(axis=1)
            self.missing.difference_update(fitting)

    def remove(self, numbers: Sequence[int]) -> None:
        """Take numbers out of what is compared. Idempotent."""
        self._present.view[list(numbers)] = False
        self._removed.update(numbers)
        self.missing.difference_update(numbers)

    def _begin(self, dim: int) -> None:
        """Make the index, with zeros for the numbers so far."""
        import faiss

        self.dim = dim
        center = np.zeros((1, dim), dtype=np.float32)
        quantizer = faiss.IndexFlatIP(dim)
        quantizer.add(center)
        # One inverted list with every vector, in ascending number: FAISS scans it in the calling
        # thread when there is one question. Its `IndexScalarQuantizer` starts threads even then,
        # which wait for each other on a busy machine and do not survive a fork, and takes about
        # thirty times as long for the similarities of all vectors.
        kind = faiss.ScalarQuantizer.QT_fp16
        by_residual = False
        self._index = faiss.IndexIVFScalarQuantizer(
            quantizer, dim, 1, kind, faiss.METRIC_INNER_PRODUCT, by_residual
        )
        self._index.train(center)
        self._append_zeros(len(self))

    def _append_zeros(self, count: int) -> None:
        if not count:
            return
        import faiss

        first = int(self._index.ntotal)
        numbers = np.arange(first, first + count, dtype=np.int64)
        codes = np.zeros((count, self._index.code_size), dtype=np.uint8)
        # `add` would start threads to make the codes, and `add_sa_codes` adds one by one.
        pointers = faiss.swig_ptr(numbers), faiss.swig_ptr(codes)
        self._index.invlists.add_entries(_LIST, count, *pointers)
        self._index.ntotal = first + count

    # -- reading ----------------------------------------------------------------------------------

    def copy(self) -> Vector:
        """Return every vector by number, shape (numbers, dim)."""
        return np.zeros((0, 0), np.float16) if self._index is None else self._get_codes().copy()

    def get_row(self, number: int) -> Vector | None:
        """Return the rounded vector at `number`; None where there is none."""
        return self._get_codes()[number].copy() if self._present.view[number] else None

    def similarities(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the cosine of every number with a vector of `dim`; 0 where there is none."""
        if self._index is None:
            return np.zeros(len(self), dtype=np.float32)
        length = np.sqrt(np.vecdot(query, query))
        unit = query / length if length else query
        found: NDArray[np.float32] = self._index.range_search(unit[None], -np.inf)[1]
        return found

    def _get_codes(self) -> Vector:
        """Return every vector by number as FAISS keeps it, until the next one is appended."""
        import faiss

        size = len(self) * self._index.code_size
        codes = faiss.rev_swig_ptr(self._index.invlists.get_codes(_LIST), size)
        found: Vector = codes.view(np.float16).reshape(len(self), -1)
        return found
