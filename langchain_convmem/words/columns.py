"""Columns of numbers: arrays that grow, and their form as bytes that can be stored."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray

Buffer: TypeAlias = bytes | bytearray | memoryview


# -- an array that grows -----------------------------------------------------------------------

_FIRST_CAPACITY = 64


class GrowableArray:
    """A NumPy array that grows at its end in amortised constant time. Not thread-safe."""

    def __init__(self, dtype: DTypeLike, width: int | None = None) -> None:
        """Create an empty array of numbers, or of rows of `width` numbers."""
        self._tail = () if width is None else (width,)
        self._rows: NDArray[Any] = np.empty((0, *self._tail), dtype=dtype)
        self._length = 0
        # Single numbers are gathered in a list, since NumPy takes as long for one as for a
        # hundred; whoever looks at the array finds them in it.
        self._pending: list[Any] = []

    @classmethod
    def from_rows(cls, rows: NDArray[Any]) -> GrowableArray:
        """Return an array that begins with these rows, which are its own from now on."""
        made = cls(rows.dtype, *rows.shape[1:])
        made._rows = rows if rows.flags.writeable else rows.copy()
        made._length = len(rows)
        return made

    def __len__(self) -> int:
        return self._length + len(self._pending)

    def append(self, value: float) -> None:
        """Append one number."""
        self._pending.append(value)

    def gather(self, values: Iterable[float]) -> None:
        """Append Python numbers; they go into the array when somebody looks at it."""
        self._pending += values

    def extend(self, rows: ArrayLike) -> None:
        """Append rows; a view taken before keeps showing the old ones alone."""
        if self._pending:
            self._settle()
        added = np.asarray(rows, dtype=self._rows.dtype).reshape(-1, *self._tail)
        needed = self._length + len(added)
        self.reserve(needed)
        self._rows[self._length : needed] = added
        self._length = needed

    def reserve(self, length: int) -> None:
        """Make room for so many rows in all, which takes less time than growing to it in steps."""
        if length > len(self._rows):
            capacity = max(length, len(self._rows) * 3 // 2, _FIRST_CAPACITY)
            grown = np.empty((capacity, *self._tail), dtype=self._rows.dtype)
            grown[: self._length] = self._rows[: self._length]
            self._rows = grown

    def _settle(self) -> None:
        pending, self._pending = self._pending, []
        self.extend(pending)

    def get_item(self, number: int) -> Any:
        """Return one number as a Python value."""
        if number < self._length:
            return self._rows.item(number)
        return self._pending[number - self._length]

    def put(self, number: int, value: float) -> None:
        """Put another number in the place of one."""
        if number < self._length:
            self._rows[number] = value
        else:
            self._pending[number - self._length] = value

    @property
    def view(self) -> NDArray[Any]:
        """The rows so far, writable, without a copy."""
        if self._pending:
            self._settle()
        return self._rows[: self._length]


# -- columns as bytes --------------------------------------------------------------------------


_NARROW: dict[bytes, type[np.unsignedinteger[Any]]] = {
    b"1": np.uint8,
    b"2": np.uint16,
    b"4": np.uint32,
    b"8": np.uint64,
}
"""Types of numbers by how many bytes each takes, as the first byte of a column says.

The least number follows, and then how much larger each is.
"""
_LEAST_BYTES = 8


class SavedColumns:
    """Named columns and small values, as bytes. Not thread-safe.

    What reads a column has to know its type: nothing but its bytes is kept.
    """

    def __init__(self) -> None:
        """Create an empty set of columns."""
        self.parts: dict[str, Buffer] = {}
        """The bytes by name."""

    @classmethod
    def load(cls, data: bytes) -> Self:
        """Return the columns that `dump` wrote, without copying them."""
        end = data.index(b"\n")
        place, parts = end + 1, cls()
        for name, size in json.loads(data[:end]).items():
            parts.parts[name] = memoryview(data)[place : place + size]
            place += size
        return parts

    def dump(self) -> bytes:
        """Return all columns in one piece."""
        sizes = json.dumps({name: len(data) for name, data in self.parts.items()})
        return b"\n".join([sizes.encode("ascii"), b"".join(self.parts.values())])

    def put(self, name: str, values: ArrayLike) -> None:
        """Add a copy of a column."""
        self.parts[name] = np.asarray(values).tobytes()

    def put_narrow(self, name: str, values: ArrayLike) -> None:
        """Add a copy of a column of whole numbers, in as few bytes as they differ in."""
        numbers = np.asarray(values, dtype=np.int64)
        least, most = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
        code = next(code for code, kind in _NARROW.items() if most - least <= np.iinfo(kind).max)
        head = code + least.to_bytes(_LEAST_BYTES, "little", signed=True)
        # Of unsigned numbers no difference is too large.
        rest = numbers.view(np.uint64) - np.int64(least).view(np.uint64)
        self.parts[name] = head + rest.astype(_NARROW[code]).tobytes()

    def get_narrow(self, name: str, dtype: DTypeLike = np.int64) -> NDArray[Any]:
        """Return a copy of what `put_narrow` was given, as numbers of some type.

        Raises:
            KeyError: If there is none of this name, or no such column.
            ValueError: If its bytes are no whole number of numbers.
        """
        data = memoryview(self.parts[name])
        first = 1 + _LEAST_BYTES
        found = np.frombuffer(data[first:], dtype=_NARROW[bytes(data[:1])]).astype(dtype)
        least = int.from_bytes(data[1:first], "little", signed=True)
        if least:
            found += np.array(least).astype(dtype)
        return found

    def get(self, name: str, dtype: DTypeLike, width: int | None = None) -> NDArray[Any]:
        """Return a column of numbers, or of rows of `width` numbers, without a copy.

        It can be written if its bytes can.

        Raises:
            KeyError: If there is none of this name.
            ValueError: If its bytes are no whole number of these.
        """
        found = np.frombuffer(self.parts[name], dtype=dtype)
        return found if width is None else found.reshape(-1, width)

    def get_growable(self, name: str, dtype: DTypeLike, width: int | None = None) -> GrowableArray:
        """Return a column that can grow; see `get`."""
        return GrowableArray.from_rows(self.get(name, dtype, width))

    def get_numbers(self, kind: str, name: str) -> array[int]:
        """Return a copy of what `put_narrow` was given, as Python reads single numbers fastest.

        Args:
            kind: The type code of its numbers; see `array`.
            name: Of the column.
        """
        found = array(kind)
        found.frombytes(self.get_narrow(name, kind).view(np.uint8).data)
        return found

    def put_value(self, name: str, value: Any) -> None:
        """Add what JSON can tell."""
        self.parts[name] = json.dumps(value, separators=(",", ":")).encode("ascii")

    def get_value(self, name: str) -> Any:
        """Return what `put_value` was given, tuples as lists.

        Raises:
            KeyError: If there is none of this name.
            ValueError: If it is no JSON.
        """
        return json.loads(bytes(self.parts[name]))

    def put_words(self, name: str, words: Iterable[str]) -> None:
        """Add words without blanks."""
        self.parts[name] = " ".join(words).encode("utf-8", "surrogatepass")

    def get_words(self, name: str) -> list[str]:
        """Return words in the order in which they were put."""
        words = str(self.parts[name], "utf-8", "surrogatepass")
        return words.split(" ") if words else []
