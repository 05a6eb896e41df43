"""Checking a SQLite log from end to end: SQLite's own checks, then every row of every table."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_convmem.logs.sqlite.connections import Connections
from langchain_convmem.logs.sqlite.reading import position_of
from langchain_convmem.logs.sqlite.row_checks import (
    DocumentColumns,
    EntryColumns,
    OwnerColumns,
    SegmentColumns,
    ThreadColumns,
    document_faults,
    judged_entry,
    lenient_text,
    owner_faults,
    segment_faults,
    thread_faults,
)
from langchain_convmem.logs.sqlite.schema import MIGRATIONS, expected_objects, objects

__all__ = ["VerifyReport", "verified"]

_KEPT = 1_000
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

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verified(connections: Connections, progress: Callable[[int, int], None] | None) -> VerifyReport:
    """Check the whole file; see `SQLiteLog.verify`."""
    with connections.read_apart() as db:
        db.text_factory = lenient_text
        return _Check(db, progress).report(connections.path)


class _Check:
    """One check of one file: what was found so far, and how far it has come."""

    def __init__(self, db: sqlite3.Connection, progress: Callable[[int, int], None] | None) -> None:
        self._db = db
        self._progress = progress
        self._problems: list[str] = []
        self._more = 0
        self._done = 0
        self._version = 0
        self._counts = dict.fromkeys(_TABLES, 0)

    def report(self, path: Path) -> VerifyReport:
        """Run every check, each whatever came of the others."""
        checks: tuple[tuple[str, Callable[[], None]], ...] = (
            ("the tables", self._count),
            ("the schema", self._check_schema),
            ("the pages", self._check_pages),
            ("the table meta", self._check_meta),
            ("the owners", self._check_owners),
            ("the threads", self._check_threads),
            ("the entries", self._check_entries),
            ("the ids of entries", self._check_ids),
            ("the documents", self._check_documents),
            ("the index rows", self._check_segments),
        )
        for what, check in checks:
            with self._guarded(what):
                check()
        self._tell_progress()
        return VerifyReport(
            path=str(path),
            schema_version=self._version,
            **self._counts,
            problems=tuple(self._problems),
            more=self._more,
        )

    # -- findings and progress ------------------------------------------------------------------

    def _note(self, problems: Iterable[str]) -> None:
        for problem in problems:
            if len(self._problems) < _KEPT:
                self._problems.append(problem)
            else:
                self._more += 1

    @contextmanager
    def _guarded(self, what: str) -> Iterator[None]:
        """Take SQLite's refusal to go on for a finding; the next check may get further."""
        try:
            yield
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            # The latter where what SQLite would say quotes a damaged schema.
            reason = error if isinstance(error, sqlite3.DatabaseError) else "garbled names"
            self._note([f"{what} cannot be read to the end: {reason}"])

    def _tell_progress(self) -> None:
        if self._progress is not None:
            self._progress(self._done, sum(self._counts.values()))

    def _rows(self, query: str) -> Iterator[Any]:
        """Yield rows one by one; each counts as checked when the next is asked for."""
        for row in self._db.execute(query):
            yield row
            self._done += 1
            if self._done % _ROWS_BETWEEN == 0:
                self._tell_progress()

    def _count(self) -> None:
        for table in _TABLES:
            [(self._counts[table],)] = self._db.execute(f"SELECT count(*) FROM {table}")
        self._tell_progress()

    # -- what SQLite knows ----------------------------------------------------------------------

    def _check_schema(self) -> None:
        self._version = int(self._db.execute("PRAGMA user_version").fetchone()[0])
        if self._version != len(MIGRATIONS):
            self._note([f"the schema is of version {self._version}, not {len(MIGRATIONS)}"])
        there = objects(self._db)
        for name, sql in expected_objects().items():
            if there.get(name) != sql:
                state = "is not as this release makes it" if name in there else "is missing"
                self._note([f"the table or index {name} {state}"])

    def _check_pages(self) -> None:
        for (finding,) in self._db.execute(f"PRAGMA integrity_check({_KEPT})"):
            if finding != "ok":
                self._note([f"SQLite: {' '.join(str(finding).split())}"])

    # -- row by row -----------------------------------------------------------------------------

    def _check_meta(self) -> None:
        found = self._db.execute(
            "SELECT forget_epoch, position_floor, unnumbered FROM meta"
        ).fetchall()
        if len(found) != 1 or not all(isinstance(n, int) and n >= 0 for n in found[0]):
            self._note(["the table meta does not hold one row of numbers"])

    def _check_owners(self) -> None:
        query = (
            "SELECT user_id, lone_thread, generation, (SELECT forget_epoch FROM meta) FROM owners"
        )
        for row in self._rows(query):
            self._note(owner_faults(OwnerColumns(*row)))

    def _check_threads(self) -> None:
        query = (
            "SELECT t.thread_id, o.user_id, o.lone_thread FROM threads t "
            "LEFT JOIN owners o ON o.owner = t.owner"
        )
        for row in self._rows(query):
            self._note(thread_faults(ThreadColumns(*row)))

    def _check_entries(self) -> None:
        query = (
            "SELECT e.seq, e.id, e.turn, e.role, e.key_hash, e.body, e.metadata, e.thread, "
            "t.thread_id, o.user_id, o.generation, e.seq > (SELECT unnumbered FROM meta) "
            f"FROM entries e {_THREAD_OF.format('e')} ORDER BY e.seq"
        )
        for row in self._rows(query):
            entry = EntryColumns(*row)
            faults, targets = judged_entry(entry)
            self._note(faults)
            # Of what was forgotten nothing is known, not even that it was there.
            if targets and entry.generation == 0:
                self._note(self._pointing_nowhere(entry, targets))

    def _pointing_nowhere(self, entry: EntryColumns, targets: Iterable[str]) -> Iterator[str]:
        for target in targets:
            if position_of(self._db, entry.thread, target) is None:
                yield f"{entry.place}: it points at an entry that never was"

    def _check_ids(self) -> None:
        found = self._db.execute(
            "SELECT t.thread_id, min(e.seq), max(e.seq) FROM entries e "
            "LEFT JOIN threads t ON t.thread = e.thread "
            "WHERE e.seq <= (SELECT unnumbered FROM meta) "
            "GROUP BY e.thread, e.id HAVING count(*) > 1"
        )
        for thread_id, first, last in found:
            self._note([f"positions {first} and {last} of thread {thread_id!r:.80} share an id"])

    def _check_documents(self) -> None:
        query = (
            "SELECT d.name, d.version, d.value, t.thread_id, o.user_id "
            f"FROM documents d {_THREAD_OF.format('d')}"
        )
        for row in self._rows(query):
            self._note(document_faults(DocumentColumns(*row)))

    def _check_segments(self) -> None:
        query = (
            "SELECT s.seq, s.terms, typeof(s.vector), length(s.vector), e.seq, f.name, "
            "t.thread_id, o.user_id FROM segments s LEFT JOIN entries e ON e.seq = s.seq "
            f"LEFT JOIN fingerprints f ON f.fingerprint = s.fingerprint {_THREAD_OF.format('e')}"
        )
        for row in self._rows(query):
            self._note(segment_faults(SegmentColumns(*row)))
