"""Keys and items of the DynamoDB layout: entries and batches to attribute values and back. No I/O.

A partition holds everything of one owner, under sort keys of four kinds::

    E                     the generation, written by `forget` only
    E#<number>            a batch of entries; its thread key puts it into the index by thread
    P#<revision>#<part>   a piece of a batch that is too large for one item
    S#<thread>#<name>     a state document

A batch's number is the newest number of its owner plus one. Positions are made of both:
`number * ENTRIES_PER_BATCH + place in the batch`.

An entry carries its signature.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b85decode, b85encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, get_args

from langchain_convmem.causes import ErrorTrap
from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.ids import is_ulid
from langchain_convmem.logs.base import Row
from langchain_convmem.protocols import CACHE_PREFIX
from langchain_convmem.records import Owner, Role, ThreadKey

Item: TypeAlias = dict[str, Any]
"""Attribute values by attribute name, as the service's low-level interface takes them."""

INLINE_BYTES = 180 * 1024
"""Rows larger than this go into pieces. The service's limit of 400 KB is for an item together with
its copy in the index by thread."""
DAMAGED_NAME = "damaged-"
"""How the id begins of what stands for entries that cannot be read."""
PIECE_BYTES = 350 * 1024
"""Size of a piece; pieces are in no index."""
SUMMARY_FIELDS = (
    "pk", "sk", "tp", "thread", "size", "first", "last", "born", "rev", "pieces",
    "expires", "key",
)  # fmt: skip
"""What a listing needs to know of a batch: everything but its entries."""

_ROLES: frozenset[str] = frozenset(get_args(Role))
_MARKER_LIFE_S = 2 * 86_400


def write_text(value: str) -> dict[str, str]:
    """Return the attribute value of a text."""
    return {"S": value}


def write_number(value: int) -> dict[str, str]:
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
        key_id: Of the key that signs its entries; empty without one.
        damage: What is wrong with the head item, in a few words; empty for a sound one.
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
    key_id: bytes = b""
    damage: str = ""

    @property
    def is_marker(self) -> bool:
        """Whether nothing is left of it but its number."""
        return not (self.size or self.damage)

    def is_over(self, now_s: float) -> bool:
        """Return whether its time has passed, though the service may not have deleted it yet."""
        return self.expires_s is not None and self.expires_s <= now_s


def is_expired(item: Mapping[str, Any], now_s: float) -> bool:
    """Return whether an item's time has passed."""
    return "expires" in item and int(item["expires"]["N"]) <= now_s


# -- rows ---------------------------------------------------------------------------------------


def compute_place(row: Row, batch_number: int) -> int:
    """Return a row's place in its batch, which stays its own when others are forgotten."""
    return row.position - compute_position(batch_number, 0)


def _write_fields(row: Row, batch_number: int) -> dict[str, str]:
    fields = {
        "p": str(compute_place(row, batch_number)),
        "id": row.id,
        "role": row.role,
        "body": row.body,
    }
    if row.turn_id != row.id:
        fields["turn"] = row.turn_id
    if row.metadata is not None:
        fields["meta"] = row.metadata
    fields["sig"] = b85encode(row.signature).decode()
    return fields


def _read_rows(listed: Sequence[Any], batch_number: int) -> tuple[Row, ...]:
    """Return the rows of a batch, by position; one that cannot be read is a damaged row."""
    rows: list[Row] = []
    position = compute_position(batch_number, -1)
    for fields in listed:
        free = position + 1
        try:
            row = _read_fields(fields, batch_number)
        except (LookupError, ValueError, TypeError, AttributeError):
            row = make_damaged_row(free, "it cannot be read")
        if row.position <= position:
            row = make_damaged_row(free, "its place cannot be read")
        position = row.position
        rows.append(row)
    return tuple(rows)


def make_damaged_row(position: int, damage: str) -> Row:
    """Return what stands for entries that cannot be read; by its id they can be forgotten."""
    name = f"{DAMAGED_NAME}{position}"
    return Row(name, position, name, "control", "", None, damage=damage)


def _read_fields(fields: Mapping[str, str], batch_number: int) -> Row:
    """Return a row.

    Raises:
        LookupError: If the fields make none; likewise a ValueError or a TypeError.
    """
    row = Row(
        id=fields["id"],
        position=compute_position(batch_number, int(fields["p"])),
        turn_id=fields.get("turn", fields["id"]),
        role=fields["role"],  # type: ignore[arg-type]  # one of the roles, or else damaged
        body=fields["body"],
        metadata=fields.get("meta"),
        signature=b85decode(fields["sig"]),
    )
    if row.role not in _ROLES:
        row = replace(row, role="control", damage="its role is unknown")
    return row


