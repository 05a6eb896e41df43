"""Arrays of numbers that grow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray

_FIRST_CAPACITY = 64


class GrowableArray:
    """A NumPy array that grows at its end in amortised constant time. Not thread-safe."""

    def __init__(self, dtype: DTypeLike) -> None:
        """Create an empty array."""
        self._rows: NDArray[Any] = np.empty(0, dtype=dtype)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def extend(self, rows: ArrayLike) -> None:
        """Append numbers; a view taken before keeps showing the old ones alone."""
        added = np.asarray(rows, dtype=self._rows.dtype)
        needed = self._length + len(added)
        if needed > len(self._rows):
            capacity = max(needed, len(self._rows) * 3 // 2, _FIRST_CAPACITY)
            grown = np.empty(capacity, dtype=self._rows.dtype)
            grown[: self._length] = self.view
            self._rows = grown
        self._rows[self._length : needed] = added
        self._length = needed

    gather = extend

    def get_item(self, number: int) -> Any:
        """Return one number as a Python value."""
        return self._rows.item(number)

    def put(self, number: int, value: float) -> None:
        """Put another number in the place of one."""
        self._rows[number] = value

    @property
    def view(self) -> NDArray[Any]:
        """The numbers so far, writable, without a copy."""
        return self._rows[: self._length]
