"""`VectorStoreRecall`: recall whose vectors stand in any LangChain `VectorStore`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np
from langchain_core.vectorstores import VectorStore

from langchain_convmem.effects import Steps, perform, run_async, run_sync
from langchain_convmem.errors import ConfigError, LineStoreError, LogError, ThreadBusyError
from langchain_convmem.forks import make_lock
from langchain_convmem.ids import make_ulid
from langchain_convmem.integrations.vector_store_sync import (
    OWNER,
    THREAD,
    TIME,
    Conditions,
    LedgerHead,
    LedgerRow,
    Proposal,
    SafeStore,
    StoreDialect,
    StoreLedger,
    Synchronizer,
    escape_text,
    find_dialect,
    label_owner,
    label_value,
    name_tag_field,
)
from langchain_convmem.locks import FifoLock
from langchain_convmem.protocols import MessageLog, ThreadState
from langchain_convmem.recall.blocks import build_recall
from langchain_convmem.recall.embedding import (
    EmbeddedEmbeddings,
    compute_fingerprint,
    replace_surrogates,
)
from langchain_convmem.recall.options import (
    Owners,
    Progress,
    RecallQuery,
    RecallSettings,
    Scope,
    sort_owners,
)
from langchain_convmem.recall.ranking import rank
from langchain_convmem.recall.recall import DialogRecall
from langchain_convmem.recall.segments import SEGMENT_CHARS, UNCUT_CHARS, SegmentTable
from langchain_convmem.recall.vectors import SegmentVectors
from langchain_convmem.records import DialogLine, Entry, Owner, Recall, ThreadKey
from langchain_convmem.views.lines import make_dialog_lines
from langchain_convmem.words.analysis import extract_line_terms
from langchain_convmem.words.bm25 import LexicalIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray


_log = logging.getLogger("langchain_convmem")


_EMPTY_STORE = (
    "the vector store finds nothing of this owner, though lines were written to it: if it was "
    "emptied or is another collection, call rebuild(owner)"
)


class VectorStoreRecall(DialogRecall):
    """Finds dialog lines through a vector store that all users and servers share.

    The store proposes, filtered by owner inside the store; every word of an answer is read from
    the log, so what a store invents or has not yet deleted is never shown. Before each recall the
    store catches up with the log.

    This process keeps no lines, vectors or terms of a user. In exchange, only what
    the store proposes is ranked. The proposals and the lines around them are scored as a
    recall in memory scores all lines, so a line that shares words with a question, but lies far
    from it by meaning, is not found unless the store itself searches by words too.

    Thread-safe; recalls of one owner follow the log one at a time. Log and store remain the
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
            settings: Weights and limits. `index` and `vector_bits` are matters of an index in
                memory, and refused; a `budget_threshold` of "auto" needs one, and is none here.
            name: Of the collection; None is the store's own `collection_name` if it has one. The
                notes go by it, so another collection needs another name.
            candidates: How many segments the store proposes; each costs at most one read of the
                log, and those that stand near each other share one.
            dialect: How the store filters and scores; None is `find_dialect(store)`.

        Raises:
            ConfigError: If the log keeps no state, the store is none, `candidates` is not
                positive, or the settings build an index.
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
        self.settings = _check_settings(settings or RecallSettings())
        self.store = store
        self._state: ThreadState = log
        self._name = name or str(getattr(store, "collection_name", "default"))
        self._candidates = candidates
        self._dialect = find_dialect(store) if dialect is None else dialect
        self._writer = make_ulid()
        self._border = SafeStore(store, self._dialect)
        self._guard = make_lock()
        self._locks: WeakValueDictionary[Owner, FifoLock] = WeakValueDictionary()

    def __repr__(self) -> str:
        return f"VectorStoreRecall({self.log!r}, {type(self.store).__name__})"

    # -- Recalling ---------------------------------------------------------------------------

    def answer_steps(self, query: RecallQuery) -> Steps[Recall]:
        """Return the steps that answer a request; see `LineRecall.recall`.

        A `k` larger than a quarter of `candidates` asks the store for more of them.

        Raises:
            ConfigError: If the scope needs a filter that the store's dialect does not have, there
                is a `threshold` where the store's scores are no cosines, or a `buffer` and
                settings that keep one.
            LineStoreError: If the store cannot be searched. If it cannot be written to, that is
                one of the answer's `problems`.
        """
        conditions = find_conditions(query.scope)
        _check_operators(query.scope, conditions, self._dialect)
        _check_no_buffer(query)
        self._check_threshold(query)
        problems: dict[str, None] = {}
        for owner in query.scope.owners:
            try:
                yield from self._catch_up(owner)
            except LineStoreError as error:
                problems[f"the newest lines may be missing: {error}"] = None
        return (yield from self._find(query, query.scope, conditions, tuple(problems)))

    def answer_from_buffer_steps(self, query: RecallQuery) -> Steps[Recall]:
        """Return the steps that read no buffer, since there is none.

        Raises:
            ConfigError: If the settings keep one.
        """
        _check_no_buffer(query)
        yield from ()
        return Recall((), ())

    def _check_threshold(self, query: RecallQuery) -> None:
        if query.threshold == "auto":
            msg = 'threshold="auto" needs an index of all lines; use a cosine or None with a store'
            raise ConfigError(msg)
        if query.threshold is not None and self._dialect.cosine is None:
            msg = "a threshold needs cosines, and this store gives other scores; leave it out"
            raise ConfigError(msg)

    def _find(
        self, query: RecallQuery, scope: Scope, conditions: Conditions, problems: tuple[str, ...]
    ) -> Steps[Recall]:
        wanted = max(self._candidates, 4 * (query.k or 0))
        asked = wanted
        while True:
            found = yield from self._border.search(
                replace_surrogates(query.search_text), asked, conditions
            )
            # Read after the search, so that it knows every line that the search can know.
            loaders = {
                label_owner(one): WindowLoader(
                    self.log, StoreLedger(self._state, one, self._name), one, scope
                )
                for one in scope.owners
            }
            known = yield from _select_known(found, loaders)
            if len(known) >= wanted or len(found) < asked:
                break
            # The live context was excluded, or the store has not yet deleted enough.
            asked *= 2
        windows = LineWindows()
        chosen = self._score(known[:wanted])
        for label, loader in loaders.items():
            own = [one for one in chosen if one.owner == label]
            yield from loader.load(own, _find_reach(query.settings), windows)
        if not found and conditions.keys() == {OWNER}:
            for loader in loaders.values():
                if (yield from loader.expect_lines()):
                    problems = (*problems, _EMPTY_STORE)
                    break
        return _rank(query, windows, scope, problems, has_cosines=self._dialect.cosine is not None)

    def _score(self, found: Sequence[Proposal]) -> list[Proposal]:
        """Return proposals with cosines for scores, or else with falling ones in their order."""
        cosine = self._dialect.cosine
        if cosine is not None:
            return [one._replace(score=cosine(one.score)) for one in found]
        return [one._replace(score=1 / (1 + n)) for n, one in enumerate(found)]

    # -- Following the log -------------------------------------------------------------------

    def refresh(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Bring the store up to date with the log; also deletes what the log has forgotten.

        Args:
            owner: Whose lines; of several owners, one after the other.
            progress: Called after each page with how many entries were read, twice: how many there
                are in all is not known before.

        Returns:
            Always empty: problems are raised.

        Raises:
            LogError: If the log cannot be read.
            LineStoreError: If the store or its embedder failed; the next call resumes there.
            ConfigError: If the store's vectors were made by another embedder.
        """
        for one in sort_owners(owner):
            run_sync(self._catch_up(one, progress))
        return ()

    async def arefresh(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Bring the store up to date; see `refresh`."""
        for one in sort_owners(owner):
            await run_async(self._catch_up(one, progress))
        return ()

    def reindex(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Bring the store up to date; another embedder needs another collection. See `refresh`."""
        return self.refresh(owner, progress)

    async def areindex(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Bring the store up to date; see `reindex`."""
        return await self.arefresh(owner, progress)

    def drop_forgotten_steps(self, owner: Owner) -> Steps[None]:
        """Return the steps that delete from the store what the log has forgotten.

        Where that fails, the next recall tries again: until then it is in the store, but not shown.
        """
        try:
            yield from self._catch_up(owner)
        except (LineStoreError, LogError, ConfigError) as error:
            _log.warning("the vector store still holds what was forgotten: %s", error)

    def rebuild(self, owner: Owners, progress: Progress | None = None) -> None:
        """Write all of an owner's lines to the store again, for a store that lost them.

        Args:
            owner: Whose lines; of several owners, one after the other.
            progress: As for `refresh`.

        Raises:
            LogError: If the log cannot be read.
            LineStoreError: If the store or its embedder failed; `refresh` goes on there.
            ConfigError: If the store's vectors were made by another embedder.
        """
        for one in sort_owners(owner):
            run_sync(self._catch_up(one, progress, anew=True))

    async def arebuild(self, owner: Owners, progress: Progress | None = None) -> None:
        """Write all lines of an owner to the store again; see `rebuild`."""
        for one in sort_owners(owner):
            await run_async(self._catch_up(one, progress, anew=True))

    def _catch_up(
        self, owner: Owner, progress: Progress | None = None, *, anew: bool = False
    ) -> Steps[None]:
        cut = f"cut-{SEGMENT_CHARS}-{UNCUT_CHARS}"
        made = Synchronizer(
            self.log,
            self._border,
            StoreLedger(self._state, owner, self._name),
            owner,
            fingerprint=f"{compute_fingerprint(self.embeddings)}/{cut}",
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


def _check_no_buffer(query: RecallQuery) -> None:
    if query.buffer is not None:
        msg = (
            "recall over a vector store keeps no relevance buffer: use settings with buffer_size=0"
        )
        raise ConfigError(msg)


def _check_settings(settings: RecallSettings) -> RecallSettings:
    """Return settings as they hold over a store.

    Raises:
        ConfigError: If they build an index.
    """
    defaults = RecallSettings()
    for name in ("index", "vector_bits"):
        if getattr(settings, name) != getattr(defaults, name):
            msg = f"recall over a vector store builds no index: leave {name} out of the settings"
            raise ConfigError(msg)
    is_auto = settings.budget_threshold == "auto"
    return replace(settings, budget_threshold=None) if is_auto else settings


# -- What a search filters by ---------------------------------------------------------------------


def find_conditions(scope: Scope) -> Conditions:
    """Return what the documents of the lines in a scope are, as far as a store can tell."""
    users = scope.where.get("user_id")
    owners = [one for one in scope.owners if users is None or one.user_id in users]
    found: dict[str, Any] = {OWNER: _match_one(map(label_owner, owners))}
    for name, values in scope.where.items():
        if name == THREAD:
            found[name] = _match_one(escape_text(one) for one in values if isinstance(one, str))
        elif name == "session":
            # A line has its session as text, whatever its message had.
            found[name] = _match_one(
                label_value(one if one is None else str(one)) for one in values
            )
        elif name in ("speaker", "role", "trust"):
            found[name] = _match_one(map(label_value, values))
        elif name != "user_id":
            found[name_tag_field(name)] = _match_one(map(label_value, values))
    if scope.within is not None:
        found[THREAD] = escape_text(scope.within.thread_id)
    bounds = {"$gte": scope.since_ms, "$lt": scope.until_ms}
    if bounds := {name: bound for name, bound in bounds.items() if bound is not None}:
        found[TIME] = bounds
    return found


def _match_one(labels: Iterable[str]) -> Any:
    """Return the condition that a text is one of these."""
    each = sorted(set(labels))
    return each[0] if len(each) == 1 else {"$in": each}


def _check_operators(scope: Scope, conditions: Conditions, dialect: StoreDialect) -> None:
    """Refuse a scope that the store cannot filter by.

    Raises:
        ConfigError: If there is one; the message names the options and the operators.
    """
    several = [n for n, one in conditions.items() if isinstance(one, dict) and one.get("$in")]
    needed = {
        "several owners": "$in" if OWNER in several else None,
        "several values in filter": "$in" if {*several} - {OWNER} else None,
        "since": None if scope.since_ms is None else "$gte",
        "until": None if scope.until_ms is None else "$lt",
    }
    lacking = {n: one for n, one in needed.items() if one and one not in dialect.operators}
    if lacking:
        msg = (
            f"this vector store cannot filter by {', '.join(lacking)}: pass a StoreDialect whose "
            f"`filtered` takes {', '.join(sorted(set(lacking.values())))}, and whose `operators` "
            "say so"
        )
        raise ConfigError(msg)


# -- The ranking of what was proposed -------------------------------------------------------------


def _find_reach(settings: RecallSettings) -> int:
    """Return how many lines on each side of a hit its score or its block may take in."""
    windows = (settings.window, settings.budget_window)
    sides = [side for one in windows for side in (one if isinstance(one, tuple) else (one,))]
    return max(*sides, len(settings.kernel) // 2)


def _rank(
    query: RecallQuery,
    windows: LineWindows,
    scope: Scope,
    problems: tuple[str, ...],
    *,
    has_cosines: bool,
) -> Recall:
    """Rank the lines that were read as a recall in memory would, and cut the answer."""
    table = windows.table
    lexical = LexicalIndex()
    lexical.add(
        [
            extract_line_terms(table.find_line(number), table.get_text(number))
            for number in range(len(table))
        ]
    )
    # The log has the last word on what is in scope, whatever the store let through.
    allowed = scope.mask(table)
    allowed[windows.gaps] = False
    # The store has compared already: any vector stands for the question.
    vector = np.ones(1, dtype=np.float32)
    vectors = ProposedVectors(len(table), windows.scores)
    ranking = rank(query, table, vectors, lexical, vector=vector, allowed=allowed)
    told = windows.scores if has_cosines else {}
    columns = ranking.columns
    columns.similarity[:] = [told.get(number, 0.0) for number in columns.numbers.tolist()]
    answer = build_recall(query, ranking, table, lexical, allowed=allowed, problems=problems)
    return answer.recall


# -- From what a store proposes to lines as the log has them, with those around them --------------


_NEAR = 32
"""Reading so many positions too many costs less than another call."""


@dataclass(slots=True)
class LineWindows:
    """The lines that were read, in a table like that of an in-memory recall.

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

    def separate(self, last: DialogLine, reach: int) -> None:
        """Separate what follows from `last` by more than `reach` lines."""
        for _ in range(reach + 1):
            self.gaps += self.table.add(replace(last, text="-", entry_id=""))


def _select_known(
    found: Iterable[Proposal], loaders: Mapping[str, WindowLoader]
) -> Steps[list[Proposal]]:
    """Return what the ledgers confirm and the scope allows, in the same order, each once."""
    known: dict[tuple[str, str, int, int], Proposal] = {}
    for one in found:
        loader = loaders.get(one.owner)
        if loader is not None and (yield from loader.is_known(one)):
            known.setdefault((one.owner, one.entry_id, one.part, one.segment), one)
    return list(known.values())


class WindowLoader:
    """Reads what one recall needs of an owner: chunks of the ledger once each, then the log."""

    def __init__(self, log: MessageLog, ledger: StoreLedger, owner: Owner, scope: Scope) -> None:
        """Create it; nothing is read yet."""
        self._log = log
        self._ledger = ledger
        self._owner = owner
        self._scope = scope
        self._head: LedgerHead | None = None
        self._chunks: dict[int, list[LedgerRow]] = {}

    def is_known(self, one: Proposal) -> Steps[bool]:
        """Return whether the ledger knows a proposal, and the scope allows it."""
        rows = yield from self._read_next(one, 0)
        row = next((row for row in rows if row.entry_id == one.entry_id), None)
        if row is None or not self._is_allowed(row) or one.part not in range(len(row.counts)):
            return False
        return one.segment in range(row.counts[one.part])

    def expect_lines(self) -> Steps[bool]:
        """Return whether the store should find anything, according to the ledger."""
        head = yield from self._read_head()
        rows = yield from self._read_chunk(len(head.firsts) - 1)
        return any(self._is_allowed(row) for row in rows)

    def load(self, found: Sequence[Proposal], reach: int, into: LineWindows) -> Steps[None]:
        """Read the entries that were found, with `reach` of those around each that have lines."""
        scores = {(one.entry_id, one.part, one.segment): one.score for one in found}
        last: DialogLine | None = None
        for near in _group_near((yield from self._find_stretches(found, reach))):
            entries = yield from self._read_entries(near[0][0], near[-1][-1])
            for stretch in near:
                if last is not None and last.key == self._make_key(stretch[0]):
                    into.separate(last, reach)
                # What the log no longer has is left out, whatever ledger and store say.
                there = [entries[row.entry_id] for row in stretch if row.entry_id in entries]
                lines = [line for entry in there for line in make_dialog_lines(entry)]
                into.add(lines, scores)
                last = lines[-1] if lines else last

    def _is_allowed(self, row: LedgerRow) -> bool:
        """Return whether the lines of an entry may come back, by what the ledger tells of it."""
        key = self._make_key(row)
        if self._scope.within not in (None, key):
            return False
        return row.is_said and row.position not in self._scope.exclude.get(key, ())

    def _make_key(self, row: LedgerRow) -> ThreadKey:
        return ThreadKey(self._owner.user_id, row.thread_id)

    def _find_stretches(
        self, found: Sequence[Proposal], reach: int
    ) -> Steps[list[list[LedgerRow]]]:
        """Return the windows around what was found, merged where they touch, by thread."""
        rows: dict[tuple[str, int], LedgerRow] = {}
        following: dict[int, int] = {}
        for one in found:
            thread = yield from self._read_around(one, reach + 1)
            at = next(n for n, row in enumerate(thread) if row.entry_id == one.entry_id)
            seen = thread[max(at - reach - 1, 0) : at + reach + 2]
            following.update((a.position, b.position) for a, b in pairwise(seen))
            window = thread[max(at - reach, 0) : at + reach + 1]
            rows.update(((row.thread_id, row.position), row) for row in window)
        stretches: list[list[LedgerRow]] = []
        for row in (rows[place] for place in sorted(rows)):
            if stretches and following.get(stretches[-1][-1].position) == row.position:
                stretches[-1].append(row)
            else:
                stretches.append([row])
        return stretches

    def _read_around(self, one: Proposal, reach: int) -> Steps[list[LedgerRow]]:
        """Return the said entries of a thread around one: `reach` on each side if they are near.

        Near is the same chunk of the ledger or the next one: what lies farther apart in the log
        of a user was hardly said in one session.
        """
        rows = yield from self._read_next(one, 0)
        thread_id = next(row.thread_id for row in rows if row.entry_id == one.entry_id)
        thread = _select_said(thread_id, rows)
        at = [row.entry_id for row in thread].index(one.entry_id)
        is_short_before, is_short_after = at < reach, len(thread) - at <= reach
        if is_short_before:
            thread = [*_select_said(thread_id, (yield from self._read_next(one, -1))), *thread]
        if is_short_after:
            thread += _select_said(thread_id, (yield from self._read_next(one, 1)))
        return thread

    def _read_entries(self, first: LedgerRow, last: LedgerRow) -> Steps[dict[str, Entry]]:
        """Return the entries of a thread from one to another, by id."""
        key, after, until = self._make_key(first), first.position - 1, last.position
        entries: list[Entry] = yield from perform(
            self._log.entries, self._log.aentries, key, after=after, until=until
        )
        return {entry.id: entry for entry in entries}

    def _read_next(self, one: Proposal, offset: int) -> Steps[list[LedgerRow]]:
        """Return the chunk of the ledger in which a proposal stands, or one before or after it."""
        head = yield from self._read_head()
        return (yield from self._read_chunk(head.find_chunk(one.position) + offset))

    def _read_head(self) -> Steps[LedgerHead]:
        if self._head is None:
            self._head = yield from self._ledger.read_head()
        return self._head

    def _read_chunk(self, number: int) -> Steps[list[LedgerRow]]:
        if number not in self._chunks:
            head = yield from self._read_head()
            self._chunks[number] = yield from self._ledger.read_chunk(head, number)
        return self._chunks[number]


def _group_near(stretches: Iterable[list[LedgerRow]]) -> list[list[list[LedgerRow]]]:
    """Return the stretches in groups that one read of a thread gets cheaply."""
    groups: list[list[list[LedgerRow]]] = []
    for stretch in stretches:
        last = groups[-1][-1][-1] if groups else None
        is_near = last is not None and stretch[0].position - last.position <= _NEAR
        if last is not None and is_near and last.thread_id == stretch[0].thread_id:
            groups[-1].append(stretch)
        else:
            groups.append([stretch])
    return groups


def _select_said(thread_id: str, rows: Iterable[LedgerRow]) -> list[LedgerRow]:
    return [row for row in rows if row.thread_id == thread_id and row.is_said]


# -- What a store's scores are to the ranking of recall -------------------------------------------


class ProposedVectors(SegmentVectors):
    """Similarities computed by the store, used instead of vectors.

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
