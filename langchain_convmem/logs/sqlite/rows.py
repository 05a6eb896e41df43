"""Rows as a SQLite log keeps them: ULIDs as 16 bytes, roles as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, get_args

from langchain_convmem.errors import CorruptEntryError
from langchain_convmem.ids import is_ulid, ulid_bytes, ulid_text
from langchain_convmem.logs.rows import Row, key_hash
from langchain_convmem.records import Role

__all__ = ["COLUMNS", "ROLES", "inserted", "pack", "row_of", "unpack"]

ROLES: tuple[Role, ...] = get_args(Role)
"""A role's place here is its number in the file."""

COLUMNS = "e.seq, e.id, e.turn, e.role, e.body, e.metadata"
"""What `row_of` takes, of the table `entries e`."""

_ROLE_OF = dict(enumerate(ROLES))


def pack(name: str) -> bytes | str:
    """Return a ULID as 16 bytes; another name, which a turn may have, stays text."""
    return ulid_bytes(name) if is_ulid(name) else name


def unpack(stored: bytes | str) -> str:
    """Return the name that `pack` took.

    Raises:
        ValueError: If it is neither text nor 16 bytes.
    """
    return stored if isinstance(stored, str) else ulid_text(stored)


def row_of(columns: Sequence[Any], thread_id: str) -> Row:
    """Return the row of `COLUMNS`.

    Raises:
        CorruptEntryError: If one of them holds what no row can.
    """
    seq, entry_id, turn, role, body, metadata = columns
    try:
        text_id = ulid_text(entry_id)
        turn_id = text_id if turn is None else unpack(turn)
        if not isinstance(body, str):
            _refuse_body(body)
        return Row(text_id, seq, turn_id, _ROLE_OF[role], body, metadata)
    except (TypeError, ValueError, LookupError) as error:
        msg = (
            f"entry {seq} of thread {thread_id!r} has damaged columns ({error!r}); "
            "restore it from a backup"
        )
        raise CorruptEntryError(msg, thread_id=thread_id, position=seq) from error


def _refuse_body(value: object) -> NoReturn:
    msg = f"a body is text, got {type(value).__name__}"
    raise TypeError(msg)


def inserted(row: Row, message_id: str | None) -> tuple[Any, ...]:
    """Return (id, turn, role, key_hash, body, metadata) of a new row.

    An entry that opens its turn stores no turn; a control entry goes by no message id.
    """
    return (
        ulid_bytes(row.id),
        None if row.turn_id == row.id else pack(row.turn_id),
        ROLES.index(row.role),
        None if row.role == "control" else key_hash(message_id or row.id),
        row.body,
        row.metadata,
    )
