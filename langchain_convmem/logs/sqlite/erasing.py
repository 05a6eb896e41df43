"""What `forget` does inside one SQLite transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence

from langchain_convmem.logs.rows import key_hash, message_id_of
from langchain_convmem.logs.sqlite.reading import position_of
from langchain_convmem.protocols import CACHE_PREFIX
from langchain_convmem.records import ForgetReceipt

__all__ = ["drop_empty_owner", "erase_entries", "erase_threads", "raise_epoch", "threads_of"]


def raise_epoch(db: sqlite3.Connection, owner: int | None) -> None:
    """Give the owner a generation that no earlier reader has seen."""
    db.execute("UPDATE meta SET forget_epoch = forget_epoch + 1")
    db.execute(
        "UPDATE owners SET generation = (SELECT forget_epoch FROM meta) WHERE owner = ?", (owner,)
    )


def threads_of(db: sqlite3.Connection, owner: int | None) -> list[int]:
    """Return the numbers of an owner's threads."""
    found = db.execute("SELECT thread FROM threads WHERE owner = ?", (owner,))
    return [thread for (thread,) in found]


def erase_threads(db: sqlite3.Connection, threads: Sequence[int]) -> ForgetReceipt:
    """Delete whole threads with all that belongs to them; return the counts."""
    entries = segments = documents = 0
    for thread in threads:
        entries += _count(db, "entries WHERE thread = ?", thread)
        documents += _count(db, "documents WHERE thread = ?", thread)
        segments += _count(db, "segments s JOIN entries e USING (seq) WHERE e.thread = ?", thread)
        db.execute("DELETE FROM threads WHERE thread = ?", (thread,))
    return ForgetReceipt(entries, len(threads), segments, documents)


def erase_entries(
    db: sqlite3.Connection, thread: int | None, ids: Collection[str]
) -> ForgetReceipt:
    """Delete entries by entry id or message id, every version of a message; return the counts.

    The thread's caches go too: they may tell of what was said.
    """
    seqs: set[int] = set()
    for wanted in ids:
        found = db.execute(
            "SELECT seq, body FROM entries WHERE thread = ? AND key_hash = ?",
            (thread, key_hash(wanted)),
        )
        seqs.update(seq for seq, body in found if message_id_of("", body) == wanted)
        position = position_of(db, thread, wanted)
        if position is not None:
            seqs.add(position)
    segments = sum(_count(db, "segments WHERE seq = ?", seq) for seq in seqs)
    db.executemany("DELETE FROM entries WHERE seq = ?", [(seq,) for seq in seqs])
    caches = db.execute(
        "DELETE FROM documents WHERE thread = ? AND substr(name, 1, ?) = ?",
        (thread, len(CACHE_PREFIX), CACHE_PREFIX),
    )
    return ForgetReceipt(entries=len(seqs), segments=segments, documents=caches.rowcount)


def drop_empty_owner(db: sqlite3.Connection, owner: int | None) -> None:
    """Delete an owner without threads: not even the name stays."""
    db.execute(
        "DELETE FROM owners WHERE owner = ? "
        "AND NOT EXISTS (SELECT 1 FROM threads t WHERE t.owner = owners.owner)",
        (owner,),
    )


def _count(db: sqlite3.Connection, of: str, value: int) -> int:
    return int(db.execute(f"SELECT count(*) FROM {of}", (value,)).fetchone()[0])
