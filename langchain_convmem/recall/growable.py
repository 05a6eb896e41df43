"""A NumPy array that grows at its end in amortised constant time. Not thread-safe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray

__all__ = ["Growable"]

_FIRST_CAPACITY = 64


class Growable:
    """Rows of one type behind one another."""

    def __init__(self, dtype: DTypeLike, width: int | None = None) -> None:
        """Create an empty array of numbers, or of rows of `width` numbers."""
        self._tail = () if width is None else (width,)
        self._rows: NDArray[Any] = np.empty((0, *self._tail), dtype=dtype)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def extend(self, rows: ArrayLike) -> None:
        """Append rows; a view taken before keeps showing the old ones alone."""
        added = np.asarray(rows, dtype=self._rows.dtype).reshape(-1, *self._tail)
        needed = self._length + len(added)
        if needed > len(self._rows):
            capacity = max(needed, len(self._rows) * 3 // 2, _FIRST_CAPACITY)
            grown = np.empty((capacity, *self._tail), dtype=self._rows.dtype)
            grown[: self._length] = self.view
            self._rows = grown
        self._rows[self._length : needed] = added
        self._length = needed

    @property
    def view(self) -> NDArray[Any]:
        """The rows so far, writable, without a copy."""
        return self._rows[: self._length]
