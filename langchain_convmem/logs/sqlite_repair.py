"""Repair of SQLite logs: from a backup, from an export, or by taking out what is damaged.

Nothing is believed that cannot be proved: a row counts as restored if its checksum is the one that
the damaged row, or the rows beside it, still tell. Where SQLite cannot read a page, all that is
readable goes into a new file, and the damaged one is kept beside it.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from langchain_convmem.errors import ConfigError, ConvMemError, LogError
from langchain_convmem.ids import get_now_ms
from langchain_convmem.logs.base import Row, hash_message_id, note_damage, read_message_id
from langchain_convmem.logs.signatures import START, Signer, get_head, get_previous, is_whole
from langchain_convmem.logs.sqlite_file import (
    COLUMNS,
    MIGRATIONS,
    Garbled,
    SQLiteConnections,
    decode_leniently,
    has_sound_tables,
    list_expected_objects,
    list_objects,
    name_damaged,
    read_row,
    write_row,
)
from langchain_convmem.logs.sqlite_maintenance import (
    VerifyReport,
    find_chain_breaks,
    list_links,
    verify_file,
)
from langchain_convmem.logs.sqlite_rows import name_thread, read_key, read_leniently, read_one
from langchain_convmem.logs.sqlite_signing import bridge_gap, bury, open_read_only
from langchain_convmem.logs.verification import Finding
from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.views.codec import encode_body, encode_metadata, redraft

_PARTS_OF_ENTRIES = "entries_"
"""So begin the names of their indexes and triggers."""
_INDEX_COMPLAINTS = ("missing from index", "wrong # of entries in index", "non-unique entry in")


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What a repair found and did.

    Attributes:
        restored: Entries that are again what was said, by their checksums.
        removed: Damaged entries that were taken out; tombstones keep their chains.
        lost: What is still damaged or missing; also what stood at the end of a thread on a page
            that cannot be read, of which the file itself tells nothing afterwards.
        segments: Derived index rows that were dropped; recall makes them again.
        documents: Damaged state documents that were restored, or deleted if they were caches.
        reindexed: Whether the file's indexes were built anew.
        kept: Where the damaged file is kept, if a new one took its place.
        verified: A check of the log afterwards.
    """

    restored: tuple[Finding, ...]
    removed: tuple[Finding, ...]
    lost: tuple[Finding, ...]
    segments: int
    documents: int
    reindexed: bool
    kept: str | None
    verified: VerifyReport

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong any more."""
        return self.verified.ok


class Repair:
    """One repair of one file."""

    def __init__(
        self, connections: SQLiteConnections, signer: Signer, source: RepairSource
    ) -> None:
        self._connections = connections
        self._signer = signer
        self._source = source
        self._restored: list[Finding] = []
        self._removed: list[Finding] = []
        self._segments = 0
        self._documents = 0

    def run(self, *, remove: bool, new_file: NewFile | None = None) -> RepairReport:
        """Repair what is damaged, in one transaction.

        Args:
            remove: Take out what cannot be restored.
            new_file: What was put in the place of the damaged file before, if anything was.
        """
        before = verify_file(self._connections, self._signer)
        reindexed = False
        if not before.ok or self._source.path is not None:
            with self._connections.write() as db:
                _restore_objects(db)
                reindexed = _rebuild_indexes(db, before)
                _restore_numbers(db)
                self._restore_names(db)
                self._restore_threads(db)
                self._restore_entries(db)
                self._repair_keys(db)
                if remove:
                    self._remove_entries(db)
                self._repair_documents(db)
                self._segments += _drop_segments(db)
                if self._restored or self._removed:
                    # What others keep of the log in memory is not what it says any more.
                    db.execute("UPDATE meta SET forget_epoch = forget_epoch + 1")
                    db.execute("UPDATE owners SET generation = (SELECT forget_epoch FROM meta)")
        after = verify_file(self._connections, self._signer)
        return RepairReport(
            tuple(self._restored),
            tuple(self._removed),
            after.damaged if new_file is None else (*after.damaged, *self._list_lost(new_file)),
            self._segments,
            self._documents,
            reindexed,
            None if new_file is None else str(new_file.kept),
            after,
        )

    def _list_lost(self, new_file: NewFile) -> Iterator[Finding]:
        """Yield entries that were not read, and that no gap stands for: those at a thread's end."""
        with self._connections.read() as db:
            keys = dict(_list_threads(db))
            query = "SELECT max(seq) FROM entries WHERE thread = ?"
            ends = {thread: db.execute(query, (thread,)).fetchone()[0] or 0 for thread in keys}
        for position, thread in sorted(new_file.unread.items()):
            key = keys.get(thread)
            if key is not None and position > ends[thread]:
                name, what = name_damaged(position), "its page cannot be read"
                yield Finding(key.user_id, key.thread_id, position, name, what)

    # -- entries --------------------------------------------------------------------------------

    def _restore_names(self, db: sqlite3.Connection) -> None:
        """Give owners and threads the names by which their entries were signed."""
        _add_missing_owners(db)
        named = [*self._source.list_threads(), *_list_own_names(db), *_list_possible_names(db)]
        for thread, owner, key in named:
            found = _read_names(db, thread)
            if found is None or found == (owner, key):
                continue
            if self._is_signed_as(db, thread, key):
                db.execute(
                    "UPDATE threads SET owner = ?, thread_id = ? WHERE thread = ?",
                    (_name_owner(db, owner, key), key.thread_id, thread),
                )
        db.execute(
            "DELETE FROM owners WHERE typeof(user_id) != 'text' "
            "AND owner NOT IN (SELECT owner FROM threads)"
        )

    def _restore_threads(self, db: sqlite3.Connection) -> None:
        """Create threads that are missing; not where any may have been forgotten since."""
        epoch = db.execute("SELECT forget_epoch FROM meta").fetchone()[0]
        if self._source.read_epoch() != epoch:
            return
        known = {key for _, key in _list_threads(db)}
        for _, _, key in self._source.list_threads():
            if key in known:
                continue
            names = name_thread(key)[:2]
            db.execute(
                "INSERT OR IGNORE INTO owners(user_id, lone_thread, generation) VALUES (?, ?, ?)",
                (*names, epoch),
            )
            db.execute(
                "INSERT OR IGNORE INTO threads(owner, thread_id) SELECT owner, ? FROM owners "
                "WHERE user_id = ? AND lone_thread = ?",
                (key.thread_id, *names),
            )

    def _is_signed_as(self, db: sqlite3.Connection, thread: int, key: ThreadKey) -> bool:
        """Return whether the rows of a thread were signed as those of `key`."""
        with read_leniently(db):
            rows = [read_one(db, position) for position, *_ in _list_rows(db, thread)]
        return any(row.signature and not self._signer.find_damage(key, row) for row in rows)

    def _restore_entries(self, db: sqlite3.Connection) -> None:
        for thread, key in _list_threads(db):
            damaged = _find_damaged(db, self._signer, thread, key)
            for row in damaged.values():
                self._restore_row(db, thread, key, row)
            left = _find_damaged(db, self._signer, thread, key)
            for position, before in list(
                find_chain_breaks(db, thread, key, self._signer, set(left))
            ):
                self._restore_gap(db, thread, key, before, position)
            self._restore_tail(db, thread, key)

    def _restore_row(
        self, db: sqlite3.Connection, thread: int, key: ThreadKey, damaged: Row
    ) -> None:
        for row in self._source.find(key, damaged):
            is_proved = row.position == damaged.position and self._is_expected(
                db, thread, key, row, damaged
            )
            if is_proved and not self._signer.find_damage(key, row):
                self._put(db, thread, key, row, damaged.damage)
                return

    def _is_expected(
        self, db: sqlite3.Connection, thread: int, key: ThreadKey, row: Row, damaged: Row
    ) -> bool:
        """Return whether a row's checksum is what the damaged row or its neighbours still tell."""
        if not is_whole(row.signature):
            return False
        checksum = get_head(row.signature)
        if is_whole(damaged.signature) and get_head(damaged.signature) == checksum:
            return True
        head, following = self._read_ends(db, thread, key, row.position - 1, row.position + 1)
        if following is not None:
            return following == checksum
        return get_previous(row.signature) == head

    def _read_ends(
        self, db: sqlite3.Connection, thread: int, key: ThreadKey, until: int, since: int
    ) -> tuple[bytes, bytes | None]:
        """Return the checksum of the last link up to a position, and what the next one follows.

        None stands for the latter where no link stands at `since` or after it, or where it does
        not tell.
        """
        head = START
        for position, previous, checksum, _ in list_links(db, thread, key, self._signer):
            if position <= until:
                head = checksum or START
            elif position >= since:
                return head, previous
        return head, None

    def _restore_gap(
        self, db: sqlite3.Connection, thread: int, key: ThreadKey, before: int, position: int
    ) -> None:
        """Put back what stood between two positions, if it joins them."""
        head, following = self._read_ends(db, thread, key, before, position)
        rows = self._source.list_rows(key, before, position - 1)
        if (
            self._are_chained(key, rows, head)
            and rows
            and get_head(rows[-1].signature) == following
        ):
            for row in rows:
                self._put(db, thread, key, row, "it was missing")

    def _restore_tail(self, db: sqlite3.Connection, thread: int, key: ThreadKey) -> None:
        """Put back what follows the last row, if its chain goes on from there."""
        last, head = 0, START
        for position, _, checksum, _ in list_links(db, thread, key, self._signer):
            last, head = position, checksum or START
        rows = self._source.list_rows(key, last, None)
        if self._are_chained(key, rows, head):
            for row in rows:
                self._put(db, thread, key, row, "it was missing")

    def _are_chained(self, key: ThreadKey, rows: Sequence[Row], head: bytes) -> bool:
        for row in rows:
            if not is_whole(row.signature) or self._signer.find_damage(key, row):
                return False
            if get_previous(row.signature) != head:
                return False
            head = get_head(row.signature)
        return True

    def _put(
        self, db: sqlite3.Connection, thread: int, key: ThreadKey, row: Row, what: str
    ) -> None:
        """Write a row where it stood; not over an entry of another thread."""
        if self._is_taken(db, thread, row.position):
            return
        db.execute("DELETE FROM segments WHERE seq = ?", (row.position,))
        put_row(db, thread, row)
        db.execute(
            "DELETE FROM tombstones WHERE thread = ? AND position = ?", (thread, row.position)
        )
        self._restored.append(Finding(key.user_id, key.thread_id, row.position, row.id, what))

    def _is_taken(self, db: sqlite3.Connection, thread: int, position: int) -> bool:
        """Return whether a sound entry of another thread stands at a position."""
        query = "SELECT thread FROM entries NOT INDEXED WHERE seq = ?"
        found = db.execute(query, (position,)).fetchone()
        if found is None or found[0] == thread:
            return False
        key = dict(_list_threads(db)).get(found[0])
        with read_leniently(db):
            row = read_one(db, position)
        return key is not None and not self._signer.find_damage(key, row)

    def _repair_keys(self, db: sqlite3.Connection) -> None:
        """Set the hashes anew by which messages are found, where entries are sound."""
        for thread, key in _list_threads(db):
            with read_leniently(db):
                found = db.execute("SELECT seq, key_hash FROM entries WHERE thread = ?", (thread,))
                for position, known in found.fetchall():
                    row = read_one(db, position)
                    if self._signer.find_damage(key, row):
                        continue
                    wanted = _hash_key(row)
                    if known != wanted:
                        query = "UPDATE entries SET key_hash = ? WHERE seq = ?"
                        db.execute(query, (wanted, position))

    def _remove_entries(self, db: sqlite3.Connection) -> None:
        self._remove_unnamed(db)
        for thread, key in _list_threads(db):
            for row in _find_damaged(db, self._signer, thread, key).values():
                bury(db, key, thread, row, self._signer)
                where = key.user_id, key.thread_id, row.position
                self._removed.append(Finding(*where, row.id, row.damage))
            for position, before in list(find_chain_breaks(db, thread, key, self._signer)):
                if before < position - 1:
                    bridge_gap(db, key, thread, position - 1, self._signer)
                    where = key.user_id, key.thread_id, position - 1
                    name = f"missing-{position - 1}"
                    self._removed.append(Finding(*where, name, "entries are missing here"))

    def _remove_unnamed(self, db: sqlite3.Connection) -> None:
        """Delete threads without a name and entries without a thread: nobody could ask for them."""
        known = {thread for thread, _ in _list_threads(db)}
        there = db.execute("SELECT seq, thread FROM entries NOT INDEXED ORDER BY seq").fetchall()
        for position, thread in there:
            if thread not in known:
                with read_leniently(db):
                    row = read_one(db, position)
                what = row.damage or "its thread has no name"
                self._removed.append(Finding(None, None, position, row.id, what))
                # Older releases, too, may delete what is not signed.
                db.execute("UPDATE entries SET signature = x'' WHERE seq = ?", (position,))
                db.execute("DELETE FROM entries WHERE seq = ?", (position,))
        for (thread,) in db.execute("SELECT thread FROM threads").fetchall():
            if thread not in known:
                db.execute("DELETE FROM threads WHERE thread = ?", (thread,))
        db.execute("DELETE FROM owners WHERE owner NOT IN (SELECT owner FROM threads)")

    # -- documents ------------------------------------------------------------------------------

    def _repair_documents(self, db: sqlite3.Connection) -> None:
        with read_leniently(db):
            found = db.execute(
                "SELECT thread, name, version, value, checksum FROM documents"
            ).fetchall()
        keys = dict(_list_threads(db))
        for thread, name, version, value, checksum in found:
            key = keys.get(thread)
            if key is None or self._is_document_sound(key, name, version, value, checksum):
                continue
            db.execute("DELETE FROM documents WHERE thread = ? AND name IS ?", (thread, name))
            self._documents += 1
            stored = self._source.find_document(key, name)
            if stored is not None and self._is_document_sound(key, name, *stored):
                query = "INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?, ?)"
                db.execute(query, (thread, name, *stored))

    def _is_document_sound(
        self, key: ThreadKey, name: Any, version: Any, value: Any, checksum: Any
    ) -> bool:
        if not (isinstance(name, str) and isinstance(version, int) and isinstance(value, str)):
            return False
        return self._signer.is_document_sound(key, name, version, value, checksum)


