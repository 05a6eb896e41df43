"""Items of the DynamoDB layout: entries and batches to attribute values and back, without I/O."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, get_args

from langchain_convmem.errors import CorruptEntryError, InvalidMessageError
from langchain_convmem.logs.dynamodb.keys import (
    GENERATION_KEY,
    base_number,
    batch_key,
    is_hashed,
    piece_key,
    position_of,
    thread_entry_key,
)
from langchain_convmem.logs.rows import Row
from langchain_convmem.records import Role, ThreadKey

__all__ = [
    "INLINE_BYTES",
    "PIECE_BYTES",
    "SUMMARY_FIELDS",
    "Batch",
    "Item",
    "batch_item",
    "batch_of",
    "generation_item",
    "is_expired",
    "joined_rows",
    "marker_item",
    "number",
    "place_of",
    "text",
]

Item: TypeAlias = dict[str, Any]
"""Attribute values by attribute name, as the service's low-level interface takes them."""

INLINE_BYTES = 180 * 1024
"""Rows larger than this go into pieces. The service's limit of 400 KB is for an item together with
its copy in the index by thread."""
PIECE_BYTES = 350 * 1024
"""Size of a piece; pieces are in no index."""
SUMMARY_FIELDS = (
    "pk", "sk", "thread", "user", "n", "first", "last", "born", "rev", "pieces", "expires"
)  # fmt: skip
"""What a listing needs to know of a batch: everything but its entries."""

_ROLES: frozenset[str] = frozenset(get_args(Role))
_MARKER_LIFE_S = 2 * 86_400


def text(value: str) -> dict[str, str]:
    """Return the attribute value of a text."""
    return {"S": value}


def number(value: int) -> dict[str, str]:
    """Return the attribute value of a whole number, exactly."""
    return {"N": str(value)}


@dataclass(frozen=True, slots=True)
class Batch:
    """The head item of a batch: what one `append` wrote, or the marker that `forget` left of it.

    Attributes:
        partition: Partition key.
        number: The owner's running number of it.
        thread: Thread id; empty for a marker.
        batch: Token of the write that made it; never changes.
        revision: Token of the write that changed it last; its pieces are kept under it.
        size: How many entries it holds; 0 for a marker.
        first: Smallest entry id.
        last: Largest entry id.
        born_us: When it was made, microseconds since the epoch.
        expires_s: When it ends, seconds since the epoch, if ever.
        pieces: How many pieces hold the rows; 0 when the head holds them itself.
        rows: The rows of the head itself, by position; None where they are in pieces.
        user: User id where the partition key holds its hash instead; else empty.
    """

    partition: str
    number: int
    thread: str
    batch: str
    revision: str
    size: int
    first: str
    last: str
    born_us: int
    expires_s: int | None
    pieces: int
    rows: tuple[Row, ...] | None
    user: str = ""

    def is_over(self, now_s: float) -> bool:
        """Return whether its time has passed, though the service may not have deleted it yet."""
        return self.expires_s is not None and self.expires_s <= now_s


def is_expired(item: Mapping[str, Any], now_s: float) -> bool:
    """Return whether an item's time has passed."""
    return "expires" in item and int(item["expires"]["N"]) <= now_s


# -- rows ---------------------------------------------------------------------------------------


def place_of(row: Row, batch_number: int) -> int:
    """Return a row's place in its batch, which stays its own when others are forgotten."""
    return row.position - position_of(batch_number, 0)


def _fields(row: Row, batch_number: int) -> dict[str, str]:
    fields = {
        "p": str(place_of(row, batch_number)),
        "id": row.id,
        "role": row.role,
        "body": row.body,
    }
    if row.turn_id != row.id:
        fields["turn"] = row.turn_id
    if row.metadata is not None:
        fields["meta"] = row.metadata
    return fields


def _row(fields: Mapping[str, str], batch_number: int) -> Row:
    role = fields["role"]
    if role not in _ROLES:
        msg = f"unknown role {role!r}"
        raise ValueError(msg)
    return Row(
        id=fields["id"],
        position=position_of(batch_number, int(fields["p"])),
        turn_id=fields.get("turn", fields["id"]),
        role=role,  # type: ignore[arg-type]  # one of the roles, as was checked above
        body=fields["body"],
        metadata=fields.get("meta"),
    )


def _bytes_of(rows: Sequence[Mapping[str, str]]) -> int:
    """Return the size of rows inside an item as the service counts it, in bytes."""
    try:
        return sum(
            3 + sum(len(name) + len(value.encode()) + 1 for name, value in fields.items())
            for fields in rows
        )
    except UnicodeEncodeError as error:
        raise InvalidMessageError(f"an id is no valid Unicode: {error.reason}") from error


# -- items --------------------------------------------------------------------------------------


