"""The in-memory index of some owners' lines: a cache of the log that can be rebuilt.

Each owner's log is read from a cursor on. Lines become segments; segments get terms and vectors,
out of the log's own cache where it keeps one. Everything is one fold over the logs, so an index
kept up to date equals one rebuilt from scratch.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from langchain_convmem.background import BackgroundJobs
from langchain_convmem.causes import report_problem
from langchain_convmem.errors import LogClosedError, LogError
from langchain_convmem.forks import FORKS, GatedLock, make_lock
from langchain_convmem.message_log import MessageLog
from langchain_convmem.recall.embedding import SafeEmbedder, is_local
from langchain_convmem.recall.options import Progress
from langchain_convmem.recall.segments import SegmentTable, SegmentVectors, select_holding
from langchain_convmem.recall.stored import Derived, IndexParts, IndexStore
from langchain_convmem.records import DialogLine, Owner
from langchain_convmem.views.live import Retraction, follow_retractions, list_retractions
from langchain_convmem.words.analysis import extract_line_terms
from langchain_convmem.words.bm25 import LexicalIndex

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

    from langchain_convmem.recall.ranking import Mask
    from langchain_convmem.recall.segments import Vector

_log = logging.getLogger("langchain_convmem")

BATCH = 256
"""Texts that a service is sent at once."""
_LOCAL_BATCH = 64
"""Texts that are embedded here at once: about a seventh of a second."""
_FEW = 16
"""So many lines are embedded here as fast as looked for in the log, and are stored together."""
_CLOSING_S = 0.3


class OwnerIndex:
    """Table, terms and vectors of the owners' lines; owners share only the scale of scores.

    Not thread-safe: hold `lock` around every method and whatever reads the three, but where a
    method says otherwise.
    """

    def __init__(self, log: MessageLog, owners: tuple[Owner, ...], embeddings: Embeddings) -> None:
        """Create an index of the owners, each named once; nothing is read yet."""
        self.lock = GatedLock()
        self._embedding = make_lock()  # held, before `lock`, by who embeds lines
        self.is_local = is_local(embeddings)
        self.border = SafeEmbedder(embeddings)
        self._readers = tuple(LogReader(log, owner) for owner in owners)
        self._stored = IndexStore(log, owners, embeddings)
        self._is_new = True
        self._others: list[str] | None = None
        self._begin(SegmentTable(), LexicalIndex(), SegmentVectors())

    def _begin(self, table: SegmentTable, lexical: LexicalIndex, vectors: SegmentVectors) -> None:
        self.table, self.lexical, self.vectors = table, lexical, vectors
        # What is embedded and not stored yet, by number.
        self._unsaved: dict[int, tuple[list[str], Vector]] = {}
        # What was asked or said lately may be forgotten now.
        self.border.drop_latest()

    def _reset(self) -> None:
        """Begin anew."""
        self._begin(SegmentTable(), LexicalIndex(), SegmentVectors())
        for reader in self._readers:
            reader.rewind()

    @property
    def problems(self) -> tuple[str, ...]:
        """Why this index is incomplete or expensive to rebuild, one sentence each."""
        damaged = sum([reader.damaged for reader in self._readers])
        noun = "entry is" if damaged == 1 else "entries are"
        found = (
            self.change,
            f"{damaged} {noun} damaged and cannot be recalled; see `convmem db verify`"
            if damaged
            else None,
            self.border.problem if self.vectors.missing else None,
            *self._stored.problems,
        )
        return tuple([problem for problem in found if problem is not None])

    @property
    def change(self) -> str | None:
        """What to say if lines wait because another embedder made their vectors."""
        if self.is_local or not self._others or not self.vectors.missing:
            return None
        owners = [format_owner(one.owner) for one in self._readers]
        calls = " and ".join(f"memory.reindex({owner})" for owner in owners)
        return (
            f"the embedder changed: lines are found by their words alone until {calls} or `convmem "
            f"reindex` embeds {len(self.vectors.missing)} segments; their vectors are by "
            f"{', '.join(self._others)}, and this embedder is {self._stored.fingerprint}"
        )

    # -- keeping up with the log ------------------------------------------------------------------

    def catch_up(self) -> None:
        """Index what is new in the log; rebuild if the log has forgotten something.

        Nothing is embedded: what has no stored vector is `vectors.missing`.

        Raises:
            LogError: If the log cannot be read; the next call resumes here.
        """
        if self._is_new:
            self._is_new = False
            self._open_snapshot()
        try:
            # An owner's entries are among those of others, so one who forgot rewinds all.
            while any(reader.read(self.table.add_many) for reader in self._readers):
                self._reset()
            gone = [
                number
                for reader in self._readers
                for number in self.table.remove_entries(reader.take_retracted(), reader.owner)
            ]
            was_unread = self._stored.is_unread
            self._derive()
            if gone:
                self.lexical.remove(gone)
                self.vectors.remove(gone)
            if was_unread or self._stored.is_unread or self._others:
                self._others = None
                self._fill_from_stored()
        except LogError:
            raise  # what was read so far is in the table, and the next call goes on from there
        except BaseException:
            # Interrupted between two columns: nothing half-built may answer a later recall.
            self._reset()
            raise

    def drop_forgotten(self) -> None:
        """Rebuild if the log has forgotten something."""
        try:
            self.catch_up()
        except LogError:
            # The next recall says so if it still cannot be read; here nothing may be left.
            self._reset()

    def _derive(self) -> None:
        fresh = range(len(self.lexical), len(self.table))
        if not fresh:
            return
        is_quick = self.is_local and fresh.start and len(fresh) <= _FEW
        stored = {} if is_quick else self._stored.load(self.table, fresh)
        rows = [stored.get(number, Derived()) for number in fresh]
        self.lexical.add(
            self._make_terms(number) if row.terms is None else row.terms
            for number, row in zip(fresh, rows, strict=True)
        )
        self.vectors.extend([row.vector for row in rows])

    def _fill_from_stored(self) -> None:
        """Take vectors that could not be read before, or that another process has made since."""
        missing = sorted(self.vectors.missing)
        rows = self._stored.load(self.table, missing)
        self.vectors.fill({n: row.vector for n, row in rows.items() if row.vector is not None})

    def _make_terms(self, number: int) -> list[str]:
        return extract_line_terms(self.table.find_line(number), self.table.get_text(number))

    # -- vectors ----------------------------------------------------------------------------------

    def embed_some(self, *, anew: bool = False) -> int:
        """Embed a batch of the lines that wait, newest first; return how many still wait.

        0 as well where they may not be embedded now; then the index has a problem. Takes `lock`
        for moments: do not hold it. Thread-safe.

        Args:
            anew: Also lines that another embedder has embedded, and while the embedder is paused.

        Raises:
            LogError: If the log cannot be read; the next call resumes here.
        """
        with self._embedding:
            with self.lock:
                # Nothing is sent to a service that is forgotten by now.
                if not (self.is_local and self.vectors.missing):
                    self.catch_up()
                if not self.vectors.missing or not self.may_embed(anew=anew):
                    return 0
                size = _LOCAL_BATCH if self.is_local else BATCH
                numbers = sorted(self.vectors.missing, reverse=True)[:size]
                table, texts = self.table, {n: self.table.get_text(n) for n in numbers}
            made = self.border.embed_lines(texts.values(), self.vectors.dim)
            with self.lock:
                # The log may have forgotten some meanwhile; others have other numbers then.
                if table is not self.table:
                    texts = {n: self.table.get_text(n) for n in self.vectors.missing}
                left = self.vectors.missing.intersection(texts)
                found = {n: made[texts[n]] for n in left if texts[n] in made}
                self._fill(found)
                return len(self.vectors.missing) if made else 0

    def _fill(self, found: dict[int, Vector]) -> None:
        self.vectors.fill(found)
        self._unsaved |= {number: (self._make_terms(number), row) for number, row in found.items()}
        if not self.is_local or len(self._unsaved) >= _FEW:
            self.store_rest()

    def store_rest(self) -> None:
        """Store what is embedded and not stored yet."""
        made, self._unsaved = self._unsaved, {}
        self._stored.save(self.table, made)

    def count_waiting(self, allowed: Mask) -> int:
        """Return how many segments of those allowed wait to be embedded, and can be."""
        missing = self.vectors.missing
        return int(allowed[list(missing)].sum()) if missing and self.may_embed() else 0

    def may_embed(self, *, anew: bool = False) -> bool:
        """Return whether lines that wait may be embedded now.

        Lines that another embedder has embedded wait for `reindex`: they may be many, and sending
        them costs something.
        """
        if anew:
            return True
        if not self.is_local and self._others is None:
            self._others = self._stored.list_others()
            if not self._others:
                # Another process may have embedded all of it since the rows were read.
                self._fill_from_stored()
        if self.border.is_paused or (self._stored.is_unread and not self.is_local):
            return False
        return self.is_local or self._others == []

    def finish_reindex(self) -> None:
        """Delete what other embedders have made, once every line's own vector is stored."""
        if self.vectors.missing:
            return
        if self._stored.is_unsaved:
            self._stored.is_unsaved = False
            rows = {n: self.vectors.get_row(n) for n in range(len(self.table))}
            made = {n: (self._make_terms(n), row) for n, row in rows.items() if row is not None}
            self._stored.save(self.table, made)
        if not self._stored.is_unsaved:
            self._stored.delete_others()
            self._others = None

    # -- snapshots --------------------------------------------------------------------------------

    def _open_snapshot(self) -> None:
        """Begin with what a snapshot holds, if there is one."""
        found = self._stored.load_snapshot()
        if found is not None:
            (table, lexical, vectors, saved), generation = found
            self._begin(table, lexical, vectors)
            self._readers[0].load(saved, generation)

    @property
    def is_snapshot_due(self) -> bool:
        """Whether the index is whole, and has grown so much that it may be worth saving."""
        is_whole = not self.vectors.missing and len(self.vectors) == len(self.table)
        return is_whole and self._stored.is_snapshot_due(len(self.table))

    def save_snapshot(self) -> None:
        """Save the index as bytes if it is due. Takes `lock`: do not hold it. Thread-safe.

        Raises:
            LogClosedError: If the log is closed.
        """
        with self.lock:
            if self.is_snapshot_due:
                [reader] = self._readers
                parts = IndexParts(self.table, self.lexical, self.vectors, reader.save())
                self._stored.save_snapshot(parts, reader.generation)


