"""`VectorStoreRecall`: recall whose vectors are kept in any LangChain `VectorStore`."""

from __future__ import annotations

import importlib
import json
import logging
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from langchain_convmem.background import BackgroundJobs
from langchain_convmem.causes import ErrorTrap, describe_value
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
from langchain_convmem.recall.options import (
    Owners,
    Progress,
    RecallQuery,
    RecallSettings,
    Scope,
    make_query,
    sort_owners,
)
from langchain_convmem.recall.recall import DialogRecall
from langchain_convmem.recall.segments import SegmentTable, split_line
from langchain_convmem.recall.universal import UniversalSentenceEmbeddings
from langchain_convmem.records import Entry, Owner, Stretch, ThreadKey
from langchain_convmem.views.lines import LineMatch, Recall, make_dialog_lines
from langchain_convmem.views.live import find_retracted_ids

_log = logging.getLogger("langchain_convmem")

_BATCH = 256
"""Entries of a page of the log, and documents of a call to the store."""
_ROUNDING = 1e-6
"""Cosines that differ by less are equal."""
_IDS = uuid.UUID("6f1c2d0e-2f0b-5d55-9a5c-3b7c9f0b8d11")
_OWNER, _THREAD = "owner", "thread"

Place: TypeAlias = tuple[ThreadKey, int, int, int]
"""Where a segment stands: thread, position of the entry, line of that, part of the line."""
Found: TypeAlias = tuple[TableView, dict[int, float]]
"""Lines that were read, and the scores of those segments that the store found, in its order."""


