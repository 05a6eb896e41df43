"""Whole SQLite logs: checked from end to end, and copied while others write.

A check asks SQLite first, then compares the checksum of every entry; what it says shows no message
text. A copy is whole under its name, or not there.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_convmem.errors import ConfigError, LogError
from langchain_convmem.logs.base import Row, decode_entry, hash_message_id, read_message_id
from langchain_convmem.logs.signatures import Signer
from langchain_convmem.logs.sqlite_copies import UnfinishedCopies
from langchain_convmem.logs.sqlite_file import (
    COLUMNS,
    SQLiteConnections,
    decode_leniently,
    list_expected_objects,
    list_objects,
    read_row,
)
from langchain_convmem.logs.sqlite_rows import is_damage, read_key, read_one
from langchain_convmem.logs.verification import MOST_KEPT, Finding, Progress, describe_place
from langchain_convmem.records import ThreadKey

_ROWS_BETWEEN = 500
_TABLES = ("owners", "threads", "entries", "documents", "segments")
_THREAD_OF = "LEFT JOIN threads t ON t.thread = {}.thread LEFT JOIN owners o ON o.owner = t.owner"


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What a check of a log found.

    Attributes:
        path: The file.
        schema_version: Of the file.
        owners: Users, and threads of no user.
        threads: Of all owners.
        entries: Control entries included.
        documents: State documents.
        segments: Derived index rows.
        problems: One sentence each, which names thread and position and shows no message text;
            the first 1,000.
        more: How many problems there are beyond these.
        damaged: Entries that are damaged; the first 1,000.
        unfinished_copies: Files that a `backup` left whose process was killed. They hold messages;
            the next `backup` or `forget` removes them.
    """

    path: str
    schema_version: int
    owners: int
    threads: int
    entries: int
    documents: int
    segments: int
    problems: tuple[str, ...]
    more: int = 0
    damaged: tuple[Finding, ...] = ()
    unfinished_copies: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify_file(
    connections: SQLiteConnections, signer: Signer, progress: Progress | None = None
) -> VerifyReport:
    """Check the whole file; see `SQLiteLog.verify`."""
    with connections.read_apart() as db:
        db.text_factory = decode_leniently
        return _Check(db, signer, progress).report(connections.path)


