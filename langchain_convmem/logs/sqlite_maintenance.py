"""Whole SQLite logs: checked from end to end, and copied while others write.

A check asks SQLite first, then looks at every row of every table; what it says shows no message
text. A copy is whole under its name, or not there.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from langchain_convmem.errors import ConfigError, LogError
from langchain_convmem.ids import decode_ulid, get_ulid_number
from langchain_convmem.logs.base import hash_message_id, read_message_id
from langchain_convmem.logs.sqlite_file import (
    MIGRATIONS,
    ROLES,
    SQLiteConnections,
    find_position,
    list_expected_objects,
    list_objects,
    unpack_name,
)
from langchain_convmem.views.codec import decode_body, decode_metadata, load_json

Progress: TypeAlias = Callable[[int, int], None]
"""Called with what was done so far, and all there is to do."""

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


def verify_file(connections: SQLiteConnections, progress: Progress | None) -> VerifyReport:
    """Check the whole file; see `SQLiteLog.verify`."""
    with connections.read_apart() as db:
        db.text_factory = _decode_leniently
        return _Check(db, progress).report(connections.path)


class _Check:
    """One check of one file: what was found so far, and how far it has come."""

    def __init__(self, db: sqlite3.Connection, progress: Progress | None) -> None:
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
            with self._guard(what):
                check()
        self._report_progress()
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
    def _guard(self, what: str) -> Iterator[None]:
        """Take SQLite's refusal to go on for a finding; the next check may get further."""
        try:
            yield
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            # The latter where what SQLite would say quotes a damaged schema.
            reason = error if isinstance(error, sqlite3.DatabaseError) else "garbled names"
            self._note([f"{what} cannot be read to the end: {reason}"])

    def _report_progress(self) -> None:
        if self._progress is not None:
            self._progress(self._done, sum(self._counts.values()))

    def _read_rows(self, query: str) -> Iterator[Any]:
        """Yield rows one by one; each counts as checked when the next is asked for."""
        for row in self._db.execute(query):
            yield row
            self._done += 1
            if self._done % _ROWS_BETWEEN == 0:
                self._report_progress()

    def _count(self) -> None:
        for table in _TABLES:
            [(self._counts[table],)] = self._db.execute(f"SELECT count(*) FROM {table}")
        self._report_progress()

    # -- what SQLite knows ----------------------------------------------------------------------

    def _check_schema(self) -> None:
        self._version = int(self._db.execute("PRAGMA user_version").fetchone()[0])
        if self._version != len(MIGRATIONS):
            self._note([f"the schema is of version {self._version}, not {len(MIGRATIONS)}"])
        there = list_objects(self._db)
        for name, sql in list_expected_objects().items():
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
        for row in self._read_rows(query):
            self._note(_find_owner_faults(_OwnerColumns(*row)))

    def _check_threads(self) -> None:
        query = (
            "SELECT t.thread_id, o.user_id, o.lone_thread FROM threads t "
            "LEFT JOIN owners o ON o.owner = t.owner"
        )
        for row in self._read_rows(query):
            self._note(_find_thread_faults(_ThreadColumns(*row)))

    def _check_entries(self) -> None:
        query = (
            "SELECT e.seq, e.id, e.turn, e.role, e.key_hash, e.body, e.metadata, e.thread, "
            "t.thread_id, o.user_id, o.generation, e.seq > (SELECT unnumbered FROM meta) "
            f"FROM entries e {_THREAD_OF.format('e')} ORDER BY e.seq"
        )
        for row in self._read_rows(query):
            entry = _EntryColumns(*row)
            faults, targets = _judge_entry(entry)
            self._note(faults)
            # Of what was forgotten nothing is known, not even that it was there.
            if targets and entry.generation == 0:
                self._note(self._find_missing_targets(entry, targets))

    def _find_missing_targets(self, entry: _EntryColumns, targets: Iterable[str]) -> Iterator[str]:
        for target in targets:
            if find_position(self._db, entry.thread, target) is None:
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
        for row in self._read_rows(query):
            self._note(_find_document_faults(_DocumentColumns(*row)))

    def _check_segments(self) -> None:
        query = (
            "SELECT s.seq, s.terms, typeof(s.vector), length(s.vector), e.seq, f.name, "
            "t.thread_id, o.user_id FROM segments s LEFT JOIN entries e ON e.seq = s.seq "
            f"LEFT JOIN fingerprints f ON f.fingerprint = s.fingerprint {_THREAD_OF.format('e')}"
        )
        for row in self._read_rows(query):
            self._note(_find_segment_faults(_SegmentColumns(*row)))


