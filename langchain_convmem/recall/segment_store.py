"""What logs have stored of an index's segments, by the numbers that the index gives them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from langchain_convmem.errors import LogError
from langchain_convmem.protocols import SegmentBuffer, SegmentCache, speaks_for
from langchain_convmem.recall.embedding import costs_nothing, fingerprint_of
from langchain_convmem.recall.segments import SEGMENT_CHARS, UNCUT_CHARS, Place, SegmentTable
from langchain_convmem.recall.vectors import HALF, half_bytes
from langchain_convmem.records import Owner, StoredSegment
from langchain_convmem.words.analysis import ANALYSIS_VERSION

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from numpy.typing import NDArray


def stored_terms(row: StoredSegment | None) -> list[str] | None:
    """Return the terms of a row, in order; None where an earlier analysis made them, or nobody."""
    if row is None or row.analysis != ANALYSIS_VERSION:
        return None
    return row.terms.split()


def stored_vector(row: StoredSegment | None, dim: int | None) -> NDArray[np.float16] | None:
    """Return the vector of a row; None where there is none, or one of another length."""
    if row is None or row.vector is None:
        return None
    vector = np.frombuffer(row.vector, dtype=HALF).astype(np.float16, copy=False)
    return vector if dim in (None, len(vector)) else None


def stored_whole(
    rows: Sequence[StoredSegment | None], dim: int | None
) -> tuple[list[list[str]], NDArray[np.float16]] | None:
    """Return the terms and vectors of rows, of which none lacks anything; None if one does.

    So they mostly are, and all at once take a fraction of the time.

    Args:
        rows: What is stored of some segments.
        dim: Components that each vector must have; None if any number will do.
    """
    terms = [known for known in map(stored_terms, rows) if known is not None]
    packed = [row.vector for row in rows if row is not None and row.vector]
    if not rows or min(len(terms), len(packed)) < len(rows):
        return None
    size = len(packed[0]) if dim is None else dim * HALF.itemsize
    if any(len(one) != size for one in packed):
        return None
    vectors = np.frombuffer(b"".join(packed), dtype=HALF).reshape(len(rows), -1)
    return terms, vectors.astype(np.float16, copy=False)


def _matched(
    numbers: Iterable[int], places: Iterable[Place], rows: Iterable[StoredSegment]
) -> Iterator[tuple[int, StoredSegment]]:
    """Yield the number and the row of each segment that has one; all are in order of place."""
    ordered = iter(rows)
    row = next(ordered, None)
    for number, place in zip(numbers, places, strict=True):
        while row is not None and _place_of(row) < place:
            row = next(ordered, None)
        if row is not None and _place_of(row) == place:
            yield number, row


def _place_of(row: StoredSegment) -> Place:
    return row.position, row.part, row.segment


class SegmentStore:
    """The rows of the owners of one index. Not thread-safe."""

    def __init__(
        self,
        cache: SegmentCache | None,
        owners: Sequence[Owner],
        embeddings: Embeddings,
        table: SegmentTable,
    ) -> None:
        """Create a store for the segments of `table`; without a cache it holds nothing."""
        self._table = table
        self._only = owners[0] if len(owners) == 1 else None
        self._of_owner = {owner: StoredSegments(cache, owner, embeddings) for owner in owners}

    def __len__(self) -> int:
        """Return how many rows wait to be stored."""
        return sum(map(len, self._of_owner.values()))

    @property
    def fingerprint(self) -> str:
        """What makes the vectors."""
        return next(iter(self._of_owner.values())).fingerprint

    @property
    def problems(self) -> list[str]:
        """What keeps rows from being read or stored."""
        found = (stored.problem for stored in self._of_owner.values())
        return [problem for problem in found if problem is not None]

    def load(self, numbers: Sequence[int]) -> tuple[dict[int, StoredSegment], bool]:
        """Return what is stored of these segments, and whether all of it could be read.

        Args:
            numbers: Ascending, as the positions of an owner's segments are, too.
        """
        found: dict[int, StoredSegment] = {}
        is_whole = True
        for owner, some in self._by_owner(numbers).items():
            first, _, _ = next(self._table.places(some))
            rows = self._of_owner[owner].load(first)
            is_whole &= rows is not None
            found.update(_matched(some, self._table.places(some), rows or ()))
        return found, is_whole

    def put(
        self,
        number: int,
        terms: Sequence[str],
        vector: NDArray[np.float16] | None,
        old: StoredSegment | None,
    ) -> None:
        """Keep a segment until `save`, unless `old` says the same."""
        row = StoredSegment(
            *self._place(number),
            terms=" ".join(terms),
            vector=None if vector is None else half_bytes(vector),
            analysis=ANALYSIS_VERSION,
        )
        if row != old:
            self._of_owner[self._owner(number)].put(row)

    def drop(self, numbers: Iterable[int]) -> None:
        """Leave out segments that were to be stored."""
        for number in numbers:
            self._of_owner[self._owner(number)].drop(self._place(number))

    def save(self, *, may_wait: bool = False) -> None:
        """Store what waits, few rows with what the log writes next if they may wait on."""
        for stored in self._of_owner.values():
            stored.save(may_wait=may_wait)

    def others(self) -> list[str] | None:
        """Return, sorted, the fingerprints of vectors that others made; None: nobody knows."""
        found: set[str] = set()
        for stored in self._of_owner.values():
            names = stored.others()
            if names is None:
                return None
            found.update(names)
        return sorted(found)

    def delete_others(self) -> None:
        """Delete the vectors that others made."""
        for stored in self._of_owner.values():
            stored.delete_others()

    def _owner(self, number: int) -> Owner:
        return self._only or self._table.line_of(number).key.owner

    def _by_owner(self, numbers: Sequence[int]) -> Mapping[Owner, Sequence[int]]:
        """Return the numbers of each owner's segments, in order."""
        if self._only is not None and numbers:
            return {self._only: numbers}
        found: dict[Owner, list[int]] = {}
        for number in numbers:
            found.setdefault(self._owner(number), []).append(number)
        return found

    def _place(self, number: int) -> Place:
        [place] = self._table.places([number])
        return place


