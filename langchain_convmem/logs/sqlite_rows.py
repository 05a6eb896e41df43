"""Rows of a SQLite log: read at once where the file is sound, and one by one where it is not.

What SQLite cannot read takes nothing else down: a row on a damaged page, or with text that is no
Unicode, becomes a `Row` that says so.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from langchain_convmem.logs.base import (
    Row,
    cap_bound,
    cap_count,
    decode_entry,
    hash_message_id,
    read_message_id,
)
from langchain_convmem.logs.signatures import Signer
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


# -- decoded entries ----------------------------------------------------------------------------


class _Decoded(NamedTuple):
    """An entry that was decoded, and what of."""

    key: ThreadKey
    columns: Sequence[Any]
    entry: Entry


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
        """Return all entries of a thread from one position to another, ascending.

        Args:
            db: Inside a transaction; call `begin` first, with its epoch.
            key: The thread.
            thread: Its number.
            after: Position before the first one.
            until: Position of the last one; None for all.
        """
        try:
            found = db.execute(SQL.stretch, (thread, cap_bound(after), cap_bound(until))).fetchall()
        except sqlite3.DatabaseError as error:
            _require_damage(error)
            rows = _salvage(db, thread, after, until)
            return [decode_entry(key, row, self._signer) for row in rows]
        return [self._decode(key, columns) for columns in found]

    def _decode(self, key: ThreadKey, columns: Sequence[Any]) -> Entry:
        """Return the entry of a row, and keep it if it is new."""
        position, body = columns[0], columns[4]
        known = self._kept.get(position)
        if known is not None:
            its_key, its_columns, entry = known
            if its_columns == columns and (its_key is key or its_key == key):
                return entry
        entry = decode_entry(key, read_row(columns), self._signer)
        if not entry.damage and len(body) <= _DECODED_BODY_CHARS:
            self._kept[position] = _Decoded(key, columns, entry)
            self._make_room()
        return entry

    def _make_room(self) -> None:
        kept = self._kept
        if len(kept) > self._most:
            for position in list(kept)[: self._most // 4]:
                kept.pop(position, None)
