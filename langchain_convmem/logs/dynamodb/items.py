"""Keys and items of the DynamoDB layout: batches of entries to attribute values and back. No I/O.

All items of an owner are in one partition, with four kinds of sort keys::

    E                                     the generation, if something was forgotten
    E#<number>                            a batch of entries, or the mark of an erased one
    P#<thread>#<number>#<token>#<part>    a piece of a batch too large for one item
    S#<thread>#<kind>#<name>              a state document, of the kind `cache` or `other`

Keys contain hashes of owners, threads and names, so that every id fits and the mark of an erased
batch identifies nobody. The attributes `user_id` and `thread_id` of a batch contain the ids. `tp`
adds a batch to the index by thread. All attributes are strings, and none of their names is a
reserved word of DynamoDB.

An owner's batches are numbered 1, 2, 3 and so on. The position of an entry is
`number * 100,000,000 + place in the batch`, which no batch is large enough to exceed. The
attribute `rows` has one line per entry: place, id, role, turn, metadata, signature and body,
separated by tabs.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b85decode, b85encode
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, TypeAlias, cast, get_args

from langchain_convmem.ids import is_ulid
from langchain_convmem.logs.base import DAMAGED_NAME, Row
from langchain_convmem.message_log import CACHE_PREFIX
from langchain_convmem.records import Owner, Role, ThreadKey

Item: TypeAlias = dict[str, str]
"""Texts by attribute name."""
KeyRange: TypeAlias = tuple[str, str, str]
"""A partition, and the first and the last key of a closed range in it."""

# The step of positions from batch to batch: more entries than one call can bring, and small enough
# for positions of a full partition to be exact in JSON.
ENTRIES_PER_BATCH = 100_000_000
# Larger batches go into pieces, which are in no index: the service's limit of 400 KB is for an item
# together with its copy in the index by thread. A character of a piece takes up to four bytes.
INLINE_BYTES = 180 * 1024
PIECE_CHARACTERS = 100_000
GENERATION_KEY = "E"

LAST_NUMBER = 10**10 - 1
"""Of a batch; the service's limit of 10 GB comes long before."""
_UNNAMED = f"{DAMAGED_NAME}thread"
_ROLES = frozenset(get_args(Role))


def read_number(item: Item, name: str) -> int:
    """Return a whole number; 0 if it is missing or something else."""
    digits = item.get(name, "")
    return int(digits) if re.fullmatch("[0-9]{1,18}", digits) else 0


def read_bytes(item: Item, name: str) -> bytes:
    """Return bytes that were written as hexadecimal digits; none if they are something else."""
    with suppress(ValueError):
        return bytes.fromhex(item.get(name, ""))
    return b""


# -- keys -----------------------------------------------------------------------------------------


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def make_key(scope: Owner | ThreadKey, sort: str) -> Item:
    """Return the attributes that are the key of an item of an owner's."""
    return {"pk": make_partition_key(scope), "sk": sort}


def make_partition_key(scope: Owner | ThreadKey) -> str:
    """Return the partition of an owner, or of a thread's owner."""
    if scope.user_id is not None:
        return f"U#{_digest(scope.user_id)}"
    return f"T#{_digest(scope.thread_id or '')}"


def write_number(number: int) -> str:
    """Return the number of a batch as a part of keys, which sort as the numbers do."""
    return f"{number:012d}"


def make_batch_key(number: int) -> str:
    """Return the sort key of a batch."""
    return f"E#{write_number(number)}"


def make_thread_key(key: ThreadKey, number: int) -> str:
    """Return the key of a batch in the index by thread; within a thread it sorts by number."""
    return f"{_digest(key.thread_id)}#{write_number(number)}"


def make_batch_range(scope: Owner | ThreadKey, first: int, last: int) -> KeyRange:
    """Return the range of an owner's sort keys, or a thread's index keys, by number."""
    make = partial(make_thread_key, scope) if isinstance(scope, ThreadKey) else make_batch_key
    return make_partition_key(scope), make(first), make(last)


def make_range(kind: str, scope: Owner | ThreadKey, *parts: str) -> KeyRange:
    """Return the range of sort keys of a kind, `P` or `S`: of an owner, a thread or less.

    Args:
        kind: What the keys begin with.
        scope: Whose they are.
        *parts: What follows after the thread in each of them.
    """
    threads = (_digest(scope.thread_id),) if isinstance(scope, ThreadKey) else ()
    prefix = "#".join((kind, *threads, *parts))
    return make_partition_key(scope), f"{prefix}#", f"{prefix}$"


