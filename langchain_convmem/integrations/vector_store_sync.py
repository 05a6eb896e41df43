"""Keeps what a vector store holds of one owner equal to the log.

The order of the writes makes every step repeatable: first the ledger notes what will be written,
then the store is changed, then the cursor advances. An interrupted step is repeated.
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

from langchain_convmem.causes import ErrorTrap
from langchain_convmem.effects import Effect, Steps, perform
from langchain_convmem.errors import ConfigError, ConvMemError, LineStoreError, LogError
from langchain_convmem.ids import get_now_ms, make_ulid
from langchain_convmem.protocols import MessageLog, ThreadState
from langchain_convmem.recall.embedding import replace_surrogates
from langchain_convmem.recall.segments import split_line
from langchain_convmem.records import Changes, DialogLine, Entry, Owner, Scalar, ThreadKey
from langchain_convmem.views.lines import make_dialog_lines
from langchain_convmem.views.live import find_retracted_ids
from langchain_convmem.workers import run_in_worker

Progress = Callable[[int, int], None]


_PAGE = 256


_LEASE_MS = 60_000


class Synchronizer:
    """Brings one owner's documents up to date. Stateless but for its arguments."""

    def __init__(
        self,
        log: MessageLog,
        border: SafeStore,
        ledger: StoreLedger,
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
                owner's lines; the next call resumes there.
            ConfigError: If the store's vectors were made by another embedder.
        """
        try:
            yield from self._follow_to_the_end(progress)
        except ConvMemError:
            with suppress(LogError):
                yield from self._release((yield from self._ledger.read_head()))
            raise

    def _follow_to_the_end(self, progress: Progress | None) -> Steps[None]:
        done = 0
        while True:
            head = yield from self._check_head()
            page: Changes = yield from perform(
                self._log.changes, self._log.achanges, self._owner, head.cursor, limit=_PAGE
            )
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

    def _take(self, head: LedgerHead, generation: int) -> Steps[None]:
        """Become the one who writes, unless another does; only a faster one may prevent it.

        Writes that overtake each other could leave in the store what the log has forgotten.
        """
        if head.holder and get_now_ms() < head.until_ms:
            msg = "another server is writing lines of this owner to the vector store; try again"
            raise LineStoreError(msg)
        # The generation is noted before anything is written, so that no forget is overlooked.
        known = generation if head.generation is None else head.generation
        taken = replace(head, generation=known, holder=self._writer, until_ms=_compute_lease_end())
        yield from self._ledger.commit(taken)

    def _release(self, head: LedgerHead) -> Steps[None]:
        if head.holder == self._writer:
            yield from self._ledger.commit(replace(head, holder="", until_ms=0))

    def start_over(self) -> Steps[None]:
        """Treat the store as empty after deleting what the log has forgotten."""
        yield from self.catch_up()
        old = yield from self._check_head()
        new = replace(old, cursor=0, firsts=(), epoch=make_ulid())
        if (yield from self._ledger.commit(new)) is not None:
            yield from self._ledger.drop(old)

    def _check_head(self) -> Steps[LedgerHead]:
        head = yield from self._ledger.read_head()
        if head.generation is not None and head.fingerprint != self._fingerprint:
            msg = (
                "the lines in the vector store were embedded as "
                f"{head.fingerprint!r}, now they would be as {self._fingerprint!r}: use a new "
                "collection, and another `name` for it"
            )
            raise ConfigError(msg)
        return replace(head, fingerprint=self._fingerprint)

    # -- New entries -------------------------------------------------------------------------

    def _follow(self, head: LedgerHead, page: Changes) -> Steps[None]:
        """Take a page of the log into ledger and store, and move the cursor after it."""
        rows = [LedgerRow.from_entry(entry) for entry in page.entries]
        new, noted = yield from self._ledger.append(head, rows)
        dead = yield from self._ledger.retract(new, _collect_retracted(page.entries))
        if any(row.is_control for row in dead):
            # A retraction was itself retracted: its lines come back wherever they stand.
            yield from self._compare_anew(head)
            return
        try:
            yield from self._border.delete(self._list_ids(dead))
            gone = {row.entry_id for row in (*dead, *noted) if not row.is_live}
            yield from self._add(entry for entry in page.entries if entry.id not in gone)
        except LineStoreError:
            # What failed may have been written all the same.
            yield from self._yield_to_other(page, rows)
            raise
        moved = replace(new, cursor=page.cursor, until_ms=_compute_lease_end())
        if (yield from self._ledger.commit(moved)) is None:
            yield from self._yield_to_other(page, rows)

    def _yield_to_other(self, page: Changes, rows: Sequence[LedgerRow]) -> Steps[None]:
        """Take back what another process, which was faster, knows to be forgotten."""
        head = yield from self._ledger.read_head()
        if head.generation == page.generation:
            return
        there: set[str] = set()
        for number in sorted({head.find_chunk(row.position) for row in rows}):
            chunk = yield from self._ledger.read_chunk(head, number)
            there |= {row.entry_id for row in chunk if row.is_live}
        stale = [row for row in rows if row.entry_id not in there]
        yield from self._border.delete(self._list_ids(stale))

    def _add(self, entries: Iterable[Entry]) -> Steps[None]:
        documents = [
            document for entry in entries for document in make_documents(self._owner, entry)
        ]
        yield from self._border.upsert(documents)

    def _list_ids(self, rows: Iterable[LedgerRow]) -> list[str]:
        return [one for row in rows for one in list_document_ids(self._owner, row)]

    # -- After a forget, or a redo -----------------------------------------------------------

    def _compare_anew(self, old: LedgerHead) -> Steps[None]:
        """Make ledger and store equal to what the log still holds of what the ledger knows."""
        new = replace(old, cursor=0, firsts=(), epoch=make_ulid())
        try:
            equal = yield from self._make_all_equal(old, new)
        except ConvMemError:
            yield from self._ledger.drop(new)
            raise
        committed = None
        if equal is not None:
            committed = yield from self._ledger.commit(
                replace(equal, until_ms=_compute_lease_end())
            )
        yield from self._ledger.drop(new if committed is None else old)

    def _make_all_equal(self, old: LedgerHead, new: LedgerHead) -> Steps[LedgerHead | None]:
        """Return the head to commit; None if the log forgot again meanwhile."""
        generation, dead = yield from self._find_all_retracted()
        rows = _RowReader(self._ledger, old)
        while True:
            page, before = yield from self._read_known_page(new.cursor, rows)
            if page.generation != generation:
                return None
            kept = yield from self._make_equal(page.entries, before, dead, old.cursor)
            if not kept:
                return replace(new, generation=generation)
            new = yield from self._ledger.rewrite(new, kept)
            new = replace(new, cursor=page.cursor)

    def _read_known_page(
        self, cursor: int, rows: _RowReader
    ) -> Steps[tuple[Changes, list[LedgerRow]]]:
        """Return the next entries that the ledger knows, and its rows up to the last of them.

        What it does not know is left for later: nothing is written before it is noted.
        """
        page: Changes = yield from perform(
            self._log.changes, self._log.achanges, self._owner, cursor, limit=CHUNK
        )
        last = page.entries[-1].position if page.entries else None
        before = yield from rows.read_until(last)
        known = {row.entry_id for row in before}
        count = next((n for n, e in enumerate(page.entries) if e.id not in known), None)
        if count is None:
            return page, before
        before += yield from rows.read_until(None)
        if not count:
            return replace(page, entries=()), before
        page = yield from perform(
            self._log.changes, self._log.achanges, self._owner, cursor, limit=count
        )
        return page, before

    def _find_all_retracted(self) -> Steps[tuple[int, frozenset[str]]]:
        """Return the log's generation, and what all its controls together retract."""
        controls: list[Entry] = []
        cursor = 0
        while True:
            page: Changes = yield from perform(
                self._log.changes, self._log.achanges, self._owner, cursor, limit=_PAGE
            )
            if not page.entries:
                return page.generation, find_retracted_ids(controls)
            controls += [entry for entry in page.entries if entry.control is not None]
            cursor = page.cursor

    def _make_equal(
        self,
        entries: Sequence[Entry],
        before: Sequence[LedgerRow],
        dead: frozenset[str],
        cursor: int,
    ) -> Steps[list[LedgerRow]]:
        """Delete and add what differs in a stretch of the log; return its rows."""
        rows = [LedgerRow.from_entry(entry) for entry in entries]
        rows = [row.mark_retracted() if row.entry_id in dead else row for row in rows]
        said = {row.entry_id for row in rows if row.is_said}
        yield from self._border.delete(self._list_ids(r for r in before if r.entry_id not in said))
        # A row that the cursor has not passed tells of an attempt, not of a document.
        there = {row.entry_id for row in before if row.is_said and row.position <= cursor}
        yield from self._add(entry for entry in entries if entry.id in said - there)
        return rows


class _RowReader:
    """The rows of a ledger in order, chunk by chunk."""

    def __init__(self, ledger: StoreLedger, head: LedgerHead) -> None:
        self._ledger = ledger
        self._head = head
        self._next = 0
        self._ended = False
        self._rows: list[LedgerRow] = []

    def read_until(self, position: int | None) -> Steps[list[LedgerRow]]:
        """Return the next rows up to a position, itself included; None is all that are left."""
        while not self._ended and (
            position is None or not self._rows or self._rows[-1].position <= position
        ):
            # Chunks that the head does not know were noted by an attempt that did not end.
            fresh = yield from self._ledger.read_chunk(self._head, self._next)
            self._next += 1
            self._rows += fresh
            self._ended = not fresh
        taken = [row for row in self._rows if position is None or row.position <= position]
        self._rows = self._rows[len(taken) :]
        return taken


def _compute_lease_end() -> int:
    return get_now_ms() + _LEASE_MS


def _collect_retracted(entries: Sequence[Entry]) -> set[str]:
    """Return what the controls of a page retract, whether or not they count themselves."""
    controls = (entry.control for entry in entries)
    return {one for control in controls if control is not None for one in control.retracts}


# -- What a vector store was given, noted in the log's own state documents ------------------------


CHUNK = 128
"""Rows of one state document; some 10 KB of JSON, which every log keeps in one item."""


_HEAD = "head"


@dataclass(frozen=True, slots=True)
class LedgerHead:
    """How far a store has followed the log of one owner.

    Attributes:
        cursor: Up to where the log was read.
        generation: Of the log then; None before the first time.
        fingerprint: Of the embedder and the cut that the store's vectors were made with.
        epoch: Names the chunks; changes whenever everything is compared again.
        firsts: The first position of each chunk, ascending.
        holder: The current writer; empty if there is none.
        until_ms: When others may take over from an unresponsive holder.
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

    def find_chunk(self, position: int) -> int:
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


class StoreLedger:
    """The ledger of one owner in one store. Stateless: everything is read on demand."""

    def __init__(self, state: ThreadState, owner: Owner, name: str) -> None:
        """Name the ledger of `owner` for the store called `name`; nothing is read yet."""
        digest = hashlib.sha256(f"{name}\n{label_owner(owner)}".encode()).hexdigest()
        self._state = state
        self._key = ThreadKey(None, f"convmem-vector-store:{digest}")

    # -- Head --------------------------------------------------------------------------------

    def read_head(self) -> Steps[LedgerHead]:
        """Return the head; an empty one before the first time."""
        found = yield from perform(self._state.get_state, self._state.aget_state, self._key, _HEAD)
        if found is None:
            return LedgerHead()
        fields = {**found.value, "firsts": tuple(found.value["firsts"])}
        return LedgerHead(**fields, version=found.version)

    def commit(self, head: LedgerHead) -> Steps[LedgerHead | None]:
        """Write a head if its version is unchanged; None if another process was faster."""
        written = yield from perform(
            self._state.set_state,
            self._state.aset_state,
            self._key,
            _HEAD,
            head.to_json(),
            expected=head.version,
        )
        return None if written is None else replace(head, version=written.version)

    # -- Chunks ------------------------------------------------------------------------------

    def read_chunk(self, head: LedgerHead, number: int) -> Steps[list[LedgerRow]]:
        """Return the rows of a chunk by ascending position; none outside the ledger."""
        if number < 0:
            return []
        rows, _ = yield from self._read(_make_key(head.epoch, number))
        return rows

    def _read(self, name: str) -> Steps[tuple[list[LedgerRow], int | None]]:
        found = yield from perform(self._state.get_state, self._state.aget_state, self._key, name)
        if found is None:
            return [], None
        return [LedgerRow.from_json(value) for value in found.value], found.version

    def _write(self, name: str, rows: Sequence[LedgerRow], version: int | None) -> Steps[bool]:
        value = [row.to_json() for row in rows]
        written = yield from perform(
            self._state.set_state, self._state.aset_state, self._key, name, value, expected=version
        )
        return written is not None

    def append(
        self, head: LedgerHead, rows: Sequence[LedgerRow]
    ) -> Steps[tuple[LedgerHead, list[LedgerRow]]]:
        """Note rows after those that are there; return the head to commit and them as noted.

        Rows that are noted already, by an attempt that did not end, stay as they are.
        """
        number = max(len(head.firsts) - 1, 0)
        firsts = list(head.firsts)
        noted: list[LedgerRow] = []
        left = list(rows)
        while left:
            taken, first = yield from self._fill(_make_key(head.epoch, number), left)
            noted += taken
            left = left[len(taken) :]
            if number == len(firsts):
                firsts.append(first)
            number += 1
        return replace(head, firsts=tuple(firsts)), noted

    def _fill(self, name: str, rows: Sequence[LedgerRow]) -> Steps[tuple[list[LedgerRow], int]]:
        """Note what a chunk has room for; return those rows as noted, and its first position."""
        while True:
            there, version = yield from self._read(name)
            known = {row.entry_id: row for row in there}
            taken: list[LedgerRow] = []
            fresh: list[LedgerRow] = []
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

    def retract(self, head: LedgerHead, entry_ids: Collection[str]) -> Steps[list[LedgerRow]]:
        """Note that entries are retracted; return their rows, those noted before included."""
        wanted = set(entry_ids)
        found: list[LedgerRow] = []
        # What is retracted was mostly said a moment ago.
        for number in reversed(range(len(head.firsts))):
            if not wanted:
                break
            rows = yield from self._retract_in(_make_key(head.epoch, number), wanted)
            found += rows
            wanted -= {row.entry_id for row in rows}
        return found

    def _retract_in(self, name: str, entry_ids: set[str]) -> Steps[list[LedgerRow]]:
        while True:
            there, version = yield from self._read(name)
            found = [row.mark_retracted() for row in there if row.entry_id in entry_ids]
            live = any(row.is_live and row.entry_id in entry_ids for row in there)
            new = [row.mark_retracted() if row.entry_id in entry_ids else row for row in there]
            if not live or (yield from self._write(name, new, version)):
                return found

    # -- Comparing anew ----------------------------------------------------------------------

    def rewrite(self, head: LedgerHead, rows: Sequence[LedgerRow]) -> Steps[LedgerHead]:
        """Write rows as the next chunk of a head of a new epoch."""
        yield from self._write(_make_key(head.epoch, len(head.firsts)), rows, None)
        return replace(head, firsts=(*head.firsts, rows[0].position))

    def drop(self, head: LedgerHead) -> Steps[None]:
        """Delete the chunks of a head's epoch."""
        number = 0
        while (yield from self.read_chunk(head, number)):
            yield from perform(
                self._state.delete_state,
                self._state.adelete_state,
                self._key,
                _make_key(head.epoch, number),
            )
            number += 1


def _make_key(epoch: str, number: int) -> str:
    return f"rows:{epoch}:{number}"


# -- What a vector store holds of one entry, and what is written down about it --------------------


OWNER = "owner"
"""The metadata that every search of an owner's lines filters by."""


THREAD = "thread_id"
"""The metadata that a search of one thread filters by as well."""


TIME = "time"
"""The metadata with the time of a line, milliseconds since the epoch."""


_IDS = uuid.UUID("6f1c2d0e-2f0b-5d55-9a5c-3b7c9f0b8d11")


_CONTROL = -1


def escape_text(text: str) -> str:
    """Return an id that every store accepts, with JSON escapes where needed."""
    return json.dumps(replace_surrogates(text), ensure_ascii=False)[1:-1]


def label_owner(owner: Owner) -> str:
    """Return a unique name of an owner."""
    if owner.user_id is None:
        return f"thread:{escape_text(owner.thread_id or '')}"
    return f"user:{escape_text(owner.user_id)}"


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """An entry as the ledger of a store notes it.

    Attributes:
        position: Of the entry, unique with its owner.
        entry_id: Of the entry.
        thread_id: Its thread.
        counts: Number of segments per line; empty without lines, [-1] for a control entry.
        is_live: Whether it may be recalled. Entries that were retracted stay noted.
    """

    position: int
    entry_id: str
    thread_id: str
    counts: tuple[int, ...]
    is_live: bool = True

    @classmethod
    def from_entry(cls, entry: Entry) -> LedgerRow:
        """Return the row of an entry that nothing retracts."""
        counts: tuple[int, ...] = (_CONTROL,)
        if entry.control is None:
            counts = tuple(len(_split_segments(line.text)) for line in make_dialog_lines(entry))
        return cls(entry.position, entry.id, entry.key.thread_id, counts)

    @classmethod
    def from_json(cls, value: list[Any]) -> LedgerRow:
        """Return what `describe_as_json` gave."""
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

    def mark_retracted(self) -> LedgerRow:
        """Return the row of the same entry once it is retracted."""
        return replace(self, is_live=False)


def list_document_ids(owner: Owner, row: LedgerRow) -> list[str]:
    """Return the ids of all documents of an entry."""
    return [
        _make_document_id(owner, row.entry_id, part, segment)
        for part, count in enumerate(row.counts)
        for segment in range(count)
    ]


def _make_document_id(owner: Owner, entry_id: str, part: int, segment: int) -> str:
    return str(uuid.uuid5(_IDS, f"{label_owner(owner)}\n{entry_id}\n{part}\n{segment}"))


def make_documents(owner: Owner, entry: Entry) -> list[Document]:
    """Return the documents of an entry, in the order of `list_document_ids`."""
    return [
        Document(
            id=_make_document_id(owner, line.entry_id, line.part, number),
            page_content=text,
            metadata={**_describe_line(owner, line), "segment": number},
        )
        for line in make_dialog_lines(entry)
        for number, text in enumerate(_split_segments(line.text))
    ]


def _describe_line(owner: Owner, line: DialogLine) -> dict[str, str | int]:
    """Return the metadata of a line: where it stands, and what a recall may filter by."""
    own = {} if owner.user_id is None else {"user_id": escape_text(owner.user_id)}
    marks = {
        "speaker": line.speaker,
        "role": line.role,
        "session": line.session,
        "trust": line.trust,
    }
    return {
        OWNER: label_owner(owner),
        THREAD: escape_text(line.key.thread_id),
        "entry_id": line.entry_id,
        "position": line.position,
        "part": line.part,
        TIME: line.time_ms,
        **own,
        **{name: label_value(value) for name, value in marks.items()},
        **{name_tag_field(name): label_value(value) for name, value in line.tags.items()},
    }


def name_tag_field(name: str) -> str:
    """Return the metadata that holds a tag, in letters that every store takes for a name."""
    is_plain = name.isascii() and name.replace("_", "a").isalnum()
    return f"tag_{name}" if is_plain else f"tagx_{replace_surrogates(name).encode().hex()}"


def label_value(value: Scalar) -> str:
    """Return a value as text that is equal where the value is: stores differ in all but texts."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, str):
        return f"={json.dumps(value)}"
    return f"={escape_text(value)}" if value.startswith("=") else escape_text(value)


def _split_segments(text: str) -> list[str]:
    """Return the texts of a line's segments, as a store can keep them."""
    if not text.strip():
        return []
    # No column of text takes a NUL.
    return [
        replace_surrogates(text[start:end]).replace("\x00", " ") for start, end in split_line(text)
    ]


# -- The border to a vector store -----------------------------------------------------------------


_BATCH = 256


_ASYNC_FORMS = {
    "add_documents": ("aadd_documents", "aadd_texts"),
    "delete": ("adelete",),
    "similarity_search_with_score": ("asimilarity_search_with_score",),
}
"""Which methods a store overrides if it has an asynchronous form of its own."""


class Proposal(NamedTuple):
    """A segment that a store proposes, and the score it gave."""

    owner: str
    """The label of the owner; see `label_owner`."""
    entry_id: str
    position: int
    part: int
    segment: int
    score: float


class SafeStore:
    """Writes to and searches a vector store; as thread-safe as the store."""

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
        """Delete documents; missing ones are skipped."""
        for start in range(0, len(ids), _BATCH):
            batch = list(ids[start : start + _BATCH])
            yield from self._call("lines could not be deleted", "delete", batch)

    def search(self, text: str, k: int, conditions: Conditions) -> Steps[list[Proposal]]:
        """Return the k nearest segments under the conditions, nearest first; fewer if there are.

        Raises:
            LineStoreError: If the store cannot be searched.
            ConfigError: If it answers with documents that the conditions exclude.
        """
        if {"$in": []} in conditions.values():
            return []  # one of nothing
        answer = yield from self._call(
            "lines could not be searched",
            "similarity_search_with_score",
            text,
            k=k,
            **self._dialect.filtered(conditions),
        )
        if not all(match_conditions(document.metadata, conditions) for document, _ in answer):
            msg = (
                f"{type(self._store).__name__} answered with documents beside the filter on "
                f"{', '.join(conditions)}: pass a StoreDialect whose `filtered` gives the "
                "arguments that this store filters by"
            )
            raise ConfigError(msg)
        found = (_read_proposal(document, score) for document, score in answer)
        return [one for one in found if one is not None]

    def _call(self, what: str, name: str, *args: Any, **kwargs: Any) -> Steps[Any]:
        call = partial(getattr(self._store, name), *args, **kwargs)
        acall = partial(run_in_worker, call)
        if self._is_async(name):
            acall = partial(getattr(self._store, "a" + name), *args, **kwargs)
        with ErrorTrap(Exception, texts=_list_texts(args)) as trap:
            return (yield Effect(call, acall))
        msg = f"{what}: {type(self._store).__name__}: {trap.reason}"
        raise LineStoreError(msg) from trap.cause

    def _is_async(self, name: str) -> bool:
        declared = getattr(self._store, "async_mode", None)
        if isinstance(declared, bool):
            return declared
        # LangChain's own twins take the loop's executor, which may be full of turns that wait.
        return any(
            getattr(type(self._store), form) is not getattr(VectorStore, form)
            for form in _ASYNC_FORMS[name]
        )


def _read_proposal(document: Document, score: Any) -> Proposal | None:
    """Return what a document says; None if it says nothing that can be followed."""
    said = document.metadata
    try:
        position, part, segment = (int(said[name]) for name in ("position", "part", "segment"))
        owner, entry_id = str(said[OWNER]), str(said["entry_id"])
        found = Proposal(owner, entry_id, position, part, segment, float(score))
    except (KeyError, TypeError, ValueError):
        return None
    return found if math.isfinite(found.score) else None


# -- How one kind of vector store is asked: its filter, and what its scores mean ------------------


Conditions = Mapping[str, Any]
"""By name of the metadata what it must be: a value, or a map of operators such as `{"$lt": 9}`.

The operators are `$in` with a list of texts of which it must be one, and `$gte` and `$lt` with a
number that it must reach, or stay below.
"""


_OPERATORS = frozenset({"$in", "$gte", "$lt"})


def _filter_plainly(conditions: Conditions) -> dict[str, Any]:
    return {"filter": dict(conditions)}


@dataclass(frozen=True, slots=True)
class StoreDialect:
    """What differs between vector stores, behind one interface.

    Attributes:
        filtered: From what the metadata of documents must be, `{name: value}` or with operators
            `{name: {"$in": [...]}}` and `{name: {"$gte": 1, "$lt": 9}}`, to the keyword arguments
            of a search that finds no others. By default `filter={name: value}`.
        cosine: From the score of a search to the cosine similarity; None where a score is none,
            as in a hybrid search. Then the order of the store counts and nothing else of it.
        operators: Which of `$in`, `$gte` and `$lt` `filtered` takes; by default none. What needs
            another one is refused by name: several owners or several values of a `filter` need
            `$in`, `since` needs `$gte`, and `until` needs `$lt`.

    Raises:
        ConfigError: If there is no such operator.
    """

    filtered: Callable[[Conditions], Mapping[str, Any]] = _filter_plainly
    cosine: Callable[[float], float] | None = None
    operators: Collection[str] = frozenset()

    def __post_init__(self) -> None:
        """Refuse an operator that no search asks for."""
        unknown = sorted(set(self.operators) - _OPERATORS)
        if unknown:
            known = ", ".join(sorted(_OPERATORS))
            raise ConfigError(f"operators must be some of {known}, got {', '.join(unknown)}")


def find_dialect(store: VectorStore) -> StoreDialect:
    """Return the dialect of a known store, else the default one.

    Known are LangChain's `InMemoryVectorStore`, `QdrantVectorStore` and `PGVector`.
    """
    kinds = {kind.__name__ for kind in type(store).__mro__}
    if "InMemoryVectorStore" in kinds:
        return StoreDialect(_filter_by_function, _keep_score, _OPERATORS)
    if "QdrantVectorStore" in kinds:
        return _make_qdrant_dialect(store)
    if "PGVector" in kinds:
        return _make_pgvector_dialect(store)
    return StoreDialect()


def match_conditions(metadata: Mapping[str, Any], conditions: Conditions) -> bool:
    """Return whether the metadata of a document is under the conditions."""
    return all(_is_met(metadata.get(name), wanted) for name, wanted in conditions.items())


def _is_met(value: Any, wanted: Any) -> bool:
    if not isinstance(wanted, Mapping):
        return bool(value == wanted)
    if value is None or ("$in" in wanted and value not in wanted["$in"]):
        return False
    return not (
        ("$gte" in wanted and value < wanted["$gte"])
        or ("$lt" in wanted and value >= wanted["$lt"])
    )


def _keep_score(score: float) -> float:
    return score


def _filter_by_function(conditions: Conditions) -> dict[str, Any]:
    return {"filter": lambda document: match_conditions(document.metadata, conditions)}


def _make_qdrant_dialect(store: Any) -> StoreDialect:
    models = importlib.import_module("qdrant_client.models")

    def make_condition(name: str, wanted: Any) -> Any:
        key = f"{store.metadata_payload_key}.{name}"
        if not isinstance(wanted, Mapping):
            return models.FieldCondition(key=key, match=models.MatchValue(value=wanted))
        if "$in" in wanted:
            return models.FieldCondition(key=key, match=models.MatchAny(any=wanted["$in"]))
        between = models.Range(gte=wanted.get("$gte"), lt=wanted.get("$lt"))
        return models.FieldCondition(key=key, range=between)

    def make_filter(conditions: Conditions) -> dict[str, Any]:
        must = [make_condition(name, wanted) for name, wanted in conditions.items()]
        return {"filter": models.Filter(must=must)}

    is_cosine = store.distance == models.Distance.COSINE
    is_dense = getattr(store.retrieval_mode, "value", store.retrieval_mode) == "dense"
    return StoreDialect(make_filter, _keep_score if is_cosine and is_dense else None, _OPERATORS)


def _make_pgvector_dialect(store: Any) -> StoreDialect:
    # The public property gives an SQL comparator, which does not tell its kind.
    strategy = getattr(store, "_distance_strategy", None)
    is_cosine = getattr(strategy, "value", strategy) == "cosine"
    return StoreDialect(_filter_by_operators, _convert_distance if is_cosine else None, _OPERATORS)


def _filter_by_operators(conditions: Conditions) -> dict[str, Any]:
    each = [
        {name: {operator: value}}
        for name, wanted in conditions.items()
        for operator, value in (wanted if isinstance(wanted, Mapping) else {"$eq": wanted}).items()
    ]
    return {"filter": each[0] if len(each) == 1 else {"$and": each}}


def _convert_distance(distance: float) -> float:
    return 1.0 - distance


def _list_texts(args: Iterable[Any]) -> list[str]:
    """Return the texts among what a store is given: questions, and what documents say."""
    found = []
    for arg in args:
        for one in arg if isinstance(arg, list | tuple) else (arg,):
            if isinstance(one, Document):
                found += [one.page_content, *filter(_is_text, one.metadata.values())]
            elif isinstance(one, str):
                found.append(one)
    return found


def _is_text(value: object) -> bool:
    return isinstance(value, str)
