"""The SQLite schema as numbered migrations: append to the list, never edit what has shipped.

meta      one row: the epoch that every `forget` raises, and the highest position that entries had
          when the last one began: no position is given twice; unnumbered, the last position whose
          entry has an id that does not tell it
owners    a user, or a thread of no user; generation = epoch of its last `forget`
threads   one row per (owner, thread_id)
entries   seq is position and commit order in one; key_hash finds a message's id, and an entry's
          own id tells its position. As its primary key, seq stands behind the columns of every
          index anyway
documents small JSON documents beside a thread, with a version for compare-and-set
segments  what recall derived from lines; rebuildable, gone with its entry
"""

from __future__ import annotations

import sqlite3
from contextlib import closing

from langchain_convmem.errors import SchemaVersionError

__all__ = [
    "APPLICATION_ID",
    "MIGRATIONS",
    "check_version",
    "expected_objects",
    "migrate",
    "objects",
]

APPLICATION_ID = 0x434D454D  # "CMEM": tells our files from other SQLite databases

_M001 = """
CREATE TABLE meta(one INTEGER PRIMARY KEY CHECK (one = 1), forget_epoch INTEGER NOT NULL);
INSERT INTO meta VALUES (1, 0);
CREATE TABLE owners(
  owner INTEGER PRIMARY KEY,
  user_id TEXT NOT NULL,
  lone_thread TEXT NOT NULL,
  generation INTEGER NOT NULL,
  UNIQUE (user_id, lone_thread)
);
CREATE TABLE threads(
  thread INTEGER PRIMARY KEY,
  owner INTEGER NOT NULL REFERENCES owners ON DELETE CASCADE,
  thread_id TEXT NOT NULL,
  UNIQUE (owner, thread_id)
);
CREATE TABLE entries(
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  thread INTEGER NOT NULL REFERENCES threads ON DELETE CASCADE,
  id BLOB NOT NULL,
  turn BLOB,
  role INTEGER NOT NULL,
  key_hash INTEGER,
  body TEXT NOT NULL,
  metadata TEXT
);
CREATE INDEX entries_by_thread ON entries(thread);
CREATE INDEX entries_by_key ON entries(thread, key_hash) WHERE key_hash IS NOT NULL;
CREATE INDEX entries_by_id ON entries(thread, id);
CREATE INDEX entries_control ON entries(thread) WHERE role = 5;
CREATE TABLE documents(
  thread INTEGER NOT NULL REFERENCES threads ON DELETE CASCADE,
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (thread, name)
) WITHOUT ROWID;
CREATE TABLE fingerprints(fingerprint INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE segments(
  seq INTEGER NOT NULL REFERENCES entries ON DELETE CASCADE,
  part INTEGER NOT NULL,
  segment INTEGER NOT NULL,
  fingerprint INTEGER NOT NULL REFERENCES fingerprints,
  terms TEXT NOT NULL,
  vector BLOB,
  UNIQUE (seq, part, segment, fingerprint)
);
"""

# AUTOINCREMENT writes a table of its own, one more page at every commit, where only `forget` has
# anything to remember. SQLite cannot take it away but by a new table.
_M002 = """
CREATE TABLE new_entries(
  seq INTEGER PRIMARY KEY,
  thread INTEGER NOT NULL REFERENCES threads ON DELETE CASCADE,
  id BLOB NOT NULL,
  turn BLOB,
  role INTEGER NOT NULL,
  key_hash INTEGER,
  body TEXT NOT NULL,
  metadata TEXT
);
INSERT INTO new_entries SELECT seq, thread, id, turn, role, key_hash, body, metadata FROM entries;
ALTER TABLE meta ADD COLUMN position_floor INTEGER NOT NULL DEFAULT 0;
UPDATE meta SET position_floor =
  coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'entries'), 0);
DROP TABLE entries;
ALTER TABLE new_entries RENAME TO entries;
CREATE INDEX entries_by_thread ON entries(thread);
CREATE INDEX entries_by_key ON entries(thread, key_hash) WHERE key_hash IS NOT NULL;
CREATE INDEX entries_by_id ON entries(thread, id);
CREATE INDEX entries_control ON entries(thread) WHERE role = 5;
"""

# An index of ids is one more page at every commit and 29 bytes for every entry, and is hardly ever
# asked. New ids tell their position; those of before are looked for in their thread.
_M003 = """
ALTER TABLE meta ADD COLUMN unnumbered INTEGER NOT NULL DEFAULT 0;
UPDATE meta SET unnumbered = coalesce((SELECT max(seq) FROM entries), 0);
DROP INDEX entries_by_id;
"""

# Terms go by the version of their analysis and vectors by embedder and cut, so that a new analysis
# sends no line to an embedder again.
_M004 = """
ALTER TABLE segments ADD COLUMN analysis INTEGER NOT NULL DEFAULT 1;
UPDATE fingerprints SET name = replace(name, '/terms-1/', '/');
"""

MIGRATIONS: tuple[str, ...] = (_M001, _M002, _M003, _M004)
"""Script n brings a file from version n to n + 1."""


def migrate(db: sqlite3.Connection, *, path: str) -> None:
    """Bring an open database to the newest schema, in one transaction.

    The connection must not enforce foreign keys yet: a table that makes way for a new one would
    take along what refers to it.

    Raises:
        SchemaVersionError: If a newer release wrote the file, or another program did.
    """
    if check_version(db, path=path) == len(MIGRATIONS):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have migrated while this one waited for the lock.
        for script in MIGRATIONS[_version(db, path) :]:
            _run(db, script)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _run(db: sqlite3.Connection, script: str) -> None:
    for statement in script.split(";"):  # executescript() would commit first
        db.execute(statement)


def check_version(db: sqlite3.Connection, *, path: str) -> int:
    """Return the file's schema version; 0 for an empty file. Writes nothing.

    Raises:
        SchemaVersionError: If a newer release wrote the file, or another program did.
    """
    db.execute("BEGIN")  # one state of the file, also while another process creates it
    try:
        return _version(db, path)
    finally:
        if db.in_transaction:
            db.execute("COMMIT")


def _version(db: sqlite3.Connection, path: str) -> int:
    application = db.execute("PRAGMA application_id").fetchone()[0]
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if application != APPLICATION_ID and (tables or application or version):
        msg = f"{path} is a SQLite database of another program; choose another file"
        raise SchemaVersionError(msg, found=version, supported=len(MIGRATIONS))
    if version > len(MIGRATIONS):
        msg = (
            f"{path} has schema version {version}, this release supports up to "
            f"{len(MIGRATIONS)}; upgrade langchain-convmem"
        )
        raise SchemaVersionError(msg, found=version, supported=len(MIGRATIONS))
    return version


def objects(db: sqlite3.Connection) -> dict[str, str]:
    """Return the SQL of every table and index by its name, SQLite's own left out."""
    found = db.execute(
        "SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!'"
    )
    return dict(found.fetchall())


def expected_objects() -> dict[str, str]:
    """Return what `objects` does for a file of the newest schema."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        for script in MIGRATIONS:
            _run(db, script)
        return objects(db)
