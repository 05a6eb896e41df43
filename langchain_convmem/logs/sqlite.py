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
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from langchain_convmem.errors import ConfigError, CorruptEntryError, LogError
from langchain_convmem.ids import decode_ulid, get_now_ms, get_ulid_ms, make_numbered_ulid
from langchain_convmem.logs.base import (
    AppendPlan,
    EncodedDraft,
    Row,
    TransactionTwins,
    annotate_metadata,
    build_changes,
    build_line_changes,
    cap_bound,
    cap_count,
    check_ids,
    check_scope,
    check_user,
    decode_entry,
    encode_drafts,
    encode_state,
    hash_message_id,
    list_own_ids,
    make_twin,
    make_version,
    merge_entries,
    plan_append,
    read_message_id,
)
from langchain_convmem.logs.sql import Dialect, Statements, add_thread_keys
from langchain_convmem.logs.sqlite_file import (
    COLUMNS,
    ROLES,
    SQLiteConnections,
    find_position,
    read_row,
    write_row,
)
from langchain_convmem.logs.sqlite_maintenance import Progress, VerifyReport, copy_file, verify_file
from langchain_convmem.protocols import CACHE_PREFIX, Stretch
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
from langchain_convmem.views.codec import load_json

_log = logging.getLogger("langchain_convmem")

_DELETED_AT_ONCE = 5000
_HASHES_AT_ONCE = 500
_WAITING_AT_ONCE = 64
"""Segments that may wait for the next write, and be lost if the process ends before."""
_DECODED_AT_MOST = 4096
_DECODED_BODY_CHARS = 20_000

