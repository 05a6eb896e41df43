"""The in-memory index of some owners' lines: a cache of the log that can be rebuilt.

Each owner's log is read from a cursor on. Lines become segments; segments get terms and vectors,
out of the log's own cache where it keeps one. Everything is one fold over the logs, so an index
kept up to date equals one rebuilt from scratch.
"""

from __future__ import annotations

import logging
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from heapq import nlargest
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from langchain_convmem.background import BackgroundJobs
from langchain_convmem.causes import report_problem
from langchain_convmem.errors import ConfigError, LogClosedError, LogError
from langchain_convmem.forks import FORKS, GatedLock, make_lock
from langchain_convmem.message_log import MessageLog
from langchain_convmem.recall.embedding import (
    ChosenEmbedder,
    EmbeddedEmbeddings,
    EmbedderChoice,
    MiniLMEmbeddings,
    SafeEmbedder,
    find_traits,
    format_owner,
    is_free,
    is_made_here,
)
from langchain_convmem.recall.options import Progress
from langchain_convmem.recall.segments import (
    SegmentStore,
    SegmentTable,
    read_complete,
    read_terms,
    read_vector,
    select_holding,
)
from langchain_convmem.recall.snapshots import (
    IndexParts,
    SnapshotStore,
    load_parts,
    save_parts,
)
from langchain_convmem.recall.vectors import IndexName, SegmentVectors, VectorBits
from langchain_convmem.records import DialogLine, Owner, StoredSegment
from langchain_convmem.views.live import Retraction, follow_retractions, list_retractions
from langchain_convmem.words.analysis import extract_line_terms
from langchain_convmem.words.bm25 import LexicalIndex
from langchain_convmem.words.columns import SavedColumns

if TYPE_CHECKING:
    import numpy as np
    from langchain_core.embeddings import Embeddings
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float16]
    from langchain_convmem.recall.segments import SegmentName


BATCH = 256
"""Texts that an embedder is sent at once."""
_SMALL_BATCH = 32
_UNSAVED = 2000
_FEW = 16
"""Lines of a turn or two, which others have hardly ever indexed before."""
_Sending: TypeAlias = Literal["nothing", "unless paused", "all", "anew"]
"""When lines may go to the embedder; "anew": though another one has made vectors of them."""


def _split_batches(numbers: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(numbers), size):
        yield numbers[start : start + size]