# -- what is wrong with a row -------------------------------------------------------------------

_SHOWN_CHARS = 80
_HALF_FLOAT_BYTES = 2


class _Garbled:
    """Stands for text that is no UTF-8; it is not kept, since it may be of a message."""

    def __repr__(self) -> str:
        return "(no valid text)"


def _decode_leniently(raw: bytes) -> str | _Garbled:
    """Return stored text, whatever it is: a `text_factory` that never fails."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return _Garbled()


def _show_name(value: Any) -> str:
    """Return a user's or a thread's id as it may be shown."""
    return f"{value!r:.{_SHOWN_CHARS}}"


def _describe_place(position: Any, thread_id: Any, user_id: Any) -> str:
    """Return where a row belongs; both names are None where the tables above it are damaged."""
    if thread_id is None:
        return f"position {position} of no known thread"
    of_user = f" of user {_show_name(user_id)}" if user_id else ""
    return f"position {position} of thread {_show_name(thread_id)}{of_user}"


# -- owners and threads -------------------------------------------------------------------------


class _OwnerColumns(NamedTuple):
    """A row of `owners`, and the epoch of the file."""

    user_id: Any
    lone_thread: Any
    generation: Any
    epoch: Any


def _find_owner_faults(row: _OwnerColumns) -> Iterator[str]:
    """Yield what is wrong with an owner."""
    name = (
        f"user {_show_name(row.user_id)}"
        if row.user_id
        else f"lone thread {_show_name(row.lone_thread)}"
    )
    if not (isinstance(row.user_id, str) and isinstance(row.lone_thread, str)):
        yield f"{name} has a name that is no text"
    elif bool(row.user_id) == bool(row.lone_thread):
        yield f"{name} is not just one of a user and a lone thread"
    if not isinstance(row.generation, int) or not isinstance(row.epoch, int):
        yield f"{name} has a generation that is no number"
    elif not 0 <= row.generation <= row.epoch:
        yield f"{name} is of generation {row.generation}, but the file's epoch is {row.epoch}"


class _ThreadColumns(NamedTuple):
    """A row of `threads`, and the names of its owner."""

    thread_id: Any
    user_id: Any
    lone_thread: Any


def _find_thread_faults(row: _ThreadColumns) -> Iterator[str]:
    """Yield what is wrong with a thread."""
    name = f"thread {_show_name(row.thread_id)}"
    if not isinstance(row.thread_id, str) or not row.thread_id:
        yield f"{name} has an id that is no text"
    if row.user_id is None:
        yield f"{name} has no owner"
    elif row.user_id == "" and row.thread_id != row.lone_thread:
        yield f"{name} of no user belongs to the lone thread {_show_name(row.lone_thread)}"


# -- entries ------------------------------------------------------------------------------------


class _EntryColumns(NamedTuple):
    """A row of `entries`, and the names of its thread."""

    position: Any
    id: Any
    turn: Any
    role: Any
    key_hash: Any
    body: Any
    metadata: Any
    thread: Any
    thread_id: Any
    user_id: Any
    generation: Any
    is_numbered: Any

    @property
    def place(self) -> str:
        """Position and thread, in words."""
        return _describe_place(self.position, self.thread_id, self.user_id)


class _EntryVerdict(NamedTuple):
    """What is wrong with an entry, and the ids that it points at if it is a control entry."""

    faults: list[str]
    targets: tuple[str, ...]


def _judge_entry(row: _EntryColumns) -> _EntryVerdict:
    """Return what is wrong with an entry, seen by itself."""
    faults = list(_find_column_faults(row))
    targets: tuple[str, ...] = ()
    try:
        _, _, control, _ = decode_body(row.body)
    except (TypeError, ValueError):
        # What the decoder says may quote the message.
        faults.append("its body cannot be read")
    else:
        faults += _find_key_faults(row)
        if (row.role == ROLES.index("control")) != (control is not None):
            faults.append("its role and its body do not agree on whether it is a control entry")
        if control is not None:
            replacement = () if control.replacement is None else (control.replacement,)
            targets = (*control.retracts, *replacement)
    return _EntryVerdict([f"{row.place}: {fault}" for fault in faults], targets)


def _find_column_faults(row: _EntryColumns) -> Iterator[str]:
    if row.thread_id is None:
        yield "it belongs to no thread"
    if row.position < 1:
        yield "its position is not positive"
    if not _is_readable(decode_ulid, row.id):
        yield "its id is damaged"
    elif row.is_numbered and get_ulid_number(decode_ulid(row.id)) != row.position:
        yield "its id tells another position"
    if row.turn is not None and not _is_readable(unpack_name, row.turn):
        yield "its turn is damaged"
    if row.role not in range(len(ROLES)):
        yield "its role is unknown"
    if not _is_readable(lambda text: decode_metadata(text, created_ms=0), row.metadata):
        yield "its metadata cannot be read"


def _is_readable(read: Any, value: Any) -> bool:
    try:
        read(value)
    except (TypeError, ValueError):
        return False
    return True


def _find_key_faults(row: _EntryColumns) -> Iterator[str]:
    if not _is_readable(decode_ulid, row.id):
        return
    is_control = row.role == ROLES.index("control")
    key = None if is_control else hash_message_id(read_message_id(decode_ulid(row.id), row.body))
    if row.key_hash != key:
        yield "its message would not be found by its id"


# -- documents and segments ---------------------------------------------------------------------


class _DocumentColumns(NamedTuple):
    """A row of `documents`, and the names of its thread."""

    name: Any
    version: Any
    value: Any
    thread_id: Any
    user_id: Any


def _find_document_faults(row: _DocumentColumns) -> Iterator[str]:
    """Yield what is wrong with a state document."""
    whose = (
        f"thread {_show_name(row.thread_id)}" if row.thread_id is not None else "no known thread"
    )
    of_user = f" of user {_show_name(row.user_id)}" if row.user_id else ""
    name = f"document {_show_name(row.name)} of {whose}{of_user}"
    if row.thread_id is None:
        yield f"{name} belongs to no thread"
    if not isinstance(row.name, str) or not isinstance(row.version, int):
        yield f"{name} has a damaged name or version"
    if not isinstance(row.value, str) or not _is_readable(load_json, row.value):
        yield f"{name} cannot be read"


class _SegmentColumns(NamedTuple):
    """A row of `segments` without its vector, what it refers to, and the names of its thread."""

    position: Any
    terms: Any
    vector_kind: Any
    vector_bytes: Any
    entry: Any
    fingerprint: Any
    thread_id: Any
    user_id: Any


def _find_segment_faults(row: _SegmentColumns) -> Iterator[str]:
    """Yield what is wrong with a derived index row."""
    place = _describe_place(row.position, row.thread_id, row.user_id)
    if row.entry is None:
        yield f"{place}: an index row belongs to no entry"
    if not isinstance(row.fingerprint, str):
        yield f"{place}: an index row belongs to no embedder"
    if not isinstance(row.terms, str):
        yield f"{place}: the words of an index row are no text"
    if row.vector_kind != "null" and (
        row.vector_kind != "blob" or row.vector_bytes % _HALF_FLOAT_BYTES
    ):
        yield f"{place}: the vector of an index row is damaged"


# -- copying ------------------------------------------------------------------------------------

_PAGES_AT_ONCE = 1024
_LEFTOVERS = ("-wal", "-journal")
"""Endings of files that SQLite would take for a part of a new file of that name."""


def copy_file(connections: SQLiteConnections, target: Path, progress: Progress | None) -> None:
    """Copy the log's file to `target`; see `SQLiteLog.backup`.

    Raises:
        ConfigError: If there is such a file, or no such directory.
        LogError: If the log cannot be read or the copy not be written.
    """
    connections.check_open()
    _refuse_what_is_there(target)
    unfinished = _make_unfinished(target)
    try:
        _copy(connections, unfinished, target, progress)
        _give_name(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)


def _make_unfinished(target: Path) -> Path:
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise _make_error(target, error) from error
    os.close(handle)
    return Path(name)


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
                db.backup(copy, pages=_PAGES_AT_ONCE, progress=report_pages, sleep=0)
        except sqlite3.DatabaseError as error:
            raise _make_error(target, error) from error


def _give_name(unfinished: Path, target: Path) -> None:
    try:
        _wait_for_disk(unfinished)
        _refuse_what_is_there(target)
        unfinished.rename(target)
        _wait_for_directory(target.parent)
    except OSError as error:
        raise _make_error(target, error) from error


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
