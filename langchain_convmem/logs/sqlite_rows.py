"""Rows of a SQLite log: read at once where the file is sound, and one by one where it is not.

What SQLite cannot read takes nothing else down: a row on a damaged page, or with text that is no
Unicode, becomes a `Row` that says so. Where the rows of a thread do not follow each other, those
that an index has lost are looked for, and a gap stands for those that are gone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from langchain_convmem.logs.base import (
    Row,
    build_damaged_entry,
    cap_bound,
    cap_count,
    decode_entry,
    hash_message_id,
    make_gap_row,
    note_damage,
    read_message_id,
)
from langchain_convmem.logs.signatures import START, Signer, Tombstone, find_breaks, is_linked
from langchain_convmem.logs.sql import Dialect, Statements, add_thread_keys
from langchain_convmem.logs.sqlite_file import (
    COLUMNS,
    ROLES,
    decode_leniently,
    is_garbled,
    make_unreadable_row,
    read_row,
)
from langchain_convmem.records import Entry, Owner, ThreadKey

_HASHES_AT_ONCE = 500
_DECODED_AT_MOST = 4096
_DAMAGED_THREAD = "damaged-thread"
"""Stands for a thread's id that cannot be read."""
_DECODED_BODY_CHARS = 20_000

OF_THREAD = "WHERE o.user_id = ? AND o.lone_thread = ? AND t.thread_id = ?"
"""Binds what `name_thread` returns."""
_FIND_THREAD = f"SELECT t.thread FROM owners o JOIN threads t ON t.owner = o.owner {OF_THREAD}"
_SCAN_THREADS = _FIND_THREAD.replace(" o JOIN", " o NOT INDEXED JOIN").replace(
    " t ON", " t NOT INDEXED ON"
)

_DIALECT = Dialect(
    value="?",
    tables="",
    position="seq",
    columns=COLUMNS,
    control=str(ROLES.index("control")),
    among=lambda count: f"IN ({', '.join('?' * count)})",
)
SQL = Statements(_DIALECT, thread="?")
_SQL_BY_NAME = Statements(_DIALECT, thread=f"({_FIND_THREAD})")

# -- one thread ---------------------------------------------------------------------------------


def name_thread(key: ThreadKey) -> tuple[str, str, str]:
    """Return user id, thread id where there is no user, and thread id, as tables have them."""
    return key.user_id or "", key.thread_id if key.user_id is None else "", key.thread_id


def read_key(user_id: object, thread_id: object) -> ThreadKey | None:
    """Return a thread's key from its names as tables have them; None where they are damaged."""
    if not isinstance(user_id, str) or not isinstance(thread_id, str) or not thread_id:
        return None
    return ThreadKey(user_id or None, thread_id)


def find_thread(db: sqlite3.Connection, key: ThreadKey) -> int | None:
    """Return a thread's number; None if nothing is kept of it."""
    # Without the index of names, where it is damaged, the tables themselves still tell.
    found = read_first(db, (_FIND_THREAD, _SCAN_THREADS), name_thread(key))
    return int(found[0][0]) if found else None


def read_named_range(
    db: sqlite3.Connection, key: ThreadKey, *, after: int, until: int | None, last: int | None
) -> list[Row]:
    """Return what `read_range` does, of a thread that nobody has looked up, in one statement.

    Where that hits damage, several statements follow, in a transaction.
    """
    bounds = cap_bound(after), cap_bound(until), cap_count(last)
    try:
        found = db.execute(_SQL_BY_NAME.entries, (*name_thread(key), *bounds)).fetchall()
    except sqlite3.DatabaseError as error:
        _require_damage(error)
        if not db.in_transaction:
            db.execute("BEGIN")
        return read_range(db, find_thread(db, key), after=after, until=until, last=last)
    return [read_row(columns) for columns in reversed(found)]


def read_range(
    db: sqlite3.Connection, thread: int | None, *, after: int, until: int | None, last: int | None
) -> list[Row]:
    """Return a thread's rows of a range, ascending; the latest `last` of them."""
    bounds = cap_bound(after), cap_bound(until), cap_count(last)
    try:
        found = db.execute(SQL.entries, (thread, *bounds)).fetchall()
    except sqlite3.DatabaseError as error:
        _require_damage(error)
        return _salvage(db, thread, after, until)[-cap_count(last) :] if last != 0 else []
    return [read_row(columns) for columns in reversed(found)]