class _Check:
    """One check of one file: what was found so far, and how far it has come."""

    def __init__(self, db: sqlite3.Connection, signer: Signer, progress: Progress | None) -> None:
        self._db = db
        self._signer = signer
        self._progress = progress
        self._problems: list[str] = []
        self._more = 0
        self._done = 0
        self._version = 0
        self._counts = dict.fromkeys(_TABLES, 0)
        self._findings: list[Finding] = []
        self._keys: dict[int, ThreadKey | None] = {}

    def report(self, path: Path) -> VerifyReport:
        """Run every check, each whatever came of the others."""
        checks: tuple[tuple[str, Callable[[], None]], ...] = (
            ("the tables", self._count),
            ("the schema", self._check_schema),
            ("the pages", self._check_pages),
            ("the references", self._check_references),
            ("the columns", self._check_columns),
            ("the entries", self._check_entries),
            ("the documents", self._check_documents),
        )
        for what, check in checks:
            with self._guard(what):
                check()
        self._report_progress(sum(self._counts.values()))
        return VerifyReport(
            path=str(path),
            schema_version=self._version,
            **self._counts,
            problems=tuple(self._problems),
            more=self._more,
            damaged=tuple(self._findings),
            unfinished_copies=tuple(map(str, UnfinishedCopies(path).list_abandoned())),
        )

    # -- findings and progress ------------------------------------------------------------------

    def _note(self, problem: str) -> None:
        if len(self._problems) < MOST_KEPT:
            self._problems.append(problem)
        else:
            self._more += 1

    @contextmanager
    def _guard(self, what: str) -> Iterator[None]:
        """Take SQLite's refusal to go on for a finding; the next check may get further."""
        try:
            yield
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            # The latter where what SQLite would say quotes a damaged schema.
            reason = error if isinstance(error, sqlite3.DatabaseError) else "garbled names"
            self._note(f"{what} cannot be read to the end: {reason}")

    def _report_progress(self, done: int) -> None:
        if self._progress is not None:
            self._progress(done, sum(self._counts.values()))

    def _read_rows(self, query: str) -> Iterator[Any]:
        """Yield rows one by one; each counts as checked when the next is asked for."""
        for row in self._db.execute(query):
            yield row
            self._done += 1
            if self._done % _ROWS_BETWEEN == 0:
                self._report_progress(self._done)

    def _count(self) -> None:
        for table in _TABLES:
            [(self._counts[table],)] = self._db.execute(f"SELECT count(*) FROM {table}")
        self._report_progress(0)

    # -- what SQLite knows ----------------------------------------------------------------------

    def _check_schema(self) -> None:
        self._version = int(self._db.execute("PRAGMA user_version").fetchone()[0])
        there = list_objects(self._db)
        for name, sql in list_expected_objects().items():
            if there.get(name) != sql:
                state = "is not as this release makes it" if name in there else "is missing"
                self._note(f"the table or index {name} {state}")

    def _check_pages(self) -> None:
        for (finding,) in self._db.execute(f"PRAGMA integrity_check({MOST_KEPT})"):
            if finding != "ok":
                self._note(f"SQLite: {' '.join(str(finding).split())}")

    def _check_references(self) -> None:
        found: dict[tuple[str, str], int] = {}
        for table, _, parent, _ in self._db.execute("PRAGMA foreign_key_check"):
            found[table, parent] = found.get((table, parent), 0) + 1
        for (table, parent), count in found.items():
            self._note(f"{count} rows of {table} belong to none of {parent}")

    def _check_columns(self) -> None:
        [(count,)] = self._db.execute(
            "SELECT count(*) FROM meta "
            "WHERE typeof(forget_epoch) = 'integer' AND typeof(position_floor) = 'integer'"
        )
        if count != 1:
            self._note("the table meta does not hold one row of numbers")
        for what, where in _ODD_ROWS.items():
            [(count,)] = self._db.execute(f"SELECT count(*) FROM {where}")
            if count:
                self._note(f"{count} {what}")

    # -- row by row -----------------------------------------------------------------------------

    def _check_entries(self) -> None:
        query = (
            f"SELECT e.thread, o.user_id, t.thread_id, e.key_hash, {COLUMNS} "
            f"FROM entries e {_THREAD_OF.format('e')} ORDER BY e.seq"
        )
        last = 0
        try:
            for thread, user_id, thread_id, key_hash, *columns in self._read_rows(query):
                last = columns[0]
                key, row = self._read_key(thread, user_id, thread_id), read_row(columns)
                is_sound = self._check_entry(key, row)
                if is_sound and key_hash != _hash_own_id(row):
                    place = describe_place(key, row.position)
                    self._note(f"{place}: its message would not be found by its id")
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            self._note(f"the entries after position {last} cannot be read at once")
            self._check_entries_singly(last)

    def _check_entries_singly(self, after: int) -> None:
        """Check what an index knows of; what is on a damaged page is a finding of its own."""
        query = (
            "SELECT e.seq, e.thread, o.user_id, t.thread_id FROM entries e "
            f"INDEXED BY entries_by_thread {_THREAD_OF.format('e')} "
            "WHERE e.thread IN (SELECT thread FROM threads)"
        )
        for position, *names in self._db.execute(query).fetchall():
            if position > after:
                self._check_entry(self._read_key(*names), read_one(self._db, position))

    def _check_entry(self, key: ThreadKey | None, row: Row) -> bool:
        """Note what is wrong with an entry; return whether nothing is."""
        if key is None:
            damage = row.damage or "the name of its thread cannot be read"
        else:
            damage = decode_entry(key, row, self._signer).damage
        if not damage:
            return True
        if len(self._findings) < MOST_KEPT:
            user_id, thread_id = (None, None) if key is None else (key.user_id, key.thread_id)
            self._findings.append(Finding(user_id, thread_id, row.position, row.id, damage))
        self._note(f"{describe_place(key, row.position)}: {damage}")
        return False

    def _read_key(self, thread: Any, user_id: Any, thread_id: Any) -> ThreadKey | None:
        """Return a thread's key; None where the tables above it are damaged."""
        if thread not in self._keys:
            self._keys[thread] = read_key(user_id, thread_id)
        return self._keys[thread]

    def _check_documents(self) -> None:
        query = (
            "SELECT d.thread, o.user_id, t.thread_id, d.name, d.version, d.value, d.checksum "
            f"FROM documents d {_THREAD_OF.format('d')}"
        )
        for thread, user_id, thread_id, name, version, value, checksum in self._read_rows(query):
            key = self._read_key(thread, user_id, thread_id)
            if key is None:
                self._note(f"document {name!r:.80} belongs to no known thread")
            elif not (
                isinstance(name, str)
                and isinstance(value, str)
                and self._signer.is_document_sound(key, name, version, value, checksum)
            ):
                whose = "" if key.user_id is None else f" of user {key.user_id!r:.80}"
                thread_name = f"thread {key.thread_id!r:.80}{whose}"
                self._note(f"document {name!r:.80} of {thread_name} does not match its checksum")