def _measure_rows(rows: Sequence[Mapping[str, str]]) -> int:
    """Return the size of rows inside an item as the service counts it, in bytes."""
    with ErrorTrap(UnicodeEncodeError) as trap:
        return sum(
            3 + sum(len(name) + len(value.encode()) + 1 for name, value in fields.items())
            for fields in rows
        )
    raise InvalidMessageError(f"an id is no valid Unicode: {trap.reason}")


# -- items --------------------------------------------------------------------------------------


def make_batch_item(
    key: ThreadKey, batch: Batch, rows: Sequence[Row], *, now_us: int
) -> tuple[Item, list[Item]]:
    """Return the head item of a batch and its pieces, if it needs any.

    Args:
        key: Its thread.
        batch: What is known of it; `size`, `first`, `last`, `pieces` and `rows` are ignored.
        rows: Its rows by position, one at least.
        now_us: When the pieces are written, microseconds since the epoch.

    Raises:
        InvalidMessageError: If a row holds text that no encoding can keep.
    """
    fields = [_write_fields(row, batch.number) for row in rows]
    item: Item = {
        "pk": write_text(batch.partition),
        "sk": write_text(make_batch_key(batch.number)),
        "tp": write_text(make_thread_key(key, batch.number)),
        "thread": write_text(key.thread_id),
        "batch": write_text(batch.batch),
        "rev": write_text(batch.revision),
        "size": write_number(len(rows)),
        "born": write_number(batch.born_us),
        "first": write_text(min(row.id for row in rows)),
        "last": write_text(max(row.id for row in rows)),
    }
    if batch.expires_s is not None:
        item["expires"] = write_number(batch.expires_s)
    if batch.key_id:
        item["key"] = {"B": batch.key_id}
    if _measure_rows(fields) <= INLINE_BYTES:
        item["rows"] = {"L": [{"M": {k: write_text(v) for k, v in row.items()}} for row in fields]}
        return item, []
    data = json.dumps(fields, ensure_ascii=False).encode()
    pieces = list(_make_piece_items(batch, key, data, now_us))
    item["pieces"] = write_number(len(pieces))
    return item, pieces


def _make_piece_items(batch: Batch, key: ThreadKey, data: bytes, now_us: int) -> Iterator[Item]:
    for part, start in enumerate(range(0, len(data), PIECE_BYTES)):
        item: Item = {
            "pk": write_text(batch.partition),
            "sk": write_text(make_piece_key(batch.revision, part)),
            "thread": write_text(key.thread_id),
            "written": write_number(now_us),
            "data": {"B": data[start : start + PIECE_BYTES]},
        }
        if batch.expires_s is not None:
            item["expires"] = write_number(batch.expires_s)
        yield item


def make_marker_item(partition: str, batch_number: int, *, now_us: int) -> Item:
    """Return what `forget` leaves of a batch whose number must not be used again.

    It holds nothing of the batch, and ends when the numbers of later days are larger anyway.
    """
    ends_s = now_us // 1_000_000 + _MARKER_LIFE_S
    item = {
        "pk": write_text(partition),
        "sk": write_text(make_batch_key(batch_number)),
        "size": write_number(0),
        "born": write_number(now_us),
    }
    if compute_base_number(ends_s * 1000) > batch_number:
        item["expires"] = write_number(ends_s)
    return item


