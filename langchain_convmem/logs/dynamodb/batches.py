"""Batches of entries in a DynamoDB table: adding, changing and reading them whole.

A batch becomes visible with its head item, which is written last and under a condition; readers
never look for pieces without a head.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from langchain_convmem.ids import make_ulid
from langchain_convmem.logs.base import Row
from langchain_convmem.logs.dynamodb.client import Table
from langchain_convmem.logs.dynamodb.items import (
    GENERATION_KEY,
    SUMMARY_FIELDS,
    Batch,
    Item,
    join_pieces,
    make_batch_item,
    make_batch_key,
    make_batch_range,
    make_marker_item,
    make_partition_key,
    make_piece_key,
    make_piece_prefix,
    make_thread_range,
    mark_damaged,
    read_batch,
    write_text,
)
from langchain_convmem.records import Owner, ThreadKey

SETTLED_US = 3600 * 1_000_000
"""After so long no writer still holds a number it has read, or pieces it has not yet named."""

_UNCHANGED = "#rev = :rev"
_FREE = "attribute_not_exists(#pk)"
_THERE = "attribute_exists(#pk)"


def read_clock_us() -> int:
    """Return the current time in microseconds since the epoch."""
    return time.time_ns() // 1000


class Batches:
    """The batches in a table. Thread-safe; every read is consistent."""

    def __init__(self, table: Table, *, ttl_seconds: int | None, key_id: bytes = b"") -> None:
        """Use `table`; new batches end after `ttl_seconds`, if that is set.

        Args:
            table: Where they are.
            ttl_seconds: See above.
            key_id: Of the key that signs what they hold; empty without one.
        """
        self._table = table
        self._ttl_seconds = ttl_seconds
        self._key_id = key_id

    # -- writing --------------------------------------------------------------------------------

    def add(self, key: ThreadKey, number: int, rows: Sequence[Row]) -> Batch | None:
        """Write a new batch; return None if another writer has taken its number.

        Args:
            key: Its thread.
            number: Its number.
            rows: What it holds, signed.

        Raises:
            LogUnavailableError: If the service cannot be reached; the batch may still arrive.
        """
        blank = self._make_blank(key, number)
        head, pieces = make_batch_item(key, blank, rows, now_us=read_clock_us())
        batch = replace(blank, size=len(rows), pieces=len(pieces))
        self._table.write(pieces)
        if self._table.put_marked(head, "batch", _FREE):
            return batch
        self._drop_pieces(batch)
        return None

    def _make_blank(self, key: ThreadKey, number: int) -> Batch:
        born, token = read_clock_us(), make_ulid()
        ends = None if self._ttl_seconds is None else born // 1_000_000 + self._ttl_seconds
        return Batch(
            partition=make_partition_key(key.owner),
            number=number,
            thread=key.thread_id,
            batch=token,
            revision=token,
            size=0,
            first="",
            last="",
            born_us=born,
            expires_s=ends,
            pieces=0,
            rows=None,
            key_id=self._key_id,
        )

    def change(self, key: ThreadKey, old: Batch, rows: Sequence[Row]) -> bool:
        """Put other rows into a batch; return False if another writer changed it meanwhile."""
        new = replace(old, revision=make_ulid())
        head, pieces = make_batch_item(key, new, rows, now_us=read_clock_us())
        self._table.write(pieces)
        done = self._table.put_marked(head, "rev", _UNCHANGED, {":rev": write_text(old.revision)})
        self._drop_pieces(old if done else replace(new, pieces=len(pieces)))
        return done

    def empty(self, old: Batch) -> bool:
        """Leave nothing of a batch but its number; return False if it was changed meanwhile."""
        marker = make_marker_item(old.partition, old.number, now_us=read_clock_us())
        unchanged = {":rev": write_text(old.revision)} if old.revision else None
        done = self._table.put(marker, _UNCHANGED if unchanged else _THERE, unchanged)
        if done:
            self._drop_pieces(old)
        return done

    def _drop_pieces(self, batch: Batch) -> None:
        parts = range(batch.pieces)
        keys = [(batch.partition, make_piece_key(batch.revision, part)) for part in parts]
        self._table.write(deletes=keys)

    # -- reading --------------------------------------------------------------------------------

    def find_newest(self, owner: Owner) -> Batch | None:
        """Return an owner's newest batch, which may be a marker or have expired."""
        found = self._table.query(
            make_partition_key(owner),
            make_batch_range(),
            newest_first=True,
            page=1,
            fields=SUMMARY_FIELDS,
        )
        return next(map(read_batch, found), None)

    def read_generation(self, owner: Owner) -> int:
        """Return a number that differs from every earlier one after anything was forgotten.

        It is the time of the last `forget`, or of the oldest batch if that is later: where nothing
        is left to tell of a `forget`, whatever was cached before it began earlier.
        """
        first, last = GENERATION_KEY, make_batch_range()[1]
        fields = ("pk", "sk", "raised", "born")
        moments = []
        for item in self._table.query(
            make_partition_key(owner), (first, last), page=2, fields=fields
        ):
            moments.append(int((item.get("raised") or item["born"])["N"]))
            if "born" in item:
                break
        return max(moments, default=read_clock_us())

    def is_empty(self, owner: Owner) -> bool:
        """Return whether no batch is left; markers are none."""
        fields = ("pk", "sk")
        found = self._table.query(
            make_partition_key(owner), None, by_thread=True, page=1, fields=fields
        )
        return next(found, None) is None

    def read_again(self, batch: Batch) -> Batch | None:
        """Return the batch as it is now, or None if it is gone."""
        item = self._table.get(batch.partition, make_batch_key(batch.number))
        newer = None if item is None else read_batch(item)
        return newer if newer is not None and not newer.is_marker else None

    def list_of_owner(
        self, owner: Owner, first: int = 0, *, page: int | None = None
    ) -> Iterator[Batch]:
        """Yield an owner's batches from number `first` on, oldest first, without markers."""
        found = self._table.query(make_partition_key(owner), make_batch_range(first), page=page)
        return self._keep_living(map(read_batch, found))

    def list_of_thread(
        self,
        key: ThreadKey,
        first: int = 0,
        last: int | None = None,
        *,
        newest_first: bool = False,
        page: int | None = None,
    ) -> Iterator[Batch]:
        """Yield a thread's batches from number `first` up to `last`, itself included."""
        found = self._table.query(
            make_partition_key(key.owner),
            make_thread_range(key, first, last),
            by_thread=True,
            newest_first=newest_first,
            page=page,
        )
        return self._keep_living(map(read_batch, found))

    def list_of_user(self, user_id: str | None, prefix: str) -> Iterator[Batch]:
        """Yield the batches of a user, or of all threads without one, without their rows."""
        if user_id is None:
            found = self._table.scan_index(SUMMARY_FIELDS, prefix)
        else:
            partition = make_partition_key(Owner(user_id=user_id))
            found = self._table.query(partition, make_batch_range(), fields=SUMMARY_FIELDS)
        return self._keep_living(map(read_batch, found))

    def list_all(self) -> Iterator[Batch]:
        """Yield the batches of all owners, without their rows."""
        return self._keep_living(map(read_batch, self._table.scan_index(SUMMARY_FIELDS)))

    def _keep_living(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        now_s = time.time()
        return (batch for batch in batches if not (batch.is_marker or batch.is_over(now_s)))

    def read_rows(self, batch: Batch) -> tuple[Row, ...]:
        """Return a batch's rows by position, fetching its pieces; none if it is gone by now."""
        return self.load(batch).rows or ()

    def load(self, batch: Batch) -> Batch:
        """Return a batch with its rows, fetching its pieces; without any if it is gone by now.

        Where pieces are missing although the batch is unchanged, one damaged row stands for all.
        """
        while batch.rows is None:
            prefix = make_piece_prefix(batch.revision)
            between = (prefix, make_piece_key(batch.revision, 99_999))
            found = list(self._table.query(batch.partition, between))
            if len(found) == batch.pieces:
                return join_pieces(batch, [_read_piece(item) for item in found])
            # A change names new pieces in the head before it deletes the old ones.
            newer = self.read_again(batch)
            if newer is None:
                return replace(batch, rows=())
            if newer.revision == batch.revision:
                there = f"{len(found)} of {batch.pieces} pieces of its batch are there"
                return mark_damaged(batch, there)
            batch = newer
        return batch


def _read_piece(item: Item) -> bytes:
    """Return what a piece holds; nothing where it cannot be read, which damages the whole."""
    data = item.get("data", {}).get("B")
    return data if isinstance(data, bytes) else b""