def read_versions(db: sqlite3.Connection, thread: int | None, hashes: Collection[int]) -> list[Row]:
    """Return rows whose message ids have these hashes, by position."""
    wanted = sorted(set(hashes)) if len(hashes) > 1 else list(hashes)
    found: list[Sequence[Any]] = []
    try:
        for start in range(0, len(wanted), _HASHES_AT_ONCE):
            some = wanted[start : start + _HASHES_AT_ONCE]
            found += db.execute(SQL.select_versions(len(some)), (thread, *some)).fetchall()
    except sqlite3.DatabaseError as error:
        _require_damage(error)
        return [
            row
            for row in _salvage(db, thread, 0, None)
            if row.role != "control"
            and hash_message_id(read_message_id(row.id, row.body)) in wanted
        ]
    if len(wanted) > _HASHES_AT_ONCE:
        found.sort(key=itemgetter(0))
    return [read_row(columns) for columns in found]


def read_controls(db: sqlite3.Connection, thread: int | None) -> list[Row]:
    """Return a thread's control entries, by position."""
    try:
        return [read_row(columns) for columns in db.execute(SQL.controls, (thread,)).fetchall()]
    except sqlite3.DatabaseError as error:
        _require_damage(error)
    return [row for row in _salvage(db, thread, 0, None) if row.role == "control"]


def find_rows(
    db: sqlite3.Connection, thread: int | None, message_ids: Collection[str]
) -> list[Row]:
    """Return a thread's rows with these message ids, ascending."""
    wanted = frozenset(message_ids)
    rows = read_versions(db, thread, [hash_message_id(name) for name in wanted])
    return [row for row in rows if read_message_id(row.id, row.body) in wanted]


def read_tombstones(
    db: sqlite3.Connection,
    key: ThreadKey,
    thread: int | None,
    signer: Signer,
    *,
    after: int = 0,
    until: int | None = None,
) -> list[Tombstone]:
    """Return what is kept of a thread's erased rows in a range, ascending; genuine ones alone."""
    found = db.execute(
        "SELECT position, previous, checksum, mark FROM tombstones "
        "WHERE thread = ? AND position > ? AND position <= ? ORDER BY position",
        (thread, after, cap_bound(until)),
    )
    return signer.select_genuine(key, (Tombstone(*row) for row in found))


# -- an owner -----------------------------------------------------------------------------------


def read_later(
    db: sqlite3.Connection, owner: Owner, number: int | None, cursor: int, limit: int | None
) -> Iterable[tuple[ThreadKey, Row]]:
    """Return an owner's rows after a cursor, in the order of commits."""
    # Positions are sorted before anything else is read: bodies are far larger.
    query = (
        f"SELECT t.thread_id, {COLUMNS} FROM entries e CROSS JOIN threads t ON t.thread = e.thread "
        "WHERE e.seq IN (SELECT e.seq FROM threads t JOIN entries e ON e.thread = t.thread "
        "WHERE t.owner = ? AND e.seq > ? ORDER BY e.seq LIMIT ?) ORDER BY e.seq"
    )
    try:
        found = db.execute(query, (number, cap_bound(cursor), cap_count(limit))).fetchall()
    except sqlite3.DatabaseError as error:
        _require_damage(error)
        return _salvage_later(db, owner, number, cursor)[: cap_count(limit)]
    return add_thread_keys(
        owner, found, lambda columns, _: read_row(columns), partial(_name_later, owner)
    )


def _salvage_later(
    db: sqlite3.Connection, owner: Owner, number: int | None, cursor: int
) -> list[tuple[ThreadKey, Row]]:
    with read_leniently(db):
        query = "SELECT thread, thread_id FROM threads {} WHERE owner = ?"
        threads = read_first(db, (query.format(""), query.format("NOT INDEXED")), (number,))
    found = [
        (ThreadKey(owner.user_id, _name_later(owner, name)), row)
        for thread, name in threads
        for row in _salvage(db, thread, cursor, None)
    ]
    return sorted(found, key=lambda pair: pair[1].position)


def _name_later(owner: Owner, name: object) -> str:
    """Return a thread's id; where it is damaged, one that its rows were not signed with."""
    if isinstance(name, str) and name:
        return name
    return owner.thread_id or _DAMAGED_THREAD


# -- what is damaged ----------------------------------------------------------------------------

