"""What logs have stored of the segments of an index: terms and vectors, by segment number."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from langchain_convmem.errors import LogError
from langchain_convmem.protocols import SegmentBuffer, SegmentCache, is_valid_for
from langchain_convmem.recall.embedding import compute_fingerprint, is_free
from langchain_convmem.recall.segments import SEGMENT_CHARS, UNCUT_CHARS, Place, SegmentTable
from langchain_convmem.recall.vectors import HALF, to_half_bytes
from langchain_convmem.records import Owner, StoredSegment
from langchain_convmem.words.analysis import ANALYSIS_VERSION

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from numpy.typing import NDArray

_log = logging.getLogger("langchain_convmem")
# Rows that may wait for the next write: those of a turn or two, which are soon made again.
_FEW = 8


class SegmentStore:
    """The rows of the owners of one index under the fingerprint of an embedder. Not thread-safe.

    The border to a log's own cache: where that fails, an index goes on without it, and `problems`
    says so.
    """

    def __init__(
        self,
        cache: SegmentCache | None,
        owners: Sequence[Owner],
        embeddings: Embeddings,
        table: SegmentTable,
    ) -> None:
        """Create a store for the segments of `table`; without a cache it holds nothing."""
        self._cache = cache
        is_buffer = isinstance(cache, SegmentBuffer)
        buffers = is_buffer and is_valid_for(cache, "keep_segments", "save_segments")
        self._buffer = cache if isinstance(cache, SegmentBuffer) and buffers else None
        self._is_free = is_free(embeddings)
        self._embeddings = embeddings
        self._table = table
        self._only = owners[0] if len(owners) == 1 else None
        self._unsaved: dict[Owner, dict[Place, StoredSegment]] = {owner: {} for owner in owners}
        # What the last failure of each owner was, until rows are stored again.
        self._problem_of: dict[Owner, str] = {}

    def __len__(self) -> int:
        """Return how many rows wait to be stored."""
        return sum(map(len, self._unsaved.values()))

    @property
    def fingerprint(self) -> str:
        """What makes the vectors: the embedder, and how lines are cut."""
        return f"{compute_fingerprint(self._embeddings)}/cut-{SEGMENT_CHARS}-{UNCUT_CHARS}"

    @property
    def problems(self) -> list[str]:
        """What keeps rows from being read or stored."""
        return [self._problem_of[owner] for owner in self._unsaved if owner in self._problem_of]

    def load(self, numbers: Sequence[int]) -> tuple[dict[int, StoredSegment], bool]:
        """Return what is stored of these segments, and whether all of it could be read.

        Args:
            numbers: Ascending, as the positions of an owner's segments are, too.
        """
        found: dict[int, StoredSegment] = {}
        if self._cache is None or not numbers:
            return found, True
        is_complete = True
        for owner, some in self._group_by_owner(numbers).items():
            first, _, _ = next(self._table.list_places(some))
            try:
                rows = self._cache.load_segments(owner, self.fingerprint, after=first - 1)
            except LogError as error:
                self._note_failure(owner, "stored terms and vectors could not be read", error)
                is_complete = False
                continue
            if not self._unsaved[owner]:
                self._problem_of.pop(owner, None)
            found.update(_match_segments(some, self._table.list_places(some), rows))
        return found, is_complete

    def put(
        self,
        number: int,
        terms: Sequence[str],
        vector: NDArray[np.float16] | None,
        old: StoredSegment | None,
    ) -> None:
        """Keep a segment until `save`, unless `old` says the same."""
        [place] = self._table.list_places([number])
        row = StoredSegment(
            *place,
            terms=" ".join(terms),
            vector=None if vector is None else to_half_bytes(vector),
            analysis=ANALYSIS_VERSION,
        )
        if row != old and self._cache is not None:
            self._unsaved[self._find_owner(number)][place] = row

    def drop(self, numbers: Iterable[int]) -> None:
        """Leave out segments that were to be stored."""
        for number in numbers:
            [place] = self._table.list_places([number])
            self._unsaved[self._find_owner(number)].pop(place, None)

    def save(self, *, may_wait: bool = False) -> None:
        """Store what waits; what cannot be stored waits on, since a recall has all it needs.

        Args:
            may_wait: Few rows that cost nothing may be stored with what the log writes next.
        """
        for owner, unsaved in self._unsaved.items():
            if self._cache is None or not unsaved:
                continue
            rows = list(unsaved.values())
            try:
                if may_wait and self._buffer is not None and self._are_cheap(rows):
                    self._buffer.keep_segments(owner, self.fingerprint, rows)
                else:
                    self._cache.save_segments(owner, self.fingerprint, rows)
            except LogError as error:
                self._note_failure(owner, "terms and vectors could not be stored", error)
                continue
            unsaved.clear()
            self._problem_of.pop(owner, None)

    def list_other_fingerprints(self) -> list[str] | None:
        """Return, sorted, the fingerprints of vectors that others made; None: nobody knows."""
        found: set[str] = set()
        for owner in self._unsaved:
            names = self._list_others(owner)
            if names is None:
                return None
            found.update(names)
        return sorted(found)

    def delete_others(self) -> None:
        """Delete the vectors that others made, and the terms stored with them."""
        if self._cache is None:
            return
        for owner in self._unsaved:
            try:
                for name in self._list_others(owner) or ():
                    self._cache.delete_segments(owner, name)
            except LogError as error:
                self._note_failure(
                    owner, "vectors of an earlier embedder could not be deleted", error
                )

    def _list_others(self, owner: Owner) -> list[str] | None:
        """Return the fingerprints of an owner's vectors that others made; None: nobody knows."""
        if self._cache is None:
            return []
        try:
            found = self._cache.segment_fingerprints(owner)
        except LogError as error:
            self._note_failure(owner, "stored terms and vectors could not be read", error)
            return None
        own = self.fingerprint
        return [name for name in found if name != own]

    def _note_failure(self, owner: Owner, what: str, error: LogError) -> None:
        problem = self._problem_of[owner] = f"{what}: {error}"
        _log.warning("%s", problem, exc_info=error)

    def _are_cheap(self, rows: Sequence[StoredSegment]) -> bool:
        """Return whether little is lost with rows if the process ends before they are stored."""
        is_free = self._is_free or all(row.vector is None for row in rows)
        return is_free and len(rows) <= _FEW

    def _find_owner(self, number: int) -> Owner:
        return self._only or self._table.find_line(number).key.owner

    def _group_by_owner(self, numbers: Sequence[int]) -> Mapping[Owner, Sequence[int]]:
        """Return the numbers of each owner's segments, in order."""
        if self._only is not None:
            return {self._only: numbers}
        found: dict[Owner, list[int]] = {}
        for number in numbers:
            found.setdefault(self._find_owner(number), []).append(number)
        return found


