"""`VectorStoreRecall`: recall whose vectors are kept in any LangChain `VectorStore`."""

from __future__ import annotations

import importlib
import json
import logging
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

from langchain_convmem.background import BackgroundJobs
from langchain_convmem.causes import ErrorTrap
from langchain_convmem.errors import ConfigError, LineStoreError
from langchain_convmem.forks import make_lock
from langchain_convmem.message_log import MessageLog
from langchain_convmem.recall.blocks import (
    TableView,
    build_groups,
    make_block,
    select_first_of_lines,
)
from langchain_convmem.recall.embedding import compute_fingerprint
from langchain_convmem.recall.encoders import replace_surrogates
from langchain_convmem.recall.universal import UniversalSentenceEmbeddings
from langchain_convmem.recall.options import (
    Owners,
    Progress,
    RecallQuery,
    RecallSettings,
    Scope,
    sort_owners,
)
from langchain_convmem.recall.recall import DialogRecall
from langchain_convmem.recall.segments import (
    SEGMENT_CHARS,
    UNCUT_CHARS,
    SegmentTable,
    split_line,
)
from langchain_convmem.records import DialogLine, Entry, Owner, ThreadKey
from langchain_convmem.views.lines import make_dialog_lines
from langchain_convmem.views.live import find_retracted_ids
from langchain_convmem.views.shown import LineMatch, Recall

_log = logging.getLogger("langchain_convmem")

_BATCH = 256
"""Entries of a page of the log, and documents of a call to the store."""
_ROUNDING = 1e-6
"""Cosines that differ by less are equal."""
_IDS = uuid.UUID("6f1c2d0e-2f0b-5d55-9a5c-3b7c9f0b8d11")
_OWNER, _THREAD = "owner", "thread"
_STATE_THREAD = "convmem-vector-store"
"""Beside which thread of a user the cursor is kept; no entry is ever written there."""

LineName = tuple[ThreadKey, str, int]
"""A line by its thread, its entry and which of the entry's lines it is."""


class Hit(NamedTuple):
    """A segment that a store found: its line, which part of it, and its score."""

    line: LineName
    segment: int
    score: float