class _Around(NamedTuple):
    """Asks a log for some stretches of a thread; see `ReadPlan`."""

    stretches: Sequence[Stretch]

    def find_stretches(self, framing: Sequence[Entry]) -> Sequence[Stretch]:  # noqa: ARG002
        return self.stretches

    def find_named(self, framing: Sequence[Entry]) -> Collection[str]:  # noqa: ARG002
        return ()

    def is_enough(self, page: Sequence[Entry]) -> bool:  # noqa: ARG002
        return False


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
            settings: Windows and limits; weights count in memory alone. A `threshold` of "auto"
                needs an index there, and is none here.
            candidates: How many segments the store finds at first. The log is read around these.
            make_filter: From the name of a metadata field and the texts of which it must have one
                to the `filter` of a search. None knows `InMemoryVectorStore`,
                `QdrantVectorStore`, and the operator `$in` as in Chroma and PGVector.
            to_cosine: From the score of a search to the cosine similarity, such as `float` where it
                is one. None knows those of `InMemoryVectorStore`; the scores of other stores only
                order an answer then, and a `threshold` is refused.

        Raises:
            ConfigError: If the log or the store is none, the store asynchronous alone, `candidates`
                below 1, or the settings name a buffer, or a threshold for scores of another kind.
        """
        if not isinstance(log, MessageLog):
            raise ConfigError(f"log must be a MessageLog, got {describe_value(log)}")
        if not isinstance(store, VectorStore):
            msg = f"store must be a LangChain VectorStore, got {type(store).__name__}"
            raise ConfigError(msg)
        if candidates < 1:
            raise ConfigError(f"candidates must be at least 1, got {candidates!r}")
        if getattr(store, "async_mode", False):
            raise ConfigError("the store must work synchronously: make it with async_mode=False")
        settings = settings or RecallSettings()
        is_auto = settings.threshold in (None, "auto")
        self.log = log
        self.embeddings = store.embeddings or UniversalSentenceEmbeddings()
        self.settings = replace(settings, threshold=-1.0) if is_auto else settings
        self.store = store
        collection = getattr(store, "collection_name", "default")
        # What another embedder has written is written again, under its own name.
        self._note = f"vector store {collection} {compute_fingerprint(self.embeddings)}"
        self._candidates = candidates
        self._make_filter = make_filter or find_filter(store)
        self._to_cosine = to_cosine or (float if isinstance(store, InMemoryVectorStore) else None)
        # Settings that every recall would refuse.
        anyone = Owner(user_id="-")
        self._check(make_query(anyone, "-", self.settings, buffer=_get_place(anyone)))
        self._locks = [make_lock() for _ in range(64)]
        self._jobs = BackgroundJobs(self._follow, name="vector store", workers=1)

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
        self._check(query)
        if not query.text.strip():
            return Recall((), ())
        problems: dict[str, None] = {}
        for owner in query.scope.owners:
            try:
                self._follow(owner)
            except LineStoreError as error:
                problems[f"the newest lines may be missing: {error}"] = None
        ground, scores = self._search(query)
        find, is_cosine = ground.table.find_line, self._to_cosine is not None
        matches = {
            number: LineMatch(find(number), score, score if is_cosine else 0.0, ("meaning",))
            for number, score in scores.items()
            if query.threshold is None or score > float(query.threshold) + _ROUNDING
        }
        blocks = []
        for group in build_groups(matches, ground):
            hits = select_first_of_lines(group.hits, ground.table)
            blocks.append(make_block(group, [matches[number] for number in hits], ground))
        best = select_first_of_lines(matches, ground.table, query.ranking)
        return Recall(
            matches=tuple(matches[number] for number in best),
            blocks=tuple(blocks),
            problems=tuple(problems),
            verdict="related" if blocks else "nothing",
        )

    def _check(self, query: RecallQuery) -> None:
        """Refuse what needs an index of all lines, or another filter.

        Raises:
            ConfigError: If anything of the kind is asked for; the message names it.
        """
        scope, threshold = query.scope, query.threshold
        refused = sorted(scope.where.keys() - {"user_id", "thread_id"})
        buffer = "buffer (pass settings with buffer_size=0)"
        asked = {"since": scope.since_ms, "until": scope.until_ms, buffer: query.buffer}
        refused += [name for name, value in asked.items() if value is not None]
        if threshold is not None and (threshold == "auto" or self._to_cosine is None):
            refused.append(f"threshold={threshold!r}")
        if refused:
            msg = f"recall over this vector store cannot filter or select by {', '.join(refused)}"
            raise ConfigError(msg)

    def _search(self, query: RecallQuery) -> Found:
        """Return what the store finds, but for what the log does not show."""
        text = replace_surrogates(query.search_text)
        field, labels = _find_labels(query.scope)
        wanted = asked = max(self._candidates, 4 * (query.k or 0))
        while True:
            found = self._find_nearest(text, asked, field, labels) if labels else []
            scores = {_read_place(document): score for document, score in found}
            ground, numbers = self._read_around(query, scores)
            hits = {numbers[at]: score for at, score in scores.items() if at in numbers}
            if len(hits) >= wanted or len(found) < asked:
                return ground, dict(islice(hits.items(), wanted))
            asked *= 2

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

    def _read_around(
        self, query: RecallQuery, places: Iterable[Place]
    ) -> tuple[TableView, dict[Place, int]]:
        """Return the lines that count around some places, and the numbers of their segments."""
        settings, exclude = query.settings, query.scope.exclude
        reach = 8 + 4 * int(max(np.max(settings.window), np.max(settings.budget_window)))
        positions: dict[ThreadKey, set[int]] = {}
        for key, position, *_ in places:
            positions.setdefault(key, set()).add(position)
        table, numbers, borders = SegmentTable(), dict[Place, int](), list[int]()
        for key, some in positions.items():
            stretches = _join_stretches(sorted(some), reach)
            entries = self.log.read_back(key, _Around(stretches))
            dead, out = find_retracted_ids(entries), exclude.get(key, ())
            live = [one for one in entries if one.id not in dead and one.position not in out]
            for after, until in stretches:
                near = (entry for entry in live if after < entry.position <= until)
                lines = [line for entry in near for line in make_dialog_lines(entry)]
                for line in lines:
                    for part, number in enumerate(table.add_many([line])):
                        numbers[key, line.position, line.part, part] = number
                # No line is the neighbour of one that stands in another stretch.
                borders += table.add_many([replace(lines[-1], text="-")]) if lines else ()
        allowed = np.ones(len(table), dtype=np.bool_)
        allowed[borders] = False
        return TableView(table, allowed, query), numbers

    # -- following the log -------------------------------------------------------------------

    def refresh(
        self,
        owner: Owners,
        progress: Progress | None = None,  # noqa: ARG002 - how much there is, is not known
    ) -> tuple[str, ...]:
        """Write to the store what is new in the log.

        Args:
            owner: Whose lines; of several owners, one after the other.
            progress: Never called: how much there is in all is not known before.

        Returns:
            Always empty: problems are raised.

        Raises:
            LogError: If the log cannot be read.
            LineStoreError: If the store or its embedder failed; the next call resumes there.
        """
        for one in sort_owners(owner):
            self._follow(one)
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
        self._jobs.submit(owner)

    def close(self) -> None:
        """Write nothing more in the background; recalls still work. Idempotent."""
        self._jobs.close()

    def list_copies(self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None) -> list[str]:
        """List the documents of what is about to be forgotten."""
        entries: Iterable[Entry] = (
            self.log.entries(scope)
            if isinstance(scope, ThreadKey)
            else self.log.changes(scope).entries
        )
        return [
            str(made.id)
            for entry in entries
            if entry_ids is None or entry.id in entry_ids or entry.message_id in entry_ids
            for made in make_documents(entry)
        ]

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

    def _follow(self, owner: Owner) -> None:
        """Follow the log of an owner to its end, one call at a time.

        A page that failed is repeated by the next call: documents have ids that say what they are
        of, so that nothing is doubled.
        """
        place = _get_place(owner)
        with self._get_lock(owner):
            while True:
                note = self.log.get_state(place, self._note)
                cursor, version = (note.value, note.version) if note else (0, None)
                page = self.log.changes(owner, cursor, limit=_BATCH)
                if not page.entries:
                    return
                made = [document for entry in page.entries for document in make_documents(entry)]
                if made:
                    ids = [document.id for document in made]
                    self._call("stored", "add_documents", made, ids=ids)
                # Where another process was faster, the next round begins where that one stands.
                self.log.set_state(place, self._note, page.cursor, expected=version)

    # -- the store ---------------------------------------------------------------------------

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
    """Return beside which thread the cursor is kept; of a user, one where nothing is written."""
    return ThreadKey(owner.user_id, owner.thread_id or "convmem-vector-store")


# -- documents ------------------------------------------------------------------------------------


def _label_owner(owner: Owner) -> str:
    """Return a unique name of an owner, in letters that every store keeps."""
    return json.dumps([owner.user_id] if owner.thread_id is None else [None, owner.thread_id])


def _label_thread(key: ThreadKey) -> str:
    return json.dumps([key.user_id, key.thread_id])


def make_documents(entry: Entry) -> list[Document]:
    """Return the documents of an entry: one for each segment of its lines.

    Their metadata say whose a segment is, and where it stands.
    """
    said = {_OWNER: _label_owner(entry.key.owner), _THREAD: _label_thread(entry.key)}
    found = []
    for line in make_dialog_lines(entry):
        cuts = split_line(line.text) if line.text.strip() else []
        for number, (start, end) in enumerate(cuts):
            # No column of text takes a NUL.
            text = replace_surrogates(line.text[start:end]).replace("\x00", " ")
            at = {"position": line.position, "part": line.part, "segment": number}
            place = {**said, "entry_id": line.entry_id, **at}
            found.append(Document(text, id=_make_id(place), metadata=place))
    return found


def _make_id(said: Mapping[str, Any]) -> str:
    """Return the id of a document by its metadata; collections may share a table."""
    numbers = f"{int(said['part'])}\n{int(said['segment'])}"
    return str(uuid.uuid5(_IDS, f"{said[_THREAD]}\n{said['entry_id']}\n{numbers}"))


def _read_place(document: Document) -> Place:
    said = document.metadata
    position, part, segment = (int(said[name]) for name in ("position", "part", "segment"))
    return ThreadKey(*json.loads(said[_THREAD])), position, part, segment


def _join_stretches(positions: Iterable[int], reach: int) -> list[tuple[int, int]]:
    """Return what lies around ascending positions as stretches that do not overlap."""
    found: list[tuple[int, int]] = []
    for position in positions:
        after = max(position - reach, 0)
        if found and after <= found[-1][1]:
            after = found.pop()[0]
        found.append((after, position + reach))
    return found


# -- how stores filter ----------------------------------------------------------------------------


def _find_labels(scope: Scope) -> tuple[str, list[str]]:
    """Return which metadata a search filters by, and the texts of which it must be one."""
    within, users, threads = scope.within, scope.where.get("user_id"), scope.where.get("thread_id")
    owners = [one for one in scope.owners if users is None or one.user_id in users]
    if within is None and threads is None:
        return _OWNER, [_label_owner(owner) for owner in owners]
    keys = [ThreadKey(owner.user_id, str(one)) for owner in owners for one in threads or ()]
    if within is not None:
        keys = [within] if threads is None or within in keys else []
    return _THREAD, [_label_thread(key) for key in keys if key.owner in owners]


def find_filter(store: VectorStore) -> Callable[[str, list[str]], Any]:
    """Return how a store filters; see `VectorStoreRecall`."""
    if isinstance(store, InMemoryVectorStore):
        return lambda field, labels: lambda document: document.metadata.get(field) in labels
    # By name: which of these packages are installed is not known.
    if "QdrantVectorStore" in {kind.__name__ for kind in type(store).__mro__}:
        models = importlib.import_module("qdrant_client.models")
        path = getattr(store, "metadata_payload_key", "metadata")
        return lambda field, labels: models.Filter(
            must=[models.FieldCondition(key=f"{path}.{field}", match=models.MatchAny(any=labels))]
        )
    return lambda field, labels: {field: {"$in": labels}}