def format_owner(owner: Owner) -> str:
    """Format an owner as a keyword argument, such as `user_id='ana'`."""
    if owner.user_id is not None:
        return f"user_id={owner.user_id!r}"
    return f"thread_id={owner.thread_id!r}"


# -- embedding what waits -------------------------------------------------------------------------
def embed_missing(
    index: OwnerIndex,
    wait_s: float | None = None,
    progress: Progress | None = None,
    *,
    anew: bool = False,
) -> None:
    """Embed what waits in an index, newest first, until all is done or the time is over.

    What an embedder of this package embeds is embedded in the calling thread; a service is asked in
    the background, where it goes on when the time is over.

    Args:
        index: Whose lines; do not hold its lock.
        wait_s: Seconds at most; None for any number, and at once after a failure too.
        progress: Called with (done, total) segments after each batch that this thread embeds; None
            shows them in a terminal or a notebook.
        anew: See `OwnerIndex.embed_some`.

    Raises:
        LogError: If the log cannot be read; the next call resumes here.
    """
    with index.lock:
        if wait_s is None:
            index.border.resume()
            index.catch_up()
        total = left = len(index.vectors.missing)
    if wait_s is not None and not index.is_local:
        wait([_EMBEDDING.submit(index)], wait_s)
        return
    end = None if wait_s is None else time.monotonic() + wait_s
    with show_progress() if progress is None else nullcontext(progress) as note:
        while left and (end is None or time.monotonic() < end):
            left = index.embed_some(anew=anew)
            total = max(total, left)
            note(total - left, total)


