"""Keeps what a vector store holds of one owner equal to the log.

The order of the writes makes every step repeatable: first the ledger notes what will be written,
then the store is changed, then the cursor moves on. Whatever stops in between is done again.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import uuid
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

from langchain_convmem.effects import Step, Steps, step
from langchain_convmem.errors import ConfigError, ConvMemError, LineStoreError, LogError
from langchain_convmem.ids import new_ulid, now_ms
from langchain_convmem.protocols import MessageLog, ThreadState
from langchain_convmem.recall.embedding import encodable, in_worker
from langchain_convmem.recall.segments import split_line
from langchain_convmem.records import Changes, Entry, Owner, ThreadKey
from langchain_convmem.views.lines import dialog_lines
from langchain_convmem.views.live import retracted_ids

Progress = Callable[[int, int], None]


_PAGE = 256


_LEASE_MS = 60_000


class Synchronizer:
    """Brings one owner's documents up to date. Stateless but for its arguments."""

    def __init__(
        self,
        log: MessageLog,
        border: StoreBorder,
        ledger: Ledger,
        owner: Owner,
        *,
        fingerprint: str,
        writer: str,
    ) -> None:
        """Create it for the server called `writer`; nothing is read yet."""
        self._log = log
        self._border = border
        self._ledger = ledger
        self._owner = owner
        self._fingerprint = fingerprint
        self._writer = writer

    def catch_up(self, progress: Progress | None = None) -> Steps[None]:
        """Follow the log to its end.

        Raises:
            LogError: If the log cannot be read.
            LineStoreError: If the store or its embedder failed, or another server is writing this
                owner's lines; the next call goes on there.
            ConfigError: If the store's vectors were made by another embedder.
        """
        try:
            yield from self._follow_to_the_end(progress)
        except ConvMemError:
            with suppress(LogError):
                yield from self._release((yield from self._ledger.head()))
            raise

    def _follow_to_the_end(self, progress: Progress | None) -> Steps[None]:
        done = 0
        while True:
            head = yield from self._head()
            page: Changes = yield step(self._log, "changes", self._owner, head.cursor, limit=_PAGE)
            if not page.entries and head.generation in (None, page.generation):
                yield from self._release(head)
                return
            if head.holder != self._writer:
                yield from self._take(head, page.generation)
                continue
            if head.generation != page.generation:
                yield from self._compare_anew(head)
                continue
            yield from self._follow(head, page)
            done += len(page.entries)
            if progress is not None:
                progress(done, done)

    def _take(self, head: Head, generation: int) -> Steps[None]:
        """Become the one who writes, unless another does; only a faster one may prevent it.

        Writes that overtake each other could leave in the store what the log has forgotten.
        """
        if head.holder and now_ms() < head.until_ms:
            msg = "another server is writing lines of this owner to the vector store; try again"
            raise LineStoreError(msg)
        # The generation is noted before anything is written, so that no forget is overlooked.
        known = generation if head.generation is None else head.generation
        taken = replace(head, generation=known, holder=self._writer, until_ms=_lease_end())
        yield from self._ledger.commit(taken)

    def _release(self, head: Head) -> Steps[None]:
        if head.holder == self._writer:
            yield from self._ledger.commit(replace(head, holder="", until_ms=0))

    def start_over(self) -> Steps[None]:
        """Take the store for empty, once what the log has forgotten is deleted from it."""
        yield from self.catch_up()
        old = yield from self._head()
        new = replace(old, cursor=0, firsts=(), epoch=new_ulid())
        if (yield from self._ledger.commit(new)) is not None:
            yield from self._ledger.drop(old)

    def _head(self) -> Steps[Head]:
        head = yield from self._ledger.head()
        if head.generation is not None and head.fingerprint != self._fingerprint:
            msg = (
                "the lines in the vector store were embedded as "
                f"{head.fingerprint!r}, now they would be as {self._fingerprint!r}: use a new "
                "collection, and another `name` for it"
            )
            raise ConfigError(msg)
        return replace(head, fingerprint=self._fingerprint)

    # -- new entries -------------------------------------------------------------------------

    def _follow(self, head: Head, page: Changes) -> Steps[None]:
        """Take a page of the log into ledger and store, and move the cursor behind it."""
        rows = [VectorRow.of(entry) for entry in page.entries]
        new, noted = yield from self._ledger.append(head, rows)
        dead = yield from self._ledger.retract(new, _retracted_by(page.entries))
        if any(row.is_control for row in dead):
            # A retraction was itself retracted: its lines come back wherever they stand.
            yield from self._compare_anew(head)
            return
        try:
            yield from self._border.delete(self._ids(dead))
            gone = {row.entry_id for row in (*dead, *noted) if not row.is_live}
            yield from self._add(entry for entry in page.entries if entry.id not in gone)
        except LineStoreError:
            # What failed may have been written all the same.
            yield from self._yield_to_other(page, rows)
            raise
        moved = replace(new, cursor=page.cursor, until_ms=_lease_end())
        if (yield from self._ledger.commit(moved)) is None:
            yield from self._yield_to_other(page, rows)

    def _yield_to_other(self, page: Changes, rows: Sequence[VectorRow]) -> Steps[None]:
        """Take back what another process, which was faster, knows to be forgotten."""
        head = yield from self._ledger.head()
        if head.generation == page.generation:
            return
        there: set[str] = set()
        for number in sorted({head.chunk_of(row.position) for row in rows}):
            chunk = yield from self._ledger.chunk(head, number)
            there |= {row.entry_id for row in chunk if row.is_live}
        stale = [row for row in rows if row.entry_id not in there]
        yield from self._border.delete(self._ids(stale))

    def _add(self, entries: Iterable[Entry]) -> Steps[None]:
        documents = [document for entry in entries for document in documents_of(self._owner, entry)]
        yield from self._border.upsert(documents)

    def _ids(self, rows: Iterable[VectorRow]) -> list[str]:
        return [one for row in rows for one in document_ids(self._owner, row)]

    # -- after a forget, or a redo -----------------------------------------------------------

    def _compare_anew(self, old: Head) -> Steps[None]:
        """Make ledger and store equal to what the log still holds of what the ledger knows."""
        new = replace(old, cursor=0, firsts=(), epoch=new_ulid())
        try:
            equal = yield from self._made_equal(old, new)
        except ConvMemError:
            yield from self._ledger.drop(new)
            raise
        committed = None
        if equal is not None:
            committed = yield from self._ledger.commit(replace(equal, until_ms=_lease_end()))
        yield from self._ledger.drop(new if committed is None else old)

    def _made_equal(self, old: Head, new: Head) -> Steps[Head | None]:
        """Return the head to commit; None if the log forgot again meanwhile."""
        generation, dead = yield from self._all_retracted()
        rows = _OldRows(self._ledger, old)
        while True:
            page, before = yield from self._known_page(new.cursor, rows)
            if page.generation != generation:
                return None
            kept = yield from self._make_equal(page.entries, before, dead, old.cursor)
            if not kept:
                return replace(new, generation=generation)
            new = yield from self._ledger.rewrite(new, kept)
            new = replace(new, cursor=page.cursor)

    def _known_page(self, cursor: int, rows: _OldRows) -> Steps[tuple[Changes, list[VectorRow]]]:
        """Return the next entries that the ledger knows, and its rows up to the last of them.

        What it does not know is left for later: nothing is written before it is noted.
        """
        page: Changes = yield step(self._log, "changes", self._owner, cursor, limit=CHUNK)
        last = page.entries[-1].position if page.entries else None
        before = yield from rows.until(last)
        known = {row.entry_id for row in before}
        count = next((n for n, e in enumerate(page.entries) if e.id not in known), None)
        if count is None:
            return page, before
        before += yield from rows.until(None)
        if not count:
            return replace(page, entries=()), before
        page = yield step(self._log, "changes", self._owner, cursor, limit=count)
        return page, before

    def _all_retracted(self) -> Steps[tuple[int, frozenset[str]]]:
        """Return the log's generation, and what all its controls together retract."""
        controls: list[Entry] = []
        cursor = 0
        while True:
            page: Changes = yield step(self._log, "changes", self._owner, cursor, limit=_PAGE)
            if not page.entries:
                return page.generation, retracted_ids(controls)
            controls += [entry for entry in page.entries if entry.control is not None]
            cursor = page.cursor

    def _make_equal(
        self,
        entries: Sequence[Entry],
        before: Sequence[VectorRow],
        dead: frozenset[str],
        cursor: int,
    ) -> Steps[list[VectorRow]]:
        """Delete and add what differs in a stretch of the log; return its rows."""
        rows = [VectorRow.of(entry) for entry in entries]
        rows = [row.retracted() if row.entry_id in dead else row for row in rows]
        said = {row.entry_id for row in rows if row.is_said}
        yield from self._border.delete(self._ids(r for r in before if r.entry_id not in said))
        # A row that the cursor has not passed tells of an attempt, not of a document.
        there = {row.entry_id for row in before if row.is_said and row.position <= cursor}
        yield from self._add(entry for entry in entries if entry.id in said - there)
        return rows


