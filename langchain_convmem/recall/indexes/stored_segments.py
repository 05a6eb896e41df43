"""The border to a log's own cache: what cannot be read or stored there costs no recall."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from langchain_convmem.errors import LogError
from langchain_convmem.protocols import SegmentBuffer, SegmentCache, speaks_for
from langchain_convmem.recall.embedding import costs_nothing, fingerprint_of
from langchain_convmem.recall.indexes.segments import SEGMENT_CHARS, UNCUT_CHARS, Place
from langchain_convmem.records import Owner, StoredSegment

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

__all__ = ["StoredSegments"]

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
