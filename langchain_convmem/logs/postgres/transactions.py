"""One PostgreSQL transaction as steps. Knows neither the driver nor what is stored.

A procedure is a generator over a `Transaction`: it yields statements and gets their rows back, in
both worlds. Nothing here survives the transaction, so a pooler may hand every transaction to
another server connection.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, TypeAlias, TypeVar

from langchain_convmem.effects import Step, Steps, step
from langchain_convmem.errors import LogUnavailableError

__all__ = ["ConnectionLostError", "Job", "Mode", "Transaction", "opening", "whole"]

T = TypeVar("T")


class Mode(Enum):
    """What a transaction is for."""

    READ = "read"
    """One state of the database, without locks."""
    WRITE = "write"
    """Survives a crash of the server machine once committed."""
    RELAXED = "relaxed"
    """May lose its commit in a crash of the server, never a part of itself."""
    ERASE = "erase"
    """As `WRITE`; may run as long as it takes, since what is erased may be large."""


class ConnectionLostError(LogUnavailableError):
    """The connection broke; the server has undone whatever was not committed."""

    def __init__(self, message: str, *, transaction: Transaction | None = None) -> None:
        """Create the error for the transaction that was under way."""
        super().__init__(message)
        self.transaction = transaction


class Transaction:
    """An open transaction; its statements run one after the other.

    Attributes:
        cursor: The driver's cursor; None until a connection was found.
        xid: The server's number for a writing transaction, else None.
        committing: COMMIT was sent: if its answer is lost, the server may have carried it out.
        result: What the procedure returned.
    """

    def __init__(self, schema: str) -> None:
        """Create a transaction on the tables of `schema`, a plain identifier."""
        self.schema = schema
        self.cursor: Any = None
        self.xid: str | None = None
        self.committing = False
        self.result: Any = None

    def query(self, text: str, *values: Any) -> Step:
        """Return the step that runs a statement and returns its rows.

        Args:
            text: SQL with `{s}` for the schema, `%s` for each value. Without values it may be
                several statements; the rows of the last one count.
            values: Bound, never part of the text.
        """
        return step(self, "fetch", text, values)

    def change(self, text: str, *values: Any) -> Step:
        """Return the step that runs a statement and returns how many rows it touched."""
        return step(self, "count", text, values)

    def fetch(self, text: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Run a statement; see `query`."""
        self.cursor.execute(self._sql(text), values or None, binary=bool(values))
        while self.cursor.nextset():
            pass
        return self.cursor.fetchall() if self.cursor.description else []

    async def afetch(self, text: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Run a statement; see `query`."""
        await self.cursor.execute(self._sql(text), values or None, binary=bool(values))
        while self.cursor.nextset():
            pass
        return await self.cursor.fetchall() if self.cursor.description else []

    def count(self, text: str, values: tuple[Any, ...]) -> int:
        """Run a statement; see `change`."""
        self.cursor.execute(self._sql(text), values)
        return int(self.cursor.rowcount)

    async def acount(self, text: str, values: tuple[Any, ...]) -> int:
        """Run a statement; see `change`."""
        await self.cursor.execute(self._sql(text), values)
        return int(self.cursor.rowcount)

    def _sql(self, text: str) -> bytes:
        return text.format(s=f'"{self.schema}"').encode()


Job: TypeAlias = Callable[[Transaction], Steps[T]]
"""A procedure inside one transaction; may be run again from the start on another connection."""


def whole(transaction: Transaction, begin: str, job: Job[T]) -> Steps[T]:
    """Run a job between `begin` and COMMIT; whoever lent the connection undoes what fails."""
    rows: list[tuple[Any, ...]] = yield transaction.query(begin)
    transaction.xid = rows[0][0] if rows else None
    transaction.result = yield from job(transaction)
    transaction.committing = transaction.xid is not None
    yield transaction.query("COMMIT")
    result: T = transaction.result
    return result


def opening(mode: Mode, timeout_s: float | None) -> str:
    """Return what opens a transaction, limits included, in one message to the server.

    Everything is LOCAL: behind a pooler, the next transaction may be of another client.

    Args:
        mode: What it is for.
        timeout_s: How long one statement may take, locks included, and how long the server keeps
            an idle transaction (and its locks) of a client that it hears nothing of; None leaves
            both to the server's settings.
    """
    level = "REPEATABLE READ READ ONLY" if mode is Mode.READ else "READ COMMITTED READ WRITE"
    parts = [f"BEGIN ISOLATION LEVEL {level}"]
    if timeout_s is not None:
        limited = "lock_timeout" if mode is Mode.ERASE else "statement_timeout"
        milliseconds = max(1, round(timeout_s * 1000))
        parts += [
            f"SET LOCAL {name} = {milliseconds}"
            for name in (limited, "idle_in_transaction_session_timeout")
        ]
    if mode is not Mode.READ:
        parts.append(
            "SELECT pg_current_xact_id()::text, "
            f"set_config('synchronous_commit', {_durability(mode)}, true)"
        )
    return "; ".join(parts)


def _durability(mode: Mode) -> str:
    if mode is Mode.RELAXED:
        return "'off'"
    # A server may be set to acknowledge early; what waits for replicas stays as it is set.
    now = "current_setting('synchronous_commit')"
    return f"CASE {now} WHEN 'off' THEN 'on' ELSE {now} END"
