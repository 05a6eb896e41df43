"""Names and rows as PostgreSQL keeps them: text without NUL, ULIDs as `uuid`, keys as digests."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from ulid import ULID

from langchain_convmem.errors import ConfigError
from langchain_convmem.ids import is_ulid
from langchain_convmem.logs.rows import Row, key_hash
from langchain_convmem.records import Owner

__all__ = [
    "COLUMNS",
    "inserted",
    "owner_digest",
    "read_name",
    "row_of",
    "stored_name",
    "thread_digest",
    "to_uuid",
    "ulid_of",
]

COLUMNS = "e.position, e.id, e.turn, e.turn_name, e.role, e.body, e.metadata"
"""What `row_of` takes, of the table `entries e`."""

_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def stored_name(name: str) -> str:
    r"""Return a name as `text` can hold it: NUL as `\0`, a backslash twice, all else as it is.

    Raises:
        ConfigError: If the name holds lone surrogates, which no encoding can hold.
    """
    _utf8(name)
    return name.replace("\\", "\\\\").replace("\0", "\\0")


def read_name(stored: str) -> str:
    """Return the name that `stored_name` wrote."""
    return _ESCAPED.sub(lambda found: "\0" if found[1] == "0" else found[1], stored)


def owner_digest(owner: Owner) -> bytes:
    """Return 32 bytes that stand for an owner in an index, however long the name is.

    Raises:
        ConfigError: If the name holds lone surrogates.
    """
    kind, name = (b"t", owner.thread_id) if owner.user_id is None else (b"u", owner.user_id)
    return hashlib.sha256(kind + _utf8(name or "")).digest()


def thread_digest(thread_id: str) -> bytes:
    """Return 32 bytes that stand for a thread's id among its owner's.

    Raises:
        ConfigError: If the id holds lone surrogates.
    """
    return hashlib.sha256(_utf8(thread_id)).digest()


def _utf8(name: str) -> bytes:
    try:
        return name.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"the name {name!r} is no valid Unicode: {error.reason}") from error


def to_uuid(ulid: str) -> UUID:
    """Return the 128 bits of a ULID; they sort alike."""
    return UUID(bytes=bytes(ULID.from_str(ulid).bytes))


def ulid_of(value: UUID) -> str:
    """Return the ULID that `to_uuid` took."""
    return str(ULID.from_bytes(value.bytes))


def row_of(columns: Sequence[Any]) -> Row:
    """Return the row of `COLUMNS`."""
    position, entry_id, turn, turn_name, role, body, metadata = columns
    text_id = ulid_of(entry_id)
    turn_id = text_id if turn is None else ulid_of(turn)
    if turn_name is not None:
        turn_id = turn_name.decode("utf-8", "surrogatepass")
    return Row(text_id, position, turn_id, role, body, metadata)


def inserted(row: Row, message_id: str | None) -> tuple[Any, ...]:
    """Return (position, id, turn, turn_name, role, key_hash, body, metadata) of a new row.

    An entry that opens its turn stores no turn; a turn may have a name that is no ULID.
    """
    turn = turn_name = None
    if is_ulid(row.turn_id):
        turn = None if row.turn_id == row.id else to_uuid(row.turn_id)
    else:
        turn_name = row.turn_id.encode("utf-8", "surrogatepass")
    key = None if row.role == "control" else key_hash(message_id or row.id)
    return (
        row.position, to_uuid(row.id), turn, turn_name, row.role, key, row.body, row.metadata
    )  # fmt: skip
