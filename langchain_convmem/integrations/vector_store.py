"""`VectorStoreRecall`: recall whose vectors are kept in any LangChain `VectorStore`."""

from __future__ import annotations

import importlib
import json
import logging
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

from langchain_convmem.background import BackgroundJobs
from langchain_convmem.causes import ErrorTrap
from langchain_convmem.errors import ConfigError, LineStoreError
from langchain_convmem.forks import make_lock
from langchain_convmem.message_log import MessageLog
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
from langchain_convmem.recall.segments import (
    SEGMENT_CHARS,
    UNCUT_CHARS,
    SegmentTable,
    split_line,
)
from langchain_convmem.recall.vectors import SegmentVectors
from langchain_convmem.records import DialogLine, Entry, Owner, ThreadKey
from langchain_convmem.views.lines import make_dialog_lines
from langchain_convmem.views.live import find_retracted_ids
from langchain_convmem.views.shown import Recall
from langchain_convmem.words.analysis import extract_line_terms
from langchain_convmem.words.bm25 import LexicalIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

_log = logging.getLogger("langchain_convmem")

_BATCH = 256
"""Entries of a page of the log, and documents of a call to the store."""
_NEAR = 12
"""So many positions on each side of a hit are read from the log."""
_IDS = uuid.UUID("6f1c2d0e-2f0b-5d55-9a5c-3b7c9f0b8d11")
_OWNER, _THREAD = "owner", "thread"
_STATE_THREAD = "convmem-vector-store"
"""Beside which thread of a user the cursor is kept; no entry is ever written there."""

T = TypeVar("T")
LineName = tuple[ThreadKey, str, int]
"""A line by its thread, its entry and which of the entry's lines it is."""


class Hit(NamedTuple):
    """A segment that a store proposes: its line, its position in the log, and its score."""

    line: LineName
    position: int
    segment: int
    score: float


