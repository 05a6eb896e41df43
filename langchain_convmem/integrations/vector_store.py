"""`VectorStoreRecall`: recall whose vectors stand in any LangChain `VectorStore`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np
from langchain_core.vectorstores import VectorStore

from langchain_convmem.effects import Steps, arun, run, step
from langchain_convmem.errors import ConfigError, LineStoreError, LogError, ThreadBusyError
from langchain_convmem.ids import new_ulid
from langchain_convmem.integrations.vector_store_sync import (
    Found,
    Head,
    Ledger,
    StoreBorder,
    StoreDialect,
    Synchronizer,
    VectorRow,
    dialect_of,
    owner_label,
    safe_text,
)
from langchain_convmem.locks import FifoLock
from langchain_convmem.protocols import MessageLog, ThreadState
from langchain_convmem.recall.blocks import Wish, build_recall
from langchain_convmem.recall.dialog_recall import DialogRecall, Progress
from langchain_convmem.recall.embedding import EmbeddedEmbeddings, encodable, fingerprint_of
from langchain_convmem.recall.options import Owners, Request, Scope, checked_owners
from langchain_convmem.recall.ranking import Question, rank
from langchain_convmem.recall.segments import SEGMENT_CHARS, UNCUT_CHARS, SegmentTable
from langchain_convmem.recall.settings import RecallSettings
from langchain_convmem.recall.vectors import SegmentVectors
from langchain_convmem.records import DialogLine, Entry, Owner, Recall, ThreadKey
from langchain_convmem.views.lines import dialog_lines
from langchain_convmem.words.analysis import line_terms
from langchain_convmem.words.bm25 import LexicalIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_convmem.recall.scores import Ranking


_log = logging.getLogger("langchain_convmem")


_EMPTY_STORE = (
    "the vector store finds nothing of this owner, though lines were written to it: if it was "
    "emptied or is another collection, call rebuild(owner)"
)


class VectorStoreRecall(DialogRecall):
    """Finds dialog lines by the vectors of a store that all users and all servers share.

    The store proposes, filtered by owner inside the store; every word of an answer is read from
    the log, so what a store invents or has not yet deleted is never shown. Before each recall the
    store follows the log from where it stood.

    This process keeps nothing of a user: neither lines nor vectors nor words. The price: only what
    the store proposes is ranked. Its proposals and the lines around them are then scored as a
    recall in memory scores all lines, so a line that shares words with a question, but lies far
    from it by meaning, is not found unless the store itself searches by words too.

    Thread-safe; recalls of one owner follow the log one after the other. Log and store stay the
    caller's to close.
    """

    def __init__(
        self,
        log: MessageLog,
        store: VectorStore,
        settings: RecallSettings | None = None,
        *,
        name: str | None = None,
        candidates: int = 100,
        dialect: StoreDialect | None = None,
    ) -> None:
        """Create a recall over `log` and `store`; nothing is read yet.

        Args:
            log: Where the lines stand; it also keeps notes of what the store holds, so it must
                keep state documents, as all logs of this package do.
            store: Any vector store that writes documents under given ids, over those that are
                there, and filters by metadata. Its embedder embeds lines and questions.
            settings: Weights and limits; those of building do not count here, and
                `budget_threshold` not if it is "auto", which needs an index of all lines.
            name: Of the collection; None is the store's own `collection_name` if it has one. The
                notes go by it, so another collection needs another name.
            candidates: How many segments the store proposes; each costs at most one read of the
                log, and those that stand near each other share one.
            dialect: How the store filters and scores; None is `dialect_of(store)`.

        Raises:
            ConfigError: If the log keeps no state, the store is none, or `candidates` is not
                positive.
        """
        if not isinstance(log, ThreadState):
            msg = f"the log must keep state documents (ThreadState), got {type(log).__name__}"
            raise ConfigError(msg)
        if not isinstance(store, VectorStore):
            msg = f"store must be a LangChain VectorStore, got {type(store).__name__}"
            raise ConfigError(msg)
        if candidates < 1:
            msg = f"candidates must be at least 1, got {candidates!r}"
            raise ConfigError(msg)
        self.log = log
        self.embeddings = store.embeddings or EmbeddedEmbeddings()
        self.settings = _fitting(settings or RecallSettings())
        self.store = store
        self._state: ThreadState = log
        self._name = name or str(getattr(store, "collection_name", "default"))
        self._candidates = candidates
        self._dialect = dialect_of(store) if dialect is None else dialect
        self._writer = new_ulid()
        self._border = StoreBorder(store, self._dialect)
        self._guard = threading.Lock()
        self._locks: WeakValueDictionary[Owner, FifoLock] = WeakValueDictionary()

    def __repr__(self) -> str:
        return f"VectorStoreRecall({self.log!r}, {type(self.store).__name__})"

    # -- recalling ---------------------------------------------------------------------------

    def answer_steps(self, request: Request) -> Steps[Recall]:
        """Return the steps that answer a request; see `LineRecall.recall`.

        A `k` larger than a quarter of `candidates` asks the store for more of them.

        Raises:
            ConfigError: If the scope is more than an owner or one of their threads, there is a
                `threshold` where the store's scores are no cosines, or a `buffer` and settings
                that keep one.
            LineStoreError: If the store cannot be searched. If it cannot be written to, that is
                one of the answer's `problems`.
        """
        scope = StoreScope.of(request.scope)
        _check_no_buffer(request)
        self._check_threshold(request.wish)
        problems: tuple[str, ...] = ()
        try:
            yield from self._catch_up(scope.owner)
        except LineStoreError as error:
            problems = (f"the newest lines may be missing: {error}",)
        return (yield from self._find(request.wish, scope, problems))

    def silent_steps(self, request: Request) -> Steps[Recall]:
        """Return the steps that read no buffer, since there is none.

        Raises:
            ConfigError: If the settings keep one.
        """
        _check_no_buffer(request)
        yield from ()
        return Recall((), ())

    def _check_threshold(self, wish: Wish) -> None:
        if wish.threshold == "auto":
            msg = 'threshold="auto" needs an index of all lines; use a cosine or None with a store'
            raise ConfigError(msg)
        if wish.threshold is not None and self._dialect.cosine is None:
            msg = "a threshold needs cosines, and this store's scores are none; leave it out"
            raise ConfigError(msg)

    def _find(self, wish: Wish, scope: StoreScope, problems: tuple[str, ...]) -> Steps[Recall]:
        wanted = max(self._candidates, 4 * (wish.k or 0))
        asked = wanted
        while True:
            found = yield from self._search(wish.search_text, asked, scope)
            # Read behind the search, so that it knows every line that the search can know.
            ledger = Ledger(self._state, scope.owner, self._name)
            surveyor = Surveyor(self.log, ledger, (yield from ledger.head()), scope)
            known = yield from surveyor.known(found)
            if len(known) >= wanted or len(found) < asked:
                break
            # The live context was excluded, or the store has not yet deleted enough.
            asked *= 2
        settings = wish.settings
        reach = max(
            *_sides(settings.window), *_sides(settings.budget_window), len(settings.kernel) // 2
        )
        ground = yield from surveyor.ground(self._scored(known[:wanted]), reach)
        if not found and scope.within is None and (yield from surveyor.expects_lines()):
            problems = (*problems, _EMPTY_STORE)
        return _answer(wish, ground, scope, problems, tell=self._dialect.cosine is not None)

    def _search(self, text: str, k: int, scope: StoreScope) -> Steps[list[Found]]:
        thread = None if scope.within is None else safe_text(scope.within.thread_id)
        owner = owner_label(scope.owner)
        return (yield from self._border.search(encodable(text), k, owner, thread))

    def _scored(self, found: Sequence[Found]) -> list[Found]:
        """Return what was found with cosines for scores, or else with falling ones in its order."""
        cosine = self._dialect.cosine
        if cosine is not None:
            return [one._replace(score=cosine(one.score)) for one in found]
        return [one._replace(score=1 / (1 + n)) for n, one in enumerate(found)]

    # -- following the log -------------------------------------------------------------------

    def refresh(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Bring the store up to date with the log, which also deletes what the log has forgotten.

        Args:
            owner: Whose lines; of several owners, one after the other.
            progress: Called after each page with how many entries were read, twice: how many there
                are in all is not known before.

        Returns:
            Nothing to report; what goes wrong is raised.

        Raises:
            LogError: If the log cannot be read.
            LineStoreError: If the store or its embedder failed; the next call goes on there.
            ConfigError: If the store's vectors were made by another embedder.
        """
        for one in checked_owners(owner):
            run(self._catch_up(one, progress))
        return ()

    async def arefresh(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Bring the store up to date; see `refresh`."""
        for one in checked_owners(owner):
            await arun(self._catch_up(one, progress))
        return ()

    def reindex(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Bring the store up to date; another embedder needs another collection. See `refresh`."""
        return self.refresh(owner, progress)

    async def areindex(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Bring the store up to date; see `reindex`."""
        return await self.arefresh(owner, progress)

    def forgotten_steps(self, owner: Owner) -> Steps[None]:
        """Return the steps that delete from the store what the log has forgotten.

        Where that fails, the next recall tries again: until then it is in the store, but not shown.
        """
        try:
            yield from self._catch_up(owner)
        except (LineStoreError, LogError, ConfigError) as error:
            _log.warning("the vector store still holds what was forgotten: %s", error)

    def rebuild(self, owner: Owner, progress: Progress | None = None) -> None:
        """Write all lines of an owner to the store again, for a store that has lost them.

        Args:
            owner: Whose lines.
            progress: As for `refresh`.

        Raises:
            LogError: If the log cannot be read.
            LineStoreError: If the store or its embedder failed; `refresh` goes on there.
            ConfigError: If the store's vectors were made by another embedder.
        """
        run(self._catch_up(owner, progress, anew=True))

    async def arebuild(self, owner: Owner, progress: Progress | None = None) -> None:
        """Write all lines of an owner to the store again; see `rebuild`."""
        await arun(self._catch_up(owner, progress, anew=True))

    def _catch_up(
        self, owner: Owner, progress: Progress | None = None, *, anew: bool = False
    ) -> Steps[None]:
        _check_owner(owner)
        cut = f"cut-{SEGMENT_CHARS}-{UNCUT_CHARS}"
        made = Synchronizer(
            self.log,
            self._border,
            Ledger(self._state, owner, self._name),
            owner,
            fingerprint=f"{fingerprint_of(self.embeddings)}/{cut}",
            writer=self._writer,
        )
        with self._guard:
            lock = self._locks.setdefault(owner, FifoLock(_make_late_error, _make_reentry_error))
        waiter = lock.enter()
        try:
            yield from lock.wait_steps(waiter)
            if anew:
                yield from made.start_over()
            yield from made.catch_up(progress)
        finally:
            lock.leave(waiter)


def _make_late_error(timeout_s: float) -> ThreadBusyError:
    return ThreadBusyError(f"other lines were still being written after {timeout_s:g} s")


def _make_reentry_error() -> ThreadBusyError:
    return ThreadBusyError(
        "lines of this owner are being written by who started this call, or by a task of this "
        "event loop, which a synchronous call would keep from going on; await the asynchronous form"
    )


def _check_owner(owner: Any) -> None:
    if not isinstance(owner, Owner):
        msg = f"with a vector store, owner must be one Owner, got {owner!r}"
        raise ConfigError(msg)


def _check_no_buffer(request: Request) -> None:
    if request.buffer is not None:
        msg = (
            "recall over a vector store keeps no relevance buffer: use settings with buffer_size=0"
        )
        raise ConfigError(msg)


def _fitting(settings: RecallSettings) -> RecallSettings:
    is_auto = settings.budget_threshold == "auto"
    return replace(settings, budget_threshold=None) if is_auto else settings


def _sides(window: int | tuple[int, int]) -> tuple[int, int]:
    return window if isinstance(window, tuple) else (window, window)


def _answer(
    wish: Wish, ground: Ground, scope: StoreScope, problems: tuple[str, ...], *, tell: bool
) -> Recall:
    """Rank the lines that were read as a recall in memory would, and cut the answer."""
    table = ground.table
    lexical = LexicalIndex()
    lexical.add(
        [line_terms(table.line_of(number), table.text(number)) for number in range(len(table))]
    )
    allowed = table.allowed(scope.within, scope.exclude)
    allowed[ground.gaps] = False
    # The store has compared already: any vector stands for the question.
    vector = np.ones(1, dtype=np.float32)
    question = Question(wish.query, vector, allowed, wish.now_ms, wish.before)
    vectors = FoundVectors(len(table), ground.scores)
    ranking = rank(question, table, vectors, lexical, wish.settings)
    tell_only(ranking, ground.scores if tell else {})
    answer = build_recall(wish, ranking, table, lexical, allowed=allowed, problems=problems)
    return answer.recall


# -- From what a store proposes to lines as the log has them, with those around them --------------


# Reading so many positions too many costs less than another call.
_NEAR = 32


@dataclass(frozen=True, slots=True)
class StoreScope:
    """What may come back, as far as a store can tell.

    Attributes:
        owner: Whose lines.
        within: Only this thread.
        exclude: Positions that must not come back, by thread.
    """

    owner: Owner
    within: ThreadKey | None
    exclude: Mapping[ThreadKey, Collection[int]]

    @classmethod
    def of(cls, scope: Scope) -> StoreScope:
        """Return a scope as stores filter by it.

        Raises:
            ConfigError: If it is more than an owner or one of their threads.
        """
        beyond = {
            "several owners": len(scope.owners) > 1,
            "filter": bool(scope.where),
            "since": scope.since_ms is not None,
            "until": scope.until_ms is not None,
        }
        asked = [name for name, is_asked in beyond.items() if is_asked]
        if asked:
            msg = (
                f"recall over a vector store does not support {', '.join(asked)}: it searches the "
                "lines of one owner, or of one thread (within); LineRecall supports them all"
            )
            raise ConfigError(msg)
        (owner,) = scope.owners
        return cls(owner, scope.within, scope.exclude)

    def allows(self, row: VectorRow) -> bool:
        """Return whether the lines of an entry may come back."""
        key = self.key_of(row)
        if self.within not in (None, key):
            return False
        return row.is_said and row.position not in self.exclude.get(key, ())

    def key_of(self, row: VectorRow) -> ThreadKey:
        """Return the thread of an entry."""
        return ThreadKey(self.owner.user_id, row.thread_id)


@dataclass(slots=True)
class Ground:
    """The lines that were read, as a table like that of a recall in memory.

    Attributes:
        table: Stretches of dialogue. Between two that do not touch stand lines of no meaning, so
            that no window and no smoothing reaches across.
        gaps: The numbers of those lines' segments.
        scores: The store's score of each segment it proposed, by number.
    """

    table: SegmentTable = field(default_factory=SegmentTable)
    gaps: list[int] = field(default_factory=list)
    scores: dict[int, float] = field(default_factory=dict)

    def add(
        self, lines: Iterable[DialogLine], scores: Mapping[tuple[str, int, int], float]
    ) -> None:
        """Append a stretch of dialogue, with the scores by entry id, part and segment."""
        for line in lines:
            for segment, number in enumerate(self.table.add(line)):
                score = scores.get((line.entry_id, line.part, segment))
                if score is not None:
                    self.scores[number] = score

    def part(self, last: DialogLine, reach: int) -> None:
        """Keep what follows apart from `last`, farther than `reach` lines."""
        for _ in range(reach + 1):
            self.gaps += self.table.add(replace(last, text="-", entry_id=""))


class Surveyor:
    """Reads what one recall needs: chunks of the ledger once each, and windows of the log."""

    def __init__(self, log: MessageLog, ledger: Ledger, head: Head, scope: StoreScope) -> None:
        """Create it; nothing is read yet."""
        self._log = log
        self._ledger = ledger
        self._head = head
        self._scope = scope
        self._chunks: dict[int, list[VectorRow]] = {}

    def known(self, found: Iterable[Found]) -> Steps[list[Found]]:
        """Return what the ledger confirms and the scope allows, in the same order, each once."""
        kept: dict[tuple[str, int, int], Found] = {}
        for one in found:
            rows = yield from self._chunk(self._head.chunk_of(one.position))
            row = next((row for row in rows if row.entry_id == one.entry_id), None)
            if row is None or not self._scope.allows(row) or one.part not in range(len(row.counts)):
                continue
            if one.segment in range(row.counts[one.part]):
                kept.setdefault((one.entry_id, one.part, one.segment), one)
        return list(kept.values())

    def expects_lines(self) -> Steps[bool]:
        """Return whether the store should find anything, by what was noted last."""
        rows = yield from self._chunk(len(self._head.firsts) - 1)
        return any(self._scope.allows(row) for row in rows)

    def ground(self, found: Sequence[Found], reach: int) -> Steps[Ground]:
        """Read the entries that were found, with `reach` of those around each that have lines."""
        scores = {(one.entry_id, one.part, one.segment): one.score for one in found}
        ground = Ground()
        last: DialogLine | None = None
        for near in _read_together((yield from self._stretches(found, reach))):
            entries = yield from self._read(near[0][0], near[-1][-1])
            for stretch in near:
                if last is not None and last.key == self._scope.key_of(stretch[0]):
                    ground.part(last, reach)
                # What the log no longer has is left out, whatever ledger and store say.
                there = [entries[row.entry_id] for row in stretch if row.entry_id in entries]
                lines = [line for entry in there for line in dialog_lines(entry)]
                ground.add(lines, scores)
                last = lines[-1] if lines else last
        return ground

    def _read(self, first: VectorRow, last: VectorRow) -> Steps[dict[str, Entry]]:
        """Return the entries of a thread from one to another, by id."""
        key, after, until = self._scope.key_of(first), first.position - 1, last.position
        entries: list[Entry] = yield step(self._log, "entries", key, after=after, until=until)
        return {entry.id: entry for entry in entries}

    def _stretches(self, found: Sequence[Found], reach: int) -> Steps[list[list[VectorRow]]]:
        """Return the windows around what was found, merged where they touch, by thread."""
        rows: dict[tuple[str, int], VectorRow] = {}
        following: dict[int, int] = {}
        for one in found:
            thread = yield from self._around(one, reach + 1)
            at = next(n for n, row in enumerate(thread) if row.entry_id == one.entry_id)
            seen = thread[max(at - reach - 1, 0) : at + reach + 2]
            following.update((a.position, b.position) for a, b in pairwise(seen))
            window = thread[max(at - reach, 0) : at + reach + 1]
            rows.update(((row.thread_id, row.position), row) for row in window)
        stretches: list[list[VectorRow]] = []
        for row in (rows[place] for place in sorted(rows)):
            if stretches and following.get(stretches[-1][-1].position) == row.position:
                stretches[-1].append(row)
            else:
                stretches.append([row])
        return stretches

    def _around(self, one: Found, reach: int) -> Steps[list[VectorRow]]:
        """Return the said entries of a thread around one: `reach` on each side if they are near.

        Near is the same chunk of the ledger or the next one: what lies farther apart in the log
        of a user was hardly said in one sitting.
        """
        number = self._head.chunk_of(one.position)
        rows = yield from self._chunk(number)
        thread_id = next(row.thread_id for row in rows if row.entry_id == one.entry_id)
        thread = _said_in(thread_id, rows)
        at = [row.entry_id for row in thread].index(one.entry_id)
        short_before, short_behind = at < reach, len(thread) - at <= reach
        if short_before:
            thread = [*_said_in(thread_id, (yield from self._chunk(number - 1))), *thread]
        if short_behind:
            thread += _said_in(thread_id, (yield from self._chunk(number + 1)))
        return thread

    def _chunk(self, number: int) -> Steps[list[VectorRow]]:
        if number not in self._chunks:
            self._chunks[number] = yield from self._ledger.chunk(self._head, number)
        return self._chunks[number]


def _read_together(stretches: Iterable[list[VectorRow]]) -> list[list[list[VectorRow]]]:
    """Return the stretches in groups that one read of a thread gets cheaply."""
    groups: list[list[list[VectorRow]]] = []
    for stretch in stretches:
        last = groups[-1][-1][-1] if groups else None
        near = last is not None and stretch[0].position - last.position <= _NEAR
        if last is not None and near and last.thread_id == stretch[0].thread_id:
            groups[-1].append(stretch)
        else:
            groups.append([stretch])
    return groups


def _said_in(thread_id: str, rows: Iterable[VectorRow]) -> list[VectorRow]:
    return [row for row in rows if row.thread_id == thread_id and row.is_said]


# -- What a store's scores are to the ranking of recall -------------------------------------------


class FoundVectors(SegmentVectors):
    """Similarities that a store has computed, in the place of vectors.

    Lines that the store did not propose are at most as similar as the least similar that it did,
    and count as that.
    """

    def __init__(self, count: int, similarities: Mapping[int, float]) -> None:
        """Create it for `count` segments, some of which have a similarity."""
        super().__init__()
        floor = min(similarities.values(), default=0.0)
        self._similarities = np.full(count, floor, dtype=np.float32)
        self._similarities[list(similarities)] = list(similarities.values())

    def __len__(self) -> int:
        return len(self._similarities)

    @property
    def present(self) -> NDArray[np.bool_]:
        """Every segment counts."""
        return np.ones(len(self), dtype=np.bool_)

    def similarities(
        self, query: NDArray[np.float32], numbers: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """Return the similarities of the given numbers (None: of all), whatever the query is."""
        del query
        return self._similarities[slice(None) if numbers is None else numbers].copy()


def tell_only(ranking: Ranking, similarities: Mapping[int, float]) -> None:
    """Put 0.0 in the place of every similarity in the ranking that the store did not tell."""
    columns = ranking.columns
    columns.similarity[:] = [similarities.get(number, 0.0) for number in columns.numbers.tolist()]
