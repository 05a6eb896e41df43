"""Segments that wait for the next write: a commit of their own would cost more than they do."""

from __future__ import annotations

import logging
import sqlite3
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

from langchain_convmem.logs.sqlite.owners import owner_of
from langchain_convmem.logs.sqlite.segments import save_segments
from langchain_convmem.records import Owner, StoredSegment

__all__ = ["WaitingSegments"]

_log = logging.getLogger("langchain_convmem")


class WaitingSegments:
    """Rows that nobody has written yet. Thread-safe."""

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

    def added_to(
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
        by_place = {_place(row): row for row in stored}
        for row in mine:
            before = by_place.get(_place(row))
            vector = before.vector if before is not None and row.vector is None else row.vector
            by_place[_place(row)] = replace(row, vector=vector)
        return [by_place[place] for place in sorted(by_place)]

    def write(self, db: sqlite3.Connection) -> None:
        """Write what waits in the transaction under way, which a failure leaves as it was.

        What cannot be written is let go: it can be made again.
        """
        taken = self._taken()
        if not taken:
            return
        db.execute("SAVEPOINT waiting")
        try:
            for (owner, fingerprint), rows in taken.items():
                save_segments(db, owner_of(db, owner)[0], fingerprint, rows)
        except sqlite3.DatabaseError as error:
            _log.warning("terms and vectors could not be stored: %s", error)
            if db.in_transaction:
                db.execute("ROLLBACK TO waiting")
        if db.in_transaction:
            db.execute("RELEASE waiting")

    def _taken(self) -> dict[tuple[Owner, str], list[StoredSegment]]:
        found: dict[tuple[Owner, str], list[StoredSegment]] = {}
        while self._rows:
            try:
                owner, fingerprint, row = self._rows.popleft()
            except IndexError:  # another thread was faster
                break
            found.setdefault((owner, fingerprint), []).append(row)
        return found


def _place(row: StoredSegment) -> tuple[int, int, int]:
    return row.position, row.part, row.segment