def batch_item(
    key: ThreadKey, batch: Batch, rows: Sequence[Row], *, now_us: int
) -> tuple[Item, list[Item]]:
    """Return the head item of a batch and its pieces, if it needs any.

    Args:
        key: Its thread.
        batch: What is known of it; `size`, `first`, `last`, `pieces`, `rows` and `user` are
            ignored.
        rows: Its rows, at least one, by position.
        now_us: When the pieces are written, microseconds since the epoch.

    Raises:
        InvalidMessageError: If a row holds text that no encoding can keep.
    """
    fields = [_fields(row, batch.number) for row in rows]
    item: Item = {
        "pk": text(batch.partition),
        "sk": text(batch_key(batch.number)),
        "tp": text(thread_entry_key(key, batch.number)),
        "thread": text(key.thread_id),
        "batch": text(batch.batch),
        "rev": text(batch.revision),
        "n": number(len(rows)),
        "first": text(min(row.id for row in rows)),
        "last": text(max(row.id for row in rows)),
        "born": number(batch.born_us),
    }
    if batch.expires_s is not None:
        item["expires"] = number(batch.expires_s)
    if is_hashed(key.owner) and key.user_id is not None:
        item["user"] = text(key.user_id)
    if _bytes_of(fields) <= INLINE_BYTES:
        item["rows"] = {"L": [{"M": {k: text(v) for k, v in row.items()}} for row in fields]}
        return item, []
    data = json.dumps(fields, ensure_ascii=False).encode()
    pieces = list(_piece_items(batch, key, data, now_us))
    item["pieces"] = number(len(pieces))
    return item, pieces


def _piece_items(batch: Batch, key: ThreadKey, data: bytes, now_us: int) -> Iterator[Item]:
    for part, start in enumerate(range(0, len(data), PIECE_BYTES)):
        item: Item = {
            "pk": text(batch.partition),
            "sk": text(piece_key(batch.revision, part)),
            "thread": text(key.thread_id),
            "written": number(now_us),
            "data": {"B": data[start : start + PIECE_BYTES]},
        }
        if batch.expires_s is not None:
            item["expires"] = number(batch.expires_s)
        yield item


def marker_item(partition: str, batch_number: int, *, now_us: int) -> Item:
    """Return what `forget` leaves of a batch whose number must not be used again.

    It holds nothing of the batch, and ends when the numbers of later days are larger anyway.
    """
    ends_s = now_us // 1_000_000 + _MARKER_LIFE_S
    item = {
        "pk": text(partition),
        "sk": text(batch_key(batch_number)),
        "n": number(0),
        "born": number(now_us),
    }
    if base_number(ends_s * 1000) > batch_number:
        item["expires"] = number(ends_s)
    return item


def generation_item(partition: str, raised_us: int, *, ends: bool) -> Item:
    """Return the item that tells when something was forgotten last.

    Args:
        partition: Partition key.
        raised_us: The generation, microseconds since the epoch.
        ends: Nothing else is left that tells of the owner, so this shall go too.
    """
    item = {"pk": text(partition), "sk": text(GENERATION_KEY), "raised": number(raised_us)}
    if ends:
        item["expires"] = number(raised_us // 1_000_000 + _MARKER_LIFE_S)
    return item


def batch_of(item: Mapping[str, Any]) -> Batch:
    """Return the batch of a head item, of a marker, or of a listing without the rows.

    Raises:
        CorruptEntryError: If the item is not what `batch_item` made.
    """
    try:
        batch_number = int(item["sk"]["S"].partition("#")[2])
        listed = item.get("rows")
        rows = None
        if listed is not None:
            rows = tuple(
                _row({name: value["S"] for name, value in fields["M"].items()}, batch_number)
                for fields in listed["L"]
            )
        return Batch(
            partition=item["pk"]["S"],
            number=batch_number,
            thread=_text_in(item, "thread"),
            batch=_text_in(item, "batch"),
            revision=_text_in(item, "rev"),
            size=int(item["n"]["N"]),
            first=_text_in(item, "first"),
            last=_text_in(item, "last"),
            born_us=int(item["born"]["N"]),
            expires_s=int(item["expires"]["N"]) if "expires" in item else None,
            pieces=int(item["pieces"]["N"]) if "pieces" in item else 0,
            rows=rows,
            user=_text_in(item, "user"),
        )
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        where = f"{item.get('pk')} {item.get('sk')}"
        msg = f"the item {where} is no batch of entries ({error!r}); restore it from a backup"
        raise CorruptEntryError(msg, thread_id=_text_in(item, "thread")) from error


def _text_in(item: Mapping[str, Any], name: str) -> str:
    value = item.get(name)
    return "" if value is None else str(value["S"])


def joined_rows(batch: Batch, parts: Sequence[bytes]) -> tuple[Row, ...]:
    """Return the rows that were split into pieces.

    Raises:
        CorruptEntryError: If the pieces do not make the batch.
    """
    try:
        rows = tuple(_row(fields, batch.number) for fields in json.loads(b"".join(parts)))
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        msg = (
            f"the pieces of {batch.partition!r} {batch_key(batch.number)!r} make no batch of "
            f"entries ({error!r}); restore them from a backup"
        )
        at = position_of(batch.number, 0)
        raise CorruptEntryError(msg, thread_id=batch.thread, position=at) from error
    return rows