_ROW_DAMAGES = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_NOTADB})


def is_damage(error: sqlite3.DatabaseError) -> bool:
    """Return whether SQLite could not read what is stored, while other rows may be readable."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    return code in _ROW_DAMAGES or is_garbled(error)


def read_first(
    db: sqlite3.Connection, queries: Sequence[str], values: Sequence[object]
) -> list[Any]:
    """Return the rows of the first of some queries that hits no damage; the last one may raise."""
    for query in queries[:-1]:
        try:
            return db.execute(query, values).fetchall()
        except sqlite3.DatabaseError as error:
            _require_damage(error)
    return db.execute(queries[-1], values).fetchall()


def _require_damage(error: sqlite3.DatabaseError) -> None:
    if not is_damage(error):
        raise error


@contextmanager
def read_leniently(db: sqlite3.Connection) -> Iterator[None]:
    """Read text that is no Unicode as `Garbled` within the block, instead of raising."""
    before = db.text_factory
    db.text_factory = decode_leniently
    try:
        yield
    finally:
        db.text_factory = before


def _salvage(
    db: sqlite3.Connection, thread: int | None, after: int, until: int | None
) -> list[Row]:
    """Return a thread's rows of a range, read one by one; each is whole, or says what is wrong."""
    with read_leniently(db):
        positions = _list_positions(db, thread, after, until)
        return [read_one(db, position) for position in positions]


def read_one(db: sqlite3.Connection, position: int) -> Row:
    """Return the row at a position that an index knows of."""
    query = f"SELECT {COLUMNS} FROM entries e NOT INDEXED WHERE e.seq = ?"
    try:
        columns = db.execute(query, (position,)).fetchone()
    except sqlite3.DatabaseError as error:
        _require_damage(error)
        columns = None
    return make_unreadable_row(position) if columns is None else read_row(columns)


def _list_positions(
    db: sqlite3.Connection, thread: int | None, after: int, until: int | None
) -> list[int]:
    """Return a thread's positions of a range: as an index has them, or else the table itself."""
    bounds = thread, cap_bound(after), cap_bound(until)
    where = "WHERE e.thread = ? AND e.seq > ? AND e.seq <= ? ORDER BY e.seq"
    for source in ("INDEXED BY entries_by_thread", "NOT INDEXED"):
        found: list[int] = []
        try:
            found += map(
                itemgetter(0), db.execute(f"SELECT seq FROM entries e {source} {where}", bounds)
            )
        except sqlite3.DatabaseError as error:
            _require_damage(error)
        else:
            return found
    return found


# -- the chain ----------------------------------------------------------------------------------


def link_rows(
    db: sqlite3.Connection,
    key: ThreadKey,
    rows: Sequence[Row],
    signer: Signer,
    *,
    head: bytes | None,
) -> list[Row]:
    """Return a thread's rows with a gap before each that does not follow the one before.

    Args:
        db: Inside the transaction that read them.
        key: The thread.
        rows: Ascending, with none left out between them, and with their `damage`.
        signer: That of the log.
        head: The checksum before the first row; None where it is not known.
    """
    if head is None and not rows[1:]:  # nothing to compare with
        return list(rows)
    if is_linked([row.signature for row in rows], head) or not find_breaks(rows, after=head):
        return list(rows)
    first = 0 if head is not None else rows[0].position
    until = rows[-1].position
    thread = find_thread(db, key)
    tombstones = read_tombstones(db, key, thread, signer, after=first, until=until)
    breaks = find_breaks(rows, tombstones, after=head)
    if not breaks:
        return list(rows)
    known = {row.position for row in rows}
    taken = sorted(known.union(one.position for one in tombstones))
    found = list(rows)
    for position in breaks:
        before = max((one for one in taken if one < position), default=0)
        lost = _find_lost_rows(db, thread, before, position - 1)
        if lost:
            found += lost
        elif before < position - 1:
            found.append(make_gap_row(position - 1))
    return sorted(found, key=attrgetter("position"))


def _find_lost_rows(
    db: sqlite3.Connection, thread: int | None, after: int, until: int
) -> list[Row]:
    """Return rows of a thread that the table holds, and its index does not know of."""
    query = "SELECT seq FROM entries NOT INDEXED WHERE seq > ? AND seq <= ? AND thread = ?"
    try:
        found = db.execute(query, (after, until, thread)).fetchall()
    except sqlite3.DatabaseError as error:
        _require_damage(error)
        return []
    with read_leniently(db):
        return [read_one(db, position) for (position,) in found]


