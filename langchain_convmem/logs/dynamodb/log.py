"""`DynamoDBLog`: a message log in one DynamoDB table, for any number of processes.

One batch of entries is one item, written under the condition that its number is free: so a batch is
there whole or not at all, and numbers are the order of commits, without transactions and without a
counter. Numbers are dense: one that is missing was taken away by somebody else. The layout is
described in `items`, the rights that it needs in the docs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from langchain_convmem.errors import ConfigError, LogError, LogUnavailableError
from langchain_convmem.ids import get_now_ms, get_ulid_ms, make_ulid
from langchain_convmem.logs import base as kit
from langchain_convmem.logs.base import Signer, check_key
from langchain_convmem.logs.dynamodb import items as layout
from langchain_convmem.logs.dynamodb.client import INDEX, SUMMARY, Table
from langchain_convmem.logs.dynamodb.items import LAST_NUMBER, Batch, Item, KeyRange
from langchain_convmem.logs.verify import StorageProblem
from langchain_convmem.message_log import CACHE_PREFIX
from langchain_convmem.records import (
    Changes,
    Draft,
    Entry,
    ForgetReceipt,
    Owner,
    StateDocument,
    ThreadInfo,
    ThreadKey,
)
from langchain_convmem.views.codec import load_json

T = TypeVar("T")

_ATTEMPTS = 30  # with their pauses about a minute
_PAGE = 500
_KNOWN_IDS = 200_000


class DynamoDBLog(kit.StoredLog):
    """A message log in a DynamoDB table; `create_table` makes one.

    Safe to share between threads, and to open in any number of processes. Each `append` costs one
    write call, unless its batch is larger than 180 KB. `threads(None)`, `owners()` and `verify()`
    read the whole table.

    It needs the permissions `dynamodb:BatchWriteItem`, `PutItem`, `Query` and `Scan` on the table
    and its index; `create_table` also needs `CreateTable` and `DescribeTable`.
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
            table_name: A table that `create_table` created, or one with the same definition.
            client: A boto3 DynamoDB client, which keeps its own retry settings and which the caller
                closes. By default, the log creates one and closes it.
            region_name: Region of the log's own client; by default, the environment's.
            endpoint_url: Address that the log's own client connects to, for another server.
            signing_key: A secret of 16 to 64 bytes that signs entries, so that the log detects
                changes by anybody without the secret. Everybody who opens the table needs it, from
                its first entry on.

        Raises:
            MissingExtraError: If boto3 is not installed.
            ConfigError: If an argument is invalid or the region is unknown.
        """
        if not isinstance(table_name, str) or not table_name:
            raise ConfigError(f"table_name must be a non-empty string, got {table_name!r}")
        if client is not None and (region_name is not None or endpoint_url is not None):
            raise ConfigError("region_name and endpoint_url are for a client made here; pass one")
        self.table_name = table_name
        self._table = Table(table_name, client, region_name=region_name, endpoint_url=endpoint_url)
        self._signer = Signer(signing_key)
        self._known: dict[ThreadKey, tuple[int, set[int]]] = {}

    def __repr__(self) -> str:
        return f"DynamoDBLog({self.table_name!r})"

    def create_table(self) -> bool:
        """Create the table unless it exists, and wait until it can be used.

        Returns:
            Whether it was created.

        Raises:
            LogError: If the service refuses.
        """
        return self._table.make()

    def close(self) -> None:
        """Close the log's own client; later calls raise `LogClosedError`. Idempotent."""
        self._table.close()
        super().close()

    # -- writing --------------------------------------------------------------------------------

    def append(
        self, key: ThreadKey, drafts: Sequence[Draft], *, durable: bool = True
    ) -> list[Entry]:
        """Append all drafts in one conditional write; see `MessageLog.append`.

        `durable` has no effect here. After `LogUnavailableError`, a write whose response was lost
        may still arrive. A repeated call then recognises messages with ids, and duplicates others.

        Raises:
            ConfigError: If the owner's entries are signed with another key or not signed.
        """
        del durable
        batch = kit.encode_drafts(drafts)
        own_ids = kit.list_own_ids(batch)

        def try_next_number() -> kit.AppendPlan | None:
            number = self._find_last(key.owner) + 1
            first = layout.compute_position(number, 0)
            read = self._read_named(key, own_ids, number - 1)
            stored = [row for row in read if not self._signer.find_damage(key, row)]
            sign = partial(self._signer.sign, key)
            plan = kit.plan_append(batch, stored, first_position=first, sign=sign)
            if plan.added:
                if not self._put_batch(key, number, plan.added):
                    return None
                self._learn(key, number - 1, number, plan.added)
            return plan

        return self._retry(key, try_next_number).build_entries(key)

    def _retry(self, scope: Owner | ThreadKey, step: Callable[[], T | None]) -> T:
        """Return what a step returns once no other writer is faster: then it is not None."""
        for attempt in range(_ATTEMPTS):
            if (found := step()) is not None:
                return found
            self._table.wait(attempt)
        msg = f"other writers of {scope} in table {self.table_name!r} were faster; try again later"
        raise LogUnavailableError(msg, thread_id=scope.thread_id or "")

    def _find_last(self, owner: Owner) -> int:
        """Return the number of the owner's last batch; 0 if there is none.

        Raises:
            ConfigError: If it is signed with another key.
        """
        for newest in self._list_batches(
            owner, ScanIndexForward=False, Limit=1, ProjectionExpression=SUMMARY
        ):
            if newest.key is not None:
                key_id = layout.read_bytes(newest.item, "key_id")
                check_key(key_id, self._signer.key_id, f"table {self.table_name!r}")
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
        done = self._table.put(item, **({} if old is None else {"write_token": old.token}))
        if not done:
            self._table.write(deletes=pieces)
        elif old is not None and (old.pieces or not rows):
            # A mark is never changed again, so that pieces of every version of it can go.
            versions = layout.make_version_range(key, number, *([old.token] if rows else []))
            self._table.write(deletes=self._list_keys(versions))
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
            for batch in self._list_batches(key, ScanIndexForward=False, Limit=25):
                rows = self._load(batch)
                for place, row in enumerate(rows):
                    if row.id == entry_id:
                        rows[place] = kit.annotate_row(key, row, change, self._signer)
                        done = self._put_batch(key, batch.number, rows, batch)
                        return rows[place] if done else None
            msg = f"thread {key.thread_id!r} has no entry {entry_id!r}"
            raise LogError(msg, thread_id=key.thread_id)

        return kit.decode_entry(key, self._retry(key, try_to_change), self._signer)

    # -- which ids a thread has -------------------------------------------------------------------

    def _read_named(self, key: ThreadKey, ids: Collection[str], last: int) -> list[kit.Row]:
        """Return the thread's rows if there may be a message with one of these ids.

        What was read once is known: a call reads what is new, and all only where it must.

        Args:
            key: The thread.
            ids: Of messages.
            last: The number of the owner's last batch.
        """
        if not ids:
            return []
        rows: list[kit.Row] = []
        known, there = self._known.get(key, (0, set()))
        if known < last:
            after = layout.compute_position(known + 1, -1)
            rows = [row for _, row in self._read_rows(key, after)]
            there = self._learn(key, known, last, rows)
        if there.isdisjoint(map(kit.hash_message_id, ids)):
            return []
        return [row for _, row in self._read_rows(key)] if known else rows

    def _learn(self, key: ThreadKey, after: int, to: int, rows: Sequence[kit.Row]) -> set[int]:
        """Note the ids of a thread in the batches after one, up to another; return all known ones.

        They are noted as hashes, if the batches before are known; forgotten ones do no harm.
        """
        known, there = self._known.get(key, (0, set()))
        named = (row for row in rows if row.role != "control")
        there = there | {kit.hash_message_id(kit.read_message_id(r.id, r.body)) for r in named}
        if known == after:
            if sum(1 + len(one) for _, one in list(self._known.values())) > _KNOWN_IDS:
                self._known = {}
            self._known[key] = to, there
        return there

    # -- reading --------------------------------------------------------------------------------

    def _list_batches(
        self, scope: Owner | ThreadKey, first: int = 0, last: int = LAST_NUMBER, **options: Any
    ) -> Iterator[Batch]:
        """Yield the batches of a thread, or those of an owner and their marks, by number.

        Args:
            scope: The owner or the thread.
            first: Number of the first one.
            last: Number of the last one.
            **options: See `Table.query`.
        """
        options |= {"IndexName": INDEX} if isinstance(scope, ThreadKey) else {}
        for item in self._table.query(layout.make_batch_range(scope, first, last), **options):
            yield layout.read_batch(item, scope)

    def _list_keys(self, keys: KeyRange) -> list[Item]:
        """Return the items of a range without what they hold."""
        return list(self._table.query(keys, ProjectionExpression=SUMMARY))

    def _load(self, batch: Batch) -> list[kit.Row]:
        """Return the rows of a batch; those of a newer version if it is changed meanwhile.

        There are none if it is gone by now. What cannot be read is one damaged row.
        """
        key, text = batch.key, batch.item.get("rows", "")
        if key is None:
            return []
        if batch.pieces:
            version = layout.make_version_range(key, batch.number, batch.token)
            pieces = list(self._table.query(version))
            if len(pieces) != batch.pieces:
                # A change names new pieces in the batch before it deletes the old ones.
                item = self._table.get(batch.item) or {"sk": batch.item["sk"]}
                if item.get("write_token", "") != batch.token:
                    return self._load(layout.read_batch(item, key))
                damage = f"{len(pieces)} of {batch.pieces} pieces of its batch are there"
                return [layout.make_damaged_row(layout.compute_position(batch.number, 0), damage)]
            text = "".join(piece.get("rows", "") for piece in pieces)
        return layout.read_rows(text, batch.size, batch.number)

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
        options: dict[str, Any] = {"ScanIndexForward": not newest_first}
        options |= {} if limit is None else {"Limit": min(max(limit, 1), _PAGE)}
        end = kit.cap_bound(until)
        first, last = layout.compute_number(after + 1), layout.compute_number(end)
        found = (
            (batch.key, row)
            for batch in self._list_batches(scope, first, last, **options)
            for row in self._load(batch)[:: -1 if newest_first else 1]
            if batch.key is not None and after < row.position <= end
        )
        return islice(found, kit.cap_count(limit))

    def entries(
        self, key: ThreadKey, *, after: int = 0, until: int | None = None, last: int | None = None
    ) -> list[Entry]:
        """Return entries in order of position; see `MessageLog.entries`.

        Only batches in the range are read; with `last`, newest first and no more than needed.
        """
        self._table.check_open()
        if kit.cap_bound(until) <= max(after, 0):
            return []
        found = [*self._read_rows(key, after, until, last, newest_first=last is not None)]
        ordered = found if last is None else reversed(found)
        return [kit.decode_entry(key, row, self._signer) for _, row in ordered]

    def find(self, key: ThreadKey, message_ids: Collection[str]) -> list[Entry]:
        """Return the entries with these message ids; see `MessageLog.find`.

        Two queries check whether there can be any. The thread is read only if there can be, or if
        this process has not read it yet.
        """
        kit.check_ids(message_ids)
        self._table.check_open()
        wanted = frozenset(message_ids)
        rows = self._read_named(key, wanted, self._find_last(key.owner)) if wanted else []
        return [
            kit.decode_entry(key, row, self._signer)
            for row in rows
            if row.role != "control" and kit.read_message_id(row.id, row.body) in wanted
        ]

    def threads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return a user's threads, latest first; see `MessageLog.threads`.

        This reads the user's whole partition, or the whole table for None.
        """
        batches: Iterable[Batch]
        if user_id is None:
            batches = map(layout.read_batch, self._table.scan_index())
        else:
            batches = self._list_batches(Owner(user_id=user_id), ProjectionExpression=SUMMARY)
        spans: dict[ThreadKey, tuple[int, str, str]] = {}
        for batch in batches:
            if batch.key is not None and batch.key.user_id == user_id and batch.size:
                ends = batch.item["first_id"], batch.item["last_id"]
                count, first, last = spans.get(batch.key, (0, *ends))
                spans[batch.key] = count + batch.size, min(first, ends[0]), max(last, ends[1])
        ordered = sorted(spans.items(), key=lambda one: one[1][2], reverse=True)
        return [
            ThreadInfo(key, count, get_ulid_ms(first), get_ulid_ms(last))
            for key, (count, first, last) in ordered
        ]

    def owners(self) -> list[Owner]:
        """Return all users and all anonymous threads that have entries.

        There is no list of them, so this reads the keys of the whole table, and the service counts
        every batch in full, as for `threads(None)`.
        """
        return [owner for owner in self._scan_owners() if owner is not None]

    def _scan_owners(self) -> Iterable[Owner | None]:
        """Return each once, and None if there are batches that do not name theirs."""
        keys = map(layout.read_thread, self._table.scan_index())
        return dict.fromkeys(None if key is None else key.owner for key in keys)

    def changes(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return entries after the cursor in commit order; see `MessageLog.changes`."""
        # Before the rows: one forgotten in between must not come with the new generation.
        generation = self._read_generation(owner)
        rows = self._read_rows(owner, cursor, limit=limit)
        return kit.build_changes(rows, cursor, generation, self._signer)

    def _read_generation(self, owner: Owner) -> int:
        item = self._table.get(layout.make_key(owner, layout.GENERATION_KEY))
        return 0 if item is None else layout.read_number(item, "generation")

    # -- checking ---------------------------------------------------------------------------------

    def check_storage(self) -> Iterator[StorageProblem]:
        """Yield problems outside of entries; see `verify.StorageCheck`.

        A missing batch counts as one entry, because its number of entries is unknown. Missing
        batches after the last existing one are not noticed.
        """
        for owner in self._scan_owners():
            if owner is None:
                yield StorageProblem("there are batches that do not name their owner")
                continue
            there = list(self._list_batches(owner, ProjectionExpression=SUMMARY))
            missing = there[-1].number - len(there) if there else 0
            if missing:
                what = f"{missing} of {there[-1].number} batches missing"
                yield StorageProblem(what, owner, missing)
            for batch in there:
                mark = self._make_mark(owner, batch.number)
                if batch.key is None and batch.item.get("mark_checksum") != mark["mark_checksum"]:
                    yield StorageProblem(f"the mark of batch {batch.number} was altered", owner)

    # -- erasing --------------------------------------------------------------------------------

    def forget(
        self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None = None
    ) -> ForgetReceipt:
        """Erase an owner, a thread or some of its entries; see `MessageLog.forget`.

        If it fails midway, call it again; erased entries stay erased. It does not reach backups of
        the table. An erased batch leaves an empty mark whose keys are hashes.
        """
        owner = kit.check_scope(scope, entry_ids)
        if isinstance(scope, ThreadKey) and entry_ids is not None:
            receipt = self._erase_entries(scope, frozenset(entry_ids))
        else:
            receipt = self._erase_all(owner, scope)
        # Last of all: who reads in between may see less than before, and reads anew after this.
        generation = kit.make_version(self._read_generation(owner))
        item = layout.make_key(owner, layout.GENERATION_KEY)
        self._table.write([{**item, "generation": str(generation)}])
        return replace(receipt, at_ms=get_now_ms())

    def _erase_all(self, owner: Owner, scope: Owner | ThreadKey) -> ForgetReceipt:
        """Erase all of an owner or a thread; return what was erased.

        Each batch leaves a mark, since a writer may still hold its number. One mark more takes the
        next number: then the pieces up to there belong to no batch that is still to come.
        """

        def try_next_number() -> int | None:
            number = self._find_last(owner) + 1
            return number if self._table.put(self._make_mark(owner, number)) else None

        end = self._retry(scope, try_next_number)
        found = list(self._list_batches(scope, last=end, ProjectionExpression=SUMMARY))
        batches = [(batch.key, batch) for batch in found if batch.key is not None]
        documents = self._list_keys(layout.make_range("S", scope))
        self._table.write((self._make_mark(key, one.number) for key, one in batches), documents)
        pieces = self._list_keys(layout.make_range("P", scope))
        self._table.write(deletes=(p for p in pieces if layout.read_piece_number(p) <= end))
        threads = {key.thread_id for key, _ in batches}
        threads |= {document.get("thread_id", "") for document in documents}
        entries = sum(max(1, batch.size) for _, batch in batches)
        return ForgetReceipt(entries=entries, threads=len(threads), documents=len(documents))

    def _make_mark(self, scope: Owner | ThreadKey, number: int) -> Item:
        item = layout.make_key(scope, layout.make_batch_key(number))
        checksum = self._signer.sign_record("mark", item["pk"], number)
        return {**item, "write_token": make_ulid(), "mark_checksum": checksum.hex()}

    def _erase_entries(self, key: ThreadKey, ids: frozenset[str]) -> ForgetReceipt:
        """Take entries out of their batches, by entry id or message id.

        The thread's caches go after them: one that is made meanwhile may still tell of them.
        """
        erased = 0

        def try_to_take_out() -> int | None:
            nonlocal erased
            for batch in self._list_batches(key):
                rows = self._load(batch)
                kept = [row for row in rows if not _is_named(row, ids)]
                if len(kept) < len(rows):
                    if not self._put_batch(key, batch.number, kept, batch):
                        return None
                    erased += len(rows) - len(kept)
            return erased

        self._retry(key, try_to_take_out)
        caches = self._list_keys(layout.make_range("S", key, "cache"))
        self._table.write(deletes=caches)
        return ForgetReceipt(entries=erased, documents=len(caches))

    # -- state documents ------------------------------------------------------------------------

    def get_state(self, key: ThreadKey, name: str) -> StateDocument | None:
        """Return the document, or None; a damaged cache is treated as missing.

        Raises:
            LogError: If another document is damaged.
        """
        item = self._table.get(layout.make_key(key, layout.make_state_key(key, name)))
        if item is None:
            return None
        return kit.decode_document(key, name, _read_stored(item), self._signer)

    def set_state(
        self, key: ThreadKey, name: str, value: Any, *, expected: int | None, durable: bool = True
    ) -> StateDocument | None:
        """Write the document if its version is `expected`; see `MessageLog.set_state`.

        `durable` has no effect here.

        Raises:
            InvalidMessageError: If it cannot be stored as JSON.
            LogError: If it exceeds the service's limit of about 400 KB.
        """
        del durable
        text, version = kit.encode_state(value), kit.make_version(expected)
        checksum = kit.sign_document(self._signer, key, name, version, text)
        item = layout.make_key(key, layout.make_state_key(key, name)) | {
            "thread_id": key.thread_id,
            "write_token": make_ulid(),
            "version": str(version),
            "value": text,
            "checksum": checksum.hex(),
        }
        done = self._table.put(item, **({} if expected is None else {"version": str(expected)}))
        if not done and expected is None and name.startswith(CACHE_PREFIX):
            done = self.get_state(key, name) is None
            self._table.write([item] if done else ())  # over a damaged one, which counts as none
        return StateDocument(load_json(text), version) if done else None

    def delete_state(self, key: ThreadKey, name: str) -> None:
        """Delete the document if there is one."""
        self._table.write(deletes=[layout.make_key(key, layout.make_state_key(key, name))])


def _is_named(row: kit.Row, ids: Collection[str]) -> bool:
    return row.id in ids or kit.read_message_id(row.id, row.body) in ids


def _read_stored(item: Item) -> tuple[int, str, bytes]:
    """Return version, JSON text and checksum of a document."""
    checksum = layout.read_bytes(item, "checksum")
    return layout.read_number(item, "version"), item.get("value", ""), checksum
