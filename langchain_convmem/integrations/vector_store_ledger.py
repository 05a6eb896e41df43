"""What a vector store was given, noted in the log's own state documents.

A store cannot be asked what it holds of an owner, and the log does not tell what it has forgotten;
so each entry is noted before its documents are written. A note holds ids and no text. They stand
beside a thread of no user, which no `forget` of the owner deletes, since they are needed after it.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_convmem.integrations.vector_store_rows import Row, owner_label
from langchain_convmem.protocols import ThreadState
from langchain_convmem.records import Owner, ThreadKey
from langchain_convmem.steps import Steps, step

__all__ = ["CHUNK", "Head", "Ledger"]

CHUNK = 128
"""Rows of one state document; some 10 KB of JSON, which every log keeps in one item."""

_HEAD = "head"


@dataclass(frozen=True, slots=True)
class Head:
    """How far a store has followed the log of one owner.

    Attributes:
        cursor: Up to where the log was read.
        generation: Of the log then; None before the first time.
        fingerprint: Of the embedder and the cut that the store's vectors were made with.
        epoch: Names the chunks; another one whenever everything was compared anew.
        firsts: The first position of each chunk, ascending.
        holder: Who writes to the store; empty if nobody does.
        until_ms: When others may take over from a holder who is not heard of any more.
        version: Of the document; None if there is none.
    """

    cursor: int = 0
    generation: int | None = None
    fingerprint: str = ""
    epoch: str = ""
    firsts: tuple[int, ...] = field(default=())
    holder: str = ""
    until_ms: int = 0
    version: int | None = None

    def chunk_of(self, position: int) -> int:
        """Return the number of the chunk where a position is noted, if it is."""
        return bisect_right(self.firsts, position) - 1

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "cursor": self.cursor,
            "generation": self.generation,
            "fingerprint": self.fingerprint,
            "epoch": self.epoch,
            "firsts": [*self.firsts],
            "holder": self.holder,
            "until_ms": self.until_ms,
        }


class Ledger:
    """The notes about one owner in one store. Stateless: everything is read when asked for."""

    def __init__(self, state: ThreadState, owner: Owner, name: str) -> None:
        """Name the ledger of `owner` for the store called `name`; nothing is read yet."""
        digest = hashlib.sha256(f"{name}\n{owner_label(owner)}".encode()).hexdigest()
        self._state = state
        self._key = ThreadKey(None, f"convmem-vector-store:{digest}")

    # -- head --------------------------------------------------------------------------------

    def head(self) -> Steps[Head]:
        """Return the head; an empty one before the first time."""
        found = yield step(self._state, "get_state", self._key, _HEAD)
        if found is None:
            return Head()
        fields = {**found.value, "firsts": tuple(found.value["firsts"])}
        return Head(**fields, version=found.version)

    def commit(self, head: Head) -> Steps[Head | None]:
        """Write a head over the version it was read as; None if another process was faster."""
        written = yield step(
            self._state, "set_state", self._key, _HEAD, head.to_json(), expected=head.version
        )
        return None if written is None else replace(head, version=written.version)

    # -- chunks ------------------------------------------------------------------------------

    def chunk(self, head: Head, number: int) -> Steps[list[Row]]:
        """Return the rows of a chunk by ascending position; none outside the ledger."""
        if number < 0:
            return []
        rows, _ = yield from self._read(_name(head.epoch, number))
        return rows

    def _read(self, name: str) -> Steps[tuple[list[Row], int | None]]:
        found = yield step(self._state, "get_state", self._key, name)
        if found is None:
            return [], None
        return [Row.from_json(value) for value in found.value], found.version

    def _write(self, name: str, rows: Sequence[Row], version: int | None) -> Steps[bool]:
        value = [row.to_json() for row in rows]
        written = yield step(self._state, "set_state", self._key, name, value, expected=version)
        return written is not None

    def append(self, head: Head, rows: Sequence[Row]) -> Steps[tuple[Head, list[Row]]]:
        """Note rows behind those that are there; return the head to commit and them as noted.

        Rows that are noted already, by an attempt that did not end, stay as they are.
        """
        number = max(len(head.firsts) - 1, 0)
        firsts = list(head.firsts)
        noted: list[Row] = []
        left = list(rows)
        while left:
            taken, first = yield from self._fill(_name(head.epoch, number), left)
            noted += taken
            left = left[len(taken) :]
            if number == len(firsts):
                firsts.append(first)
            number += 1
        return replace(head, firsts=tuple(firsts)), noted

    def _fill(self, name: str, rows: Sequence[Row]) -> Steps[tuple[list[Row], int]]:
        """Note what a chunk has room for; return those rows as noted, and its first position."""
        while True:
            there, version = yield from self._read(name)
            known = {row.entry_id: row for row in there}
            taken: list[Row] = []
            fresh: list[Row] = []
            for row in rows:
                if row.entry_id not in known:
                    if len(there) + len(fresh) >= CHUNK:
                        break
                    fresh.append(row)
                taken.append(known.get(row.entry_id, row))
            whole = [*there, *fresh]
            done = not fresh or (yield from self._write(name, whole, version))
            if done:
                return taken, whole[0].position

    def retract(self, head: Head, entry_ids: Collection[str]) -> Steps[list[Row]]:
        """Note that entries are retracted; return their rows, those noted before included."""
        wanted = set(entry_ids)
        found: list[Row] = []
        # What is retracted was mostly said a moment ago.
        for number in reversed(range(len(head.firsts))):
            if not wanted:
                break
            rows = yield from self._retract_in(_name(head.epoch, number), wanted)
            found += rows
            wanted -= {row.entry_id for row in rows}
        return found

    def _retract_in(self, name: str, entry_ids: set[str]) -> Steps[list[Row]]:
        while True:
            there, version = yield from self._read(name)
            found = [row.retracted() for row in there if row.entry_id in entry_ids]
            live = any(row.is_live and row.entry_id in entry_ids for row in there)
            new = [row.retracted() if row.entry_id in entry_ids else row for row in there]
            if not live or (yield from self._write(name, new, version)):
                return found

    # -- comparing anew ----------------------------------------------------------------------

    def rewrite(self, head: Head, rows: Sequence[Row]) -> Steps[Head]:
        """Write rows as the next chunk of a head of a new epoch."""
        yield from self._write(_name(head.epoch, len(head.firsts)), rows, None)
        return replace(head, firsts=(*head.firsts, rows[0].position))

    def drop(self, head: Head) -> Steps[None]:
        """Delete the chunks of a head's epoch."""
        number = 0
        while (yield from self.chunk(head, number)):
            yield step(self._state, "delete_state", self._key, _name(head.epoch, number))
            number += 1


def _name(epoch: str, number: int) -> str:
    return f"rows:{epoch}:{number}"
