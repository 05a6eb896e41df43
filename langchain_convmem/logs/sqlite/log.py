"""`SQLiteLog`: a message log in one file, for any number of threads and processes.

Every acknowledged write survives a power loss (WAL with `synchronous=FULL`). Positions are the
table's running numbers: SQLite has one writer at a time, so they are the commit order too.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from langchain_convmem.errors import ConfigError, LogError
from langchain_convmem.ids import now_ms
from langchain_convmem.logs.async_twins import TransactionTwins
from langchain_convmem.logs.rows import (
    changes_of,
    check_ids,
    check_scope,
    check_user,
    entry_of,
    line_changes_of,
    merged,
    state_text,
)
from langchain_convmem.logs.sqlite import reading, segments, writing
from langchain_convmem.logs.sqlite.backup import back_up
from langchain_convmem.logs.sqlite.connections import Connections
from langchain_convmem.logs.sqlite.decoded import DecodedEntries
from langchain_convmem.logs.sqlite.documents import delete_state, get_state, set_state
from langchain_convmem.logs.sqlite.erasing import (
    drop_empty_owner,
    erase_entries,
    erase_threads,
    raise_epoch,
    threads_of,
)
from langchain_convmem.logs.sqlite.owners import keep_positions, owner_of, thread_of
from langchain_convmem.logs.sqlite.verifying import VerifyReport, verified
from langchain_convmem.logs.sqlite.waiting import WaitingSegments
from langchain_convmem.protocols import Stretch
from langchain_convmem.records import (
    CacheDraft,
    Changes,
    Draft,
    Entry,
    ForgetReceipt,
    LineChanges,
    Owner,
    StateDocument,
    StoredSegment,
    ThreadInfo,
    ThreadKey,
)
from langchain_convmem.views.codec import loads

__all__ = ["SQLiteLog"]

Progress = Callable[[int, int], None]

_log = logging.getLogger("langchain_convmem")

_DELETED_AT_ONCE = 5000
_WAITING_AT_ONCE = 64
"""Segments that may wait for the next write, and be lost if the process ends before."""


class SQLiteLog(TransactionTwins):
    """A message log in a SQLite file; created on first use.

    Safe to share between threads, and to open several times in several processes.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open or create the file.

        Args:
            path: A file in a directory that exists.

        Raises:
            ConfigError: If the path is empty, `:memory:`, a directory or in none.
            SchemaVersionError: If a newer release or another program wrote the file.
            LogError: If the file is no SQLite database, or cannot be opened.
        """
        name = os.fspath(path)
        if not name or name == ":memory:" or "\0" in name:
            raise ConfigError(f"SQLiteLog needs a file, got {path!r}; InMemoryLog() needs none")
        self.path = Path(name).absolute()
        if not self.path.parent.is_dir():
            raise ConfigError(f"there is no directory {self.path.parent}; create it first")
        if self.path.is_dir():
            raise ConfigError(f"{self.path} is a directory; name a file in it")
        self._connections = Connections(self.path)
        self._decoded = DecodedEntries()
        self._waiting = WaitingSegments()
        with self._connections.read():
            pass  # a file that cannot be used is refused here, not at the first message

    def __repr__(self) -> str:
        return f"SQLiteLog({str(self.path)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; later calls raise `LogClosedError`. Idempotent."""
        if self._waiting and not self._connections.is_closed:
            try:
                self._write_waiting()
            except LogError as error:
                _log.warning("terms and vectors could not be stored: %s", error)
        self._connections.close()
        self._decoded.clear()
        self._stop_worker()

    # -- writing --------------------------------------------------------------------------------

    def append(
        self, key: ThreadKey, drafts: Sequence[Draft], *, relaxed: bool = False
    ) -> list[Entry]:
        """Append all drafts in one transaction; see `MessageLog.append`."""
        batch = writing.encoded(drafts)
        self._connections.check_open()
        if not batch:
            return []
        with self._connections.write(relaxed=relaxed) as db:
            written = writing.append(db, key, batch)
            self._waiting.write(db)
        return [writing.entry_of_written(key, one) for one in written]

    def append_planned(
        self,
        key: ThreadKey,
        plan: Callable[[Sequence[Entry]], Sequence[Draft]],
        *,
        after: int,
        message_ids: Collection[str] = (),
        documents: Sequence[CacheDraft] = (),
    ) -> list[Entry]:
        """Read, plan and append in one transaction; see `ThreadTransactions.append_planned`."""
        check_ids(message_ids)
        caches = [(one, state_text(one.value)) for one in documents]
        with self._connections.write() as db:
            rows = reading.entries(db, key, after=after, until=None, last=None)
            found = reading.find(db, key, message_ids)
            there = merged(*([entry_of(key, row) for row in some] for some in (found, rows)))
            batch = writing.encoded(plan(there))
            written = writing.append(db, key, batch) if batch else []
            for cache, text in caches:
                set_state(db, key, cache.name, text, expected=cache.expected)
            self._waiting.write(db)
        return [writing.entry_of_written(key, one) for one in written]

    def annotate(
        self,
        key: ThreadKey,
        entry_id: str,
        *,
        attributes: Sequence[str] = (),
        timing: Mapping[str, int] | None = None,
        aux: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Add to an entry's metadata, durably; see `MessageLog.annotate`."""
        with self._connections.write() as db:
            row = writing.annotate(db, key, entry_id, attributes=attributes, timing=timing, aux=aux)
        return entry_of(key, row)

    # -- reading --------------------------------------------------------------------------------

    def entries(
        self,
        key: ThreadKey,
        *,
        after: int = 0,
        until: int | None = None,
        last: int | None = None,
    ) -> list[Entry]:
        """Return entries in order of position; see `MessageLog.entries`."""
        with self._connections.read() as db:
            rows = reading.entries(db, key, after=after, until=until, last=last)
        return [entry_of(key, row) for row in rows]

    def find(self, key: ThreadKey, message_ids: Collection[str]) -> list[Entry]:
        """Return the entries with these message ids; see `MessageLog.find`."""
        check_ids(message_ids)
        with self._connections.read() as db:
            rows = reading.find(db, key, message_ids)
        return [entry_of(key, row) for row in rows]

    def read_thread(
        self,
        key: ThreadKey,
        name: str,
        stretches: Callable[[StateDocument | None], Sequence[Stretch]],
    ) -> tuple[StateDocument | None, list[Entry]]:
        """Return a document and entries; see `ThreadTransactions.read_thread`."""
        with self._connections.read() as db:
            document = get_state(db, key, name)
            found = reading.columns_of(db, key, stretches(document))
            epoch = reading.forget_epoch(db)
        return document, self._decoded.of(key, found, epoch)

    def threads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return a user's threads, latest first; see `MessageLog.threads`."""
        check_user(user_id)
        with self._connections.read() as db:
            return reading.threads(db, user_id)

    def owners(self) -> list[Owner]:
        """Return every user and every thread of no user that has entries."""
        with self._connections.read() as db:
            return reading.owners(db)

    async def aowners(self) -> list[Owner]:
        """Return the owners, without blocking the event loop."""
        return await self._off_loop(self.owners)

    def changes(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return entries behind the cursor in commit order; see `MessageLog.changes`."""
        with self._connections.read() as db:
            found = reading.later(db, owner, cursor, limit=limit)
        return changes_of(reading.keyed(owner, found), cursor, found.generation)

    def line_changes(
        self, owner: Owner, cursor: int = 0, *, limit: int | None = None
    ) -> LineChanges:
        """Return lines behind the cursor in commit order; see `LineSource.line_changes`."""
        with self._connections.read() as db:
            found = reading.later(db, owner, cursor, limit=limit)
        return line_changes_of(reading.keyed(owner, found), cursor, found.generation, limit)

    # -- erasing --------------------------------------------------------------------------------

    def forget(
        self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None = None
    ) -> ForgetReceipt:
        """Erase an owner, a thread or some of its entries; see `MessageLog.forget`.

        The freed space is overwritten and the write-ahead log folded in.
        """
        check_scope(scope, entry_ids)
        with self._connections.write() as db:
            self._waiting.write(db)
            owner = scope.owner if isinstance(scope, ThreadKey) else scope
            number, _ = owner_of(db, owner)
            keep_positions(db)
            raise_epoch(db, number)
            if isinstance(scope, Owner):
                counts = erase_threads(db, threads_of(db, number))
            elif entry_ids is None:
                thread = thread_of(db, scope)
                counts = erase_threads(db, [] if thread is None else [thread])
            else:
                counts = erase_entries(db, thread_of(db, scope), entry_ids)
            drop_empty_owner(db, number)
        self._decoded.clear()
        self._connections.checkpoint()
        return replace(counts, at_ms=now_ms())

    # -- state documents ------------------------------------------------------------------------

    def get_state(self, key: ThreadKey, name: str) -> StateDocument | None:
        """Return the document, or None."""
        with self._connections.read() as db:
            return get_state(db, key, name)

    def set_state(
        self, key: ThreadKey, name: str, value: Any, *, expected: int | None
    ) -> StateDocument | None:
        """Write the document if its version is `expected`; see `ThreadState.set_state`."""
        text = state_text(value)
        with self._connections.write() as db:
            version = set_state(db, key, name, text, expected=expected)
        return None if version is None else StateDocument(loads(text), version)

    def delete_state(self, key: ThreadKey, name: str) -> None:
        """Delete the document if there is one."""
        with self._connections.write() as db:
            delete_state(db, key, name)

    # -- segments -------------------------------------------------------------------------------

    def load_segments(
        self, owner: Owner, fingerprint: str, *, after: int = 0
    ) -> list[StoredSegment]:
        """Return the owner's rows, in order; see `SegmentCache.load_segments`."""
        with self._connections.read() as db:
            found = segments.load_segments(db, owner_of(db, owner)[0], fingerprint, after)
        return self._waiting.added_to(found, owner, fingerprint, after)

    def save_segments(self, owner: Owner, fingerprint: str, rows: Iterable[StoredSegment]) -> None:
        """Add or overwrite rows; see `SegmentCache.save_segments`.

        They can be made again, so the disk is not waited for.
        """
        with self._connections.write(relaxed=True) as db:
            self._waiting.write(db)
            segments.save_segments(db, owner_of(db, owner)[0], fingerprint, rows)

    def keep_segments(self, owner: Owner, fingerprint: str, rows: Iterable[StoredSegment]) -> None:
        """Have rows written with what is written next; see `SegmentBuffer.keep_segments`."""
        self._connections.check_open()
        self._waiting.put(owner, fingerprint, rows)
        if len(self._waiting) > _WAITING_AT_ONCE:
            self._write_waiting()

    def _write_waiting(self) -> None:
        if self._waiting:
            with self._connections.write(relaxed=True) as db:
                self._waiting.write(db)

    def segment_fingerprints(self, owner: Owner) -> list[str]:
        """Return under which names there are vectors; see `SegmentCache.segment_fingerprints`."""
        self._write_waiting()
        with self._connections.read() as db:
            return segments.segment_fingerprints(db, owner_of(db, owner)[0])

    def delete_segments(self, owner: Owner, fingerprint: str) -> int:
        """Delete rows, some thousands per transaction; see `SegmentCache.delete_segments`."""
        self._write_waiting()
        deleted = 0
        while True:
            with self._connections.write(relaxed=True) as db:
                number = owner_of(db, owner)[0]
                gone = segments.delete_segments(db, number, fingerprint, most=_DELETED_AT_ONCE)
            deleted += gone
            if gone < _DELETED_AT_ONCE:
                return deleted

    # -- the whole file -------------------------------------------------------------------------

    def verify(self, *, progress: Progress | None = None) -> VerifyReport:
        """Check the file from end to end: what SQLite knows of it, and what a log must hold.

        Every page and every row is read, in constant memory and from one state of the file. Others
        may go on writing; a `forget` waits for the end, as it does for any reader. Nothing is
        changed and no message text is shown.

        Args:
            progress: Called with the rows checked so far and the rows there are.

        Returns:
            Counts, and a sentence for each problem; `ok` if there is none.

        Raises:
            LogError: If the file is so damaged that it cannot even be opened.
        """
        return verified(self._connections, progress)

    async def averify(self, *, progress: Progress | None = None) -> VerifyReport:
        """Check the file, without blocking the event loop or this log's other calls.

        `progress` is called in another thread.
        """
        return await asyncio.to_thread(self.verify, progress=progress)

    def backup(self, path: str | os.PathLike[str], *, progress: Progress | None = None) -> None:
        """Copy the log into a new file while it is in use.

        The copy holds all that was committed before the call, from one state of the file. It has
        its name only when it is whole and on the disk, and only its owner may read it. Others may
        go on writing; a `forget` waits for the end, as it does for any reader. What is forgotten
        later stays in the copy: delete the copies that hold it too.

        To restore, open the copy: `SQLiteLog(path)`. To put it in the place of the log, close the
        log everywhere, delete its file together with those named like it that end in `-wal` and
        `-shm`, and rename the copy.

        Args:
            path: A file that does not exist, in a directory that does.
            progress: Called with the pages copied so far and the pages there are.

        Raises:
            ConfigError: If the file exists, or its directory does not; nothing was written.
            LogError: If the log cannot be read or the copy not be written; nothing is left of it.
        """
        back_up(self._connections, Path(os.fspath(path)).absolute(), progress)

    async def abackup(
        self, path: str | os.PathLike[str], *, progress: Progress | None = None
    ) -> None:
        """Copy the log, without blocking the event loop or this log's other calls.

        `progress` is called in another thread.
        """
        await asyncio.to_thread(self.backup, path, progress=progress)