_SQL = Statements(
    Dialect(
        value="?",
        tables="",
        position="seq",
        columns=COLUMNS,
        control=str(ROLES.index("control")),
        among=lambda count: f"IN ({', '.join('?' * count)})",
    ),
    thread="?",
)


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
        self._connections = SQLiteConnections(self.path)
        self._decoded = DecodedEntries()
        self._waiting = WaitingSegments()
        with self._connections.read():
            pass  # a file that cannot be used is refused here, not at the first message

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
            plan = _append(db, key, batch)
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
            thread = _find_thread(db, key)
            later = _read_range(db, key, thread, after=after, until=None, last=None)
            rows = [*_find_rows(db, key, thread, message_ids), *later]
            there = merge_entries(decode_entry(key, row) for row in rows)
            batch = encode_drafts(plan(there))
            appended = _append(db, key, batch) if batch else None
            for cache, text in caches:
                _write_document(db, key, cache.name, text, expected=cache.expected)
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
        """Add to an entry's metadata, durably; see `MessageLog.annotate`."""
        with self._connections.write() as db:
            position = find_position(db, _find_thread(db, key), entry_id)
            if position is None:
                msg = f"thread {key.thread_id!r} has no entry {entry_id!r}"
                raise LogError(msg, thread_id=key.thread_id)
            query = f"SELECT {COLUMNS} FROM entries e WHERE seq = ?"
            row = read_row(db.execute(query, (position,)).fetchone(), key.thread_id)
            text = annotate_metadata(row.metadata, attributes=attributes, timing=timing, aux=aux)
            db.execute("UPDATE entries SET metadata = ? WHERE seq = ?", (text, position))
        return decode_entry(key, replace(row, metadata=text))

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
            thread = _find_thread(db, key)
            rows = _read_range(db, key, thread, after=after, until=until, last=last)
        return [decode_entry(key, row) for row in rows]

    def find(self, key: ThreadKey, message_ids: Collection[str]) -> list[Entry]:
        """Return the entries with these message ids; see `MessageLog.find`."""
        check_ids(message_ids)
        with self._connections.read() as db:
            rows = _find_rows(db, key, _find_thread(db, key), message_ids)
        return [decode_entry(key, row) for row in rows]

    def read_thread(
        self,
        key: ThreadKey,
        name: str,
        stretches: Callable[[StateDocument | None], Sequence[Stretch]],
    ) -> tuple[StateDocument | None, list[Entry]]:
        """Return a document and entries; see `ThreadTransactions.read_thread`."""
        with self._connections.read() as db:
            thread = _find_thread(db, key)
            document = _read_document(db, key, thread, name)
            found = [
                columns
                for after, until in stretches(document)
                for columns in db.execute(
                    _SQL.stretch, (thread, cap_bound(after), cap_bound(until))
                )
            ]
            epoch = _read_epoch(db)
        return document, self._decoded.decode(key, found, epoch)

    def threads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return a user's threads, latest first; see `MessageLog.threads`."""
        check_user(user_id)
        with self._connections.read() as db:
            found = db.execute(
                "SELECT t.thread_id, count(*), min(e.id), max(e.id) FROM owners o "
                "JOIN threads t ON t.owner = o.owner JOIN entries e ON e.thread = t.thread "
                "WHERE o.user_id = ? GROUP BY t.thread ORDER BY max(e.id) DESC",
                (user_id or "",),
            ).fetchall()
        return [_read_info(ThreadKey(user_id, name), *columns) for name, *columns in found]

    def owners(self) -> list[Owner]:
        """Return every user and every thread of no user that has entries."""
        with self._connections.read() as db:
            found = db.execute(
                "SELECT o.user_id, o.lone_thread FROM owners o WHERE EXISTS (SELECT 1 FROM "
                "threads t JOIN entries e ON e.thread = t.thread WHERE t.owner = o.owner)"
            ).fetchall()
        return [Owner(user or None, lone or None) for user, lone in found]

    aowners = make_twin(owners)

    def changes(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return entries after the cursor in commit order; see `MessageLog.changes`."""
        with self._connections.read() as db:
            found = _read_later(db, owner, cursor, limit)
        rows = add_thread_keys(owner, found.rows, read_row)
        return build_changes(rows, cursor, found.generation)

    def line_changes(
        self, owner: Owner, cursor: int = 0, *, limit: int | None = None
    ) -> LineChanges:
        """Return lines after the cursor in commit order; see `LineSource.line_changes`."""
        with self._connections.read() as db:
            found = _read_later(db, owner, cursor, limit)
        rows = add_thread_keys(owner, found.rows, read_row)
        return build_line_changes(rows, cursor, found.generation, limit)

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
            number, _ = _find_owner(db, owner)
            _raise_epoch(db, number)
            if isinstance(scope, Owner):
                counts = _erase_threads(db, _list_threads(db, number))
            elif entry_ids is None:
                thread = _find_thread(db, scope)
                counts = _erase_threads(db, [] if thread is None else [thread])
            else:
                counts = _erase_entries(db, _find_thread(db, scope), entry_ids)
            _drop_empty_owner(db, number)
        self._decoded.clear()
        self._connections.fold_wal()
        return replace(counts, at_ms=get_now_ms())

    # -- state documents ------------------------------------------------------------------------

    def get_state(self, key: ThreadKey, name: str) -> StateDocument | None:
        """Return the document, or None."""
        with self._connections.read() as db:
            return _read_document(db, key, _find_thread(db, key), name)

    def set_state(
        self, key: ThreadKey, name: str, value: Any, *, expected: int | None
    ) -> StateDocument | None:
        """Write the document if its version is `expected`; see `ThreadState.set_state`."""
        text = encode_state(value)
        with self._connections.write() as db:
            version = _write_document(db, key, name, text, expected=expected)
        return None if version is None else StateDocument(load_json(text), version)

    def delete_state(self, key: ThreadKey, name: str) -> None:
        """Delete the document if there is one."""
        with self._connections.write() as db:
            db.execute(_SQL.delete_document, (_find_thread(db, key), name))

    # -- segments -------------------------------------------------------------------------------

    def load_segments(
        self, owner: Owner, fingerprint: str, *, after: int = 0
    ) -> list[StoredSegment]:
        """Return the owner's rows, in order; see `SegmentCache.load_segments`."""
        with self._connections.read() as db:
            # Positions are sorted before anything else is read: vectors are far larger.
            found = db.execute(
                "SELECT s.seq, s.part, s.segment, s.terms, s.vector, s.analysis FROM segments s "
                f"WHERE s.seq IN (SELECT e.seq FROM entries e {_OF_OWNER} AND e.seq > ?) "
                "AND s.fingerprint = (SELECT fingerprint FROM fingerprints WHERE name = ?) "
                "ORDER BY s.seq, s.part, s.segment",
                (_find_owner(db, owner)[0], after, fingerprint),
            ).fetchall()
        stored = [StoredSegment(*row) for row in found]
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
            return [name for (name,) in found]

    def delete_segments(self, owner: Owner, fingerprint: str) -> int:
        """Delete rows, some thousands per transaction; see `SegmentCache.delete_segments`."""
        self._write_waiting()
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
        return verify_file(self._connections, progress)

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
        copy_file(self._connections, Path(os.fspath(path)).absolute(), progress)

    async def abackup(
        self, path: str | os.PathLike[str], *, progress: Progress | None = None
    ) -> None:
        """Copy the log, without blocking the event loop or this log's other calls.

        `progress` is called in another thread.
        """
        await asyncio.to_thread(self.backup, path, progress=progress)


# -- owners and threads -------------------------------------------------------------------------


def _find_owner(db: sqlite3.Connection, owner: Owner) -> tuple[int | None, int]:
    """Return an owner's number and generation; one without rows is of the newest epoch."""
    found = db.execute(
        "SELECT owner, generation FROM owners WHERE user_id = ? AND lone_thread = ?",
        _name_owner(owner),
    ).fetchone()
    if found is not None:
        return int(found[0]), int(found[1])
    return None, _read_epoch(db)


def _find_thread(db: sqlite3.Connection, key: ThreadKey) -> int | None:
    """Return a thread's number; None if nothing is kept of it."""
    found = db.execute(
        "SELECT t.thread FROM owners o JOIN threads t ON t.owner = o.owner "
        "WHERE o.user_id = ? AND o.lone_thread = ? AND t.thread_id = ?",
        (*_name_owner(key.owner), key.thread_id),
    ).fetchone()
    return None if found is None else int(found[0])


def _make_thread(db: sqlite3.Connection, key: ThreadKey) -> int:
    """Return a thread's number, made with its owner if need be."""
    thread = _find_thread(db, key)
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


def _name_owner(owner: Owner) -> tuple[str, str]:
    return owner.user_id or "", owner.thread_id or ""


def _read_epoch(db: sqlite3.Connection) -> int:
    """Return a number that every `forget` raises, whatever it erased."""
    return int(db.execute("SELECT forget_epoch FROM meta").fetchone()[0])


# -- appending ----------------------------------------------------------------------------------


def _append(db: sqlite3.Connection, key: ThreadKey, batch: Sequence[EncodedDraft]) -> AppendPlan:
    """Store what is new of a batch."""
    thread = _make_thread(db, key)
    plan = plan_append(
        batch,
        _read_stored(db, key, thread, batch),
        first_position=_read_next_position(db),
        make_id=make_numbered_ulid,
    )
    db.executemany(
        "INSERT INTO entries(seq, thread, id, turn, role, key_hash, body, metadata) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (row.position, thread, *write_row(row, key_hash))
            for row, key_hash in zip(plan.added, plan.key_hashes, strict=True)
        ],
    )
    return plan


