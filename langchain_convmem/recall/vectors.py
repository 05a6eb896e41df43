"""The vectors of one owner's segments, and the two indexes that search them: NumPy's and FAISS's.

Vectors are rounded to half precision on the way in: what comes back from storage equals what was
computed, and a warm index answers exactly like a cold one. Not thread-safe.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from langchain_convmem.errors import ConfigError
from langchain_convmem.words.columns import GrowableArray, SavedColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray


IndexName: TypeAlias = Literal["auto", "faiss", "numpy"]
"""What searches the vectors of lines in memory."""
VectorBits: TypeAlias = Literal[8, 16]
"""What a component of a vector takes in memory where FAISS searches."""
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


def round_vector(vector: Sequence[float] | NDArray[np.float32]) -> NDArray[np.float16]:
    """Return the vector at unit length in half precision; zero stays zero."""
    return scale_rows(np.asarray(vector, dtype=np.float32)).astype(np.float16)


def to_half_bytes(vector: NDArray[np.float16]) -> bytes:
    """Return the stored form of a rounded vector."""
    return vector.astype(HALF).tobytes()


class SegmentVectors:
    """Vectors by segment number. A missing one is a zero vector until it is filled in."""

    def __init__(
        self, *, index: IndexName = "auto", bits: VectorBits = 16, trusted_spread: float = 0.0
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
        self._bits: VectorBits = bits
        self._index: ExactIndex | FaissIndex | None = None
        self._expected = 0
        self._present = GrowableArray(np.bool_)
        self._removed: set[int] = set()
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

    # -- writing -------------------------------------------------------------------------------

    def expect(self, count: int) -> None:
        """Choose the index for so many numbers to come, so that none moves later on."""
        self._expected = len(self) + count
        self._choose_index()

    def extend(self, vectors: NDArray[np.float16] | Sequence[NDArray[np.float16] | None]) -> None:
        """Append rounded vectors of equal length; None marks a number as missing.

        Raises:
            ConfigError: If one has another length than those before.
        """
        if not len(vectors):
            return
        first = len(self)
        self._present.extend(np.zeros(len(vectors), dtype=np.bool_))
        given = next((vector for vector in vectors if vector is not None), None)
        if self._index is None and given is not None:
            self._index = self._begin(len(given), first)
        rows = vectors if isinstance(vectors, np.ndarray) else self._fill_missing(vectors)
        if self._index is None:
            return
        self._index.add(rows)
        # As whole numbers without their sign: NumPy takes long over half precision.
        self._present.view[first:] = (rows.view(np.uint16) << 1).any(axis=1)
        self._choose_index()

    def _begin(self, dim: int, count: int) -> ExactIndex | FaissIndex:
        """Make the index, with zeros for the numbers so far."""
        index = self._index = ExactIndex(dim)
        index.add(np.zeros((count, dim), dtype=np.float32))
        self._choose_index()
        return self._index

    def _fill_missing(self, vectors: Sequence[NDArray[np.float16] | None]) -> NDArray[np.float16]:
        """Return the vectors with zeros where there is none, which is noted."""
        first = len(self) - len(vectors)
        missing = [number for number, vector in enumerate(vectors, first) if vector is None]
        self.missing.update(missing)
        nothing = np.zeros(self.dim or 0, dtype=np.float16)
        rows = [nothing if vector is None else vector for vector in vectors]
        return np.array(rows, dtype=np.float16)

    def fill(self, numbers: Sequence[int], vectors: Sequence[NDArray[np.float16]]) -> None:
        """Put vectors where they were missing; a removed number is only no longer missing."""
        for number, vector in zip(numbers, vectors, strict=True):
            if number not in self._removed:
                self._fill_one(number, vector.astype(np.float32))
        self.missing.difference_update(numbers)

    def _fill_one(self, number: int, vector: NDArray[np.float32]) -> None:
        if self._index is None:
            self._index = self._begin(len(vector), len(self))
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
        if isinstance(self._index, ExactIndex) and not self._is_plain(rows):
            self._index = FaissIndex.from_exact(self._index, bits=self._bits)
        if self._index is not None:
            self._index.reserve(rows)

    def _is_plain(self, rows: int) -> bool:
        """Return whether NumPy searches so many rows."""
        plain = 0 if self._bits == 8 or self._index_name == "faiss" else _PLAIN_ROWS  # noqa: PLR2004
        return self._index_name == "numpy" or rows <= plain

    def save_to(self, columns: SavedColumns, lines: NDArray[np.int64]) -> None:
        """Add copies of all there is, if none is missing, and how crowded it is around each vector.

        Args:
            columns: What they are added to.
            lines: The line that each number belongs to.
        """
        self.compute_crowding(lines)
        columns.put("present", self.present)
        columns.put("removed", sorted(self._removed))
        columns.put_value("dim", self.dim)
        if self._index is not None:
            columns.put_value("bits", self._index.bits)
            columns.put("codes", self._index.get_codes())
            columns.put("inverse lengths", self._index.inverse)
            self._crowding.save_to(columns)

    def load_from(self, columns: SavedColumns) -> None:
        """Become what `save_to` was asked for, from having nothing.

        Raises:
            KeyError: If something is missing.
            ValueError: If something is not what was saved, or another index is to search it.
        """
        self._present = columns.get_growable("present", np.bool_)
        self._removed = set(columns.get("removed", np.int64).tolist())
        dim = columns.get_value("dim")
        if dim is None:
            return
        is_plain = self._is_plain(len(self))
        bits: VectorBits = 16 if is_plain else self._bits
        if columns.get_value("bits") != bits:
            msg = f"vectors were saved in {columns.get_value('bits')} bits, {bits} are wanted"
            raise ValueError(msg)
        codes = columns.get("codes", np.uint8 if bits == 8 else np.float16, dim)  # noqa: PLR2004
        inverse = columns.get_growable("inverse lengths", np.float32)
        self._index = ExactIndex(dim) if is_plain else FaissIndex(dim, bits=bits)
        self._index.load(codes, inverse)
        self._index.remove(self._removed)
        self._crowding = Crowding.load_from(columns)

    # -- reading -------------------------------------------------------------------------------

    def get_row(self, number: int) -> NDArray[np.float16] | None:
        """Return the rounded vector at `number`, a removed one too; None where there is none.

        Nor is there one where vectors are kept shorter than they were given.
        """
        row = None if self._index is None else self._index.get_row(number)
        return None if row is None or not row.any() else row.astype(np.float16)

    def similarities(
        self, query: NDArray[np.float32], numbers: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """Return the cosine of the given numbers (None: of all); 0 where there is no vector."""
        if self._index is None:
            count = len(self) if numbers is None else len(numbers)
            return np.zeros(count, dtype=np.float32)
        return self._index.similarities(query, numbers)

    def get_unit_rows(self, numbers: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors of some numbers at unit length, zeros where there is none."""
        if self._index is None:
            return np.zeros((len(numbers), 0), dtype=np.float32)
        return self._index.get_unit_rows(np.array(numbers, dtype=np.int64))

    def compare_sample(
        self, query: NDArray[np.float32], cosines: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Return the cosine of some hundred of the vectors, spaced evenly; 0 without a vector.

        Args:
            query: Shape (dim,), any length.
            cosines: Of all vectors with it, where they are known already.
        """
        numbers = self._choose_sample()
        found = self.similarities(query, numbers) if cosines is None else cosines[numbers]
        return found * self.present[numbers]

    def _choose_sample(self) -> NDArray[np.int64]:
        return np.arange(0, len(self), max(len(self) // _SAMPLE, 1))

    def trust(
        self, query: NDArray[np.float32], cosines: NDArray[np.float32] | None = None
    ) -> float:
        """Return how much the embedder knows of texts like the question, 0 to 1.

        To an embedder all texts of a language that it does not know look alike. How alike is an
        embedder's own matter, so this is 1 for all but those that declare a `trusted_spread`. For
        the arguments, see `compare_sample`.
        """
        if not self._trusted_spread or len(self) < _LIKE_IT:
            return 1.0
        compared = self.compare_sample(query, cosines)
        nearest = self._choose_sample()[np.argpartition(-compared, _LIKE_IT - 1)[:_LIKE_IT]]
        total = self.get_unit_rows(nearest).sum(axis=0)
        # In the squared length of the sum, each vector with itself makes 1.
        cosine = (float(total @ total) - _LIKE_IT) / (_LIKE_IT * (_LIKE_IT - 1))
        return min((1.0 - cosine) / self._trusted_spread, 1.0)

    def compute_crowding(self, lines: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return how crowded it is around each vector, 0 where there is none; do not write.

        Args:
            lines: The line that each number belongs to.
        """
        if self._index is None:
            return np.zeros(len(lines), dtype=np.float32)
        late, self._late = self._late, set()
        return self._crowding.get_column(self._index, lines, late)


# -- how crowded it is around each vector ------------------------------------------------------

_NEAREST = 5
# Fewer where the sample is small, and none at first: of ten texts five are no crowd.
_SAMPLED_FOR_EACH = 16
_AT_ONCE = 2048
# So many rows are compared without BLAS; see `ExactIndex.similarities`.
_FEW_ROWS = 16
# Nearer ones say the same once more, as templates and repetitions do, which is no crowd.
_THE_SAME = 0.85


class Crowding:
    """The mean cosine of each vector with its nearest few; grows with the vectors.

    A vector is compared with a sample of all, whose size doubles with their number. What is known
    stays as it is until a vector joins the sample.
    """

    def __init__(self) -> None:
        """Create one for no vectors."""
        self._begin(1)

    def _begin(self, step: int) -> None:
        """Know nothing, and let the sample take every number so many steps apart."""
        self._step = step
        self._few = 0
        self._nearest = GrowableArray(np.float32, _NEAREST)
        self._column = GrowableArray(np.float32)
        self._sample: NDArray[np.float32] = _NO_ROWS

    def save_to(self, columns: SavedColumns) -> None:
        """Add a copy of what is known."""
        columns.put_value("crowd", [self._step, self._few])
        columns.put("nearest", self._nearest.view)
        columns.put("crowding", self._column.view)

    @classmethod
    def load_from(cls, columns: SavedColumns) -> Crowding:
        """Return one that knows what `save_to` added."""
        made = cls()
        made._step, made._few = columns.get_value("crowd")
        made._nearest = columns.get_growable("nearest", np.float32, _NEAREST)
        made._column = columns.get_growable("crowding", np.float32)
        return made

    def get_column(
        self,
        index: ExactIndex | FaissIndex,
        lines: NDArray[np.int64],
        late: Collection[int] = (),
    ) -> NDArray[np.float32]:
        """Return how crowded it is around each vector; do not write.

        Args:
            index: Holds the vectors.
            lines: Line of each vector, by number. Vectors of one line are no crowd.
            late: Numbers whose vector has come since this was asked for last.
        """
        known, count = len(self._nearest), len(lines)
        if count == known and not late:
            return self._column.view
        step = self._step
        while count > step * _SAMPLE:
            step *= 2
        if step > self._step:
            self._begin(step)
            known = 0
        self._nearest.extend(np.zeros((count - known, _NEAREST)))
        self._column.extend(np.zeros(count - known))
        changed = np.array([*(n for n in late if n < known), *range(known, count)], dtype=np.int64)
        sample = np.arange(0, count, step)
        self._read_sample(index, sample, late)
        nearest = self._nearest.view
        for some in _split_parts(changed):
            cosines = _multiply(index.get_unit_rows(some), self._sample)
            nearest[some] = _select_highest(_clear_same(cosines, lines[some], lines[sample]))
        joined = changed[changed % step == 0]
        others = np.setdiff1d(np.arange(known), changed) if len(joined) else changed[:0]
        if len(others):
            self._compare_joined(index, others, joined, lines)
        self._average(len(sample), changed if not len(others) else None)
        return self._column.view

    def _read_sample(
        self,
        index: ExactIndex | FaissIndex,
        sample: NDArray[np.int64],
        late: Collection[int],
    ) -> None:
        """Take up the vectors of the sample that are new, or came late."""
        known = 0 if any(number % self._step == 0 for number in late) else len(self._sample)
        new = index.get_unit_rows(sample[known:])
        self._sample = np.concatenate([self._sample[:known], new]) if known else new

    def _compare_joined(
        self,
        index: ExactIndex | FaissIndex,
        others: NDArray[np.int64],
        joined: NDArray[np.int64],
        lines: NDArray[np.int64],
    ) -> None:
        """Compare what is known with vectors that joined the sample."""
        nearest = self._nearest.view
        for some in _split_parts(joined, _FEW_ROWS):
            rows = index.get_unit_rows(some)
            cosines = np.stack([index.similarities(row)[others] for row in rows], axis=1)
            cosines = _clear_same(cosines, lines[others], lines[some])
            nearest[others] = _select_highest(np.concatenate([nearest[others], cosines], axis=1))

    def _average(self, sampled: int, numbers: NDArray[np.int64] | None) -> None:
        """Put the means of these numbers into the column; None is all of them."""
        few = min(sampled // _SAMPLED_FOR_EACH, _NEAREST)
        if few != self._few:
            self._few, numbers = few, None
        at = slice(None) if numbers is None else numbers
        if few:
            self._column.view[at] = self._nearest.view[at, -few:].mean(axis=1)


def _split_parts(numbers: NDArray[np.int64], size: int = _AT_ONCE) -> list[NDArray[np.int64]]:
    return [numbers[start : start + size] for start in range(0, len(numbers), size)]


def _multiply(rows: NDArray[np.float32], others: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the products of rows with others; of few rows, without threads."""
    if len(rows) > _FEW_ROWS:
        return rows @ others.T
    result: NDArray[np.float32] = np.vecdot(rows[:, None], others[None])
    return result


def _clear_same(
    cosines: NDArray[np.float32], lines: NDArray[np.int64], others: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return cosines of vectors, 0 where these say nothing about a crowd.

    Args:
        cosines: A row for each vector, a column for each other; changed in place.
        lines: Lines of the vectors.
        others: Lines of the others.
    """
    cosines[cosines > _THE_SAME] = 0.0
    cosines[lines[:, None] == others] = 0.0
    return cosines


def _select_highest(cosines: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the few highest values of each row, ascending, at least 0."""
    few = min(_NEAREST, cosines.shape[1])
    highest = np.zeros((len(cosines), _NEAREST), dtype=np.float32)
    if few:
        best = np.partition(cosines, cosines.shape[1] - few, axis=1)[:, -few:]
        highest[:, _NEAREST - few :] = np.sort(np.maximum(best, 0.0), axis=1)
    return highest


# -- half precision ----------------------------------------------------------------------------

# Half precision, its bits moved to where single precision has them, is a number that is too small
# by this factor; the moved sign leaves copies of itself in the exponent.
_TOO_SMALL = np.float32(2.0**112)
_MOVED_BITS = 13
_SIGN_COPIES = np.int32(0x70000000)
_DECODED_AT_ONCE = 30_000


def multiply_codes(
    codes: NDArray[np.float16],
    query: NDArray[np.float32],
    numbers: NDArray[np.int64] | None = None,
) -> NDArray[np.float32]:
    """Return the products of the given rows (None: of all) with a query, in order.

    They are those of rows in single precision, which NumPy takes twice as long to convert.
    """
    result = np.empty(len(codes) if numbers is None else len(numbers), dtype=np.float32)
    scaled = query * _TOO_SMALL
    # Some at a time, so that they are still in the processor's cache when they are multiplied.
    size = max(_DECODED_AT_ONCE // len(query), 1)
    room = np.empty((min(size, len(result)), len(query)), dtype=np.int32)
    for start in range(0, len(result), size):
        at = slice(start, start + size)
        some = codes[at if numbers is None else numbers[at]].view(np.int16)
        moved = room[: len(some)]
        np.copyto(moved, some)
        moved <<= _MOVED_BITS
        moved &= ~_SIGN_COPIES
        np.vecdot(moved.view(np.float32), scaled, out=result[at])
    return result


# -- the exact index, the reference for every other --------------------------------------------

# More than the rounding error of a matrix product of unit vectors, less than any difference that
# means something: vectors this close to the k-th are compared again, bit by bit.
_SLACK = np.float32(1e-5)
_COPY_COST = 4
_SCANS_OF_CODES = 2
"""As many as two questions take: more often, and it pays to convert codes once."""


def compute_inverse_lengths(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return 1 / length of each row (float32), or of one vector; 0 for a zero vector."""
    # What `np.linalg.norm` does, without what it does around it.
    lengths = np.asarray(np.sqrt(np.add.reduce(rows * rows, axis=-1)))
    result: NDArray[np.float32] = np.divide(
        np.float32(1), lengths, out=np.zeros_like(lengths), where=lengths > 0
    )
    return result


def scale_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the rows scaled to length 1 (float32); zero rows stay zero."""
    rows = np.asarray(vectors, dtype=np.float32)
    return rows * compute_inverse_lengths(rows)[..., None]


def check_rows(vectors: NDArray[np.floating[Any]], dim: int) -> NDArray[np.float32]:
    """Return vectors of shape (n, dim) in single precision.

    Raises:
        ConfigError: If the second axis is not `dim`.
    """
    rows = np.asarray(vectors, dtype=np.float32)
    if rows.ndim != 2 or rows.shape[1] != dim:  # noqa: PLR2004 - rows and components
        raise _make_mismatch(dim, rows.shape[-1] if rows.ndim else 0)
    return rows


def check_lengths(codes: NDArray[Any], inverse: GrowableArray) -> None:
    """Refuse codes of vectors that are not as many as their inverse lengths.

    Raises:
        ValueError: If they are not.
    """
    if len(codes) != len(inverse):
        raise ValueError(f"there are {len(codes)} vectors and {len(inverse)} lengths")


def check_query(query: NDArray[np.float32], dim: int) -> NDArray[np.float32]:
    """Return a query of shape (dim,) at unit length.

    Raises:
        ConfigError: If it does not have `dim` components.
    """
    vector = np.asarray(query, dtype=np.float32)
    if vector.shape != (dim,):
        raise _make_mismatch(dim, vector.size)
    length = math.sqrt(np.vecdot(vector, vector))
    return vector / np.float32(length) if length else vector


def _make_mismatch(expected: int, got: int) -> ConfigError:
    msg = (
        f"the index holds vectors of {expected} components, got {got}: one index serves one "
        "embedder; build another index for another embedder"
    )
    return ConfigError(msg)


def find_nearest(
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
    """Vectors in one growing matrix, searched by a full scan. Not thread-safe.

    What was loaded stays in half precision as long as it is hardly asked for: many owners ask once.
    """

    bits: VectorBits = 16
    """What a component takes in `get_codes`."""

    def __init__(self, dim: int) -> None:
        """Create an empty index of vectors of `dim` components.

        Raises:
            ConfigError: If `dim` is not positive.
        """
        if dim < 1:
            msg = f"dim must be at least 1, got {dim}"
            raise ConfigError(msg)
        self.dim = dim
        self._rows = GrowableArray(np.float32, dim)
        # Of what was loaded, until it is decoded; there are no rows till then.
        self._codes: NDArray[np.float16] | None = None
        self._scans = 0
        # That of a zero vector is 0, and so is every cosine with it.
        self._inverse = GrowableArray(np.float32)
        self._kept = GrowableArray(np.bool_)

    def __len__(self) -> int:
        """Return how many vectors were added, removed ones included."""
        return len(self._kept)

    @property
    def inverse(self) -> NDArray[np.float32]:
        """1 / length of every vector by number, 0 of a zero vector; do not write."""
        return self._inverse.view

    def get_codes(self) -> NDArray[np.float16]:
        """Return every vector by number, removed ones included, in half precision."""
        return self.rows.astype(np.float16) if self._codes is None else self._codes

    def load(self, codes: NDArray[np.float16], inverse: GrowableArray) -> None:
        """Take what `get_codes` and `inverse` were of another index, into an empty one.

        Raises:
            ValueError: If they are not of equal length.
        """
        check_lengths(codes, inverse)
        self._codes, self._scans = codes, 0
        self._inverse = inverse
        self._kept.extend(np.ones(len(codes), dtype=np.bool_))

    @property
    def rows(self) -> NDArray[np.float32]:
        """Every vector by number as it was added, removed ones included; do not write."""
        self._decode_rows()
        return self._rows.view

    def _decode_rows(self) -> None:
        """Keep vectors in single precision from now on, which are compared faster."""
        if self._codes is not None:
            codes, self._codes = self._codes, None
            self._rows = GrowableArray.from_rows(codes.astype(np.float32))

    def _get_rows(self, at: int | NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vector at a number, or those at several; do not write."""
        codes = self._codes
        rows: NDArray[np.float32] = (
            self._rows.view[at] if codes is None else codes[at].astype(np.float32)
        )
        return rows

    def get_row(self, number: int) -> NDArray[np.float32]:
        """Return the vector at `number` as it was added; do not write."""
        return self._get_rows(number)

    def get_unit_rows(self, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors of some numbers at length 1; zeros for one that was removed."""
        scale = self._inverse.view[numbers] * self._kept.view[numbers]
        result: NDArray[np.float32] = self._get_rows(numbers) * scale[:, None]
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
            ConfigError: If the second axis is not `dim`.
        """
        rows = check_rows(vectors, self.dim)
        self._decode_rows()
        self._rows.extend(rows)
        self._inverse.extend(compute_inverse_lengths(rows))
        self._kept.extend(np.ones(len(rows), dtype=np.bool_))

    def reserve(self, length: int) -> None:
        """Reserve space for this many vectors in total."""
        if length > len(self):
            self._decode_rows()
            self._rows.reserve(length)

    def replace(self, number: int, vector: NDArray[np.float32]) -> None:
        """Put another vector at `number`; a removed number stays removed."""
        row = check_rows(np.asarray(vector)[None], self.dim)
        self._decode_rows()
        self._rows.view[number] = row
        self._inverse.view[number] = compute_inverse_lengths(row)[0]

    def remove(self, numbers: Iterable[int]) -> None:
        """Exclude vectors from later searches. Idempotent."""
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
            ConfigError: If `query` does not have `dim` components.
        """
        vector = check_query(query, self.dim)
        mask = self.searchable if allowed is None else self.searchable & allowed
        # Everything is equally far from a query that says nothing.
        numbers = np.flatnonzero(mask) if vector.any() else np.empty(0, dtype=np.int64)
        # Multiplying rows in vain is cheaper than copying nearly all of them.
        if len(numbers) * _COPY_COST < len(self):
            rough = self.similarities(vector, numbers)
        else:
            rough = self.similarities(vector)[numbers]
        return find_nearest(numbers, rough, k, lambda some: self._compare_one_by_one(vector, some))

    def _compare_one_by_one(
        self, query: NDArray[np.float32], numbers: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        rows = self._get_rows(numbers)
        result: NDArray[np.float32] = (rows * query).sum(axis=1, dtype=np.float32)
        result *= self._inverse.view[numbers]
        return result

    def similarities(
        self, query: NDArray[np.float32], numbers: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """Return the cosine similarity of the given numbers (None: of all), in order."""
        vector = check_query(query, self.dim)
        at = slice(None) if numbers is None else numbers
        self._scans += numbers is None
        if self._scans > _SCANS_OF_CODES:
            self._decode_rows()
        if self._codes is not None:
            result = multiply_codes(self._codes, vector, numbers)
        else:
            # Not `rows @ query`: BLAS shares that out to threads, and where other work keeps a core
            # busy, waiting for the last of them takes twenty times as long as the product.
            result = np.vecdot(self._rows.view[at], vector)
        result *= self._inverse.view[at]
        return result


# -- the index for many lines ------------------------------------------------------------------

_BYTE_STEPS = 127
_BYTE_ZERO = 128
_CONVERT_ROWS = 10_000
_SCAN_COST = 16
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

    def __init__(self, dim: int, *, bits: VectorBits = 16) -> None:
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
        self._inverse = GrowableArray(np.float32)
        self._kept = GrowableArray(np.bool_)

    @classmethod
    def from_exact(cls, exact: ExactIndex, *, bits: VectorBits = 16) -> FaissIndex:
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
        rows = check_rows(vectors, self.dim)
        if not len(rows):
            return
        codes: NDArray[Any] = vectors
        if not self._is_kept_so(vectors, rows):
            rows = self._round_rows(rows)
            codes = self._encode(rows)
        # `add` would start threads to make the codes.
        self._index.add_sa_codes(np.ascontiguousarray(codes).view(np.uint8))
        self._inverse.extend(compute_inverse_lengths(rows))
        self._kept.extend(np.ones(len(rows), dtype=np.bool_))

    @property
    def bits(self) -> VectorBits:
        """What a component takes in `get_codes`."""
        return 8 if self._in_bytes else 16

    @property
    def inverse(self) -> NDArray[np.float32]:
        """1 / length of every vector by number as it is kept; do not write."""
        return self._inverse.view

    def get_codes(self) -> NDArray[Any]:
        """Return every vector by number as FAISS keeps it, until the next call; do not write."""
        codes = self._faiss.rev_swig_ptr(
            self._index.invlists.get_codes(_LIST), len(self) * self._index.code_size
        )
        kind = np.uint8 if self._in_bytes else np.float16
        found: NDArray[Any] = codes.view(kind).reshape(-1, self.dim)
        return found

    def load(self, codes: NDArray[Any], inverse: GrowableArray) -> None:
        """Take what `get_codes` and `inverse` were of another index, into an empty one.

        Raises:
            ValueError: If they are not of equal length.
        """
        check_lengths(codes, inverse)
        count, pointer = len(codes), self._faiss.swig_ptr
        # `add_sa_codes` adds one by one, which takes as long again and a third more memory.
        numbers = np.arange(count, dtype=np.int64)
        data = np.ascontiguousarray(codes).view(np.uint8)
        self._index.invlists.add_entries(_LIST, count, pointer(numbers), pointer(data))
        self._index.ntotal = count
        self._inverse = inverse
        self._kept.extend(np.ones(len(codes), dtype=np.bool_))

    def reserve(self, length: int) -> None:
        """Reserve space for this many vectors in total."""
        if length > max(len(self), self._reserved):
            lists = self._index.invlists
            # A list that was longer keeps its memory.
            lists.resize(_LIST, length)
            lists.resize(_LIST, len(self))
            self._reserved = length

    def replace(self, number: int, vector: NDArray[np.float32]) -> None:
        """Put another vector at `number`; a removed number stays removed."""
        row = self._round_rows(check_rows(np.asarray(vector)[None], self.dim))
        # FAISS does not check where it writes.
        number = range(len(self))[number]
        code = self._encode(row).view(np.uint8)
        self._index.invlists.update_entry(_LIST, number, number, self._faiss.swig_ptr(code))
        self._inverse.view[number] = compute_inverse_lengths(row)[0]

    def remove(self, numbers: Iterable[int]) -> None:
        """Exclude vectors from later searches. Idempotent."""
        self._kept.view[list(numbers)] = False

    def search(
        self, query: NDArray[np.float32], k: int, *, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return numbers and cosine similarities of the k nearest (see `ExactIndex.search`)."""
        asked = self._prepare_query(query)
        mask = self._kept.view & (self._inverse.view > 0)
        if allowed is not None:
            mask &= allowed
        if not asked.any():
            # Everything is equally far from a query that says nothing.
            mask[:] = False
        numbers, rough = self._compare(asked, mask)
        return find_nearest(numbers, rough, k, lambda some: self._compare_one_by_one(asked, some))

    def similarities(
        self, query: NDArray[np.float32], numbers: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """Return the cosine similarity of the given numbers (None: of all), in order."""
        asked = self._prepare_query(query)
        if numbers is None:
            return self._compare(asked)[1]
        if len(numbers) * _SCAN_COST < len(self):
            return self._compare_few(asked, numbers)
        wanted = np.zeros(len(self), dtype=np.bool_)
        wanted[numbers] = True
        found, result = self._compare(asked, wanted)
        return result[found.searchsorted(numbers)]

    def get_row(self, number: int) -> NDArray[np.float32] | None:
        """Return a vector of about unit length as it was added; None if it is kept in bytes."""
        return None if self._in_bytes else self._decode(number)

    def get_unit_rows(self, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors of some numbers at length 1; zeros for one that was removed."""
        scale = self._inverse.view[numbers] * self._kept.view[numbers]
        result: NDArray[np.float32] = self._decode(numbers) * scale[:, None]
        return result

    # -- rounding ------------------------------------------------------------------------------

    def _round_rows(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return rows, or one, as they are kept: scaled, since no length counts, and rounded."""
        if self._in_bytes:
            highest = np.abs(rows).max(axis=-1, keepdims=True)
            scale = np.divide(_BYTE_STEPS, highest, out=np.zeros_like(highest), where=highest > 0)
            steps: NDArray[np.float32] = np.rint(rows * scale)
            return steps
        # By a power of two, so that what is in half precision already stays as it is.
        scaled: NDArray[np.float32] = rows * np.exp2(-_find_powers(rows))
        return scaled.astype(np.float16).astype(np.float32)

    def _is_kept_so(self, given: NDArray[Any], rows: NDArray[np.float32]) -> bool:
        """Return whether rows stay as they were given, which takes longer to do than to see."""
        is_half = np.asarray(given).dtype == np.float16 and not self._in_bytes
        return is_half and not _find_powers(rows).any()

    def _encode(self, rows: NDArray[np.float32]) -> NDArray[Any]:
        """Return the codes that FAISS keeps of rounded rows."""
        if self._in_bytes:
            return (rows + _BYTE_ZERO).astype(np.uint8)
        return rows.astype(np.float16)

    def _decode(self, at: int | NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the rounded row at a number, or those at several."""
        # `sa_decode` and `reconstruct` start threads in some releases.
        rows: NDArray[np.float32] = self.get_codes()[at].astype(np.float32)
        if self._in_bytes:
            rows -= _BYTE_ZERO
        return rows

    def _prepare_query(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        vector = check_query(query, self.dim)
        return self._round_rows(vector) if self._in_bytes else vector

    # -- comparing -----------------------------------------------------------------------------

    def _compare_few(
        self, asked: NDArray[np.float32], numbers: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Return the cosine similarities of some numbers, which FAISS would look for among all."""
        if self._in_bytes:
            result: NDArray[np.float32] = np.vecdot(self._decode(numbers), asked)
        else:
            result = multiply_codes(self.get_codes(), asked, numbers)
        result *= self._inverse.view[numbers]
        return self._divide_by_length(result, asked)

    def _compare(
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
        return numbers, self._divide_by_length(result, asked)

    def _compare_one_by_one(
        self, asked: NDArray[np.float32], numbers: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        products: NDArray[np.float32] = (self._decode(numbers) * asked).sum(
            axis=1, dtype=np.float32
        )
        return self._divide_by_length(products * self._inverse.view[numbers], asked)

    def _divide_by_length(
        self, products: NDArray[np.float32], asked: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        if self._in_bytes:
            products *= compute_inverse_lengths(asked)
        return products


def _find_powers(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the power of two that is nearest to each row's length; 0 for a zero vector."""
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    powers: NDArray[np.float32] = np.log2(lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return np.rint(powers, out=powers)