class VectorStoreRecall(DialogRecall):
    """Finds dialog lines through a vector store that all users and servers share.

    The store finds lines, filtered by user or thread inside the store, and puts them in order;
    every word of an answer is read from the log, and what was undone, replaced or forgotten there
    is left out. After a turn, and before each recall, what is new in the log is written to the
    store. What fails is tried again by the next recall, and named in `Recall.problems`; `reindex`
    writes everything again.

    This process keeps no lines, vectors or terms of a user. In exchange, words, dates and
    neighbours count for nothing: a store that searches by words too finds what shares a rare word.

    Thread-safe. Log and store remain the caller's to close.
    """

    def __init__(
        self,
        log: MessageLog,
        store: VectorStore,
        settings: RecallSettings | None = None,
        *,
        name: str | None = None,
        candidates: int = 50,
        make_filter: Callable[[str, list[str]], Any] | None = None,
        to_cosine: Callable[[float], float] | None = None,
    ) -> None:
        """Create a recall over `log` and `store`; nothing is read yet.

        Args:
            log: Where the lines are stored. How far the store has followed it is kept there as a
                state document, so it must keep these, as all logs of this package do.
            store: Any vector store that writes and deletes documents by id and filters
                by metadata. It is called synchronously. Its embedder embeds lines and questions.
            settings: Windows and limits; weights count in memory alone. A `budget_threshold` of
                "auto" needs an index there, and is none here.
            name: Of the collection; None is the store's own `collection_name` if it has one.
                Another collection needs another name.
            candidates: How many segments the store finds at first. The threads of these are read.
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
        self.embeddings = store.embeddings or UniversalSentenceEmbeddings()
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
                or a `threshold` where the store's scores are no cosines.
            LineStoreError: If the store cannot be searched. If it cannot be written to, that is
                one of the answer's `problems`.
        """
        _check(query, has_cosines=self._to_cosine is not None)
        problems: dict[str, None] = {}
        for owner in query.scope.owners:
            try:
                self._follow(owner)
            except LineStoreError as error:
                problems[f"the newest lines may be missing: {error}"] = None
        read = cache(self._read_lines)
        hits = self._search(query, read)
        lines = [line for key in {hit.line[0]: 0 for hit in hits} for line in read(key).values()]
        found = _build(query, hits, lines, has_cosines=self._to_cosine is not None)
        return replace(found, problems=tuple(problems))

    def answer_from_buffer(self, query: RecallQuery) -> Recall:
        """Return nothing, since there is no buffer.

        Raises:
            ConfigError: If the settings keep one.
        """
        _check(query, has_cosines=self._to_cosine is not None)
        return Recall((), ())

    def _search(
        self, query: RecallQuery, read: Callable[[ThreadKey], Mapping[LineName, DialogLine]]
    ) -> list[Hit]:
        """Return what the store finds, in its order, but for what the log does not show."""
        scope, text = query.scope, replace_surrogates(query.search_text)
        field, labels = _find_labels(scope)

        def is_shown(hit: Hit) -> bool:
            key, line = hit.line[0], read(hit.line[0]).get(hit.line)
            return line is not None and line.position not in scope.exclude.get(key, ())

        wanted = asked = max(self._candidates, 4 * (query.k or 0))
        while labels:
            found = self._find_nearest(text, asked, field, labels)
            hits = list(filter(is_shown, map(_read_hit, found)))
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

    def _read_lines(self, key: ThreadKey) -> dict[LineName, DialogLine]:
        """Return the lines of a thread that count."""
        entries = self.log.entries(key)
        dead = find_retracted_ids(entries)
        live = (entry for entry in entries if entry.id not in dead)
        return {_name_line(line): line for entry in live for line in make_dialog_lines(entry)}

    # -- following the log -------------------------------------------------------------------

    def refresh(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Write to the store what is new in the log.

        Args:
            owner: Whose lines; of several owners, one after the other.
            progress: Called after each page with how many entries were read, twice: how many there
                are in all is not known before.

        Returns:
            Always empty: problems are raised.

        Raises:
            LogError: If the log cannot be read.
            LineStoreError: If the store or its embedder failed; the next call resumes there.
        """
        for one in sort_owners(owner):
            self._follow(one, progress)
        return ()

    def reindex(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Delete what the store has of an owner, and write all lines of the log to it again.

        For a store that lost lines or kept forgotten ones.
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
                self._add(page.entries)
                new = {**state, "cursor": page.cursor}
                # Where another process was faster, the next round begins where that one stands.
                self.log.set_state(_get_place(owner), self._note, new, expected=version)
                done += len(page.entries)
                if progress is not None:
                    progress(done, done)

    def _read_state(self, owner: Owner) -> tuple[dict[str, Any], int | None]:
        """Return how far the store has followed the log of an owner, and the note's version.

        What another embedder has written is written again.
        """
        embedder = f"{compute_fingerprint(self.embeddings)}/cut-{SEGMENT_CHARS}-{UNCUT_CHARS}"
        found = self.log.get_state(_get_place(owner), self._note)
        if found is not None and found.value["embedder"] == embedder:
            return found.value, found.version
        return {"cursor": 0, "embedder": embedder}, None if found is None else found.version

    # -- the store ---------------------------------------------------------------------------

    def _add(self, entries: Iterable[Entry]) -> None:
        made = [document for entry in entries for document in make_documents(entry)]
        if made:
            self._call("stored", "add_documents", made, ids=[document.id for document in made])

    def _delete(self, ids: Sequence[str]) -> None:
        for start in range(0, len(ids), _BATCH):
            self._call("deleted", "delete", ids[start : start + _BATCH])

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


# -- documents ------------------------------------------------------------------------------------


def _label_owner(owner: Owner) -> str:
    """Return a unique name of an owner, in letters that every store keeps."""
    return json.dumps([owner.user_id] if owner.thread_id is None else [None, owner.thread_id])


def _label_thread(key: ThreadKey) -> str:
    return json.dumps([key.user_id, key.thread_id])


def make_documents(entry: Entry) -> list[Document]:
    """Return the documents of an entry: one for each segment of its lines.

    Their metadata say whose a segment is, and of what.
    """
    said = {_OWNER: _label_owner(entry.key.owner), _THREAD: _label_thread(entry.key)}
    found = []
    for line in make_dialog_lines(entry):
        cuts = split_line(line.text) if line.text.strip() else []
        for number, (start, end) in enumerate(cuts):
            # No column of text takes a NUL.
            text = replace_surrogates(line.text[start:end]).replace("\x00", " ")
            place = {**said, "entry_id": entry.id, "part": line.part, "segment": number}
            found.append(Document(id=_make_id(place), page_content=text, metadata=place))
    return found


def _make_id(said: Mapping[str, Any]) -> str:
    """Return the id of a document, by its metadata."""
    numbers = f"{int(said['part'])}\n{int(said['segment'])}"
    return str(uuid.uuid5(_IDS, f"{said[_THREAD]}\n{said['entry_id']}\n{numbers}"))


def _list_ids(entries: Iterable[Entry]) -> list[str]:
    return [str(made.id) for entry in entries for made in make_documents(entry)]


def _read_hit(found: tuple[Document, float]) -> Hit:
    said, score = found[0].metadata, found[1]
    line = ThreadKey(*json.loads(said[_THREAD])), said["entry_id"], int(said["part"])
    return Hit(line, int(said["segment"]), score)


def _name_line(line: DialogLine) -> LineName:
    return line.key, line.entry_id, line.part


# -- how stores filter and score ------------------------------------------------------------------


def _find_labels(scope: Scope) -> tuple[str, list[str]]:
    """Return which metadata a search filters by, and the texts of which it must be one."""
    users, threads = scope.where.get("user_id"), scope.where.get("thread_id")
    owners = [one for one in scope.owners if users is None or one.user_id in users]
    if scope.within is None and threads is None:
        return _OWNER, [_label_owner(owner) for owner in owners]
    keys = [ThreadKey(owner.user_id, str(one)) for owner in owners for one in threads or ()]
    if scope.within is not None:
        is_wanted = scope.within.owner in owners and (threads is None or scope.within in keys)
        keys = [scope.within] if is_wanted else []
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


# -- the answer -----------------------------------------------------------------------------------


def _build(
    query: RecallQuery, hits: Sequence[Hit], lines: Iterable[DialogLine], *, has_cosines: bool
) -> Recall:
    """Return hits in the order of the store, as blocks with the lines around them."""
    table = SegmentTable()
    numbers = {
        (_name_line(line), segment): number
        for line in lines
        for segment, number in enumerate(table.add_many([line]))
    }
    # The log has the last word on what is in scope, whatever the store let through.
    allowed = query.scope.mask(table)
    matches: dict[int, LineMatch] = {}
    for hit in hits:
        number = numbers.get((hit.line, hit.segment))
        is_near = query.threshold is None or hit.score > float(query.threshold) + _ROUNDING
        if number is not None and allowed[number] and is_near:
            similarity = hit.score if has_cosines else 0.0
            matches[number] = LineMatch(
                table.find_line(number), hit.score, similarity, ("meaning",)
            )
    ground = TableView(table, allowed, query.settings.cross_sessions, query.header_now_ms)
    blocks = [
        make_block(group, [matches[n] for n in select_first_of_lines(group.hits, table)], ground)
        for group in build_groups(query, matches, ground)
    ]
    shown = {_name_line(line) for block in blocks for line in block.lines}
    rejected = (one.relevance for one in matches.values() if _name_line(one.line) not in shown)
    best = select_first_of_lines(matches, table, query.ranking)
    return Recall(
        matches=tuple(matches[number] for number in best),
        blocks=tuple(blocks),
        best_rejected=next(rejected, None),
        verdict="related" if blocks else "nothing",
    )