class OwnerIndex:
    """Table, terms and vectors of the owners' lines; owners share only the scale of scores.

    Not thread-safe: hold `lock` around every method and whatever reads the three.
    """

    def __init__(
        self,
        log: MessageLog,
        owners: tuple[Owner, ...],
        embeddings: Embeddings,
        *,
        index: IndexName = "auto",
        vector_bits: VectorBits = 16,
        problem: str | None = None,
    ) -> None:
        """Create an index of the owners, each named once; `problem` is one of the embedder."""
        self.lock = GatedLock()
        self.embedding = make_lock()  # held, before `lock`, by `PendingLines`
        self.embeddings = embeddings
        self._cache = log if log.keeps_segments else None
        self._embedder_problem = problem
        self._embedder = LineEmbedder(embeddings)
        self.embeds_later = isinstance(embeddings, MiniLMEmbeddings)
        """Whether lines wait for `PendingLines`, instead of being embedded when they are read."""
        self.remembers_itself = isinstance(embeddings, EmbeddedEmbeddings | MiniLMEmbeddings)
        """Whether questions cost next to nothing, or the embedder remembers the latest of them."""
        self._index: IndexName = index
        self._vector_bits: VectorBits = vector_bits
        self._readers = tuple(LogReader(log, owner) for owner in owners)
        self._snapshots = SnapshotStore(log, owners)
        self._saving = make_lock()  # held, before `lock`, while one is made
        self._is_new = True
        self._sending: _Sending = "unless paused"
        self._reset()

    def _reset(self, *, reuse: bool = False) -> None:
        """Begin anew; with `reuse`, what has a vector is not sent to the embedder again."""
        self._begin(SegmentTable(), LexicalIndex(), self._make_vectors(), reuse=reuse)
        for reader in self._readers:
            reader.rewind()

    def _begin(
        self,
        table: SegmentTable,
        lexical: LexicalIndex,
        vectors: SegmentVectors,
        *,
        reuse: bool = False,
    ) -> None:
        self.table, self.lexical, self.vectors = table, lexical, vectors
        self._embedder.begin(table, vectors, reuse=reuse)
        self._retracted: dict[Owner, frozenset[str]] = {}
        owners = [reader.owner for reader in self._readers]
        self._stored = SegmentStore(self._cache, owners, self.embeddings, table)
        self._snapshots.note(len(table))
        self._others: list[str] | None = None
        self._has_overlooked = False

    def _make_vectors(self) -> SegmentVectors:
        return SegmentVectors(
            index=self._index,
            bits=self._vector_bits,
            trusted_spread=getattr(self.embeddings, "trusted_spread", 0.0),
        )

    @property
    def problems(self) -> tuple[str, ...]:
        """Why this index is incomplete or expensive to rebuild, one sentence each."""
        pending = self._embedder.border.problem if self.vectors.missing else None
        found = (
            self._embedder_problem,
            self._change,
            self._damage_problem,
            pending,
            *self._stored.problems,
        )
        return tuple(problem for problem in found if problem is not None)

    @property
    def _damage_problem(self) -> str | None:
        damaged = sum(reader.damaged for reader in self._readers)
        if not damaged:
            return None
        noun = "entry is" if damaged == 1 else "entries are"
        return f"{damaged} {noun} damaged and cannot be recalled; see `convmem db verify`"

    # -- keeping up with the log ---------------------------------------------------------------

    def catch_up(self) -> None:
        """Index what is new in the log; rebuild if the log has forgotten something.

        Raises:
            LogError: If the log cannot be read; the next call resumes here.
        """
        self._follow("unless paused")

    def refresh(self, progress: Progress | None = None) -> None:
        """Catch up, and send pending lines to the embedder even if it failed a moment ago.

        Args:
            progress: Called after each batch of segments.

        Raises:
            LogError: If the log cannot be read; the next call resumes here.
            ConfigError: If lines wait for `reindex`; all else was done.
        """
        self._follow("all", progress)
        if self._change is not None:
            raise ConfigError(self._change)

    def reindex(self, progress: Progress | None = None) -> None:
        """Re-embed what another embedder has embedded, then delete its vectors.

        Each batch is stored before the next one is sent, so another call goes on where this one
        stopped. For an index that has read nothing yet, so that it stores what costs nothing too.

        Args:
            progress: Called after each batch of segments.

        Raises:
            LogError: If the log cannot be read; the next call resumes here.
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

    def read_on(self) -> None:
        """Take in what is new in the log; nothing is sent to the embedder.

        Raises:
            LogError: If the log cannot be read; the next call resumes here.
        """
        self._follow("nothing")

    def drop_forgotten(self) -> None:
        """Rebuild if the log has forgotten something; nothing is sent to the embedder."""
        try:
            self.read_on()
        except LogError:
            # The next recall says so if it still cannot be read; here nothing may be left.
            self._reset()

    def _follow(self, sending: _Sending, progress: Progress | None = None) -> None:
        self._sending = sending
        is_new, self._is_new = self._is_new, False
        if sending in ("all", "anew"):
            self._embedder.border.resume()
        if self._others:
            self._others = None
            # Another process may have embedded everything meanwhile.
            self._has_overlooked = self._is_alone()
        try:
            if is_new and sending != "anew":
                self._open_snapshot()
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

    # -- snapshots -----------------------------------------------------------------------------

    def _open_snapshot(self) -> None:
        """Begin with what a snapshot holds, if there is one."""
        found = self._snapshots.load(self._stored.fingerprint)
        if found is None:
            return
        columns, generation = found
        parts = load_parts(columns, self._make_vectors())
        if parts is None:
            return
        self._begin(*parts)
        for reader in self._readers:
            reader.load_from(columns, generation)
            self._retracted[reader.owner] = reader.retracted

    @property
    def is_snapshot_due(self) -> bool:
        """Whether the index is whole, and has grown so much that it may be worth saving."""
        is_whole = not self.vectors.missing and not self._has_overlooked
        return is_whole and self._snapshots.is_due(len(self.table))

    def save_snapshot(self) -> None:
        """Save the index as bytes if it is due, and no other embedder has embedded any line.

        Takes `lock`: do not hold it. Thread-safe.

        Raises:
            LogClosedError: If the log is closed.
        """
        with self._saving:
            with self.lock:
                if not self.is_snapshot_due:
                    return
                # Asked again once it has grown on: of the log, which takes a query, this seldom.
                self._snapshots.note(len(self.table))
                if not self._is_agreed():
                    return
                table, columns = self.table, SavedColumns()
                save_parts(IndexParts(table, self.lexical, self.vectors), columns)
                [reader] = self._readers
                generation = reader.save_to(columns)
                before, lines = table.get_parts()
            before.add(lines).save_to(columns)
            self._snapshots.save(self._stored.fingerprint, columns, generation)

    # -- reading the log -----------------------------------------------------------------------

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
        if any(before - now for _, before, now in self._list_retractions()):
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

    def _list_retractions(self) -> Iterator[tuple[Owner, frozenset[str], frozenset[str]]]:
        """Yield what was retracted at the last catch-up, and what is now, if it may differ."""
        for reader in self._readers:
            before, now = self._retracted.get(reader.owner, frozenset()), reader.retracted
            if now is not before:
                yield reader.owner, before, now

    def _remove_retracted(self) -> list[int]:
        """Take newly retracted entries out of the table; return their segments' numbers."""
        gone: list[int] = []
        for owner, before, now in self._list_retractions():
            self._retracted[owner] = now
            gone += self.table.remove_entries(
                one for one in now - before if self._is_of(owner, one)
            )
        return gone

    def _is_of(self, owner: Owner, entry_id: str) -> bool:
        """Return whether the entry is the owner's: owners only retract their own entries."""
        lines = self.table.list_entry_lines(entry_id)
        return bool(lines) and self.table.get_line(lines[0]).key.owner == owner

    # -- deriving terms and vectors ------------------------------------------------------------

    def _derive(self, progress: Progress | None) -> None:
        fresh = range(len(self.lexical), len(self.table))
        if not fresh:
            return
        self.vectors.expect(len(fresh))
        rows: dict[int, StoredSegment] = {}
        # To make a few anew takes no longer than to look.
        if not (fresh.start and len(fresh) <= _FEW and self._embedder.is_free):
            rows, is_complete = self._stored.load(fresh)
            self._has_overlooked |= not is_complete
        size = _SMALL_BATCH if self.embeds_later and self._sending == "anew" else BATCH
        for done, numbers in enumerate(_split_batches(fresh, size)):
            self._derive_batch(numbers, rows)
            self._save_some()
            if progress is not None:
                progress(min((done + 1) * size, len(fresh)), len(fresh))
        self.lexical.settle()

    def _derive_batch(self, numbers: Sequence[int], rows: dict[int, StoredSegment]) -> None:
        # Each row is needed once, and together they take more memory than what comes of them.
        stored = [rows.pop(number, None) for number in numbers]
        whole = read_complete(stored, self.vectors.dim)
        terms, vectors = self._load_derived(numbers, stored) if whole is None else whole
        self.lexical.add(terms)
        self.vectors.extend(vectors)
        self._embedder.learn(numbers)

    def _load_derived(
        self, numbers: Sequence[int], stored: Sequence[StoredSegment | None]
    ) -> tuple[list[list[str]], list[Vector | None]]:
        """Return terms and vectors, made and kept where they are not stored."""
        loaded = [read_vector(row, self.vectors.dim) for row in stored]
        vectors = self._complete(numbers, loaded)
        terms: list[list[str]] = []
        for at, number in enumerate(numbers):
            row = stored[at]
            known = read_terms(row)
            terms.append(self._make_terms(number) if known is None else known)
            if known is None or vectors[at] is not loaded[at]:
                self._keep(number, terms[at], vectors[at], row)
        return terms, vectors

    def _complete(
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
        for done, numbers in enumerate(_split_batches(pending, BATCH)):
            made = dict(zip(numbers, self._embed(numbers, self.vectors.dim), strict=True))
            if self.fill(made) < len(made):
                return
            if progress is not None:
                progress(min((done + 1) * BATCH, len(pending)), len(pending))

    def fill(self, made: Mapping[int, Vector | None]) -> int:
        """Take in and store vectors of lines that waited for them; return how many there were."""
        filled = {number: vector for number, vector in made.items() if vector is not None}
        self.vectors.fill(list(filled), list(filled.values()))
        self._embedder.learn(filled)
        for number, vector in filled.items():
            self._keep(number, self._make_terms(number), vector, None)
        self._save_some()
        return len(filled)

    def fill_from_stored(self) -> None:
        """Take vectors that another process has stored, or that could not be read at first."""
        rows, is_whole = self._stored.load(sorted(self.vectors.missing))
        self._has_overlooked = not is_whole
        dim = self.vectors.dim
        vectors = {number: read_vector(row, dim) for number, row in rows.items()}
        found = {number: vector for number, vector in vectors.items() if vector is not None}
        self.vectors.fill(list(found), list(found.values()))
        self._embedder.learn(found)

    def _make_terms(self, number: int) -> list[str]:
        return extract_line_terms(self.table.find_line(number), self.table.get_text(number))

    # -- the embedder --------------------------------------------------------------------------

    def _embed(self, numbers: Sequence[int], dim: int | None) -> list[Vector | None]:
        if not numbers:
            return []
        texts = [self.table.get_text(number) for number in numbers]
        return self._embedder.embed_texts(texts, dim, send=self._may_send())

    def find_known(self, texts: Sequence[str]) -> list[Vector | None]:
        """Return the known vectors of texts."""
        return self._embedder.embed_texts(texts, self.vectors.dim, send=False)

    def embed(self, texts: Sequence[str]) -> list[Vector] | None:
        """Return a vector per text, None after a failure; needs no lock but `embedding`."""
        made = self._embedder.border.embed_lines(texts, self.vectors.dim)
        found = [vector for vector in made if vector is not None]
        return found if len(found) == len(made) else None

    def find_question(self, text: str) -> Vector | None:
        """Return the vector of a question, if one is known that the embedder would give."""
        return self._embedder.find_question(text, self.vectors.dim)

    def keep_question(self, text: str, vector: Vector) -> None:
        """Remember the vector of a question, for the next one and for the line that it becomes."""
        self._embedder.keep_question(text, vector)

    def may_embed(self) -> bool:
        """Return whether lines that wait may be embedded now."""
        is_due = self._embedder.is_free or self._is_agreed()
        return is_due and not self._embedder.border.is_paused

    def _may_send(self) -> bool:
        return (not self.embeds_later or self._sending == "anew") and self.may_embed()

    def _is_agreed(self) -> bool:
        """Return whether lines may be sent: no other embedder has embedded any."""
        if self._sending == "nothing" or self._has_overlooked:
            return False
        return self._sending == "anew" or self._is_alone()

    def _is_alone(self) -> bool:
        """Return whether no other embedder's vectors are stored; False where that is unknown."""
        if self._others is None:
            self._others = self._stored.list_other_fingerprints()
            self._has_overlooked |= self._others is None
            if self._others and self.embeds_later:  # ours costs nobody anything
                self._others = [name for name in self._others if not is_made_here(name)]
        return self._others == []

    @property
    def _change(self) -> str | None:
        """What to say if lines wait because another embedder made their vectors."""
        if self._embedder.is_free or not self._others or not self.vectors.missing:
            return None
        owners = [format_owner(one.owner) for one in self._readers]
        calls = " and ".join(f"memory.reindex({owner})" for owner in owners)
        return (
            f"the embedder changed: lines are found by their words alone until {calls} or `convmem "
            f"reindex` embeds {len(self.vectors.missing)} segments; their vectors are by "
            f"{', '.join(self._others)}, and this embedder is {self._stored.fingerprint}"
        )

    # -- the log's own cache -------------------------------------------------------------------

    def _keep(
        self, number: int, terms: Sequence[str], vector: Vector | None, old: StoredSegment | None
    ) -> None:
        """Have a segment stored, unless it is so already or nobody knows."""
        if self._cache is None or self._has_overlooked:
            return
        if self._embedder.is_free and self._sending != "anew" and not self._is_alone():
            # Vectors that cost nothing are not stored next to those that somebody paid for.
            vector = None
        self._stored.put(number, terms, vector, old)

    def _save_some(self) -> None:
        """Store what would be expensive to lose."""
        if not self._embedder.is_free or len(self._stored) >= _UNSAVED:
            self._stored.save(may_wait=self._may_wait)

    @property
    def _may_wait(self) -> bool:
        """Whether nobody asked for what is stored now to be stored."""
        return self._sending not in ("all", "anew")


# -- the indexes of a process, one for each set of owners -------------------------------------


_LATEST = 16
"""Of so many that were used last the segments are counted anew: others are hardly in use."""


class IndexRegistry:
    """Creates indexes and keeps the most recently used. Thread-safe."""

    def __init__(
        self,
        log: MessageLog,
        choice: EmbedderChoice,
        *,
        index: IndexName = "auto",
        vector_bits: VectorBits = 16,
        max_owners: int,
        max_segments: int,
    ) -> None:
        """Create an empty registry.

        Args:
            log: Where the lines stand.
            choice: What embeds them.
            index: See `RecallSettings.index`.
            vector_bits: See `RecallSettings.vector_bits`.
            max_owners: How many indexes stay in memory; the least recently used leave.
            max_segments: How many segments they hold together, but for the one in use.

        Raises:
            ConfigError: If a limit is not positive.
        """
        for name, limit in (("max_owners", max_owners), ("max_segments", max_segments)):
            if limit < 1:
                msg = f"{name} must be at least 1, got {limit!r}"
                raise ConfigError(msg)
        self._log = log
        self._choice = choice
        self._index: IndexName = index
        self._vector_bits: VectorBits = vector_bits
        self._max_owners = max_owners
        self._max_segments = max_segments
        self._indexes: OrderedDict[tuple[Owner, ...], OwnerIndex] = OrderedDict()
        # How many segments each was found to hold, and all of them together.
        self._counts: dict[tuple[Owner, ...], int] = {}
        self._segments = 0
        self._lock = make_lock()

    @property
    def indexes(self) -> list[OwnerIndex]:
        """The indexes in memory."""
        with self._lock:
            return list(self._indexes.values())

    @property
    def held(self) -> list[tuple[Owner, ...]]:
        """Whose indexes are in memory, least recently used first."""
        with self._lock:
            return list(self._indexes)

    def find_involving(self, owner: Owner) -> list[OwnerIndex]:
        """Return the indexes in memory that hold lines of this owner."""
        with self._lock:
            return [index for owners, index in self._indexes.items() if owner in owners]

    def find_kept(self, owners: tuple[Owner, ...]) -> OwnerIndex | None:
        """Return the index over these owners if it is in memory, as the latest used."""
        with self._lock:
            index = self._indexes.get(owners)
            if index is not None:
                self._indexes.move_to_end(owners)
                self._make_room()
            return index

    def open(self, owners: tuple[Owner, ...]) -> OwnerIndex:
        """Return the index over these owners, creating it if needed; it may be empty.

        For one that is made the log is asked who embedded its lines.
        """
        index = self.find_kept(owners)
        if index is not None:
            return index
        chosen = self._choice.choose(owners)
        made = self._make(owners, chosen)
        if not chosen.is_final:
            return made
        with self._lock:
            # Somebody else may have been faster.
            index = self._indexes.setdefault(owners, made)
            self._make_room()
            return index

    def make_anew(self, owners: tuple[Owner, ...]) -> OwnerIndex:
        """Return a new, unshared index over these owners."""
        return self._make(owners, ChosenEmbedder(self._choice.default))

    def _make(self, owners: tuple[Owner, ...], chosen: ChosenEmbedder) -> OwnerIndex:
        return OwnerIndex(
            self._log,
            owners,
            chosen.embeddings,
            index=self._index,
            vector_bits=self._vector_bits,
            problem=chosen.problem,
        )

    def adopt(self, owners: tuple[Owner, ...], index: OwnerIndex) -> None:
        """Replace the index over these owners."""
        with self._lock:
            self._indexes[owners] = index
            self._indexes.move_to_end(owners)
            self._make_room()

    def _make_room(self) -> None:
        """Let the least recently used leave; what an index in use grows by counts next time."""
        # Counting all of many would take as long as a recall.
        for owners in islice(reversed(self._indexes), _LATEST):
            count = len(self._indexes[owners].table)
            self._segments += count - self._counts.get(owners, 0)
            self._counts[owners] = count
        while len(self._indexes) > 1 and (
            len(self._indexes) > self._max_owners or self._segments > self._max_segments
        ):
            owners, _ = self._indexes.popitem(last=False)
            self._segments -= self._counts.pop(owners, 0)


# -- reading one owner's part of a log, from where the last reading stopped --------------------

_PAGE = 4000
"""Entries at once: a log may look at all that are left to find them, and what is read at once
waits in memory."""


class LogReader:
    """How far an owner's log has been read, and what its control entries retract.

    Not thread-safe.
    """

    def __init__(self, log: MessageLog, owner: Owner) -> None:
        """Create a reader that has read nothing yet."""
        self.owner = owner
        self._line_changes = log.line_changes
        self._generation: int | None = None
        self.rewind()

    def rewind(self) -> None:
        """Read from the beginning next time."""
        self._cursor = 0
        self._controls: list[Retraction] = []
        self.retracted: frozenset[str] = frozenset()
        """Ids of the entries that were read and count no more; another object where more do."""
        self.damaged = 0
        """How many entries were read that cannot be understood."""

    def save_to(self, columns: SavedColumns) -> int:
        """Add how far it has come; return the generation of what was read."""
        columns.put_value("reader", [self._cursor, self.damaged, self._controls])
        return self._generation or 0

    def load_from(self, columns: SavedColumns, generation: int) -> None:
        """Go on where the reader stopped that `save_to` was asked for."""
        self._cursor, self.damaged, controls = columns.get_value("reader")
        self._controls = [(entry_id, tuple(retracts)) for entry_id, retracts in controls]
        self.retracted = frozenset(follow_retractions(self._controls))
        self._generation = generation

    def read(self, take: Callable[[Sequence[DialogLine]], object]) -> bool:
        """Give the lines that the log has new to `take`, in commit order.

        Returns:
            False at the end of the log; True when the log forgot something of what was read
            earlier: then everything is to be read again, after `rewind`.

        Raises:
            LogError: If the log cannot be read; the next call resumes here.
        """
        while True:
            changes = self._line_changes(self.owner, self._cursor, limit=_PAGE)
            if changes.generation != self._generation:
                self._generation = changes.generation
                if self._cursor > 0:
                    return True
            if changes.cursor == self._cursor:
                return False
            self._cursor = changes.cursor
            if changes.controls:
                self._controls += list_retractions(changes.controls)
                self.retracted = frozenset(follow_retractions(self._controls))
                self.damaged += sum(bool(entry.damage) for entry in changes.controls)
            take(changes.lines)
            if changes.is_last:
                return False


def scan_lines(log: MessageLog, owner: Owner, words: Collection[str]) -> list[DialogLine]:
    """Return an owner's lines that hold all of these words, folded ones, in commit order.

    Raises:
        LogError: If the log cannot be read.
    """
    reader, found = LogReader(log, owner), list[DialogLine]()
    while reader.read(lambda lines: found.extend(select_holding(lines, words))):
        reader.rewind()
        found.clear()
    return [line for line in found if line.entry_id not in reader.retracted]


# -- embedding what waits in an index, a small batch at a time, while others recall from it ----

_EMBEDDED_AT_ONCE = 16
"""About a tenth of a second: so long closing waits, and so much a kill loses."""
_FOREGROUND_BATCH = 64
"""Enough for every processor, where somebody waits for all of it."""
_LOOKING_SHARE = 0.05
"""How much of the time may go into looking what other processes have stored."""


class _Segment(NamedTuple):
    """A segment that waits, by a name that outlives its number."""

    name: SegmentName
    text: str


class PendingLines:
    """The lines of an index that wait for their vectors, newest first.

    The index is locked only to take lines and to put vectors back, not while they are embedded;
    one batch of an index is embedded at a time. Thread-safe as far as one caller goes on at a time.
    Equal are those of the same index.
    """

    def __init__(
        self,
        index: OwnerIndex,
        *,
        batch: int = _EMBEDDED_AT_ONCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Serve an index.

        Args:
            index: Whose lines.
            batch: How many texts are embedded at once.
            clock: Gives seconds and never steps back.
        """
        self.index = index
        self._batch = batch
        self._clock = clock
        self._next_look = -float("inf")
        self._looks = 0
        self._is_shared = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PendingLines) and other.index is self.index

    def __hash__(self) -> int:
        return id(self.index)

    @property
    def is_snapshot_due(self) -> bool:
        """Whether the index is to be saved."""
        with self.index.lock:
            return self.index.is_snapshot_due

    def embed_some(self) -> int:
        """Read what the log has new and embed a batch; return how many segments still wait.

        0 as well where they may not be embedded now; then the index has a problem.

        Raises:
            LogError: If the log cannot be read; the next call resumes here.
        """
        index = self.index
        with index.embedding:
            batch = self._take()
            texts = list(dict.fromkeys(one.text for one in batch))
            vectors = index.embed(texts) if texts else None
            with index.lock:
                if vectors is not None:
                    self._put(batch, dict(zip(texts, vectors, strict=True)))
                elif texts:
                    return 0
                return len(index.vectors.missing) if index.may_embed() else 0

    def _put(self, batch: Sequence[_Segment], made: Mapping[str, Vector]) -> None:
        table, missing = self.index.table, self.index.vectors.missing
        found: dict[int, Vector | None] = {}
        for name, text in batch:
            # The log may have forgotten some meanwhile, and the others have other numbers then.
            number = table.number_of(name)
            if number in missing and table.get_text(number) == text:
                found[number] = made[text]
        self.index.fill(found)

    def _take(self) -> Sequence[_Segment]:
        """Return the next segments whose texts nobody has embedded yet."""
        index = self.index
        with index.lock:
            index.catch_up()
            if not index.vectors.missing or not index.may_embed():
                return ()
            self._look()
            missing = index.vectors.missing
            if self._is_shared:
                numbers = random.sample(sorted(missing), min(self._batch, len(missing)))
            else:
                numbers = nlargest(self._batch, missing)
            known = index.find_known([index.table.get_text(number) for number in numbers])
            index.fill(dict(zip(numbers, known, strict=True)))
            return [
                _Segment(index.table.get_name(number), index.table.get_text(number))
                for number in numbers
                if number in index.vectors.missing
            ]

    def _look(self) -> None:
        """Take what other processes have stored meanwhile, at first and then now and again.

        Once another one proves to be at work on the same lines, batches are drawn at random, so
        that the two seldom do the same.
        """
        start = self._clock()
        if start < self._next_look:
            return
        missing = self.index.vectors.missing
        before = len(missing)
        self.index.fill_from_stored()
        self._is_shared |= self._looks > 0 and len(missing) < before
        self._looks += 1
        end = self._clock()
        self._next_look = end + (end - start) / _LOOKING_SHARE


def count_waiting(index: OwnerIndex, mask: Callable[[SegmentTable], NDArray[np.bool_]]) -> int:
    """Return how many segments of a mask wait to be embedded later, and can be.

    The caller holds the index's lock.
    """
    missing = index.vectors.missing
    if not missing or not index.embeds_later or not index.may_embed():
        return 0
    return int(mask(index.table)[list(missing)].sum())


def embed_pending(index: OwnerIndex, progress: Progress | None = None) -> None:
    """Embed everything pending in an index, synchronously.

    Args:
        index: Whose lines.
        progress: Called with (done, total) segments after each batch, in this thread.

    Raises:
        LogError: If the log cannot be read; the next call resumes here.
    """
    lines = PendingLines(index, batch=_FOREGROUND_BATCH)
    with index.lock:
        index.catch_up()
        total = len(index.vectors.missing)
    left = total
    if progress is not None:
        progress(0, total)
    while left:
        left = lines.embed_some()
        total = max(total, left)
        if progress is not None:
            progress(total - left, total)


# -- vectors for the lines of an index: each text is sent to the embedder once -----------------


class LineEmbedder:
    """Asks an embedder for what no segment of the index says already. Not thread-safe."""

    def __init__(self, embeddings: Embeddings) -> None:
        """Create an embedder for an index; say `begin` before anything else."""
        self.border = SafeEmbedder(embeddings)
        self.is_free = is_free(embeddings)
        self._is_alike = find_traits(embeddings).is_alike
        self._questions: dict[str, NDArray[np.float16]] = {}
        self._known: KnownTexts | None = None
        self._before: KnownTexts | None = None

    def begin(self, table: SegmentTable, vectors: SegmentVectors, *, reuse: bool) -> None:
        """Serve an index that begins anew.

        Args:
            table: The new index's segments.
            vectors: Their vectors.
            reuse: Whether vectors of the old index are good for equal texts of the new one, until
                `forget_before`.
        """
        if not reuse:
            self._before = None
        elif self._known is not None and len(self._known):
            self._before = self._known
        self._known = KnownTexts(table, vectors)
        # One of them may have been a line that is forgotten now.
        self._questions.clear()

    def forget_before(self) -> None:
        """Release the previous index."""
        self._before = None

    def learn(self, numbers: Iterable[int]) -> None:
        """Note that these segments may have vectors now."""
        if self._known is not None:
            self._known.learn(numbers)

    def embed_texts(
        self, texts: Sequence[str], dim: int | None, *, send: bool
    ) -> list[NDArray[np.float16] | None]:
        """Return a rounded vector per text; None where it is pending.

        Args:
            texts: Bodies of segments.
            dim: Components that each vector must have; None if any number will do.
            send: Whether the embedder may be asked.
        """
        found = {text: self._reuse(text, dim) for text in dict.fromkeys(texts)}
        wanted = [text for text, vector in found.items() if vector is None]
        if send and wanted:
            made = self.border.embed_lines(wanted, dim)
            found.update(zip(wanted, made, strict=True))
        return [found[text] for text in texts]

    def find_question(self, text: str, dim: int | None) -> NDArray[np.float16] | None:
        """Return the vector of a question that was asked or, where both are alike, said before."""
        vector = self._questions.get(text)
        if vector is None and self._is_alike:
            vector = self._reuse(text, dim)
        return vector if vector is None or dim in (None, len(vector)) else None

    def keep_question(self, text: str, vector: NDArray[np.float16]) -> None:
        """Remember the vector of one of the latest questions."""
        self._questions[text] = vector
        while len(self._questions) > _QUESTIONS:
            del self._questions[next(iter(self._questions))]

    def _reuse(self, text: str, dim: int | None) -> NDArray[np.float16] | None:
        if self.is_free:
            return None
        asked = self._questions.get(text) if self._is_alike else None
        if asked is not None and dim in (None, len(asked)):
            return asked
        for known in (self._known, self._before):
            vector = None if known is None else known.find_vector(text)
            if vector is not None and dim in (None, len(vector)):
                return vector
        return None


# -- what an index holds already, by text ------------------------------------------------------

_MOST = 100_000
_QUESTIONS = 128


class KnownTexts:
    """Finds the vector of a text among the segments of an index. Not thread-safe.

    It keeps a number for each text, of the latest ones: texts and vectors stay where they are. And
    it does so from the first question on only, since most indexes find all they need stored.
    """

    def __init__(self, table: SegmentTable, vectors: SegmentVectors) -> None:
        """Create a register of the texts of `table`, which have their vectors in `vectors`."""
        self._table = table
        self._vectors = vectors
        self._numbers: dict[int, int] | None = None

    def __len__(self) -> int:
        """Return how many segments there are to know."""
        return len(self._vectors)

    def learn(self, numbers: Iterable[int]) -> None:
        """Take in those of the segments that have a vector by now; the oldest texts leave."""
        if self._numbers is None:
            return
        for number in numbers:
            if self._vectors.present[number]:
                self._numbers[hash(self._table.get_text(number))] = number
        while len(self._numbers) > _MOST:
            del self._numbers[next(iter(self._numbers))]

    def find_vector(self, text: str) -> NDArray[np.float16] | None:
        """Return the vector of a segment with exactly this text, if known."""
        if self._numbers is None:
            self._numbers = {}
            self.learn(range(len(self._vectors)))
        number = self._numbers.get(hash(text))
        # Two texts may share a hash.
        if number is None or self._table.get_text(number) != text:
            return None
        return self._vectors.get_row(number)


# -- embedding after a recall, in a thread of its own ---------------------------------------------

_log = logging.getLogger("langchain_convmem")
_CLOSING_S = 0.3


def embed_later(index: OwnerIndex) -> Future[None]:
    """Have all that waits in an index embedded; return what is done when that is so.

    It is done as well when lines cannot be embedded now; then the index has a problem. After it,
    the index is saved if it is due.
    """
    return _EMBEDDING.submit(PendingLines(index))


def stop_embedding(indexes: Iterable[OwnerIndex]) -> None:
    """Embed no more of these indexes: few lines are finished, of more the batch under way."""
    stopped = list(indexes)
    _EMBEDDING.drop(map(PendingLines, stopped), _CLOSING_S)
    _SAVING.drop(stopped, _CLOSING_S)


def _embed_some(lines: PendingLines) -> bool:
    """Embed a batch; say whether more waits. A fork waits for the end of the batch."""
    try:
        with FORKS.hold():
            is_more = lines.embed_some() > 0
            if not is_more and lines.is_snapshot_due:
                _SAVING.submit(lines.index)
    except LogClosedError:
        return False
    except LogError as error:
        # The next recall says so where it still cannot be read.
        report_problem(_log, "lines could not be embedded", error)
        return False
    return is_more


def _save(index: OwnerIndex) -> None:
    with FORKS.hold():
        index.save_snapshot()


# Who waits for a vector does not wait for a snapshot.
_EMBEDDING = BackgroundJobs(_embed_some, name="embedding", workers=1)
_SAVING = BackgroundJobs(_save, name="snapshot", workers=1)
