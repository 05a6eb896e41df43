"""Appending to a PostgreSQL log, and adding to an entry's metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_convmem.effects import Steps
from langchain_convmem.errors import LogError
from langchain_convmem.ids import is_ulid, new_ulid
from langchain_convmem.logs.postgres.owners import THREAD, made_owner, made_thread, thread_values
from langchain_convmem.logs.postgres.rows import COLUMNS, inserted, row_of, to_uuid
from langchain_convmem.logs.postgres.transactions import Transaction
from langchain_convmem.logs.rows import (
    Row,
    annotated,
    entry_of,
    key_hash,
    message_id_of,
    own_id,
    replacement_control,
    same_payload,
)
from langchain_convmem.records import Draft, Entry, ThreadKey
from langchain_convmem.views.codec import encode_body
from langchain_convmem.views.live import retracted_ids

__all__ = ["Batch", "annotate", "append"]

_KEY = ThreadKey(None, "-")
"""Stands in for the thread where controls are judged: by their ids alone."""


class Batch:
    """The rows that one append adds to a thread: numbered, and no message twice. No I/O."""

    def __init__(
        self, last_position: int, versions: Sequence[Row], controls: Sequence[Row]
    ) -> None:
        """Start a batch.

        Args:
            last_position: The owner's, before the batch.
            versions: Stored rows that share a message id with the batch, by position.
            controls: The thread's control entries, by position; needed only where there are
                versions.
        """
        self.last_position = last_position
        self.added: list[tuple[Any, ...]] = []
        self._versions: dict[str, list[Row]] = {}
        for row in versions:
            self._versions.setdefault(message_id_of(row.id, row.body), []).append(row)
        self._controls = [entry_of(_KEY, row) for row in controls]
        self._dead = retracted_ids(self._controls)

    def put(self, draft: Draft, body: str, metadata: str | None) -> Row:
        """Return the draft's row: the one that is there already, or a new one."""
        message_id = own_id(draft)
        before = None if message_id is None else self._live(message_id)
        if before is None:
            return self._add(Row(new_ulid(), 0, draft.turn_id or "", draft.role, body, metadata))
        if same_payload(before.body, body):
            return before
        mark_id, entry_id = new_ulid(), new_ulid()
        mark = replacement_control(before.id, entry_id)
        self._add(Row(mark_id, 0, "", mark.role, encode_body(mark), None))
        return self._add(Row(entry_id, 0, before.turn_id, draft.role, body, metadata))

    def _live(self, message_id: str) -> Row | None:
        versions = reversed(self._versions.get(message_id, ()))
        return next((row for row in versions if row.id not in self._dead), None)

    def _add(self, unplaced: Row) -> Row:
        self.last_position += 1
        turn_id = unplaced.turn_id or unplaced.id
        row = replace(unplaced, position=self.last_position, turn_id=turn_id)
        message_id = message_id_of(row.id, row.body)
        self.added.append(inserted(row, message_id))
        if row.role == "control":
            self._controls.append(entry_of(_KEY, row))
            self._dead = retracted_ids(self._controls)
        else:
            self._versions.setdefault(message_id, []).append(row)
        return row


def append(
    tx: Transaction, key: ThreadKey, encoded: Sequence[tuple[Draft, str, str | None]]
) -> Steps[list[Entry]]:
    """Append drafts with their body and metadata texts, in order."""
    owner = yield from made_owner(tx, key.owner)
    thread = yield from made_thread(tx, owner, key.thread_id)
    message_ids = [own for own in (own_id(draft) for draft, _, _ in encoded) if own is not None]
    versions = yield from _with_keys(tx, thread, message_ids)
    controls = (yield from _controls(tx, thread)) if versions else []
    batch = Batch(owner.last_position, versions, controls)
    rows = [batch.put(*parts) for parts in encoded]
    if batch.added:
        yield from _insert(tx, owner.number, thread, batch)
    return [entry_of(key, row) for row in rows]


def _with_keys(tx: Transaction, thread: int, message_ids: Sequence[str]) -> Steps[list[Row]]:
    if not message_ids:
        return []
    found = yield tx.query(
        f"SELECT {COLUMNS} FROM {{s}}.entries e "
        "WHERE e.thread = %s AND e.key_hash = ANY(%s::bigint[]) ORDER BY e.position",
        thread,
        [key_hash(message_id) for message_id in message_ids],
    )
    return [row_of(columns) for columns in found]


def _controls(tx: Transaction, thread: int) -> Steps[list[Row]]:
    found = yield tx.query(
        f"SELECT {COLUMNS} FROM {{s}}.entries e "
        "WHERE e.thread = %s AND e.role = 'control' ORDER BY e.position",
        thread,
    )
    return [row_of(columns) for columns in found]


def _insert(tx: Transaction, owner: int, thread: int, batch: Batch) -> Steps[None]:
    columns = [list(column) for column in zip(*batch.added, strict=True)]
    yield tx.query(
        "WITH numbered AS (UPDATE {s}.owners SET last_position = %s WHERE owner = %s) "
        "INSERT INTO {s}.entries(owner, thread, position, id, turn, turn_name, role, key_hash, "
        "body, metadata) SELECT %s, %s, * FROM unnest(%s::bigint[], %s::uuid[], %s::uuid[], "
        "%s::bytea[], %s::text[], %s::bigint[], %s::text[], %s::text[])",
        batch.last_position,
        owner,
        owner,
        thread,
        *columns,
    )


def annotate(
    tx: Transaction,
    key: ThreadKey,
    entry_id: str,
    *,
    attributes: Sequence[str],
    timing: Mapping[str, int] | None,
    aux: Mapping[str, Any] | None,
) -> Steps[Entry]:
    """Add to an entry's metadata; its row lock keeps additions at once from losing one."""
    found: list[tuple[Any, ...]] = []
    if is_ulid(entry_id):
        found = yield tx.query(
            f"SELECT e.owner, {COLUMNS} FROM {{s}}.entries e "
            f"WHERE e.thread = {THREAD} AND e.id = %s FOR NO KEY UPDATE OF e",
            *thread_values(key),
            to_uuid(entry_id),
        )
    if not found:
        msg = f"thread {key.thread_id!r} has no entry {entry_id!r}"
        raise LogError(msg, thread_id=key.thread_id)
    owner, *columns = found[0]
    row = row_of(columns)
    text = annotated(row.metadata, attributes=attributes, timing=timing, aux=aux)
    yield tx.change(
        "UPDATE {s}.entries SET metadata = %s WHERE owner = %s AND position = %s",
        text,
        owner,
        row.position,
    )
    return entry_of(key, replace(row, metadata=text))
