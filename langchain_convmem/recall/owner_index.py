"""All that recall knows about one owner, in memory: a cache of the log, always rebuildable.

The log is read from a cursor on. Lines become segments; segments get terms and vectors, out of the
log's own cache where it keeps one. Everything is one fold over the log, so an index that was kept
up to date equals one that was built anew.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from langchain_convmem.errors import LogError
from langchain_convmem.protocols import MessageLog, SegmentCache
from langchain_convmem.recall.analysis import ANALYSIS_VERSION, analyze
from langchain_convmem.recall.embedding import fingerprint_of
from langchain_convmem.recall.embedding_border import EmbeddingBorder
from langchain_convmem.recall.lexical import LexicalIndex
from langchain_convmem.recall.segment_table import SegmentTable
from langchain_convmem.recall.segments import SEGMENT_CHARS, UNCUT_CHARS
from langchain_convmem.recall.vectors import SegmentVectors, half_bytes
from langchain_convmem.records import Entry, Owner, StoredSegment
from langchain_convmem.views.lines import dialog_lines
from langchain_convmem.views.live import retracted_ids

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from numpy.typing import NDArray

__all__ = ["OwnerIndex", "Progress"]

Progress = Callable[[int, int], None]
"""Called with how many segments are indexed and how many there are to index."""

_log = logging.getLogger("langchain_convmem")

_PAGE = 2000
_BATCH = 256

_Key = tuple[int, int, int]


def _batches(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(numbers), _BATCH):
        yield numbers[start : start + _BATCH]


class OwnerIndex:
    """Table, terms and vectors of one owner's lines, and how far the log has been read.

    Not thread-safe: hold `lock` around `catch_up` and around whatever reads `table`, `lexical`
    and `vectors`.
    """

    def __init__(
        self, log: MessageLog, owner: Owner, embeddings: Embeddings, *, exact_limit: int
    ) -> None:
        """Create an index that has read nothing yet."""
        self.lock = threading.RLock()
        self.border = EmbeddingBorder(embeddings)
        self._log = log
        self._cache = log if isinstance(log, SegmentCache) else None
        self._owner = owner
        self._embeddings = embeddings
        self._exact_limit = exact_limit
        self._cache_problem: str | None = None
        self._generation: int | None = None
        self._reset()

    def _reset(self) -> None:
        self.table = SegmentTable()
        self.lexical = LexicalIndex()
        self.vectors = SegmentVectors(self._exact_limit)
        self._cursor = 0
        self._controls: list[Entry] = []
        self._retracted: frozenset[str] = frozenset()
        self._unsaved: dict[int, StoredSegment] = {}

    @property
    def problems(self) -> tuple[str, ...]:
        """What keeps this index from being complete or cheap to rebuild, one sentence each."""
        found = (self.border.problem, self._cache_problem)
        return tuple(problem for problem in found if problem is not None)

    def catch_up(self, progress: Progress | None = None, *, retry: bool = False) -> None:
        """Read what the log has new and index it; begin anew where the log has forgotten.

        Args:
            progress: Called after each batch of segments.
            retry: Send pending lines to the embedder even if it failed a moment ago.

        Raises:
            LogError: If the log cannot be read; the next call goes on where this one stopped.
        """
        try:
            failure = self._read_log()
            # What was read before a failure is indexed all the same, so that the columns match.
            failure = self._apply(progress, retry=retry) or failure
        except BaseException:
            # Interrupted between two columns: nothing half-built may answer a later recall.
            self._reset()
            raise
        if failure is not None:
            raise failure

    # -- reading the log ---------------------------------------------------------------------

    def _read_log(self) -> LogError | None:
        """Read to the end of the log; return what stopped it earlier, if anything did."""
        while True:
            try:
                changes = self._log.changes(self._owner, self._cursor, limit=_PAGE)
            except LogError as error:
                return error
            if changes.generation != self._generation:
                anew = self._cursor > 0
                self._generation = changes.generation
                if anew:
                    self._reset()
                    continue
            self._cursor = changes.cursor
            if not changes.entries:
                return None
            for entry in changes.entries:
                self._read_entry(entry)

    def _read_entry(self, entry: Entry) -> None:
        if entry.control is not None:
            self._controls.append(entry)
        for line in dialog_lines(entry):
            self.table.add(line)

    def _apply(self, progress: Progress | None, *, retry: bool) -> LogError | None:
        """Index what was read; return what stopped reading it anew, if that was needed."""
        failure = None
        retracted = retracted_ids(self._controls)
        if self._retracted - retracted:
            # A retraction was itself retracted: its lines come back where they stood.
            self._reset()
            failure = self._read_log()
            retracted = retracted_ids(self._controls)
        gone = self.table.remove_entries(retracted - self._retracted)
        self._derive(progress)
        self.lexical.remove(gone)
        self.vectors.remove(gone)
        for number in gone:
            self._unsaved.pop(number, None)
        self._retracted = retracted
        if self.vectors.missing and (retry or not self.border.is_paused):
            self._fill_missing(progress)
        self._save()
        return failure

    # -- deriving terms and vectors ----------------------------------------------------------

    def _derive(self, progress: Progress | None) -> None:
        fresh = range(len(self.lexical), len(self.table))
        if not fresh:
            return
        rows = self._stored_rows(fresh)
        for done, numbers in enumerate(_batches(fresh)):
            self._derive_batch(numbers, rows)
            if len(self._unsaved) >= _PAGE:
                self._save()
            if progress is not None:
                progress(min((done + 1) * _BATCH, len(fresh)), len(fresh))
        self.lexical.settle()

    def _derive_batch(self, numbers: Sequence[int], rows: dict[_Key, StoredSegment]) -> None:
        stored = [rows.get(self._key(number)) for number in numbers]
        terms = [
            self._terms(number) if row is None else row.terms.split()
            for number, row in zip(numbers, stored, strict=True)
        ]
        vectors = [self._stored_vector(row) for row in stored]
        # Where nothing is stored, the terms alone are worth storing.
        fresh = [n for n, row in zip(numbers, stored, strict=True) if row is None]
        wanted = [
            number
            for number, vector in zip(numbers, vectors, strict=True)
            if vector is None and self.table.live[number]
        ]
        dims = [len(vector) for vector in vectors if vector is not None]
        for number, vector in self._embed(wanted, self.vectors.dim or max(dims, default=0)).items():
            vectors[number - numbers[0]] = vector
            fresh.append(number)
        for number in fresh:
            at = number - numbers[0]
            self._to_save(number, terms[at], vectors[at])
        self.lexical.add(terms)
        self.vectors.extend(vectors)

    def _terms(self, number: int) -> list[str]:
        return analyze(f"{self.table.line_of(number).speaker}: {self.table.text(number)}")

    def _embed(self, numbers: Sequence[int], dim: int) -> dict[int, NDArray[np.float16]]:
        """Return the vectors of segments, or none of them after a failure."""
        if not numbers or self.border.is_paused:
            return {}
        texts = [self.table.text(number) for number in numbers]
        vectors = self.border.embed_lines(texts, dim or None)
        return {} if vectors is None else dict(zip(numbers, vectors, strict=True))

    def _fill_missing(self, progress: Progress | None) -> None:
        pending = sorted(self.vectors.missing)
        for done, numbers in enumerate(_batches(pending)):
            texts = [self.table.text(number) for number in numbers]
            vectors = self.border.embed_lines(texts, self.vectors.dim)
            if vectors is None:
                return
            self.vectors.fill(numbers, vectors)
            for number, vector in zip(numbers, vectors, strict=True):
                self._to_save(number, self._terms(number), vector)
            if progress is not None:
                progress(min((done + 1) * _BATCH, len(pending)), len(pending))

    # -- the log's own cache -----------------------------------------------------------------

    @property
    def _fingerprint(self) -> str:
        cut = f"{SEGMENT_CHARS}-{UNCUT_CHARS}"
        return f"{fingerprint_of(self._embeddings)}/terms-{ANALYSIS_VERSION}/cut-{cut}"

    def _key(self, number: int) -> _Key:
        line = self.table.line_of(number)
        first = self.table.segments_of(self.table.line_number(number)).start
        return line.position, line.part, number - first

    def _stored_rows(self, fresh: range) -> dict[_Key, StoredSegment]:
        if self._cache is None:
            return {}
        after = min(self.table.line_of(number).position for number in fresh) - 1
        try:
            rows = self._cache.load_segments(self._owner, self._fingerprint, after=after)
        except LogError as error:
            self._cache_failed("stored terms and vectors could not be read", error)
            return {}
        return {(row.position, row.part, row.segment): row for row in rows}

    def _stored_vector(self, row: StoredSegment | None) -> NDArray[np.float16] | None:
        if row is None or row.vector is None:
            return None
        vector = np.frombuffer(row.vector, dtype="<f2").astype(np.float16)
        return vector if self.vectors.dim in (None, len(vector)) else None

    def _to_save(
        self, number: int, terms: Sequence[str], vector: NDArray[np.float16] | None
    ) -> None:
        if self._cache is not None:
            position, part, segment = self._key(number)
            self._unsaved[number] = StoredSegment(
                position=position,
                part=part,
                segment=segment,
                terms=" ".join(terms),
                vector=None if vector is None else half_bytes(vector),
            )

    def _save(self) -> None:
        if not self._unsaved or self._cache is None:
            return
        try:
            self._cache.save_segments(self._owner, self._fingerprint, list(self._unsaved.values()))
        except LogError as error:
            # Kept for the next attempt: the recall itself has all it needs.
            self._cache_failed("terms and vectors could not be stored", error)
            return
        self._unsaved.clear()
        self._cache_problem = None

    def _cache_failed(self, what: str, error: LogError) -> None:
        self._cache_problem = f"{what}: {error}"
        _log.warning("%s", self._cache_problem, exc_info=error)