class _OldRows:
    """The rows of a ledger in order, chunk by chunk."""

    def __init__(self, ledger: Ledger, head: Head) -> None:
        self._ledger = ledger
        self._head = head
        self._next = 0
        self._ended = False
        self._rows: list[VectorRow] = []

    def until(self, position: int | None) -> Steps[list[VectorRow]]:
        """Return the next rows up to a position, itself included; None is all that are left."""
        while not self._ended and (
            position is None or not self._rows or self._rows[-1].position <= position
        ):
            # Chunks that the head does not know were noted by an attempt that did not end.
            fresh = yield from self._ledger.chunk(self._head, self._next)
            self._next += 1
            self._rows += fresh
            self._ended = not fresh
        taken = [row for row in self._rows if position is None or row.position <= position]
        self._rows = self._rows[len(taken) :]
        return taken


def _lease_end() -> int:
    return now_ms() + _LEASE_MS


def _retracted_by(entries: Sequence[Entry]) -> set[str]:
    """Return what the controls of a page retract, whether or not they count themselves."""
    controls = (entry.control for entry in entries)
    return {one for control in controls if control is not None for one in control.retracts}


# -- What a vector store was given, noted in the log's own state documents ------------------------


CHUNK = 128


"""Rows of one state document; some 10 KB of JSON, which every log keeps in one item."""


