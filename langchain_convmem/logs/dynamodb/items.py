"""Keys and items of the DynamoDB layout: batches of entries to attribute values and back. No I/O.

Everything of an owner is in one partition, under sort keys of four kinds::

    E                                     the generation, once something was forgotten
    E#<number>                            a batch of entries, or the mark of an erased one
    P#<thread>#<number>#<token>#<part>    a piece of a batch that is too large for one item
    S#<thread>#<kind>#<name>              a state document, of the kind `cache` or `other`

Owners, threads and names are hashed in keys: so every id fits, and the mark of an erased batch
names nobody. The attributes `user` and `thread` of a batch have the ids. `tp` puts a batch into the
index by thread.

An owner's batches are numbered 1, 2, 3 and so on. The position of an entry is
`number * 1,000,000 + place in the batch`. The attribute `rows` has one line for each entry: place,
id, role, turn, metadata, signature and body, with tabs between them.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b85decode, b85encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast, get_args

from langchain_convmem.ids import get_now_ms, get_ulid_ms, is_ulid
from langchain_convmem.logs.base import DAMAGED_NAME, Row
from langchain_convmem.protocols import CACHE_PREFIX
from langchain_convmem.records import Owner, Role, ThreadKey

# Attribute values by attribute name, as the service's low-level interface takes them.
Item: TypeAlias = dict[str, Any]

# How many entries a batch may have: the step of positions from batch to batch.
ENTRIES_PER_BATCH = 1_000_000
# Larger batches go into pieces, which are in no index: the service's limit of 400 KB is for an item
# together with its copy in the index by thread. A character of a piece takes up to four bytes.
INLINE_BYTES = 180 * 1024
PIECE_CHARACTERS = 100_000
GENERATION_KEY = "E"

_LAST_NUMBER = 10**12 - 1
_ROLES = frozenset(get_args(Role))


def write_text(value: str) -> dict[str, str]:
    """Return the attribute value of a text."""
    return {"S": value}


def write_number(value: int) -> dict[str, str]:
    """Return the attribute value of a whole number, exactly."""
    return {"N": str(value)}


def read_text(item: Item, name: str) -> str:
    """Return a text; an empty one if it is missing or something else."""
    text: str = item.get(name, {}).get("S", "")
    return text


def read_number(item: Item, name: str) -> int:
    """Return a whole number; 0 if it is missing or something else."""
    digits: str = item.get(name, {}).get("N", "0")
    return int(digits) if digits.isdecimal() else 0


def read_bytes(item: Item, name: str) -> bytes:
    """Return bytes; none if they are missing or something else."""
    data: bytes = item.get(name, {}).get("B", b"")
    return data


# -- keys -----------------------------------------------------------------------------------------


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _bound(prefix: str) -> tuple[str, str]:
    """Return the closed range of keys that begin with a prefix and a `#`."""
    return f"{prefix}#", f"{prefix}$"


def make_key(scope: Owner | ThreadKey, sort: str) -> Item:
    """Return the attributes that are the key of an item of an owner's."""
    return {"pk": write_text(make_partition_key(scope)), "sk": write_text(sort)}


def make_partition_key(scope: Owner | ThreadKey) -> str:
    """Return the partition of an owner, or of a thread's owner."""
    if scope.user_id is not None:
        return f"U#{_digest(scope.user_id)}"
    return f"T#{_digest(scope.thread_id or '')}"


def make_batch_key(number: int) -> str:
    """Return the sort key of a batch; sorts as the numbers do."""
    return f"E#{number:012d}"


def make_thread_key(key: ThreadKey, number: int) -> str:
    """Return the key of a batch in the index by thread; within a thread it sorts by number."""
    return f"{_digest(key.thread_id)}#{number:012d}"


def make_batch_range(scope: Owner | ThreadKey, first: int, last: int | None) -> tuple[str, str]:
    """Return the closed range of an owner's sort keys, or a thread's index keys, by number."""
    last = _LAST_NUMBER if last is None else last
    if isinstance(scope, ThreadKey):
        return make_thread_key(scope, first), make_thread_key(scope, last)
    return make_batch_key(first), make_batch_key(last)