def put_row(db: sqlite3.Connection, thread: int, row: Row) -> None:
    """Write a row at its position, over what stands there."""
    db.execute("PRAGMA defer_foreign_keys = ON")
    values = (thread, *write_row(row, _hash_key(row)))
    there = db.execute("SELECT 1 FROM entries WHERE seq = ?", (row.position,)).fetchone()
    if there is None:
        query = (
            "INSERT INTO entries(thread, id, turn, role, key_hash, body, metadata, signature, seq) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        )
    else:
        query = (
            "UPDATE entries SET thread = ?, id = ?, turn = ?, role = ?, key_hash = ?, body = ?, "
            "metadata = ?, signature = ? WHERE seq = ?"
        )
        # What only differs in its metadata is a change that triggers would take for an older
        # release's.
        db.execute("UPDATE entries SET signature = x'' WHERE seq = ?", (row.position,))
    db.execute(query, (*values, row.position))


def _hash_key(row: Row) -> int | None:
    return None if row.role == "control" else hash_message_id(read_message_id(row.id, row.body))


def _list_threads(db: sqlite3.Connection) -> list[tuple[int, ThreadKey]]:
    """Return the number and the key of each thread whose names can be read."""
    with read_leniently(db):
        found = db.execute(
            "SELECT t.thread, o.user_id, t.thread_id FROM threads t "
            "JOIN owners o ON o.owner = t.owner"
        ).fetchall()
    keys = ((thread, read_key(user, name)) for thread, user, name in found)
    return [(thread, key) for thread, key in keys if key is not None]


def _list_own_names(db: sqlite3.Connection) -> list[tuple[int, int, ThreadKey]]:
    """Return number, owner's number and key of each thread whose names can be read."""
    owners = dict(db.execute("SELECT thread, owner FROM threads").fetchall())
    return [(thread, owners[thread], key) for thread, key in _list_threads(db)]


def _list_possible_names(db: sqlite3.Connection) -> list[tuple[int, int, ThreadKey]]:
    """Return number, owner's number and key that threads without a readable owner may have.

    The owner may be any that has no thread, such as one whose number is damaged; the signatures of
    a thread's entries tell whose it is.
    """
    with read_leniently(db):
        threads = db.execute(
            "SELECT t.thread, t.thread_id FROM threads t JOIN owners o ON o.owner = t.owner "
            "WHERE typeof(o.user_id) != 'text'"
        ).fetchall()
        owners = db.execute(
            "SELECT owner, user_id FROM owners WHERE owner NOT IN (SELECT owner FROM threads)"
        ).fetchall()
    pairs = [
        (thread, owner, read_key(user_id, name))
        for thread, name in threads
        for owner, user_id in owners
    ]
    return [(thread, owner, key) for thread, owner, key in pairs if key is not None]


def _add_missing_owners(db: sqlite3.Connection) -> None:
    """Give threads whose owner is not there one without a name, for the time being."""
    db.execute(
        "INSERT INTO owners(owner, user_id, lone_thread, generation) "
        "SELECT DISTINCT owner, CAST(owner AS BLOB), '', (SELECT forget_epoch FROM meta) "
        "FROM threads WHERE typeof(owner) = 'integer' AND owner NOT IN (SELECT owner FROM owners)"
    )


def _name_owner(db: sqlite3.Connection, owner: int, key: ThreadKey) -> int:
    """Return the number of the owner of a thread; the one given is named so where there is none."""
    names = name_thread(key)[:2]
    there = db.execute(
        "SELECT owner FROM owners NOT INDEXED WHERE user_id = ? AND lone_thread = ?", names
    ).fetchone()
    if there is not None:
        return int(there[0])
    query = "UPDATE owners SET user_id = ?, lone_thread = ? WHERE owner = ?"
    if not db.execute(query, (*names, owner)).rowcount:
        db.execute(
            "INSERT INTO owners(owner, user_id, lone_thread, generation) "
            "SELECT ?, ?, ?, forget_epoch FROM meta",
            (owner, *names),
        )
    return owner


def _read_names(db: sqlite3.Connection, thread: int) -> tuple[int, ThreadKey | None] | None:
    """Return a thread's owner and key, None for a key that its owner does not fit; or None."""
    with read_leniently(db):
        found = db.execute(
            "SELECT t.owner, o.user_id, t.thread_id, o.lone_thread FROM threads t "
            "LEFT JOIN owners o ON o.owner = t.owner WHERE t.thread = ?",
            (thread,),
        ).fetchone()
    if found is None:
        return None
    owner, user_id, name, lone = found
    return owner, read_key(user_id, name) if lone == ("" if user_id else name) else None


def _list_rows(db: sqlite3.Connection, thread: int) -> Iterator[tuple[int]]:
    return iter(db.execute("SELECT seq FROM entries WHERE thread = ?", (thread,)).fetchall())


def _find_damaged(
    db: sqlite3.Connection, signer: Signer, thread: int, key: ThreadKey
) -> dict[int, Row]:
    with read_leniently(db):
        rows = [read_one(db, position) for (position,) in _list_rows(db, thread)]
    return {row.position: row for row in note_damage(signer, key, rows) if row.damage}


def _restore_objects(db: sqlite3.Connection) -> None:
    """Create indexes and triggers that are missing."""
    there = list_objects(db)
    for name, sql in list_expected_objects().items():
        if name not in there and name.startswith(_PARTS_OF_ENTRIES):
            db.execute(sql)


def _restore_numbers(db: sqlite3.Connection) -> None:
    """Give the file and its owners numbers in place of what is none; higher ones do no harm."""
    newest = "coalesce((SELECT max(seq) FROM entries), 0)"
    generations = "SELECT max(generation) FROM owners WHERE typeof(generation) = 'integer'"
    for column, value in (
        ("forget_epoch", f"coalesce(({generations}), 0) + 1"),
        ("position_floor", newest),
        ("unnumbered", newest),
        ("unsigned", "coalesce((SELECT max(seq) FROM entries WHERE signature = x''), 0)"),
    ):
        is_wrong = f"typeof({column}) != 'integer' OR {column} < 0"
        db.execute(f"UPDATE meta SET {column} = {value} WHERE {is_wrong}")
    db.execute(
        "UPDATE owners SET generation = (SELECT forget_epoch FROM meta) "
        "WHERE typeof(generation) != 'integer' "
        "OR generation NOT BETWEEN 0 AND (SELECT forget_epoch FROM meta)"
    )


def _rebuild_indexes(db: sqlite3.Connection, report: VerifyReport) -> bool:
    if any(complaint in problem for problem in report.problems for complaint in _INDEX_COMPLAINTS):
        _rewrite_segments(db)
        db.execute("REINDEX")
        return True
    return False


def _rewrite_segments(db: sqlite3.Connection) -> None:
    """Write derived rows and their embedders into new tables, each once: two would stop an index.

    A damaged index hides what is there, so it was written again. To delete single rows, SQLite
    would ask the index that is at fault; nor would it take rows of no entry, or of no embedder.
    """
    numbers, names = _read_embedders(db)
    with read_leniently(db):
        found = db.execute(
            "SELECT * FROM segments NOT INDEXED "
            "WHERE seq IN (SELECT seq FROM entries NOT INDEXED) AND typeof(fingerprint) = 'integer'"
        ).fetchall()
        columns = [row[1] for row in db.execute("PRAGMA table_info(segments)")]
    for table in ("segments", "fingerprints"):
        db.execute(f"DROP TABLE {table}")
    for table in ("fingerprints", "segments"):
        db.execute(list_expected_objects()[table])
    rows = [(number, name) for name, number in names.items()]
    db.executemany("INSERT INTO fingerprints(fingerprint, name) VALUES (?, ?)", rows)
    embedder = columns.index("fingerprint")
    insert = f"INSERT OR IGNORE INTO segments VALUES ({', '.join('?' * len(columns))})"
    for row in found:
        if row[embedder] in numbers and not any(isinstance(value, Garbled) for value in row):
            values = list(row)
            values[embedder] = numbers[row[embedder]]
            db.execute(insert, values)


def _read_embedders(db: sqlite3.Connection) -> tuple[dict[int, int], dict[str, int]]:
    """Return the number to use for each embedder's number, and the number of each name."""
    with read_leniently(db):
        found = db.execute("SELECT fingerprint, name FROM fingerprints NOT INDEXED").fetchall()
    names: dict[str, int] = {}
    named = [(number, name) for number, name in found if isinstance(name, str)]
    return {number: names.setdefault(name, number) for number, name in named}, names


def _drop_segments(db: sqlite3.Connection) -> int:
    """Delete derived rows that cannot be read, or belong to nothing."""
    with read_leniently(db):
        found = db.execute("SELECT rowid, terms FROM segments").fetchall()
    for rowid, terms in found:
        if isinstance(terms, Garbled):
            db.execute("UPDATE segments SET terms = x'' WHERE rowid = ?", (rowid,))
    return db.execute(
        "DELETE FROM segments WHERE typeof(part) != 'integer' OR typeof(segment) != 'integer' "
        "OR typeof(analysis) != 'integer' OR typeof(terms) != 'text' "
        "OR typeof(vector) NOT IN ('null', 'blob') OR length(vector) % 2 "
        "OR seq NOT IN (SELECT seq FROM entries) "
        "OR fingerprint NOT IN (SELECT fingerprint FROM fingerprints WHERE typeof(name) = 'text')"
    ).rowcount


# -- where sound rows come from -----------------------------------------------------------------


@contextmanager
def open_source(
    source: str | os.PathLike[str] | Sequence[Entry] | None,
) -> Iterator[RepairSource]:
    """Open what to restore from, and close it after the block.

    Raises:
        ConfigError: If it is no log of this version.
    """
    if not isinstance(source, str | os.PathLike):
        yield RepairSource(entries=source or ())
        return
    path = Path(os.fspath(source)).absolute()
    try:
        db = open_read_only(path)
    except (sqlite3.DatabaseError, UnicodeDecodeError, ConvMemError) as error:
        raise ConfigError(f"{path} is no backup that can be read: {error}") from error
    with closing(db):
        if db.execute("PRAGMA user_version").fetchone()[0] != len(MIGRATIONS):
            msg = (
                f"{path} is of an older release; open a copy of it once, which brings it up to date"
            )
            raise ConfigError(msg)
        yield RepairSource(db, path)


class RepairSource:
    """A backup, or entries of an export: what it holds is believed where checksums prove it."""

    def __init__(
        self,
        db: sqlite3.Connection | None = None,
        path: Path | None = None,
        entries: Sequence[Entry] = (),
    ) -> None:
        """Take a backup that is open, or the entries of an export; neither is a source of none."""
        self.path = path
        self._db = db
        self._entries = {(entry.key, entry.id): entry for entry in entries}
        self._by_position = {(entry.key, entry.position): entry for entry in entries}
        self._threads = {} if db is None else {key: number for number, key in _list_threads(db)}

    def read_epoch(self) -> int | None:
        """Return the number of a backup's last `forget`; None without a backup."""
        if self._db is None:
            return None
        return int(self._db.execute("SELECT forget_epoch FROM meta").fetchone()[0])

    def list_threads(self) -> list[tuple[int, int, ThreadKey]]:
        """Return number, owner's number and key of each thread of a backup."""
        if self._db is None:
            return []
        owners = dict(self._db.execute("SELECT thread, owner FROM threads").fetchall())
        return [(number, owners[number], key) for key, number in self._threads.items()]

    def find(self, key: ThreadKey, damaged: Row) -> list[Row]:
        """Return rows that may be what a damaged one was."""
        if self._db is not None:
            return self.list_rows(key, damaged.position - 1, damaged.position)
        entry = self._entries.get((key, damaged.id))
        entry = entry or self._by_position.get((key, damaged.position))
        if entry is None or not is_whole(damaged.signature):
            return []
        body = encode_body(redraft(entry))
        metadata = encode_metadata(entry.metadata)
        row = Row(entry.id, damaged.position, entry.turn_id, entry.role, body, metadata)
        return [replace(row, metadata=one, signature=damaged.signature) for one in (metadata, None)]

    def list_rows(self, key: ThreadKey, after: int, until: int | None) -> list[Row]:
        """Return a backup's rows of a thread after a position up to another, ascending."""
        thread = self._threads.get(key)
        if self._db is None or thread is None:
            return []
        found = self._db.execute(
            f"SELECT {COLUMNS} FROM entries e WHERE e.thread = ? AND e.seq > ? AND e.seq <= ? "
            "ORDER BY e.seq",
            (thread, after, 2**62 if until is None else until),
        )
        return [read_row(columns) for columns in found.fetchall()]

    def find_document(self, key: ThreadKey, name: Any) -> tuple[Any, Any, Any] | None:
        """Return version, value and checksum of a backup's document."""
        thread = self._threads.get(key)
        if self._db is None or thread is None or not isinstance(name, str):
            return None
        query = "SELECT version, value, checksum FROM documents WHERE thread = ? AND name = ?"
        found: tuple[Any, Any, Any] | None = self._db.execute(query, (thread, name)).fetchone()
        return found


# -- a new file of all that can be read ---------------------------------------------------------

_TABLES = {
    "meta": "one",
    "owners": "owner",
    "threads": "thread",
    "tombstones": "thread position",
    "fingerprints": "fingerprint",
    "documents": "thread name",
    "segments": "rowid",
}
_UNREADABLE = (sqlite3.DatabaseError, UnicodeDecodeError)
"""What reading may raise; the latter where what SQLite says of a schema quotes no Unicode."""
_NAMING = ("meta", "owners", "threads", "fingerprints")
"""What a backup knows as well, whatever was said since."""


def needs_new_file(report: VerifyReport) -> bool:
    """Return whether SQLite itself finds pages or the schema damaged, beyond its indexes."""
    for problem in report.problems:
        is_about_file = problem.startswith(("SQLite: ", "the table or index ", "the schema is"))
        is_about_file &= f" {_PARTS_OF_ENTRIES}" not in problem or not problem.endswith("missing")
        is_about_file |= (
            "cannot be read to the end" in problem or "cannot be read at once" in problem
        )
        if is_about_file and not any(one in problem for one in _INDEX_COMPLAINTS):
            return True
    return False


class NewFile(NamedTuple):
    """What was put in the place of a damaged file.

    Attributes:
        kept: Where the damaged one is kept.
        unread: Positions that an index knows of and that cannot be read, each with its thread.
    """

    kept: Path
    unread: Mapping[int, int]


def build_new_file(path: Path, backup: Path | None) -> NewFile:
    """Put a new file in a damaged one's place, with all that can be read of it.

    Nobody may have the file open.

    Args:
        path: The file.
        backup: Tells what the damaged file's tables do not.

    Returns:
        Where the damaged file is kept, and what could not be read of it.

    Raises:
        LogError: If even its tables are not known; then all is as it was.
    """
    kept = path.with_name(f"{path.name}.damaged-{get_now_ms()}")
    new = path.with_name(f".{path.name}.repaired")
    for left in _list_files(new):
        left.unlink(missing_ok=True)
    connections = SQLiteConnections(new)
    try:
        with connections.write() as target:
            target.execute("PRAGMA defer_foreign_keys = ON")
            with closing(_open_damaged(path, backup)) as source:
                unread = _copy_readable(source, target, backup)
        connections.fold_wal()
    except (*_UNREADABLE, ConvMemError) as error:
        connections.close()
        for left in _list_files(new):
            left.unlink(missing_ok=True)
        msg = f"{path} cannot be repaired: {error}; restore a backup in its place"
        raise LogError(msg) from error
    connections.close()
    _replace_files(path, new, kept)
    return NewFile(kept, unread)


def _replace_files(path: Path, new: Path, kept: Path) -> None:
    """Put a new file in the place of an old one, which is kept with what lies beside it.

    There is a file under the path at any moment: whoever opened none would begin an empty log.
    Killed in the midst, the process leaves the old one there, and all of it under the kept name.
    """
    for old, copy in zip(_list_files(path), _list_files(kept), strict=True):
        if old.exists():
            _link(old, copy)
    for beside in _list_files(path)[1:]:  # SQLite would fold it into the new file
        beside.unlink(missing_ok=True)
    new.replace(path)


def _link(file: Path, name: Path) -> None:
    try:
        name.hardlink_to(file)
    except OSError:  # not every file system has such links
        shutil.copy2(file, name)


def _list_files(path: Path) -> list[Path]:
    return [path.with_name(path.name + ending) for ending in ("", "-wal", "-shm")]


def _open_damaged(path: Path, backup: Path | None) -> sqlite3.Connection:
    """Open a damaged file; where its first page is at fault, with that of a backup."""
    db = sqlite3.connect(path, isolation_level=None)
    db.text_factory = decode_leniently
    try:
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        is_sound = has_sound_tables(db)
    except _UNREADABLE:
        is_sound = False
    if not is_sound:
        db.close()
        if backup is None:
            raise LogError("its schema is damaged")
        return _open_with_other_schema(path, backup)
    return db


def _open_with_other_schema(path: Path, backup: Path) -> sqlite3.Connection:
    data, first = bytearray(path.read_bytes()), bytearray(backup.read_bytes())
    size = int.from_bytes(first[16:18], "big")
    page = first[:size]
    page[18:20] = b"\x01\x01"  # not in WAL mode: a copy has no log beside it
    page[28:32] = (len(data) // size).to_bytes(4, "big")
    page[32:40] = bytes(8)  # nothing is known of free pages
    page[92:96] = page[24:28]
    data[:size] = page
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.deserialize(bytes(data))
    db.text_factory = decode_leniently
    return db


def _copy_readable(
    source: sqlite3.Connection, target: sqlite3.Connection, backup: Path | None
) -> dict[int, int]:
    """Copy what can be read; return the positions of entries that cannot, with their threads."""
    for table, order in _TABLES.items():
        names = [row[1] for row in target.execute(f"PRAGMA table_info({table})")]
        rows = _read_table(source, table, order)
        if backup is not None and table in _NAMING:
            with closing(open_read_only(backup)) as other:
                known = _read_table(other, table, order)
            rows = known + rows if table == "meta" else rows + known
        target.execute(f"DELETE FROM {table}")
        marks = ", ".join("?" * len(names))
        for row in rows:
            # What holds a value that it must not is left out.
            with suppress(*_UNREADABLE):
                target.execute(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", row)
    _add_missing_owners(target)
    unread = _copy_entries(source, target)
    # None of these positions may be given again.
    query = "UPDATE meta SET position_floor = max(position_floor, ?)"
    target.execute(query, (max(unread, default=0),))
    for table in ("entries", "tombstones", "documents"):
        query = f"DELETE FROM {table} WHERE thread NOT IN (SELECT thread FROM threads)"
        target.execute(query)
    _drop_segments(target)
    return unread


def _read_table(db: sqlite3.Connection, table: str, order: str) -> list[Sequence[Any]]:
    """Return the rows of a table that can be read, from both of its ends."""
    found: list[Sequence[Any]] = []
    for direction in ("ASC", "DESC"):
        keys = ", ".join(f"{name} {direction}" for name in order.split())
        try:
            for row in db.execute(f"SELECT * FROM {table} NOT INDEXED ORDER BY {keys}"):
                found.append(row)  # noqa: PERF402 - what came before an error counts
        except _UNREADABLE:
            continue
        break
    return found


def _copy_entries(source: sqlite3.Connection, target: sqlite3.Connection) -> dict[int, int]:
    query = f"SELECT {_ENTRY_COLUMNS} FROM entries NOT INDEXED WHERE seq = ?"
    unread = {}
    for position, thread in _list_all_positions(source).items():
        try:
            row = source.execute(query, (position,)).fetchone()
        except _UNREADABLE:
            if thread is not None:
                unread[position] = thread
            continue
        if row is None:
            continue
        with suppress(*_UNREADABLE):
            values = ["" if isinstance(value, Garbled) else value for value in row]
            values[-1] = b"" if values[-1] is None else values[-1]
            marks = ", ".join("?" * len(values))
            target.execute(
                f"INSERT OR IGNORE INTO entries({_ENTRY_COLUMNS}) VALUES ({marks})", values
            )
    return unread


_ENTRY_COLUMNS = "seq, thread, id, turn, role, key_hash, body, metadata, signature"


def _list_all_positions(db: sqlite3.Connection) -> dict[int, int | None]:
    """Return the positions that the table or one of its indexes knows of, ascending.

    Each has its thread where an index tells it; None where it does not.
    """
    found: dict[int, int | None] = {}
    for columns, rest in (
        ("seq, NULL", "NOT INDEXED ORDER BY seq"),
        ("seq, NULL", "NOT INDEXED ORDER BY seq DESC"),
        (
            "seq, thread",
            "INDEXED BY entries_by_thread WHERE thread IN (SELECT thread FROM threads)",
        ),
    ):
        with suppress(*_UNREADABLE):
            found.update(db.execute(f"SELECT {columns} FROM entries {rest}"))
    return dict(sorted(found.items()))
