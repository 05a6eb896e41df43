"""Whole SQLite logs: checked from end to end, and copied while others write.

A check asks SQLite first, then looks at every row of every table; what it says shows no message
text. A copy is whole under its name, or not there.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

from langchain_convmem.errors import ConfigError, LogError
from langchain_convmem.ids import decode_ulid, get_ulid_number
from langchain_convmem.logs.base import Row, find_damage, hash_message_id, read_message_id
from langchain_convmem.logs.signatures import (
    START,
    Signer,
    ThreadHead,
    Tombstone,
    get_head,
    get_previous,
    is_whole,
)
from langchain_convmem.logs.sqlite_copies import UnfinishedCopies
from langchain_convmem.logs.sqlite_file import (
    MIGRATIONS,
    ROLES,
    SQLiteConnections,
    decode_leniently,
    find_position,
    list_expected_objects,
    list_objects,
    read_row,
    unpack_name,
)
from langchain_convmem.logs.sqlite_rows import is_damage, read_key, read_leniently, read_one
from langchain_convmem.logs.verification import Finding, Progress
from langchain_convmem.records import ThreadKey
from langchain_convmem.views.codec import decode_body, decode_metadata, load_json

_KEPT = 1_000
_ROWS_BETWEEN = 500
_TABLES = ("owners", "threads", "entries", "documents", "segments")
_OWNER_OF = "LEFT JOIN owners o ON o.owner = t.owner"
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
        notes: What is no damage by itself, one sentence each: bytes of the write-ahead file that
            SQLite ignores, since no commit after them is whole.
        unsigned: Entries that an older release wrote, which carry no signature yet.
        damaged: Entries that are damaged or missing; the first 1,000.
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
    notes: tuple[str, ...] = ()
    unsigned: int = 0
    damaged: tuple[Finding, ...] = ()
    unfinished_copies: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify_file(
    connections: SQLiteConnections,
    signer: Signer,
    progress: Progress | None = None,
    against: Sequence[ThreadHead] = (),
) -> VerifyReport:
    """Check the whole file; see `SQLiteLog.verify`."""
    with connections.read_apart() as db:
        db.text_factory = decode_leniently
        return _Check(db, signer, progress, against).report(connections.path)


class _Check:
    """One check of one file: what was found so far, and how far it has come."""

    def __init__(
        self,
        db: sqlite3.Connection,
        signer: Signer,
        progress: Progress | None,
        against: Sequence[ThreadHead],
    ) -> None:
        self._db = db
        self._signer = signer
        self._progress = progress
        self._against = against
        self._problems: list[str] = []
        self._notes: tuple[str, ...] = ()
        self._more = 0
        self._done = 0
        self._version = 0
        self._unsigned = 0
        self._counts = dict.fromkeys(_TABLES, 0)
        self._findings: list[Finding] = []
        self._damaged: set[int] = set()
        self._keys: dict[int, ThreadKey | None] = {}

    def report(self, path: Path) -> VerifyReport:
        """Run every check, each whatever came of the others."""
        checks: tuple[tuple[str, Callable[[], None]], ...] = (
            ("the tables", self._count),
            ("the schema", self._check_schema),
            ("the pages", self._check_pages),
            ("the write-ahead file", lambda: self._check_wal(path)),
            ("the table meta", self._check_meta),
            ("the owners", self._check_owners),
            ("the threads", self._check_threads),
            ("the entries", self._check_entries),
            ("the ids of entries", self._check_ids),
            ("the chains of entries", self._check_chains),
            ("the heads", self._check_heads),
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
            notes=self._notes,
            unsigned=self._unsigned,
            damaged=tuple(self._findings),
            unfinished_copies=tuple(map(str, UnfinishedCopies(path).list_abandoned())),
        )

    # -- findings and progress ------------------------------------------------------------------

    def _note_finding(self, key: ThreadKey | None, position: int, name: str, what: str) -> None:
        if len(self._findings) < _KEPT:
            user_id, thread_id = (None, None) if key is None else (key.user_id, key.thread_id)
            self._findings.append(Finding(user_id, thread_id, position, name, what))

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

    def _check_wal(self, path: Path) -> None:
        end = find_wal_end(Path(f"{os.path.realpath(path)}-wal"))
        if end.is_damaged:
            self._note([end.describe()])
        elif end.ignored:
            self._notes = (end.describe(),)

    # -- row by row -----------------------------------------------------------------------------

    def _check_meta(self) -> None:
        found = self._db.execute(
            "SELECT forget_epoch, position_floor, unnumbered FROM meta"
        ).fetchall()
        if len(found) != 1 or not all(isinstance(n, int) and n >= 0 for n in found[0]):
            self._note(["the table meta does not hold one row of numbers"])
        query = "SELECT count(*) FROM tombstones WHERE thread NOT IN (SELECT thread FROM threads)"
        [(count,)] = self._db.execute(query)
        if count:
            self._note([f"{count} tombstones belong to no thread"])
        query = "SELECT count(*) FROM snapshots WHERE owner NOT IN (SELECT owner FROM owners)"
        [(count,)] = self._db.execute(query)
        if count:
            self._note([f"{count} pieces of snapshots belong to no owner"])

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
            "SELECT e.seq, e.id, e.turn, e.role, e.key_hash, e.body, e.metadata, e.signature, "
            "e.thread, t.thread_id, o.user_id, o.generation, "
            "e.seq > (SELECT unnumbered FROM meta) "
            f"FROM entries e {_THREAD_OF.format('e')} ORDER BY e.seq"
        )
        last = 0
        try:
            for row in self._read_rows(query):
                last = row[0]
                self._check_entry(_EntryColumns(*row))
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            self._note([f"the entries after position {last} cannot be read at once"])
            self._check_entries_singly(last)

    def _check_entry(self, entry: _EntryColumns) -> None:
        faults, targets = _judge_entry(entry)
        key = self._find_key(entry)
        row = read_row(
            (
                entry.position,
                entry.id,
                entry.turn,
                entry.role,
                entry.body,
                entry.metadata,
                entry.signature,
            )
        )
        damage = find_damage(key, row, self._signer)
        self._unsigned += not damage and row.signature is None
        if damage:
            faults = faults or [f"{entry.place}: {damage}"]
            self._damaged.add(entry.position)
            self._note_finding(key, entry.position, row.id, damage)
        self._note(faults)
        # Of what was forgotten nothing is known, not even that it was there.
        if targets and entry.generation == 0:
            self._note(self._find_missing_targets(entry, targets))

    def _check_entries_singly(self, after: int) -> None:
        """Check what an index knows of; what is on a damaged page is a finding of its own."""
        query = (
            "SELECT e.seq, e.thread, t.thread_id, o.user_id FROM entries e "
            f"INDEXED BY entries_by_thread {_THREAD_OF.format('e')} "
            "WHERE e.thread IN (SELECT thread FROM threads)"
        )
        for position, thread, thread_id, user_id in self._db.execute(query).fetchall():
            if position <= after:
                continue
            key = self._make_key(thread, thread_id, user_id)
            row = read_one(self._db, position)
            damage = find_damage(key, row, self._signer)
            if damage:
                self._note([f"{_describe_place(position, thread_id, user_id)}: {damage}"])
                self._damaged.add(position)
                self._note_finding(key, position, row.id, damage)

    def _find_key(self, entry: _EntryColumns) -> ThreadKey | None:
        return self._make_key(entry.thread, entry.thread_id, entry.user_id)

    def _make_key(self, thread: Any, thread_id: Any, user_id: Any) -> ThreadKey | None:
        """Return a thread's key; None where the tables above it are damaged."""
        if thread not in self._keys:
            self._keys[thread] = read_key(user_id, thread_id)
        return self._keys[thread]

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

    def _check_chains(self) -> None:
        threads = self._db.execute(
            f"SELECT t.thread, t.thread_id, o.user_id FROM threads t {_OWNER_OF}"
        )
        for thread, thread_id, user_id in threads.fetchall():
            key = self._make_key(thread, thread_id, user_id)
            for position, before in find_chain_breaks(
                self._db, thread, key, self._signer, self._damaged
            ):
                place = _describe_place(position, thread_id, user_id)
                if before < position - 1:
                    self._note([f"{place}: entries before it are missing"])
                    name = f"missing-{position - 1}"
                    self._note_finding(key, position - 1, name, "entries are missing here")
                else:
                    self._note([f"{place}: the entry before it is not the one that it followed"])

    def _check_heads(self) -> None:
        for head in self._against:
            problem = _compare_head(self._db, head, self._signer)
            if problem:
                self._note([problem])
                key = ThreadKey(head.user_id, head.thread_id)
                name = f"missing-{head.position}"
                self._note_finding(key, head.position, name, "it is not what its head says")

    def _check_documents(self) -> None:
        query = (
            "SELECT d.name, d.version, d.value, t.thread_id, o.user_id, d.thread, d.checksum "
            f"FROM documents d {_THREAD_OF.format('d')}"
        )
        for row in self._read_rows(query):
            document = _DocumentColumns(*row)
            faults = list(_find_document_faults(document))
            key = self._make_key(document.thread, document.thread_id, document.user_id)
            if not faults and key is not None:
                sound = self._signer.is_document_sound(
                    key, document.name, document.version, document.value, document.checksum
                )
                faults = [] if sound else [f"{document.place}: it does not match its checksum"]
            self._note(faults)

    def _check_segments(self) -> None:
        query = (
            "SELECT s.seq, s.terms, typeof(s.vector), length(s.vector), e.seq, f.name, "
            "t.thread_id, o.user_id, typeof(s.part) || typeof(s.segment) || typeof(s.analysis) "
            "FROM segments s LEFT JOIN entries e ON e.seq = s.seq "
            f"LEFT JOIN fingerprints f ON f.fingerprint = s.fingerprint {_THREAD_OF.format('e')}"
        )
        for row in self._read_rows(query):
            self._note(_find_segment_faults(_SegmentColumns(*row)))


