"""`DynamoDBLog`: a message log in one DynamoDB table, for any number of processes.

One batch of entries is one item, written under the condition that its number is free: so a batch is
there whole or not at all, and numbers are the order of commits, without transactions and without a
counter. Numbers are dense: one that is missing was taken away by somebody else. The layout is
described in `items`, the rights that it needs in the docs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from langchain_convmem.errors import ConfigError, InvalidMessageError, LogError, LogUnavailableError
from langchain_convmem.ids import get_now_ms, get_ulid_ms, make_ulid
from langchain_convmem.logs import base as kit
from langchain_convmem.logs.checksums import Signer, check_key
from langchain_convmem.logs.dynamodb import items as layout
from langchain_convmem.logs.dynamodb.client import Table
from langchain_convmem.logs.dynamodb.items import Batch, Item
from langchain_convmem.logs.verify import StorageProblem
from langchain_convmem.message_log import CACHE_PREFIX
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

T = TypeVar("T")

_MOST_STATE_BYTES = 350 * 1024
_SETTLED_MS = 3_600_000  # no writer still holds a number, or pieces, for so long
_PATIENCE_S = 60.0
_PAGE = 500
_KNOWN_IDS = 200_000
_FREE = "attribute_not_exists(#pk)"
_UNCHANGED = "#token = :token"


class DynamoDBLog(kit.StoredLog):
    """A message log in a DynamoDB table; `create_table` makes one.

    Safe to share between threads, and to open in any number of processes. Each `append` costs one
    write call, unless its batch is larger than 180 KB. `threads(None)`, `owners()` and `verify()`
    read the whole table.

    It needs the rights `dynamodb:BatchWriteItem`, `PutItem`, `Query` and `Scan` on the table and
    its index; `create_table` also `CreateTable` and `DescribeTable`.
    """

    workers = 16  # each call mostly waits for the network

    def __init__(
        self,
        table_name: str,
        *,
        client: Any = None,
        region_name: str | None = None,
        endpoint_url: str | None = None,
        signing_key: bytes | str | None = None,
    ) -> None:
        """Prepare a log on a table; nothing is sent yet.

        Args:
            table_name: A table that `create_table` made, or its definition.
            client: A boto3 DynamoDB client, which stays the caller's and keeps its own settings
                for retries. By default one is made, and closed with the log.
            region_name: Region of the client made here; by default what the environment says.
            endpoint_url: Where the client made here connects to, for a server of one's own.
            signing_key: A secret of 16 to 64 bytes with which entries are signed: then the log
                shows changes by anybody who does not know it, too. All that open the table need
                it, from its first entry on.

        Raises:
            MissingExtraError: If boto3 is not installed.
            ConfigError: If an argument makes no sense, or the region is not known.
        """
        if not isinstance(table_name, str) or not table_name:
            raise ConfigError(f"table_name must be a non-empty string, got {table_name!r}")
        if client is not None and (region_name is not None or endpoint_url is not None):
            raise ConfigError("region_name and endpoint_url are for a client made here; pass one")
        self.table_name = table_name
        options = {"region_name": region_name, "endpoint_url": endpoint_url}
        self._table = Table(table_name, client, **options)
        self._signer = Signer(signing_key)
        self._known: dict[ThreadKey, tuple[int, frozenset[int]]] = {}

    def __repr__(self) -> str:
        return f"DynamoDBLog({self.table_name!r})"

    def create_table(self) -> bool:
        """Make the table unless there is one, and wait until it can be used.

        Returns:
            Whether it was made.

        Raises:
            LogError: If the service refuses.
        """
        return self._table.make()

    def close(self) -> None:
        """Close the client, unless it was given; later calls raise `LogClosedError`. Idempotent."""
        self._table.close()
        super().close()

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
        batch = kit.encode_drafts(drafts)
        self._table.check_open()
        if not batch:
            return []
        most = layout.ENTRIES_PER_BATCH // 2  # each may replace another, which takes two
        if len(batch) > most:
            raise ConfigError(f"a batch has at most {most:,} messages, got {len(batch):,}")
        hashes = frozenset(map(kit.hash_message_id, kit.list_own_ids(batch)))

        def try_next_number() -> kit.AppendPlan | None:
            number = self._find_last(key.owner) + 1
            first = layout.compute_position(number, 0)
            read = self._read_named(key, hashes, number - 1)
            stored = [row for row in read if not self._signer.find_damage(key, row)]
            sign = partial(self._signer.sign, key)
            plan = kit.plan_append(batch, stored, first_position=first, sign=sign)
            if not plan.added:
                return plan
            if not self._put_batch(key, number, plan.added):
                return None
            known, there = self._known.get(key, (0, frozenset()))
            if known == number - 1:
                self._learn(key, number, there | _hash_ids(plan.added))
            return plan

        return self._retry(key, try_next_number).build_entries(key)

    def _retry(self, key: ThreadKey, step: Callable[[], T | None]) -> T:
        """Return what a step returns once no other writer is faster: then it is not None."""
        deadline, attempt = time.monotonic() + _PATIENCE_S, 0
        while (found := step()) is None:
            if time.monotonic() > deadline:
                who = f"other writers of {key.owner} in table {self.table_name!r}"
                msg = f"{who} were faster for {_PATIENCE_S:.0f} s; try again later"
                raise LogUnavailableError(msg, thread_id=key.thread_id)
            self._table.wait(attempt)
            attempt += 1
        return found

    def _find_last(self, owner: Owner) -> int:
        """Return the number of the owner's last batch; 0 if there is none.

        Raises:
            ConfigError: If it is signed with another key.
        """
        for newest in self._list_batches(owner, newest_first=True, page=1, summary=True):
            if newest.key is not None and not newest.damage:
                check_key(newest.key_id, self._signer.key_id, f"table {self.table_name!r}")
            return newest.number
        return 0

    def _put_batch(
        self, key: ThreadKey, number: int, rows: Sequence[kit.Row], old: Batch | None = None
    ) -> bool:
        """Write a batch, or a mark if it has no rows; return False if another was faster.

        Args:
            key: Its thread.
            number: Its number.
            rows: Its rows.
            old: The batch that is to be replaced; None if the number is to be free.
        """
        item, pieces = self._make_mark(key, number), list[Item]()
        if rows:
            key_id = self._signer.key_id
            item, pieces = layout.make_batch_items(key, number, make_ulid(), rows, key_id)
        self._table.write(pieces)
        if old is None:
            done = self._table.put(item, _FREE)
        else:
            done = self._table.put(item, _UNCHANGED, token=layout.write_text(old.token))
        if not done:
            self._table.write(deletes=pieces)
        elif old is not None and (old.pieces or old.damage):
            # A mark is never changed again, so that pieces of every version of it can go.
            between = layout.make_piece_range(key, number, old.token if rows else "")
            self._table.write(deletes=self._list_keys(key, between))
        return done

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
        change = partial(kit.annotate_metadata, attributes=attributes, timing=timing, aux=aux)

        def try_to_change() -> kit.Row | None:
            batch, rows, place = self._find_entry(key, entry_id)
            rows[place] = kit.annotate_row(key, rows[place], change, self._signer)
            return rows[place] if self._put_batch(key, batch.number, rows, batch) else None

        return kit.decode_entry(key, self._retry(key, try_to_change), self._signer)

    def _find_entry(self, key: ThreadKey, entry_id: str) -> tuple[Batch, list[kit.Row], int]:
        """Return an entry's batch with its rows and the place among them; newest batches first."""
        for listed in self._list_batches(key, newest_first=True, page=25):
            if listed.first <= entry_id <= listed.last:
                batch, rows = self._load(listed)
                for place, row in enumerate(rows):
                    if row.id == entry_id:
                        return batch, rows, place
        msg = f"thread {key.thread_id!r} has no entry {entry_id!r}"
        raise LogError(msg, thread_id=key.thread_id)

    # -- which ids a thread has -------------------------------------------------------------------

    def _read_named(self, key: ThreadKey, hashes: frozenset[int], last: int) -> list[kit.Row]:
        """Return the thread's rows if there may be a message whose id has one of these hashes.

        What was read once is known: a call reads what is new, and all only where it must.

        Args:
            key: The thread.
            hashes: Of the ids.
            last: The number of the owner's last batch.
        """
        if not hashes:
            return []
        known, there = self._known.get(key, (0, frozenset()))
        rows: list[kit.Row] = []
        if known < last:
            after = layout.compute_position(known + 1, -1)
            rows = [row for _, row in self._read_rows(key, after)]
            there |= _hash_ids(rows)
            self._learn(key, last, there)
        if there.isdisjoint(hashes):
            return []
        return [row for _, row in self._read_rows(key)] if known else rows

    def _learn(self, key: ThreadKey, number: int, hashes: frozenset[int]) -> None:
        """Note the ids of a thread, complete up to a batch; forgotten ones do no harm."""
        if sum(1 + len(one) for _, one in list(self._known.values())) > _KNOWN_IDS:
            self._known = {}
        self._known[key] = number, hashes

    # -- reading --------------------------------------------------------------------------------

    def _list_batches(
        self, scope: Owner | ThreadKey, first: int = 0, last: int | None = None, **options: Any
    ) -> Iterator[Batch]:
        """Yield the batches of a thread, or those of an owner and their marks, by number.

        Args:
            scope: The owner or the thread.
            first: Number of the first one.
            last: Number of the last one; None is the newest.
            **options: See `Table.query`.
        """
        between = layout.make_batch_range(scope, first, last)
        options["by_thread"] = isinstance(scope, ThreadKey)
        for item in self._table.query(layout.make_partition_key(scope), between, **options):
            yield layout.read_batch(item, scope)

    def _list_keys(self, scope: Owner | ThreadKey, between: tuple[str, str]) -> list[Item]:
        """Return the items of a range without what they hold."""
        return list(self._table.query(layout.make_partition_key(scope), between, summary=True))

    def _read_again(self, key: ThreadKey, batch: Batch) -> Batch:
        """Return a batch as it is now."""
        item = self._table.get(layout.make_key(key, layout.make_batch_key(batch.number)))
        return replace(batch, key=None) if item is None else layout.read_batch(item, key)

    def _load(self, batch: Batch) -> tuple[Batch, list[kit.Row]]:
        """Return a batch as it is now, and its rows; none if it is gone by now.

        What cannot be read is one damaged row.
        """
        while (key := batch.key) is not None:
            damage, text = batch.damage, batch.text
            if batch.pieces:
                between = layout.make_piece_range(key, batch.number, batch.token)
                pieces = list(self._table.query(layout.make_partition_key(key), between))
                text = "".join(layout.read_text(piece, "rows") for piece in pieces)
                if len(pieces) != batch.pieces:
                    # A change names new pieces in the batch before it deletes the old ones.
                    newer = self._read_again(key, batch)
                    if newer.key is None or newer.token != batch.token:
                        batch = newer
                        continue
                    damage = f"{len(pieces)} of {batch.pieces} pieces of its batch are there"
            if damage:
                position = layout.compute_position(batch.number, 0)
                return batch, [layout.make_damaged_row(position, damage)]
            return batch, layout.read_rows(text, batch.size, batch.number)
        return batch, []

    def _read_rows(
        self,
        scope: Owner | ThreadKey,
        after: int = 0,
        until: int | None = None,
        limit: int | None = None,
        *,
        newest_first: bool = False,
    ) -> Iterator[tuple[ThreadKey, kit.Row]]:
        """Yield rows in a range of positions with their threads, reading no more than needed."""
        page = None if limit is None else min(max(limit, 1), _PAGE)
        last = None if until is None else layout.compute_number(until)
        batches = self._list_batches(
            scope, layout.compute_number(after + 1), last, newest_first=newest_first, page=page
        )
        found = (
            (batch.key, row)
            for batch, rows in map(self._load, batches)
            for row in (reversed(rows) if newest_first else rows)
            if batch.key is not None and after < row.position <= kit.cap_bound(until)
        )
        return islice(found, kit.cap_count(limit))

    def entries(
        self, key: ThreadKey, *, after: int = 0, until: int | None = None, last: int | None = None
    ) -> list[Entry]:
        """Return entries in order of position; see `MessageLog.entries`.

        Only the batches of the range are read; with `last` newest first, and no more than needed.
        """
        self._table.check_open()
        if kit.cap_bound(until) <= max(after, 0):
            return []
        found = [*self._read_rows(key, after, until, last, newest_first=last is not None)]
        rows = [row for _, row in found]
        ordered = rows if last is None else rows[::-1]
        return [kit.decode_entry(key, row, self._signer) for row in ordered]

    def find(self, key: ThreadKey, message_ids: Collection[str]) -> list[Entry]:
        """Return the entries with these message ids; see `MessageLog.find`.

        Two queries tell whether there may be any, unless this process has not read the thread yet;
        only then, or where there are, the thread is read.
        """
        kit.check_ids(message_ids)
        self._table.check_open()
        if not message_ids:
            return []
        wanted = frozenset(message_ids)
        hashes = frozenset(map(kit.hash_message_id, wanted))
        rows = self._read_named(key, hashes, self._find_last(key.owner))
        named = [row for row in rows if row.role != "control"]
        return [
            kit.decode_entry(key, row, self._signer)
            for row in named
            if kit.read_message_id(row.id, row.body) in wanted
        ]

    def threads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return a user's threads, latest first; see `MessageLog.threads`.

        A user's whole partition is read, and for None the whole table.
        """
        kit.check_user(user_id)
        if user_id is not None:
            batches = self._list_batches(Owner(user_id=user_id), summary=True)
        else:
            listed = ((layout.read_owner(item), item) for item in self._table.scan_index())
            alone = ((o, item) for o, item in listed if o is not None and o.user_id is None)
            batches = (layout.read_batch(item, owner) for owner, item in alone)
        spans: dict[ThreadKey, tuple[int, str, str]] = {}
        for batch in batches:
            if batch.key is not None and not batch.damage:
                count, first, last = spans.get(batch.key, (0, batch.first, batch.last))
                span = (count + batch.size, min(first, batch.first), max(last, batch.last))
                spans[batch.key] = span
        ordered = sorted(spans.items(), key=lambda one: one[1][2], reverse=True)
        return [
            ThreadInfo(key, count, get_ulid_ms(first), get_ulid_ms(last))
            for key, (count, first, last) in ordered
        ]

    def owners(self) -> list[Owner]:
        """Return every user and every thread of no user that has entries.

        There is no list of them: this reads the keys of the whole table, and the service counts
        every batch in full, as for `threads(None)`.
        """
        found = dict.fromkeys(map(layout.read_owner, self._table.scan_index()))
        return [owner for owner in found if owner is not None]

    def changes(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return entries after the cursor in commit order; see `MessageLog.changes`."""
        # Before the rows: one forgotten in between must not come with the new generation.
        generation = self._read_generation(owner)
        rows = self._read_rows(owner, cursor, limit=limit)
        return kit.build_changes(rows, cursor, generation, self._signer)

    def line_changes(
        self, owner: Owner, cursor: int = 0, *, limit: int | None = None
    ) -> LineChanges:
        """Return lines after the cursor in commit order; see `MessageLog.line_changes`."""
        generation = self._read_generation(owner)
        rows = self._read_rows(owner, cursor, limit=limit)
        return kit.build_line_changes(rows, cursor, generation, limit, self._signer)

    def _read_generation(self, owner: Owner) -> int:
        item = self._table.get(layout.make_key(owner, layout.GENERATION_KEY))
        return 0 if item is None else layout.read_number(item, "generation")

    # -- checking ---------------------------------------------------------------------------------

    def check_storage(self) -> Iterator[StorageProblem]:
        """Yield what is wrong beside the entries; see `verify.StorageCheck`.

        A batch that is missing counts as one entry: how many it held is not known. Batches after
        the last one that is there are not missed.
        """
        for owner in dict.fromkeys(map(layout.read_owner, self._table.scan_index())):
            if owner is None:
                yield StorageProblem("there are batches that do not name their owner")
                continue
            there = list(self._list_batches(owner, summary=True))
            missing = there[-1].number - len(there) if there else 0
            if missing:
                what = f"{missing} of {there[-1].number} batches missing"
                yield StorageProblem(what, owner, missing)
            for batch in there:
                if batch.key is None and batch.check != self._sign_mark(owner, batch.number):
                    what = f"the mark that batch {batch.number} was forgotten was altered"
                    yield StorageProblem(what, owner)

    def _sign_mark(self, scope: Owner | ThreadKey, number: int) -> bytes:
        return self._signer.sign_record("mark", layout.make_partition_key(scope), number)

    # -- erasing --------------------------------------------------------------------------------

    def forget(
        self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None = None
    ) -> ForgetReceipt:
        """Erase an owner, a thread or some of its entries; see `MessageLog.forget`.

        If it fails half-way, call it again: what is gone stays gone. Backups of the table, if there
        are any, are out of its reach. An erased batch leaves an empty mark, under hashes alone.
        """
        kit.check_scope(scope, entry_ids)
        self._table.check_open()
        if isinstance(scope, ThreadKey) and entry_ids is not None:
            receipt = self._erase_entries(scope, frozenset(entry_ids))
        else:
            receipt = self._erase_all(scope)
        # Last of all: who reads in between may see less than before, and reads anew after this.
        owner = scope.owner if isinstance(scope, ThreadKey) else scope
        generation = kit.make_version(self._read_generation(owner))
        item = layout.make_key(owner, layout.GENERATION_KEY)
        self._table.write([{**item, "generation": layout.write_number(generation)}])
        return replace(receipt, at_ms=get_now_ms())

    def _erase_all(self, scope: Owner | ThreadKey) -> ForgetReceipt:
        """Erase all of an owner or a thread; return what was erased.

        Each batch leaves a mark, since a writer may still hold its number.
        """
        found = list(self._list_batches(scope, summary=True))
        batches = [batch for batch in found if batch.key is not None]
        documents = self._list_keys(scope, layout.make_state_range(scope))
        self._table.write((self._make_mark(scope, one.number) for one in batches), documents)
        numbers = {batch.number for batch in found}
        settled = get_now_ms() - _SETTLED_MS
        pieces = []
        for piece in self._list_keys(scope, layout.make_piece_range(scope)):
            number, written_ms = layout.read_piece_key(piece)
            # A young one of no batch may belong to a batch that is being written.
            if number in numbers or written_ms < settled:
                pieces.append(piece)
        self._table.write(deletes=pieces)
        threads = {batch.key.thread_id for batch in batches if batch.key is not None}
        threads |= {layout.read_text(document, "thread") for document in documents}
        entries = sum(batch.size for batch in batches)
        return ForgetReceipt(entries=entries, threads=len(threads), documents=len(documents))

    def _make_mark(self, scope: Owner | ThreadKey, number: int) -> Item:
        item = layout.make_key(scope, layout.make_batch_key(number))
        check = {"B": self._sign_mark(scope, number)}
        return {**item, "token": layout.write_text(make_ulid()), "check": check}

    def _erase_entries(self, key: ThreadKey, ids: frozenset[str]) -> ForgetReceipt:
        """Take entries out of their batches, by entry id or message id.

        The thread's caches go after them: one that is made meanwhile may still tell of them.
        """
        erased = 0
        for batch in self._list_batches(key):
            if any(_is_named(row, ids) for row in self._load(batch)[1]):
                erased += self._retry(key, partial(self._try_to_take_out, key, batch, ids))
        caches = self._list_keys(key, layout.make_state_range(key, caches=True))
        self._table.write(deletes=caches)
        return ForgetReceipt(entries=erased, documents=len(caches))

    def _try_to_take_out(self, key: ThreadKey, batch: Batch, ids: frozenset[str]) -> int | None:
        """Return how many entries were taken out; None if another writer changed the batch."""
        batch, rows = self._load(self._read_again(key, batch))
        kept = [row for row in rows if not _is_named(row, ids)]
        if len(kept) < len(rows) and not self._put_batch(key, batch.number, kept, batch):
            return None
        return len(rows) - len(kept)

    # -- state documents ------------------------------------------------------------------------

    def get_state(self, key: ThreadKey, name: str) -> StateDocument | None:
        """Return the document, or None; a damaged cache counts as none.

        Raises:
            CorruptEntryError: If another document is damaged.
        """
        item = self._table.get(layout.make_key(key, layout.make_state_key(key, name)))
        if item is None:
            return None
        return kit.decode_document(key, name, _read_stored(item), self._signer)

    def set_state(
        self, key: ThreadKey, name: str, value: Any, *, expected: int | None
    ) -> StateDocument | None:
        """Write the document if its version is `expected`; see `MessageLog.set_state`.

        Raises:
            InvalidMessageError: If it cannot be kept as JSON, or is larger than 350 KB.
        """
        text, version = kit.encode_state(value), kit.make_version(expected)
        if len(text.encode()) > _MOST_STATE_BYTES:
            msg = f"state document {name!r} is too large; the limit is {_MOST_STATE_BYTES:,} bytes"
            raise InvalidMessageError(msg)
        check = kit.sign_document(self._signer, key, name, version, text)
        item = layout.make_key(key, layout.make_state_key(key, name)) | {
            "thread": layout.write_text(key.thread_id),
            "token": layout.write_text(make_ulid()),
            "version": layout.write_number(version),
            "value": layout.write_text(text),
            "check": {"B": check},
        }
        if expected is not None:
            before = layout.write_number(expected)
            done = self._table.put(item, "#version = :version", version=before)
        else:
            done = self._table.put(item, _FREE) or self._replace_damaged(key, name, item)
        return StateDocument(load_json(text), version) if done else None

    def _replace_damaged(self, key: ThreadKey, name: str, item: Item) -> bool:
        """Write a document over a damaged cache, which counts as none; return whether it was."""
        there = self._table.get(item) if name.startswith(CACHE_PREFIX) else None
        if there is None or kit.read_document(key, name, _read_stored(there), self._signer):
            return False
        token = layout.write_text(layout.read_text(there, "token"))
        return self._table.put(item, _UNCHANGED, token=token)

    def delete_state(self, key: ThreadKey, name: str) -> None:
        """Delete the document if there is one."""
        self._table.write(deletes=[layout.make_key(key, layout.make_state_key(key, name))])

    def list_states(self, user_id: str | None, name: str) -> dict[str, StateDocument]:
        """Return the documents of one name by thread id; see `StateBatches`.

        All documents of a user are read, and for None the whole table.
        """
        kit.check_user(user_id)
        owners = [Owner(user_id=user_id)] if user_id is not None else self.owners()
        found: dict[str, StateDocument] = {}
        for owner in owners:
            if owner.user_id != user_id:
                continue
            between = layout.make_state_range(owner)
            for item in self._table.query(layout.make_partition_key(owner), between):
                thread_id = layout.read_text(item, "thread")
                key = ThreadKey(user_id, thread_id or "-")
                if layout.read_text(item, "sk") == layout.make_state_key(key, name):
                    document = kit.read_document(key, name, _read_stored(item), self._signer)
                    found |= {} if document is None else {thread_id: document}
        return found

    def add_states(self, user_id: str | None, name: str, values: Mapping[str, Any]) -> None:
        """Write documents where there are none, a write call each; see `StateBatches`."""
        for thread_id, value in values.items():
            self.set_state(ThreadKey(user_id, thread_id), name, value, expected=None)


def _hash_ids(rows: Iterable[kit.Row]) -> frozenset[int]:
    """Return hashes of the rows' message ids."""
    named = (row for row in rows if row.role != "control")
    return frozenset(kit.hash_message_id(kit.read_message_id(row.id, row.body)) for row in named)


def _is_named(row: kit.Row, ids: Collection[str]) -> bool:
    return row.id in ids or kit.read_message_id(row.id, row.body) in ids


def _read_stored(item: Item) -> tuple[int, str, bytes]:
    """Return version, JSON text and checksum of a document."""
    return (
        layout.read_number(item, "version"),
        layout.read_text(item, "value"),
        layout.read_bytes(item, "check"),
    )