def make_piece_key(key: ThreadKey, number: int, token: str, part: int) -> str:
    """Return the sort key of a piece; sorts by `part`, which counts from 0."""
    return f"P#{make_thread_key(key, number)}#{token}#{part:05d}"


def make_piece_range(
    scope: Owner | ThreadKey, number: int | None = None, token: str = ""
) -> tuple[str, str]:
    """Return the closed range of sort keys of pieces: of an owner, a thread or a batch."""
    if isinstance(scope, Owner):
        return _bound("P")
    if number is None:
        return _bound(f"P#{_digest(scope.thread_id)}")
    return _bound(f"P#{make_thread_key(scope, number)}" + (f"#{token}" if token else ""))


def read_piece_key(piece: Item) -> tuple[int, int]:
    """Return the number of a piece's batch, and when the piece was written, in milliseconds."""
    _, _, number, token, _ = piece["sk"]["S"].split("#")
    return int(number), read_token_ms(token)


def read_token_ms(token: str) -> int:
    """Return when a write was made; one with a damaged token counts as new."""
    return get_ulid_ms(token) if is_ulid(token) else get_now_ms()


def make_state_key(key: ThreadKey, name: str) -> str:
    """Return the sort key of a thread's document."""
    kind = "cache" if name.startswith(CACHE_PREFIX) else "other"
    return f"S#{_digest(key.thread_id)}#{kind}#{_digest(name)}"


def make_state_range(scope: Owner | ThreadKey, *, caches: bool = False) -> tuple[str, str]:
    """Return the closed range of sort keys of documents: all of an owner, or of a thread."""
    if isinstance(scope, Owner):
        return _bound("S")
    return _bound(f"S#{_digest(scope.thread_id)}" + ("#cache" if caches else ""))


def compute_position(number: int, place: int) -> int:
    """Return the position of the entry at `place` (from 0) of the batch `number`."""
    return number * ENTRIES_PER_BATCH + place


