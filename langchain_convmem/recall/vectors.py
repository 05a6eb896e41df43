"""The vectors of one owner's segments: the right index for their number, and those still missing.

Vectors are rounded to half precision on the way in: what comes back from storage equals what was
computed, and a warm index answers exactly like a cold one. Not thread-safe.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from langchain_convmem.recall.exact_index import ExactIndex, unit_rows
from langchain_convmem.words.bm25 import Growable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_convmem.recall.faiss_index import Bits, FaissIndex
    from langchain_convmem.recall.settings import IndexName


HALF = np.dtype("<f2")


"""Components in their stored form: half precision, little endian."""


_PLAIN_ROWS = 5_000


"""Up to so many vectors NumPy is as fast as FAISS, which need not be imported.

`python -m benchmarks.recall_speed --crossover` prints from where on it is not.
"""


# About so many vectors tell what cosine chance gives.
_SAMPLE = 256


_NO_ROWS = np.empty((0, 0), dtype=np.float32)


# So many of them, the nearest to a question, tell how far apart an embedder sets texts like it.
_LIKE_IT = 16


def rounded(vector: Sequence[float] | NDArray[np.float32]) -> NDArray[np.float16]:
    """Return the vector at unit length in half precision; zero stays zero."""
    return unit_rows(np.asarray(vector, dtype=np.float32)).astype(np.float16)


def half_bytes(vector: NDArray[np.float16]) -> bytes:
    """Return the stored form of a rounded vector."""
    return vector.astype(HALF).tobytes()


class SegmentVectors:
    """Vectors by segment number. A missing one is a zero vector until it is filled in."""

    def __init__(
        self, *, index: IndexName = "auto", bits: Bits = 16, trusted_spread: float = 0.0
    ) -> None:
        """Create an empty store.

        Args:
            index: What searches the vectors: FAISS, NumPy, or each for the numbers that suit it.
            bits: What a component takes in memory where FAISS searches.
            trusted_spread: How far from equal (1 less their cosine) its embedder sets texts near
                to the same question, where it knows their language; 0 if that is not known.
        """
        self._trusted_spread = trusted_spread
        self._index_name: IndexName = index
        self._bits: Bits = bits
        self._index: ExactIndex | FaissIndex | None = None
        self._expected = 0
        self._present = Growable(np.bool_)
        self._removed: set[int] = set()
        self._sample: NDArray[np.float32] | None = None
        self.missing: set[int] = set()
        """Numbers whose embedding is pending."""
        self._crowding = Crowding()
        # Filled in since somebody asked how crowded it is.
        self._late: set[int] = set()

    def __len__(self) -> int:
        """Return how many numbers there are, missing and removed ones included."""
        return len(self._present)

    @property
    def dim(self) -> int | None:
        """Components of a vector; None before the first one."""
        return None if self._index is None else self._index.dim

    @property
    def present(self) -> NDArray[np.bool_]:
        """Whether a number has a vector that is similar to anything; do not write."""
        return self._present.view

    # -- writing -----------------------------------------------------------------------------

    def expect(self, count: int) -> None:
        """Choose the index for so many numbers to come, so that none moves later on."""
        self._expected = len(self) + count
        self._choose_index()

    def extend(self, vectors: NDArray[np.float16] | Sequence[NDArray[np.float16] | None]) -> None:
        """Append rounded vectors of equal length; None marks a number as missing.

        Raises:
            DimensionMismatchError: If one has another length than those before.
        """
        if not len(vectors):
            return
        first = len(self)
        self._sample = None
        self._present.extend(np.zeros(len(vectors), dtype=np.bool_))
        given = next((vector for vector in vectors if vector is not None), None)
        if self._index is None and given is not None:
            self._index = ExactIndex(len(given))
            self._index.add(np.zeros((first, self._index.dim), dtype=np.float32))
            self._choose_index()
        rows = vectors if isinstance(vectors, np.ndarray) else self._completed(vectors)
        if self._index is None:
            return
        self._index.add(rows)
        # As whole numbers without their sign: NumPy takes long over half precision.
        self._present.view[first:] = (rows.view(np.uint16) << 1).any(axis=1)
        self._choose_index()

    def _completed(self, vectors: Sequence[NDArray[np.float16] | None]) -> NDArray[np.float16]:
        """Return the vectors with zeros where there is none, which is noted."""
        first = len(self) - len(vectors)
        missing = [number for number, vector in enumerate(vectors, first) if vector is None]
        self.missing.update(missing)
        nothing = np.zeros(self.dim or 0, dtype=np.float16)
        rows = [nothing if vector is None else vector for vector in vectors]
        return np.array(rows, dtype=np.float16)

    def fill(self, numbers: Sequence[int], vectors: Sequence[NDArray[np.float16]]) -> None:
        """Put vectors where they were missing; a removed number is only no longer missing."""
        self._sample = None
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
        self._late.add(number)

    def remove(self, numbers: Sequence[int]) -> None:
        """Take numbers out of every later search. Idempotent."""
        gone = [number for number in numbers if number not in self._removed]
        if not gone:
            return
        if self._index is not None:
            self._index.remove(gone)
        self._present.view[gone] = False
        self._removed.update(gone)
        self._crowding = Crowding()
        self.missing.difference_update(gone)

    def _choose_index(self) -> None:
        """Take the index that suits the numbers that are expected, with room for them."""
        rows = max(len(self), self._expected)
        if isinstance(self._index, ExactIndex) and rows > self._plain_rows():
            from langchain_convmem.recall.faiss_index import FaissIndex

            self._index = FaissIndex.over(self._index, bits=self._bits)
        if self._index is not None:
            self._index.reserve(rows)

    def _plain_rows(self) -> int:
        """Return up to how many vectors NumPy searches."""
        if self._index_name == "numpy":
            return sys.maxsize
        is_short = self._bits == 8  # noqa: PLR2004
        return 0 if is_short or self._index_name == "faiss" else _PLAIN_ROWS

    # -- reading -----------------------------------------------------------------------------

    def row(self, number: int) -> NDArray[np.float16] | None:
        """Return the rounded vector at `number`, a removed one too; None where there is none.

        Nor is there one where vectors are kept shorter than they were given.
        """
        row = None if self._index is None else self._index.row(number)
        return None if row is None or not row.any() else row.astype(np.float16)

    def similarities(
        self, query: NDArray[np.float32], numbers: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """Return the cosine of the given numbers (None: of all); 0 where there is no vector."""
        if self._index is None:
            count = len(self) if numbers is None else len(numbers)
            return np.zeros(count, dtype=np.float32)
        return self._index.similarities(query, numbers)

    def unit_rows(self, numbers: Sequence[int]) -> NDArray[np.float32]:
        """Return the vectors of some numbers at unit length, zeros where there is none."""
        if self._index is None:
            return np.zeros((len(numbers), 0), dtype=np.float32)
        return self._index.unit_rows(np.array(numbers, dtype=np.int64))

    def sample(self) -> NDArray[np.float32]:
        """Return some hundred of the vectors at unit length, spaced evenly; empty without any.

        Do not write: it is kept until a vector comes or goes.
        """
        if self._index is None:
            return _NO_ROWS
        if self._sample is None:
            self._sample = self.unit_rows(range(0, len(self), max(len(self) // _SAMPLE, 1)))
        return self._sample

    def trust(self, query: NDArray[np.float32]) -> float:
        """Return how much the embedder knows of texts like the question, 0 to 1.

        To an embedder all texts of a language that it does not know look alike. How alike is an
        embedder's own matter, so this is 1 for all but those that declare a `trusted_spread`.
        """
        rows = self.sample() if self._trusted_spread else _NO_ROWS
        if len(rows) < _LIKE_IT:
            return 1.0
        nearest = rows[np.argpartition(rows @ -query, _LIKE_IT - 1)[:_LIKE_IT]]
        total = nearest.sum(axis=0)
        # In the squared length of the sum, each vector with itself makes 1.
        cosine = (float(total @ total) - _LIKE_IT) / (_LIKE_IT * (_LIKE_IT - 1))
        return min((1.0 - cosine) / self._trusted_spread, 1.0)

    def crowding(self, lines: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return how crowded it is around each vector, 0 where there is none; do not write.

        Args:
            lines: The line that each number belongs to.
        """
        if self._index is None:
            return np.zeros(len(lines), dtype=np.float32)
        late, self._late = self._late, set()
        return self._crowding.column(self._index.unit_rows, lines, late)


# -- How crowded it is around each vector ---------------------------------------------------------


Rows: TypeAlias = "Callable[[NDArray[np.int64]], NDArray[np.float32]]"


"""Returns the unit vectors of some numbers; zeros where there is none."""


_NEAREST = 5


# Fewer where the sample is small, and none at first: of ten texts five are no crowd.
_SAMPLED_FOR_EACH = 16


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
