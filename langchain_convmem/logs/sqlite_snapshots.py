"""Snapshots of recall's indexes in the file of a SQLite log.

A snapshot is written in pieces, each in a transaction of its own, so that nobody waits long for
the file; before them stands a header, which the last transaction makes valid. A snapshot goes with
whatever is forgotten of its owner, by a trigger of the schema. One that is unfinished, damaged or
of another generation counts as none.
"""

from __future__ import annotations

import hmac
import json
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from langchain_convmem.logs.signatures import Signer
from langchain_convmem.logs.sqlite_file import is_garbled
from langchain_convmem.records import Owner

if TYPE_CHECKING:
    from langchain_convmem.columns import Buffer

    Write: TypeAlias = Callable[[], AbstractContextManager[sqlite3.Connection]]

_PIECE_BYTES = 1 << 20
_ID_BITS = 62
_HEADER = 0
_DELETED_AT_ONCE = 2
"""A header, and a piece: as much as is written at once."""


class SnapshotName(NamedTuple):
    """Whose snapshot, made how, and when.

    Attributes:
        owner: The owner.
        number: And its number in the file.
        name: See `IndexSnapshots.load_snapshot`.
        generation: The owner's, as the file has it.
    """

    owner: Owner
    number: int
    name: str
    generation: int


def read_snapshot(
    db: sqlite3.Connection, name: SnapshotName, signer: Signer
) -> dict[str, memoryview] | None:
    """Return the parts of a snapshot; None if there is none, or none that is sound."""
    try:
        headers = db.execute(
            "SELECT snapshot, data FROM snapshots WHERE owner = ? AND piece = ?",
            (name.number, _HEADER),
        ).fetchall()
        for snapshot, data in headers:
            header = json.loads(data)
            made = header["name"], header["generation"]
            if header["checksum"] and made == (name.name, name.generation):
                return _read_parts(db, name, snapshot, header, signer)
    except (sqlite3.DatabaseError, ValueError, TypeError, KeyError) as error:
        if isinstance(error, sqlite3.DatabaseError) and not is_garbled(error):
            raise
    return None


def _read_parts(
    db: sqlite3.Connection, name: SnapshotName, snapshot: int, header: Any, signer: Signer
) -> dict[str, memoryview] | None:
    pieces = db.execute(
        "SELECT data FROM snapshots WHERE owner = ? AND snapshot = ? AND piece > ? ORDER BY piece",
        (name.number, snapshot, _HEADER),
    )
    parts = _join_pieces(header["parts"], (data for (data,) in pieces))
    return parts if hmac.compare_digest(_sign(name, parts, signer), header["checksum"]) else None


def _sign(name: SnapshotName, parts: Mapping[str, Buffer], signer: Signer) -> str:
    return signer.sign_snapshot(name.owner, name.name, name.generation, parts).hex()


def write_snapshot(
    write: Write,
    find_name: Callable[[sqlite3.Connection], SnapshotName | None],
    parts: Mapping[str, Buffer],
    signer: Signer,
) -> bool:
    """Write a snapshot, and delete what else there is of its owner.

    Args:
        write: Begins a transaction.
        find_name: Returns what the snapshot is called, None if it holds no more; asked in the first
            transaction and in the last.
        parts: The snapshot.
        signer: Signs it.

    Returns:
        Whether it was written.
    """
    draft = _Draft(secrets.randbits(_ID_BITS), find_name, parts, signer)
    pieces = enumerate(_cut(parts), _HEADER + 1)
    before_last = sum(map(len, parts.values())) // _PIECE_BYTES
    if before_last:
        with write() as db:
            if not draft.begin(db):
                return False
        draft.sign()  # not while others wait for the file: of a large one it takes long
    for number, data in islice(pieces, before_last):
        with write() as db:
            if not draft.add(db, number, data):
                return False
    with write() as db:
        if not before_last and not draft.begin(db):
            return False
        if not draft.add(db, *next(pieces)) or not draft.finish(db):
            return False
        has_more = draft.delete_others(db)
    while has_more:
        with write() as db:
            has_more = draft.delete_others(db)
    return True