def _hash_own_id(row: Row) -> int | None:
    """Return the hash by which the message of a row is found; a control entry has none."""
    return None if row.role == "control" else hash_message_id(read_message_id(row.id, row.body))


_ODD_ROWS = {
    "owners have a generation that cannot be": (
        "owners WHERE typeof(generation) != 'integer' "
        "OR generation NOT BETWEEN 0 AND (SELECT forget_epoch FROM meta)"
    ),
    "owners have a name that cannot be": (
        "owners WHERE typeof(user_id) != 'text' OR typeof(lone_thread) != 'text' "
        "OR (user_id = '') = (lone_thread = '')"
    ),
    "threads have a name that cannot be": (
        "threads WHERE typeof(thread_id) != 'text' OR thread_id = ''"
    ),
    "threads of no user belong to another": (
        "threads t JOIN owners o ON o.owner = t.owner "
        "WHERE o.user_id = '' AND o.lone_thread != t.thread_id"
    ),
    "index rows cannot be read": (
        "segments WHERE typeof(terms) != 'text' OR typeof(vector) NOT IN ('null', 'blob') "
        "OR typeof(part) != 'integer' OR typeof(segment) != 'integer' "
        "OR typeof(analysis) != 'integer'"
    ),
}
"""What no row may be, and which rows are."""


# -- copying ------------------------------------------------------------------------------------

PAGES_AT_ONCE = 1024
_LEFTOVERS = ("-wal", "-journal")
"""Endings of files that SQLite would take for a part of a new file of that name."""


def copy_file(
    connections: SQLiteConnections, target: Path, signer: Signer, progress: Progress | None
) -> VerifyReport:
    """Copy the log's file to `target`, and check the copy; see `SQLiteLog.backup`.

    Raises:
        ConfigError: If there is such a file, or no such directory.
        LogError: If the log cannot be read or the copy not be written.
    """
    connections.check_open()
    _refuse_what_is_there(target)
    with ExitStack() as stack:
        with _translate_disk_errors(target):
            copies = UnfinishedCopies(connections.path)
            copies.remove_abandoned()
            unfinished = stack.enter_context(copies.create(target))
        _copy(connections, unfinished, target, progress)
        report = _check_copy(unfinished, target, signer)
        with _translate_disk_errors(target):
            _give_name(unfinished, target)
    return report


def _check_copy(unfinished: Path, target: Path, signer: Signer) -> VerifyReport:
    try:
        uri = f"{unfinished.as_uri()}?immutable=1"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as db:
            db.text_factory = decode_leniently
            return _Check(db, signer, None).report(target)
    except sqlite3.DatabaseError as error:
        raise _make_error(target, error) from error


@contextmanager
def _translate_disk_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _make_error(target, error) from error


def _refuse_what_is_there(target: Path) -> None:
    if not target.parent.is_dir():
        raise ConfigError(f"there is no directory {target.parent}; create it first")
    if target.exists() or target.is_symlink():
        raise ConfigError(f"{target} exists; choose another name for the copy")
    for ending in _LEFTOVERS:
        left = target.with_name(target.name + ending)
        if left.exists():
            msg = f"{left} exists, which belongs to another {target.name}; choose another name"
            raise ConfigError(msg)


def _copy(
    connections: SQLiteConnections,
    unfinished: Path,
    target: Path,
    progress: Progress | None,
) -> None:
    def report_pages(_: int, left: int, pages: int) -> None:
        if progress is not None:
            progress(pages - left, pages)

    with connections.read_apart() as db:
        try:
            with closing(sqlite3.connect(unfinished, isolation_level=None)) as copy:
                # A copy that fails is thrown away; one that succeeds is waited for at the end.
                copy.execute("PRAGMA journal_mode = OFF")
                copy.execute("PRAGMA synchronous = OFF")
                # All steps see the state that the transaction has begun with. Without one, SQLite
                # starts anew whenever somebody writes, and never ends where many do.
                db.backup(copy, pages=PAGES_AT_ONCE, progress=report_pages, sleep=0)
        except sqlite3.DatabaseError as error:
            raise _make_error(target, error) from error


def _give_name(unfinished: Path, target: Path) -> None:
    _wait_for_disk(unfinished)
    _refuse_what_is_there(target)
    unfinished.rename(target)
    _wait_for_directory(target.parent)


def _wait_for_disk(path: Path) -> None:
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def _wait_for_directory(path: Path) -> None:
    """Make a new name survive a power loss; where directories cannot be opened, it does anyway."""
    if os.name == "nt":
        return
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _make_error(target: Path, error: Exception) -> LogError:
    return LogError(f"no copy was made at {target}: {error}; nothing is left of it")