class VectorStoreRecall(DialogRecall):
    """Finds dialog lines through a vector store that all users and servers share.

    The store proposes, filtered by user or thread inside the store; every word of an answer is
    read from the log. After a turn, and before each recall, what is new in the log is written to
    the store. What fails is tried again by the next recall, and named in `Recall.problems`;
    `reindex` writes everything again.

    This process keeps no lines, vectors or terms of a user. In exchange, only what the store
    proposes is ranked: a line that shares words with a question, but is far from it by meaning, is
    not found unless the store itself searches by words too.

    Thread-safe. Log and store remain the caller's to close.
    """

    def __init__(
        self,
        log: MessageLog,
        store: VectorStore,
        settings: RecallSettings | None = None,
        *,
        name: str | None = None,
        candidates: int = 100,
        make_filter: Callable[[str, list[str]], Any] | None = None,
        to_cosine: Callable[[float], float] | None = None,
    ) -> None:
        """Create a recall over `log` and `store`; nothing is read yet.

        Args:
            log: Where the lines are stored. How far the store has followed it is kept there as a
                state document, so it must keep these, as all logs of this package do.
            store: Any vector store that writes, returns and deletes documents by id and filters
                by metadata. It is called synchronously. Its embedder embeds lines and questions.
            settings: Weights and limits, but for those of an index in memory. A
                `budget_threshold` of "auto" needs such an index, and is none here.
            name: Of the collection; None is the store's own `collection_name` if it has one.
                Another collection needs another name.
            candidates: How many segments the store proposes; each costs at most one read of the
                log, and neighbouring ones share one.
            make_filter: From the name of a metadata field and the texts of which it must have one
                to the `filter` of a search. None knows `InMemoryVectorStore`,
                `QdrantVectorStore`, and the operator `$in` as in Chroma and PGVector.
            to_cosine: From the score of a search to the cosine similarity. None knows those of
                `InMemoryVectorStore`, `QdrantVectorStore` and `PGVector`; where the scores of a
                store are unknown or no cosines, its order counts, and a `threshold` is refused.

        Raises:
            ConfigError: If the store is none or asynchronous alone, or
                `candidates` is not positive.
        """
        if not isinstance(log, MessageLog):
            raise ConfigError(f"log must be a MessageLog, got {type(log).__name__}")
        if not isinstance(store, VectorStore):
            msg = f"store must be a LangChain VectorStore, got {type(store).__name__}"
            raise ConfigError(msg)
        if getattr(store, "async_mode", False):
            raise ConfigError("the store must work synchronously: make it with async_mode=False")
        if candidates < 1:
            raise ConfigError(f"candidates must be at least 1, got {candidates!r}")
        settings = settings or RecallSettings()
        is_auto = settings.budget_threshold == "auto"
        self.log = log
        self.embeddings = store.embeddings or EmbeddedEmbeddings()
        self.settings = replace(settings, budget_threshold=None) if is_auto else settings
        self.store = store
        self._note = f"vector store {name or getattr(store, 'collection_name', 'default')}"
        self._candidates = candidates
        self._make_filter = make_filter or find_filter(store)
        self._to_cosine = to_cosine or find_cosine(store)
        self._locks = [make_lock() for _ in range(64)]
        self._jobs = BackgroundJobs(self._follow_thread, name="vector store", workers=1)

    def __repr__(self) -> str:
        return f"VectorStoreRecall({self.log!r}, {type(self.store).__name__})"

    # -- recalling ---------------------------------------------------------------------------

    def answer(self, query: RecallQuery) -> Recall:
        """Answer a query; see `LineRecall.recall`.

        A `k` larger than a quarter of `candidates` asks the store for more of them.

        Raises:
            ConfigError: If lines are filtered by more than user and thread, there is a `buffer`,
                or a `threshold` where the store's scores are no cosines, or the store's vectors
                were made by another embedder.
            LineStoreError: If the store cannot be searched. If it cannot be written to, that is
                one of the answer's `problems`.
        """
        _check(query, has_cosines=self._to_cosine is not None)
        problems: dict[str, None] = {}
        dead: set[str] = set()
        for owner in query.scope.owners:
            try:
                self._follow(owner)
            except LineStoreError as error:
                problems[f"the newest lines may be missing: {error}"] = None
                dead |= self._list_pending_retractions(owner)
        hits = self._search(query, dead)
        reach = _find_reach(query.settings)
        windows = self._read_windows(hits, reach, dead)
        told = self._to_cosine is not None
        return _rank(query, windows, hits, reach, tuple(problems), has_cosines=told)

    def answer_from_buffer(self, query: RecallQuery) -> Recall:
        """Return nothing, since there is no buffer.

        Raises:
            ConfigError: If the settings keep one.
        """
        _check(query, has_cosines=self._to_cosine is not None)
        return Recall((), ())

    def _search(self, query: RecallQuery, dead: Collection[str]) -> list[Hit]:
        """Return what the store proposes, but for what is excluded or was taken back."""
        scope, text = query.scope, replace_surrogates(query.search_text)
        field, labels = _find_labels(scope)
        wanted = asked = max(self._candidates, 4 * (query.k or 0))
        while labels:
            found = self._find_nearest(text, asked, field, labels)
            hits = [
                hit
                for hit in map(_read_hit, found)
                if hit.line[1] not in dead
                and hit.position not in scope.exclude.get(hit.line[0], ())
            ]
            if len(hits) >= wanted or len(found) < asked:
                return hits[:wanted]
            asked *= 2
        return []

    def _find_nearest(
        self, text: str, k: int, field: str, labels: list[str]
    ) -> list[tuple[Document, float]]:
        """Return documents with cosines, or with falling scores in the order of the store."""
        wanted = self._make_filter(field, labels)
        found = self._call("searched", "similarity_search_with_score", text, k=k, filter=wanted)
        if not all(document.metadata.get(field) in labels for document, _ in found):
            msg = (
                f"{type(self.store).__name__} answered with documents beside the filter on {field}:"
                " pass a `make_filter` that gives the filter of this store"
            )
            raise ConfigError(msg)
        if self._to_cosine is None:
            return [(document, 1 / (1 + n)) for n, (document, _) in enumerate(found)]
        return [(document, self._to_cosine(score)) for document, score in found]

    def _read_windows(
        self, hits: Iterable[Hit], reach: int, dead: Collection[str]
    ) -> list[list[DialogLine]]:
        """Return stretches of dialogue around what was found, as the log has them."""
        stretches: list[list[DialogLine]] = []
        for near in _group_near(hits):
            after, until = near[0].position - _NEAR - 1, near[-1].position + _NEAR
            entries = self.log.entries(near[0].line[0], after=after, until=until)
            lines = [line for entry in entries for line in make_dialog_lines(entry)]
            named = {hit.line for hit in near}
            at = [n for n, line in enumerate(lines) if _name_line(line) in named]
            if at:  # else the log has forgotten it
                stretches.append(lines[max(at[0] - reach - 2, 0) : at[-1] + reach + 3])
        # Some of them may have been taken back: what the store no longer has is left out.
        ids = [_make_id(_describe(line, 0)) for lines in stretches for line in lines]
        found = [one for batch in _cut(ids) for one in self._call("read", "get_by_ids", batch)]
        there = {
            _read_hit((one, 0.0)).line for one in found if one.metadata["entry_id"] not in dead
        }
        kept = ([line for line in lines if _name_line(line) in there] for lines in stretches)
        return [lines for lines in kept if lines]

    # -- following the log -------------------------------------------------------------------

    def refresh(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Write to the store what is new in the log, and delete what was taken back since.

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
            self._follow(one, progress)
        return ()

    def reindex(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Delete what the store has of an owner, and write all lines of the log to it again.

        For a store that lost lines or kept forgotten ones, and after a change of the embedder.
        Arguments, results and errors are those of `refresh`, which goes on where this one failed.
        """
        for one in sort_owners(owner):
            with self._get_lock(one):
                self.log.delete_state(_get_place(one), self._note)
                self._clear(one)
        return self.refresh(owner, progress)

    def embed_later(self, owner: Owner) -> None:
        """Write what is new of an owner to the store soon."""
        self._jobs.submit(_get_place(owner))

    def close(self) -> None:
        """Write nothing more in the background; recalls still work. Idempotent."""
        self._jobs.close()

    def list_copies(self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None) -> list[str]:
        """List the documents of what is about to be forgotten."""
        entries: Sequence[Entry] = (
            self.log.entries(scope)
            if isinstance(scope, ThreadKey)
            else self.log.changes(scope).entries
        )
        if entry_ids is not None:
            wanted = set(entry_ids)
            entries = [one for one in entries if not wanted.isdisjoint((one.id, one.message_id))]
        return _list_ids(entries)

    def drop_forgotten(self, owner: Owner, copies: Sequence[str] = ()) -> None:
        """Delete the documents of what the log has forgotten.

        Where that fails, they are in the store, but not shown, until a `reindex`.
        """
        try:
            with self._get_lock(owner):
                self._delete(copies)
        except LineStoreError as error:
            _log.warning("the vector store still holds what was forgotten: %s", error)

    def _get_lock(self, owner: Owner) -> Any:
        return self._locks[hash(owner) % len(self._locks)]

    def _follow_thread(self, place: ThreadKey) -> None:
        self._follow(place.owner)

    def _follow(self, owner: Owner, progress: Progress | None = None) -> None:
        """Follow the log of an owner to its end, one call at a time.

        A page that failed is repeated by the next call: documents have ids that say what they are
        of, so that nothing is doubled.
        """
        done = 0
        with self._get_lock(owner):
            while True:
                state, version = self._read_state(owner)
                page = self.log.changes(owner, state["cursor"], limit=_BATCH)
                if not page.entries:
                    return
                gone, back = self._find_edited({e.key for e in page.entries if e.control})
                dead = {entry.id for entry in gone}
                self._delete(_list_ids(gone))
                self._add(entry for entry in (*page.entries, *back) if entry.id not in dead)
                new = {**state, "cursor": page.cursor}
                if not self.log.set_state(_get_place(owner), self._note, new, expected=version):
                    # A faster process may have deleted what this one has written only now.
                    gone, _ = self._find_edited({entry.key for entry in page.entries})
                    self._delete(_list_ids(gone))
                done += len(page.entries)
                if progress is not None:
                    progress(done, done)

    def _find_edited(self, keys: Iterable[ThreadKey]) -> tuple[list[Entry], list[Entry]]:
        """Return what control entries of some threads took out, and what they brought back."""
        gone: list[Entry] = []
        back: list[Entry] = []
        for key in keys:
            thread = self.log.entries(key)
            dead = find_retracted_ids(thread)
            named = _list_retracted(thread)
            gone += [entry for entry in thread if entry.id in named & dead]
            back += [entry for entry in thread if entry.id in named - dead]
        return gone, back

    def _list_pending_retractions(self, owner: Owner) -> set[str]:
        state, _ = self._read_state(owner)
        return _list_retracted(self.log.changes(owner, state["cursor"]).entries)

    def _read_state(self, owner: Owner) -> tuple[dict[str, Any], int | None]:
        """Return how far the store has followed the log of an owner, and the note's version.

        Raises:
            ConfigError: If the store's vectors were made by another embedder.
        """
        embedder = f"{compute_fingerprint(self.embeddings)}/cut-{SEGMENT_CHARS}-{UNCUT_CHARS}"
        found = self.log.get_state(_get_place(owner), self._note)
        if found is None:
            return {"cursor": 0, "embedder": embedder}, None
        if found.value["embedder"] != embedder:
            msg = (
                f"the lines in the vector store were embedded as {found.value['embedder']!r}, now "
                f"they would be as {embedder!r}: call reindex(owner), or use a new collection and "
                "another `name` for it"
            )
            raise ConfigError(msg)
        return found.value, found.version

    # -- the store ---------------------------------------------------------------------------

    def _add(self, entries: Iterable[Entry]) -> None:
        for batch in _cut([made for entry in entries for made in make_documents(entry)]):
            self._call("stored", "add_documents", batch, ids=[made.id for made in batch])

    def _delete(self, ids: Sequence[str]) -> None:
        for batch in _cut(ids):
            self._call("deleted", "delete", batch)

    def _clear(self, owner: Owner) -> None:
        """Delete all documents of an owner that the store finds."""
        seen: set[str] = set()
        while True:
            found = self._find_nearest("-", _BATCH, _OWNER, [_label_owner(owner)])
            ids = {_make_id(document.metadata) for document, _ in found} - seen
            if not ids:
                return
            self._delete(sorted(ids))
            seen |= ids

    def _call(self, what: str, name: str, given: Any, **options: Any) -> Any:
        with ErrorTrap(Exception) as trap:
            return getattr(self.store, name)(given, **options)
        msg = f"lines could not be {what}: {type(self.store).__name__}: {trap.reason}"
        raise LineStoreError(msg) from None


def _get_place(owner: Owner) -> ThreadKey:
    return ThreadKey(owner.user_id, owner.thread_id or _STATE_THREAD)


def _cut(items: Sequence[T]) -> Iterable[list[T]]:
    return (list(items[start : start + _BATCH]) for start in range(0, len(items), _BATCH))


def _check(query: RecallQuery, *, has_cosines: bool) -> None:
    """Refuse what needs an index of all lines, or another filter.

    Raises:
        ConfigError: If anything of the kind is asked for; the message names it.
    """
    is_number = has_cosines and query.threshold != "auto"
    refused = {
        **dict.fromkeys(sorted(query.scope.where.keys() - {"user_id", "thread_id"}), True),
        "since": query.scope.since_ms is not None,
        "until": query.scope.until_ms is not None,
        "buffer (pass settings with buffer_size=0)": query.buffer is not None,
        f"threshold={query.threshold!r}": query.threshold is not None and not is_number,
    }
    names = [name for name, is_refused in refused.items() if is_refused]
    if names:
        msg = f"recall over this vector store cannot filter or select by {', '.join(names)}"
        raise ConfigError(msg)


def _list_retracted(entries: Iterable[Entry]) -> set[str]:
    """Return what control entries name, whether or not they count themselves."""
    return {one for entry in entries if entry.control for one in entry.control.retracts}


def _find_reach(settings: RecallSettings) -> int:
    """Return how many lines on each side of a hit its score or its block may take in."""
    windows = (settings.window, settings.budget_window)
    sides = [side for one in windows for side in (one if isinstance(one, tuple) else (one,))]
    return max(*sides, len(settings.kernel) // 2)


# -- documents ------------------------------------------------------------------------------------


def _label_owner(owner: Owner) -> str:
    """Return a unique name of an owner, in letters that every store keeps."""
    return json.dumps([owner.user_id] if owner.thread_id is None else [None, owner.thread_id])


def _label_thread(key: ThreadKey) -> str:
    return json.dumps([key.user_id, key.thread_id])


def make_documents(entry: Entry) -> list[Document]:
    """Return the documents of an entry: one for each segment of its lines."""
    found = []
    for line in make_dialog_lines(entry):
        cuts = split_line(line.text) if line.text.strip() else []
        for segment, (start, end) in enumerate(cuts):
            # No column of text takes a NUL.
            text = replace_surrogates(line.text[start:end]).replace("\x00", " ")
            said = _describe(line, segment)
            found.append(Document(id=_make_id(said), page_content=text, metadata=said))
    return found


def _describe(line: DialogLine, segment: int) -> dict[str, str | int]:
    """Return the metadata of a segment: whose it is, and where it stands in the log."""
    return {
        _OWNER: _label_owner(line.key.owner),
        _THREAD: _label_thread(line.key),
        "entry_id": line.entry_id,
        "position": line.position,
        "part": line.part,
        "segment": segment,
    }


def _make_id(said: Mapping[str, Any]) -> str:
    """Return the id of a document, by its metadata."""
    numbers = f"{int(said['part'])}\n{int(said['segment'])}"
    return str(uuid.uuid5(_IDS, f"{said[_THREAD]}\n{said['entry_id']}\n{numbers}"))


def _list_ids(entries: Iterable[Entry]) -> list[str]:
    return [str(made.id) for entry in entries for made in make_documents(entry)]


def _read_hit(found: tuple[Document, float]) -> Hit:
    said, score = found[0].metadata, found[1]
    line = ThreadKey(*json.loads(said[_THREAD])), said["entry_id"], int(said["part"])
    return Hit(line, int(said["position"]), int(said["segment"]), score)


def _name_line(line: DialogLine) -> LineName:
    return line.key, line.entry_id, line.part


# -- how stores filter and score ------------------------------------------------------------------


def _find_labels(scope: Scope) -> tuple[str, list[str]]:
    """Return which metadata a search filters by, and the texts of which it must be one."""
    users, threads = scope.where.get("user_id"), scope.where.get("thread_id")
    owners = [one for one in scope.owners if users is None or one.user_id in users]
    if scope.within is not None:
        is_wanted = scope.within.owner in owners and (
            threads is None or scope.within.thread_id in threads
        )
        return _THREAD, [_label_thread(scope.within)] if is_wanted else []
    if threads is None:
        return _OWNER, [_label_owner(owner) for owner in owners]
    keys = [ThreadKey(owner.user_id, str(one)) for owner in owners for one in threads]
    return _THREAD, [_label_thread(key) for key in keys]


def find_filter(store: VectorStore) -> Callable[[str, list[str]], Any]:
    """Return how a store filters; see `VectorStoreRecall`."""
    kinds = _list_kinds(store)
    if "InMemoryVectorStore" in kinds:
        return lambda field, labels: lambda document: document.metadata.get(field) in labels
    if "QdrantVectorStore" in kinds:
        return partial(_filter_qdrant, store)
    return lambda field, labels: {field: {"$in": labels}}


def _filter_qdrant(store: Any, field: str, labels: list[str]) -> Any:
    models = importlib.import_module("qdrant_client.models")
    match = models.MatchAny(any=labels)
    key = f"{store.metadata_payload_key}.{field}"
    return models.Filter(must=[models.FieldCondition(key=key, match=match)])


def find_cosine(store: Any) -> Callable[[float], float] | None:
    """Return how the scores of a store become cosines; None where it is not known."""
    kinds = _list_kinds(store)
    if "InMemoryVectorStore" in kinds:
        return float
    if "QdrantVectorStore" in kinds:
        return float if (store.retrieval_mode, store.distance) == ("dense", "Cosine") else None
    # The public property of PGVector gives an SQL comparator, which does not tell its kind.
    is_cosine = "PGVector" in kinds and getattr(store, "_distance_strategy", "") == "cosine"
    return (lambda distance: 1.0 - distance) if is_cosine else None


def _list_kinds(store: VectorStore) -> set[str]:
    # By name: which of these packages are installed is not known.
    return {kind.__name__ for kind in type(store).__mro__}


# -- the ranking of what was proposed -------------------------------------------------------------


def _group_near(hits: Iterable[Hit]) -> list[list[Hit]]:
    """Return the hits in groups of one thread that one read of the log serves, in order."""
    groups: list[list[Hit]] = []
    for hit in sorted(hits, key=lambda one: (_label_thread(one.line[0]), one.position)):
        last = groups[-1][-1] if groups else None
        if last and last.line[0] == hit.line[0] and hit.position - last.position <= 2 * _NEAR:
            groups[-1].append(hit)
        else:
            groups.append([hit])
    return groups


def _rank(
    query: RecallQuery,
    stretches: Sequence[Sequence[DialogLine]],
    hits: Iterable[Hit],
    reach: int,
    problems: tuple[str, ...],
    *,
    has_cosines: bool,
) -> Recall:
    """Rank the lines that were read as a recall in memory would, and cut the answer."""
    table, lexical = SegmentTable(), LexicalIndex()
    scores = {(hit.line, hit.segment): hit.score for hit in hits}
    similarities: dict[int, float] = {}
    gaps: list[int] = []
    for before, lines in pairwise([(), *stretches]):
        if before and before[-1].key == lines[0].key:
            # Lines of no meaning, so that no window and no smoothing reaches across.
            for _ in range(reach + 1):
                gaps += table.add(replace(before[-1], text="-", entry_id=""))
        for line in lines:
            for segment, number in enumerate(table.add(line)):
                if (_name_line(line), segment) in scores:
                    similarities[number] = scores[_name_line(line), segment]
    lexical.add(
        [
            extract_line_terms(table.find_line(number), table.get_text(number))
            for number in range(len(table))
        ]
    )
    # The log has the last word on what is in scope, whatever the store let through.
    allowed = query.scope.mask(table)
    allowed[gaps] = False
    # The store has compared already: any vector stands for the question.
    vector = np.ones(1, dtype=np.float32)
    vectors = ProposedVectors(len(table), similarities)
    ranking = rank(query, table, vectors, lexical, vector=vector, allowed=allowed)
    told = similarities if has_cosines else {}
    columns = ranking.columns
    columns.similarity[:] = [told.get(number, 0.0) for number in columns.numbers.tolist()]
    return build_recall(query, ranking, table, lexical, allowed=allowed, problems=problems).recall


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
