"""What logs have stored of an index's segments, by the numbers that the index gives them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from langchain_convmem.protocols import SegmentCache
from langchain_convmem.recall.indexes.segment_table import SegmentTable
from langchain_convmem.recall.indexes.stored_segments import Place, StoredSegments
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
        first: dict[Owner, int] = {}
        for number in numbers:
            owner, position = self._owner(number), self._table.line_of(number).position
            first[owner] = min(position, first.get(owner, position))
        rows = {owner: self._of_owner[owner].load(at) for owner, at in first.items()}
        found: dict[int, StoredSegment] = {}
        for number in numbers:
            row = (rows[self._owner(number)] or {}).get(self._place(number))
            if row is not None:
                found[number] = row
        return found, None not in rows.values()

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

    def _place(self, number: int) -> Place:
        line = self._table.line_of(number)
        first = self._table.segments_of(self._table.line_number(number)).start
        return Place(line.position, line.part, number - first)