def _read_stored(
    db: sqlite3.Connection, key: ThreadKey, thread: int, batch: Iterable[EncodedDraft]
) -> list[Row]:
    """Return what `plan_append` asks for."""
    hashes = [hash_message_id(own_id) for own_id in list_own_ids(batch)]
    found = _read_versions(db, thread, hashes)
    if found:
        found += db.execute(_SQL.controls, (thread,)).fetchall()
    return [read_row(columns, key.thread_id) for columns in found]


def _read_versions(
    db: sqlite3.Connection, thread: int | None, hashes: Sequence[int]
) -> list[Sequence[Any]]:
    """Return the `COLUMNS` of rows whose message ids have these hashes, by position."""
    if not hashes:
        return []
    if len(hashes) <= _HASHES_AT_ONCE:
        return db.execute(_SQL.select_versions(len(hashes)), (thread, *hashes)).fetchall()
    found: list[Sequence[Any]] = []
    wanted = sorted(set(hashes))
    for start in range(0, len(wanted), _HASHES_AT_ONCE):
        found += _read_versions(db, thread, wanted[start : start + _HASHES_AT_ONCE])
    return sorted(found, key=itemgetter(0))


def _read_next_position(db: sqlite3.Connection) -> int:
    found = db.execute(
        "SELECT max(position_floor, coalesce((SELECT max(seq) FROM entries), 0)) + 1 FROM meta"
    )
    return int(found.fetchone()[0])


# -- reading ------------------------------------------------------------------------------------