def make_generation_item(partition: str, raised_us: int, *, ends: bool) -> Item:
    """Return the item that tells when something was forgotten last.

    Args:
        partition: Partition key.
        raised_us: The generation, microseconds since the epoch.
        ends: Nothing else is left that tells of the owner, so this shall go too.
    """
    item = {
        "pk": write_text(partition),
        "sk": write_text(GENERATION_KEY),
        "raised": write_number(raised_us),
    }
    if ends:
        item["expires"] = write_number(raised_us // 1_000_000 + _MARKER_LIFE_S)
    return item


def read_batch(item: Mapping[str, Any]) -> Batch:
    """Return the batch of a head item, of a marker, or of a listing without the rows.

    One that is not as `make_batch_item` made it says so by its `damage`, and holds one damaged row.
    """
    batch_number = _read_number_of(item)
    try:
        listed = item.get("rows")
        rows = None
        if listed is not None:
            rows = _read_rows([_unwrap(fields) for fields in listed["L"]], batch_number)
        return Batch(
            partition=item["pk"]["S"],
            number=batch_number,
            thread=_read_text(item, "thread"),
            batch=_read_text(item, "batch"),
            revision=_read_text(item, "rev"),
            size=int(item["size"]["N"]),
            first=_read_id(item, "first"),
            last=_read_id(item, "last"),
            born_us=int(item["born"]["N"]),
            expires_s=_read_optional_number(item, "expires"),
            pieces=_read_optional_number(item, "pieces") or 0,
            rows=rows,
            key_id=_read_bytes(item, "key"),
        )
    except (LookupError, ValueError, TypeError, AttributeError):
        return _make_damaged_batch(item, batch_number)


def _make_damaged_batch(item: Mapping[str, Any], batch_number: int) -> Batch:
    damage = "the item of its batch cannot be read"
    return Batch(
        partition=item["pk"]["S"],
        number=batch_number,
        thread=_read_leniently(item, "thread") or _read_indexed_thread(item),
        batch=_read_leniently(item, "batch"),
        revision=_read_leniently(item, "rev"),
        size=1,
        first="",
        last="",
        born_us=0,
        expires_s=None,
        pieces=0,
        rows=(make_damaged_row(compute_position(batch_number, 0), damage),),
        damage=damage,
    )


def _read_number_of(item: Mapping[str, Any]) -> int:
    """Return the number in a batch's sort key, which nothing but the log can have written."""
    digits: str = item["sk"]["S"].partition("#")[2]
    return int(digits) if digits.isascii() and digits.isdigit() else 0


def _unwrap(fields: Any) -> Any:
    """Return plain texts of attribute values; what is none of these stays as it is."""
    try:
        return {name: value["S"] for name, value in fields["M"].items()}
    except (LookupError, TypeError, AttributeError):
        return None


def _read_text(item: Mapping[str, Any], name: str) -> str:
    value = item.get(name)
    return "" if value is None else str(value["S"])


def _read_leniently(item: Mapping[str, Any], name: str) -> str:
    value = item.get(name)
    text = value.get("S") if isinstance(value, Mapping) else None
    return text if isinstance(text, str) else ""


def _read_indexed_thread(item: Mapping[str, Any]) -> str:
    """Return the thread that a batch's key in the index names; empty where it names a hash."""
    escaped = _read_leniently(item, "tp").rpartition("#")[0]
    return "" if escaped.startswith("%=") else escaped.replace("%23", "#").replace("%25", "%")


def _read_id(item: Mapping[str, Any], name: str) -> str:
    text = _read_text(item, name)
    if text and not is_ulid(text):
        raise ValueError(name)
    return text


def _read_bytes(item: Mapping[str, Any], name: str) -> bytes:
    value = item.get(name)
    return b"" if value is None else bytes(value["B"])


def _read_optional_number(item: Mapping[str, Any], name: str) -> int | None:
    return int(item[name]["N"]) if name in item else None


def join_pieces(batch: Batch, parts: Sequence[bytes]) -> Batch:
    """Return a batch with what was split into pieces; what is damaged there is one damaged row."""
    try:
        rows = _read_rows(json.loads(b"".join(parts)), batch.number)
    except (ValueError, TypeError):  # which may quote what it could not read
        return mark_damaged(batch, "the pieces of its batch cannot be read")
    return replace(batch, rows=rows)


def mark_damaged(batch: Batch, damage: str) -> Batch:
    """Return a batch of which nothing can be read but that it was there."""
    row = make_damaged_row(compute_position(batch.number, 0), damage)
    return replace(batch, rows=(row,), damage=damage)


# -- keys -------------------------------------------------------------------------------------

ENTRIES_PER_BATCH = 1_000_000
"""How many entries a batch may have: the step of positions from batch to batch."""
GENERATION_KEY = "E"
PIECE_RANGE = ("P#", "P$")
"""Closed range of sort keys of all pieces."""
LONE_PREFIX = "T"
"""How the partition key of a thread without a user begins."""

STATE_RANGE = ("S#", "S$")
"""Closed range of sort keys of all documents."""

_AFTER_ALL = "~"
"""Sorts after the separator and after every digit."""
_AFTER_SEPARATOR = "$"
"""The character that follows the separator."""
_BATCHES_PER_DAY = 100_000
_MAX_NUMBER = 10**12 - 1
"""The largest number of as many digits as keys have."""
_DAY_MS = 86_400_000
_MAX_THREAD_BYTES = 600
_MAX_NAME_BYTES = 300
# The service allows 2,048 bytes for a partition key and 1,024 for a sort key.


def make_partition_key(owner: Owner) -> str:
    """Return the partition of an owner; no two owners share one, whatever their ids hold."""
    return f"{LONE_PREFIX}#{owner.thread_id}" if owner.user_id is None else f"U#{owner.user_id}"


def read_owner(partition: str) -> Owner:
    """Return the owner of a partition."""
    name = partition[2:]
    is_lone = partition.startswith(LONE_PREFIX)
    return Owner(thread_id=name) if is_lone else Owner(user_id=name)


def _measure_name(name: str) -> int:
    try:
        return len(name.encode())
    except UnicodeEncodeError as error:
        raise ConfigError(f"the id {name!r} is no valid Unicode: {error.reason}") from error


def _digest_name(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=32).hexdigest()


def _escape_part(text: str, limit: int) -> str:
    """Return `text` without the separator, so that no key is the beginning of another."""
    escaped = text.replace("%", "%25").replace("#", "%23")
    return f"%={_digest_name(text)}" if _measure_name(escaped) > limit else escaped


# -- batches ------------------------------------------------------------------------------------


def make_batch_key(number: int) -> str:
    """Return the sort key of the batch `number`; sorts as the numbers do."""
    return f"E#{number:012d}"


def make_batch_range(first: int = 0) -> tuple[str, str]:
    """Return the closed range of sort keys of all batches from `first` on."""
    return make_batch_key(first), f"E#{_AFTER_ALL}"


def make_thread_key(key: ThreadKey, number: int) -> str:
    """Return the key of a batch in the index by thread; within a thread it sorts by number."""
    return f"{_escape_part(key.thread_id, _MAX_THREAD_BYTES)}#{number:012d}"


def make_thread_range(key: ThreadKey, first: int = 0, last: int | None = None) -> tuple[str, str]:
    """Return the closed range of index keys of a thread's batches from `first` up to `last`."""
    end = f"{_escape_part(key.thread_id, _MAX_THREAD_BYTES)}#{_AFTER_ALL}"
    return make_thread_key(key, first), end if last is None else make_thread_key(key, last)


def compute_position(number: int, place: int) -> int:
    """Return the position of the entry at `place` (from 0) of the batch `number`."""
    return number * ENTRIES_PER_BATCH + place


def compute_number(position: int) -> int:
    """Return the number of the batch that holds `position`; 0 for one before all batches."""
    return min(max(position, 0) // ENTRIES_PER_BATCH, _MAX_NUMBER)


def compute_base_number(now_ms: int) -> int:
    """Return the number that an owner without batches begins with, the same for a whole day.

    It lies above every number of earlier days, so that numbers are not used twice although nothing
    is kept of an owner whose items have all expired or been erased.
    """
    return max(now_ms // _DAY_MS, 1) * _BATCHES_PER_DAY


def is_of_earlier_day(number: int, newest: int) -> bool:
    """Return whether `number` belongs to the run of an earlier day than `newest` does."""
    return number // _BATCHES_PER_DAY < newest // _BATCHES_PER_DAY


def choose_number(newest: int | None, *, is_over: bool, now_ms: int) -> int:
    """Return the number of the next batch.

    Args:
        newest: The owner's newest number, if there is any.
        is_over: The newest batch has expired: newer ones may have been there and be gone.
        now_ms: Milliseconds since the epoch.
    """
    if newest is None:
        return compute_base_number(now_ms)
    return max(newest + 1, compute_base_number(now_ms)) if is_over else newest + 1


# -- pieces and documents -----------------------------------------------------------------------


def make_piece_prefix(revision: str) -> str:
    """Return how the sort keys of a batch's pieces begin."""
    return f"P#{revision}#"


def make_piece_key(revision: str, part: int) -> str:
    """Return the sort key of a piece; sorts by `part`, which counts from 0."""
    return f"{make_piece_prefix(revision)}{part:05d}"


def read_revision(key: str) -> str:
    """Return the revision that a piece's sort key names."""
    return key.split("#")[1]


def make_state_prefix(key: ThreadKey) -> str:
    """Return how the sort keys of a thread's documents begin."""
    return f"S#{_escape_part(key.thread_id, _MAX_THREAD_BYTES)}#"


def make_state_range(key: ThreadKey) -> tuple[str, str]:
    """Return the closed range of sort keys of a thread's documents."""
    prefix = make_state_prefix(key)
    return prefix, prefix[:-1] + _AFTER_SEPARATOR


def make_cache_range(key: ThreadKey) -> tuple[str, str]:
    """Return a closed range of sort keys of a thread's documents that are caches.

    Its first bound is how they all begin; the last one may itself be the key of another document.
    """
    prefix = make_state_prefix(key) + CACHE_PREFIX
    return prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)


def make_state_key(key: ThreadKey, name: str) -> str:
    """Return the sort key of a thread's document; that of a cache is known by its beginning.

    Raises:
        ConfigError: If the name holds lone surrogates.
    """
    rest = name.removeprefix(CACHE_PREFIX)
    return (
        make_state_prefix(key) + name[: len(name) - len(rest)] + _escape_part(rest, _MAX_NAME_BYTES)
    )