def finish_later(index: OwnerIndex) -> None:
    """Have what is left to embed or to save done in the background, if there is something."""
    with index.lock:
        is_unfinished = bool(index.vectors.missing) or index.is_snapshot_due
    if is_unfinished:
        _EMBEDDING.submit(index)


def stop_embedding(indexes: Iterable[OwnerIndex]) -> None:
    """Embed no more of these indexes: few lines are finished, of more the batch under way."""
    stopped = list(indexes)
    _EMBEDDING.drop(stopped, _CLOSING_S)
    for index in stopped:
        with index.lock:
            index.store_rest()


def _embed_some(index: OwnerIndex) -> bool:
    """Embed a batch; say whether more waits. A fork waits for the end of the batch.

    No more waits as well when lines cannot be embedded now; then the index has a problem. Once
    none does, the index is saved if it is due.
    """
    try:
        with FORKS.hold():
            with index.lock:
                is_whole = index.is_snapshot_due
            if not is_whole and index.embed_some():
                return True
            index.save_snapshot()
            # Of a service's lines, some may be new since it was due.
            return is_whole and not index.is_local
    except LogClosedError:
        return False
    except LogError as error:
        # The next recall says so where it still cannot be read.
        report_problem(_log, "lines could not be embedded", error)
        return False


_EMBEDDING = BackgroundJobs(_embed_some, name="embedding", workers=1)


