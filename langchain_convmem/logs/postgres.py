"""`PostgresLog`: a message log in a PostgreSQL database, for any number of processes and machines.

Positions are numbered by the owner's row, whose lock a writer holds until its commit: they are the
order of commits, and have no gaps until something is forgotten. So an owner's positions become
visible in ascending order, and a reader's cursor never passes one that is still to come.

log_meta   one row: schema version, the epoch that every `forget` raises, where the positions of a
           new owner begin (above those of any owner that was forgotten), and which key signs
owners     a user, or a thread of no user (user_id NULL); last_position numbers its entries, and
           its row lock puts its writers in a line; generation = epoch of its last `forget`
threads    one row per (owner, thread_id); digests are the keys, since ids may be long
entries    (owner, position); key_hash finds a message's id
documents  small JSON documents of a thread, with a version for compare-and-set, and a checksum
segments   what recall derived from lines, with checks that tie it to their text; rebuildable,
           gone with its entry
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar, get_args
from uuid import UUID

from langchain_convmem.effects import Effect, Steps, perform, sync, twin
from langchain_convmem.errors import (
    ConfigError,
    CorruptEntryError,
    LogError,
    LogUnavailableError,
    SchemaVersionError,
)
from langchain_convmem.ids import decode_ulid, encode_ulid, get_now_ms, get_ulid_ms, is_ulid
from langchain_convmem.logs.base import (
    EncodedDraft,
    Row,
    annotate_metadata,
    annotate_row,
    build_changes,
    build_line_changes,
    cap_bound,
    cap_count,
    check_ids,
    check_scope,
    check_user,
    decode_document,
    decode_entry,
    encode_drafts,
    encode_state,
    hash_message_id,
    list_own_ids,
    make_version,
    note_damage,
    plan_append,
    read_message_id,
)
from langchain_convmem.logs.postgres_pool import (
    ConnectionLostError,
    ConnectionOptions,
    Job,
    Mode,
    PostgresConnections,
    Transaction,
)
from langchain_convmem.logs.signatures import Signer, check_key
from langchain_convmem.logs.sql import Dialect, Statements, add_thread_keys
from langchain_convmem.protocols import CACHE_PREFIX
from langchain_convmem.records import (
    Changes,
    Draft,
    Entry,
    ForgetReceipt,
    LineChanges,
    Owner,
    Role,
    StateDocument,
    StoredSegment,
    ThreadInfo,
    ThreadKey,
)
from langchain_convmem.views.codec import load_json

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection
    from psycopg_pool import AsyncConnectionPool, ConnectionPool

T = TypeVar("T")

_SCHEMA_NAME = re.compile("(?!pg_)[A-Za-z_][A-Za-z0-9_]{0,62}")
_SEGMENTS_AT_ONCE = 1000
"""Segments per transaction: an owner's other writers wait for one such portion at most."""
PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Between questions about a commit whose answer was lost."""

COLUMNS = (
    "e.position, e.id, e.turn, e.turn_name, textsend(e.role), textsend(e.payload), "
    "textsend(e.metadata), e.signature"
)
"""What `read_row` takes, of the table `entries e`; text as bytes, whatever it is."""
_ROLES: Mapping[bytes, Role] = {role.encode(): role for role in get_args(Role)}
_THREAD = (
    "(SELECT t.thread FROM {s}.threads t JOIN {s}.owners o ON o.owner = t.owner "
    "WHERE o.digest = %s AND t.digest = %s)"
)
"""A thread's number by `_name_thread`; NULL if there is none."""
_DIALECT = Dialect(
    value="%s",
    tables="{s}.",
    position="position",
    columns=COLUMNS,
    control="'control'",
    among=lambda _: "= ANY(%s::bigint[])",
)
_BY_NUMBER = Statements(_DIALECT, thread="%s")
_BY_NAME = Statements(_DIALECT, thread=_THREAD)