_HEAD = "head"


@dataclass(frozen=True, slots=True)
class Head:
    """How far a store has followed the log of one owner.

    Attributes:
        cursor: Up to where the log was read.
        generation: Of the log then; None before the first time.
        fingerprint: Of the embedder and the cut that the store's vectors were made with.
        epoch: Names the chunks; another one whenever everything was compared anew.
        firsts: The first position of each chunk, ascending.
        holder: Who writes to the store; empty if nobody does.
        until_ms: When others may take over from a holder who is not heard of any more.
        version: Of the document; None if there is none.
    """

    cursor: int = 0
    generation: int | None = None
    fingerprint: str = ""
    epoch: str = ""
    firsts: tuple[int, ...] = field(default=())
    holder: str = ""
    until_ms: int = 0
    version: int | None = None

    def chunk_of(self, position: int) -> int:
        """Return the number of the chunk where a position is noted, if it is."""
        return bisect_right(self.firsts, position) - 1

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "cursor": self.cursor,
            "generation": self.generation,
            "fingerprint": self.fingerprint,
            "epoch": self.epoch,
            "firsts": [*self.firsts],
            "holder": self.holder,
            "until_ms": self.until_ms,
        }


class Ledger:
    """The notes about one owner in one store. Stateless: everything is read when asked for."""

    def __init__(self, state: ThreadState, owner: Owner, name: str) -> None:
        """Name the ledger of `owner` for the store called `name`; nothing is read yet."""
        digest = hashlib.sha256(f"{name}\n{owner_label(owner)}".encode()).hexdigest()
        self._state = state
        self._key = ThreadKey(None, f"convmem-vector-store:{digest}")

    # -- head --------------------------------------------------------------------------------

    def head(self) -> Steps[Head]:
        """Return the head; an empty one before the first time."""
        found = yield step(self._state, "get_state", self._key, _HEAD)
        if found is None:
            return Head()
        fields = {**found.value, "firsts": tuple(found.value["firsts"])}
        return Head(**fields, version=found.version)

    def commit(self, head: Head) -> Steps[Head | None]:
        """Write a head over the version it was read as; None if another process was faster."""
        written = yield step(
            self._state, "set_state", self._key, _HEAD, head.to_json(), expected=head.version
        )
        return None if written is None else replace(head, version=written.version)

    # -- chunks ------------------------------------------------------------------------------

    def chunk(self, head: Head, number: int) -> Steps[list[VectorRow]]:
        """Return the rows of a chunk by ascending position; none outside the ledger."""
        if number < 0:
            return []
        rows, _ = yield from self._read(_name(head.epoch, number))
        return rows

    def _read(self, name: str) -> Steps[tuple[list[VectorRow], int | None]]:
        found = yield step(self._state, "get_state", self._key, name)
        if found is None:
            return [], None
        return [VectorRow.from_json(value) for value in found.value], found.version

    def _write(self, name: str, rows: Sequence[VectorRow], version: int | None) -> Steps[bool]:
        value = [row.to_json() for row in rows]
        written = yield step(self._state, "set_state", self._key, name, value, expected=version)
        return written is not None

    def append(self, head: Head, rows: Sequence[VectorRow]) -> Steps[tuple[Head, list[VectorRow]]]:
        """Note rows behind those that are there; return the head to commit and them as noted.

        Rows that are noted already, by an attempt that did not end, stay as they are.
        """
        number = max(len(head.firsts) - 1, 0)
        firsts = list(head.firsts)
        noted: list[VectorRow] = []
        left = list(rows)
        while left:
            taken, first = yield from self._fill(_name(head.epoch, number), left)
            noted += taken
            left = left[len(taken) :]
            if number == len(firsts):
                firsts.append(first)
            number += 1
        return replace(head, firsts=tuple(firsts)), noted

    def _fill(self, name: str, rows: Sequence[VectorRow]) -> Steps[tuple[list[VectorRow], int]]:
        """Note what a chunk has room for; return those rows as noted, and its first position."""
        while True:
            there, version = yield from self._read(name)
            known = {row.entry_id: row for row in there}
            taken: list[VectorRow] = []
            fresh: list[VectorRow] = []
            for row in rows:
                if row.entry_id not in known:
                    if len(there) + len(fresh) >= CHUNK:
                        break
                    fresh.append(row)
                taken.append(known.get(row.entry_id, row))
            whole = [*there, *fresh]
            done = not fresh or (yield from self._write(name, whole, version))
            if done:
                return taken, whole[0].position

    def retract(self, head: Head, entry_ids: Collection[str]) -> Steps[list[VectorRow]]:
        """Note that entries are retracted; return their rows, those noted before included."""
        wanted = set(entry_ids)
        found: list[VectorRow] = []
        # What is retracted was mostly said a moment ago.
        for number in reversed(range(len(head.firsts))):
            if not wanted:
                break
            rows = yield from self._retract_in(_name(head.epoch, number), wanted)
            found += rows
            wanted -= {row.entry_id for row in rows}
        return found

    def _retract_in(self, name: str, entry_ids: set[str]) -> Steps[list[VectorRow]]:
        while True:
            there, version = yield from self._read(name)
            found = [row.retracted() for row in there if row.entry_id in entry_ids]
            live = any(row.is_live and row.entry_id in entry_ids for row in there)
            new = [row.retracted() if row.entry_id in entry_ids else row for row in there]
            if not live or (yield from self._write(name, new, version)):
                return found

    # -- comparing anew ----------------------------------------------------------------------

    def rewrite(self, head: Head, rows: Sequence[VectorRow]) -> Steps[Head]:
        """Write rows as the next chunk of a head of a new epoch."""
        yield from self._write(_name(head.epoch, len(head.firsts)), rows, None)
        return replace(head, firsts=(*head.firsts, rows[0].position))

    def drop(self, head: Head) -> Steps[None]:
        """Delete the chunks of a head's epoch."""
        number = 0
        while (yield from self.chunk(head, number)):
            yield step(self._state, "delete_state", self._key, _name(head.epoch, number))
            number += 1


