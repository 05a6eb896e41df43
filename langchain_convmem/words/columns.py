"""Arrays of numbers that grow."""

from __future__ import annotations

from collections.abc import Iterable
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
        # Single numbers are gathered in a list, since NumPy takes as long for one as for a
        # hundred; whoever looks at the array finds them in it.
        self._pending: list[Any] = []

    def __len__(self) -> int:
        return self._length + len(self._pending)

    def gather(self, values: Iterable[float]) -> None:
        """Append Python numbers; they go into the array when somebody looks at it."""
        self._pending += values

    def extend(self, rows: ArrayLike) -> None:
        """Append numbers; a view taken before keeps showing the old ones alone."""
        if self._pending:
            self._settle()
        added = np.asarray(rows, dtype=self._rows.dtype)
        needed = self._length + len(added)
        if needed > len(self._rows):
            capacity = max(needed, len(self._rows) * 3 // 2, _FIRST_CAPACITY)
            grown = np.empty(capacity, dtype=self._rows.dtype)
            grown[: self._length] = self._rows[: self._length]
            self._rows = grown
        self._rows[self._length : needed] = added
        self._length = needed

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
        """The numbers so far, writable, without a copy."""
        if self._pending:
            self._settle()
        return self._rows[: self._length]