def _read_range(
    db: sqlite3.Connection,
    key: ThreadKey,
    thread: int | None,
    *,
    after: int,
    until: int | None,
    last: int | None,
) -> list[Row]:
    """Return a thread's rows of a range, ascending; the latest `last` of them."""
    bounds = cap_bound(after), cap_bound(until), cap_count(last)
    found = db.execute(_SQL.entries, (thread, *bounds)).fetchall()
    return [read_row(columns, key.thread_id) for columns in reversed(found)]


def _find_rows(
    db: sqlite3.Connection, key: ThreadKey, thread: int | None, message_ids: Collection[str]
) -> list[Row]:
    """Return a thread's rows with these message ids, ascending."""
    wanted = frozenset(message_ids)
    found = _read_versions(db, thread, [hash_message_id(name) for name in wanted])
    rows = [read_row(columns, key.thread_id) for columns in found]
    return [row for row in rows if read_message_id(row.id, row.body) in wanted]


def _read_info(key: ThreadKey, count: int, first: bytes, last: bytes) -> ThreadInfo:
    try:
        return ThreadInfo(
            key, count, get_ulid_ms(decode_ulid(first)), get_ulid_ms(decode_ulid(last))
        )
    except (TypeError, ValueError) as error:
        msg = f"thread {key.thread_id!r} has an entry with a damaged id: {error}; see verify()"
        raise CorruptEntryError(msg, thread_id=key.thread_id) from error


class _Later(NamedTuple):
    """What an owner's file holds after a cursor."""

    rows: list[Sequence[Any]]
    """Thread ids and `COLUMNS`, in the order they were committed."""
    generation: int


def _read_later(db: sqlite3.Connection, owner: Owner, cursor: int, limit: int | None) -> _Later:
    """Return an owner's rows after a cursor."""
    # Asked before every recall, so in one statement.
    known = db.execute(
        "SELECT owner, generation, (SELECT max(seq) FROM entries) FROM owners "
        "WHERE user_id = ? AND lone_thread = ?",
        _name_owner(owner),
    ).fetchone()
    number, generation, newest = known or (None, _read_epoch(db), None)
    if newest is None or newest <= cursor:
        return _Later([], generation)  # mostly so, and looking at every thread takes longer
    # Positions are sorted before anything else is read: bodies are far larger.
    found = db.execute(
        f"SELECT t.thread_id, {COLUMNS} FROM entries e CROSS JOIN threads t ON t.thread = e.thread "
        "WHERE e.seq IN (SELECT e.seq FROM threads t JOIN entries e ON e.thread = t.thread "
        "WHERE t.owner = ? AND e.seq > ? ORDER BY e.seq LIMIT ?) ORDER BY e.seq",
        (number, cap_bound(cursor), cap_count(limit)),
    ).fetchall()
    return _Later(found, generation)


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
    seqs: set[int] = set()
    for wanted in ids:
        found = db.execute(
            "SELECT seq, body FROM entries WHERE thread = ? AND key_hash = ?",
            (thread, hash_message_id(wanted)),
        )
        seqs.update(seq for seq, body in found if read_message_id("", body) == wanted)
        position = find_position(db, thread, wanted)
        if position is not None:
            seqs.add(position)
    segments = sum(_count(db, "segments WHERE seq = ?", seq) for seq in seqs)
    db.executemany("DELETE FROM entries WHERE seq = ?", [(seq,) for seq in seqs])
    caches = db.execute(
        "DELETE FROM documents WHERE thread = ? AND substr(name, 1, ?) = ?",
        (thread, len(CACHE_PREFIX), CACHE_PREFIX),
    )
    return ForgetReceipt(entries=len(seqs), segments=segments, documents=caches.rowcount)


def _drop_empty_owner(db: sqlite3.Connection, owner: int | None) -> None:
    """Delete an owner without threads: not even the name stays."""
    db.execute(
        "DELETE FROM owners WHERE owner = ? "
        "AND NOT EXISTS (SELECT 1 FROM threads t WHERE t.owner = owners.owner)",
        (owner,),
    )


def _count(db: sqlite3.Connection, of: str, value: int) -> int:
    return int(db.execute(f"SELECT count(*) FROM {of}", (value,)).fetchone()[0])


# -- state documents ----------------------------------------------------------------------------


