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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import product
from typing import TYPE_CHECKING, Any

from langchain_convmem.errors import (
    ConfigError,
    LogError,
    LogUnavailableError,
    MissingExtraError,
)
from langchain_convmem.forks import make_lock
from langchain_convmem.logs.base import hash_message_id
from langchain_convmem.logs.sql_log import (
    NEW_META,
    SCHEMA_VERSION,
    SqlLog,
    Transaction,
    write_schema,
)

if TYPE_CHECKING:
    from psycopg import ClientCursor, Connection
    from psycopg import Error as DriverError
    from psycopg_pool import ConnectionPool

_SCHEMA_NAME = re.compile("(?!pg_)[A-Za-z_][A-Za-z0-9_]{0,62}")
# What a dsn may override.
_DEFAULTS = {
    "application_name": "langchain-convmem",
    "connect_timeout": "10",
    # Without these, a server that vanished is noticed after a quarter of an hour.
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
# How long a call waits for a connection; a server that is back is noticed as soon, or sooner.
_POOL: dict[str, Any] = {"min_size": 1, "timeout": 10.0, "reconnect_timeout": 10.0}
# Between questions about a commit whose answer was lost.
PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
# No operational errors to psycopg, but they pass: a server that only reads until a failover is
# over, and transactions that were ended because they waited too long.
_PASSING = ("25006", "25P03", "25P04")
TABLES = write_schema(
    serial="bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY", integer="bigint", data="bytea"
)


class _Transaction:
    """Statements of one transaction; see `sql_log.Transaction`.

    Attributes:
        stack: Gives the connection back.
        xid: The server's number for a writing transaction, once it has begun.
        is_fresh: Whether another connection may be taken for it: nothing was answered yet.
        is_committing: Whether COMMIT was sent: without its answer, nobody knows what became of it.
    """

    for_update = " FOR UPDATE"

    def __init__(self, lend: Callable[[], Any], begin: str, *, write: bool, once: bool) -> None:
        """Take a connection; nothing is sent before the first statement.

        Args:
            lend: Lends a connection for a block.
            begin: What opens the transaction; one that writes begins with a row of its number.
            write: Whether it writes.
            once: Whether its one statement is all of it.
        """
        self.stack = ExitStack()
        self.xid: str | None = None
        self.is_fresh, self.is_committing = True, False
        self._lend, self._write, self._once = lend, write, once
        self._waiting = [begin]
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
        if not self._once:
            self._waiting.append("COMMIT")
            self.is_fresh, self.is_committing = False, True
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

        script = ";\n".join(self._waiting)
        try:
            self._cursor.execute(script)
        except OperationalError:
            if not (self.is_fresh and self._cursor.connection.closed):
                raise
            self.stack.close()
            self._take_connection()
            self._cursor.execute(script)
        self._waiting, self.is_fresh = [], False
        found: list[Any] = []
        while True:
            result = self._cursor.pgresult
            if result is not None and result.nfields:
                found = self._cursor.fetchall()
                if self._write and self.xid is None:
                    self.xid = found.pop()[0]
            if not self._cursor.nextset():
                return found, self._cursor.rowcount


class PostgresLog(SqlLog):
    """A message log in a schema of a PostgreSQL database (13 or newer, encoding UTF8).

    The schema is created by the first call, or by `setup`. Safe to share between threads and
    forked processes, and to open many times. Works behind PgBouncer in transaction mode.

    If the response to a COMMIT is lost, the log asks the server whether it committed.
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
            pool: The application's own `psycopg_pool.ConnectionPool` instead of a dsn; the log
                never closes it.
            schema: Name of the schema: letters, digits and `_`; case matters.
            max_size: Maximum number of connections; further calls wait up to ten seconds for one.
            statement_timeout_s: How long a statement may read, or wait for other writers. None uses
                the server's settings.
            signing_key: A secret of 16 to 64 bytes that signs entries, so that the log detects
                changes by anybody without the secret. The first call sets it for everybody who
                opens the schema.

        Raises:
            MissingExtraError: If psycopg or psycopg_pool is not installed.
            ConfigError: If an argument is invalid, or there is neither a dsn nor a pool.
        """
        super().__init__(signing_key)
        self._settings = _read_dsn(dsn, pool)
        if not _SCHEMA_NAME.fullmatch(schema):
            rule = "letters, digits and '_', at most 63, no digit first, not 'pg_...'"
            raise ConfigError(f"schema {schema!r} is no plain name: {rule}")
        if max_size < 1:
            raise ConfigError(f"max_size must be at least 1, got {max_size}")
        if statement_timeout_s is not None and not statement_timeout_s > 0:
            raise ConfigError(f"statement_timeout_s must be positive, got {statement_timeout_s!r}")
        self._schema = schema
        self._openings = {
            kind: _write_opening(schema, statement_timeout_s, *kind)
            for kind in product((False, True), repeat=3)
        }
        self._given, self._max_size = pool, max_size
        # By process: what a parent opened stays the parent's, to close it would end its sessions.
        self._pools: dict[int, ConnectionPool[Any]] = {}
        self._guard = make_lock()
        self._is_set_up = False
        host, database = (self._settings.get(name, "") for name in ("host", "dbname"))
        server = f"{host or 'the local server'}/{database}" if pool is None else "the given pool"
        self.place = f"{server}, schema {schema!r}"

    def __repr__(self) -> str:
        return f"<PostgresLog on {self.place}>"

    def setup(self) -> None:
        """Create the schema now instead of with the first call.

        This needs permission to create objects; other calls only read and write the tables.

        Raises:
            LogError: If another release or another program created the schema.
            ConfigError: If its entries are signed with another key or not signed.
        """
        with self._transaction():
            pass

    def close(self) -> None:
        """Close the log's own connections; later calls raise `LogClosedError`. Idempotent."""
        self._closed = True
        if self._given is None and os.getpid() in self._pools:
            self._pools[os.getpid()].close()
        self._decode_again.cache_clear()
        super().close()

    # -- transactions -----------------------------------------------------------------------------

    @contextmanager
    def _begin(self, *, write: bool, once: bool, durable: bool = True) -> Iterator[Transaction]:
        from psycopg import Error

        tx = None
        try:
            self._set_up()
            tx = self._make_transaction(write=write, durable=durable, once=once)
            with tx.stack:
                yield tx
                tx.commit()
        except Error as error:
            failure = self._translate(error)
            if tx is None or not (tx.is_committing and tx.xid):
                raise failure from error
            self._learn_outcome(tx.xid, failure)

    def _make_transaction(self, *, write: bool, durable: bool, once: bool) -> _Transaction:
        begin = self._openings[write, durable, once]
        return _Transaction(self._lend, begin, write=write, once=once)

    def _learn_outcome(self, xid: str, lost: LogError) -> None:
        """Ask the server what became of a commit whose answer was lost."""
        for pause_s in PAUSES_S:
            fate = None
            with suppress(LogUnavailableError), self._begin(write=False, once=True) as tx:
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
        pool = self._pools[os.getpid()]
        with pool.connection() as connection:
            is_given = not connection.autocommit  # by the application, as it likes it
            if is_given:
                connection.autocommit = True
            try:
                yield connection
            finally:
                if connection.closed:
                    pool.check()  # what broke it may have broken others
                elif is_given:
                    connection.rollback()
                    connection.autocommit = False

    def _set_up(self) -> None:
        """Open the pool of this process, and see that the tables are there."""
        pid = os.getpid()
        if self._is_set_up and pid in self._pools:
            return
        with self._guard:
            self._check_open()
            if pid not in self._pools:
                self._pools[pid] = self._given or self._open_pool()
            if not self._is_set_up:
                tx = self._make_transaction(write=True, durable=True, once=False)
                with tx.stack:
                    if not _has_tables(tx, self._schema):
                        _create_tables(tx, self._schema, self._signer.key_id)
                    self._check_key(tx)
                    tx.commit()
                self._is_set_up = True

    def _open_pool(self) -> ConnectionPool[Any]:
        from psycopg import Connection
        from psycopg_pool import ConnectionPool

        settings = {**self._settings, "client_encoding": "utf8", "autocommit": True}
        # A server that cannot be reached is noticed at once, and why.
        Connection.connect(**settings).close()
        return ConnectionPool(kwargs=settings, max_size=self._max_size, open=True, **_POOL)

    def _translate(self, error: DriverError) -> LogError:
        from psycopg import OperationalError

        # The first line alone, of the cause as well: the others may quote what was to be stored.
        reason = str(error).partition("\n")[0]
        error.args, state = (reason,), error.sqlstate or ""
        if isinstance(error, OperationalError) or state in _PASSING:
            msg = f"the log on {self.place} is unavailable: {reason}; try again"
            return LogUnavailableError(msg)
        msg = f"the log on {self.place} cannot be used: {reason}; check the schema and its rights"
        return LogError(msg)


def _write_opening(
    schema: str, timeout_s: float | None, write: bool, durable: bool, once: bool
) -> str:
    """Return what opens a transaction, limits included.

    Everything is LOCAL: behind a pooler, the next transaction may be of another client.
    """
    level = "READ COMMITTED READ WRITE" if write else "REPEATABLE READ READ ONLY"
    settings = {"search_path": f'"{schema}"'}
    if timeout_s is not None:
        limit = str(max(1, round(timeout_s * 1000)))
        settings["lock_timeout" if write else "statement_timeout"] = limit
        if not once:
            settings["idle_in_transaction_session_timeout"] = limit
    opening = [f"SET LOCAL {name} = {value}" for name, value in settings.items()]
    if not once:  # what is sent at once is a transaction anyway
        opening.insert(0, f"BEGIN ISOLATION LEVEL {level}")
    if write:
        # A server may be set to acknowledge early; what waits for replicas stays as it is set.
        now = "current_setting('synchronous_commit')"
        wanted = f"CASE {now} WHEN 'off' THEN 'on' ELSE {now} END" if durable else "'off'"
        commit = f"set_config('synchronous_commit', {wanted}, true)"
        opening.append(f"SELECT pg_current_xact_id()::text, {commit}")
    return ";\n".join(opening)


def _read_dsn(dsn: str | None, pool: object) -> dict[str, Any]:
    """Return the settings of own connections; none for a given pool."""
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
        from psycopg_pool import ConnectionPool
    except ImportError as error:
        raise MissingExtraError.build("PostgresLog", "postgres") from error
    if isinstance(pool, ConnectionPool):
        return {}
    if pool is not None:
        msg = "pool must be a psycopg_pool.ConnectionPool, which is synchronous, got a"
        raise ConfigError(f"{msg} {type(pool).__name__}")
    if dsn is None:
        raise ConfigError("PostgresLog needs a dsn or a pool")
    try:
        return {**_DEFAULTS, **conninfo_to_dict(dsn)}
    except ProgrammingError:
        # Neither the dsn nor the reason is shown: both may hold the password.
        forms = "'postgresql://user@host:5432/database' or 'host=... dbname=... user=...'"
        raise ConfigError(f"the dsn cannot be read; pass {forms}") from None


# -- the schema -----------------------------------------------------------------------------------


def _create_tables(tx: Transaction, schema: str, key_id: bytes) -> None:
    """Create the schema and its tables; of several callers, one does it."""
    # Ends with the transaction: a lock of the session would stay behind in a pooler.
    tx.rows("SELECT pg_advisory_xact_lock(?)", hash_message_id(f"langchain_convmem {schema}"))
    if not tx.rows("SELECT 1 FROM pg_namespace WHERE nspname = ?", schema):
        # Not IF NOT EXISTS, which asks for the right to create even where nothing is created.
        tx.do(f'CREATE SCHEMA "{schema}"')
    if not _has_tables(tx, schema):
        for statement in TABLES:
            tx.do(statement)
        tx.do(NEW_META, key_id)


def _has_tables(tx: Transaction, schema: str) -> bool:
    """Return whether the tables are there.

    Raises:
        LogError: If another release or another program wrote them.
        LogError: If the database cannot hold every text.
    """
    columns = "SELECT array_agg(attname) FROM pg_attribute WHERE attrelid = to_regclass('meta')"
    encodings = "current_setting('server_encoding'), current_setting('client_encoding')"
    [(server, client, found)] = tx.rows(f"SELECT {encodings}, ({columns})::text")
    if (server, client) != ("UTF8", "UTF8"):
        msg = f"the database is encoded in {server}, its connection in {client}"
        raise LogError(f"{msg}; a log needs UTF8 for both")
    if found is None:
        return False
    if "epoch" not in found:
        msg = f"schema {schema!r} holds tables of another program; choose another schema"
        raise LogError(msg)
    for (version,) in tx.rows("SELECT version FROM meta"):
        if version != SCHEMA_VERSION:
            msg = f"schema {schema!r} has version {version}; open it with the release that wrote it"
            raise LogError(msg)
    return True