def _name(epoch: str, number: int) -> str:
    return f"rows:{epoch}:{number}"


# -- What a vector store holds of one entry, and what is written down about it --------------------


OWNER = "owner"


"""The metadata that every search of an owner's lines filters by."""


THREAD = "thread_id"


"""The metadata that a search of one thread filters by as well."""


_IDS = uuid.UUID("6f1c2d0e-2f0b-5d55-9a5c-3b7c9f0b8d11")


_CONTROL = -1


def safe_text(text: str) -> str:
    """Return an id as every store can keep it: escaped where it would have to be in JSON."""
    return json.dumps(encodable(text), ensure_ascii=False)[1:-1]


def owner_label(owner: Owner) -> str:
    """Return the name of an owner; no two share one."""
    if owner.user_id is None:
        return f"thread:{safe_text(owner.thread_id or '')}"
    return f"user:{safe_text(owner.user_id)}"


@dataclass(frozen=True, slots=True)
class VectorRow:
    """An entry as the ledger of a store notes it.

    Attributes:
        position: Of the entry, unique with its owner.
        entry_id: Of the entry.
        thread_id: Its thread.
        counts: Segments of each of its lines; empty for what nobody said, [-1] for a control.
        is_live: Whether it may be recalled. Entries that were retracted stay noted.
    """

    position: int
    entry_id: str
    thread_id: str
    counts: tuple[int, ...]
    is_live: bool = True

    @classmethod
    def of(cls, entry: Entry) -> VectorRow:
        """Return the row of an entry that nothing retracts."""
        counts: tuple[int, ...] = (_CONTROL,)
        if entry.control is None:
            counts = tuple(len(_segments(line.text)) for line in dialog_lines(entry))
        return cls(entry.position, entry.id, entry.key.thread_id, counts)

    @classmethod
    def from_json(cls, value: list[Any]) -> VectorRow:
        """Return what `to_json` gave."""
        position, entry_id, thread_id, counts, is_live = value
        return cls(position, entry_id, thread_id, tuple(counts), bool(is_live))

    def to_json(self) -> list[Any]:
        """Return the row as a short list of plain values."""
        return [self.position, self.entry_id, self.thread_id, [*self.counts], int(self.is_live)]

    @property
    def is_control(self) -> bool:
        """Whether the entry is a control."""
        return self.counts == (_CONTROL,)

    @property
    def is_said(self) -> bool:
        """Whether the entry has lines that may be recalled."""
        return self.is_live and any(count > 0 for count in self.counts)

    def retracted(self) -> VectorRow:
        """Return the row of the same entry once it is retracted."""
        return replace(self, is_live=False)