# -- the write-ahead file ------------------------------------------------------------------------

_WAL_HEADER = struct.Struct(">8I")
_FRAME_HEADER = struct.Struct(">6I")
_WAL_MAGIC = 0x377F0682
"""Its last bit says whether checksums read big-endian words."""
_SCANS = 4
_SCAN_PAUSE_S = 0.05


class WalEnd(NamedTuple):
    """Where the whole commits of a write-ahead file end, and what follows."""

    committed: int = 0
    """Bytes up to the end of the last whole commit."""
    ignored: int = 0
    """Bytes after it that were written after it, too."""
    lost_commits: int = 0
    """Commits among these: SQLite reads none after the first frame that is damaged."""
    has_header: bool = True

    @property
    def is_damaged(self) -> bool:
        """Whether more is ignored than a write that was cut short can leave."""
        return bool(self.lost_commits) or not self.has_header

    def describe(self) -> str:
        """Return this as a sentence."""
        ignored = f"SQLite ignores {self.ignored:,} bytes of the write-ahead file"
        if not self.has_header:
            return f"{ignored}, whose beginning is damaged; what was written last may be missing"
        if self.lost_commits:
            return (
                f"{ignored} from byte {self.committed:,} on, where it is damaged; "
                f"{self.lost_commits:,} later commits are or will be missing"
            )
        return (
            f"{ignored} from byte {self.committed:,} on, which hold no whole commit: of a write "
            "that is under way or was cut short, or of one whose end is missing"
        )


