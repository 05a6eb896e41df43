"""What a log has stored of an index's segments: terms and vectors, by segment number."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from langchain_convmem.causes import report_problem
from langchain_convmem.errors import LogClosedError, LogError
from langchain_convmem.message_log import MessageLog
from langchain_convmem.recall.embedding import compute_fingerprint
from langchain_convmem.recall.segments import SEGMENT_CHARS, UNCUT_CHARS, SegmentTable
from langchain_convmem.recall.vectors import HALF, to_half_bytes
from langchain_convmem.records import Owner, StoredSegment
from langchain_convmem.words.analysis import ANALYSIS_VERSION

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

    from langchain_convmem.recall.vectors import Vector

_log = logging.getLogger("langchain_convmem")


class Derived(NamedTuple):
    """What is stored of a segment; None where there is nothing that can be used."""

    terms: list[str] | None
    vector: Vector | None


class SegmentStore:
    """The rows of some owners under the fingerprint of an embedder. Not thread-safe.

    The border to a log's own cache: where that fails, an index goes on without it, and `problems`
    says so.
    """

    def __init__(self, log: MessageLog, owners: Sequence[Owner], embeddings: Embeddings) -> None:
        """Create a store; of a log that keeps no segments it holds nothing."""
        self._cache = log if log.keeps_segments else None
        self._owners = owners
        self._embeddings = embeddings
        # What the last failure of each owner was, until that owner's rows can be used again.
        self._problem_of: dict[Owner, str] = {}
        self.is_unread = False
        """Whether the last reading failed: rows may be there that nobody has seen."""
        self.is_unsaved = False
        """Whether rows could not be stored."""

    @property
    def fingerprint(self) -> str:
        """What makes the vectors: the embedder, and how lines are cut."""
        return f"{compute_fingerprint(self._embeddings)}/cut-{SEGMENT_CHARS}-{UNCUT_CHARS}"

    @property
    def problems(self) -> list[str]:
        """What keeps rows from being read or stored."""
        return [self._problem_of[owner] for owner in self._owners if owner in self._problem_of]

    def load(
        self, table: SegmentTable, numbers: Sequence[int], dim: int | None
    ) -> dict[int, Derived]:
        """Return what is stored of these segments, which ascend.

        Args:
            table: Where the segments stand.
            numbers: Which ones.
            dim: Components of a vector; None takes those of the first. Others count as none.
        """
        found: dict[int, Derived] = {}
        self.is_unread = False
        for owner, some in self._group(table, numbers):
            first, _, _ = table.get_place(some[0])
            try:
                rows = self._get_cache().load_segments(owner, self.fingerprint, after=first - 1)
            except LogError as error:
                self._note(owner, "stored terms and vectors could not be read", error)
                self.is_unread = True
                continue
            self._problem_of.pop(owner, None)
            by_place = {(row.position, row.part, row.segment): row for row in rows}
            for number, place in zip(some, map(table.get_place, some), strict=True):
                row = by_place.get(place)
                if row is None:
                    continue
                terms, vector = _read_row(row, table.get_text(number))
                if vector is not None and dim is None:
                    dim = len(vector)
                is_fitting = vector is not None and len(vector) == dim
                found[number] = Derived(terms, vector if is_fitting else None)
        return found

    def save(self, table: SegmentTable, made: Mapping[int, tuple[Sequence[str], Vector]]) -> None:
        """Store terms and vectors; what cannot be stored is made again by the next process."""
        for owner, some in self._group(table, list(made)):
            rows = [
                _make_row(place, table.get_text(number), *made[number])
                for number, place in zip(some, map(table.get_place, some), strict=True)
            ]
            try:
                self._get_cache().save_segments(owner, self.fingerprint, rows)
            except LogClosedError:  # whoever closed it needs them no more
                self.is_unsaved = True
            except LogError as error:
                self._note(owner, "terms and vectors could not be stored", error)
                self.is_unsaved = True
            else:
                self._problem_of.pop(owner, None)

    def list_others(self) -> list[str] | None:
        """Return, sorted, the fingerprints of vectors that others made; None: nobody knows."""
        found: set[str] = set()
        for owner in self._owners if self._cache is not None else ():
            try:
                found.update(self._get_cache().segment_fingerprints(owner))
            except LogError as error:
                self._note(owner, "stored terms and vectors could not be read", error)
                return None
        return sorted(found - {self.fingerprint})

    def delete_others(self) -> None:
        """Delete the vectors that others made, and the terms stored with them."""
        for name in self.list_others() or ():
            for owner in self._owners:
                try:
                    self._get_cache().delete_segments(owner, name)
                except LogError as error:
                    self._note(owner, "vectors of an earlier embedder could not be deleted", error)

    def _get_cache(self) -> MessageLog:
        assert self._cache is not None  # noqa: S101 - nothing is grouped without one
        return self._cache

    def _note(self, owner: Owner, what: str, error: LogError) -> None:
        self._problem_of[owner] = report_problem(_log, what, error)

    def _group(
        self, table: SegmentTable, numbers: Sequence[int]
    ) -> Iterator[tuple[Owner, list[int]]]:
        """Yield the numbers of each owner's segments, in order; none where nothing is kept."""
        if self._cache is None or not numbers:
            return
        if len(self._owners) == 1:
            yield self._owners[0], list(numbers)
            return
        found: dict[Owner, list[int]] = {}
        for number in numbers:
            found.setdefault(table.find_line(number).key.owner, []).append(number)
        yield from found.items()


def _make_row(
    place: tuple[int, int, int], text: str, terms: Sequence[str], vector: Vector
) -> StoredSegment:
    seed, words, packed = _hash_text(text), " ".join(terms), to_half_bytes(vector)
    return StoredSegment(
        *place,
        terms=words,
        vector=packed,
        analysis=ANALYSIS_VERSION,
        terms_check=zlib.crc32(words.encode("utf-8", "surrogatepass"), seed),
        vector_check=zlib.crc32(packed, seed),
    )


def _read_row(row: StoredSegment, text: str) -> Derived:
    """Return a row without what does not fit its line: that is derived anew."""
    seed, terms, vector = _hash_text(text), None, None
    words = row.terms if isinstance(row.terms, str) else ""
    is_sound = zlib.crc32(words.encode("utf-8", "surrogatepass"), seed) == row.terms_check
    if is_sound and row.analysis == ANALYSIS_VERSION:
        terms = words.split()
    packed = row.vector
    if isinstance(packed, bytes) and zlib.crc32(packed, seed) == row.vector_check:
        vector = np.frombuffer(packed, dtype=HALF).astype(np.float16, copy=False)
    return Derived(terms, vector)


def _hash_text(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))