# -- rows ----------------------------------------------------------------------------------------


def read_terms(row: StoredSegment | None) -> list[str] | None:
    """Return the terms of a row, in order; None where an earlier analysis made them, or nobody."""
    if row is None or row.analysis != ANALYSIS_VERSION:
        return None
    return row.terms.split()


def read_vector(row: StoredSegment | None, dim: int | None) -> NDArray[np.float16] | None:
    """Return the vector of a row; None where there is none, or one of another length."""
    if row is None or row.vector is None:
        return None
    vector = np.frombuffer(row.vector, dtype=HALF).astype(np.float16, copy=False)
    return vector if dim in (None, len(vector)) else None


def read_complete(
    rows: Sequence[StoredSegment | None], dim: int | None
) -> tuple[list[list[str]], NDArray[np.float16]] | None:
    """Return the terms and vectors of rows, of which none lacks anything; None if one does.

    So they mostly are, and all at once take a fraction of the time.

    Args:
        rows: What is stored of some segments.
        dim: Components that each vector must have; None if any number will do.
    """
    terms = [known for known in map(read_terms, rows) if known is not None]
    packed = [row.vector for row in rows if row is not None and row.vector]
    if not rows or min(len(terms), len(packed)) < len(rows):
        return None
    size = len(packed[0]) if dim is None else dim * HALF.itemsize
    if any(len(one) != size for one in packed):
        return None
    vectors = np.frombuffer(b"".join(packed), dtype=HALF).reshape(len(rows), -1)
    return terms, vectors.astype(np.float16, copy=False)


def _match_segments(
    numbers: Iterable[int], places: Iterable[Place], rows: Iterable[StoredSegment]
) -> Iterator[tuple[int, StoredSegment]]:
    """Yield the number and the row of each segment that has one; all are in order of place."""
    ordered = iter(rows)
    row = next(ordered, None)
    for number, place in zip(numbers, places, strict=True):
        while row is not None and _get_place(row) < place:
            row = next(ordered, None)
        if row is not None and _get_place(row) == place:
            yield number, row


def _get_place(row: StoredSegment) -> Place:
    return row.position, row.part, row.segment