def _read_document(
    db: sqlite3.Connection, key: ThreadKey, thread: int | None, name: str
) -> StateDocument | None:
    """Return a document, or None.

    Raises:
        LogError: If it cannot be read.
    """
    found = db.execute(_SQL.document, (thread, name)).fetchone()
    if found is None:
        return None
    try:
        return StateDocument(load_json(found[0]), found[1])
    except (TypeError, ValueError, LookupError, ArithmeticError) as error:
        msg = (
            f"document {name!r} of thread {key.thread_id!r} cannot be read: {error!r}; delete it, "
            "or restore it from a backup"
        )
        raise LogError(msg, thread_id=key.thread_id) from error


def _write_document(
    db: sqlite3.Connection, key: ThreadKey, name: str, text: str, *, expected: int | None
) -> int | None:
    """Write a document's JSON text if its version is `expected`; return the new version."""
    found = db.execute(_SQL.document, (_find_thread(db, key), name)).fetchone()
    if (None if found is None else found[1]) != expected:
        return None
    version = make_version(expected)
    db.execute(
        "INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?)",
        (_make_thread(db, key), name, version, text),
    )
    return version


# -- segments -----------------------------------------------------------------------------------

_OF_OWNER = "JOIN threads t ON t.thread = e.thread WHERE t.owner = ?"


def _save_segments(
    db: sqlite3.Connection, owner: Owner, fingerprint: str, rows: Iterable[StoredSegment]
) -> None:
    """Add or overwrite rows whose entry is still the owner's."""
    number = _find_owner(db, owner)[0]
    db.execute("INSERT OR IGNORE INTO fingerprints(name) VALUES (?)", (fingerprint,))
    asked = "SELECT fingerprint FROM fingerprints WHERE name = ?"
    made_by = db.execute(asked, (fingerprint,)).fetchone()[0]
    db.executemany(
        "INSERT INTO segments(seq, part, segment, fingerprint, terms, vector, analysis) "
        f"SELECT e.seq, ?, ?, ?, ?, ?, ? FROM entries e {_OF_OWNER} AND e.seq = ? "
        "ON CONFLICT (seq, part, segment, fingerprint) DO UPDATE SET terms = excluded.terms, "
        "vector = coalesce(excluded.vector, vector), analysis = excluded.analysis",
        [
            (
                row.part,
                row.segment,
                made_by,
                row.terms,
                row.vector,
                row.analysis,
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
            vector = before.vector if before is not None and row.vector is None else row.vector
            by_place[_get_place(row)] = replace(row, vector=vector)
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


# -- decoded entries ----------------------------------------------------------------------------


class DecodedEntries:
    """Entries that were decoded lately: a thread is read at every turn, and hardly changes.

    Rows that changed are decoded anew. Thread-safe. Who gets entries shares them with others, and
    must not change them.
    """

    def __init__(self, most: int = _DECODED_AT_MOST) -> None:
        """Keep at most about so many; those that were decoded first go first."""
        self._most = most
        # Single operations on a dict need no lock, which a fork could leave held.
        self._kept: dict[int, tuple[ThreadKey, Sequence[Any], Entry]] = {}
        self._epoch: int | None = None

    def clear(self) -> None:
        """Let go of all."""
        self._kept = {}

    def decode(self, key: ThreadKey, found: Iterable[Sequence[Any]], epoch: int) -> list[Entry]:
        """Return the entries of rows.

        Args:
            key: Their thread.
            found: The `COLUMNS` of each.
            epoch: Number of the file's last `forget`: what another process has forgotten must not
                stay in the memory of this one.

        Raises:
            CorruptEntryError: If a row cannot be read.
        """
        if epoch != self._epoch:
            self.clear()
            self._epoch = epoch
        return [self._decode_one(key, columns) for columns in found]

    def _decode_one(self, key: ThreadKey, columns: Sequence[Any]) -> Entry:
        position = columns[0]
        known = self._kept.get(position)
        if known is not None and known[1] == columns and known[0] == key:
            return known[2]
        entry = decode_entry(key, read_row(columns, key.thread_id))
        if len(columns[4]) <= _DECODED_BODY_CHARS:
            self._kept[position] = (key, columns, entry)
            self._make_room()
        return entry

    def _make_room(self) -> None:
        kept = self._kept
        if len(kept) > self._most:
            for position in list(kept)[: self._most // 4]:
                kept.pop(position, None)
