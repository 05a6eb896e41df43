"""Keeps what a vector store holds of one owner equal to the log.

The order of the writes makes every step repeatable: first the ledger notes what will be written,
then the store is changed, then the cursor moves on. Whatever stops in between is done again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from langchain_convmem.errors import ConfigError, ConvMemError, LineStoreError, LogError
from langchain_convmem.ids import new_ulid, now_ms
from langchain_convmem.integrations.vector_store_border import StoreBorder
from langchain_convmem.integrations.vector_store_ledger import CHUNK, Head, Ledger
from langchain_convmem.integrations.vector_store_rows import Row, document_ids, documents_of
from langchain_convmem.protocols import MessageLog
from langchain_convmem.records import Changes, Entry, Owner
from langchain_convmem.steps import Steps, step
from langchain_convmem.views.live import retracted_ids

__all__ = ["Synchronizer"]

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
        rows = [Row.of(entry) for entry in page.entries]
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

    def _yield_to_other(self, page: Changes, rows: Sequence[Row]) -> Steps[None]:
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

    def _ids(self, rows: Iterable[Row]) -> list[str]:
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

    def _known_page(self, cursor: int, rows: _OldRows) -> Steps[tuple[Changes, list[Row]]]:
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
        self, entries: Sequence[Entry], before: Sequence[Row], dead: frozenset[str], cursor: int
    ) -> Steps[list[Row]]:
        """Delete and add what differs in a stretch of the log; return its rows."""
        rows = [Row.of(entry) for entry in entries]
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
        self._rows: list[Row] = []

    def until(self, position: int | None) -> Steps[list[Row]]:
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