def document_ids(owner: Owner, row: VectorRow) -> list[str]:
    """Return the ids of all documents of an entry."""
    return [
        _document_id(owner, row.entry_id, part, segment)
        for part, count in enumerate(row.counts)
        for segment in range(count)
    ]


def _document_id(owner: Owner, entry_id: str, part: int, segment: int) -> str:
    return str(uuid.uuid5(_IDS, f"{owner_label(owner)}\n{entry_id}\n{part}\n{segment}"))


def documents_of(owner: Owner, entry: Entry) -> list[Document]:
    """Return the documents of an entry, in the order of `document_ids`."""
    found = []
    for line in dialog_lines(entry):
        for number, text in enumerate(_segments(line.text)):
            metadata: dict[str, Any] = {
                OWNER: owner_label(owner),
                THREAD: safe_text(line.key.thread_id),
                "entry_id": line.entry_id,
                "position": line.position,
                "part": line.part,
                "segment": number,
                "time": line.time_ms,
            }
            if owner.user_id is not None:
                metadata["user_id"] = safe_text(owner.user_id)
            document_id = _document_id(owner, line.entry_id, line.part, number)
            found.append(Document(id=document_id, page_content=text, metadata=metadata))
    return found


def _segments(text: str) -> list[str]:
    """Return the texts of a line's segments, as a store can keep them."""
    if not text.strip():
        return []
    # No column of text takes a NUL.
    return [encodable(text[start:end]).replace("\x00", " ") for start, end in split_line(text)]


