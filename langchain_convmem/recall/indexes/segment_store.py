"""What logs have stored of an index's segments, by the numbers that the index gives them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from langchain_convmem.protocols import SegmentCache
from langchain_convmem.recall.indexes.segment_table import SegmentTable
from langchain_convmem.recall.indexes.segments import Place
from langchain_convmem.recall.indexes.stored_segments import StoredSegments
from langchain_convmem.recall.indexes.vectors import half_bytes
from langchain_convmem.recall.words.analysis import ANALYSIS_VERSION
from langchain_convmem.records import Owner, StoredSegment

if TYPE_CHECKING:
    import numpy as np
    from langchain_core.embeddings import Embeddings
    from numpy.typing import NDArray

__all__ = ["SegmentStore", "stored_terms"]


def stored_terms(row: StoredSegment | None) -> list[str] | None:
    """Return the terms of a row, in order; None where an earlier analysis made them, or nobody."""
    if row is None or row.analysis != ANALYSIS_VERSION:
        return None
    return row.terms.split()


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
        """Return what is stored of these segments, and whether all of it could be read."""
        found: dict[int, StoredSegment] = {}
        is_whole = True
        for owner, some in self._by_owner(numbers).items():
            first = min(position for position, _, _ in self._table.places(some))
            rows = self._of_owner[owner].load(first)
            is_whole &= rows is not None
            stored = map((rows or {}).get, self._table.places(some))
            found.update(
                (number, row) for number, row in zip(some, stored, strict=True) if row is not None
            )
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

    def save(self) -> None:
        """Store what waits; what cannot be stored waits on."""
        for stored in self._of_owner.values():
            stored.save()

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