def find_wal_end(path: Path) -> WalEnd:
    """Return where a write-ahead file ends; others may go on writing it.

    SQLite locks the database and the `-shm` file, so this one may be opened and closed.
    """
    end = _scan_wal(path)
    for _ in range(_SCANS):
        if not end.ignored:
            break
        time.sleep(_SCAN_PAUSE_S)
        before, end = end, _scan_wal(path)
        if before == end:
            break
    return end


def _scan_wal(path: Path) -> WalEnd:
    try:
        with path.open("rb") as file:
            return _scan_frames(file, os.fstat(file.fileno()).st_size)
    except FileNotFoundError:
        return WalEnd()


def _scan_frames(file: BinaryIO, size: int) -> WalEnd:
    head = file.read(_WAL_HEADER.size)
    if len(head) < _WAL_HEADER.size:
        return WalEnd(ignored=size)
    magic, _, page_bytes, _, *salts, first, second = _WAL_HEADER.unpack(head)
    order = ">" if magic & 1 else "<"
    sums = _sum_words(head[:24], order, (0, 0))
    if magic & ~1 != _WAL_MAGIC or sums != (first, second):
        return WalEnd(ignored=size, has_header=False)
    frame_bytes = _FRAME_HEADER.size + page_bytes
    committed = written = _WAL_HEADER.size
    lost_commits, is_whole = 0, True
    for start in range(_WAL_HEADER.size, size, frame_bytes):
        frame = file.read(min(frame_bytes, size - start))
        if len(frame) < _FRAME_HEADER.size:
            return WalEnd(committed, size - committed, lost_commits)
        _, pages, *own_salts, first, second = _FRAME_HEADER.unpack_from(frame)
        if own_salts != salts:
            is_whole = False  # left from before the file was begun anew, unless others follow
            continue
        written = start + len(frame)
        if is_whole:
            sums = _sum_words(frame[:8] + frame[_FRAME_HEADER.size :], order, sums)
            is_whole = len(frame) == frame_bytes and sums == (first, second)
            committed = written if is_whole and pages else committed
        elif pages:
            lost_commits += 1
    return WalEnd(committed, written - committed, lost_commits)