# -- The border to a vector store -----------------------------------------------------------------


_BATCH = 256


_ASYNC_FORMS = {
    "add_documents": ("aadd_documents", "aadd_texts"),
    "delete": ("adelete",),
    "similarity_search_with_score": ("asimilarity_search_with_score",),
}


"""Which methods a store overrides if it has an asynchronous form of its own."""


class Found(NamedTuple):
    """A segment that a store proposes, and the score it gave."""

    entry_id: str
    position: int
    part: int
    segment: int
    score: float


class StoreBorder:
    """Writes to a vector store and searches it; as thread-safe as the store."""

    def __init__(self, store: VectorStore, dialect: StoreDialect) -> None:
        """Use a store; nothing is sent yet."""
        self._store = store
        self._dialect = dialect

    def upsert(self, documents: Sequence[Document]) -> Steps[None]:
        """Write documents under their ids, over those that are there."""
        for start in range(0, len(documents), _BATCH):
            batch = list(documents[start : start + _BATCH])
            ids = [document.id for document in batch]
            yield from self._call("lines could not be stored", "add_documents", batch, ids=ids)

    def delete(self, ids: Sequence[str]) -> Steps[None]:
        """Delete documents; those that are not there are skipped."""
        for start in range(0, len(ids), _BATCH):
            batch = list(ids[start : start + _BATCH])
            yield from self._call("lines could not be deleted", "delete", batch)

    def search(self, text: str, k: int, owner: str, thread: str | None) -> Steps[list[Found]]:
        """Return the k nearest segments of an owner, nearest first; fewer where there are fewer.

        Raises:
            LineStoreError: If the store cannot be searched.
            ConfigError: If it answers with documents that the filter excludes.
        """
        equal = {OWNER: owner} if thread is None else {OWNER: owner, THREAD: thread}
        answer = yield from self._call(
            "lines could not be searched",
            "similarity_search_with_score",
            text,
            k=k,
            **self._dialect.filtered(equal),
        )
        for document, _ in answer:
            if any(document.metadata.get(name) != value for name, value in equal.items()):
                self._refuse(equal)
        found = (_found(document, score) for document, score in answer)
        return [one for one in found if one is not None]

    def _refuse(self, equal: dict[str, str]) -> None:
        msg = (
            f"{type(self._store).__name__} answered with documents beside the filter {equal!r}: "
            "pass a StoreDialect whose `filtered` gives the arguments that this store filters by"
        )
        raise ConfigError(msg)

    def _call(self, what: str, name: str, *args: Any, **kwargs: Any) -> Steps[Any]:
        call = partial(getattr(self._store, name), *args, **kwargs)
        acall = partial(in_worker, call)
        if self._is_async(name):
            acall = partial(getattr(self._store, "a" + name), *args, **kwargs)
        try:
            return (yield Step(call, acall))
        except Exception as error:
            msg = f"{what}: {type(self._store).__name__}: {type(error).__name__}: {error}"
            raise LineStoreError(msg) from error

    def _is_async(self, name: str) -> bool:
        declared = getattr(self._store, "async_mode", None)
        if isinstance(declared, bool):
            return declared
        # LangChain's own twins take the loop's executor, which may be full of turns that wait.
        return any(
            getattr(type(self._store), form) is not getattr(VectorStore, form)
            for form in _ASYNC_FORMS[name]
        )