# -- a line that shows how far the embedding of many lines has come, to who can see it ------------
_WIDTH = 30


@contextmanager
def show_progress(quiet_s: float = 1.0) -> Iterator[Progress]:
    """Give what shows (done, total) on standard error, in a terminal or a notebook; else nothing.

    The line goes away at the end.

    Args:
        quiet_s: What takes no longer shows nothing, so that turns never do; in seconds.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    is_seen = hasattr(shell, "kernel") or (sys.stderr is not None and sys.stderr.isatty())
    begun, written = time.monotonic(), 0

    def show(done: int, total: int) -> None:
        nonlocal written
        if is_seen and total and time.monotonic() - begun >= quiet_s:
            bar = "#" * (_WIDTH * done // total)
            line = f"embedding lines [{bar:.<{_WIDTH}}] {done} of {total}"
            sys.stderr.write(f"\r{line}")
            sys.stderr.flush()
            written = len(line)

    try:
        yield show
    finally:
        if written:
            sys.stderr.write(f"\r{' ' * written}\r")


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
        self.generation = 0
        """The generation of what was read."""
        self.rewind()

    def rewind(self) -> None:
        """Read from the beginning next time."""
        self._cursor = 0
        self._controls: list[Retraction] = []
        self.retracted: frozenset[str] = frozenset()
        """Ids of the entries that were read and count no more."""
        self._taken = self.retracted
        self.damaged = 0
        """How many entries were read that cannot be understood."""

    def take_retracted(self) -> frozenset[str]:
        """Return the ids of the entries that were retracted since last asked."""
        new, self._taken = self.retracted - self._taken, self.retracted
        return new

    def save(self) -> list[Any]:
        """Return how far it has come, as JSON."""
        return [self._cursor, self.damaged, self._controls]

    def load(self, saved: list[Any], generation: int) -> None:
        """Go on where the reader stopped that `save` was asked for; nothing is taken yet."""
        self._cursor, self.damaged, controls = saved
        self._controls = [(entry_id, tuple(retracts)) for entry_id, retracts in controls]
        self.retracted = frozenset(follow_retractions(self._controls))
        self.generation = generation

    def read(self, take: Callable[[Sequence[DialogLine]], object]) -> bool:
        """Give the lines that the log has new to `take`, in commit order.

        Returns:
            False at the end of the log; True when the log forgot something of what was read
            earlier, or an entry counts again whose id was taken: then everything is to be read
            again, after `rewind`.

        Raises:
            LogError: If the log cannot be read; the next call resumes here.
        """
        while True:
            changes = self._line_changes(self.owner, self._cursor, limit=_PAGE)
            if changes.generation != self.generation:
                self.generation = changes.generation
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
            if not self._taken <= self.retracted:
                return True
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
