"""`SQLiteLog`: a message log in one file, for any number of threads and processes.

Every acknowledged write survives a power loss (WAL with `synchronous=FULL`). Positions are the
table's running numbers: SQLite has one writer at a time, so they are the commit order too.

Rows are decoded after the transaction: a long thread takes a while, and until a reader is done the
write-ahead log cannot be folded in.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple

from langchain_convmem.errors import ConfigError, LogError
from langchain_convmem.ids import (
    get_now_ms,
    get_packed_ulid_ms,
    get_ulid_ms,
    is_ulid,
    make_numbered_ulid,
)
from langchain_convmem.logs.base import (
    AppendPlan,
    EncodedDraft,
    Row,
    TransactionTwins,
    annotate_metadata,
    annotate_row,
    build_changes,
    build_line_changes,
    cap_bound,
    check_ids,
    check_scope,
    check_user,
    decode_document,
    decode_entry,
    encode_drafts,
    encode_state,
    hash_message_id,
    list_own_ids,
    make_twin,
    make_version,
    merge_entries,
    note_damage,
    plan_append,
)
from langchain_convmem.logs.signatures import Signer, check_key
from langchain_convmem.logs.sqlite_copies import UnfinishedCopies
from langchain_convmem.logs.sqlite_file import (
    DAMAGED,
    SQLiteConnections,
    find_position,
    has_sound_tables,
    is_garbled,
    read_damaged_name,
    write_row,
)
from langchain_convmem.logs.sqlite_maintenance import VerifyReport, copy_file, verify_file
from langchain_convmem.logs.sqlite_rows import (
    OF_THREAD,
    SQL,
    DecodedEntries,
    find_rows,
    find_thread,
    is_damage,
    name_thread,
    read_controls,
    read_first,
    read_key,
    read_later,
    read_leniently,
    read_named_range,
    read_one,
    read_range,
    read_versions,
)
from langchain_convmem.logs.sqlite_snapshots import (
    SnapshotName,
    delete_snapshots,
    read_snapshot,
    write_snapshot,
)
from langchain_convmem.logs.verification import Progress
from langchain_convmem.protocols import CACHE_PREFIX, Stretch
from langchain_convmem.records import (
    CacheDraft,
    Changes,
    Draft,
    Entry,
    ForgetReceipt,
    IndexSnapshot,
    LineChanges,
    Owner,
    StateDocument,
    StoredSegment,
    ThreadInfo,
    ThreadKey,
)
from langchain_convmem.views.codec import load_json
from langchain_convmem.views.lines import IMPORTED

_log = logging.getLogger("langchain_convmem")

_DELETED_AT_ONCE = 5000
_FILE_BITS = 40
"""Generations of one file; those of the next one that is found under the path lie above."""
_WAITING_AT_ONCE = 64
"""Segments that may wait for the next write, and be lost if the process ends before."""


class SQLiteLog(TransactionTwins):
    """A message log in a SQLite file; created on first use.

    Safe to share between threads, to open several times in several processes, and to go on with
    after a fork. A fork waits for what reads and writes; where it cannot wait long enough, the
    child's calls raise `LogError`.

    Each entry has a checksum: one that was altered or moved behind the log's back is named where it
    is read (`Entry.damage`), and `verify` finds it.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, signing_key: bytes | str | None = None
    ) -> None:
        """Open or create the file.

        Args:
            path: A file in a directory that exists.
            signing_key: A secret of 16 to 64 bytes, kept elsewhere than the file: without it,
                nobody can alter an entry unseen. A file that has entries gets no key any more:
                copy it into a new one.

        Raises:
            ConfigError: If the path is empty, `:memory:`, a directory or in none, or if the file
                was signed with another key than this.
            SchemaVersionError: If another release or another program wrote the file.
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
        self._connections = SQLiteConnections(self.path)
        self._signer = Signer(signing_key)
        self._decoded = DecodedEntries(signer=self._signer)
        self._waiting = WaitingSegments()
        # A file that cannot be used is refused here, not at the first message.
        try:
            self._open_signed()
        except BaseException:
            self._connections.close()
            raise

    def _open_signed(self) -> None:
        """Learn how the file is signed; a new one gets the key.

        Raises:
            ConfigError: If it was signed with another key.
        """
        with self._connections.read() as db:
            # Refused here, not at every call.
            if not has_sound_tables(db):
                raise LogError(f"the schema of the log on {self.path} {DAMAGED}")
            key_id, is_new = _read_key_id(db)
        if self._signer.has_key and is_new and key_id is None:
            with self._connections.write() as db:
                _, is_new = _read_key_id(db)
                if is_new:
                    query = "UPDATE meta SET key_id = ? WHERE key_id IS NULL"
                    db.execute(query, (self._signer.key_id,))
        with self._connections.read() as db:
            self._check_key(_read_key_id(db)[0])

    def _check_key(self, key_id: bytes | None) -> None:
        """Refuse a file that another key has signed.

        Raises:
            ConfigError: If the log's key is not the file's.
        """
        check_key(key_id or b"", self._signer.key_id, str(self.path))

    def __repr__(self) -> str:
        return f"SQLiteLog({str(self.path)!r})"

    def close(self) -> None:
        """Close the file; later calls raise `LogClosedError`. Idempotent."""
        if self._waiting and not self._connections.is_closed:
            try:
                self._write_waiting()
            except LogError as error:
                _log.warning("terms and vectors could not be stored: %s", error)
        self._connections.close()
        self._decoded.clear()
        self._stop_workers()

    # -- writing --------------------------------------------------------------------------------

    def append(
        self, key: ThreadKey, drafts: Sequence[Draft], *, durable: bool = True
    ) -> list[Entry]:
        """Append all drafts in one transaction; see `MessageLog.append`."""
        batch = encode_drafts(drafts)
        self._connections.check_open()
        if not batch:
            return []
        with self._connections.write(durable=durable) as db:
            plan = self._append(db, key, batch)
            self._waiting.write(db)
        return plan.build_entries(key)

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
        caches = [(one, encode_state(one.value)) for one in documents]
        with self._connections.write() as db:
            thread = find_thread(db, key)
            later = read_range(db, thread, after=after, until=None, last=None)
            rows = [*find_rows(db, thread, message_ids), *later]
            there = merge_entries(decode_entry(key, row, self._signer) for row in rows)
            batch = encode_drafts(plan(there))
            appended = self._append(db, key, batch) if batch else None
            for cache, text in caches:
                self._write_document(db, key, cache.name, text, expected=cache.expected)
            self._waiting.write(db)
        return [] if appended is None else appended.build_entries(key)

    def annotate(
        self,
        key: ThreadKey,
        entry_id: str,
        *,
        attributes: Sequence[str] = (),
        timing: Mapping[str, int] | None = None,
        aux: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Add to an entry's metadata, durably; see `MessageLog.annotate`.

        Raises:
            CorruptEntryError: If the entry is damaged.
            LogError: If the thread has no such entry.
        """
        with self._connections.write() as db:
            position = find_position(db, find_thread(db, key), entry_id)
            if position is None:
                msg = f"thread {key.thread_id!r} has no entry {entry_id!r}"
                raise LogError(msg, thread_id=key.thread_id)
            change = partial(annotate_metadata, attributes=attributes, timing=timing, aux=aux)
            row = annotate_row(key, read_one(db, position), change, self._signer)
            db.execute(
                "UPDATE entries SET metadata = ?, signature = ? WHERE seq = ?",
                (row.metadata, row.signature, position),
            )
            if IMPORTED in attributes or "creation" in (timing or {}):
                # Its lines are others now.
                delete_snapshots(db, _find_owner(db, key.owner)[0])
        return decode_entry(key, row)

    def _append(
        self, db: sqlite3.Connection, key: ThreadKey, batch: Sequence[EncodedDraft]
    ) -> AppendPlan:
        """Store what is new of a batch."""
        thread, end = _find_end(db, key)
        self._check_key(end.key_id)
        plan = plan_append(
            batch,
            note_damage(self._signer, key, _read_stored(db, thread, batch)),
            first_position=end.position + 1,
            make_id=make_numbered_ulid,
            sign=partial(self._signer.sign, key),
        )
        db.executemany(
            "INSERT INTO entries(seq, thread, id, turn, role, key_hash, body, metadata, signature) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (row.position, thread, *write_row(row, key_hash))
                for row, key_hash in zip(plan.added, plan.key_hashes, strict=True)
            ],
        )
        return plan

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
        with self._connections.read_once() as db:
            rows = read_named_range(db, key, after=after, until=until, last=last)
        return [decode_entry(key, row, self._signer) for row in rows]

    def find(self, key: ThreadKey, message_ids: Collection[str]) -> list[Entry]:
        """Return the entries with these message ids; see `MessageLog.find`."""
        check_ids(message_ids)
        with self._connections.read() as db:
            rows = find_rows(db, find_thread(db, key), message_ids)
        return [decode_entry(key, row, self._signer) for row in rows]

    def read_thread(
        self,
        key: ThreadKey,
        name: str,
        stretches: Callable[[StateDocument | None], Sequence[Stretch]],
    ) -> tuple[StateDocument | None, list[Entry]]:
        """Return a document and entries; see `ThreadTransactions.read_thread`."""
        with self._connections.read() as db:
            thread, document, epoch = self._begin_reading(db, key, name)
            self._decoded.begin(epoch)
            found = [
                one
                for after, until in stretches(document)
                for one in self._decoded.read_stretch(db, key, thread, after=after, until=until)
            ]
        return document, found

    def threads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return a user's threads, latest first; see `MessageLog.threads`."""
        check_user(user_id)
        with self._connections.read() as db:
            try:
                found = db.execute(_LIST_THREADS, (user_id or "",)).fetchall()
                return [_read_info(user_id, *columns) for columns in found]
            except ValueError:
                pass  # an id is damaged
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
            return _list_damaged_threads(db, user_id)

    def owners(self) -> list[Owner]:
        """Return every user and every thread of no user that has entries."""
        with self._connections.read() as db, read_leniently(db):
            found = db.execute(
                "SELECT o.user_id, o.lone_thread FROM owners o WHERE EXISTS (SELECT 1 FROM "
                "threads t JOIN entries e ON e.thread = t.thread WHERE t.owner = o.owner)"
            ).fetchall()
        return [
            Owner(user or None, lone or None)
            for user, lone in found
            # Of another, no name can be told; `verify` says so.
            if isinstance(user, str) and isinstance(lone, str) and bool(user) != bool(lone)
        ]

    aowners = make_twin(owners)

    def changes(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return entries after the cursor in commit order; see `MessageLog.changes`."""
        with self._connections.read() as db:
            found = _read_later(db, owner, cursor, limit)
        generation = self._number(found.generation)
        if not found.rows:
            return Changes((), cursor, generation)
        return build_changes(found.rows, cursor, generation, self._signer)

    def line_changes(
        self, owner: Owner, cursor: int = 0, *, limit: int | None = None
    ) -> LineChanges:
        """Return lines after the cursor in commit order; see `LineSource.line_changes`."""
        with self._connections.read() as db:
            found = _read_later(db, owner, cursor, limit)
        generation = self._number(found.generation)
        return build_line_changes(found.rows, cursor, generation, limit, self._signer)

    def _number(self, generation: int) -> int:
        """Return the number of a generation, which none of a file that was there before had.

        Cursors into that file mean nothing in the one that took its place, such as a backup.
        """
        return generation + (self._connections.replacements << _FILE_BITS)

    # -- erasing --------------------------------------------------------------------------------

    def forget(
        self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None = None
    ) -> ForgetReceipt:
        """Erase an owner, a thread or some of its entries; see `MessageLog.forget`.

        Damaged entries are forgotten by their ids, too: by `damaged-POSITION` where not even that
        can be read. The freed space is overwritten and the write-ahead log folded in, for which a
        disk needs a little room: on a full one nothing is erased. Copies that a killed `backup`
        left unfinished are removed.

        Raises:
            LogUnavailableError: If the disk is full or the file in use; the message says what is
                erased and what to do.
            LogError: If an unfinished copy cannot be removed; the rest is done.
        """
        check_scope(scope, entry_ids)
        self._connections.reuse_wal()
        with self._connections.write() as db:
            self._waiting.write(db)
            owner = scope.owner if isinstance(scope, ThreadKey) else scope
            number, _ = _find_owner(db, owner)
            _raise_epoch(db, number)
            if isinstance(scope, Owner):
                counts = _erase_threads(db, _list_threads(db, number))
            elif entry_ids is None:
                thread = find_thread(db, scope)
                counts = _erase_threads(db, [] if thread is None else [thread])
            else:
                thread = find_thread(db, scope)
                counts = _erase_entries(db, thread, entry_ids)
            _drop_empty_owner(db, number)
        self._decoded.clear()
        self._connections.fold_wal()
        self._remove_unfinished_copies()
        return replace(counts, at_ms=get_now_ms())

    def _remove_unfinished_copies(self) -> None:
        """Remove what killed backups have left: it may hold what is to be forgotten."""
        left = UnfinishedCopies(self.path).remove_abandoned()
        if left:
            names = ", ".join(map(str, left))
            msg = f"entries are erased, but unfinished copies may hold them: delete {names}"
            raise LogError(msg)

    # -- state documents ------------------------------------------------------------------------

    def get_state(self, key: ThreadKey, name: str) -> StateDocument | None:
        """Return the document, or None."""
        with self._connections.read() as db:
            return self._read_document(db, key, find_thread(db, key), name)

    def list_states(self, user_id: str | None, name: str) -> dict[str, StateDocument]:
        """Return the documents of one name by thread id; see `StateBatches`."""
        check_user(user_id)
        with self._connections.read() as db, read_leniently(db):
            rows = db.execute(
                "SELECT t.thread_id, CAST(d.value AS BLOB), d.version, d.checksum FROM owners o "
                "JOIN threads t ON t.owner = o.owner JOIN documents d ON d.thread = t.thread "
                "WHERE o.user_id = ? AND d.name = ?",
                (user_id or "", name),
            ).fetchall()
        found: dict[str, StateDocument] = {}
        for thread_id, *stored in rows:
            key = read_key(user_id or "", thread_id)
            if key is None:  # nobody could ask for its thread
                continue
            with suppress(LogError):
                document = self._decode_document(key, name, *stored)
                found |= {} if document is None else {thread_id: document}
        return found

    alist_states = make_twin(list_states)

    def add_states(self, user_id: str | None, name: str, values: Mapping[str, Any]) -> None:
        """Write documents where there are none, in one transaction; see `StateBatches`."""
        texts = {ThreadKey(user_id, thread): encode_state(one) for thread, one in values.items()}
        with self._connections.write(durable=False) as db:
            for key, text in texts.items():
                self._write_document(db, key, name, text, expected=None)

    aadd_states = make_twin(add_states)

    def set_state(
        self, key: ThreadKey, name: str, value: Any, *, expected: int | None
    ) -> StateDocument | None:
        """Write the document if its version is `expected`; see `ThreadState.set_state`."""
        text = encode_state(value)
        with self._connections.write() as db:
            version = self._write_document(db, key, name, text, expected=expected)
        return None if version is None else StateDocument(load_json(text), version)

    def _begin_reading(
        self, db: sqlite3.Connection, key: ThreadKey, name: str
    ) -> tuple[int | None, StateDocument | None, int]:
        """Return a thread's number, a document of it, and the file's epoch.

        Every turn begins so, and one statement takes half as long as three.
        """
        try:
            found = db.execute(_BEGIN_READING, (name, *name_thread(key))).fetchone()
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            thread = find_thread(db, key)
            return thread, self._read_document(db, key, thread, name), _read_epoch(db)
        if found is None:
            return None, None, _read_epoch(db)
        thread, epoch, stored_name, *stored = found
        if stored_name is None:
            return thread, None, epoch
        return thread, self._decode_document(key, name, *stored), epoch

    def _read_document(
        self, db: sqlite3.Connection, key: ThreadKey, thread: int | None, name: str
    ) -> StateDocument | None:
        """Return a document, or None; a damaged cache counts as none.

        Raises:
            LogError: If another document is damaged.
        """
        try:
            found = db.execute(
                "SELECT CAST(value AS BLOB), version, checksum FROM documents "
                "WHERE thread = ? AND name = ?",
                (thread, name),
            ).fetchone()
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            found = None, None, None
        return None if found is None else self._decode_document(key, name, *found)

    def _decode_document(
        self, key: ThreadKey, name: str, value: Any, version: Any, checksum: Any
    ) -> StateDocument | None:
        return decode_document(key, name, (version, value, checksum), self._signer)

    def _write_document(
        self, db: sqlite3.Connection, key: ThreadKey, name: str, text: str, *, expected: int | None
    ) -> int | None:
        """Write a document's JSON text if its version is `expected`; return the new version."""
        found = self._read_document(db, key, find_thread(db, key), name)
        if (None if found is None else found.version) != expected:
            return None
        version = make_version(expected)
        db.execute(
            "INSERT OR REPLACE INTO documents(thread, name, version, value, checksum) "
            "VALUES (?, ?, ?, ?, ?)",
            (
                _make_thread(db, key),
                name,
                version,
                text,
                self._signer.sign_document(key, name, version, text),
            ),
        )
        return version

    def delete_state(self, key: ThreadKey, name: str) -> None:
        """Delete the document if there is one."""
        with self._connections.write() as db:
            db.execute(SQL.delete_document, (find_thread(db, key), name))

    # -- segments -------------------------------------------------------------------------------

    def load_segments(
        self, owner: Owner, fingerprint: str, *, after: int = 0
    ) -> list[StoredSegment]:
        """Return the owner's rows, in order; see `SegmentCache.load_segments`."""
        with self._connections.read() as db:
            found = _load_segments(db, (_find_owner(db, owner)[0], after, fingerprint))
        # What cannot be read is derived anew.
        stored = [StoredSegment(*row) for row in found if _is_readable(row)]
        return self._waiting.merge_into(stored, owner, fingerprint, after)

    def save_segments(self, owner: Owner, fingerprint: str, rows: Iterable[StoredSegment]) -> None:
        """Add or overwrite rows; see `SegmentCache.save_segments`.

        They can be made again, so the disk is not waited for.
        """
        with self._connections.write(durable=False) as db:
            self._waiting.write(db)
            _save_segments(db, owner, fingerprint, rows)

    def keep_segments(self, owner: Owner, fingerprint: str, rows: Iterable[StoredSegment]) -> None:
        """Have rows written with what is written next; see `SegmentBuffer.keep_segments`."""
        self._connections.check_open()
        self._waiting.put(owner, fingerprint, rows)
        if len(self._waiting) > _WAITING_AT_ONCE:
            self._write_waiting()

    def _write_waiting(self) -> None:
        if self._waiting:
            with self._connections.write(durable=False) as db:
                self._waiting.write(db)

    def segment_fingerprints(self, owner: Owner) -> list[str]:
        """Return under which names there are vectors; see `SegmentCache.segment_fingerprints`."""
        self._write_waiting()
        with self._connections.read() as db:
            found = db.execute(
                "SELECT f.name FROM fingerprints f WHERE EXISTS ("
                "SELECT 1 FROM threads t JOIN entries e ON e.thread = t.thread "
                "JOIN segments s ON s.seq = e.seq "
                "WHERE t.owner = ? AND s.fingerprint = f.fingerprint AND s.vector IS NOT NULL) "
                "ORDER BY f.name",
                (_find_owner(db, owner)[0],),
            )
            return [name for (name,) in found if isinstance(name, str)]

    def delete_segments(self, owner: Owner, fingerprint: str) -> int:
        """Delete rows, some thousands per transaction; see `SegmentCache.delete_segments`."""
        self._write_waiting()
        with self._connections.write(durable=False) as db:
            delete_snapshots(db, _find_owner(db, owner)[0])
        deleted = 0
        while True:
            with self._connections.write(durable=False) as db:
                gone = db.execute(
                    "DELETE FROM segments WHERE rowid IN (SELECT s.rowid FROM threads t "
                    "JOIN entries e ON e.thread = t.thread JOIN segments s ON s.seq = e.seq "
                    "JOIN fingerprints f ON f.fingerprint = s.fingerprint "
                    "WHERE t.owner = ? AND f.name = ? LIMIT ?)",
                    (_find_owner(db, owner)[0], fingerprint, _DELETED_AT_ONCE),
                ).rowcount
            deleted += gone
            if gone < _DELETED_AT_ONCE:
                return deleted

    # -- snapshots ------------------------------------------------------------------------------

    def load_snapshot(self, owner: Owner, name: str) -> IndexSnapshot | None:
        """Return the snapshot of an owner's index; see `IndexSnapshots.load_snapshot`."""
        with self._connections.read() as db:
            number, generation = _find_owner(db, owner)
            if number is None:
                return None
            asked = SnapshotName(owner, number, name, generation)
            parts = read_snapshot(db, asked, self._signer)
        return None if parts is None else IndexSnapshot(parts, self._number(generation))

    def save_snapshot(self, owner: Owner, name: str, snapshot: IndexSnapshot) -> bool:
        """Keep the snapshot of an owner's index; see `IndexSnapshots.save_snapshot`.

        It can be made again, so the disk is not waited for.
        """

        def find_name(db: sqlite3.Connection) -> SnapshotName | None:
            number, generation = _find_owner(db, owner)
            if number is None or self._number(generation) != snapshot.generation:
                return None
            return SnapshotName(owner, number, name, generation)

        write = partial(self._connections.write, durable=False)
        return write_snapshot(write, find_name, snapshot.parts, self._signer)

    # -- the whole file -------------------------------------------------------------------------

    def verify(self, *, progress: Progress | None = None) -> VerifyReport:
        """Check the file from end to end: what SQLite knows of it, and every entry by its checksum.

        Every page and every row is read, in constant memory and from one state of the file. Others
        may go on writing; a `forget` waits for the end, as it does for any reader. Nothing is
        changed, and no message text is shown. Entries that are missing are not noticed.

        Args:
            progress: Called with the rows checked so far and the rows there are.

        Returns:
            Counts, and a sentence for each problem; `ok` if there is none.

        Raises:
            LogError: If the file is so damaged that it cannot even be opened.
        """
        return verify_file(self._connections, self._signer, progress)

    async def averify(self, *, progress: Progress | None = None) -> VerifyReport:
        """Check the file, without blocking the event loop or this log's other calls.

        `progress` is called in another thread.
        """
        return await asyncio.to_thread(self.verify, progress=progress)

    def backup(
        self, path: str | os.PathLike[str], *, progress: Progress | None = None
    ) -> VerifyReport:
        """Copy the log into a new file while it is in use.

        The copy holds all that was committed before the call, from one state of the file. It has
        its name only when it is whole and on the disk, and only its owner may read it. Until then
        it is a hidden file in the same directory; of a process that was killed it stays there, and
        the log's next `backup` or `forget` removes it. Others may
        go on writing; a `forget` waits for the end, as it does for any reader. What is forgotten
        later stays in the copy: delete the copies that hold it too.

        To restore, open the copy: `SQLiteLog(path)`. To put it in the place of the log, close the
        log everywhere, delete its file together with those named like it that end in `-wal` and
        `-shm`, and rename the copy.

        Args:
            path: A file that does not exist, in a directory that does.
            progress: Called with the pages copied so far and the pages there are.

        Returns:
            What a check of the copy found: what is damaged was copied as it is.

        Raises:
            ConfigError: If the file exists, or its directory does not; nothing was written.
            LogError: If the log cannot be read or the copy not be written; nothing is left of it.
        """
        target = Path(os.fspath(path)).absolute()
        return copy_file(self._connections, target, self._signer, progress)

    async def abackup(
        self, path: str | os.PathLike[str], *, progress: Progress | None = None
    ) -> VerifyReport:
        """Copy the log, without blocking the event loop or this log's other calls.

        `progress` is called in another thread.
        """
        return await asyncio.to_thread(self.backup, path, progress=progress)


# -- owners and threads -------------------------------------------------------------------------


def _find_owner(db: sqlite3.Connection, owner: Owner) -> tuple[int | None, int]:
    """Return an owner's number and generation; one without rows is of the newest epoch."""
    found = read_first(db, _FIND_OWNER, _name_owner(owner))
    if not found:
        return None, _read_epoch(db)
    [(number, generation), *_] = found
    # Whoever cannot tell when something was forgotten last begins anew.
    return number, generation if isinstance(generation, int) else _read_epoch(db)


# Where the index of names is damaged, the table still tells; where that is, the index alone.
_FIND_OWNER = tuple(
    f"SELECT {columns} WHERE user_id = ? AND lone_thread = ?"
    for columns in (
        "owner, generation FROM owners",
        "owner, generation FROM owners NOT INDEXED",
        "owner, NULL FROM owners",
    )
)


def _make_thread(db: sqlite3.Connection, key: ThreadKey) -> int:
    """Return a thread's number, made with its owner if need be."""
    thread = find_thread(db, key)
    if thread is not None:
        return thread
    owner, generation = _find_owner(db, key.owner)
    if owner is None:
        insert = "INSERT INTO owners(user_id, lone_thread, generation) VALUES (?, ?, ?)"
        owner = db.execute(insert, (*_name_owner(key.owner), generation)).lastrowid
    insert = "INSERT INTO threads(owner, thread_id) VALUES (?, ?)"
    return int(db.execute(insert, (owner, key.thread_id)).lastrowid or 0)


def _list_threads(db: sqlite3.Connection, owner: int | None) -> list[int]:
    found = db.execute("SELECT thread FROM threads WHERE owner = ?", (owner,))
    return [thread for (thread,) in found]


_BEGIN_READING = (
    "SELECT t.thread, (SELECT forget_epoch FROM meta), d.name, CAST(d.value AS BLOB), d.version, "
    "d.checksum FROM owners o JOIN threads t ON t.owner = o.owner "
    f"LEFT JOIN documents d ON d.thread = t.thread AND d.name = ? {OF_THREAD}"
)


def _name_owner(owner: Owner) -> tuple[str, str]:
    return owner.user_id or "", owner.thread_id or ""


def _read_epoch(db: sqlite3.Connection) -> int:
    """Return a number that every `forget` raises, whatever it erased."""
    [epoch] = _require_meta(db.execute("SELECT forget_epoch FROM meta").fetchone())
    return epoch if isinstance(epoch, int) else 0


def _require_meta(found: tuple[Any, ...] | None) -> tuple[Any, ...]:
    """Return what was found beside the one row of `meta`; without it, the file is damaged."""
    if found is None:
        error = sqlite3.DatabaseError("the table meta is empty")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error
    return found


# -- appending ----------------------------------------------------------------------------------


def _read_stored(db: sqlite3.Connection, thread: int, batch: Iterable[EncodedDraft]) -> list[Row]:
    """Return what `plan_append` asks for."""
    hashes = [hash_message_id(own_id) for own_id in list_own_ids(batch)]
    found = read_versions(db, thread, hashes) if hashes else []
    return [*found, *read_controls(db, thread)] if found else []


class _End(NamedTuple):
    """Where a file ends, and who signs it."""

    position: int
    """The highest that was ever given."""
    key_id: bytes | None
    """Of the key that signs."""


def _find_end(db: sqlite3.Connection, key: ThreadKey) -> tuple[int, _End]:
    """Return a thread's number, made if need be, and where the file ends."""
    try:
        found = db.execute(_FIND_END, name_thread(key)).fetchone()
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        found = None
    if found is None:
        found = db.execute(_READ_END, (_make_thread(db, key),)).fetchone()
    thread, *end = _require_meta(found)
    return thread, _End(*end)


# Asked before every append, so in one statement.
_END_OF = (
    "SELECT t.thread, max(position_floor, coalesce((SELECT max(seq) FROM entries), 0)), key_id "
    "FROM {} JOIN meta"
)
_FIND_END = _END_OF.format("owners o JOIN threads t ON t.owner = o.owner") + f" {OF_THREAD}"
_READ_END = _END_OF.format("threads t") + " WHERE t.thread = ?"


# -- how a file is signed -----------------------------------------------------------------------


def _read_key_id(db: sqlite3.Connection) -> tuple[bytes | None, bool]:
    """Return which key signs the file, if one does, and whether nothing was ever written to it."""
    found = db.execute(
        "SELECT key_id, position_floor = 0 AND NOT EXISTS (SELECT 1 FROM entries) FROM meta"
    ).fetchone()
    key_id, is_new = _require_meta(found)
    return key_id, bool(is_new)


# -- reading ------------------------------------------------------------------------------------


# An index counts; only the rows at the ends of a thread are read.
_LIST_THREADS = (
    "SELECT t.thread_id, count(*), "
    "(SELECT id FROM entries WHERE thread = t.thread ORDER BY seq LIMIT 1), "
    "(SELECT id FROM entries WHERE thread = t.thread ORDER BY seq DESC LIMIT 1) AS last "
    "FROM owners o JOIN threads t ON t.owner = o.owner JOIN entries e ON e.thread = t.thread "
    "WHERE o.user_id = ? GROUP BY t.thread ORDER BY last DESC"
)


def _read_info(
    user_id: str | None, name: object, count: int, first: bytes, last: bytes
) -> ThreadInfo:
    """Return what is known of a thread.

    Raises:
        ValueError: If an id is damaged, or its name.
    """
    key = read_key(user_id or "", name)
    if key is None:
        raise ValueError("a name is not text")
    try:
        return ThreadInfo(key, count, get_packed_ulid_ms(first), get_packed_ulid_ms(last))
    except TypeError as error:
        raise ValueError("an id is not 16 bytes") from error


def _list_damaged_threads(db: sqlite3.Connection, user_id: str | None) -> list[ThreadInfo]:
    """Return a user's threads, latest first, where not every entry can be read."""
    with read_leniently(db):
        threads = db.execute(
            "SELECT t.thread, t.thread_id FROM owners o JOIN threads t ON t.owner = o.owner "
            "WHERE o.user_id = ?",
            (user_id or "",),
        ).fetchall()
    found = []
    for thread, name in threads:
        key = read_key(user_id or "", name)
        if key is None:  # nobody could ask for it; `verify` names it
            continue
        rows = read_range(db, thread, after=0, until=None, last=None)
        known = [get_ulid_ms(row.id) for row in rows if is_ulid(row.id)]
        if rows:
            info = ThreadInfo(key, len(rows), min(known, default=0), max(known, default=0))
            found.append(info)
    return sorted(found, key=lambda info: info.last_ms, reverse=True)


class _Later(NamedTuple):
    """What an owner's file holds after a cursor."""

    rows: Iterable[tuple[ThreadKey, Row]]
    """In the order they were committed."""
    generation: int


def _read_later(db: sqlite3.Connection, owner: Owner, cursor: int, limit: int | None) -> _Later:
    """Return an owner's rows after a cursor, from a connection in a read transaction."""
    # Asked before every recall, so in one statement.
    begin = cap_bound(cursor)
    try:
        known = db.execute(_FIND_LATER, (begin, begin, *_name_owner(owner))).fetchone()
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        known = None
    if known is not None and not known[1] and isinstance(known[0], int):
        return _Later([], known[0])
    number, generation = _find_owner(db, owner)
    return _Later(read_later(db, owner, number, cursor, limit), generation)


# Looking at every thread takes longer than asking whether the file has anything new.
_FIND_LATER = (
    "SELECT generation, iif((SELECT max(seq) FROM entries) > ?, EXISTS (SELECT 1 FROM threads t "
    "JOIN entries e ON e.thread = t.thread WHERE t.owner = o.owner AND e.seq > ?), 0) "
    "FROM owners o WHERE user_id = ? AND lone_thread = ?"
)


# -- erasing ------------------------------------------------------------------------------------


def _raise_epoch(db: sqlite3.Connection, owner: int | None) -> None:
    """Give the owner a generation that no earlier reader has seen.

    The highest position is noted before entries are erased: no later one may get it again.
    """
    db.execute(
        "UPDATE meta SET forget_epoch = forget_epoch + 1, position_floor = "
        "max(position_floor, coalesce((SELECT max(seq) FROM entries), 0))"
    )
    db.execute(
        "UPDATE owners SET generation = (SELECT forget_epoch FROM meta) WHERE owner = ?", (owner,)
    )


def _erase_threads(db: sqlite3.Connection, threads: Sequence[int]) -> ForgetReceipt:
    """Delete whole threads with all that belongs to them; return the counts."""
    entries = segments = documents = 0
    for thread in threads:
        entries += _count(db, "entries WHERE thread = ?", thread)
        documents += _count(db, "documents WHERE thread = ?", thread)
        segments += _count(db, "segments s JOIN entries e USING (seq) WHERE e.thread = ?", thread)
        db.execute("DELETE FROM threads WHERE thread = ?", (thread,))
    return ForgetReceipt(entries, len(threads), segments, documents)


def _erase_entries(
    db: sqlite3.Connection, thread: int | None, ids: Collection[str]
) -> ForgetReceipt:
    """Delete entries by entry id or message id, every version of a message; return the counts.

    The thread's caches go too: they may tell of what was said.
    """
    seqs = _find_positions(db, thread, ids)
    segments = sum(_count(db, "segments WHERE seq = ?", seq) for seq in seqs)
    db.executemany("DELETE FROM entries WHERE seq = ?", [(seq,) for seq in sorted(seqs)])
    caches = db.execute(
        "DELETE FROM documents WHERE thread = ? AND substr(name, 1, ?) = ?",
        (thread, len(CACHE_PREFIX), CACHE_PREFIX),
    )
    return ForgetReceipt(entries=len(seqs), segments=segments, documents=caches.rowcount)


def _find_positions(db: sqlite3.Connection, thread: int | None, ids: Collection[str]) -> set[int]:
    """Return where the entries of these ids are: entry ids, message ids, names of damaged ones."""
    found = {row.position for row in find_rows(db, thread, ids)}
    for wanted in ids:
        position = find_position(db, thread, wanted)
        damaged = read_damaged_name(wanted)
        if position is not None:
            found.add(position)
        elif damaged is not None and read_one(db, damaged).id == wanted:
            of_thread = "SELECT seq FROM entries INDEXED BY entries_by_thread"
            query = f"{of_thread} WHERE thread = ? AND seq = ?"
            found.update(seq for (seq,) in db.execute(query, (thread, damaged)))
    return found


def _drop_empty_owner(db: sqlite3.Connection, owner: int | None) -> None:
    """Delete an owner without threads: not even the name stays."""
    db.execute(
        "DELETE FROM owners WHERE owner = ? "
        "AND NOT EXISTS (SELECT 1 FROM threads t WHERE t.owner = owners.owner)",
        (owner,),
    )


def _count(db: sqlite3.Connection, of: str, value: int) -> int:
    return int(db.execute(f"SELECT count(*) FROM {of}", (value,)).fetchone()[0])


# -- segments -----------------------------------------------------------------------------------

_OF_OWNER = "JOIN threads t ON t.thread = e.thread WHERE t.owner = ?"


def _load_segments(db: sqlite3.Connection, values: tuple[Any, ...]) -> list[Any]:
    """Return an owner's rows after a position."""
    # Positions are sorted before anything else is read: vectors are far larger.
    query = (
        "SELECT s.seq, s.part, s.segment, s.terms, s.vector, s.analysis, s.terms_check, "
        "s.vector_check FROM segments s "
        f"WHERE s.seq IN (SELECT e.seq FROM entries e {_OF_OWNER} AND e.seq > ?) "
        "AND s.fingerprint = (SELECT fingerprint FROM fingerprints WHERE name = ?) "
        "ORDER BY s.seq, s.part, s.segment"
    )
    try:
        return db.execute(query, values).fetchall()
    except sqlite3.DatabaseError as error:
        if not is_garbled(error):
            raise
    with read_leniently(db):
        return db.execute(query, values).fetchall()


def _is_readable(row: Sequence[Any]) -> bool:
    """Return whether the columns of a segment are of the types that were written."""
    *place, terms, vector, analysis, terms_check, vector_check = row
    return (
        type(terms) is str
        and type(vector) in (bytes, NoneType)
        and all(type(number) is int for number in (*place, analysis))
        and all(type(check) in (int, NoneType) for check in (terms_check, vector_check))
    )


def _save_segments(
    db: sqlite3.Connection, owner: Owner, fingerprint: str, rows: Iterable[StoredSegment]
) -> None:
    """Add or overwrite rows whose entry is still the owner's."""
    number = _find_owner(db, owner)[0]
    db.execute("INSERT OR IGNORE INTO fingerprints(name) VALUES (?)", (fingerprint,))
    asked = "SELECT fingerprint FROM fingerprints WHERE name = ?"
    found = db.execute(asked, (fingerprint,)).fetchone()
    if found is None:  # its index is damaged; rows that are not kept are derived anew
        return
    made_by = found[0]
    db.executemany(
        "INSERT INTO segments(seq, part, segment, fingerprint, terms, vector, analysis, "
        "terms_check, vector_check) "
        f"SELECT e.seq, ?, ?, ?, ?, ?, ?, ?, ? FROM entries e {_OF_OWNER} AND e.seq = ? "
        "ON CONFLICT (seq, part, segment, fingerprint) DO UPDATE SET terms = excluded.terms, "
        "vector = coalesce(excluded.vector, vector), analysis = excluded.analysis, "
        "terms_check = excluded.terms_check, "
        "vector_check = iif(excluded.vector IS NULL, vector_check, excluded.vector_check)",
        [
            (
                row.part,
                row.segment,
                made_by,
                row.terms,
                row.vector,
                row.analysis,
                row.terms_check,
                row.vector_check,
                number,
                row.position,
            )
            for row in rows
        ],
    )


class WaitingSegments:
    """Segments that wait for the next write: a commit of their own would cost more than they do.

    Thread-safe.
    """

    def __init__(self) -> None:
        """Begin without any."""
        # No lock, which a fork could leave held: each operation on a deque is whole.
        self._rows: deque[tuple[Owner, str, StoredSegment]] = deque()

    def __len__(self) -> int:
        """Return how many rows wait."""
        return len(self._rows)

    def put(self, owner: Owner, fingerprint: str, rows: Iterable[StoredSegment]) -> None:
        """Keep rows until `write`."""
        self._rows.extend((owner, fingerprint, row) for row in rows)

    def merge_into(
        self, stored: Sequence[StoredSegment], owner: Owner, fingerprint: str, after: int
    ) -> list[StoredSegment]:
        """Return stored rows as they will be once those that wait are written."""
        mine = [
            row
            for whose, name, row in list(self._rows)
            if whose == owner and name == fingerprint and row.position > after
        ]
        if not mine:
            return list(stored)
        by_place = {_get_place(row): row for row in stored}
        for row in mine:
            before = by_place.get(_get_place(row))
            if before is not None and row.vector is None:
                row = replace(row, vector=before.vector, vector_check=before.vector_check)  # noqa: PLW2901
            by_place[_get_place(row)] = row
        return [by_place[place] for place in sorted(by_place)]

    def write(self, db: sqlite3.Connection) -> None:
        """Write what waits in the transaction under way, which a failure leaves as it was.

        What cannot be written is let go: it can be made again.
        """
        taken = self._take()
        if not taken:
            return
        db.execute("SAVEPOINT waiting")
        try:
            for (owner, fingerprint), rows in taken.items():
                _save_segments(db, owner, fingerprint, rows)
        except sqlite3.DatabaseError as error:
            _log.warning("terms and vectors could not be stored: %s", error)
            if db.in_transaction:
                db.execute("ROLLBACK TO waiting")
        if db.in_transaction:
            db.execute("RELEASE waiting")

    def _take(self) -> dict[tuple[Owner, str], list[StoredSegment]]:
        found: dict[tuple[Owner, str], list[StoredSegment]] = {}
        while self._rows:
            try:
                owner, fingerprint, row = self._rows.popleft()
            except IndexError:  # another thread was faster
                break
            found.setdefault((owner, fingerprint), []).append(row)
        return found


def _get_place(row: StoredSegment) -> tuple[int, int, int]:
    return row.position, row.part, row.segment