def _sum_words(data: bytes, order: str, sums: tuple[int, int]) -> tuple[int, int]:
    """Return SQLite's running checksum after these bytes; of a part of a word, nothing counts."""
    first, second = sums
    words = struct.unpack_from(f"{order}{len(data) // 8 * 2}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second


# -- what is wrong with a row -------------------------------------------------------------------

_SHOWN_CHARS = 80
_HALF_FLOAT_BYTES = 2


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
    signature: Any
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
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError):
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
    thread: Any
    checksum: Any

    @property
    def place(self) -> str:
        """Name and thread, in words."""
        known = self.thread_id is not None
        whose = f"thread {_show_name(self.thread_id)}" if known else "no known thread"
        of_user = f" of user {_show_name(self.user_id)}" if self.user_id else ""
        return f"document {_show_name(self.name)} of {whose}{of_user}"


def _find_document_faults(row: _DocumentColumns) -> Iterator[str]:
    """Yield what is wrong with a state document."""
    if row.thread_id is None:
        yield f"{row.place} belongs to no thread"
    if not isinstance(row.name, str) or not isinstance(row.version, int):
        yield f"{row.place} has a damaged name or version"
    if not isinstance(row.value, str) or not _is_readable(load_json, row.value):
        yield f"{row.place} cannot be read"


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
    number_kinds: Any


def _find_segment_faults(row: _SegmentColumns) -> Iterator[str]:
    """Yield what is wrong with a derived index row."""
    place = _describe_place(row.position, row.thread_id, row.user_id)
    if row.entry is None:
        yield f"{place}: an index row belongs to no entry"
    if not isinstance(row.fingerprint, str):
        yield f"{place}: an index row belongs to no embedder"
    if not isinstance(row.terms, str):
        yield f"{place}: the words of an index row are no text"
    if row.number_kinds != "integerintegerinteger":
        yield f"{place}: the numbers of an index row are none"
    if row.vector_kind != "null" and (
        row.vector_kind != "blob" or row.vector_bytes % _HALF_FLOAT_BYTES
    ):
        yield f"{place}: the vector of an index row is damaged"


# -- chains -------------------------------------------------------------------------------------

Link: TypeAlias = tuple[int, bytes | None, bytes | None, bool]
"""Position, the checksum before, the own one (None: not known), and whether it was erased."""


def list_links(
    db: sqlite3.Connection,
    thread: int,
    key: ThreadKey | None,
    signer: Signer,
    damaged: Iterable[int] = (),
) -> Iterator[Link]:
    """Yield how each row and genuine tombstone of a thread is chained, in order.

    Args:
        db: Inside the transaction that reads.
        thread: The thread's number.
        key: Its name; None where it cannot be told, and then no tombstone can be told to be false.
        signer: That of the log.
        damaged: Positions of rows whose signatures prove nothing.
    """
    unknown = damaged if isinstance(damaged, set) else set(damaged)
    found = db.execute(
        "SELECT seq, nullif(CAST(signature AS BLOB), x''), NULL, NULL, NULL FROM entries "
        "WHERE thread = ?1 "
        "UNION ALL SELECT position, NULL, previous, checksum, mark FROM tombstones "
        "WHERE thread = ?1 ORDER BY 1",
        (thread,),
    )
    for position, signature, previous, checksum, mark in found:
        if checksum is not None:
            stone = Tombstone(position, previous, checksum, mark)
            if key is None or signer.is_genuine(key, stone):
                yield position, previous, checksum, True
        elif position in unknown or not (signature is None or is_whole(signature)):
            yield position, None, None, False
        elif signature is None:
            yield position, None, START, False
        else:
            yield position, get_previous(signature), get_head(signature), False


