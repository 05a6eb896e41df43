"""Message logs in SQL: the statements and the rules once, whatever database they run in.

A database says how a transaction is opened (`SqlLog._begin`); all else is here. The tables:

meta       one row: schema version; `epoch`, which every `forget` raises; `floor`, after which the
           positions of a new owner begin, so that none is given twice; the id of the signing key
owners     a user, or a thread without a user. `last` numbers its entries, `erased` counts those
           that were forgotten, `generation` is the epoch of its last `forget`; a checksum covers
           the row. Writers of one owner wait for each other at this row
entries    `place` is the owner's number and the position within it, in one integer: it is unique,
           in the order of commits, and everything of an owner lies together
documents  small JSON documents of a thread, with a version for compare-and-set
segments   what recall derived from lines; it can be rebuilt, and goes with its entry
snapshots  the index of an owner's lines as bytes; the same
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import lru_cache, partial
from hashlib import sha256
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

from langchain_convmem.errors import LogClosedError, LogError
from langchain_convmem.ids import get_now_ms, get_ulid_number, is_ulid, make_numbered_ulid
from langchain_convmem.logs import base as kit
from langchain_convmem.logs.base import Signer, check_key
from langchain_convmem.logs.verify import StorageProblem
from langchain_convmem.message_log import CACHE_PREFIX, ReadPlan
from langchain_convmem.records import (
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
from langchain_convmem.views.lines import IMPORTED
from langchain_convmem.views.live import merge_entries

SCHEMA_VERSION = 1

_POSITION_BITS = 32
_LAST_POSITION = (1 << _POSITION_BITS) - 1
_AT_ONCE = 500
"""Bound values of one statement."""
_REMEMBERED = 8192
"""So many entries, and none of a larger body than this."""
_REMEMBERED_BYTES = 10_000

_COLUMNS = "thread, place, id, turn, role, body, metadata, signature"
_NUMBER = "(SELECT owner FROM owners WHERE name = ?)"
_OWNED = f"place > ({_NUMBER} << 32) + ? AND place <= ({_NUMBER} << 32) + ?"
_THREAD = f"SELECT {_COLUMNS} FROM entries WHERE thread = ? AND {_OWNED}"
_RANGE = f"{_THREAD} ORDER BY place"
_IS_FRAMING = "role IN ('system', 'summary', 'control')"
_FRAMING = f"{_THREAD} AND {_IS_FRAMING} ORDER BY place"
_CONTROLS = f"{_THREAD} AND {_IS_FRAMING} AND role = 'control' ORDER BY place"
_DOCUMENT = f"FROM documents WHERE owner = {_NUMBER} AND thread = ? AND name = ?"
_OF_USER = "o.name BETWEEN ? AND ?"
_OF_OWNER = "e.place > o.owner << 32 AND e.place < (o.owner + 1) << 32"
_SEGMENTS = f"FROM segments WHERE {_OWNED} AND fingerprint ="
_FINGERPRINT = "(SELECT fingerprint FROM fingerprints WHERE name = ?)"
_KEEP_SEGMENT = (
    "INSERT INTO segments SELECT e.place, ?, ?, ?, ?, ?, ?, ?, ? FROM entries e WHERE e.place = ? "
    "ON CONFLICT (place, part, segment, fingerprint) DO UPDATE SET terms = excluded.terms, "
    "vector = coalesce(excluded.vector, segments.vector), analysis = excluded.analysis, "
    "terms_check = excluded.terms_check, vector_check = CASE WHEN excluded.vector IS NULL "
    "THEN segments.vector_check ELSE excluded.vector_check END"
)


class Transaction(Protocol):
    """An open transaction. Values are bound to `?`, never part of a statement."""

    for_update: str
    """At the end of a query, keeps other writers from the selected row until the commit."""

    def rows(self, sql: str, *values: Any) -> list[Any]:
        """Run a statement; return its rows."""
        ...

    def count(self, sql: str, *values: Any) -> int:
        """Run a statement; return how many rows it changed."""
        ...

    def do(self, sql: str, *values: Any) -> None:
        """Run a statement, now or before the next one that returns something."""
        ...


class SqlLog(kit.StoredLog):
    """What message logs in SQL databases do alike. Thread-safe."""

    keeps_segments = True
    place: str
    """What the log is on, for messages: a path, or a server without its password."""

    def __init__(self, signing_key: bytes | str | None) -> None:
        """Prepare to sign; nothing is opened yet."""
        self._signer = Signer(signing_key)
        # A thread is read in every turn, and hardly changes: an equal row is the same entry.
        self._decode_again = lru_cache(maxsize=_REMEMBERED)(self._decode_named)
        self._closed = False

    @abstractmethod
    def _begin(
        self, *, write: bool, durable: bool, once: bool
    ) -> AbstractContextManager[Transaction]:
        """Open a transaction for a block; its end commits, an exception undoes.

        Args:
            write: Whether anything is to be written.
            durable: Whether the commit is to survive a crash of the machine.
            once: Whether it is for one statement, which sees one state of the log by itself.
        """

    def _transaction(
        self, *, write: bool = False, durable: bool = True, once: bool = False
    ) -> AbstractContextManager[Transaction]:
        self._check_open()
        return self._begin(write=write, durable=durable, once=once)

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        """Return the rows of one statement."""
        with self._transaction(once=True) as tx:
            return tx.rows(sql, *values)

    def _check_open(self) -> None:
        if self._closed:
            raise LogClosedError(f"the log on {self.place} is closed; open it again")

    def _check_key(self, tx: Transaction) -> None:
        """Refuse a log that was made with another signing key.

        Raises:
            ConfigError: If that is so.
        """
        [stored] = _read_one(tx, "SELECT key_id FROM meta")
        check_key(stored, self._signer.key_id, "the log")

    def _decode_named(self, user_id: str | None, thread_id: str, columns: Sequence[Any]) -> Entry:
        # A turn looks up each entry of its thread, and texts are hashed faster than keys.
        return self._decode(ThreadKey(user_id, thread_id), columns)

    def _decode(self, key: ThreadKey, columns: Sequence[Any]) -> Entry:
        return kit.decode_entry(key, read_row(columns), self._signer)

    # -- writing ----------------------------------------------------------------------------------

    def append(
        self, key: ThreadKey, drafts: Sequence[Draft], *, durable: bool = True
    ) -> list[Entry]:
        """Append all drafts in one transaction; see `MessageLog.append`."""
        batch = kit.encode_drafts(drafts)
        self._check_open()
        if not batch:
            return []
        with self._transaction(write=True, durable=durable) as tx:
            owner = _make_owner(tx, self._signer, key.owner)
            plan = self._append(tx, owner, key, batch)
        return plan.build_entries(key)

    def _append(
        self,
        tx: Transaction,
        owner: _LockedOwner,
        key: ThreadKey,
        batch: list[kit.EncodedDraft],
        unknown: Collection[str] = (),
    ) -> kit.AppendPlan:
        """Append a batch; `unknown` are ids that no message of the thread has."""
        ids = [one for one in kit.list_own_ids(batch) if one not in unknown]
        plan = kit.plan_append(
            batch,
            self._read_stored(tx, key, ids) if ids else (),
            first_position=owner.last + 1,
            make_id=make_numbered_ulid,
            sign=partial(self._signer.sign, key),
        )
        for row in plan.added:
            values = _write_row(owner, key, row)
            tx.do("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", *values)
        if plan.added:
            _write_owner(tx, self._signer, owner._replace(last=plan.added[-1].position))
        return plan

    def _read_stored(self, tx: Transaction, key: ThreadKey, ids: Collection[str]) -> list[kit.Row]:
        """Return what `plan_append` asks for."""
        rows = _select_named(tx, key, ids)
        if rows:
            rows += map(read_row, tx.rows(_CONTROLS, *_bind_thread(key)))
        return [row for row in rows if not self._signer.find_damage(key, row)]

    def append_planned(
        self,
        key: ThreadKey,
        plan: Callable[[Sequence[Entry]], Sequence[Draft]],
        *,
        after: int,
        message_ids: Collection[str] = (),
    ) -> list[Entry]:
        """Read, plan and append in one transaction; see `MessageLog.append_planned`."""
        kit.check_ids(message_ids)
        with self._transaction(write=True) as tx:
            owner = _make_owner(tx, self._signer, key.owner)
            later = [self._decode(key, row) for row in tx.rows(_RANGE, *_bind_thread(key, after))]
            named = self._find(tx, key, message_ids)
            batch = kit.encode_drafts(plan(merge_entries(named, later) if named else later))
            appended = self._append(tx, owner, key, batch, unknown=() if named else message_ids)
        return appended.build_entries(key)

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
            LogError: If the entry is damaged.
        """
        change = partial(kit.annotate_metadata, attributes=attributes, timing=timing, aux=aux)
        with self._transaction(write=True) as tx:
            owner = _lock_owner(tx, self._signer, key.owner)
            found = [] if owner is None else _select_at(tx, owner, key, [entry_id])
            if owner is None or not found:
                msg = f"thread {key.thread_id!r} has no entry {entry_id!r}"
                raise LogError(msg, thread_id=key.thread_id)
            row = kit.annotate_row(key, found[0], change, self._signer)
            update = "UPDATE entries SET metadata = ?, signature = ? WHERE place = ?"
            tx.do(update, row.metadata, row.signature, _find_place(owner, row.position))
            if IMPORTED in attributes or "creation" in (timing or {}):
                # Its lines read differently now.
                tx.do("DELETE FROM snapshots WHERE owner = ?", owner.number)
        return kit.decode_entry(key, row, self._signer)

    # -- reading ----------------------------------------------------------------------------------

    def entries(
        self, key: ThreadKey, *, after: int = 0, until: int | None = None, last: int | None = None
    ) -> list[Entry]:
        """Return entries in order of position; see `MessageLog.entries`."""
        values = *_bind_thread(key, after, until), kit.cap_count(last)
        found = self._rows(f"{_RANGE} DESC LIMIT ?", *values)
        return [self._decode(key, columns) for columns in reversed(found)]

    def find(self, key: ThreadKey, message_ids: Collection[str]) -> list[Entry]:
        """Return the entries with these message ids; see `MessageLog.find`."""
        kit.check_ids(message_ids)
        with self._transaction() as tx:
            return self._find(tx, key, message_ids)

    def _find(self, tx: Transaction, key: ThreadKey, message_ids: Collection[str]) -> list[Entry]:
        rows = _select_named(tx, key, message_ids)
        return [kit.decode_entry(key, row, self._signer) for row in rows]

    def read_back(self, key: ThreadKey, plan: ReadPlan, *, page: int = 64) -> list[Entry]:
        """Return the entries that a plan asks for; see `MessageLog.read_back`."""
        found: list[Entry] = []
        with self._transaction() as tx:
            framing = self._read_rows(tx, key, _FRAMING, *_bind_thread(key))
            named = self._find(tx, key, plan.find_named(framing))
            for after, end in reversed(plan.find_stretches(framing)):
                until = end
                while True:  # each page in order, and twice as long as the one before
                    values = *_bind_thread(key, after, until), page
                    entries = self._read_rows(tx, key, f"{_RANGE} DESC LIMIT ?", *values)[::-1]
                    found[:0] = entries
                    if len(entries) < page:
                        break
                    if plan.is_enough(found):
                        return merge_entries(framing, named, found)
                    until, page = entries[0].position - 1, page * 2
        return merge_entries(framing, named, found) if framing or named else found

    def _read_rows(self, tx: Transaction, key: ThreadKey, sql: str, *values: Any) -> list[Entry]:
        """Return rows as entries that others may hold, too, and that nobody changes."""
        return [
            self._decode(key, row)
            if len(row[5]) > _REMEMBERED_BYTES
            else self._decode_again(key.user_id, key.thread_id, row)
            for row in tx.rows(sql, *values)
        ]

    def threads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return a user's threads, latest first; see `MessageLog.threads`."""
        kit.check_user(user_id)
        found = self._rows(
            "SELECT x.thread, x.count, a.id, b.id FROM (SELECT e.thread, count(*) AS count, "
            "min(e.place) AS first, max(e.place) AS last FROM owners o CROSS JOIN entries e "
            f"WHERE {_OF_USER} AND {_OF_OWNER} GROUP BY o.owner, e.thread) x JOIN entries a "
            "ON a.place = x.first JOIN entries b ON b.place = x.last ORDER BY b.id DESC",
            *_select_user(user_id),
        )
        return [
            ThreadInfo(ThreadKey(user_id, thread_id), count, *_read_span(first, last))
            for name, count, first, last in found
            if (thread_id := read_name(name))
        ]

    def owners(self) -> list[Owner]:
        """Return every user and every thread of no user that has entries."""
        has_entries = f"EXISTS (SELECT 1 FROM entries e WHERE {_OF_OWNER})"
        found = self._rows(f"SELECT o.name FROM owners o WHERE {has_entries}")
        return [owner for (name,) in found if (owner := read_owner(name)) is not None]

    def changes(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return entries after the cursor in commit order; see `MessageLog.changes`."""
        rows, generation = self._read_later(owner, cursor, limit)
        return kit.build_changes(rows, cursor, generation, self._signer)

    def line_changes(
        self, owner: Owner, cursor: int = 0, *, limit: int | None = None
    ) -> LineChanges:
        """Return lines after the cursor in commit order; see `MessageLog.line_changes`."""
        rows, generation = self._read_later(owner, cursor, limit)
        return kit.build_line_changes(rows, cursor, generation, limit, self._signer)

    def _read_later(
        self, owner: Owner, cursor: int, limit: int | None
    ) -> tuple[Iterator[tuple[ThreadKey, kit.Row]], int]:
        """Return an owner's rows after a cursor, each with its thread, and the generation."""
        query = f"SELECT {_COLUMNS} FROM entries WHERE {_OWNED} ORDER BY place LIMIT ?"
        values = *_bind_range(owner, cursor), kit.cap_count(limit)
        newest = "SELECT coalesce(generation, epoch) FROM meta LEFT JOIN owners ON name = ?"
        with self._transaction() as tx:
            [generation] = _read_one(tx, newest, _name_owner(owner))
            return _add_keys(owner, tx.rows(query, *values)), generation

    # -- erasing ----------------------------------------------------------------------------------

    def forget(
        self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None = None
    ) -> ForgetReceipt:
        """Erase an owner, a thread or some of its entries; see `MessageLog.forget`.

        Damaged entries are forgotten by their ids, too: by `damaged-POSITION` where the id itself
        cannot be read.
        """
        whose = kit.check_scope(scope, entry_ids)
        receipt, floor = ForgetReceipt(), 0
        with self._transaction(write=True) as tx:
            owner = _lock_owner(tx, self._signer, whose)
            if owner is not None:
                if isinstance(scope, ThreadKey) and entry_ids is not None:
                    receipt = _erase_entries(tx, owner, scope, frozenset(entry_ids))
                else:
                    receipt = _erase_threads(tx, owner, scope)
                tx.do("DELETE FROM snapshots WHERE owner = ?", owner.number)
                if _is_empty(tx, owner):
                    tx.do("DELETE FROM owners WHERE owner = ?", owner.number)
                    floor, owner = owner.last, None  # not even the name stays
            # Last of all, since everybody who forgets meets at this row.
            floors = "floor = CASE WHEN floor < ? THEN ? ELSE floor END"
            tx.do(f"UPDATE meta SET epoch = epoch + 1, {floors}", floor, floor)
            if owner is not None:
                [epoch] = _read_one(tx, "SELECT epoch FROM meta")
                erased = owner.erased + receipt.entries
                _write_owner(tx, self._signer, owner._replace(erased=erased, generation=epoch))
        self._decode_again.cache_clear()
        self._scrub()
        return replace(receipt, at_ms=get_now_ms())

    def _scrub(self) -> None:
        """Remove what the database itself still keeps of erased text."""

    # -- state documents --------------------------------------------------------------------------

    def get_state(self, key: ThreadKey, name: str) -> StateDocument | None:
        """Return the document, or None; a damaged cache counts as none.

        Raises:
            LogError: If another document is damaged.
        """
        with self._transaction(once=True) as tx:
            return self._get_state(tx, key, name)

    def _get_state(self, tx: Transaction, key: ThreadKey, name: str) -> StateDocument | None:
        found = tx.rows(f"SELECT version, value, checksum {_DOCUMENT}", *_bind_name(key, name))
        return kit.decode_document(key, name, found[0], self._signer) if found else None

    def set_state(
        self, key: ThreadKey, name: str, value: Any, *, expected: int | None, durable: bool = True
    ) -> StateDocument | None:
        """Write the document if its version is `expected`; see `MessageLog.set_state`."""
        text = kit.encode_state(value)
        with self._transaction(write=True, durable=durable) as tx:
            owner = _make_owner(tx, self._signer, key.owner)
            found = self._get_state(tx, key, name)
            if (None if found is None else found.version) != expected:
                return None
            version = kit.make_version(expected)
            checksum = kit.sign_document(self._signer, key, name, version, text)
            columns = "version = excluded.version, value = excluded.value"
            tx.do(
                "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (owner, thread, name) "
                f"DO UPDATE SET {columns}, checksum = excluded.checksum",
                *(owner.number, *_bind_name(key, name)[1:], version, text, checksum),
            )
        return StateDocument(load_json(text), version)

    def delete_state(self, key: ThreadKey, name: str) -> None:
        """Delete the document if there is one."""
        with self._transaction(write=True) as tx:
            tx.count(f"DELETE {_DOCUMENT}", *_bind_name(key, name))

    # -- what recall keeps: it can be made again, so no write waits for the disk ------------------

    def load_segments(
        self, owner: Owner, fingerprint: str, *, after: int = 0
    ) -> list[StoredSegment]:
        """Return the owner's rows, in order; see `MessageLog.load_segments`."""
        columns = "place, part, segment, terms, vector, analysis, terms_check, vector_check"
        query = f"SELECT {columns} {_SEGMENTS} {_FINGERPRINT} ORDER BY place, part, segment"
        found = self._rows(query, *_bind_range(owner, after), _encode(fingerprint))
        # What cannot be read is derived anew.
        return [row for columns in found if (row := _read_segment(columns)) is not None]

    def save_segments(self, owner: Owner, fingerprint: str, rows: Iterable[StoredSegment]) -> None:
        """Add or overwrite rows; see `MessageLog.save_segments`."""
        name = _encode(fingerprint)
        with self._transaction(write=True, durable=False) as tx:
            locked = _lock_owner(tx, self._signer, owner)
            if locked is None:
                return
            tx.do("INSERT INTO fingerprints(name) VALUES (?) ON CONFLICT (name) DO NOTHING", name)
            [(number,)] = tx.rows("SELECT fingerprint FROM fingerprints WHERE name = ?", name)
            for row in rows:
                tx.do(_KEEP_SEGMENT, *_write_segment(locked, row, number))

    def segment_fingerprints(self, owner: Owner) -> list[str]:
        """Return under which names there are vectors; see `MessageLog.segment_fingerprints`."""
        has_vectors = f"EXISTS (SELECT 1 {_SEGMENTS} f.fingerprint AND vector IS NOT NULL)"
        query = f"SELECT f.name FROM fingerprints f WHERE {has_vectors}"
        found = self._rows(query, *_bind_range(owner))
        return sorted(filter(None, (read_name(name) for (name,) in found)))

    def delete_segments(self, owner: Owner, fingerprint: str) -> int:
        """Delete rows; see `MessageLog.delete_segments`."""
        with self._transaction(write=True, durable=False) as tx:
            locked = _lock_owner(tx, self._signer, owner)
            if locked is None:
                return 0
            tx.do("DELETE FROM snapshots WHERE owner = ?", locked.number)
            values = *_bind_range(owner), _encode(fingerprint)
            return tx.count(f"DELETE {_SEGMENTS} {_FINGERPRINT}", *values)

    def load_snapshot(self, owner: Owner, name: str) -> tuple[bytes, int] | None:
        """Return the snapshot of an owner's index; see `MessageLog.load_snapshot`."""
        found = self._rows(
            "SELECT o.generation, s.checksum, s.data FROM owners o JOIN snapshots s ON "
            "s.owner = o.owner AND s.generation = o.generation WHERE o.name = ? AND s.name = ?",
            *(_name_owner(owner), _encode(name)),
        )
        for generation, checksum, data in found:
            if checksum == self._sign_snapshot(owner, name, generation, data):
                return data, generation
        return None

    def save_snapshot(self, owner: Owner, name: str, data: bytes, generation: int) -> bool:
        """Keep the snapshot of an owner's index; see `MessageLog.save_snapshot`."""
        checksum = self._sign_snapshot(owner, name, generation, data)
        with self._transaction(write=True, durable=False) as tx:
            locked = _lock_owner(tx, self._signer, owner)
            if locked is None or locked.generation != generation:
                return False
            values = locked.number, _encode(name), generation, checksum, data
            tx.do("DELETE FROM snapshots WHERE owner = ?", locked.number)
            tx.do("INSERT INTO snapshots VALUES (?, ?, ?, ?, ?)", *values)
        return True

    def _sign_snapshot(self, owner: Owner, name: str, generation: int, data: Any) -> bytes:
        # SHA-256 takes less than half as long as BLAKE2 here: processors have instructions for it.
        digest = sha256(data if isinstance(data, bytes) else b"").digest()
        covered = owner.user_id, owner.thread_id, name, generation, digest
        return self._signer.sign_record("snapshot", *covered)

    # -- the whole log ----------------------------------------------------------------------------

    def check_storage(self) -> Iterator[StorageProblem]:
        """Yield what is wrong beside the entries; see `verify.StorageCheck`."""
        known = "EXISTS (SELECT 1 FROM owners o WHERE o.owner = e.place >> 32)"
        [(lost,)] = self._rows(f"SELECT count(*) FROM entries e WHERE NOT {known}")
        if lost:
            yield StorageProblem(f"entries of no known owner: {lost}")
        there = f"(SELECT count(*) FROM entries e WHERE {_OF_OWNER})"
        query = f"SELECT o.name, o.last, o.erased, o.generation, o.checksum, {there} FROM owners o"
        for row in self._rows(query):
            yield from _check_owner(self._signer, row)
        query = "SELECT o.name, d.thread, d.name, d.version, d.value, d.checksum FROM documents d "
        for row in self._rows(f"{query} LEFT JOIN owners o ON o.owner = d.owner"):
            yield from _check_document(self._signer, row)


# -- owners and threads ---------------------------------------------------------------------------


class _LockedOwner(NamedTuple):
    """An owner's row, in a transaction in which no other writer changes it."""

    owner: Owner
    number: int
    last: int
    erased: int
    generation: int
    is_sound: bool


def _read_one(tx: Transaction, sql: str, *values: Any) -> Sequence[Any]:
    """Return the one row beside `meta`; without that, nothing can be trusted.

    Raises:
        LogError: If there is none.
    """
    for row in tx.rows(sql, *values):
        return tuple(row)
    raise LogError("the tables of the log are damaged: meta is empty; restore a backup")


def _lock_owner(tx: Transaction, signer: Signer, owner: Owner) -> _LockedOwner | None:
    """Return an owner's row, for which other writers wait; None if there is none."""
    columns = "owner, last, erased, generation, checksum"
    query = f"SELECT {columns} FROM owners WHERE name = ?{tx.for_update}"
    found = tx.rows(query, _name_owner(owner))
    if not found:
        return None
    [(number, last, erased, generation, checksum)] = found
    if last == -1:
        floor, epoch = _read_one(tx, "SELECT floor, epoch FROM meta")
        made = _LockedOwner(owner, number, floor, floor, epoch, is_sound=True)
        _write_owner(tx, signer, made)
        return made
    is_sound = _sign_owner(signer, owner, last, erased, generation) == checksum
    if not is_sound:  # whatever it says, no position may be given twice
        query = "SELECT max(place) FROM entries WHERE place > ? AND place < ?"
        [(place,)] = tx.rows(query, *_bound_owner(number))
        counts = [one if isinstance(one, int) else 0 for one in (last, erased, generation)]
        last, erased, generation = max(counts[0], (place or 0) & _LAST_POSITION), *counts[1:]
    return _LockedOwner(owner, number, last, erased, generation, is_sound)


def _make_owner(tx: Transaction, signer: Signer, owner: Owner) -> _LockedOwner:
    """Return an owner's row, made if need be, for which other writers wait."""
    while (found := _lock_owner(tx, signer, owner)) is None:
        # This waits for whoever is forgetting the owner: only then it is certain after which
        # position, and in which epoch, it begins.
        tx.do(
            "INSERT INTO owners(name, last, erased, generation, checksum) "
            "VALUES (?, -1, 0, 0, '') ON CONFLICT (name) DO NOTHING",
            _name_owner(owner),
        )
    return found


def _sign_owner(signer: Signer, owner: Owner, *counts: int) -> bytes:
    return signer.sign_record("owner", owner.user_id, owner.thread_id, *counts)


def _write_owner(tx: Transaction, signer: Signer, locked: _LockedOwner) -> None:
    """Write an owner's counts; a row that was altered is not signed again, so that it shows."""
    counts = locked.last, locked.erased, locked.generation
    checksum = _sign_owner(signer, locked.owner, *counts) if locked.is_sound else b""
    columns = "last = ?, erased = ?, generation = ?, checksum = ?"
    tx.do(f"UPDATE owners SET {columns} WHERE owner = ?", *counts, checksum, locked.number)


def _find_place(owner: _LockedOwner, position: int) -> int:
    return owner.number << _POSITION_BITS | position


def _bind_range(owner: Owner, after: int = 0, until: int | None = None) -> tuple[Any, ...]:
    """Return what `_OWNED` binds: an owner and positions, as a place can hold them."""
    name, end = _name_owner(owner), _LAST_POSITION if until is None else until
    first, last = [max(0, min(position, _LAST_POSITION)) for position in (after, end)]
    return name, first, name, last


def _bind_thread(key: ThreadKey, after: int = 0, until: int | None = None) -> tuple[Any, ...]:
    """Return what `_THREAD` binds."""
    return key.thread_id.encode(), *_bind_range(key.owner, after, until)


def _bind_name(key: ThreadKey, name: str) -> tuple[bytes, bytes, bytes]:
    """Return what `_DOCUMENT` binds."""
    return _name_owner(key.owner), key.thread_id.encode(), _encode(name)


# -- entries of a thread --------------------------------------------------------------------------


def _select_named(tx: Transaction, key: ThreadKey, ids: Collection[str]) -> list[kit.Row]:
    """Return a thread's rows whose messages go by one of these ids, in order."""
    found = _select_among(tx, key, "key_hash", sorted({kit.hash_message_id(one) for one in ids}))
    return [row for row in found if kit.read_message_id(row.id, row.body) in ids]


def _select_at(
    tx: Transaction, owner: _LockedOwner, key: ThreadKey, ids: Collection[str]
) -> list[kit.Row]:
    """Return a thread's rows that have one of these ids; an id tells its position."""
    positions = filter(None, map(_read_position, ids))
    places = [_find_place(owner, position) for position in positions]
    return [row for row in _select_among(tx, key, "place", places) if row.id in ids]


def _select_among(
    tx: Transaction, key: ThreadKey, column: str, values: Sequence[int]
) -> list[kit.Row]:
    """Return a thread's rows that have one of these values, in order."""
    # The thread is no condition: SQLite might then read all of it.
    query = f"SELECT {_COLUMNS} FROM entries WHERE {_OWNED} AND {column} IN"
    found: list[Any] = []
    for start in range(0, len(values), _AT_ONCE):
        some = values[start : start + _AT_ONCE]
        found += tx.rows(f"{query} ({', '.join('?' * len(some))})", *_bind_range(key.owner), *some)
    name = key.thread_id.encode()
    return [read_row(row) for row in sorted(found, key=itemgetter(1)) if row[0] == name]


def _read_position(entry_id: str) -> int:
    """Return the position that the id of an entry tells; 0 for another id."""
    if is_ulid(entry_id):
        return get_ulid_number(entry_id) & _LAST_POSITION
    digits = entry_id.removeprefix(kit.DAMAGED_NAME)
    is_number = digits != entry_id and digits.isascii() and digits.isdigit()
    return min(int(digits), _LAST_POSITION) if is_number else 0


def _erase_entries(
    tx: Transaction, owner: _LockedOwner, key: ThreadKey, ids: Collection[str]
) -> ForgetReceipt:
    """Delete entries by entry id or message id, every version of a message, and all caches."""
    rows = *_select_named(tx, key, ids), *_select_at(tx, owner, key, ids)
    places = sorted({_find_place(owner, row.position) for row in rows})
    segments = sum(tx.count("DELETE FROM segments WHERE place = ?", one) for one in places)
    for one in places:
        tx.do("DELETE FROM entries WHERE place = ?", one)
    caches = tx.count(
        "DELETE FROM documents WHERE owner = ? AND thread = ? AND substr(name, 1, ?) = ?",
        *(owner.number, key.thread_id.encode(), len(CACHE_PREFIX), CACHE_PREFIX.encode()),
    )
    return ForgetReceipt(entries=len(places), segments=segments, documents=caches)


def _erase_threads(tx: Transaction, owner: _LockedOwner, scope: Owner | ThreadKey) -> ForgetReceipt:
    """Delete one thread, or all, with all that belongs to them; return the counts."""
    entries = "FROM entries WHERE place > ? AND place < ?"
    documents = "FROM documents WHERE owner = ?"
    of_entries: tuple[Any, ...] = _bound_owner(owner.number)
    of_documents: tuple[Any, ...] = (owner.number,)
    if isinstance(scope, ThreadKey):
        name = scope.thread_id.encode()
        entries, of_entries = f"{entries} AND thread = ?", (*of_entries, name)
        documents, of_documents = f"{documents} AND thread = ?", (*of_documents, name)
    named = f"SELECT thread {entries} UNION SELECT thread {documents}"
    threads = tx.rows(named, *of_entries, *of_documents)
    segments = f"DELETE FROM segments WHERE place IN (SELECT place {entries})"
    erased = tx.count(segments, *of_entries)
    counts = tx.count(f"DELETE {entries}", *of_entries), len(threads), erased
    return ForgetReceipt(*counts, tx.count(f"DELETE {documents}", *of_documents))


def _is_empty(tx: Transaction, owner: _LockedOwner) -> bool:
    """Return whether nothing is left of an owner."""
    entries = "SELECT 1 FROM entries WHERE place > ? AND place < ?"
    query = f"{entries} UNION ALL SELECT 1 FROM documents WHERE owner = ? LIMIT 1"
    return not tx.rows(query, *_bound_owner(owner.number), owner.number)


def _bound_owner(number: int) -> tuple[int, int]:
    """Return the places between which the entries of an owner's number are."""
    return number << _POSITION_BITS, number + 1 << _POSITION_BITS


# -- checking -------------------------------------------------------------------------------------


def _check_owner(signer: Signer, row: Sequence[Any]) -> Iterator[StorageProblem]:
    name, last, erased, generation, checksum, count = row
    owner = read_owner(name)
    if owner is None:
        yield StorageProblem(f"an owner's name was altered; entries of that owner: {count}")
    elif _sign_owner(signer, owner, last, erased, generation) != checksum:
        what = "the row that counts its entries was altered: missing ones cannot be counted"
        yield StorageProblem(what, owner)
    elif last - erased != count:
        missing = last - erased - count
        what = f"{missing} of {last - erased} entries missing"
        yield StorageProblem(what, owner, missing)


def _check_document(signer: Signer, row: Sequence[Any]) -> Iterator[StorageProblem]:
    owner, thread_id, name = read_owner(row[0]), read_name(row[1]), read_name(row[2])
    if owner is None or not thread_id:
        yield StorageProblem("a state document belongs to no known thread")
        return
    key = ThreadKey(owner.user_id, thread_id)
    if kit.read_document(key, name, row[3:], signer) is None:
        what = f"document {name!r:.80} of thread {thread_id!r:.80} was altered"
        yield StorageProblem(what, owner)


# -- rows -----------------------------------------------------------------------------------------


def read_row(columns: Sequence[Any]) -> kit.Row:
    """Return the row of `_COLUMNS`, whatever they hold: if altered, its checksum is another."""
    _, place, stored_id, turn, role, body, metadata, signature = columns
    position, entry_id = place & _LAST_POSITION, read_name(stored_id)
    if not is_ulid(entry_id) or get_ulid_number(entry_id) != position:
        entry_id = f"{kit.DAMAGED_NAME}{position}"
    turn_id = entry_id if turn is None else read_name(turn)
    name: Any = role if type(role) is str else read_name(role)
    text = body if type(body) is str else read_name(body)
    sound = signature if isinstance(signature, bytes) else b""
    more = None if metadata is None else read_name(metadata)
    return kit.Row(entry_id, position, turn_id, name, text, more, sound)


def _read_span(first_id: object, last_id: object) -> tuple[int, int]:
    """Return when two entries were written, in milliseconds since the epoch."""
    return kit.read_created_ms(read_name(first_id)), kit.read_created_ms(read_name(last_id))


def _write_row(owner: _LockedOwner, key: ThreadKey, row: kit.Row) -> tuple[Any, ...]:
    """Return the columns of `entries`; an entry that opens its turn stores none."""
    turn = None if row.turn_id == row.id else _encode(row.turn_id)
    names = key.thread_id.encode(), row.id.encode(), turn, row.role, row.key_hash
    return (_find_place(owner, row.position), *names, row.body, row.metadata, row.signature)


def _add_keys(owner: Owner, found: Iterable[Sequence[Any]]) -> Iterator[tuple[ThreadKey, kit.Row]]:
    """Yield an owner's rows, each with its thread, from `_COLUMNS`."""
    keys: dict[Any, ThreadKey] = {}
    for columns in found:
        name = columns[0]
        key = keys.get(name)
        if key is None:
            # Under another name than its own, a row does not match its checksum.
            thread_id = read_name(name) or f"{kit.DAMAGED_NAME}thread"
            key = keys[name] = ThreadKey(owner.user_id, thread_id)
        yield key, read_row(columns)


# -- what recall keeps ----------------------------------------------------------------------------


def _write_segment(owner: _LockedOwner, row: StoredSegment, fingerprint: int) -> tuple[Any, ...]:
    derived = row.vector, row.analysis, row.terms_check, row.vector_check
    place = _find_place(owner, row.position)
    return (row.part, row.segment, fingerprint, _encode(row.terms), *derived, place)


def _read_segment(columns: Sequence[Any]) -> StoredSegment | None:
    place, part, segment, terms, vector, analysis, *checks = columns
    numbers = (part, segment, analysis, *(check for check in checks if check is not None))
    if not all(type(number) is int for number in numbers):
        return None
    if not isinstance(terms, bytes) or not isinstance(vector, bytes | None):
        return None
    words = terms.decode("utf-8", "replace")
    return StoredSegment(place & _LAST_POSITION, part, segment, words, vector, analysis, *checks)


# -- names ----------------------------------------------------------------------------------------


def _encode(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def read_name(stored: Any) -> str:
    """Return a stored text; empty where it cannot be read."""
    try:
        return stored if isinstance(stored, str) else str(stored, "utf-8", "surrogatepass")
    except (TypeError, ValueError):
        return ""


def _name_owner(owner: Owner) -> bytes:
    return (f"t{owner.thread_id}" if owner.user_id is None else f"u{owner.user_id}").encode()


def read_owner(stored: Any) -> Owner | None:
    """Return the owner of a stored name; None where it cannot be read."""
    kind, name = read_name(stored)[:1], read_name(stored)[1:]
    if not name or kind not in ("u", "t"):
        return None
    return Owner(user_id=name) if kind == "u" else Owner(thread_id=name)


def _select_user(user_id: str | None) -> tuple[bytes, bytes]:
    """Return between which names a user's owner is, or those of threads without a user."""
    return (b"t", b"u") if user_id is None else (_name_owner(Owner(user_id=user_id)),) * 2


# -- the schema -----------------------------------------------------------------------------------

_TABLES = """
CREATE TABLE meta(
  version {integer} NOT NULL,
  epoch {integer} NOT NULL,
  floor {integer} NOT NULL,
  key_id {bytes} NOT NULL
);
CREATE TABLE owners(
  owner {serial},
  name {bytes} NOT NULL UNIQUE,
  last {integer} NOT NULL,
  erased {integer} NOT NULL,
  generation {integer} NOT NULL,
  checksum {bytes} NOT NULL
);
CREATE TABLE entries(
  place {integer} PRIMARY KEY,
  thread {bytes} NOT NULL,
  id {bytes} NOT NULL,
  turn {bytes},
  role text NOT NULL,
  key_hash {integer},
  body text NOT NULL,
  metadata text,
  signature {bytes} NOT NULL
);
CREATE INDEX entries_by_thread ON entries(thread, place);
CREATE INDEX entries_by_key ON entries(key_hash) WHERE key_hash IS NOT NULL;
CREATE INDEX entries_framing ON entries(thread, place) WHERE {framing};
CREATE TABLE documents(
  owner {integer} NOT NULL,
  thread {bytes} NOT NULL,
  name {bytes} NOT NULL,
  version {integer} NOT NULL,
  value text NOT NULL,
  checksum {bytes} NOT NULL,
  PRIMARY KEY (owner, thread, name)
);
CREATE TABLE fingerprints(fingerprint {serial}, name {bytes} NOT NULL UNIQUE);
CREATE TABLE segments(
  place {integer} NOT NULL,
  part {integer} NOT NULL,
  segment {integer} NOT NULL,
  fingerprint {integer} NOT NULL,
  terms {bytes} NOT NULL,
  vector {bytes},
  analysis {integer} NOT NULL,
  terms_check {integer},
  vector_check {integer},
  PRIMARY KEY (place, part, segment, fingerprint)
);
CREATE TABLE snapshots(
  owner {integer} PRIMARY KEY,
  name {bytes} NOT NULL,
  generation {integer} NOT NULL,
  checksum {bytes} NOT NULL,
  data {bytes} NOT NULL
)
"""
NEW_META = f"INSERT INTO meta VALUES ({SCHEMA_VERSION}, 0, 0, ?)"
"""Goes with the tables; binds the id of the signing key."""


def write_schema(*, serial: str, integer: str, data: str) -> list[str]:
    """Return the statements that make the tables.

    Args:
        serial: The type of a key that numbers its rows.
        integer: The type of whole numbers of 64 bits.
        data: The type of bytes.
    """
    script = _TABLES.format(serial=serial, integer=integer, bytes=data, framing=_IS_FRAMING)
    return script.strip().split(";\n")
