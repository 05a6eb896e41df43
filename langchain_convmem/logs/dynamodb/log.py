"""`DynamoDBLog`: a message log in one DynamoDB table, for any number of processes.

One batch of entries is one item, written under the condition that its number is free: so a batch is
there whole or not at all, and numbers are the order of commits, without transactions and without a
counter. The layout is described in `items`, the rights that it needs in the docs.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock
from typing import Any

from langchain_convmem.errors import (
    ConfigError,
    CorruptEntryError,
    InvalidMessageError,
    LogError,
    LogUnavailableError,
)
from langchain_convmem.ids import get_now_ms, get_ulid_ms, make_ulid
from langchain_convmem.logs.base import (
    AppendPlan,
    AsyncTwins,
    EncodedDraft,
    Row,
    annotate_metadata,
    annotate_row,
    build_changes,
    build_line_changes,
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
    plan_append,
    read_message_id,
    sign_document,
)
from langchain_convmem.logs.checksums import Signer, check_key
from langchain_convmem.logs.dynamodb.batches import Batches
from langchain_convmem.logs.dynamodb.client import Table, choose_pause_s, make_table
from langchain_convmem.logs.dynamodb.erasing import erase_entries, erase_owner, erase_thread
from langchain_convmem.logs.dynamodb.items import (
    ENTRIES_PER_BATCH,
    LONE_PREFIX,
    PIECE_BYTES,
    STATE_RANGE,
    Batch,
    Item,
    choose_number,
    compute_number,
    compute_position,
    is_expired,
    is_of_earlier_day,
    make_partition_key,
    make_state_key,
    read_owner,
    write_number,
    write_text,
)
from langchain_convmem.protocols import CACHE_PREFIX
from langchain_convmem.records import (
    Changes,
    Draft,
    Entry,
    ForgetReceipt,
    LineChanges,
    Owner,
    StateDocument,
    ThreadInfo,
    ThreadKey,
)
from langchain_convmem.views.codec import load_json


class DynamoDBLog(AsyncTwins):
    """A message log in a DynamoDB table; `create_table` makes one.

    Safe to share between threads, and to open in any number of processes. Each `append` costs one
    write call, unless its batch is larger than 180 KB. `threads(None)` and `owners()` read the
    whole table.

    It needs the rights `dynamodb:BatchWriteItem`, `DeleteItem`, `GetItem`, `PutItem`, `Query` and
    `Scan` on the table and its index; `create_table` also `CreateTable`, `DescribeTable`,
    `DescribeTimeToLive` and `UpdateTimeToLive`.
    """

    workers = (
        16  # each call mostly waits for the network, and calls of one task are awaited in turn
    )

    def __init__(
        self,
        table_name: str,
        *,
        client: Any = None,
        region_name: str | None = None,
        endpoint_url: str | None = None,
        ttl_seconds: int | None = None,
        signing_key: bytes | str | None = None,
    ) -> None:
        """Prepare a log on a table; nothing is sent yet.

        Args:
            table_name: A table that `create_table` made, or its definition.
            client: A boto3 DynamoDB client, which stays the caller's and keeps its own settings
                for retries. By default one is made, and closed with the log.
            region_name: Region of the client made here; by default what the environment says.
            endpoint_url: Where the client made here connects to, for a server of one's own.
            ttl_seconds: Entries and documents end so long after they were written; all processes
                should agree on it. None keeps them.
            signing_key: A secret of 16 to 64 bytes with which entries are signed: then the log
                shows changes by anybody who does not know it, too. All that open the table need
                it, from its first entry on.

        Raises:
            MissingExtraError: If boto3 is not installed.
            ConfigError: If an argument makes no sense, or the region is not known.
        """
        if not isinstance(table_name, str) or not table_name:
            raise ConfigError(f"table_name must be a non-empty string, got {table_name!r}")
        if ttl_seconds is not None and ttl_seconds <= 0:
            raise ConfigError(f"ttl_seconds must be positive or None, got {ttl_seconds!r}")
        if client is not None and (region_name is not None or endpoint_url is not None):
            raise ConfigError("region_name and endpoint_url are for a client made here; pass one")
        self.table_name = table_name
        self._table = Table(
            table_name, client=client, region_name=region_name, endpoint_url=endpoint_url
        )
        self._signer = Signer(signing_key)
        self._batches = Batches(self._table, ttl_seconds=ttl_seconds, key_id=self._signer.key_id)
        self._documents = _Documents(self._table, self._signer, ttl_seconds=ttl_seconds)
        self._writer = _BatchWriter(self._table, self._batches, self._signer)

    def __repr__(self) -> str:
        return f"DynamoDBLog({self.table_name!r})"

    def create_table(self, *, ttl: bool = True) -> bool:
        """Make the table unless there is one, and wait until it can be used.

        Args:
            ttl: Also let the service delete what has ended. Entries do so only with `ttl_seconds`,
                but what `forget` leaves of a batch ends too.

        Returns:
            Whether it was made.

        Raises:
            ConfigError: If there is a table of that name with other keys.
            LogError: If the service refuses.
        """
        return make_table(self._table, ttl=ttl)

    def close(self) -> None:
        """Close the client, unless it was given; later calls raise `LogClosedError`. Idempotent."""
        self._table.close()
        self._stop_workers()

    # -- writing --------------------------------------------------------------------------------

    def append(
        self, key: ThreadKey, drafts: Sequence[Draft], *, durable: bool = True
    ) -> list[Entry]:
        """Append all drafts in one conditional write; see `MessageLog.append`.

        `durable` changes nothing here. After `LogUnavailableError` a write whose answer was lost
        may still arrive; a repeated call then finds messages that have an id of their own, and
        doubles others.

        Raises:
            ConfigError: If the batch has more than half a million messages, or the owner's entries
                are signed with another key, or with none.
        """
        del durable
        batch = encode_drafts(drafts)
        self._table.check_open()
        if not batch:
            return []
        if 2 * len(batch) > ENTRIES_PER_BATCH:  # each may replace another, which takes two
            msg = f"a batch has at most {ENTRIES_PER_BATCH // 2} messages, got {len(batch)}"
            raise ConfigError(msg)
        return self._writer.append(key, batch).build_entries(key)

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
        change = partial(annotate_metadata, attributes=attributes, timing=timing, aux=aux)
        return decode_entry(key, self._writer.annotate(key, entry_id, change), self._signer)

    # -- reading --------------------------------------------------------------------------------

    def entries(
        self,
        key: ThreadKey,
        *,
        after: int = 0,
        until: int | None = None,
        last: int | None = None,
    ) -> list[Entry]:
        """Return entries in order of position; see `MessageLog.entries`.

        Only the batches of the range are read; with `last` newest first, and no more than needed.
        """
        self._table.check_open()
        if until is not None and until <= after:
            return []
        bounds = after, until
        if last is not None:
            rows = _read_latest(self._batches, key, bounds, last)
        else:
            batches = _read_between(self._batches, key, bounds)
            rows = _list_rows(batches)
            if rows and not compute_number(after):
                self._writer.learn(key, batches)
        return [decode_entry(key, row, self._signer) for row in rows if _is_in_range(row, bounds)]

    def find(self, key: ThreadKey, message_ids: Collection[str]) -> list[Entry]:
        """Return the entries with these message ids; see `MessageLog.find`.

        Two queries tell whether there may be any, unless this process has not read the thread yet;
        only then, or where there are, the thread is read.
        """
        check_ids(message_ids)
        self._table.check_open()
        wanted = frozenset(message_ids)
        newest = self._batches.find_newest(key.owner) if wanted else None
        if newest is None:
            return []
        rows = self._writer.read_possibly_same(
            key, set(map(hash_message_id, wanted)), newest.number
        )
        named = [row for row in rows if row.role != "control"]
        return [
            decode_entry(key, row, self._signer)
            for row in named
            if read_message_id(row.id, row.body) in wanted
        ]

    def threads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return a user's threads, latest first; see `MessageLog.threads`.

        A user's whole partition is read, and for None the whole table.
        """
        check_user(user_id)
        self._table.check_open()
        return _list_threads(self._batches, user_id)

    def owners(self) -> list[Owner]:
        """Return every user and every thread of no user that has entries.

        There is no list of them: this reads the keys of the whole table, and the service counts
        every batch in full, as for `threads(None)`.
        """
        self._table.check_open()
        return _list_owners(self._batches)

    aowners = make_twin(owners)

    def changes(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return entries after the cursor in commit order; see `MessageLog.changes`."""
        rows, generation = _read_later(self._batches, owner, cursor, limit)
        return build_changes(rows, cursor, generation, self._signer)

    def line_changes(
        self, owner: Owner, cursor: int = 0, *, limit: int | None = None
    ) -> LineChanges:
        """Return lines after the cursor in commit order; see `LineSource.line_changes`."""
        rows, generation = _read_later(self._batches, owner, cursor, limit)
        return build_line_changes(rows, cursor, generation, limit, self._signer)

    # -- erasing --------------------------------------------------------------------------------

    def forget(
        self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None = None
    ) -> ForgetReceipt:
        """Erase an owner, a thread or some of its entries; see `MessageLog.forget`.

        If it fails half-way, call it again: what is gone stays gone. Backups of the table, if there
        are any, are out of its reach.
        """
        check_scope(scope, entry_ids)
        self._table.check_open()
        owner = scope.owner if isinstance(scope, ThreadKey) else scope
        with self._writer.lock_owner(owner):
            if isinstance(scope, Owner):
                return erase_owner(self._table, self._batches, scope)
            if entry_ids is None:
                return erase_thread(self._table, self._batches, scope)
            attempts = self._writer.make_attempts()
            return erase_entries(self._table, self._batches, scope, entry_ids, attempts=attempts)

    # -- state documents ------------------------------------------------------------------------

    def get_state(self, key: ThreadKey, name: str) -> StateDocument | None:
        """Return the document, or None."""
        return self._documents.get(key, name)

    def list_states(self, user_id: str | None, name: str) -> dict[str, StateDocument]:
        """Return the documents of one name by thread id; see `StateBatches`.

        All documents of a user are read, and for None the whole table.
        """
        check_user(user_id)
        self._table.check_open()
        if user_id is not None:
            return self._documents.list_of_user(user_id, name)
        keys = [info.key for info in _list_threads(self._batches, None)]
        found = {key.thread_id: self._documents.get(key, name) for key in keys}
        return {thread: document for thread, document in found.items() if document is not None}

    alist_states = make_twin(list_states)

    def add_states(self, user_id: str | None, name: str, values: Mapping[str, Any]) -> None:
        """Write documents where there are none, a write call each; see `StateBatches`."""
        for thread_id, value in values.items():
            self.set_state(ThreadKey(user_id, thread_id), name, value, expected=None)

    aadd_states = make_twin(add_states)

    def set_state(
        self, key: ThreadKey, name: str, value: Any, *, expected: int | None
    ) -> StateDocument | None:
        """Write the document if its version is `expected`; see `ThreadState.set_state`."""
        return self._documents.set(key, name, value, expected=expected)

    def delete_state(self, key: ThreadKey, name: str) -> None:
        """Delete the document if there is one."""
        self._documents.delete(key, name)


# -- writing ----------------------------------------------------------------------------------

_LOCKS = 64
_PATIENCE_S = 60.0


class _BatchWriter:
    """All that this process writes of entries. Thread-safe; a forked child starts anew."""

    def __init__(self, table: Table, batches: Batches, signer: Signer) -> None:
        """Take the table, the batches in it, and what signs their rows."""
        self._table = table
        self._batches = batches
        self._signer = signer
        self._pid = 0
        self._start_process()

    def _start_process(self) -> None:
        """After a fork, begin with locks that no thread of the parent can have held."""
        if self._pid != os.getpid():
            self._known = KnownIds()
            self._locks = tuple(Lock() for _ in range(_LOCKS))
            self._pid = os.getpid()

    @contextmanager
    def lock_owner(self, owner: Owner) -> Iterator[None]:
        """Let one thread of this process write for an owner at a time; two would collide."""
        self._start_process()
        with self._locks[hash(owner) % _LOCKS]:
            yield

    def make_attempts(self) -> Iterator[int]:
        """Yield the numbers of attempts, with pauses between them, as long as it makes sense."""
        deadline = time.monotonic() + _PATIENCE_S
        attempt = 0
        while time.monotonic() < deadline:
            yield attempt
            self._table.pause(choose_pause_s(attempt))
            attempt += 1

    # -- appending ------------------------------------------------------------------------------

    def append(self, key: ThreadKey, batch: Sequence[EncodedDraft]) -> AppendPlan:
        """Append what is new among the drafts in one batch; return the plan carried out."""
        hashes = set(map(hash_message_id, list_own_ids(batch)))
        with self.lock_owner(key.owner):
            for _ in self.make_attempts():
                newest = self._batches.find_newest(key.owner)
                last = 0 if newest is None else newest.number
                is_over = newest is not None and newest.is_over(time.time())
                number = choose_number(last or None, is_over=is_over, now_ms=get_now_ms())
                if newest is not None and not (newest.is_marker or newest.damage):
                    check_key(newest.key_id, self._signer.key_id, f"table {self._table.name!r}")
                stored = _list_rows(self._read_same(key, hashes, last))
                plan = plan_append(
                    batch,
                    [row for row in stored if not self._signer.find_damage(key, row)],
                    first_position=compute_position(number, 0),
                    sign=partial(self._signer.sign, key),
                )
                if not plan.added or self._commit(key, plan.added, number, last):
                    return plan
        raise _make_busy_error(self._table.name, key)

    def _commit(self, key: ThreadKey, added: Sequence[Row], number: int, last: int) -> bool:
        """Write the batch; return False if another writer was faster."""
        batch = self._batches.add(key, number, added)
        if batch is None:
            return False
        if number == last + 1:
            self._known.learn(key, added, after=last, number=number)
            return True
        # Only the first number of a new run depends on the clock. Where another clock said a
        # later day, the batch would stand before what is there already.
        newest = self._batches.find_newest(key.owner)
        stands = newest is None or not is_of_earlier_day(number, newest.number)
        return stands or not self._batches.empty(batch)

    # -- changing -------------------------------------------------------------------------------

    def annotate(
        self, key: ThreadKey, entry_id: str, change: Callable[[str | None], str | None]
    ) -> Row:
        """Change the metadata text of an entry; return its row.

        Raises:
            LogError: If the thread has no such entry.
        """
        with self.lock_owner(key.owner):
            for _ in self.make_attempts():
                batch, rows, place = self._find_entry(key, entry_id)
                new = annotate_row(key, rows[place], change, self._signer)
                if self._batches.change(key, batch, [*rows[:place], new, *rows[place + 1 :]]):
                    return new
        raise _make_busy_error(self._table.name, key)

    def _find_entry(self, key: ThreadKey, entry_id: str) -> tuple[Batch, tuple[Row, ...], int]:
        """Return an entry's batch with its rows and the place among them; newest batches first."""
        for batch in self._batches.list_of_thread(key, newest_first=True, page=25):
            if batch.first <= entry_id <= batch.last:
                whole = self._batches.load(batch)
                rows = whole.rows or ()
                for place, row in enumerate(rows):
                    if row.id == entry_id:
                        return whole, rows, place
        msg = f"thread {key.thread_id!r} has no entry {entry_id!r}"
        raise LogError(msg, thread_id=key.thread_id)

    # -- what was read of a thread --------------------------------------------------------------

    def learn(self, key: ThreadKey, batches: Sequence[Batch]) -> None:
        """Note that these are all batches of a thread."""
        self._start_process()
        number = batches[-1].number
        self._known.learn(key, _list_rows(batches), after=None, number=number)

    def read_possibly_same(self, key: ThreadKey, hashes: set[int], newest: int) -> list[Row]:
        """Return the thread's rows if one of them may have a message id of these hashes."""
        self._start_process()
        read = self._read_same(key, hashes, newest)
        return [] if self._known.has_none_of(key, hashes, newest) else _list_rows(read)

    def _read_same(self, key: ThreadKey, hashes: set[int], newest: int) -> list[Batch]:
        """Return the thread's batches if one may hold a message id of these hashes.

        Else those that are new to this process, if it asks for any.
        """
        if not hashes:
            return []
        known = self._known.get_known_number(key)
        fresh: list[Batch] = []
        if known is not None and known < newest:
            fresh = self._read_all(self._batches.list_of_thread(key, known + 1))
            self._known.learn(key, _list_rows(fresh), after=known, number=newest)
        if self._known.has_none_of(key, hashes, newest):
            return fresh
        whole = self._read_all(self._batches.list_of_thread(key))
        self._known.learn(key, _list_rows(whole), after=None, number=newest)
        return whole

    def _read_all(self, batches: Iterable[Batch]) -> list[Batch]:
        return [self._batches.load(batch) for batch in batches]


def _list_rows(batches: Iterable[Batch]) -> list[Row]:
    return [row for batch in batches for row in batch.rows or ()]


def _make_busy_error(table_name: str, key: ThreadKey) -> LogUnavailableError:
    msg = (
        f"other writers of {key.owner} in table {table_name!r} were faster for {_PATIENCE_S:.0f} s;"
        " try again later"
    )
    return LogUnavailableError(msg, thread_id=key.thread_id)


# -- what is known of a thread ----------------------------------------------------------------

_MAX_KNOWN = 200_000


def hash_row(row: Row) -> int | None:
    """Return the hash of a row's message id; a control entry has none."""
    return None if row.role == "control" else hash_message_id(read_message_id(row.id, row.body))


class KnownIds:
    """Hashes of the message ids of threads read lately, so that an append need not read them.

    What it knows of a thread is complete up to a batch number. An id it does not know up to there
    is not in the thread; one it knows may have been forgotten since, and must be looked up.
    Thread-safe.
    """

    def __init__(self, *, limit: int = _MAX_KNOWN) -> None:
        """Keep at most about `limit` hashes, those of the threads used last."""
        self._limit = limit
        self._count = 0
        self._lock = Lock()
        self._threads: OrderedDict[ThreadKey, tuple[int, set[int]]] = OrderedDict()

    def get_known_number(self, key: ThreadKey) -> int | None:
        """Return the batch number up to which the thread is known, or None."""
        with self._lock:
            found = self._threads.get(key)
            return None if found is None else found[0]

    def has_none_of(self, key: ThreadKey, hashes: Iterable[int], number: int) -> bool:
        """Return whether the thread is known up to batch `number` and has none of the hashes."""
        with self._lock:
            found = self._threads.get(key)
            return found is not None and found[0] >= number and found[1].isdisjoint(hashes)

    def learn(self, key: ThreadKey, rows: Iterable[Row], *, after: int | None, number: int) -> None:
        """Note the rows of a thread's batches up to `number`.

        Args:
            key: The thread.
            rows: All rows of its batches after `after`, ascending by position; earlier ones do no
                harm.
            after: None if the rows begin with the thread; else a number. Where the thread is not
                known up to there, nothing is noted.
            number: Becomes the number up to which it is known, unless that is higher already.
        """
        known = self.get_known_number(key)
        if after is not None and (known is None or known < after):
            return
        rows = list(rows)
        # Hashing means parsing: what is known already is not worth it.
        fresh = [row for row in rows if known is None or compute_number(row.position) > known]
        hashes = {found for found in map(hash_row, fresh) if found is not None}
        with self._lock:
            up_to, ids = self._threads.get(key, (0, set()))
            if up_to < (known or 0):
                return  # dropped meanwhile, and with it what was left out of `fresh`
            self._count -= len(ids)
            ids |= hashes
            self._count += len(ids)
            self._threads[key] = (max(number, up_to), ids)
            self._threads.move_to_end(key)
            while self._count > self._limit and len(self._threads) > 1:
                _, (_, dropped) = self._threads.popitem(last=False)
                self._count -= len(dropped)


# -- reading ----------------------------------------------------------------------------------

_MAX_PAGE = 500


_Bounds = tuple[int, int | None]
"""Positions: after the first, up to the second, itself included; None: to the end."""


def _read_between(batches: Batches, key: ThreadKey, bounds: _Bounds) -> list[Batch]:
    """Return all batches that hold positions of a range, whole."""
    after, until = bounds
    last = None if until is None else compute_number(until)
    return list(map(batches.load, batches.list_of_thread(key, compute_number(after), last)))


def _read_latest(batches: Batches, key: ThreadKey, bounds: _Bounds, last: int) -> list[Row]:
    """Return the latest rows of a range of positions, reading no more batches than needed."""
    if last <= 0:
        return []
    after, until = bounds
    numbers = compute_number(after), None if until is None else compute_number(until)
    page = min(last, _MAX_PAGE)
    found: list[Batch] = []
    count = 0
    for batch in batches.list_of_thread(key, *numbers, newest_first=True, page=page):
        found.append(batches.load(batch))
        count += sum(_is_in_range(row, bounds) for row in found[-1].rows or ())
        if count >= last:
            break
    return [row for row in _list_rows(found[::-1]) if _is_in_range(row, bounds)][-last:]


def _is_in_range(row: Row, bounds: _Bounds) -> bool:
    """Return whether a row lies after the first bound and not after the second."""
    after, until = bounds
    return row.position > after and (until is None or row.position <= until)


def _list_threads(batches: Batches, user_id: str | None) -> list[ThreadInfo]:
    """Return a user's threads, latest first; None: the threads of no user."""
    spans: dict[str, tuple[int, str, str]] = {}
    for batch in batches.list_of_user(user_id, LONE_PREFIX):
        if not (batch.size and batch.first and batch.thread):
            continue  # damaged
        count, first, last = spans.get(batch.thread, (0, batch.first, batch.last))
        spans[batch.thread] = (
            count + batch.size,
            min(first, batch.first),
            max(last, batch.last),
        )
    ordered = sorted(spans.items(), key=lambda item: item[1][2], reverse=True)
    return [
        ThreadInfo(ThreadKey(user_id, thread), count, get_ulid_ms(first), get_ulid_ms(last))
        for thread, (count, first, last) in ordered
    ]


def _list_owners(batches: Batches) -> list[Owner]:
    """Return all owners that have entries."""
    found = (
        read_owner(batch.partition) for batch in batches.list_all() if batch.size and batch.thread
    )
    return list(dict.fromkeys(found))


def _read_later(
    batches: Batches, owner: Owner, cursor: int, limit: int | None
) -> tuple[list[tuple[ThreadKey, Row]], int]:
    """Return an owner's rows after a cursor, in the order they were committed; the generation."""
    # Before the rows: one forgotten in between must not come with the new generation.
    generation = batches.read_generation(owner)
    wanted = None if limit is None else max(limit, 0)
    found: list[tuple[ThreadKey, Row]] = []
    page = None if wanted is None else min(max(wanted, 1), _MAX_PAGE)
    for batch in batches.list_of_owner(owner, compute_number(cursor), page=page):
        if not batch.thread:
            continue  # damaged so much that it shows in its thread alone
        key = ThreadKey(owner.user_id, batch.thread)
        found.extend((key, row) for row in batches.read_rows(batch) if row.position > cursor)
        if wanted is not None and len(found) >= wanted:
            del found[wanted:]
            break
    return found, generation


# -- state documents --------------------------------------------------------------------------

_NONE_YET = "attribute_not_exists(#pk) OR #expires <= :now"
_SAME = "#version = :version AND (attribute_not_exists(#expires) OR #expires > :now)"


class _Documents:
    """The state documents in a table. Thread-safe."""

    def __init__(self, table: Table, signer: Signer, *, ttl_seconds: int | None) -> None:
        """Use `table`; a document ends `ttl_seconds` after its last write, if that is set."""
        self._table = table
        self._signer = signer
        self._ttl_seconds = ttl_seconds

    def get(self, key: ThreadKey, name: str) -> StateDocument | None:
        """Return the document, or None."""
        item = self._table.get(make_partition_key(key.owner), make_state_key(key, name))
        if item is None or is_expired(item, time.time()):
            return None
        return decode_document(key, name, _read_document(item), self._signer)

    def list_of_user(self, user_id: str, name: str) -> dict[str, StateDocument]:
        """Return the sound documents of one name of a user's threads, by thread id."""
        found: dict[str, StateDocument] = {}
        partition, now_s = make_partition_key(Owner(user_id=user_id)), time.time()
        for item in self._table.query(partition, STATE_RANGE):
            if is_expired(item, now_s) or "thread" not in item:
                continue
            key = ThreadKey(user_id, item["thread"]["S"])
            if item["sk"]["S"] != make_state_key(key, name):
                continue
            with suppress(CorruptEntryError):
                document = decode_document(key, name, _read_document(item), self._signer)
                found |= {} if document is None else {key.thread_id: document}
        return found

    def set(
        self, key: ThreadKey, name: str, value: Any, *, expected: int | None
    ) -> StateDocument | None:
        """Write the document if its version is `expected`; see `ThreadState.set_state`.

        Raises:
            InvalidMessageError: If it cannot be kept as JSON, or is larger than 350 KB.
        """
        written = encode_state(value)
        size = len(written.encode())
        if size > PIECE_BYTES:
            msg = f"state document {name!r} has {size:,} bytes; the limit is {PIECE_BYTES:,}"
            raise InvalidMessageError(msg)
        version, now_s = make_version(expected), int(time.time())
        item: Item = {
            "pk": write_text(make_partition_key(key.owner)),
            "sk": write_text(make_state_key(key, name)),
            "thread": write_text(key.thread_id),
            "value": write_text(written),
            "version": write_number(version),
            "token": write_text(make_ulid()),
            "check": {"B": sign_document(self._signer, key, name, version, written)},
        }
        if self._ttl_seconds is not None:
            item["expires"] = write_number(now_s + self._ttl_seconds)
        values = {":now": write_number(now_s)}
        if expected is not None:
            values[":version"] = write_number(expected)
        condition = _NONE_YET if expected is None else _SAME
        if self._table.put_marked(item, "token", condition, values) or (
            expected is None and self._replace_damaged(key, name, item)
        ):
            return StateDocument(load_json(written), version)
        return None

    def _replace_damaged(self, key: ThreadKey, name: str, item: Item) -> bool:
        """Write an item over a damaged cache, which counts as none; return whether it was."""
        if not name.startswith(CACHE_PREFIX):
            return False
        there = self._table.get(item["pk"]["S"], item["sk"]["S"])
        if there is None or decode_document(key, name, _read_document(there), self._signer):
            return False
        condition, values = "#version = :version", {":version": there.get("version")}
        if values[":version"] is None:
            condition, values = "attribute_not_exists(#version)", {}
        return self._table.put_marked(item, "token", condition, values)

    def delete(self, key: ThreadKey, name: str) -> None:
        """Delete the document if there is one."""
        self._table.delete(make_partition_key(key.owner), make_state_key(key, name))


def _read_document(item: Item) -> tuple[int, str | bytes, bytes | None]:
    """Return what `decode_document` takes; what is no such item is damaged."""
    try:
        check = item["check"]["B"] if "check" in item else None
        return int(item["version"]["N"]), item["value"]["S"], check
    except (LookupError, ValueError, TypeError):
        return 0, "", b""
