"""The vectors of an index's segments, searched by FAISS.

Vectors are rounded to half precision at unit length on the way in: what comes back from storage
equals what was computed, and a warm index answers exactly like a cold one. Not thread-safe.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from langchain_convmem.errors import ConfigError
from langchain_convmem.words.bm25 import GrowableArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float16]

HALF = np.dtype("<f2")
"""Components in their stored form: half precision, little endian."""
_LIST = 0


def round_vector(vector: Any) -> Vector:
    """Return a vector, or each row, at unit length in half precision; zero stays zero."""
    rows = np.asarray(vector, dtype=np.float32)
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    unit: Vector = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0).astype(
        np.float16
    )
    return unit


def to_half_bytes(vector: Vector) -> bytes:
    """Return the stored form of a rounded vector."""
    return vector.astype(HALF).tobytes()


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
        """Append rounded vectors of equal length; None marks a number as missing.

        Raises:
            ConfigError: If one has another length than those before.
        """
        first = len(self)
        self._present.extend(np.zeros(len(vectors), dtype=np.bool_))
        self.missing.update(n for n, one in enumerate(vectors, first) if one is None)
        given = next((one for one in vectors if one is not None), None)
        if self._index is None and given is not None:
            self._begin(len(given), first)
        if self.dim is None:
            return
        nothing = np.zeros(self.dim, dtype=np.float16)
        rows = [nothing if one is None else self._check(one) for one in vectors]
        self._append(np.array(rows).reshape(-1, self.dim))

    def fill(self, made: Mapping[int, Vector]) -> None:
        """Put vectors where they were missing; a removed number is only no longer missing."""
        for number, vector in made.items():
            self.missing.discard(number)
            if number in self._removed:
                continue
            if self._index is None:
                self._begin(len(vector), len(self))
            code = self._check(vector).view(np.uint8)
            self._index.invlists.update_entry(_LIST, number, number, _get_pointer(code))
            self._present.view[number] = vector.any()

    def remove(self, numbers: Sequence[int]) -> None:
        """Take numbers out of what is compared. Idempotent."""
        self._present.view[list(numbers)] = False
        self._removed.update(numbers)
        self.missing.difference_update(numbers)

    def _begin(self, dim: int, count: int) -> None:
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
        self._append(np.zeros((count, dim), dtype=np.float16))

    def _append(self, rows: Vector) -> None:
        if not len(rows):
            return
        first, count = int(self._index.ntotal), len(rows)
        numbers = np.arange(first, first + count, dtype=np.int64)
        codes = np.ascontiguousarray(rows).view(np.uint8)
        # `add` would start threads to make the codes, and `add_sa_codes` adds one by one.
        self._index.invlists.add_entries(_LIST, count, _get_pointer(numbers), _get_pointer(codes))
        self._index.ntotal = first + count
        self._present.view[first : first + count] = rows.any(axis=1)

    def _check(self, vector: Vector) -> Vector:
        if len(vector) != self.dim:
            raise _make_mismatch(self.dim, len(vector))
        return vector

    # -- as arrays --------------------------------------------------------------------------------

    def save(self) -> dict[str, NDArray[Any]]:
        """Return copies of all there is, by name."""
        codes = np.zeros((0, 0), np.float16) if self._index is None else self._get_codes().copy()
        return {"codes": codes, "removed": np.array(sorted(self._removed), dtype=np.int64)}

    @classmethod
    def load(cls, saved: Mapping[str, NDArray[Any]], count: int) -> SegmentVectors:
        """Return the vectors of so many numbers of which `save` was asked, none missing.

        Raises:
            KeyError: If something is not there.
            ValueError: If it does not fit.
        """
        made, codes = cls(), saved["codes"]
        if codes.dtype != np.float16 or len(codes) not in (0, count):
            raise ValueError(f"{len(codes)} vectors for {count} segments")
        made._present.extend(np.zeros(count, dtype=np.bool_))
        if len(codes):
            made._begin(codes.shape[1], 0)
            made._append(codes)
        made.remove(saved["removed"].tolist())
        return made

    # -- reading ----------------------------------------------------------------------------------

    def get_row(self, number: int) -> Vector | None:
        """Return the rounded vector at `number`; None where there is none."""
        return self._get_codes()[number].copy() if self._present.view[number] else None

    def similarities(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the cosine of every number; 0 where there is no vector.

        Raises:
            ConfigError: If `query` has another number of components.
        """
        if self._index is None:
            return np.zeros(len(self), dtype=np.float32)
        if query.shape != (self.dim,):
            raise _make_mismatch(self.dim, query.size)
        found: NDArray[np.float32] = self._index.range_search(_to_unit(query)[None], -np.inf)[1]
        return found

    def _get_codes(self) -> Vector:
        """Return every vector by number as FAISS keeps it, until the next change; do not write."""
        import faiss

        size = len(self) * self._index.code_size
        codes = faiss.rev_swig_ptr(self._index.invlists.get_codes(_LIST), size)
        found: Vector = codes.view(np.float16).reshape(len(self), -1)
        return found


def _to_unit(query: NDArray[np.float32]) -> NDArray[np.float32]:
    length = np.float32(math.sqrt(np.vecdot(query, query)))
    return query / length if length else query


def _get_pointer(data: NDArray[Any]) -> Any:
    import faiss

    return faiss.swig_ptr(data)


def _make_mismatch(expected: int | None, got: int) -> ConfigError:
    msg = (
        f"the index holds vectors of {expected} components, got {got}: one index serves one "
        "embedder; build another index for another embedder"
    )
    return ConfigError(msg)