# -- The border to a log's own cache --------------------------------------------------------------


_log = logging.getLogger("langchain_convmem")


_FEW = 8


"""Rows that may wait for the next write: those of a turn or two, which are soon made again."""


class StoredSegments:
    """The rows of one owner under the fingerprint of an embedder, and those yet to be stored.

    Not thread-safe.
    """

    def __init__(self, cache: SegmentCache | None, owner: Owner, embeddings: Embeddings) -> None:
        """Create the border around `cache`; without one nothing is found and nothing is kept."""
        self._cache = cache
        self._buffer = _buffer_of(cache)
        self._is_free = costs_nothing(embeddings)
        self._owner = owner
        self._embeddings = embeddings
        self._unsaved: dict[Place, StoredSegment] = {}
        self.problem: str | None = None
        """What the last failure was; None once rows are stored again."""

    def __len__(self) -> int:
        """Return how many rows wait to be stored."""
        return len(self._unsaved)

    @property
    def fingerprint(self) -> str:
        """What made the vectors: the embedder, and how lines are cut."""
        return f"{fingerprint_of(self._embeddings)}/cut-{SEGMENT_CHARS}-{UNCUT_CHARS}"

    def load(self, first: int) -> Sequence[StoredSegment] | None:
        """Return what is stored from position `first` on, in order; None if it cannot be read."""
        if self._cache is None:
            return ()
        try:
            rows = self._cache.load_segments(self._owner, self.fingerprint, after=first - 1)
        except LogError as error:
            self._failed("stored terms and vectors could not be read", error)
            return None
        if not self._unsaved:
            self.problem = None
        return rows

    def put(self, row: StoredSegment) -> None:
        """Keep a row until `save`."""
        if self._cache is not None:
            self._unsaved[row.position, row.part, row.segment] = row

    def drop(self, place: Place) -> None:
        """Leave out a row that was to be stored."""
        self._unsaved.pop(place, None)

    def save(self, *, may_wait: bool = False) -> None:
        """Store what waits; what cannot be stored waits on, since a recall has all it needs.

        Args:
            may_wait: Few rows that cost nothing may be stored with what the log writes next.
        """
        if self._cache is None or not self._unsaved:
            return
        rows = list(self._unsaved.values())
        try:
            if may_wait and self._buffer is not None and self._are_cheap(rows):
                self._buffer.keep_segments(self._owner, self.fingerprint, rows)
            else:
                self._cache.save_segments(self._owner, self.fingerprint, rows)
        except LogError as error:
            self._failed("terms and vectors could not be stored", error)
            return
        self._unsaved.clear()
        self.problem = None

    def _are_cheap(self, rows: Sequence[StoredSegment]) -> bool:
        """Return whether little is lost with rows if the process ends before they are stored."""
        is_free = self._is_free or all(row.vector is None for row in rows)
        return is_free and len(rows) <= _FEW

    def others(self) -> Sequence[str] | None:
        """Return the fingerprints of vectors that others made; None if they cannot be read."""
        if self._cache is None:
            return ()
        try:
            found = self._cache.segment_fingerprints(self._owner)
        except LogError as error:
            self._failed("stored terms and vectors could not be read", error)
            return None
        own = self.fingerprint
        return [name for name in found if name != own]

    def delete_others(self) -> None:
        """Delete the vectors that others made, with the terms beside them."""
        if self._cache is None:
            return
        try:
            for name in self.others() or ():
                self._cache.delete_segments(self._owner, name)
        except LogError as error:
            self._failed("vectors of an earlier embedder could not be deleted", error)

    def _failed(self, what: str, error: LogError) -> None:
        self.problem = f"{what}: {error}"
        _log.warning("%s", self.problem, exc_info=error)


def _buffer_of(cache: SegmentCache | None) -> SegmentBuffer | None:
    if isinstance(cache, SegmentBuffer) and speaks_for(cache, "keep_segments", "save_segments"):
        return cache
    return None
