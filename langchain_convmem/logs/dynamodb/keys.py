"""Keys and numbers of the DynamoDB layout: pure functions, no I/O.

A partition holds everything of one owner, under sort keys of four kinds::

    E                     the generation, written by `forget` only
    E#<number>            a batch of entries; its thread key puts it into the index by thread
    P#<revision>#<part>   a piece of a batch that is too large for one item
    S#<thread>#<name>     a state document

A batch's number is the newest number of its owner plus one. Positions are made of both:
`number * ENTRIES_PER_BATCH + place in the batch`.
"""

from __future__ import annotations

import hashlib

from langchain_convmem.errors import ConfigError
from langchain_convmem.protocols import CACHE_PREFIX
from langchain_convmem.records import Owner, ThreadKey

__all__ = [
    "ENTRIES_PER_BATCH",
    "GENERATION_KEY",
    "LONE_PREFIX",
    "PIECE_RANGE",
    "STATE_RANGE",
    "base_number",
    "batch_key",
    "batch_range",
    "cache_range",
    "is_hashed",
    "next_number",
    "number_of",
    "owner_of",
    "partition_key",
    "piece_key",
    "piece_prefix",
    "position_of",
    "revision_of",
    "state_key",
    "state_prefix",
    "state_range",
    "thread_entry_key",
    "thread_range",
]

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
"""Sorts behind the separator and behind every digit."""
_AFTER_SEPARATOR = "$"
"""The character that follows the separator."""
_BATCHES_PER_DAY = 100_000
_MAX_NUMBER = 10**12 - 1
"""The largest number of as many digits as keys have."""
_DAY_MS = 86_400_000
_MAX_PARTITION_BYTES = 1900
_MAX_THREAD_BYTES = 600
_MAX_NAME_BYTES = 300
# The service allows 2,048 bytes for a partition key and 1,024 for a sort key.


def partition_key(owner: Owner) -> str:
    """Return the partition of an owner; no two owners share one, whatever their ids hold.

    A very long id is replaced by its hash.
    """
    kind, name = _kind_and_name(owner)
    return f"{kind}={_digest(name)}" if is_hashed(owner) else f"{kind}#{name}"


def is_hashed(owner: Owner) -> bool:
    """Return whether the owner's id is too long for a key, which then holds its hash."""
    return _size(_kind_and_name(owner)[1]) > _MAX_PARTITION_BYTES


def _kind_and_name(owner: Owner) -> tuple[str, str]:
    if owner.user_id is not None:
        return "U", owner.user_id
    return LONE_PREFIX, owner.thread_id or ""


def owner_of(partition: str, thread_id: str, user_id: str) -> Owner:
    """Return the owner of a partition.

    Args:
        partition: Its key.
        thread_id: A thread in it.
        user_id: The user, where the key is made of a hash.
    """
    if partition.startswith(LONE_PREFIX):
        return Owner(thread_id=thread_id)
    return Owner(user_id=partition[2:] if partition.startswith("U#") else user_id)


def _size(name: str) -> int:
    try:
        return len(name.encode())
    except UnicodeEncodeError as error:
        raise ConfigError(f"the id {name!r} is no valid Unicode: {error.reason}") from error


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=32).hexdigest()


def _part(text: str, limit: int) -> str:
    """Return `text` without the separator, so that no key is the beginning of another."""
    escaped = text.replace("%", "%25").replace("#", "%23")
    return f"%={_digest(text)}" if _size(escaped) > limit else escaped


# -- batches ------------------------------------------------------------------------------------


def batch_key(number: int) -> str:
    """Return the sort key of the batch `number`; sorts as the numbers do."""
    return f"E#{number:012d}"


def batch_range(first: int = 0) -> tuple[str, str]:
    """Return the closed range of sort keys of all batches from `first` on."""
    return batch_key(first), f"E#{_AFTER_ALL}"


def thread_entry_key(key: ThreadKey, number: int) -> str:
    """Return the key of a batch in the index by thread; within a thread it sorts by number."""
    return f"{_part(key.thread_id, _MAX_THREAD_BYTES)}#{number:012d}"


def thread_range(key: ThreadKey, first: int = 0, last: int | None = None) -> tuple[str, str]:
    """Return the closed range of index keys of a thread's batches from `first` up to `last`."""
    behind = f"{_part(key.thread_id, _MAX_THREAD_BYTES)}#{_AFTER_ALL}"
    return thread_entry_key(key, first), behind if last is None else thread_entry_key(key, last)


def position_of(number: int, place: int) -> int:
    """Return the position of the entry at `place` (from 0) of the batch `number`."""
    return number * ENTRIES_PER_BATCH + place


def number_of(position: int) -> int:
    """Return the number of the batch that holds `position`; 0 for one before all batches."""
    return min(max(position, 0) // ENTRIES_PER_BATCH, _MAX_NUMBER)


def base_number(now_ms: int) -> int:
    """Return the number that an owner without batches begins with, the same for a whole day.

    It lies above every number of earlier days, so that numbers are not used twice although nothing
    is kept of an owner whose items have all expired or been erased.
    """
    return max(now_ms // _DAY_MS, 1) * _BATCHES_PER_DAY


def next_number(newest: int | None, *, is_over: bool, now_ms: int) -> int:
    """Return the number of the next batch.

    Args:
        newest: The owner's newest number, if there is any.
        is_over: The newest batch has expired: newer ones may have been there and be gone.
        now_ms: Milliseconds since the epoch.
    """
    if newest is None:
        return base_number(now_ms)
    return max(newest + 1, base_number(now_ms)) if is_over else newest + 1


# -- pieces and documents -----------------------------------------------------------------------


def piece_prefix(revision: str) -> str:
    """Return how the sort keys of a batch's pieces begin."""
    return f"P#{revision}#"


def piece_key(revision: str, part: int) -> str:
    """Return the sort key of a piece; sorts by `part`, which counts from 0."""
    return f"{piece_prefix(revision)}{part:05d}"


def revision_of(key: str) -> str:
    """Return the revision that a piece's sort key names."""
    return key.split("#")[1]


def state_prefix(key: ThreadKey) -> str:
    """Return how the sort keys of a thread's documents begin."""
    return f"S#{_part(key.thread_id, _MAX_THREAD_BYTES)}#"


def state_range(key: ThreadKey) -> tuple[str, str]:
    """Return the closed range of sort keys of a thread's documents."""
    prefix = state_prefix(key)
    return prefix, prefix[:-1] + _AFTER_SEPARATOR


def cache_range(key: ThreadKey) -> tuple[str, str]:
    """Return a closed range of sort keys of a thread's documents that are caches.

    Its first bound is how they all begin; the last one may itself be the key of another document.
    """
    prefix = state_prefix(key) + CACHE_PREFIX
    return prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)


def state_key(key: ThreadKey, name: str) -> str:
    """Return the sort key of a thread's document; that of a cache can be told by its beginning.

    Raises:
        ConfigError: If the name holds lone surrogates.
    """
    rest = name.removeprefix(CACHE_PREFIX)
    return state_prefix(key) + name[: len(name) - len(rest)] + _part(rest, _MAX_NAME_BYTES)
