"""Counting the transactions of SQLite logs, as SQLite itself tells them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from langchain_convmem.logs.sqlite_file import SQLiteConnections


@dataclass
class Transactions:
    """What was begun: statements outside of a transaction count as one each."""

    reads: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    in_transaction: bool = False

    def note(self, statement: str) -> None:
        """Take a statement that SQLite is about to run."""
        first = statement.split(None, 1)[0].upper()
        if first in ("PRAGMA", "SAVEPOINT", "RELEASE", "ROLLBACK", "COMMIT"):
            self.in_transaction &= first not in ("COMMIT", "ROLLBACK")
        elif first == "BEGIN":
            self.in_transaction = True
            (self.writes if "IMMEDIATE" in statement else self.reads).append(statement)
        elif not self.in_transaction:
            (self.reads if first == "SELECT" else self.writes).append(statement)

    @property
    def counts(self) -> tuple[int, int]:
        """How many there were, and how many of them write."""
        return len(self.reads) + len(self.writes), len(self.writes)


@contextmanager
def traced(log) -> Iterator[Transactions]:
    """Count the transactions of a log's idle connections; one thread uses it meanwhile."""
    pool: SQLiteConnections = log._connections
    found = Transactions()
    for db in pool._idle:
        db.set_trace_callback(found.note)
    before = len(pool._idle)
    try:
        yield found
    finally:
        assert len(pool._idle) == before, "a connection was opened that nobody traced"
        for db in pool._idle:
            db.set_trace_callback(None)