def compute_number(position: int) -> int:
    """Return the number of the batch that holds `position`; 0 for one before all batches."""
    return min(max(position, 0) // ENTRIES_PER_BATCH, _LAST_NUMBER)


# -- rows -----------------------------------------------------------------------------------------


def write_rows(rows: Iterable[Row], number: int) -> str:
    """Return the rows of the batch `number` as text: JSON has neither tabs nor ends of lines."""
    lines = []
    for row in rows:
        place = str(row.position - compute_position(number, 0))
        turn = "" if row.turn_id == row.id else json.dumps(row.turn_id)
        signature = b85encode(row.signature).decode()
        fields = (place, row.id, row.role, turn, row.metadata or "", signature, row.body)
        lines.append("\t".join(fields))
    return "\n".join(lines)


def read_rows(text: str, size: int, number: int) -> list[Row]:
    """Return the rows of a batch by position; what cannot be read is a damaged row.

    Args:
        text: What `write_rows` made of them.
        size: How many there are.
        number: The batch's number.
    """
    rows: list[Row] = []
    free = compute_position(number, 0)
    for line in text.split("\n"):
        try:
            row = _read_row(line, range(free, compute_position(number + 1, 0)))
        except ValueError:  # which may quote what it could not read
            row = make_damaged_row(free, "it cannot be read")
        rows.append(row)
        free = row.position + 1
    if len(rows) != size:
        rows.append(make_damaged_row(free, f"{len(rows)} of {size} entries of its batch are there"))
    return rows


def _read_row(line: str, places: range) -> Row:
    """Return a row, if it is at one of the places that are left in its batch."""
    place, row_id, role, turn, metadata, signature, body = line.split("\t")
    position = places.stop - ENTRIES_PER_BATCH + int(place)
    turn_id = json.loads(turn) if turn else row_id
    if position not in places or role not in _ROLES or not row_id or not isinstance(turn_id, str):
        raise ValueError(place)
    known = cast("Role", role)
    return Row(row_id, position, turn_id, known, body, metadata or None, b85decode(signature))


def make_damaged_row(position: int, damage: str) -> Row:
    """Return what stands for entries that cannot be read; by its id they can be forgotten."""
    name = f"{DAMAGED_NAME}{position}"
    return Row(name, position, name, "control", "", None, damage=damage)


# -- batches --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as its item has it: what one `append` wrote, or the mark that `forget` left of it.

    Attributes:
        key: Its thread; None for a mark.
        number: The owner's running number of it.
        token: Names the write that made or changed it last, and tells when that was.
        size: How many entries it holds.
        first: Smallest entry id.
        last: Largest entry id.
        pieces: How many pieces hold the rows; 0 where the item itself does.
        text: The rows of the item itself.
        key_id: Of the key that signs its entries; empty without one.
        check: Checksum of a mark.
        damage: What is wrong with the item, in a few words; empty for a sound one.
    """

    key: ThreadKey | None
    number: int
    token: str
    size: int = 1
    first: str = ""
    last: str = ""
    pieces: int = 0
    text: str = ""
    key_id: bytes = b""
    check: bytes = b""
    damage: str = ""


def make_batch_items(
    key: ThreadKey, number: int, token: str, rows: Sequence[Row], key_id: bytes
) -> tuple[Item, list[Item]]:
    """Return the item of a batch and its pieces, if it needs any; see `Batch`."""
    ids = [row.id for row in rows if is_ulid(row.id)] or [token]
    item: Item = {
        **make_key(key, make_batch_key(number)),
        "tp": write_text(make_thread_key(key, number)),
        "thread": write_text(key.thread_id),
        "token": write_text(token),
        "size": write_number(len(rows)),
        "first": write_text(min(ids)),
        "last": write_text(max(ids)),
        "key": {"B": key_id},
    }
    if key.user_id is not None:
        item["user"] = write_text(key.user_id)
    text = write_rows(rows, number)
    if len(text.encode()) <= INLINE_BYTES:
        return {**item, "rows": write_text(text)}, []
    parts = range(0, len(text), PIECE_CHARACTERS)
    pieces = []
    for part, start in enumerate(parts):
        rows_of_it = write_text(text[start : start + PIECE_CHARACTERS])
        pieces.append(
            make_key(key, make_piece_key(key, number, token, part)) | {"rows": rows_of_it}
        )
    return {**item, "pieces": write_number(len(pieces))}, pieces


def read_batch(item: Item, scope: Owner | ThreadKey) -> Batch:
    """Return the batch of an item, with or without its rows.

    One that is not as `make_batch_items` made it says so by its `damage`.

    Args:
        item: The item.
        scope: Its thread if that is known, else its owner.
    """
    number = int(item["sk"]["S"].removeprefix("E#"))
    token = read_text(item, "token")
    if "tp" not in item:
        return Batch(None, number, token, check=read_bytes(item, "check"))
    key = scope if isinstance(scope, ThreadKey) else _read_thread(item, scope)
    first, last, size = read_text(item, "first"), read_text(item, "last"), read_number(item, "size")
    if not (is_ulid(first) and is_ulid(last) and size > 0):
        return Batch(key, number, token, damage="the item of its batch cannot be read")
    return Batch(
        key=key,
        number=number,
        token=token,
        size=size,
        first=first,
        last=last,
        pieces=read_number(item, "pieces"),
        text=read_text(item, "rows"),
        key_id=read_bytes(item, "key"),
    )


def _read_thread(item: Item, owner: Owner) -> ThreadKey:
    """Return the thread of a batch; one that its key does not match has a name of its own."""
    named = read_text(item, "thread")
    is_sound = _digest(named) == read_text(item, "tp").partition("#")[0]
    thread_id = owner.thread_id or (named if is_sound else f"{DAMAGED_NAME}thread")
    return ThreadKey(owner.user_id, thread_id)


def read_owner(item: Item) -> Owner | None:
    """Return whose a batch is; None where its key does not match what it says."""
    user, thread = read_text(item, "user"), read_text(item, "thread")
    if not (user or thread):
        return None
    owner = Owner(user_id=user) if user else Owner(thread_id=thread)
    return owner if make_partition_key(owner) == item["pk"]["S"] else None
