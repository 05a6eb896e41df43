"""`PostgresLog`: a message log in a PostgreSQL database, for any number of processes and machines.

The only file that imports psycopg, and only when a log is made. Values are written into the
statements by the client, so that several statements make one message to the server: BEGIN and the
settings of a transaction go with its first statement, COMMIT with its last one. Nothing is kept in
a session, so that a pooler may hand every transaction to another server connection.

A writer holds its owner's row until the commit: so an owner's positions become visible in ascending
order, and no reader's cursor passes one that is still to come.
"""

from __future__ import annotations

import os
import re
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from langchain_convmem.errors import (
    ConfigError,
    LogError,
    LogUnavailableError,
    MissingExtraError,
    SchemaVersionError,
)
from langchain_convmem.forks import make_lock
from langchain_convmem.logs.base import hash_message_id
from langchain_convmem.logs.sql_log import SCHEMA_VERSION, SqlLog, Transaction, write_schema

if TYPE_CHECKING:
    from psycopg import ClientCursor, Connection
    from psycopg import Error as DriverError
    from psycopg_pool import ConnectionPool

    Lend = Callable[[], AbstractContextManager[Connection[Any]]]

_SCHEMA_NAME = re.compile("(?!pg_)[A-Za-z_][A-Za-z0-9_]{0,62}")
_DEFAULTS = {
    "application_name": "langchain-convmem",
    "connect_timeout": "10",
    # Without these, a server that vanished is noticed after a quarter of an hour.
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
"""Connection settings that a dsn may override."""
_WAIT_S = 10.0
"""How long a call waits for a connection of the pool."""
PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Between questions about a commit whose answer was lost."""
_LOST = frozenset({"25P03", "25P04", "57P01", "57P02", "57P03", "57P05"})
"""The server ended the connection: by its administrator, a crash, a timeout of the idle."""
_STANDBY = "25006"
"""The server only reads: after a failover, until the address leads to the new primary."""
_LASTING = ("28", "3D", "54", "57P04")
"""Beginnings of operational errors that another try does not fix: rights, names, limits."""
TABLES = write_schema(
    serial="bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    integer="bigint",
    data="bytea",
)


class _Transaction:
    """Statements of one transaction; see `sql_log.Transaction`.

    Attributes:
        stack: Gives the connection back.
        xid: The server's number for a writing transaction, once it has begun.
        is_once: Whether the first statement is the only one: COMMIT goes with it.
        is_committing: Whether COMMIT was sent: without its answer, nobody knows what became of it.
    """

    for_update = " FOR UPDATE"

    def __init__(self, lend: Lend, mend: Callable[[], None], begin: str) -> None:
        self.stack = ExitStack()
        self.xid: str | None = None
        self.is_committing = False
        self.is_once = False
        self._lend, self._mend = lend, mend
        self._waiting = [begin]
        self._is_begun = False
        self._take_connection()

    def rows(self, sql: str, *values: Any) -> list[Any]:
        self.do(sql, *values)
        return self._send()[0]

    def count(self, sql: str, *values: Any) -> int:
        self.do(sql, *values)
        return self._send()[1]

    def do(self, sql: str, *values: Any) -> None:
        self._waiting.append(self._cursor.mogrify(sql.replace("?", "%s"), values))

    def commit(self) -> None:
        if not self.is_once:
            self._waiting.append("COMMIT")
            self.is_committing = True
            self._send()

    def _take_connection(self) -> None:
        from psycopg import ClientCursor
        from psycopg.rows import tuple_row

        connection = self.stack.enter_context(self._lend())
        self._cursor: ClientCursor[Any] = ClientCursor(connection, row_factory=tuple_row)

    def _send(self) -> tuple[list[Any], int]:
        """Send what waits; return the rows of the last statement, and how many it changed.

        A server that restarted leaves every idle connection broken. Before the transaction has
        begun, nothing is lost with one: then another is taken, once.
        """
        from psycopg import OperationalError

        if self.is_once:
            self._waiting.append("COMMIT")
        script = ";\n".join(self._waiting)
        try:
            self._cursor.execute(script)
        except OperationalError:
            if self._is_begun or self.is_committing or not self._cursor.connection.closed:
                raise
            self.stack.close()
            self._mend()
            self._take_connection()
            self._cursor.execute(script)
        self._waiting = []
        return self._read_results()

    def _read_results(self) -> tuple[list[Any], int]:
        cursor, rows = self._cursor, []
        while True:
            if cursor.description:
                rows = cursor.fetchall()
                if not self._is_begun and self.xid is None:
                    self.xid = rows[0][0]
            if not cursor.nextset():
                self._is_begun = True
                return rows, cursor.rowcount


class PostgresLog(SqlLog):
    """A message log in a schema of a PostgreSQL database (13 or newer, encoding UTF8).

    The schema is created by the first call, or by `setup`. Safe to share between threads and
    forked processes, and to open many times. Works behind PgBouncer in transaction mode.

    If the answer to a COMMIT is lost, the server is asked whether it was carried out.
    """

    workers = 10

    def __init__(
        self,
        dsn: str | None = None,
        *,
        pool: ConnectionPool[Any] | None = None,
        schema: str = "convmem",
        max_size: int = 10,
        statement_timeout_s: float | None = 30.0,
        signing_key: bytes | str | None = None,
    ) -> None:
        """Prepare the log; the first call connects.

        Args:
            dsn: `postgresql://user@host:5432/database`, or libpq's `key=value` form.
            pool: Instead of a dsn: a `psycopg_pool.ConnectionPool` of the application's, which is
                never closed.
            schema: Where the tables are: letters, digits and `_`; case counts.
            max_size: So many connections at once; who comes after them waits for ten seconds.
            statement_timeout_s: How long a statement may read, or wait for other writers. None:
                the server's settings count.
            signing_key: A secret of 16 to 64 bytes with which entries are signed: then the log
                shows changes by anybody who does not know it, too. All that open the schema need
                it, from its first entry on.

        Raises:
            MissingExtraError: If psycopg or psycopg_pool is not installed.
            ConfigError: If an argument cannot be, or there is neither a dsn nor a pool.
        """
        super().__init__(signing_key)
        self._settings = _read_dsn(dsn)
        if dsn is None and pool is None:
            raise ConfigError("PostgresLog needs a dsn or a pool")
        if pool is not None and (hasattr(pool, "__aenter__") or not hasattr(pool, "connection")):
            msg = (
                "pool must be a psycopg_pool.ConnectionPool, no asynchronous one: the log's "
                f"asynchronous calls run in threads; got a {type(pool).__name__}"
            )
            raise ConfigError(msg)
        if not _SCHEMA_NAME.fullmatch(schema):
            msg = (
                f"schema {schema!r} is no plain name: up to 63 letters, digits and '_', not "
                "beginning with a digit or 'pg_'"
            )
            raise ConfigError(msg)
        if max_size < 1:
            raise ConfigError(f"max_size must be at least 1, got {max_size}")
        if statement_timeout_s is not None and not statement_timeout_s > 0:
            msg = f"statement_timeout_s must be positive or None, got {statement_timeout_s!r}"
            raise ConfigError(msg)
        self._schema = schema
        self._timeout_s = statement_timeout_s
        self._given, self._max_size = pool, max_size
        self._pool: ConnectionPool[Any] | None = pool
        self._pid = os.getpid()
        self._inherited: list[object] = []
        self._guard = make_lock()
        self._is_set_up = False
        where = self._settings
        server = f"{where.get('host', 'the local server')}/{where.get('dbname', '')}"
        self.place = f"{server if where else 'the given pool'}, schema {schema!r}"

    def __repr__(self) -> str:
        return f"<PostgresLog on {self.place}>"

    def setup(self) -> None:
        """Create the schema now; the first call would.

        Needs the right to create; the other calls need no more than to read and write the tables.

        Raises:
            SchemaVersionError: If another release or another program wrote the schema.
            ConfigError: If its entries are signed with another key, or with none.
        """
        with self._transaction():
            pass

    def close(self) -> None:
        """Close own connections; later calls raise `LogClosedError`. Idempotent."""
        self._closed = True
        if self._pool is not None and self._given is None and self._pid == os.getpid():
            self._pool.close()
        self._decode_again.cache_clear()
        self._stop_workers()

    # -- transactions -----------------------------------------------------------------------------

    @contextmanager
    def _begin(self, *, write: bool, durable: bool, once: bool) -> Iterator[Transaction]:
        with self._translate_errors():
            if not self._is_set_up or self._pid != os.getpid():
                self._set_up()
            tx = self._make_transaction(write=write, durable=durable)
            tx.is_once = once
            with tx.stack:
                yield tx
                self._commit(tx)

    def _make_transaction(self, *, write: bool, durable: bool) -> _Transaction:
        """Return a transaction, with what opens it, limits included.

        Everything is LOCAL: behind a pooler, the next transaction may be of another client.
        """
        level = "READ COMMITTED READ WRITE" if write else "REPEATABLE READ READ ONLY"
        parts = [f"BEGIN ISOLATION LEVEL {level}", f'SET LOCAL search_path TO "{self._schema}"']
        if self._timeout_s is not None:
            limited = "lock_timeout" if write else "statement_timeout"
            limit = max(1, round(self._timeout_s * 1000))
            parts.append(f"SET LOCAL {limited} = {limit}")
            parts.append(f"SET LOCAL idle_in_transaction_session_timeout = {limit}")
        # A server may be set to acknowledge early; what waits for replicas stays as it is set.
        now = "current_setting('synchronous_commit')"
        level = f"CASE {now} WHEN 'off' THEN 'on' ELSE {now} END" if durable else "'off'"
        number = "pg_current_xact_id()::text" if write else "''"
        parts.append(f"SELECT {number}, set_config('synchronous_commit', {level}, true)")
        return _Transaction(self._lend, self._require_pool().check, "; ".join(parts))

    def _commit(self, tx: _Transaction) -> None:
        from psycopg import OperationalError

        try:
            tx.commit()
        except OperationalError as error:
            if not tx.xid or not _is_lost(error):
                raise
            self._learn_outcome(tx.xid, self._translate(error))

    def _learn_outcome(self, xid: str, lost: LogError) -> None:
        """Ask the server what became of a commit whose answer was lost."""
        from psycopg import OperationalError

        for pause_s in PAUSES_S:
            fate = None
            with suppress(OperationalError):
                tx = self._make_transaction(write=False, durable=True)
                tx.is_once = True
                with tx.stack:
                    [(fate,)] = tx.rows("SELECT pg_xact_status(?::text::xid8)", xid)
            if fate == "committed":
                return
            if fate == "aborted":
                raise LogUnavailableError(f"{lost}; nothing was written") from lost
            time.sleep(pause_s)
        msg = f"{lost}; whether it was written is not known: repeat it with the same message ids"
        raise LogUnavailableError(msg) from lost

    # -- connections ------------------------------------------------------------------------------

    @contextmanager
    def _lend(self) -> Iterator[Connection[Any]]:
        """Lend a connection that takes BEGIN as it comes; it is given back as it was."""
        with self._require_pool().connection() as connection:
            if connection.info.encoding != "utf-8":
                found = connection.info.encoding
                raise ConfigError(f"a connection of the pool has the encoding {found!r}; use UTF8")
            before = connection.autocommit
            connection.autocommit = True
            try:
                yield connection
            finally:
                if not connection.closed:
                    connection.rollback()
                    connection.autocommit = before

    def _require_pool(self) -> ConnectionPool[Any]:
        if self._pool is None:
            raise LogError(f"the log on {self.place} was not set up")
        return self._pool

    def _set_up(self) -> None:
        """Open the pool of this process, and see that the tables are there."""
        with self._guard:
            self._check_open()
            if self._given is None and (self._pool is None or self._pid != os.getpid()):
                # What a parent opened stays the parent's: to close it would end its sessions.
                self._inherited.append(self._pool)
                self._pool = self._open_pool()
            self._pid = os.getpid()
            if not self._is_set_up:
                tx = self._make_transaction(write=True, durable=True)
                with tx.stack:
                    if not _has_tables(tx, self._schema):
                        _create_tables(tx, self._schema)
                    self._check_key(tx, may_write=True)
                    tx.commit()
                self._is_set_up = True

    def _open_pool(self) -> ConnectionPool[Any]:
        from psycopg import Connection
        from psycopg_pool import ConnectionPool

        own = {"client_encoding": "utf8", "autocommit": True, "prepare_threshold": None}
        settings = {**self._settings, **own}
        # A server that cannot be reached is noticed at once, and why.
        Connection.connect(**settings).close()
        pool: ConnectionPool[Any] = ConnectionPool(
            kwargs=settings, min_size=1, max_size=self._max_size, timeout=_WAIT_S, open=True
        )
        weakref.finalize(self, _close, pool, os.getpid())
        return pool

    # -- errors -----------------------------------------------------------------------------------

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        from psycopg import Error

        try:
            yield
        except Error as error:
            raise self._translate(error) from error
        except UnicodeDecodeError:  # which quotes what it could not read
            msg = f"the log on {self.place} holds text that is no UTF-8; restore a backup"
            raise LogError(msg) from None

    def _translate(self, error: DriverError) -> LogError:
        from psycopg import OperationalError

        state = error.sqlstate or ""
        # The first line alone, of the cause as well: the others may quote what was to be stored.
        reason = str(error).partition("\n")[0]
        error.args = (reason,)
        is_passing = isinstance(error, OperationalError) and not state.startswith(_LASTING)
        if _is_lost(error) or state == _STANDBY or is_passing:
            return LogUnavailableError(
                f"the log on {self.place} is unavailable: {reason}; try again"
            )
        msg = f"the log on {self.place} cannot be used: {reason}; check the schema and its rights"
        return LogError(msg)


def _close(pool: ConnectionPool[Any], pid: int) -> None:
    """Close a pool at the end of its process; a child would end its parent's sessions."""
    if os.getpid() == pid:
        pool.close()


def _is_lost(error: DriverError) -> bool:
    """Return whether the connection was lost; errors without a state are the client's own."""
    from psycopg import OperationalError

    state = error.sqlstate or ""
    is_operational = isinstance(error, OperationalError)
    return state in _LOST or (is_operational and (not state or state.startswith("08")))


def _read_dsn(dsn: str | None) -> dict[str, Any]:
    """Return the settings of a connection; none without a dsn."""
    try:
        import psycopg_pool  # noqa: F401 - needed by whoever makes a log
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError as error:
        raise MissingExtraError.build("PostgresLog", "postgres") from error
    if dsn is None:
        return {}
    try:
        return {**_DEFAULTS, **conninfo_to_dict(dsn)}
    except ProgrammingError:
        # Neither the dsn nor the reason is shown: both may hold the password.
        raise ConfigError(
            "the dsn cannot be read; pass 'postgresql://user@host:5432/database' or "
            "'host=... dbname=... user=...'"
        ) from None


# -- the schema -----------------------------------------------------------------------------------


def _create_tables(tx: Transaction, schema: str) -> None:
    """Create the schema and its tables; of several callers, one does it."""
    # Ends with the transaction: a lock of the session would stay behind in a pooler.
    tx.rows("SELECT pg_advisory_xact_lock(?)", hash_message_id(f"langchain_convmem {schema}"))
    [(exists,)] = tx.rows("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = ?)", schema)
    if not exists:
        # Not IF NOT EXISTS, which asks for the right to create even where nothing is created.
        tx.do(f'CREATE SCHEMA "{schema}"')
    if not _has_tables(tx, schema):
        for statement in TABLES:
            tx.do(statement)


def _has_tables(tx: Transaction, schema: str) -> bool:
    """Return whether the tables are there.

    Raises:
        SchemaVersionError: If another release or another program wrote them.
        LogError: If the database cannot hold every text.
    """
    [(encoding, columns)] = tx.rows(
        "SELECT current_setting('server_encoding'), (SELECT array_agg(a.attname::text) "
        "FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid "
        "JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = ? AND c.relname = 'meta')",
        schema,
    )
    if encoding != "UTF8":
        msg = f"the database is encoded in {encoding}; a log needs one with ENCODING 'UTF8'"
        raise LogError(msg)
    if columns is None:
        return False
    if "epoch" not in columns:
        msg = f"schema {schema!r} holds tables of another program; choose another schema"
        raise SchemaVersionError(msg, supported=SCHEMA_VERSION)
    [(found,)] = tx.rows("SELECT version FROM meta")
    if found != SCHEMA_VERSION:
        msg = (
            f"schema {schema!r} has version {found}, and this release reads version "
            f"{SCHEMA_VERSION}; open it with the release that wrote it"
        )
        raise SchemaVersionError(msg, found=found, supported=SCHEMA_VERSION)
    return True
