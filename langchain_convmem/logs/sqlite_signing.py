"""The chains of a SQLite log: kept whole where rows are erased, and made where there is none yet.

Whoever signs trusts what is there. So a row that is damaged is left as it is, and a gap stays a
gap.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

from langchain_convmem.errors import ConfigError, ConvMemError
from langchain_convmem.logs.base import Row, decode_entry
from langchain_convmem.logs.signatures import (
    START,
    Signer,
    ThreadHead,
    Tombstone,
    get_head,
)
from langchain_convmem.logs.sqlite_file import SQLiteConnections, check_version
from langchain_convmem.logs.sqlite_maintenance import list_links, read_heads
from langchain_convmem.logs.sqlite_rows import read_key, read_leniently, read_one
from langchain_convmem.records import ThreadKey

Heads: TypeAlias = Sequence[ThreadHead] | str | os.PathLike[str]
"""Heads, or the path of a file that holds them: JSON of ours, or another log."""

_MARK = "heads"

# -- erasing ------------------------------------------------------------------------------------


def bury(
    db: sqlite3.Connection, key: ThreadKey, thread: int | None, row: Row, signer: Signer
) -> None:
    """Delete a row; its tombstone keeps the chain of its thread whole.

    Args:
        db: Inside a write transaction.
        key: The thread.
        thread: Its number.
        row: With its `damage`; that of a damaged one follows from the rows beside it.
        signer: That of the log.
    """
    stone = signer.bury(key, row.position, row.signature)
    if row.damage:
        stone = _make_bridge(db, key, thread, row.position, signer)
    if stone is not None:
        _keep_tombstone(db, thread, stone)
    db.execute("DELETE FROM entries WHERE seq = ?", (row.position,))


def bridge_gap(
    db: sqlite3.Connection, key: ThreadKey, thread: int | None, position: int, signer: Signer
) -> None:
    """Leave a tombstone for rows that are missing, so that the chain is whole without them."""
    found = db.execute("SELECT 1 FROM entries WHERE seq = ?", (position,)).fetchone()
    if thread is not None and found is None:
        _keep_tombstone(db, thread, _make_bridge(db, key, thread, position, signer))


def _keep_tombstone(db: sqlite3.Connection, thread: int | None, stone: Tombstone) -> None:
    db.execute("INSERT OR REPLACE INTO tombstones VALUES (?, ?, ?, ?, ?)", (thread, *stone))


def _make_bridge(
    db: sqlite3.Connection, key: ThreadKey, thread: int | None, position: int, signer: Signer
) -> Tombstone:
    """Return the tombstone that joins what stands before a position with what stands after it."""
    head, following = START, None
    links = () if thread is None else list_links(db, thread, key, signer)
    for at, previous, checksum, _ in links:
        if at < position:
            head = checksum or START
        elif at > position:
            following = previous or START
            break
    return signer.make_tombstone(key, position, head, head if following is None else following)


# -- signing ------------------------------------------------------------------------------------


def sign_unsigned(connections: SQLiteConnections, signer: Signer) -> None:
    """Sign what older releases wrote, one transaction a thread; see `SQLiteLog.verify`."""
    with connections.read() as db:
        threads = db.execute(
            "SELECT DISTINCT e.thread FROM entries e WHERE e.signature = x'' "
            "AND e.seq <= (SELECT unsigned FROM meta)"
        ).fetchall()
    for (thread,) in threads:
        with connections.write() as db:
            _sign_thread(db, thread, signer, signer)
    with connections.write() as db:
        _sign_documents(db, signer, signer)
        db.execute(
            "UPDATE meta SET unsigned = coalesce((SELECT max(seq) FROM entries "
            "WHERE signature = x'' AND seq <= unsigned), 0)"
        )


def sign_anew(connections: SQLiteConnections, old: Signer, new: Signer) -> None:
    """Sign everything with another key, in one transaction; see `SQLiteLog.verify`."""
    with connections.write() as db:
        for (thread,) in db.execute("SELECT thread FROM threads").fetchall():
            _sign_thread(db, thread, old, new)
        _sign_documents(db, old, new)
        db.execute(
            "UPDATE meta SET key_id = ?, unsigned = coalesce((SELECT max(seq) FROM entries "
            "WHERE signature = x'' AND seq <= unsigned), 0)",
            (new.key_id or None,),
        )


def _sign_thread(db: sqlite3.Connection, thread: int, old: Signer, new: Signer) -> None:
    """Sign the sound rows of a thread that need it, and chain what follows them."""
    key = _read_key(db, thread)
    if key is None:
        return
    links = list(list_links(db, thread, key, old))
    stood = head = START  # the head as it was, and as it is now
    for position, previous, checksum, is_erased in links:
        is_joined = previous is None or previous == stood
        before = head if is_joined else previous or START
        if is_erased:
            stood = head = checksum or START
            if old is not new or before != previous:
                _keep_tombstone(db, thread, new.make_tombstone(key, position, before, head))
            continue
        with read_leniently(db):
            row = read_one(db, position)
        stood = head = get_head(row.signature)
        if not _may_sign(old, key, row):
            continue
        if old is not new or row.signature is None or before != previous:
            signature = new.sign(key, row, before)
            db.execute("UPDATE entries SET signature = ? WHERE seq = ?", (signature, position))
            head = get_head(signature)


def _may_sign(signer: Signer, key: ThreadKey, row: Row) -> bool:
    if row.signature is not None:
        return not signer.find_damage(key, row)
    is_old = signer.unsigned_until is None or row.position <= signer.unsigned_until
    return is_old and not decode_entry(key, row).damage


def _sign_documents(db: sqlite3.Connection, old: Signer, new: Signer) -> None:
    found = db.execute(
        "SELECT thread, name, version, CAST(value AS BLOB), checksum FROM documents"
    ).fetchall()
    for thread, name, version, value, checksum in found:
        if checksum is not None and old is new:
            continue
        key, text = _read_key(db, thread), value.decode(errors="replace")
        if key is None:
            continue
        if checksum is None or old.is_document_sound(key, name, version, text, checksum):
            db.execute(
                "UPDATE documents SET checksum = ? WHERE thread = ? AND name = ?",
                (new.sign_document(key, name, version, text), thread, name),
            )


def _read_key(db: sqlite3.Connection, thread: int) -> ThreadKey | None:
    """Return a thread's key; None where its names are damaged."""
    with read_leniently(db):
        found = db.execute(
            "SELECT o.user_id, t.thread_id FROM threads t JOIN owners o ON o.owner = t.owner "
            "WHERE t.thread = ?",
            (thread,),
        ).fetchone()
    return None if found is None else read_key(*found)


