"""Counting the transactions of SQLite logs, as SQLite itself tells them."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count


@dataclass
class Transactions:
    """What was begun: statements outside of a transaction count as one each."""

    reads: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    open: set[int] = field(default_factory=set)
    """Connections that are in a transaction."""

    def note(self, connection, statement):
        """Take a statement that SQLite is about to run."""
        first = statement.split(None, 1)[0].upper()
        if first in ("PRAGMA", "SAVEPOINT", "RELEASE", "ROLLBACK", "COMMIT"):
            if first in ("COMMIT", "ROLLBACK"):
                self.open.discard(connection)
        elif first == "BEGIN":
            self.open.add(connection)
            (self.writes if "IMMEDIATE" in statement else self.reads).append(statement)
        elif connection not in self.open:
            (self.reads if first == "SELECT" else self.writes).append(statement)

    @property
    def counts(self):
        """How many there were, and how many of them write."""
        return len(self.reads) + len(self.writes), len(self.writes)


class Tracer:
    """Sees what every connection runs that is opened while it is installed."""

    def __init__(self, monkeypatch):
        self._found = Transactions()
        connect, numbers = sqlite3.connect, count()

        def open_traced(*args, **options):
            db = connect(*args, **options)
            db.set_trace_callback(partial(self._note, next(numbers)))
            return db

        monkeypatch.setattr(sqlite3, "connect", open_traced)

    def _note(self, connection, statement):
        self._found.note(connection, statement)

    @contextmanager
    def count(self):
        """Count the transactions of all connections, each used by one thread at a time."""
        self._found = Transactions()
        yield self._found
