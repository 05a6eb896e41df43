"""Counting the transactions of SQLite logs, as SQLite itself tells them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

import pytest


@dataclass
class Transactions:
    """What was begun: statements outside of a transaction count as one each."""

    reads: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    open: set[int] = field(default_factory=set)
    """Connections that are in a transaction."""

    def note(self, connection: int, statement: str) -> None:
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
    def counts(self) -> tuple[int, int]:
        """How many there were, and how many of them write."""
        return len(self.reads) + len(self.writes), len(self.writes)


class Tracer:
    """Sees what every connection runs that is opened while it is installed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._found = Transactions()
        connect, numbers = sqlite3.connect, count()

        def open_traced(*args: Any, **options: Any) -> sqlite3.Connection:
            db = connect(*args, **options)
            db.set_trace_callback(partial(self._note, next(numbers)))
            return db

        monkeypatch.setattr(sqlite3, "connect", open_traced)

    def _note(self, connection: int, statement: str) -> None:
        self._found.note(connection, statement)

    @contextmanager
    def count(self) -> Iterator[Transactions]:
        """Count the transactions of all connections, each used by one thread at a time."""
        self._found = Transactions()
        yield self._found