class PostgresLog:
    """A message log in a schema of a PostgreSQL database (13 or newer, encoding UTF8).

    The schema is created by the first call, or by `setup`. Safe to share between
    threads, event loops and forked processes, and to open many times; asynchronous calls use
    asynchronous connections, of which each event loop has its own. Works behind PgBouncer in
    transaction mode: nothing is kept in a session, but see `prepared_statements`.

    A connection that breaks before its COMMIT is replaced and the call is made once more. If the
    answer to a COMMIT is lost, the server is asked whether it was carried out.
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        pool: ConnectionPool[Any] | Connection[Any] | None = None,
        async_pool: AsyncConnectionPool[Any] | AsyncConnection[Any] | None = None,
        schema: str = "convmem",
        min_size: int = 1,
        max_size: int = 10,
        statement_timeout_s: float | None = 30.0,
        prepared_statements: bool = True,
        signing_key: bytes | str | None = None,
    ) -> None:
        """Prepare the log; the first call connects.

        Args:
            dsn: `postgresql://user@host:5432/database`, or libpq's `key=value` form.
            pool: Instead of connections of its own: a pool or one connection of the caller's, for
                the synchronous calls. It must be in no transaction; it is never closed.
            async_pool: The same for the asynchronous calls.
            schema: Where the tables are: letters, digits and `_`; case counts.
            min_size: So many own connections stay open however long they are idle.
            max_size: So many own connections at once, for the threads and for each event loop;
                who comes after them waits, for 30 seconds.
            statement_timeout_s: How long a statement may take, waiting for other writers included;
                of `forget` and of `setup` only the waiting is limited. None: the server's
                settings count.
            prepared_statements: Let own connections keep prepared statements; switch it off behind
                a PgBouncer older than 1.21.
            signing_key: A secret of 16 to 64 bytes with which entries are signed: then the log
                shows changes by anybody who does not know it, too. All that open the schema need
                it, from its first entry on.

        Raises:
            MissingExtraError: If psycopg is not installed.
            ConfigError: If an argument cannot be, or there is neither a dsn nor a connection.
        """
        if dsn is None and pool is None and async_pool is None:
            raise ConfigError("PostgresLog needs a dsn, a pool or an async_pool")
        if not _SCHEMA_NAME.fullmatch(schema):
            msg = (
                f"schema {schema!r} is no plain name: up to 63 letters, digits and '_', not "
                "beginning with a digit or 'pg_'"
            )
            raise ConfigError(msg)
        if not 0 <= min_size <= max_size or max_size < 1:
            msg = f"pool sizes must be 0 <= min_size <= max_size, got {min_size} and {max_size}"
            raise ConfigError(msg)
        if statement_timeout_s is not None and not statement_timeout_s > 0:
            msg = f"statement_timeout_s must be positive or None, got {statement_timeout_s!r}"
            raise ConfigError(msg)
        options = ConnectionOptions(
            dsn=dsn,
            pool=pool,
            async_pool=async_pool,
            schema=schema,
            min_size=min_size,
            max_size=max_size,
            statement_timeout_s=statement_timeout_s,
            prepared_statements=prepared_statements,
        )
        self._connections = PostgresConnections(options)
        self._signer = Signer(signing_key)
        self._is_set_up = False

    def __repr__(self) -> str:
        return f"<PostgresLog on {self._connections.place}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @sync
    def setup(self) -> Steps[None]:
        """Create the schema now; the first call would.

        Needs the right to create; the other calls need no more than to read and write the tables.

        Raises:
            SchemaVersionError: If another release or another program wrote the schema.
            ConfigError: If its entries are signed with another key, or with none.
        """
        return self._set_up()

    asetup = twin(setup)

    def close(self) -> None:
        """Close own connections; later calls raise `LogClosedError`. Idempotent, never waits."""
        self._connections.close()

    async def aclose(self) -> None:
        """Close own connections, those of every event loop and thread."""
        self._connections.close()

    # -- writing --------------------------------------------------------------------------------

    @sync
    def append(
        self, key: ThreadKey, drafts: Sequence[Draft], *, durable: bool = True
    ) -> Steps[list[Entry]]:
        """Append all drafts in one transaction; see `MessageLog.append`.

        A cancelled asynchronous call has written all or nothing.
        """
        batch = encode_drafts(drafts)
        self._connections.check_open()
        if not batch:
            return []
        job = partial(_append, key=key, batch=batch, signer=self._signer)
        return (yield from self._call(Mode.WRITE if durable else Mode.RELAXED, job))

    aappend = twin(append)

    @sync
    def annotate(
        self,
        key: ThreadKey,
        entry_id: str,
        *,
        attributes: Sequence[str] = (),
        timing: Mapping[str, int] | None = None,
        aux: Mapping[str, Any] | None = None,
    ) -> Steps[Entry]:
        """Add to an entry's metadata, durably; see `MessageLog.annotate`."""
        change = partial(annotate_metadata, attributes=attributes, timing=timing, aux=aux)
        job = partial(_annotate, key=key, entry_id=entry_id, change=change, signer=self._signer)
        return self._call(Mode.WRITE, job)

    aannotate = twin(annotate)

    # -- reading --------------------------------------------------------------------------------

    @sync
    def entries(
        self,
        key: ThreadKey,
        *,
        after: int = 0,
        until: int | None = None,
        last: int | None = None,
    ) -> Steps[list[Entry]]:
        """Return entries in order of position; see `MessageLog.entries`."""
        job = partial(
            _read_range, key=key, after=after, until=until, last=last, signer=self._signer
        )
        return self._call(Mode.READ, job)

    aentries = twin(entries)

    @sync
    def find(self, key: ThreadKey, message_ids: Collection[str]) -> Steps[list[Entry]]:
        """Return the entries with these message ids, by an index; see `MessageLog.find`."""
        check_ids(message_ids)
        job = partial(_find, key=key, wanted=frozenset(message_ids), signer=self._signer)
        return self._call(Mode.READ, job)

    afind = twin(find)

    @sync
    def threads(self, user_id: str | None) -> Steps[list[ThreadInfo]]:
        """Return a user's threads, latest first; see `MessageLog.threads`."""
        check_user(user_id)
        return self._call(Mode.READ, partial(_list_threads, user_id=user_id))

    athreads = twin(threads)

    @sync
    def owners(self) -> Steps[list[Owner]]:
        """Return every user and every thread of no user that has entries."""
        return self._call(Mode.READ, _list_owners)

    aowners = twin(owners)

    @sync
    def changes(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Steps[Changes]:
        """Return entries after the cursor in commit order; see `MessageLog.changes`."""
        job = partial(_read_changes, owner=owner, cursor=cursor, limit=limit, signer=self._signer)
        return self._call(Mode.READ, job)

    achanges = twin(changes)

    @sync
    def line_changes(
        self, owner: Owner, cursor: int = 0, *, limit: int | None = None
    ) -> Steps[LineChanges]:
        """Return lines after the cursor in commit order; see `LineSource.line_changes`."""
        job = partial(
            _read_line_changes, owner=owner, cursor=cursor, limit=limit, signer=self._signer
        )
        return self._call(Mode.READ, job)

    # -- erasing --------------------------------------------------------------------------------

    @sync
    def forget(
        self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None = None
    ) -> Steps[ForgetReceipt]:
        """Erase an owner, a thread or some of its entries; see `MessageLog.forget`.

        The rows are gone for every reader at once. Their space is overwritten when PostgreSQL
        vacuums the tables; its backups and archived write-ahead log keep them until they expire.
        """
        check_scope(scope, entry_ids)
        ids = None if entry_ids is None else tuple(entry_ids)
        return self._call(Mode.ERASE, partial(_forget, scope=scope, entry_ids=ids))

    aforget = twin(forget)

    # -- state documents ------------------------------------------------------------------------

    @sync
    def get_state(self, key: ThreadKey, name: str) -> Steps[StateDocument | None]:
        """Return the document, or None."""
        job = partial(_read_document, key=key, name=name, signer=self._signer)
        return self._call(Mode.READ, job)

    aget_state = twin(get_state)

    @sync
    def set_state(
        self, key: ThreadKey, name: str, value: Any, *, expected: int | None
    ) -> Steps[StateDocument | None]:
        """Write the document if its version is `expected`; see `ThreadState.set_state`."""
        text, version = encode_state(value), make_version(expected)
        new = self._sign_document(key, name, text, version)
        job = partial(_write_document, key=key, new=new, expected=expected, signer=self._signer)
        is_written = yield from self._call(Mode.WRITE, job)
        return StateDocument(load_json(text), version) if is_written else None

    aset_state = twin(set_state)

    @sync
    def delete_state(self, key: ThreadKey, name: str) -> Steps[None]:
        """Delete the document if there is one."""
        return self._call(Mode.WRITE, partial(_delete_document, key=key, name=name))

    adelete_state = twin(delete_state)

    @sync
    def list_states(self, user_id: str | None, name: str) -> Steps[dict[str, StateDocument]]:
        """Return the documents of one name by thread id; see `StateBatches`."""
        check_user(user_id)
        job = partial(_list_documents, user_id=user_id, name=name, signer=self._signer)
        return self._call(Mode.READ, job)

    alist_states = twin(list_states)

    @sync
    def add_states(self, user_id: str | None, name: str, values: Mapping[str, Any]) -> Steps[None]:
        """Write documents where there are none, in one transaction; see `StateBatches`."""
        version, documents = make_version(None), {}
        for thread_id, value in values.items():
            key = ThreadKey(user_id, thread_id)
            documents[key] = self._sign_document(key, name, encode_state(value), version)
        return self._call(Mode.WRITE, partial(_add_documents, documents=documents))

    aadd_states = twin(add_states)

    def _sign_document(self, key: ThreadKey, name: str, text: str, version: int) -> _NewDocument:
        checksum = self._signer.sign_document(key, name, version, text)
        return _NewDocument(name, text, version, checksum)

    # -- segments -------------------------------------------------------------------------------

    @sync
    def load_segments(
        self, owner: Owner, fingerprint: str, *, after: int = 0
    ) -> Steps[list[StoredSegment]]:
        """Return the owner's rows, in order; see `SegmentCache.load_segments`."""
        job = partial(_load_segments, owner=owner, fingerprint=fingerprint, after=after)
        return self._call(Mode.READ, job)

    @sync
    def save_segments(
        self, owner: Owner, fingerprint: str, rows: Iterable[StoredSegment]
    ) -> Steps[None]:
        """Add or overwrite rows, a thousand per transaction; see `SegmentCache.save_segments`.

        They can be made again, so no disk is waited for.
        """
        whole = list(rows)
        for start in range(0, len(whole), _SEGMENTS_AT_ONCE):
            portion = whole[start : start + _SEGMENTS_AT_ONCE]
            job = partial(_save_segments, owner=owner, fingerprint=fingerprint, rows=portion)
            yield from self._call(Mode.RELAXED, job)

    @sync
    def segment_fingerprints(self, owner: Owner) -> Steps[list[str]]:
        """Return under which names there are vectors; see `SegmentCache.segment_fingerprints`."""
        return self._call(Mode.READ, partial(_list_fingerprints, owner=owner))

    @sync
    def delete_segments(self, owner: Owner, fingerprint: str) -> Steps[int]:
        """Delete rows, a thousand per transaction; see `SegmentCache.delete_segments`."""
        portion = partial(
            _delete_segments, owner=owner, fingerprint=fingerprint, most=_SEGMENTS_AT_ONCE
        )
        deleted = gone = yield from self._call(Mode.RELAXED, portion)
        while gone == _SEGMENTS_AT_ONCE:
            gone = yield from self._call(Mode.RELAXED, portion)
            deleted += gone
        return deleted

    # -- one call -------------------------------------------------------------------------------

    def _call(self, mode: Mode, job: Job[T]) -> Steps[T]:
        """Run a job in a transaction, on tables that are there."""
        yield from self._set_up()
        return (yield from self._try(mode, job))

    def _set_up(self) -> Steps[None]:
        self._connections.check_open()
        if not self._is_set_up:
            key_id = self._signer.key_id
            if not (yield from self._try(Mode.READ, partial(_is_current, key_id=key_id))):
                yield from self._try(Mode.ERASE, partial(_create_schema, key_id=key_id))
            self._is_set_up = True

    def _try(self, mode: Mode, job: Job[T]) -> Steps[T]:
        """Run a job; once more, on a new connection, where the first was lost before its commit.

        A server that restarted leaves every idle connection broken, and the first call to use one
        would fail for nothing: what was not committed is undone.
        """
        try:
            return (yield from self._try_once(mode, job))
        except ConnectionLostError:
            yield from perform(self._connections.drop_idle, self._connections.adrop_idle)
        return (yield from self._try_once(mode, job))

    def _try_once(self, mode: Mode, job: Job[T]) -> Steps[T]:
        """Run a job; one whose commit was carried out is done, whether the answer came or not."""
        try:
            result: T = yield Effect(
                partial(self._connections.transact, mode, job),
                partial(self._connections.atransact, mode, job),
            )
        except ConnectionLostError as lost:
            if lost.transaction is None or not lost.transaction.committing:
                raise
            result = yield from self._learn_outcome(lost, lost.transaction)
        return result

    def _learn_outcome(self, lost: ConnectionLostError, transaction: Transaction) -> Steps[Any]:
        """Ask the server what became of a commit whose answer was lost."""
        yield from perform(self._connections.drop_idle, self._connections.adrop_idle)
        for pause_s in PAUSES_S:
            fate = yield from self._read_fate(transaction)
            if fate == "committed":
                return transaction.result
            if fate == "aborted":
                raise LogUnavailableError(f"{lost}; nothing was written") from lost
            yield Effect(partial(time.sleep, pause_s), partial(asyncio.sleep, pause_s))
        msg = f"{lost}; whether it was written is not known: repeat it with the same message ids"
        raise LogUnavailableError(msg) from lost

    def _read_fate(self, transaction: Transaction) -> Steps[str | None]:
        job = partial(_read_status, xid=transaction.xid)
        try:
            fate: str | None = yield Effect(
                partial(self._connections.transact, Mode.READ, job),
                partial(self._connections.atransact, Mode.READ, job),
            )
        except LogUnavailableError:
            return None  # the server may be back for the next question
        return fate


def _read_status(tx: Transaction, xid: str | None) -> Steps[str | None]:
    [(status,)] = yield tx.query("SELECT pg_xact_status(%s::text::xid8)", xid)
    fate: str | None = status
    return fate


# -- owners and threads -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _LockedOwner:
    """An owner's row, locked until the transaction ends."""

    number: int
    last_position: int


def _name_thread(key: ThreadKey) -> tuple[bytes, bytes]:
    """Return what `_THREAD` binds."""
    return _digest_owner(key.owner), _digest_thread(key.thread_id)


def _lock_owner(tx: Transaction, owner: Owner) -> Steps[_LockedOwner | None]:
    """Lock an owner, waiting for its other writers; None if nothing is kept of it."""
    found = yield tx.query(
        "SELECT owner, last_position FROM {s}.owners WHERE digest = %s FOR UPDATE",
        _digest_owner(owner),
    )
    return _LockedOwner(*found[0]) if found else None


def _make_owner(tx: Transaction, owner: Owner) -> Steps[_LockedOwner]:
    """Lock an owner, made if need be."""
    there = yield from _lock_owner(tx, owner)
    if there is not None:
        return there
    name = None if owner.user_id is None else _store_name(owner.user_id)
    [(number, last_position, generation)] = yield tx.query(
        "INSERT INTO {s}.owners(digest, user_id) VALUES (%s, %s) "
        "ON CONFLICT (digest) DO UPDATE SET user_id = excluded.user_id "
        "RETURNING owner, last_position, generation",
        _digest_owner(owner),
        name,
    )
    if generation is not None:  # another writer was faster
        return _LockedOwner(number, last_position)
    # A statement of its own: the one before may have waited for a `forget` of this very owner,
    # and would not see where that left the positions and the epoch.
    [row] = yield tx.query(
        "UPDATE {s}.owners o SET last_position = m.position_floor, generation = m.forget_epoch "
        "FROM {s}.log_meta m WHERE o.owner = %s RETURNING o.owner, o.last_position",
        number,
    )
    return _LockedOwner(*row)


def _make_thread(tx: Transaction, owner: _LockedOwner, thread_id: str) -> Steps[int]:
    """Return the number of a locked owner's thread, made if need be."""
    digest = _digest_thread(thread_id)
    found = yield tx.query(
        "SELECT thread FROM {s}.threads WHERE owner = %s AND digest = %s", owner.number, digest
    )
    if not found:
        found = yield tx.query(
            "INSERT INTO {s}.threads(owner, digest, thread_id) VALUES (%s, %s, %s) "
            "RETURNING thread",
            owner.number,
            digest,
            _store_name(thread_id),
        )
    [(number,)] = found
    return int(number)


# -- writing ----------------------------------------------------------------------------------


def _append(
    tx: Transaction, key: ThreadKey, batch: Sequence[EncodedDraft], signer: Signer
) -> Steps[list[Entry]]:
    """Store what is new of a batch."""
    owner = yield from _make_owner(tx, key.owner)
    thread = yield from _make_thread(tx, owner, key.thread_id)
    stored = yield from _read_stored(tx, thread, batch)
    plan = plan_append(
        batch,
        note_damage(signer, key, stored),
        first_position=owner.last_position + 1,
        sign=partial(signer.sign, key),
    )
    if plan.added:
        pairs = zip(plan.added, plan.key_hashes, strict=True)
        columns = zip(*(_write_row(row, key_hash) for row, key_hash in pairs), strict=True)
        yield tx.query(
            "WITH numbered AS (UPDATE {s}.owners SET last_position = %s WHERE owner = %s) "
            "INSERT INTO {s}.entries(owner, thread, position, id, turn, turn_name, role, key_hash, "
            "payload, metadata, signature) SELECT %s, %s, * FROM unnest(%s::bigint[], %s::uuid[], "
            "%s::uuid[], %s::bytea[], %s::text[], %s::bigint[], %s::text[], %s::text[], "
            "%s::bytea[])",
            plan.added[-1].position,
            owner.number,
            owner.number,
            thread,
            *map(list, columns),
        )
    return plan.build_entries(key)


def _read_stored(tx: Transaction, thread: int, batch: Iterable[EncodedDraft]) -> Steps[list[Row]]:
    """Return what `plan_append` asks for."""
    hashes = [hash_message_id(own_id) for own_id in list_own_ids(batch)]
    if not hashes:
        return []
    found = yield tx.query(_BY_NUMBER.select_versions(len(hashes)), thread, hashes)
    if found:
        found += yield tx.query(_BY_NUMBER.controls, thread)
    return [read_row(columns) for columns in found]


def _annotate(
    tx: Transaction,
    key: ThreadKey,
    entry_id: str,
    change: Callable[[str | None], str | None],
    signer: Signer,
) -> Steps[Entry]:
    """Change an entry's metadata; its row lock keeps changes at once from losing one."""
    found: list[tuple[Any, ...]] = []
    if is_ulid(entry_id):
        found = yield tx.query(
            f"SELECT e.owner, {COLUMNS} FROM {{s}}.entries e "
            f"WHERE e.thread = {_THREAD} AND e.id = %s FOR NO KEY UPDATE OF e",
            *_name_thread(key),
            _to_uuid(entry_id),
        )
    if not found:
        msg = f"thread {key.thread_id!r} has no entry {entry_id!r}"
        raise LogError(msg, thread_id=key.thread_id)
    owner, *columns = found[0]
    row = annotate_row(key, read_row(columns), change, signer)
    yield tx.change(
        "UPDATE {s}.entries SET metadata = %s, signature = %s WHERE owner = %s AND position = %s",
        row.metadata,
        row.signature,
        owner,
        row.position,
    )
    return decode_entry(key, row, signer)


# -- reading ----------------------------------------------------------------------------------


def _read_range(
    tx: Transaction,
    key: ThreadKey,
    *,
    after: int,
    until: int | None,
    last: int | None,
    signer: Signer,
) -> Steps[list[Entry]]:
    """Return a thread's entries after `after` up to `until`, ascending; the latest `last`."""
    bounds = cap_bound(after), cap_bound(until), cap_count(last)
    found = yield tx.query(_BY_NAME.entries, *_name_thread(key), *bounds)
    return [decode_entry(key, read_row(columns), signer) for columns in reversed(found)]


def _find(
    tx: Transaction, key: ThreadKey, wanted: Collection[str], signer: Signer
) -> Steps[list[Entry]]:
    """Return a thread's entries with these message ids, ascending."""
    hashes = [hash_message_id(message_id) for message_id in wanted]
    found = yield tx.query(_BY_NAME.select_versions(len(hashes)), *_name_thread(key), hashes)
    rows = [read_row(columns) for columns in found]
    named = [row for row in rows if read_message_id(row.id, row.body) in wanted]
    return [decode_entry(key, row, signer) for row in named]


def _select_user(user_id: str | None) -> tuple[str, list[Any]]:
    """Return the condition for a user's owner, or for the owners of lone threads; its values."""
    if user_id is None:
        return "o.user_id IS NULL", []
    return "o.digest = %s", [_digest_owner(Owner(user_id=user_id))]


def _list_threads(tx: Transaction, user_id: str | None) -> Steps[list[ThreadInfo]]:
    """Return a user's threads that have entries, latest first; None: the threads of no user."""
    whose, values = _select_user(user_id)
    found = yield tx.query(
        "SELECT t.thread_id, ends.count, first.id, last.id FROM {s}.owners o "
        "JOIN {s}.threads t ON t.owner = o.owner "
        "CROSS JOIN LATERAL (SELECT count(*), min(e.position), max(e.position) "
        "FROM {s}.entries e WHERE e.thread = t.thread) ends "
        "JOIN {s}.entries first ON first.owner = o.owner AND first.position = ends.min "
        "JOIN {s}.entries last ON last.owner = o.owner AND last.position = ends.max "
        f"WHERE {whose} ORDER BY last.id DESC",
        *values,
    )
    return [
        ThreadInfo(
            ThreadKey(user_id, _read_name(name)),
            count,
            get_ulid_ms(_to_ulid(first)),
            get_ulid_ms(_to_ulid(last)),
        )
        for name, count, first, last in found
    ]


def _list_owners(tx: Transaction) -> Steps[list[Owner]]:
    """Return all owners that have entries."""
    found = yield tx.query(
        "SELECT o.user_id, CASE WHEN o.user_id IS NULL THEN "
        "(SELECT t.thread_id FROM {s}.threads t WHERE t.owner = o.owner) END "
        "FROM {s}.owners o WHERE EXISTS (SELECT FROM {s}.entries e WHERE e.owner = o.owner)"
    )
    return [
        Owner(thread_id=_read_name(thread)) if user is None else Owner(user_id=_read_name(user))
        for user, thread in found
    ]


def _read_changes(
    tx: Transaction, owner: Owner, cursor: int, *, limit: int | None, signer: Signer
) -> Steps[Changes]:
    """Return an owner's entries after a cursor, in the order they were committed."""
    rows, generation = yield from _read_later(tx, owner, cursor, limit)
    return build_changes(rows, cursor, generation, signer)


def _read_line_changes(
    tx: Transaction, owner: Owner, cursor: int, *, limit: int | None, signer: Signer
) -> Steps[LineChanges]:
    """Return the dialog lines of an owner after a cursor, in the order they were committed."""
    rows, generation = yield from _read_later(tx, owner, cursor, limit)
    return build_line_changes(rows, cursor, generation, limit, signer)


def _read_later(
    tx: Transaction, owner: Owner, cursor: int, limit: int | None
) -> Steps[tuple[Iterable[tuple[ThreadKey, Row]], int]]:
    """Return an owner's rows after a cursor, and the generation."""
    [(number, generation)] = yield tx.query(
        "SELECT o.owner, coalesce(o.generation, m.forget_epoch) "
        "FROM {s}.log_meta m LEFT JOIN {s}.owners o ON o.digest = %s",
        _digest_owner(owner),
    )
    found: list[tuple[Any, ...]] = yield tx.query(
        f"SELECT t.thread_id, {COLUMNS} FROM {{s}}.entries e "
        "JOIN {s}.threads t ON t.thread = e.thread "
        "WHERE e.owner = %s AND e.position > %s ORDER BY e.position LIMIT %s",
        number,
        cap_bound(cursor),
        cap_count(limit),
    )
    rows = add_thread_keys(owner, found, lambda columns, _: read_row(columns), _read_name)
    return rows, generation


# -- erasing ----------------------------------------------------------------------------------


def _forget(
    tx: Transaction, scope: Owner | ThreadKey, entry_ids: Collection[str] | None
) -> Steps[ForgetReceipt]:
    """Erase an owner, a thread or some of its entries, and raise the owner's generation."""
    owner = yield from _lock_owner(tx, scope.owner if isinstance(scope, ThreadKey) else scope)
    counts = (0, 0, 0, 0)
    dropped = False
    if owner is not None:
        numbers = yield from _list_numbers(tx, owner, scope)
        if entry_ids is None or isinstance(scope, Owner):
            counts = yield from _erase_threads(tx, numbers)
        elif numbers:
            counts = yield from _erase_entries(tx, owner, numbers[0], entry_ids)
        dropped = yield from _drop_if_empty(tx, owner)
    yield from _raise_epoch(tx, owner, dropped=dropped)
    return ForgetReceipt(*counts, at_ms=get_now_ms())


def _list_numbers(
    tx: Transaction, owner: _LockedOwner, scope: Owner | ThreadKey
) -> Steps[list[int]]:
    text, values = "SELECT thread FROM {s}.threads WHERE owner = %s", [owner.number]
    if isinstance(scope, ThreadKey):
        found = yield tx.query(f"{text} AND digest = %s", *values, _digest_thread(scope.thread_id))
    else:
        found = yield tx.query(text, *values)
    return [number for (number,) in found]


_Counts = tuple[int, int, int, int]
"""Entries, threads, segments, documents."""


def _erase_threads(tx: Transaction, numbers: Sequence[int]) -> Steps[_Counts]:
    # Segments and documents would go with their entries and threads; here they are counted.
    segments: int = yield tx.change(
        "DELETE FROM {s}.segments s USING {s}.entries e "
        "WHERE (s.owner, s.position) = (e.owner, e.position) AND e.thread = ANY(%s::bigint[])",
        numbers,
    )
    of_threads = "WHERE thread = ANY(%s::bigint[])"
    entries: int = yield tx.change(f"DELETE FROM {{s}}.entries {of_threads}", numbers)
    documents: int = yield tx.change(f"DELETE FROM {{s}}.documents {of_threads}", numbers)
    threads: int = yield tx.change(f"DELETE FROM {{s}}.threads {of_threads}", numbers)
    return entries, threads, segments, documents


def _erase_entries(
    tx: Transaction, owner: _LockedOwner, thread: int, ids: Collection[str]
) -> Steps[_Counts]:
    """Delete entries by entry id or message id, every version of a message, and all caches."""
    found = yield tx.query(
        "SELECT position, id, textsend(payload) FROM {s}.entries WHERE thread = %s "
        "AND (id = ANY(%s::uuid[]) OR key_hash = ANY(%s::bigint[]))",
        thread,
        [_to_uuid(wanted) for wanted in ids if is_ulid(wanted)],
        [hash_message_id(wanted) for wanted in ids],
    )
    wanted = frozenset(ids)
    positions = [
        position
        for position, entry_id, payload in found
        if wanted.intersection((_to_ulid(entry_id), _read_own_id(payload)))
    ]
    values = (owner.number, positions)
    chosen = "WHERE owner = %s AND position = ANY(%s::bigint[])"
    segments: int = yield tx.change(f"DELETE FROM {{s}}.segments {chosen}", *values)
    gone: int = yield tx.change(f"DELETE FROM {{s}}.entries {chosen}", *values)
    caches: int = yield tx.change(
        "DELETE FROM {s}.documents WHERE thread = %s AND starts_with(name, %s)",
        thread,
        CACHE_PREFIX,
    )
    return gone, 0, segments, caches


def _read_own_id(payload: bytes) -> str:
    """Return a stored message's own id; empty without one, or where it cannot be read."""
    return read_message_id("", payload.decode(errors="replace"))


def _drop_if_empty(tx: Transaction, owner: _LockedOwner) -> Steps[bool]:
    """Delete an owner without threads: not even the name stays."""
    touched: int = yield tx.change(
        "DELETE FROM {s}.owners o WHERE o.owner = %s "
        "AND NOT EXISTS (SELECT FROM {s}.threads t WHERE t.owner = o.owner)",
        owner.number,
    )
    return touched > 0


def _raise_epoch(tx: Transaction, owner: _LockedOwner | None, *, dropped: bool) -> Steps[None]:
    """Give the owner a generation that no earlier reader has seen.

    The last thing before the commit, since everyone who forgets meets at this row. A dropped owner
    who comes back must not get a position twice: cursors of others may stand after it.
    """
    yield tx.query(
        "WITH raised AS (UPDATE {s}.log_meta SET forget_epoch = forget_epoch + 1, "
        "position_floor = greatest(position_floor, %s) RETURNING forget_epoch) "
        "UPDATE {s}.owners SET generation = raised.forget_epoch FROM raised WHERE owner = %s",
        owner.last_position if owner is not None and dropped else 0,
        None if owner is None else owner.number,
    )


# -- state documents --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _NewDocument:
    """A state document to be written."""

    name: str
    text: str
    version: int
    checksum: bytes


def _read_document(
    tx: Transaction, key: ThreadKey, name: str, signer: Signer
) -> Steps[StateDocument | None]:
    """Return a document, or None."""
    found = yield tx.query(
        "SELECT version, textsend(value), checksum FROM {s}.documents "
        f"WHERE thread = {_THREAD} AND name = %s",
        *_name_thread(key),
        _store_name(name),
    )
    return decode_document(key, name, found[0], signer) if found else None


def _list_documents(
    tx: Transaction, user_id: str | None, name: str, signer: Signer
) -> Steps[dict[str, StateDocument]]:
    """Return the sound documents of one name of a user's threads, by thread id."""
    whose, values = _select_user(user_id)
    rows = yield tx.query(
        "SELECT t.thread_id, d.version, textsend(d.value), d.checksum FROM {s}.owners o "
        "JOIN {s}.threads t ON t.owner = o.owner JOIN {s}.documents d ON d.thread = t.thread "
        f"WHERE {whose} AND d.name = %s",
        *values,
        _store_name(name),
    )
    found: dict[str, StateDocument] = {}
    for stored_name, *stored in rows:
        key = ThreadKey(user_id, _read_name(stored_name))
        with suppress(CorruptEntryError):
            document = decode_document(key, name, tuple(stored), signer)
            found |= {} if document is None else {key.thread_id: document}
    return found


def _write_document(
    tx: Transaction, key: ThreadKey, new: _NewDocument, *, expected: int | None, signer: Signer
) -> Steps[bool]:
    """Write a document if its version is `expected`; return whether it was.

    A damaged cache counts as none.
    """
    if expected is None:
        is_written = yield from _add_document(tx, key, new)
        if is_written or not new.name.startswith(CACHE_PREFIX):
            return is_written
        if (yield from _read_document(tx, key, new.name, signer)) is not None:
            return False
        yield from _delete_document(tx, key, new.name)
        return (yield from _add_document(tx, key, new))
    touched: int = yield tx.change(
        "UPDATE {s}.documents SET version = %s, value = %s, checksum = %s "
        f"WHERE thread = {_THREAD} AND name = %s AND version = %s",
        new.version,
        new.text,
        new.checksum,
        *_name_thread(key),
        _store_name(new.name),
        expected,
    )
    return touched > 0


def _add_document(tx: Transaction, key: ThreadKey, new: _NewDocument) -> Steps[bool]:
    """Write a document unless there is one of its name; return whether it was."""
    owner = yield from _make_owner(tx, key.owner)
    thread = yield from _make_thread(tx, owner, key.thread_id)
    touched: int = yield tx.change(
        "INSERT INTO {s}.documents(thread, name, version, value, checksum) "
        "VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
        thread,
        _store_name(new.name),
        new.version,
        new.text,
        new.checksum,
    )
    return touched > 0


def _add_documents(tx: Transaction, documents: Mapping[ThreadKey, _NewDocument]) -> Steps[None]:
    """Write documents of several threads, where there are none."""
    for key, new in documents.items():
        yield from _add_document(tx, key, new)


def _delete_document(tx: Transaction, key: ThreadKey, name: str) -> Steps[None]:
    """Delete a document if there is one."""
    yield tx.change(
        f"DELETE FROM {{s}}.documents WHERE thread = {_THREAD} AND name = %s",
        *_name_thread(key),
        _store_name(name),
    )


# -- segments ---------------------------------------------------------------------------------


def _load_segments(
    tx: Transaction, owner: Owner, fingerprint: str, *, after: int
) -> Steps[list[StoredSegment]]:
    """Return an owner's rows after position `after`, by position, part and segment."""
    found = yield tx.query(
        "SELECT s.position, s.part, s.segment, s.terms, s.vector, s.analysis, "
        "s.terms_check, s.vector_check FROM {s}.segments s "
        "JOIN {s}.owners o ON o.owner = s.owner "
        "JOIN {s}.fingerprints f ON f.fingerprint = s.fingerprint "
        "WHERE o.digest = %s AND f.name = %s AND s.position > %s "
        "ORDER BY s.position, s.part, s.segment",
        _digest_owner(owner),
        _store_name(fingerprint),
        after,
    )
    return [
        StoredSegment(position, part, segment, _decode_terms(terms), *derived)
        for position, part, segment, terms, *derived in found
    ]


def _decode_terms(terms: bytes) -> str:
    return terms.decode("utf-8", "surrogatepass")


def _save_segments(
    tx: Transaction, owner: Owner, fingerprint: str, rows: Sequence[StoredSegment]
) -> Steps[None]:
    """Add or overwrite rows whose entry is still the owner's."""
    locked = yield from _lock_owner(tx, owner)
    if locked is None:
        return
    number = yield from _number_fingerprint(tx, fingerprint)
    # One statement cannot overwrite a row twice: the last of several with one key counts.
    latest = {(row.position, row.part, row.segment): row for row in rows}
    values = [_write_segment(row) for row in latest.values()]
    yield tx.query(
        "INSERT INTO {s}.segments (owner, position, part, segment, fingerprint, terms, vector, "
        "analysis, terms_check, vector_check) "
        "SELECT e.owner, e.position, n.part, n.segment, %s, n.terms, n.vector, n.analysis, "
        "n.terms_check, n.vector_check "
        "FROM unnest(%s::bigint[], %s::integer[], %s::integer[], %s::bytea[], %s::bytea[], "
        "%s::integer[], %s::bigint[], %s::bigint[]) "
        "AS n(position, part, segment, terms, vector, analysis, terms_check, vector_check) "
        "JOIN {s}.entries e ON e.owner = %s AND e.position = n.position "
        "ON CONFLICT (owner, position, part, segment, fingerprint) DO UPDATE "
        "SET terms = excluded.terms, terms_check = excluded.terms_check, "
        "vector = coalesce(excluded.vector, segments.vector), "
        "vector_check = CASE WHEN excluded.vector IS NULL THEN segments.vector_check "
        "ELSE excluded.vector_check END, analysis = excluded.analysis",
        number,
        *map(list, zip(*values, strict=True)),
        locked.number,
    )


def _write_segment(row: StoredSegment) -> tuple[Any, ...]:
    """Return a row's columns from its position on."""
    terms = row.terms.encode("utf-8", "surrogatepass")
    derived = row.vector, row.analysis, row.terms_check, row.vector_check
    return (row.position, row.part, row.segment, terms, *derived)


def _list_fingerprints(tx: Transaction, owner: Owner) -> Steps[list[str]]:
    """Return the fingerprints under which an owner has rows with a vector."""
    found = yield tx.query(
        "SELECT f.name FROM {s}.fingerprints f WHERE EXISTS ("
        "SELECT FROM {s}.segments s JOIN {s}.owners o ON o.owner = s.owner WHERE o.digest = %s "
        "AND s.fingerprint = f.fingerprint AND s.vector IS NOT NULL)",
        _digest_owner(owner),
    )
    return sorted(_read_name(name) for (name,) in found)


def _delete_segments(tx: Transaction, owner: Owner, fingerprint: str, *, most: int) -> Steps[int]:
    """Delete at most so many of an owner's rows; return how many there were."""
    locked = yield from _lock_owner(tx, owner)
    if locked is None:
        return 0
    gone: int = yield tx.change(
        "DELETE FROM {s}.segments WHERE ctid = ANY (ARRAY ("
        "SELECT s.ctid FROM {s}.segments s JOIN {s}.fingerprints f "
        "ON f.fingerprint = s.fingerprint WHERE s.owner = %s AND f.name = %s LIMIT %s))",
        locked.number,
        _store_name(fingerprint),
        most,
    )
    return gone


def _number_fingerprint(tx: Transaction, name: str) -> Steps[int]:
    asked = "SELECT fingerprint FROM {s}.fingerprints WHERE name = %s"
    found = yield tx.query(asked, _store_name(name))
    if not found:
        yield tx.query(
            "INSERT INTO {s}.fingerprints(name) VALUES (%s) ON CONFLICT DO NOTHING",
            _store_name(name),
        )
        found = yield tx.query(asked, _store_name(name))
    return int(found[0][0])


# -- names and rows ---------------------------------------------------------------------------


_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def _store_name(name: str) -> str:
    r"""Return a name as `text` can hold it: NUL as `\0`, a backslash twice, all else as it is.

    Raises:
        ConfigError: If the name holds lone surrogates, which no encoding can hold.
    """
    _encode_name(name)
    return name.replace("\\", "\\\\").replace("\0", "\\0")


def _read_name(stored: str) -> str:
    """Return the name that `_store_name` wrote."""
    return _ESCAPED.sub(lambda found: "\0" if found[1] == "0" else found[1], stored)


def _digest_owner(owner: Owner) -> bytes:
    """Return 32 bytes that stand for an owner in an index, however long the name is.

    Raises:
        ConfigError: If the name holds lone surrogates.
    """
    kind, name = (b"t", owner.thread_id) if owner.user_id is None else (b"u", owner.user_id)
    return hashlib.sha256(kind + _encode_name(name or "")).digest()


def _digest_thread(thread_id: str) -> bytes:
    """Return 32 bytes that stand for a thread's id among its owner's.

    Raises:
        ConfigError: If the id holds lone surrogates.
    """
    return hashlib.sha256(_encode_name(thread_id)).digest()


def _encode_name(name: str) -> bytes:
    try:
        return name.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"the name {name!r} is no valid Unicode: {error.reason}") from error


