"""The PostgreSQL schema as numbered migrations: append to the list, never edit what has shipped.

log_meta   one row: schema version, the epoch that every `forget` raises, and where the positions
           of a new owner begin (above those of any owner that was forgotten)
owners     a user, or a thread of no user (user_id NULL); last_position numbers its entries, and
           its row lock puts its writers in a line; generation = epoch of its last `forget`
threads    one row per (owner, thread_id); digests are the keys, since ids may be long
entries    (owner, position); key_hash finds a message's id
documents  small JSON documents beside a thread, with a version for compare-and-set
segments   what recall derived from lines; rebuildable, gone with its entry
"""

from __future__ import annotations

from langchain_convmem.effects import Steps
from langchain_convmem.errors import LogError, SchemaVersionError
from langchain_convmem.logs.postgres.transactions import Transaction
from langchain_convmem.logs.rows import key_hash

__all__ = ["MIGRATIONS", "is_current", "migrate"]

_M001 = """
CREATE TABLE {s}.log_meta(
  one boolean PRIMARY KEY CHECK (one),
  version integer NOT NULL,
  forget_epoch bigint NOT NULL,
  position_floor bigint NOT NULL
);
INSERT INTO {s}.log_meta VALUES (true, 0, 0, 0);
CREATE TABLE {s}.owners(
  owner bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  digest bytea NOT NULL UNIQUE,
  user_id text,
  last_position bigint NOT NULL DEFAULT 0,
  generation bigint
) WITH (fillfactor = 80);
CREATE INDEX owners_without_user ON {s}.owners(owner) WHERE user_id IS NULL;
CREATE TABLE {s}.threads(
  thread bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  owner bigint NOT NULL REFERENCES {s}.owners,
  digest bytea NOT NULL,
  thread_id text NOT NULL,
  UNIQUE (owner, digest)
);
CREATE TABLE {s}.entries(
  owner bigint NOT NULL,
  position bigint NOT NULL,
  thread bigint NOT NULL REFERENCES {s}.threads ON DELETE CASCADE,
  id uuid NOT NULL,
  turn uuid,
  turn_name bytea,
  role text NOT NULL,
  key_hash bigint,
  body text NOT NULL,
  metadata text,
  PRIMARY KEY (owner, position)
);
CREATE INDEX entries_by_thread ON {s}.entries(thread, position);
CREATE INDEX entries_by_key ON {s}.entries(thread, key_hash) WHERE key_hash IS NOT NULL;
CREATE INDEX entries_by_id ON {s}.entries(id);
CREATE INDEX entries_control ON {s}.entries(thread, position) WHERE role = 'control';
CREATE TABLE {s}.documents(
  thread bigint NOT NULL REFERENCES {s}.threads ON DELETE CASCADE,
  name text NOT NULL,
  version bigint NOT NULL,
  value text NOT NULL,
  PRIMARY KEY (thread, name)
);
CREATE TABLE {s}.fingerprints(
  fingerprint integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL UNIQUE
);
CREATE TABLE {s}.segments(
  owner bigint NOT NULL,
  position bigint NOT NULL,
  part integer NOT NULL,
  segment integer NOT NULL,
  fingerprint integer NOT NULL REFERENCES {s}.fingerprints,
  terms bytea NOT NULL,
  vector bytea,
  PRIMARY KEY (owner, position, part, segment, fingerprint),
  FOREIGN KEY (owner, position) REFERENCES {s}.entries ON DELETE CASCADE
);
"""

# Terms go by the version of their analysis and vectors by embedder and cut, so that a new analysis
# sends no line to an embedder again.
_M002 = """
ALTER TABLE {s}.segments ADD COLUMN analysis integer NOT NULL DEFAULT 1;
UPDATE {s}.fingerprints SET name = replace(name, '/terms-1/', '/');
"""

MIGRATIONS: tuple[str, ...] = (_M001, _M002)
"""Script n brings a schema from version n to n + 1."""


def is_current(tx: Transaction) -> Steps[bool]:
    """Return whether the schema is of the newest version; reads only.

    Raises:
        SchemaVersionError: If a newer release wrote it, or another program did.
        LogError: If the database cannot hold every text.
    """
    return (yield from _version(tx)) == len(MIGRATIONS)


def migrate(tx: Transaction) -> Steps[None]:
    """Create the schema or bring it to the newest version; of several callers, one does it.

    Raises:
        SchemaVersionError: If a newer release wrote it, or another program did.
    """
    # Ends with the transaction: a lock of the session would stay behind in a pooler.
    yield tx.query("SELECT pg_advisory_xact_lock(%s)", key_hash(f"langchain_convmem {tx.schema}"))
    # The catalogue itself: `to_regnamespace` may answer from a cache of before the lock.
    [(exists,)] = yield tx.query(
        "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = %s)", tx.schema
    )
    if not exists:
        # Not IF NOT EXISTS, which asks for the right to create even where nothing is created.
        yield tx.query("CREATE SCHEMA {s}")
    for script in MIGRATIONS[(yield from _version(tx)) :]:
        yield tx.query(script)
    yield tx.query("UPDATE {s}.log_meta SET version = %s", len(MIGRATIONS))


def _version(tx: Transaction) -> Steps[int]:
    [(encoding, columns)] = yield tx.query(
        "SELECT current_setting('server_encoding'), (SELECT array_agg(a.attname::text) "
        "FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid "
        "JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relname = 'log_meta')",
        tx.schema,
    )
    if encoding != "UTF8":
        msg = f"the database is encoded in {encoding}; a log needs one with ENCODING 'UTF8'"
        raise LogError(msg)
    supported = len(MIGRATIONS)
    if columns is None:
        return 0
    if "forget_epoch" not in columns:
        msg = f"schema {tx.schema!r} holds a log_meta of another program; choose another schema"
        raise SchemaVersionError(msg, supported=supported)
    [(found,)] = yield tx.query("SELECT version FROM {s}.log_meta")
    if found > supported:
        msg = (
            f"schema {tx.schema!r} has version {found}, this release supports up to "
            f"{supported}; upgrade langchain-convmem"
        )
        raise SchemaVersionError(msg, found=found, supported=supported)
    return int(found)