class _Draft:
    """A snapshot that is being written."""

    def __init__(
        self,
        snapshot: int,
        find_name: Callable[[sqlite3.Connection], SnapshotName | None],
        parts: Mapping[str, Buffer],
        signer: Signer,
    ) -> None:
        self._snapshot = snapshot
        self._find_name = find_name
        self._parts = parts
        self._signer = signer
        self._name: SnapshotName | None = None
        self._checksum: str | None = None

    @property
    def _key(self) -> tuple[int, int]:
        return (-1 if self._name is None else self._name.number), self._snapshot

    def begin(self, db: sqlite3.Connection) -> bool:
        """Write a header that is not valid yet; return whether there is anything to write."""
        self._name = self._find_name(db)
        if self._name is None:
            return False
        self._put(db, _HEADER, self._encode_header(self._name, None))
        return True

    def add(self, db: sqlite3.Connection, number: int, data: bytes) -> bool:
        """Write a piece; return False if the header is gone: forgotten, or another was faster."""
        query = "SELECT 1 FROM snapshots WHERE owner = ? AND snapshot = ? AND piece = ?"
        if db.execute(query, (*self._key, _HEADER)).fetchone() is None:
            return False
        self._put(db, number, data)
        return True

    def sign(self) -> None:
        """Compute the checksum of what was begun; `finish` does otherwise."""
        if self._name is not None:
            self._checksum = _sign(self._name, self._parts, self._signer)

    def finish(self, db: sqlite3.Connection) -> bool:
        """Make the header valid if the snapshot still holds; return whether it does."""
        name = self._find_name(db)
        if name is None or name != self._name:
            return False
        if self._checksum is None:
            self.sign()
        self._put(db, _HEADER, self._encode_header(name, self._checksum))
        return True

    def delete_others(self, db: sqlite3.Connection) -> bool:
        """Delete some of what else there is of the owner; return whether there is more."""
        gone = db.execute(
            "DELETE FROM snapshots WHERE (owner, snapshot, piece) IN ("
            "SELECT owner, snapshot, piece FROM snapshots WHERE owner = ? AND snapshot != ? "
            "ORDER BY snapshot, piece LIMIT ?)",
            (*self._key, _DELETED_AT_ONCE),
        ).rowcount
        query = "SELECT 1 FROM snapshots WHERE owner = ? AND snapshot != ?"
        return gone > 0 and db.execute(query, self._key).fetchone() is not None

    def _put(self, db: sqlite3.Connection, number: int, data: bytes) -> None:
        query = "INSERT OR REPLACE INTO snapshots(owner, snapshot, piece, data) VALUES (?, ?, ?, ?)"
        db.execute(query, (*self._key, number, data))

    def _encode_header(self, name: SnapshotName, checksum: str | None) -> bytes:
        header = {
            "name": name.name,
            "generation": name.generation,
            "parts": [[part, len(data)] for part, data in self._parts.items()],
            "checksum": checksum,
        }
        return json.dumps(header).encode("ascii")


def delete_snapshots(db: sqlite3.Connection, owner: int | None) -> None:
    """Delete all of an owner's snapshots."""
    db.execute("DELETE FROM snapshots WHERE owner = ?", (owner,))


# -- pieces --------------------------------------------------------------------------------------


def _cut(parts: Mapping[str, Buffer]) -> Iterator[bytes]:
    """Yield all parts, one after another, in pieces: the last is shorter, and may be empty."""
    waiting: list[memoryview] = []
    size = 0
    for data in parts.values():
        rest = memoryview(data)
        while size + len(rest) >= _PIECE_BYTES:
            room = _PIECE_BYTES - size
            yield b"".join([*waiting, rest[:room]])
            waiting, size, rest = [], 0, rest[room:]
        waiting.append(rest)
        size += len(rest)
    yield b"".join(waiting)


def _join_pieces(listed: list[tuple[str, int]], pieces: Iterator[bytes]) -> dict[str, memoryview]:
    """Return the parts that pieces were cut from.

    Raises:
        ValueError: If the pieces are not as long together.
    """
    first, *others = islice(pieces, 2)
    if others and others[0]:
        return _copy_pieces(listed, chain([first, *others], pieces))
    whole, place = memoryview(first), 0
    parts: dict[str, memoryview] = {}
    for name, size in listed:
        parts[name] = whole[place : place + size]
        place += size
    if place != len(first):
        raise ValueError(f"the piece of a snapshot has {len(first)} bytes, its parts have {place}")
    return parts


def _copy_pieces(listed: list[tuple[str, int]], pieces: Iterable[bytes]) -> dict[str, memoryview]:
    """Return parts with memory of their own, into which pieces are copied one by one.

    Of what is read of a large snapshot nothing stays behind.

    Raises:
        ValueError: If the pieces are not as long together.
    """
    import numpy as np  # which no log needs otherwise

    # Not `bytearray`, which would fill them with zeros first.
    parts = {name: np.empty(size, dtype=np.uint8).data for name, size in listed}
    places = iter([part for part in parts.values() if part])
    place = next(places, memoryview(b""))
    for piece in pieces:
        rest = memoryview(piece)
        while rest:
            if not place:
                raise ValueError("the pieces of a snapshot are longer than its parts")
            count = min(len(rest), len(place))
            place[:count] = rest[:count]
            rest, place = rest[count:], place[count:] or next(places, memoryview(b""))
    if place:
        raise ValueError("the pieces of a snapshot are shorter than its parts")
    return parts