# -- heads --------------------------------------------------------------------------------------


def dump_heads(heads: Sequence[ThreadHead]) -> str:
    """Return heads as the JSON text that `load_heads` reads."""
    rows = [
        {
            "user_id": head.user_id,
            "thread_id": head.thread_id,
            "position": head.position,
            "checksum": head.checksum,
        }
        for head in heads
    ]
    return json.dumps({"convmem": _MARK, "heads": rows}, indent=1)


def load_heads(source: Heads) -> Sequence[ThreadHead]:
    """Return heads that were held elsewhere.

    Args:
        source: The heads themselves, a file of `dump_heads`, or another log's file.

    Raises:
        ConfigError: If a file holds none.
    """
    if not isinstance(source, str | os.PathLike):
        return source
    path = Path(os.fspath(source))
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    if data.startswith(b"SQLite format 3\0"):
        return _read_heads_of_file(path)
    try:
        document = json.loads(data)
        rows = document["heads" if document["convmem"] == _MARK else ""]
        return [
            ThreadHead(row["user_id"], row["thread_id"], int(row["position"]), row["checksum"])
            for row in rows
        ]
    except (ValueError, TypeError, LookupError):
        msg = f"{path} holds no heads; expected what 'convmem verify --heads FILE' wrote, or a log"
        raise ConfigError(msg) from None


def _read_heads_of_file(path: Path) -> list[ThreadHead]:
    """Return the heads of a backup, whatever key signed it: its checksums are what counts."""
    try:
        with closing(open_read_only(path)) as db:
            return [head for _, head in read_heads(db, None)]
    except (sqlite3.DatabaseError, UnicodeDecodeError, ConvMemError) as error:
        raise ConfigError(f"{path} is no log that can be compared with: {error}") from error


def open_read_only(path: Path) -> sqlite3.Connection:
    """Open a log's file as it is, without migrating it; nobody may be writing to it.

    Raises:
        SchemaVersionError: If a newer release wrote the file, or another program did.
    """
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    try:
        check_version(db, path=str(path))
    except BaseException:
        db.close()
        raise
    return db