def _to_uuid(ulid: str) -> UUID:
    """Return the 128 bits of a ULID; they sort alike."""
    return UUID(bytes=encode_ulid(ulid))


def _to_ulid(value: UUID) -> str:
    """Return the ULID that `_to_uuid` took."""
    return decode_ulid(value.bytes)


def read_row(columns: Sequence[Any]) -> Row:
    """Return the row of `COLUMNS`; what is wrong with them, if anything, is its `damage`."""
    position, entry_id, turn, turn_name, role, payload, metadata, signature = columns
    text_id = _to_ulid(entry_id)
    try:
        turn_id = text_id if turn is None else _to_ulid(turn)
        if turn_name is not None:
            turn_id = turn_name.decode("utf-8", "surrogatepass")
        text = None if metadata is None else metadata.decode()
        body = payload.decode()
        return Row(text_id, position, turn_id, _ROLES[role], body, text, signature)
    except (ValueError, LookupError):  # which may quote what it could not read
        damage = "its columns cannot be read"
        return Row(text_id, position, text_id, "control", "", None, damage=damage)


def _write_row(row: Row, key_hash: int | None) -> tuple[Any, ...]:
    """Return (position, id, turn, turn_name, role, key_hash, payload, metadata, signature).

    An entry that opens its turn stores no turn; a turn may have a name that is no ULID.
    """
    turn = turn_name = None
    if is_ulid(row.turn_id):
        turn = None if row.turn_id == row.id else _to_uuid(row.turn_id)
    else:
        turn_name = row.turn_id.encode("utf-8", "surrogatepass")
    return (
        row.position, _to_uuid(row.id), turn, turn_name, row.role, key_hash, row.body, row.metadata,
        row.signature,
    )  # fmt: skip


