"""ULIDs as text: increasing within a process, and derived ones that every process agrees on.

The ULID library draws fresh randomness per id in some of its versions and counts up in others;
here ids always increase, even when the clock steps back, and a forked child starts anew.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time

from ulid import ULID

_ULID_TEXT = re.compile("[0-7][0-9A-HJKMNP-TV-Z]{25}")
_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
# A log reads several ids per entry: int() knows the 32 digits under other letters.
_AS_BASE_32 = str.maketrans(_DIGITS, "0123456789abcdefghijklmnopqrstuv")
_TIME_DIGITS, _NUMBER_END = 10, 18
_RANDOM_BITS = 80
_NUMBER_BITS = 40
_NUMBER_MASK = (1 << _NUMBER_BITS) - 1
"""A numbered ULID holds its number in the upper half of its randomness."""


def get_now_ms() -> int:
    """Return the current time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def get_ulid_ms(ulid: str) -> int:
    """Return the time a ULID was created, in milliseconds since the epoch."""
    if _ULID_TEXT.fullmatch(ulid) is not None:  # `is_ulid`, at every read of every entry
        return int(ulid[:_TIME_DIGITS].translate(_AS_BASE_32), 32)
    return int(ULID.from_str(ulid).milliseconds)  # other spellings, or a refusal


def is_ulid(text: str) -> bool:
    """Return whether `text` is a ULID in its canonical form."""
    return _ULID_TEXT.fullmatch(text) is not None


def _format_ulid(value: int) -> str:
    return str(ULID.from_int(value))


class UlidClock:
    """Hands out increasing ULIDs; thread-safe, and safe after fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0
        self._pid = 0

    def advance(self) -> int:
        """Return the next ULID as a number."""
        with self._lock:
            # A forked child must not count up from the parent's last value as its siblings do.
            if self._pid != os.getpid():
                self._pid, self._last = os.getpid(), 0
            fresh = get_now_ms() << _RANDOM_BITS | int.from_bytes(os.urandom(10), "big") >> 1
            if fresh >> _RANDOM_BITS <= self._last >> _RANDOM_BITS:
                fresh = self._last + 1
            self._last = fresh
        return fresh


CLOCK = UlidClock()
"""Where all ids of the process come from."""
if hasattr(os, "register_at_fork"):
    # The lock may be held by another thread of the parent at the moment of the fork.
    os.register_at_fork(after_in_child=CLOCK.__init__)  # type: ignore[misc]


def make_ulid() -> str:
    """Return a new ULID (26 characters), greater than every earlier one of this process."""
    return _format_ulid(CLOCK.advance())


def make_numbered_ulid(number: int) -> str:
    """Return a new ULID that `get_ulid_number` reads `number` from; half of its randomness is left.

    Among those of one time the higher number sorts after the lower.
    """
    fresh = CLOCK.advance()
    time_bits = fresh >> _RANDOM_BITS << _RANDOM_BITS
    return _format_ulid(time_bits | (number & _NUMBER_MASK) << _NUMBER_BITS | fresh & _NUMBER_MASK)


def get_ulid_number(ulid: str) -> int:
    """Return the number of a numbered ULID; of any other one, a number that means nothing."""
    return int(ulid[_TIME_DIGITS:_NUMBER_END].translate(_AS_BASE_32), 32)


def derive_ulid(at_ms: int, *parts: str | None) -> str:
    """Return the ULID of `at_ms` whose randomness is a hash of `parts`: the same everywhere."""
    digest = hashlib.blake2b(digest_size=10)
    for part in parts:
        # Lengths keep ("ab", "c") apart from ("a", "bc"), whatever characters the parts hold.
        text = b"" if part is None else part.encode("utf-8", "surrogatepass")
        digest.update(f"{-1 if part is None else len(text)}:".encode() + text)
    return _format_ulid(max(at_ms, 0) << _RANDOM_BITS | int.from_bytes(digest.digest(), "big"))