def decode_noted(key: ThreadKey, row: Row) -> Entry:
    """Return the entry of a row whose damage was noted."""
    return build_damaged_entry(key, row, row.damage) if row.damage else decode_entry(key, row)


# -- decoded entries ----------------------------------------------------------------------------


class _Decoded(NamedTuple):
    """An entry that was decoded, and what of."""

    key: ThreadKey
    columns: Sequence[Any]
    entry: Entry
    before: int | None
    """Position of the row that it is known to follow: 0 at the thread's start, None if unknown."""


class DecodedEntries:
    """Entries that were decoded lately: a thread is read at every turn, and hardly changes.

    Rows that changed are decoded anew. Thread-safe. Who gets entries shares them with others, and
    must not change them.
    """

    def __init__(self, most: int = _DECODED_AT_MOST, *, signer: Signer | None = None) -> None:
        """Keep at most about so many; those that were decoded first go first."""
        self._most = most
        self._signer = signer or Signer()
        # Single operations on a dict need no lock, which a fork could leave held.
        self._kept: dict[int, _Decoded] = {}
        self._epoch: int | None = None

    def clear(self) -> None:
        """Let go of all."""
        self._kept = {}

    def begin(self, epoch: int) -> None:
        """Let go of all if an entry was erased: what another process forgot must not stay here.

        Args:
            epoch: Number of the file's last `forget`.
        """
        if epoch != self._epoch:
            self.clear()
            self._epoch = epoch

    def read_stretch(
        self,
        db: sqlite3.Connection,
        key: ThreadKey,
        thread: int | None,
        *,
        after: int,
        until: int | None,
    ) -> list[Entry]:
        """Return all entries of a thread from one position to another, ascending, and gaps between.

        Args:
            db: Inside a transaction; call `begin` first, with its epoch.
            key: The thread.
            thread: Its number.
            after: Position before the first one.
            until: Position of the last one; None for all.
        """
        head = START if after <= 0 else None
        try:
            found = db.execute(SQL.stretch, (thread, cap_bound(after), cap_bound(until))).fetchall()
        except sqlite3.DatabaseError as error:
            _require_damage(error)
            rows = _salvage(db, thread, after, until)
        else:
            start = 0 if after <= 0 else None
            known = self._recall(key, found, start)
            if known is not None:
                return known
            if is_linked([columns[-1] for columns in found], head):
                return self._decode(key, found, start)
            rows = [read_row(columns) for columns in found]
        rows = link_rows(db, key, note_damage(self._signer, key, rows), self._signer, head=head)
        return [decode_noted(key, row) for row in rows]

    def _recall(
        self, key: ThreadKey, found: Iterable[Sequence[Any]], before: int | None
    ) -> list[Entry] | None:
        """Return the entries of rows if each is known, and to follow the one before."""
        kept = self._kept
        entries = []
        for columns in found:
            known = kept.get(columns[0])
            if known is None or known[1] != columns:
                return None
            its_key, _, entry, its_before = known
            if (its_key is not key and its_key != key) or before not in (None, its_before):
                return None
            key = its_key  # the next ones are compared faster with the same object
            entries.append(entry)
            before = columns[0]
        return entries

    def _decode(
        self, key: ThreadKey, found: Iterable[Sequence[Any]], before: int | None
    ) -> list[Entry]:
        """Return the entries of rows that follow each other, and keep what is new."""
        entries = []
        for columns in found:
            known = self._find(key, columns)
            entry = (
                decode_entry(key, read_row(columns), self._signer) if known is None else known.entry
            )
            if not entry.damage and len(columns[4]) <= _DECODED_BODY_CHARS:
                self._kept[columns[0]] = _Decoded(key, columns, entry, before)
                self._make_room()
            before = columns[0]
            entries.append(entry)
        return entries

    def _find(self, key: ThreadKey, columns: Sequence[Any]) -> _Decoded | None:
        known = self._kept.get(columns[0])
        if known is None or known.columns != columns:
            return None
        return known if known.key is key or known.key == key else None

    def _make_room(self) -> None:
        kept = self._kept
        if len(kept) > self._most:
            for position in list(kept)[: self._most // 4]:
                kept.pop(position, None)