# -- the schema -------------------------------------------------------------------------------


SCHEMA_VERSION = 1

SCHEMA = """
CREATE TABLE {s}.log_meta(
  one boolean PRIMARY KEY CHECK (one),
  version integer NOT NULL,
  forget_epoch bigint NOT NULL,
  position_floor bigint NOT NULL,
  key_id bytea NOT NULL
);
CREATE TABLE {s}.owners(
  owner bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  digest bytea NOT NULL UNIQUE,
  user_id text,
  last_position bigint NOT NULL DEFAULT 0,
  generation bigint
) WITH (fillfactor = 80);
CREATE INDEX owners_without_user ON {s}.owners(owner) WHERE user_id IS NULL;
CREATE TABLE {s}.threads(
  thread bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  owner bigint NOT NULL REFERENCES {s}.owners,
  digest bytea NOT NULL,
  thread_id text NOT NULL,
  UNIQUE (owner, digest)
);
CREATE TABLE {s}.entries(
  owner bigint NOT NULL,
  position bigint NOT NULL,
  thread bigint NOT NULL REFERENCES {s}.threads ON DELETE CASCADE,
  id uuid NOT NULL,
  turn uuid,
  turn_name bytea,
  role text NOT NULL,
  key_hash bigint,
  payload text NOT NULL,
  metadata text,
  signature bytea NOT NULL,
  PRIMARY KEY (owner, position)
);
CREATE INDEX entries_by_thread ON {s}.entries(thread, position);
CREATE INDEX entries_by_key ON {s}.entries(thread, key_hash) WHERE key_hash IS NOT NULL;
CREATE INDEX entries_by_id ON {s}.entries(id);
CREATE INDEX entries_control ON {s}.entries(thread, position) WHERE role = 'control';
CREATE TABLE {s}.documents(
  thread bigint NOT NULL REFERENCES {s}.threads ON DELETE CASCADE,
  name text NOT NULL,
  version bigint NOT NULL,
  value text NOT NULL,
  checksum bytea NOT NULL,
  PRIMARY KEY (thread, name)
);
CREATE TABLE {s}.fingerprints(
  fingerprint integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL UNIQUE
);
CREATE TABLE {s}.segments(
  owner bigint NOT NULL,
  position bigint NOT NULL,
  part integer NOT NULL,
  segment integer NOT NULL,
  fingerprint integer NOT NULL REFERENCES {s}.fingerprints,
  terms bytea NOT NULL,
  vector bytea,
  analysis integer NOT NULL,
  terms_check bigint,
  vector_check bigint,
  PRIMARY KEY (owner, position, part, segment, fingerprint),
  FOREIGN KEY (owner, position) REFERENCES {s}.entries ON DELETE CASCADE
);
"""


