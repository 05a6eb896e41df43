"""State documents in a DynamoDB table: one item each, written under a condition on its version."""

from __future__ import annotations

import time
from typing import Any

from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.ids import new_ulid
from langchain_convmem.logs.dynamodb.client import Table
from langchain_convmem.logs.dynamodb.items import PIECE_BYTES, Item, is_expired, number, text
from langchain_convmem.logs.dynamodb.keys import partition_key, state_key
from langchain_convmem.logs.rows import next_version, state_text
from langchain_convmem.records import StateDocument, ThreadKey
from langchain_convmem.views.codec import loads

__all__ = ["Documents"]

_NONE_YET = "attribute_not_exists(#pk) OR #expires <= :now"
_SAME = "#version = :version AND (attribute_not_exists(#expires) OR #expires > :now)"


class Documents:
    """The state documents in a table. Thread-safe."""

    def __init__(self, table: Table, *, ttl_seconds: int | None) -> None:
        """Use `table`; a document ends `ttl_seconds` after its last write, if that is set."""
        self._table = table
        self._ttl_seconds = ttl_seconds

    def get(self, key: ThreadKey, name: str) -> StateDocument | None:
        """Return the document, or None."""
        item = self._table.get(partition_key(key.owner), state_key(key, name))
        if item is None or is_expired(item, time.time()):
            return None
        return StateDocument(loads(item["value"]["S"]), int(item["version"]["N"]))

    def set(
        self, key: ThreadKey, name: str, value: Any, *, expected: int | None
    ) -> StateDocument | None:
        """Write the document if its version is `expected`; see `ThreadState.set_state`.

        Raises:
            InvalidMessageError: If it cannot be kept as JSON, or is larger than 350 KB.
        """
        written = state_text(value)
        size = len(written.encode())
        if size > PIECE_BYTES:
            msg = f"state document {name!r} has {size:,} bytes; the limit is {PIECE_BYTES:,}"
            raise InvalidMessageError(msg)
        version, now_s = next_version(expected), int(time.time())
        item: Item = {
            "pk": text(partition_key(key.owner)),
            "sk": text(state_key(key, name)),
            "thread": text(key.thread_id),
            "value": text(written),
            "version": number(version),
            "token": text(new_ulid()),
        }
        if self._ttl_seconds is not None:
            item["expires"] = number(now_s + self._ttl_seconds)
        values = {":now": number(now_s)}
        if expected is not None:
            values[":version"] = number(expected)
        condition = _NONE_YET if expected is None else _SAME
        if not self._table.put_marked(item, "token", condition, values):
            return None
        return StateDocument(loads(written), version)

    def delete(self, key: ThreadKey, name: str) -> None:
        """Delete the document if there is one."""
        self._table.delete(partition_key(key.owner), state_key(key, name))