def make_version_range(key: ThreadKey, number: int, *token: str) -> KeyRange:
    """Return the range of sort keys of a batch's pieces, or of those that one write made."""
    return make_range("P", key, write_number(number), *token)


def read_piece_number(piece: Item) -> int:
    """Return the number of a piece's batch."""
    return int(piece["sk"].split("#")[2])


def make_state_key(key: ThreadKey, name: str) -> str:
    """Return the sort key of a thread's document."""
    kind = "cache" if name.startswith(CACHE_PREFIX) else "other"
    return f"S#{_digest(key.thread_id)}#{kind}#{_digest(name)}"


def compute_position(number: int, place: int) -> int:
    """Return the position of the entry at `place` (from 0) of the batch `number`."""
    return number * ENTRIES_PER_BATCH + place


def compute_number(position: int) -> int:
    """Return the number of the batch that holds `position`; 0 for one before all batches."""
    return min(max(position, 0) // ENTRIES_PER_BATCH, LAST_NUMBER)


# -- rows -----------------------------------------------------------------------------------------


def write_rows(rows: Iterable[Row], number: int) -> str:
    """Return the rows of the batch `number` as text: JSON has neither tabs nor ends of lines."""
    return "\n".join(_write_row(row, compute_position(number, 0)) for row in rows)


def _write_row(row: Row, start: int) -> str:
    turn = "" if row.turn_id == row.id else json.dumps(row.turn_id)
    signature = b85encode(row.signature).decode()
    place = str(row.position - start)
    return "\t".join((place, row.id, row.role, turn, row.metadata or "", signature, row.body))


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
        rows.append(make_damaged_row(free, f"entries in its batch: {len(rows)} instead of {size}"))
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


class Batch(NamedTuple):
    """A batch as its item has it: what one `append` wrote, or the mark that `forget` left of it.

    Attributes:
        key: Its thread; None for a mark.
        number: The owner's running number of it.
        item: The item.
        token: Names the write that made or changed it last.
        size: How many entries it holds; 0 if its item does not tell.
        pieces: How many pieces hold the rows; 0 where the item itself does.
    """

    key: ThreadKey | None
    number: int
    item: Item
    token: str = ""
    size: int = 0
    pieces: int = 0


def make_batch_items(
    key: ThreadKey, number: int, token: str, rows: Sequence[Row], key_id: bytes
) -> tuple[Item, list[Item]]:
    """Return the item of a batch and its pieces, if it needs any; see `Batch`."""
    ids = [row.id for row in rows if is_ulid(row.id)] or [token]
    item: Item = {
        **make_key(key, make_batch_key(number)),
        "tp": make_thread_key(key, number),
        "user_id": key.user_id or "",
        "thread_id": key.thread_id,
        "write_token": token,
        "entry_count": str(len(rows)),
        "first_id": min(ids),
        "last_id": max(ids),
        "key_id": key_id.hex(),
    }
    text = write_rows(rows, number)
    if len(text.encode()) <= INLINE_BYTES:
        return {**item, "rows": text}, []
    partition, begin, _ = make_version_range(key, number, token)
    starts = range(0, len(text), PIECE_CHARACTERS)
    pieces = [
        {
            "pk": partition,
            "sk": f"{begin}{part:05d}",
            "rows": text[start : start + PIECE_CHARACTERS],
        }
        for part, start in enumerate(starts)
    ]
    return {**item, "pieces": str(len(pieces))}, pieces


def read_batch(item: Item, scope: Owner | ThreadKey | None = None) -> Batch:
    """Return the batch of an item, with or without its rows.

    Args:
        item: The item.
        scope: Its thread or its owner, as far as that is known.
    """
    number, token = int(item["sk"].removeprefix("E#")), item.get("write_token", "")
    if "tp" not in item:
        return Batch(None, number, item, token)
    key = scope if isinstance(scope, ThreadKey) else read_thread(item)
    if key is None and scope is not None:
        key = ThreadKey(scope.user_id, scope.thread_id or _UNNAMED)
    is_sound = is_ulid(item.get("first_id", "")) and is_ulid(item.get("last_id", ""))
    size = read_number(item, "entry_count") if is_sound else 0
    return Batch(key, number, item, token, size, read_number(item, "pieces"))


def read_thread(item: Item) -> ThreadKey | None:
    """Return whose a batch is; None where its key does not match what it says.

    One whose key matches its user alone is of a thread with a name of its own.
    """
    named = item.get("thread_id", "")
    is_sound = _digest(named) == item["tp"].partition("#")[0]
    key = ThreadKey(item.get("user_id") or None, named if is_sound else _UNNAMED)
    return key if make_partition_key(key) == item["pk"] else None