def _is_current(tx: Transaction, key_id: bytes) -> Steps[bool]:
    """Return whether the schema is there, and signed with a key; reads only.

    Raises:
        SchemaVersionError: If another release wrote it, or another program did.
        ConfigError: If its entries are signed with another key, or with none.
        LogError: If the database cannot hold every text.
    """
    if not (yield from _is_there(tx)):
        return False
    return (yield from _has_key(tx, key_id))


def _has_key(tx: Transaction, key_id: bytes) -> Steps[bool]:
    """Return whether this key signs the schema; False where it holds nothing yet that one could.

    Raises:
        ConfigError: If its entries are signed with another key, or with none.
    """
    [(stored, is_empty)] = yield tx.query(
        "SELECT key_id, NOT EXISTS (SELECT FROM {s}.entries) FROM {s}.log_meta"
    )
    if is_empty and not stored:
        return not key_id
    check_key(stored, key_id, f"schema {tx.schema!r}")
    return True


def _create_schema(tx: Transaction, key_id: bytes) -> Steps[None]:
    """Create the schema, or give an empty one its key; of several callers, one does it.

    Raises:
        SchemaVersionError: If another release wrote it, or another program did.
        ConfigError: If its entries are signed with another key, or with none.
    """
    # Ends with the transaction: a lock of the session would stay behind in a pooler.
    yield tx.query(
        "SELECT pg_advisory_xact_lock(%s)", hash_message_id(f"langchain_convmem {tx.schema}")
    )
    # The catalogue itself: `to_regnamespace` may answer from a cache of before the lock.
    [(exists,)] = yield tx.query(
        "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = %s)", tx.schema
    )
    if not exists:
        # Not IF NOT EXISTS, which asks for the right to create even where nothing is created.
        yield tx.query("CREATE SCHEMA {s}")
    if not (yield from _is_there(tx)):
        yield tx.query(SCHEMA)
        yield tx.query("INSERT INTO {s}.log_meta VALUES (true, %s, 0, 0, '')", SCHEMA_VERSION)
    if not (yield from _has_key(tx, key_id)):
        yield tx.query("UPDATE {s}.log_meta SET key_id = %s", key_id)


def _is_there(tx: Transaction) -> Steps[bool]:
    [(encoding, columns)] = yield tx.query(
        "SELECT current_setting('server_encoding'), (SELECT array_agg(a.attname::text) "
        "FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid "
        "JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relname = 'log_meta')",
        tx.schema,
    )
    if encoding != "UTF8":
        msg = f"the database is encoded in {encoding}; a log needs one with ENCODING 'UTF8'"
        raise LogError(msg)
    if columns is None:
        return False
    if "forget_epoch" not in columns:
        msg = f"schema {tx.schema!r} holds a log_meta of another program; choose another schema"
        raise SchemaVersionError(msg, supported=SCHEMA_VERSION)
    [(found,)] = yield tx.query("SELECT version FROM {s}.log_meta")
    if found != SCHEMA_VERSION:
        msg = (
            f"schema {tx.schema!r} has version {found}, and this release reads version "
            f"{SCHEMA_VERSION}; open it with the release that wrote it"
        )
        raise SchemaVersionError(msg, found=found, supported=SCHEMA_VERSION)
    return True