def find_chain_breaks(
    db: sqlite3.Connection,
    thread: int,
    key: ThreadKey | None,
    signer: Signer,
    damaged: Iterable[int] = (),
) -> Iterator[tuple[int, int]]:
    """Yield each position that does not follow the one before, and that one; see `list_links`."""
    head: bytes | None = START
    last = 0
    for position, previous, checksum, _ in list_links(db, thread, key, signer, damaged):
        if head is not None and previous is not None and previous != head:
            yield position, last
        head, last = checksum, position


def read_heads(db: sqlite3.Connection, signer: Signer | None) -> Iterator[tuple[int, ThreadHead]]:
    """Yield the number and the head of every thread that ends with something signed and sound.

    Without a signer, what is signed counts as sound.
    """
    with read_leniently(db):
        threads = db.execute(
            f"SELECT t.thread, t.thread_id, o.user_id, (SELECT max(seq) FROM entries e "
            "WHERE e.thread = t.thread), (SELECT max(position) FROM tombstones s "
            f"WHERE s.thread = t.thread) FROM threads t {_OWNER_OF}"
        ).fetchall()
    for thread, thread_id, user_id, newest, erased in threads:
        key = read_key(user_id, thread_id)
        if key is None:  # nobody could find its head
            continue
        if newest is not None and (erased is None or newest > erased):
            row = read_one(db, newest)
            position, checksum = newest, _read_sound_head(signer, key, row)
        elif erased is not None:
            position, checksum = erased, _read_erased_head(db, signer, key, thread, erased)
        else:
            continue
        if checksum is not None:
            head = ThreadHead(key.user_id, key.thread_id, position, checksum.hex())
            yield thread, head


def _read_sound_head(signer: Signer | None, key: ThreadKey, row: Row) -> bytes | None:
    damage = find_damage(key, row, signer)
    is_sound = is_whole(row.signature) and not damage
    return get_head(row.signature) if is_sound else None


def _read_erased_head(
    db: sqlite3.Connection, signer: Signer | None, key: ThreadKey, thread: int, position: int
) -> bytes | None:
    query = "SELECT previous, checksum, mark FROM tombstones WHERE thread = ? AND position = ?"
    stone = Tombstone(position, *db.execute(query, (thread, position)).fetchone())
    is_sound = signer is None or signer.is_genuine(key, stone)
    return stone.checksum if is_sound else None


def _compare_head(db: sqlite3.Connection, head: ThreadHead, signer: Signer) -> str:
    """Return what a head shows to be wrong with its thread; empty where it is there."""
    of_user = f" of user {_show_name(head.user_id)}" if head.user_id else ""
    name = f"thread {_show_name(head.thread_id)}{of_user}"
    found = db.execute(
        "SELECT t.thread FROM owners o JOIN threads t ON t.owner = o.owner "
        "WHERE o.user_id = ? AND o.lone_thread = ? AND t.thread_id = ?",
        (head.user_id or "", "" if head.user_id else head.thread_id, head.thread_id),
    ).fetchone()
    if found is None:
        return f"{name} is not here, but had entries up to position {head.position}"
    end, checksum = 0, None
    key = ThreadKey(head.user_id, head.thread_id)
    for position, _, own, _ in list_links(db, found[0], key, signer):
        end = position
        if position == head.position:
            checksum = own
    if end < head.position:
        count = head.position - end
        lost = "last position is" if count == 1 else f"last {count} positions are"
        return f"{name} ends early: the {lost} missing"
    if checksum is None or checksum.hex() != head.checksum:
        return f"{name}: position {head.position} is not the entry that its head names"
    return ""


# -- copying ------------------------------------------------------------------------------------

_PAGES_AT_ONCE = 1024
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
            return _Check(db, signer, None, ()).report(target)
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
                db.backup(copy, pages=_PAGES_AT_ONCE, progress=report_pages, sleep=0)
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
