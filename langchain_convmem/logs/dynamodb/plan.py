"""What an `append` has to write: which drafts are new, in which rows, at which positions. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from threading import Lock

from langchain_convmem.ids import new_ulid
from langchain_convmem.logs.dynamodb.keys import number_of, position_of
from langchain_convmem.logs.rows import (
    Row,
    entry_of,
    key_hash,
    message_id_of,
    own_id,
    replacement_control,
    same_payload,
)
from langchain_convmem.records import Draft, ThreadKey
from langchain_convmem.views.codec import encode_body
from langchain_convmem.views.live import retracted_ids

__all__ = ["Encoded", "KnownIds", "Plan", "hash_of", "planned"]

Encoded = tuple[Draft, str, str | None]
"""A draft with its body and metadata as JSON text."""

_MAX_KNOWN = 200_000


@dataclass(frozen=True, slots=True)
class Plan:
    """The outcome for a batch: one row for each draft, and those of them that are new.

    Attributes:
        rows: In the order of the drafts.
        fresh: New rows by position, control entries included; empty if all was there already.
    """

    rows: tuple[Row, ...]
    fresh: tuple[Row, ...]


def planned(encoded: Sequence[Encoded], stored: Sequence[Row], number: int) -> Plan:
    """Return what to write as batch `number` behind the rows that are stored.

    Args:
        encoded: The drafts.
        stored: The thread's rows; they may be left out if none has a message id of the drafts.
        number: The batch's number.
    """
    desk = _Desk(number)
    for row in stored:
        desk.note(row)
    rows = tuple(desk.put(*parts) for parts in encoded)
    return Plan(rows, tuple(desk.fresh))


@dataclass(slots=True)
class _Desk:
    """A thread's rows with new ones behind them, by message id."""

    number: int
    fresh: list[Row] = field(default_factory=list)
    versions: dict[str, list[Row]] = field(default_factory=dict)
    controls: list[Row] = field(default_factory=list)

    def note(self, row: Row) -> None:
        if row.role == "control":
            self.controls.append(row)
        else:
            self.versions.setdefault(message_id_of(row.id, row.body), []).append(row)

    def put(self, draft: Draft, body: str, metadata: str | None) -> Row:
        message_id = own_id(draft)
        before = None if message_id is None else self._live(message_id)
        if before is None:
            return self._insert(new_ulid(), draft, body, metadata, turn_id=draft.turn_id)
        if same_payload(before.body, body):
            return before
        mark_id, entry_id = new_ulid(), new_ulid()
        mark = replacement_control(before.id, entry_id)
        self._insert(mark_id, mark, encode_body(mark), None, turn_id=None)
        return self._insert(entry_id, draft, body, metadata, turn_id=before.turn_id)

    def _insert(
        self, entry_id: str, draft: Draft, body: str, metadata: str | None, *, turn_id: str | None
    ) -> Row:
        position = position_of(self.number, len(self.fresh))
        row = Row(entry_id, position, turn_id or entry_id, draft.role, body, metadata)
        self.fresh.append(row)
        self.note(row)
        return row

    def _live(self, message_id: str) -> Row | None:
        versions = self.versions.get(message_id, ())
        if not versions:
            return None
        key = ThreadKey(None, "-")  # controls are judged by their ids alone
        dead = retracted_ids([entry_of(key, row) for row in self.controls])
        return next((row for row in reversed(versions) if row.id not in dead), None)


# -- what is known of a thread ------------------------------------------------------------------


def hash_of(row: Row) -> int | None:
    """Return the hash of a row's message id; a control entry has none."""
    return None if row.role == "control" else key_hash(message_id_of(row.id, row.body))


class KnownIds:
    """Hashes of the message ids of threads read lately, so that an append need not read them.

    What it knows of a thread is complete up to a batch number. An id it does not know up to there
    is not in the thread; one it knows may have been forgotten since, and must be looked up.
    Thread-safe.
    """

    def __init__(self, *, limit: int = _MAX_KNOWN) -> None:
        """Keep at most about `limit` hashes, those of the threads used last."""
        self._limit = limit
        self._count = 0
        self._lock = Lock()
        self._threads: OrderedDict[ThreadKey, tuple[int, set[int]]] = OrderedDict()

    def up_to(self, key: ThreadKey) -> int | None:
        """Return the batch number up to which the thread is known, or None."""
        with self._lock:
            found = self._threads.get(key)
            return None if found is None else found[0]

    def rules_out(self, key: ThreadKey, hashes: Iterable[int], number: int) -> bool:
        """Return whether the thread is known up to batch `number` and has none of the hashes."""
        with self._lock:
            found = self._threads.get(key)
            return found is not None and found[0] >= number and found[1].isdisjoint(hashes)

    def learn(self, key: ThreadKey, rows: Iterable[Row], *, after: int | None, number: int) -> None:
        """Note the rows of a thread's batches up to `number`.

        Args:
            key: The thread.
            rows: All rows of its batches behind `after`; ascending by position.
            after: None if the rows begin with the thread; else a number. Where the thread is not
                known up to there, nothing is noted.
            number: Becomes the number up to which it is known, unless that is higher already.
        """
        known = self.up_to(key)
        if after is not None and (known is None or known < after):
            return
        # Hashing means parsing: what is known already is not worth it.
        fresh = [row for row in rows if known is None or number_of(row.position) > known]
        hashes = {found for found in map(hash_of, fresh) if found is not None}
        with self._lock:
            up_to, ids = self._threads.get(key, (0, set()))
            if up_to < (known or 0):
                return  # dropped meanwhile, and with it what was left out of `fresh`
            self._count -= len(ids)
            ids |= hashes
            self._count += len(ids)
            self._threads[key] = (max(number, up_to), ids)
            self._threads.move_to_end(key)
            while self._count > self._limit and len(self._threads) > 1:
                _, (_, dropped) = self._threads.popitem(last=False)
                self._count -= len(dropped)
