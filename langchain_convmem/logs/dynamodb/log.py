"""`DynamoDBLog`: a message log in one DynamoDB table, for any number of processes.

One batch of entries is one item, written under the condition that its number is free: so a batch is
there whole or not at all, and numbers are the order of commits, without transactions and without a
counter. The layout is told in `keys`, the rights that it needs in the docs.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Self

from langchain_convmem.errors import ConfigError
from langchain_convmem.logs.async_twins import AsyncTwins
from langchain_convmem.logs.dynamodb import reading
from langchain_convmem.logs.dynamodb.batches import Batches
from langchain_convmem.logs.dynamodb.client import Table
from langchain_convmem.logs.dynamodb.documents import Documents
from langchain_convmem.logs.dynamodb.erasing import erase_entries, erase_owner, erase_thread
from langchain_convmem.logs.dynamodb.keys import ENTRIES_PER_BATCH, number_of
from langchain_convmem.logs.dynamodb.table import make_table
from langchain_convmem.logs.dynamodb.writing import Writer
from langchain_convmem.logs.rows import (
    annotated,
    changes_of,
    check_ids,
    check_scope,
    check_user,
    encode,
    entry_of,
    key_hash,
    line_changes_of,
    message_id_of,
)
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

__all__ = ["DynamoDBLog"]

_WORKERS = 16


class DynamoDBLog(AsyncTwins):
    """A message log in a DynamoDB table; `create_table` makes one.

    Safe to share between threads, and to open in any number of processes. Each `append` costs one
    write call, unless its batch is larger than 180 KB. `threads(None)` and `owners()` read the
    whole table.

    It needs the rights `dynamodb:BatchWriteItem`, `DeleteItem`, `GetItem`, `PutItem`, `Query` and
    `Scan` on the table and its index; `create_table` also `CreateTable`, `DescribeTable`,
    `DescribeTimeToLive` and `UpdateTimeToLive`.
    """

    def __init__(
        self,
        table_name: str,
        *,
        client: Any = None,
        region_name: str | None = None,
        endpoint_url: str | None = None,
        ttl_seconds: int | None = None,
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
        self._batches = Batches(self._table, ttl_seconds=ttl_seconds)
        self._documents = Documents(self._table, ttl_seconds=ttl_seconds)
        self._writer = Writer(self._table, self._batches)

    def __repr__(self) -> str:
        return f"DynamoDBLog({self.table_name!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
        self._stop_worker()

    def _executor(self) -> ThreadPoolExecutor:
        # Each call mostly waits for the network, and calls of one task are awaited one by one.
        if self._worker is None or self._worker_pid != os.getpid():
            self._worker = ThreadPoolExecutor(_WORKERS, thread_name_prefix="convmem-dynamodb")
            self._worker_pid = os.getpid()
        return self._worker

    # -- writing --------------------------------------------------------------------------------

    def append(
        self, key: ThreadKey, drafts: Sequence[Draft], *, relaxed: bool = False
    ) -> list[Entry]:
        """Append all drafts in one conditional write; see `MessageLog.append`.

        `relaxed` changes nothing here. After `LogUnavailableError` a write whose answer was lost
        may still arrive; a repeated call then finds messages that have an id of their own, and
        doubles others.

        Raises:
            ConfigError: If the batch has more than a million entries.
        """
        del relaxed
        encoded = encode(drafts)
        self._table.check_open()
        if not encoded:
            return []
        if 2 * len(encoded) > ENTRIES_PER_BATCH:  # each may replace another, which takes two
            msg = f"a batch has at most {ENTRIES_PER_BATCH // 2} messages, got {len(encoded)}"
            raise ConfigError(msg)
        rows = self._writer.append(key, encoded)
        return [entry_of(key, row) for row in rows]

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
        change = partial(annotated, attributes=attributes, timing=timing, aux=aux)
        return entry_of(key, self._writer.annotate(key, entry_id, change))

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
        if last is not None:
            rows = reading.latest(self._batches, key, after, until, last)
        else:
            rows = reading.rows_between(self._batches, key, after, until)
            if rows and not number_of(after):
                self._writer.learn(key, rows, number_of(rows[-1].position))
        return [entry_of(key, row) for row in rows if reading.in_range(row, after, until)]

    def find(self, key: ThreadKey, message_ids: Collection[str]) -> list[Entry]:
        """Return the entries with these message ids; see `MessageLog.find`.

        Two queries tell whether there may be any, unless this process has not read the thread yet;
        only then, or where there are, the thread is read.
        """
        check_ids(message_ids)
        self._table.check_open()
        wanted = frozenset(message_ids)
        newest = self._batches.newest(key.owner) if wanted else None
        if newest is None:
            return []
        rows = self._writer.possibly_same(key, set(map(key_hash, wanted)), newest.number)
        named = [row for row in rows if row.role != "control"]
        return [entry_of(key, row) for row in named if message_id_of(row.id, row.body) in wanted]

    def threads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return a user's threads, latest first; see `MessageLog.threads`.

        A user's whole partition is read, and for None the whole table.
        """
        check_user(user_id)
        self._table.check_open()
        return reading.threads(self._batches, user_id)

    def owners(self) -> list[Owner]:
        """Return every user and every thread of no user that has entries.

        There is no list of them: this reads the keys of the whole table, and the service counts
        every batch in full, as for `threads(None)`.
        """
        self._table.check_open()
        return reading.owners(self._batches)

    async def aowners(self) -> list[Owner]:
        """Return the owners, without blocking the event loop."""
        return await self._off_loop(self.owners)

    def changes(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return entries behind the cursor in commit order; see `MessageLog.changes`."""
        rows, generation = reading.later(self._batches, owner, cursor, limit)
        return changes_of(rows, cursor, generation)

    def line_changes(
        self, owner: Owner, cursor: int = 0, *, limit: int | None = None
    ) -> LineChanges:
        """Return lines behind the cursor in commit order; see `LineSource.line_changes`."""
        rows, generation = reading.later(self._batches, owner, cursor, limit)
        return line_changes_of(rows, cursor, generation, limit)

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
        with self._writer.alone(owner):
            if isinstance(scope, Owner):
                return erase_owner(self._table, self._batches, scope)
            if entry_ids is None:
                return erase_thread(self._table, self._batches, scope)
            attempts = self._writer.attempts()
            return erase_entries(self._table, self._batches, scope, entry_ids, attempts)

    # -- state documents ------------------------------------------------------------------------

    def get_state(self, key: ThreadKey, name: str) -> StateDocument | None:
        """Return the document, or None."""
        return self._documents.get(key, name)

    def set_state(
        self, key: ThreadKey, name: str, value: Any, *, expected: int | None
    ) -> StateDocument | None:
        """Write the document if its version is `expected`; see `ThreadState.set_state`."""
        return self._documents.set(key, name, value, expected=expected)

    def delete_state(self, key: ThreadKey, name: str) -> None:
        """Delete the document if there is one."""
        self._documents.delete(key, name)
