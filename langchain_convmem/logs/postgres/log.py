"""`PostgresLog`: a message log in a PostgreSQL database, for any number of processes and machines.

Positions are numbered by the owner's row, whose lock a writer holds until its commit: they are the
order of commits, and have no gaps until something is forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from langchain_convmem.effects import arun, run
from langchain_convmem.errors import ConfigError
from langchain_convmem.logs.postgres.calls import Calls
from langchain_convmem.logs.postgres.connections import Connections, Options
from langchain_convmem.records import (
    Changes,
    Draft,
    Entry,
    ForgetReceipt,
    LineChanges,
    Owner,
    StateDocument,
    StoredSegment,
    ThreadInfo,
    ThreadKey,
)

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection
    from psycopg_pool import AsyncConnectionPool, ConnectionPool

__all__ = ["PostgresLog"]

_SCHEMA_NAME = re.compile("(?!pg_)[A-Za-z_][A-Za-z0-9_]{0,62}")


class PostgresLog:
    """A message log in a schema of a PostgreSQL database (13 or newer, encoding UTF8).

    The schema is created or migrated by the first call, or by `setup`. Safe to share between
    threads, event loops and forked processes, and to open many times; asynchronous calls use
    asynchronous connections, of which each event loop has its own. Works behind PgBouncer in
    transaction mode: nothing is kept in a session, but see `prepared_statements`.

    A connection that breaks before its COMMIT is replaced and the call is made once more. If the
    answer to a COMMIT is lost, the server is asked whether it was carried out.
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        pool: ConnectionPool[Any] | Connection[Any] | None = None,
        async_pool: AsyncConnectionPool[Any] | AsyncConnection[Any] | None = None,
        schema: str = "convmem",
        min_size: int = 1,
        max_size: int = 10,
        statement_timeout_s: float | None = 30.0,
        prepared_statements: bool = True,
    ) -> None:
        """Prepare the log; the first call connects.

        Args:
            dsn: `postgresql://user@host:5432/database`, or libpq's `key=value` form.
            pool: Instead of connections of its own: a pool or one connection of the caller's, for
                the synchronous calls. It must be in no transaction; it is never closed.
            async_pool: The same for the asynchronous calls.
            schema: Where the tables are: letters, digits and `_`; case counts.
            min_size: So many own connections stay open however long they are idle.
            max_size: So many own connections at once, for the threads and for each event loop;
                who comes after them waits, for 30 seconds.
            statement_timeout_s: How long a statement may take, waiting for other writers included;
                of `forget` and of migrations only the waiting is limited. None: the server's
                settings count.
            prepared_statements: Let own connections keep prepared statements; switch it off behind
                a PgBouncer older than 1.21.

        Raises:
            MissingExtraError: If psycopg is not installed.
            ConfigError: If an argument cannot be, or there is neither a dsn nor a connection.
        """
        if dsn is None and pool is None and async_pool is None:
            raise ConfigError("PostgresLog needs a dsn, a pool or an async_pool")
        if not _SCHEMA_NAME.fullmatch(schema):
            msg = (
                f"schema {schema!r} is no plain name: up to 63 letters, digits and '_', not "
                "beginning with a digit or 'pg_'"
            )
            raise ConfigError(msg)
        if not 0 <= min_size <= max_size or max_size < 1:
            msg = f"pool sizes must be 0 <= min_size <= max_size, got {min_size} and {max_size}"
            raise ConfigError(msg)
        if statement_timeout_s is not None and not statement_timeout_s > 0:
            msg = f"statement_timeout_s must be positive or None, got {statement_timeout_s!r}"
            raise ConfigError(msg)
        options = Options(
            dsn=dsn,
            pool=pool,
            async_pool=async_pool,
            schema=schema,
            min_size=min_size,
            max_size=max_size,
            statement_timeout_s=statement_timeout_s,
            prepared_statements=prepared_statements,
        )
        self._connections = Connections(options)
        self._calls = Calls(self._connections)

    def __repr__(self) -> str:
        return f"<PostgresLog on {self._connections.place}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def setup(self) -> None:
        """Create or migrate the schema now; the first call would.

        Needs the right to create; the other calls need no more than to read and write the tables.

        Raises:
            SchemaVersionError: If a newer release or another program wrote the schema.
        """
        run(self._calls.setup())

    async def asetup(self) -> None:
        """Create or migrate the schema now, without blocking the event loop."""
        await arun(self._calls.setup())

    def close(self) -> None:
        """Close own connections; later calls raise `LogClosedError`. Idempotent, never waits."""
        self._connections.close()

    async def aclose(self) -> None:
        """Close own connections, those of every event loop and thread."""
        self._connections.close()

    # -- writing --------------------------------------------------------------------------------

    def append(
        self, key: ThreadKey, drafts: Sequence[Draft], *, relaxed: bool = False
    ) -> list[Entry]:
        """Append all drafts in one transaction; see `MessageLog.append`."""
        return run(self._calls.append(key, drafts, relaxed=relaxed))

    async def aappend(
        self, key: ThreadKey, drafts: Sequence[Draft], *, relaxed: bool = False
    ) -> list[Entry]:
        """Append, without blocking the event loop.

        A cancelled call has written all or nothing.
        """
        return await arun(self._calls.append(key, drafts, relaxed=relaxed))

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
        return run(
            self._calls.annotate(key, entry_id, attributes=attributes, timing=timing, aux=aux)
        )

    async def aannotate(
        self,
        key: ThreadKey,
        entry_id: str,
        *,
        attributes: Sequence[str] = (),
        timing: Mapping[str, int] | None = None,
        aux: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Annotate, without blocking the event loop."""
        return await arun(
            self._calls.annotate(key, entry_id, attributes=attributes, timing=timing, aux=aux)
        )

    # -- reading --------------------------------------------------------------------------------

    def entries(
        self,
        key: ThreadKey,
        *,
        after: int = 0,
        until: int | None = None,
        last: int | None = None,
    ) -> list[Entry]:
        """Return entries in order of position; see `MessageLog.entries`."""
        return run(self._calls.entries(key, after=after, until=until, last=last))

    async def aentries(
        self,
        key: ThreadKey,
        *,
        after: int = 0,
        until: int | None = None,
        last: int | None = None,
    ) -> list[Entry]:
        """Return entries, without blocking the event loop."""
        return await arun(self._calls.entries(key, after=after, until=until, last=last))

    def find(self, key: ThreadKey, message_ids: Collection[str]) -> list[Entry]:
        """Return the entries with these message ids, by an index; see `MessageLog.find`."""
        return run(self._calls.find(key, message_ids))

    async def afind(self, key: ThreadKey, message_ids: Collection[str]) -> list[Entry]:
        """Find entries, without blocking the event loop."""
        return await arun(self._calls.find(key, message_ids))

    def threads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return a user's threads, latest first; see `MessageLog.threads`."""
        return run(self._calls.threads(user_id))

    async def athreads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return threads, without blocking the event loop."""
        return await arun(self._calls.threads(user_id))

    def owners(self) -> list[Owner]:
        """Return every user and every thread of no user that has entries."""
        return run(self._calls.owners())

    async def aowners(self) -> list[Owner]:
        """Return the owners, without blocking the event loop."""
        return await arun(self._calls.owners())

    def changes(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return entries behind the cursor in commit order; see `MessageLog.changes`."""
        return run(self._calls.changes(owner, cursor, limit=limit))

    def line_changes(
        self, owner: Owner, cursor: int = 0, *, limit: int | None = None
    ) -> LineChanges:
        """Return lines behind the cursor in commit order; see `LineSource.line_changes`."""
        return run(self._calls.line_changes(owner, cursor, limit=limit))

    async def achanges(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return changes, without blocking the event loop."""
        return await arun(self._calls.changes(owner, cursor, limit=limit))

    # -- erasing --------------------------------------------------------------------------------

    def forget(
        self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None = None
    ) -> ForgetReceipt:
        """Erase an owner, a thread or some of its entries; see `MessageLog.forget`.

        The rows are gone for every reader at once. Their space is overwritten when PostgreSQL
        vacuums the tables; its backups and archived write-ahead log keep them until they expire.
        """
        return run(self._calls.forget(scope, entry_ids))

    async def aforget(
        self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None = None
    ) -> ForgetReceipt:
        """Forget, without blocking the event loop."""
        return await arun(self._calls.forget(scope, entry_ids))

    # -- state documents ------------------------------------------------------------------------

    def get_state(self, key: ThreadKey, name: str) -> StateDocument | None:
        """Return the document, or None."""
        return run(self._calls.get_state(key, name))

    async def aget_state(self, key: ThreadKey, name: str) -> StateDocument | None:
        """Return the document, without blocking the event loop."""
        return await arun(self._calls.get_state(key, name))

    def set_state(
        self, key: ThreadKey, name: str, value: Any, *, expected: int | None
    ) -> StateDocument | None:
        """Write the document if its version is `expected`; see `ThreadState.set_state`."""
        return run(self._calls.set_state(key, name, value, expected=expected))

    async def aset_state(
        self, key: ThreadKey, name: str, value: Any, *, expected: int | None
    ) -> StateDocument | None:
        """Write the document, without blocking the event loop."""
        return await arun(self._calls.set_state(key, name, value, expected=expected))

    def delete_state(self, key: ThreadKey, name: str) -> None:
        """Delete the document if there is one."""
        run(self._calls.delete_state(key, name))

    async def adelete_state(self, key: ThreadKey, name: str) -> None:
        """Delete the document, without blocking the event loop."""
        await arun(self._calls.delete_state(key, name))

    # -- segments -------------------------------------------------------------------------------

    def load_segments(
        self, owner: Owner, fingerprint: str, *, after: int = 0
    ) -> list[StoredSegment]:
        """Return the owner's rows, in order; see `SegmentCache.load_segments`."""
        return run(self._calls.load_segments(owner, fingerprint, after=after))

    def save_segments(self, owner: Owner, fingerprint: str, rows: Iterable[StoredSegment]) -> None:
        """Add or overwrite rows, a thousand per transaction; see `SegmentCache.save_segments`."""
        run(self._calls.save_segments(owner, fingerprint, list(rows)))

    def segment_fingerprints(self, owner: Owner) -> list[str]:
        """Return under which names there are vectors; see `SegmentCache.segment_fingerprints`."""
        return run(self._calls.segment_fingerprints(owner))

    def delete_segments(self, owner: Owner, fingerprint: str) -> int:
        """Delete rows, a thousand per transaction; see `SegmentCache.delete_segments`."""
        return run(self._calls.delete_segments(owner, fingerprint))
