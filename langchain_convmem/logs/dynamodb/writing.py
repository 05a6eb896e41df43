"""Writing to a DynamoDB log: appending batches and changing entries, as one of many writers.

Each write names what it goes by, and the service refuses it where another writer was faster; then
it is planned anew. What this process has read of message ids spares most writes from reading the
thread.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock

from langchain_convmem.errors import LogError, LogUnavailableError
from langchain_convmem.ids import now_ms
from langchain_convmem.logs.dynamodb.batches import Batches
from langchain_convmem.logs.dynamodb.client import Table, pause_s
from langchain_convmem.logs.dynamodb.items import Batch
from langchain_convmem.logs.dynamodb.keys import next_number
from langchain_convmem.logs.dynamodb.plan import Encoded, KnownIds, Plan, planned
from langchain_convmem.logs.rows import Row, key_hash, own_id
from langchain_convmem.records import Owner, ThreadKey

__all__ = ["Writer"]

_LOCKS = 64
_PATIENCE_S = 60.0


class Writer:
    """All that this process writes of entries. Thread-safe; a forked child starts anew."""

    def __init__(self, table: Table, batches: Batches) -> None:
        """Take the table, and the batches in it."""
        self._table = table
        self._batches = batches
        self._pid = 0
        self._start_process()

    def _start_process(self) -> None:
        """After a fork, begin with locks that no thread of the parent can have held."""
        if self._pid != os.getpid():
            self._known = KnownIds()
            self._locks = tuple(Lock() for _ in range(_LOCKS))
            self._pid = os.getpid()

    @contextmanager
    def alone(self, owner: Owner) -> Iterator[None]:
        """Let one thread of this process write for an owner at a time; two would collide."""
        self._start_process()
        with self._locks[hash(owner) % _LOCKS]:
            yield

    def attempts(self) -> Iterator[int]:
        """Yield the numbers of attempts, with pauses between them, as long as it makes sense."""
        deadline = time.monotonic() + _PATIENCE_S
        attempt = 0
        while time.monotonic() < deadline:
            yield attempt
            self._table.pause(pause_s(attempt))
            attempt += 1

    # -- appending ------------------------------------------------------------------------------

    def append(self, key: ThreadKey, encoded: Sequence[Encoded]) -> tuple[Row, ...]:
        """Append what is new among the drafts in one batch; return the row of each, in order."""
        hashes = {key_hash(name) for name in map(own_id, (d for d, _, _ in encoded)) if name}
        with self.alone(key.owner):
            for _ in self.attempts():
                newest = self._batches.newest(key.owner)
                behind = 0 if newest is None else newest.number
                is_over = newest is not None and newest.is_over(time.time())
                number = next_number(behind or None, is_over=is_over, now_ms=now_ms())
                plan = planned(encoded, self._same(key, hashes, behind), number)
                if not plan.fresh or self._committed(key, plan, number, behind):
                    return plan.rows
        raise _too_many_writers(self._table.name, key)

    def _committed(self, key: ThreadKey, plan: Plan, number: int, behind: int) -> bool:
        """Write the batch; return False if another writer was faster."""
        batch = self._batches.add(key, number, plan.fresh)
        if batch is None:
            return False
        if number == behind + 1:
            self._known.learn(key, plan.fresh, after=behind, number=number)
            return True
        # Only the first number of a new run depends on the clock. Where another clock said a
        # later day, the batch would stand before what is there already.
        newest = self._batches.newest(key.owner)
        is_last = newest is None or newest.number == number
        return is_last or not self._batches.empty(batch)

    # -- changing -------------------------------------------------------------------------------

    def annotate(
        self, key: ThreadKey, entry_id: str, change: Callable[[str | None], str | None]
    ) -> Row:
        """Change the metadata text of an entry; return its row.

        Raises:
            LogError: If the thread has no such entry.
        """
        with self.alone(key.owner):
            for _ in self.attempts():
                batch, rows, place = self._found(key, entry_id)
                new = replace(rows[place], metadata=change(rows[place].metadata))
                if self._batches.change(key, batch, [*rows[:place], new, *rows[place + 1 :]]):
                    return new
        raise _too_many_writers(self._table.name, key)

    def _found(self, key: ThreadKey, entry_id: str) -> tuple[Batch, tuple[Row, ...], int]:
        """Return an entry's batch with its rows and the place among them; newest batches first."""
        for batch in self._batches.of_thread(key, newest_first=True, page=25):
            if batch.first <= entry_id <= batch.last:
                rows = self._batches.rows(batch)
                for place, row in enumerate(rows):
                    if row.id == entry_id:
                        return batch, rows, place
        msg = f"thread {key.thread_id!r} has no entry {entry_id!r}"
        raise LogError(msg, thread_id=key.thread_id)

    # -- what was read of a thread --------------------------------------------------------------

    def learn(self, key: ThreadKey, rows: Sequence[Row], number: int) -> None:
        """Note that these are all rows of a thread, up to the batch of this number."""
        self._start_process()
        self._known.learn(key, rows, after=None, number=number)

    def possibly_same(self, key: ThreadKey, hashes: set[int], newest: int) -> list[Row]:
        """Return the thread's rows if one of them may have a message id of these hashes."""
        self._start_process()
        return self._same(key, hashes, newest)

    def _same(self, key: ThreadKey, hashes: set[int], newest: int) -> list[Row]:
        if not hashes:
            return []
        known = self._known.up_to(key)
        if known is not None and known < newest:
            fresh = self._rows(self._batches.of_thread(key, known + 1))
            self._known.learn(key, fresh, after=known, number=newest)
        if self._known.rules_out(key, hashes, newest):
            return []
        rows = self._rows(self._batches.of_thread(key))
        self._known.learn(key, rows, after=None, number=newest)
        return rows

    def _rows(self, batches: Iterable[Batch]) -> list[Row]:
        return [row for batch in batches for row in self._batches.rows(batch)]


def _too_many_writers(table_name: str, key: ThreadKey) -> LogUnavailableError:
    msg = (
        f"other writers of {key.owner} in table {table_name!r} were faster for {_PATIENCE_S:.0f} s;"
        " try again later"
    )
    return LogUnavailableError(msg, thread_id=key.thread_id)
