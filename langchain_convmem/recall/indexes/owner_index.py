"""All that recall knows about some owners, in memory: a cache of the log, always rebuildable.

Each owner's log is read from a cursor on. Lines become segments; segments get terms and vectors,
out of the log's own cache where it keeps one. Everything is one fold over the logs, so an index
that was kept up to date equals one that was built anew.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from langchain_convmem.errors import EmbedderChangedError, LogError
from langchain_convmem.protocols import MessageLog, SegmentCache
from langchain_convmem.recall.dialog_recall import Progress
from langchain_convmem.recall.embedder_choice import is_made_here, owner_argument
from langchain_convmem.recall.indexes.line_embedder import LineEmbedder
from langchain_convmem.recall.indexes.log_reader import LogReader
from langchain_convmem.recall.indexes.segment_store import (
    SegmentStore,
    stored_terms,
    stored_vector,
    stored_whole,
)
from langchain_convmem.recall.indexes.segment_table import SegmentTable
from langchain_convmem.recall.indexes.vectors import SegmentVectors
from langchain_convmem.recall.settings import IndexName
from langchain_convmem.recall.words.analysis import line_terms
from langchain_convmem.recall.words.lexical import LexicalIndex
from langchain_convmem.records import Owner, StoredSegment

if TYPE_CHECKING:
    import numpy as np
    from langchain_core.embeddings import Embeddings
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float16]

__all__ = ["OwnerIndex"]

_BATCH = 256
_SMALL_BATCH = 32
_UNSAVED = 2000
_FEW = 16
"""Lines of a turn or two, which others have hardly ever indexed before."""

_Sending: TypeAlias = Literal["nothing", "unless paused", "all", "anew"]
"""When lines may go to the embedder; "anew": though another one has made vectors of them."""


def _batches(numbers: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(numbers), size):
        yield numbers[start : start + size]


class OwnerIndex:
    """Table, terms and vectors of the owners' lines; owners share one scale of scores alone.

    Not thread-safe: hold `lock` around every method and whatever reads the three.
    """

    def __init__(
        self,
        log: MessageLog,
        owners: tuple[Owner, ...],
        embeddings: Embeddings,
        *,
        index: IndexName = "auto",
        vector_bits: Literal[8, 16] = 16,
        problem: str | None = None,
    ) -> None:
        """Create an index of the owners, each named once; `problem` is one of the embedder."""
        self.lock = threading.RLock()
        self.embedding = threading.Lock()  # held, before `lock`, by `PendingLines`
        self.embeddings = embeddings
        self._cache = log if isinstance(log, SegmentCache) else None
        self._embedder_problem = problem
        self._embedder = LineEmbedder(embeddings)
        self._index: IndexName = index
        self._vector_bits: Literal[8, 16] = vector_bits
        self._readers = tuple(LogReader(log, owner) for owner in owners)
        self._sending: _Sending = "unless paused"
        self._reset()

    def _reset(self, *, reuse: bool = False) -> None:
        """Begin anew; with `reuse`, what has a vector is not sent to the embedder again."""
        self.table = SegmentTable()
        self.lexical = LexicalIndex()
        self.vectors = SegmentVectors(
            index=self._index,
            bits=self._vector_bits,
            trusted_spread=getattr(self.embeddings, "trusted_spread", 0.0),
        )
        self._embedder.begin(self.table, self.vectors, reuse=reuse)
        self._retracted: dict[Owner, frozenset[str]] = {}
        owners = [reader.owner for reader in self._readers]
        self._stored = SegmentStore(self._cache, owners, self.embeddings, self.table)
        self._others: list[str] | None = None
        self._has_overlooked = False
        for reader in self._readers:
            reader.rewind()

    @property
    def problems(self) -> tuple[str, ...]:
        """What keeps this index from being complete or cheap to rebuild, one sentence each."""
        pending = self._embedder.border.problem if self.vectors.missing else None
        found = (self._embedder_problem, self._change, pending, *self._stored.problems)
        return tuple(problem for problem in found if problem is not None)

    @property
    def embeds_behind(self) -> bool:
        """Whether lines wait for `PendingLines`, instead of being embedded when they are read."""
        return self._embedder.is_behind

    # -- keeping up with the log -------------------------------------------------------------

    def catch_up(self) -> None:
        """Read what the log has new and index it; begin anew where the log has forgotten.

        Raises:
            LogError: If the log cannot be read; the next call goes on where this one stopped.
        """
        self._follow("unless paused")

    def refresh(self, progress: Progress | None = None) -> None:
        """Catch up, and send pending lines to the embedder even if it failed a moment ago.

        Args:
            progress: Called after each batch of segments.

        Raises:
            LogError: If the log cannot be read; the next call goes on where this one stopped.
            EmbedderChangedError: If lines wait for `reindex`; all else was done.
        """
        self._follow("all", progress)
        if self._change is not None:
            stored = ", ".join(self._others or ())
            current = self._stored.fingerprint
            raise EmbedderChangedError(self._change, stored=stored, current=current)

    def reindex(self, progress: Progress | None = None) -> None:
        """Embed what another embedder has embedded, and delete that one's vectors in the end.

        Each batch is stored before the next one is sent, so another call goes on where this one
        stopped. For an index that has read nothing yet, so that it stores what costs nothing too.

        Args:
            progress: Called after each batch of segments.

        Raises:
            LogError: If the log cannot be read; the next call goes on where this one stopped.
        """
        self._follow("anew", progress)
        self.delete_others()

    def delete_others(self) -> None:
        """Delete what other embedders have made, once every line has a stored vector."""
        if not self.vectors.missing and not len(self._stored):
            self._stored.delete_others()
            self._others = None

    def save(self) -> None:
        """Store what could not be stored until now."""
        self._stored.save()

    def drop_forgotten(self) -> None:
        """Begin anew if the log has forgotten something; nothing is sent to the embedder."""
        try:
            self._follow("nothing")
        except LogError:
            # The next recall says so if it still cannot be read; here nothing may be left.
            self._reset()

    def _follow(self, sending: _Sending, progress: Progress | None = None) -> None:
        self._sending = sending
        if sending in ("all", "anew"):
            self._embedder.border.resume()
        if self._others:
            self._others = None
            # Another process may have embedded everything meanwhile.
            self._has_overlooked = self._is_alone()
        try:
            failure = self._read_log()
            # What was read before a failure is indexed all the same, so that the columns match.
            failure = self._apply(progress) or failure
        except BaseException:
            # Interrupted between two columns: nothing half-built may answer a later recall.
            self._reset()
            raise
        finally:
            self._sending = "unless paused"
            self._embedder.forget_before()
        if failure is not None:
            raise failure

    # -- reading the log ---------------------------------------------------------------------

    def _read_log(self) -> LogError | None:
        """Read every owner's log to its end; return what stopped it earlier, if anything did."""
        while True:
            try:
                # An owner's entries stand among those of others, so one who forgot rewinds all.
                if not any(reader.read(self.table.add_many) for reader in self._readers):
                    return None
            except LogError as error:
                return error
            self._reset(reuse=True)

    def _apply(self, progress: Progress | None) -> LogError | None:
        """Index what was read; return what stopped reading it anew, if that was needed."""
        failure = None
        if any(before - now for _, before, now in self._retractions()):
            # A retraction was itself retracted: its lines come back where they stood.
            self._reset(reuse=True)
            failure = self._read_log()
        gone = self._remove_retracted()
        self._derive(progress)
        self.lexical.remove(gone)
        self.vectors.remove(gone)
        self._stored.drop(gone)
        if self.vectors.missing:
            self._fill_missing(progress)
        self._stored.save(may_wait=self._may_wait)
        return failure

    def _retractions(self) -> Iterator[tuple[Owner, frozenset[str], frozenset[str]]]:
        """Yield what was retracted at the last catch-up, and what is now, if it may differ."""
        for reader in self._readers:
            before, now = self._retracted.get(reader.owner, frozenset()), reader.retracted()
            if now is not before:
                yield reader.owner, before, now

    def _remove_retracted(self) -> list[int]:
        """Take newly retracted entries out of the table; return their segments' numbers."""
        gone: list[int] = []
        for owner, before, now in self._retractions():
            self._retracted[owner] = now
            gone += self.table.remove_entries(
                one for one in now - before if self._is_of(owner, one)
            )
        return gone

    def _is_of(self, owner: Owner, entry_id: str) -> bool:
        """Return whether the entry is the owner's: nobody retracts what another one said."""
        lines = self.table.lines_of_entry(entry_id)
        return bool(lines) and self.table.line(lines[0]).key.owner == owner

    # -- deriving terms and vectors ----------------------------------------------------------

    def _derive(self, progress: Progress | None) -> None:
        fresh = range(len(self.lexical), len(self.table))
        if not fresh:
            return
        self.vectors.expect(len(fresh))
        rows = self._load(fresh)
        size = _SMALL_BATCH if self.embeds_behind and self._sending == "anew" else _BATCH
        for done, numbers in enumerate(_batches(fresh, size)):
            self._derive_batch(numbers, rows)
            self._save_some()
            if progress is not None:
                progress(min((done + 1) * size, len(fresh)), len(fresh))
        self.lexical.settle()

    def _load(self, fresh: range) -> dict[int, StoredSegment]:
        if fresh.start and len(fresh) <= _FEW and self._embedder.is_free:
            return {}  # to make them anew takes no longer than to look
        rows, is_whole = self._stored.load(fresh)
        self._has_overlooked |= not is_whole
        return rows

    def _derive_batch(self, numbers: Sequence[int], rows: dict[int, StoredSegment]) -> None:
        # Each row is needed once, and together they take more memory than what comes of them.
        stored = [rows.pop(number, None) for number in numbers]
        whole = stored_whole(stored, self.vectors.dim)
        terms, vectors = self._derived(numbers, stored) if whole is None else whole
        self.lexical.add(terms)
        self.vectors.extend(vectors)
        self._embedder.learn(numbers)

    def _derived(
        self, numbers: Sequence[int], stored: Sequence[StoredSegment | None]
    ) -> tuple[list[list[str]], list[Vector | None]]:
        """Return terms and vectors, made and kept where they are not stored."""
        loaded = [stored_vector(row, self.vectors.dim) for row in stored]
        vectors = self._completed(numbers, loaded)
        terms: list[list[str]] = []
        for at, number in enumerate(numbers):
            row = stored[at]
            known = stored_terms(row)
            terms.append(self._terms(number) if known is None else known)
            if known is None or vectors[at] is not loaded[at]:
                self._keep(number, terms[at], vectors[at], row)
        return terms, vectors

    def _completed(
        self, numbers: Sequence[int], loaded: Sequence[Vector | None]
    ) -> list[Vector | None]:
        """Return the vectors with those that the embedder gives for what was not stored."""
        lengths = (len(vector) for vector in loaded if vector is not None)
        dim = self.vectors.dim or max(lengths, default=None)
        wanted = [
            number
            for number, vector in zip(numbers, loaded, strict=True)
            if vector is None and self.table.live[number]
        ]
        made = dict(zip(wanted, self._embed(wanted, dim), strict=True))
        both = zip(numbers, loaded, strict=True)
        return [made.get(number) if vector is None else vector for number, vector in both]

    def _fill_missing(self, progress: Progress | None) -> None:
        if self._has_overlooked or self._sending == "anew":
            self.fill_from_stored()
        if not self._may_send():
            return
        pending = sorted(self.vectors.missing)
        for done, numbers in enumerate(_batches(pending, _BATCH)):
            made = dict(zip(numbers, self._embed(numbers, self.vectors.dim), strict=True))
            if self.fill(made) < len(made):
                return
            if progress is not None:
                progress(min((done + 1) * _BATCH, len(pending)), len(pending))

    def fill(self, made: Mapping[int, Vector | None]) -> int:
        """Take in and store vectors of lines that waited for them; return how many there were."""
        filled = {number: vector for number, vector in made.items() if vector is not None}
        self.vectors.fill(list(filled), list(filled.values()))
        self._embedder.learn(filled)
        for number, vector in filled.items():
            self._keep(number, self._terms(number), vector, None)
        self._save_some()
        return len(filled)

    def fill_from_stored(self) -> None:
        """Take vectors that another process has stored, or that could not be read at first."""
        rows, is_whole = self._stored.load(sorted(self.vectors.missing))
        self._has_overlooked = not is_whole
        dim = self.vectors.dim
        vectors = {number: stored_vector(row, dim) for number, row in rows.items()}
        found = {number: vector for number, vector in vectors.items() if vector is not None}
        self.vectors.fill(list(found), list(found.values()))
        self._embedder.learn(found)

    def _terms(self, number: int) -> list[str]:
        return line_terms(self.table.line_of(number), self.table.text(number))

    # -- the embedder ------------------------------------------------------------------------

    def _embed(self, numbers: Sequence[int], dim: int | None) -> list[Vector | None]:
        if not numbers:
            return []
        texts = [self.table.text(number) for number in numbers]
        return self._embedder.vectors(texts, dim, send=self._may_send())

    def known(self, texts: Sequence[str]) -> list[Vector | None]:
        """Return the vectors of texts that are there already."""
        return self._embedder.vectors(texts, self.vectors.dim, send=False)

    def embed(self, texts: Sequence[str]) -> list[Vector] | None:
        """Return a vector per text, None after a failure; needs no lock but `embedding`."""
        return self._embedder.border.embed_lines(texts, self.vectors.dim)

    def may_embed(self) -> bool:
        """Return whether lines that wait may be embedded now."""
        is_due = self._embedder.is_free or self._is_agreed()
        return is_due and not self._embedder.border.is_paused

    def _may_send(self) -> bool:
        return (not self.embeds_behind or self._sending == "anew") and self.may_embed()

    def _is_agreed(self) -> bool:
        """Return whether sending lines is no surprise: none has been embedded by anybody."""
        if self._sending == "nothing" or self._has_overlooked:
            return False
        return self._sending == "anew" or self._is_alone()

    def _is_alone(self) -> bool:
        """Return whether no other embedder's vectors are stored; False where that is unknown."""
        if self._others is None:
            self._others = self._stored.others()
            self._has_overlooked |= self._others is None
            if self._others and self.embeds_behind:  # ours costs nobody anything
                self._others = [name for name in self._others if not is_made_here(name)]
        return self._others == []

    @property
    def _change(self) -> str | None:
        """What to say if lines wait because another embedder made their vectors."""
        if self._embedder.is_free or not self._others or not self.vectors.missing:
            return None
        owners = [owner_argument(one.owner) for one in self._readers]
        calls = " and ".join(f"memory.reindex({owner})" for owner in owners)
        return (
            f"the embedder changed: lines are found by their words alone until {calls} or `convmem "
            f"reindex` embeds {len(self.vectors.missing)} segments; their vectors are by "
            f"{', '.join(self._others)}, and this embedder is {self._stored.fingerprint}"
        )

    # -- the log's own cache -----------------------------------------------------------------

    def _keep(
        self, number: int, terms: Sequence[str], vector: Vector | None, old: StoredSegment | None
    ) -> None:
        """Have a segment stored, unless it is so already or nobody knows."""
        if self._cache is None or self._has_overlooked:
            return
        if self._embedder.is_free and self._sending != "anew" and not self._is_alone():
            # Vectors that cost nothing do not stand beside those that somebody paid for.
            vector = None
        self._stored.put(number, terms, vector, old)

    def _save_some(self) -> None:
        """Store what would be dear to lose."""
        if not self._embedder.is_free or len(self._stored) >= _UNSAVED:
            self._stored.save(may_wait=self._may_wait)

    @property
    def _may_wait(self) -> bool:
        """Whether nobody asked for what is stored now to be stored."""
        return self._sending not in ("all", "anew")