def _found(document: Document, score: Any) -> Found | None:
    """Return what a document says; None if it says nothing that can be followed."""
    said = document.metadata
    try:
        position, part, segment = (int(said[name]) for name in ("position", "part", "segment"))
        found = Found(str(said["entry_id"]), position, part, segment, float(score))
    except (KeyError, TypeError, ValueError):
        return None
    return found if math.isfinite(found.score) else None


# -- How one kind of vector store is asked: its filter, and what its scores mean ------------------


Equal = Mapping[str, str]


def _plain(equal: Equal) -> dict[str, Any]:
    return {"filter": dict(equal)}


@dataclass(frozen=True, slots=True)
class StoreDialect:
    """What differs between vector stores behind one interface.

    Attributes:
        filtered: From the metadata that documents must equal to the keyword arguments of a search
            that finds no others. By default `filter={name: value}`.
        cosine: From the score of a search to the cosine similarity; None where a score is none,
            as in a hybrid search. Then the order of the store counts and nothing else of it.
    """

    filtered: Callable[[Equal], Mapping[str, Any]] = _plain
    cosine: Callable[[float], float] | None = None


def dialect_of(store: VectorStore) -> StoreDialect:
    """Return the dialect of a store: of one that is known, else the plain one.

    Known are LangChain's `InMemoryVectorStore`, `QdrantVectorStore` and `PGVector`.
    """
    kinds = {kind.__name__ for kind in type(store).__mro__}
    if "InMemoryVectorStore" in kinds:
        return StoreDialect(_by_function, _same)
    if "QdrantVectorStore" in kinds:
        return _qdrant(store)
    if "PGVector" in kinds:
        return _pgvector(store)
    return StoreDialect()


def _same(score: float) -> float:
    return score


def _by_function(equal: Equal) -> dict[str, Any]:
    def matches(document: Document) -> bool:
        return all(document.metadata.get(name) == value for name, value in equal.items())

    return {"filter": matches}


def _qdrant(store: Any) -> StoreDialect:
    models = importlib.import_module("qdrant_client.models")

    def filtered(equal: Equal) -> dict[str, Any]:
        conditions = [
            models.FieldCondition(
                key=f"{store.metadata_payload_key}.{name}", match=models.MatchValue(value=value)
            )
            for name, value in equal.items()
        ]
        return {"filter": models.Filter(must=conditions)}

    is_cosine = store.distance == models.Distance.COSINE
    is_dense = getattr(store.retrieval_mode, "value", store.retrieval_mode) == "dense"
    return StoreDialect(filtered, _same if is_cosine and is_dense else None)


def _pgvector(store: Any) -> StoreDialect:
    # The public property gives an SQL comparator, which does not tell its kind.
    strategy = getattr(store, "_distance_strategy", None)
    is_cosine = getattr(strategy, "value", strategy) == "cosine"
    return StoreDialect(_by_operators, _from_distance if is_cosine else None)


def _by_operators(equal: Equal) -> dict[str, Any]:
    return {"filter": {name: {"$eq": value} for name, value in equal.items()}}


def _from_distance(distance: float) -> float:
    return 1.0 - distance
