"""What an index holds already, by text: "ok" is embedded once, however often it is said."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from langchain_convmem.recall.indexes.segment_table import SegmentTable
from langchain_convmem.recall.indexes.vectors import SegmentVectors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["KnownTexts"]

_MOST = 100_000


class KnownTexts:
    """Finds the vector of a text among the segments of an index. Not thread-safe.

    It keeps a number for each text, of the latest ones: texts and vectors stay where they are. And
    it does so from the first question on only, since most indexes find all they need stored.
    """

    def __init__(self, table: SegmentTable, vectors: SegmentVectors) -> None:
        """Create a register of the texts of `table`, which have their vectors in `vectors`."""
        self._table = table
        self._vectors = vectors
        self._numbers: dict[int, int] | None = None

    def __len__(self) -> int:
        """Return how many segments there are to know."""
        return len(self._vectors)

    def learn(self, numbers: Iterable[int]) -> None:
        """Take in those of the segments that have a vector by now; the oldest texts leave."""
        if self._numbers is None:
            return
        for number in numbers:
            if self._vectors.present[number]:
                self._numbers[hash(self._table.text(number))] = number
        while len(self._numbers) > _MOST:
            del self._numbers[next(iter(self._numbers))]

    def vector(self, text: str) -> NDArray[np.float16] | None:
        """Return the vector of a segment that says exactly this, if one is known."""
        if self._numbers is None:
            self._numbers = {}
            self.learn(range(len(self._vectors)))
        number = self._numbers.get(hash(text))
        # Two texts may share a hash.
        if number is None or self._table.text(number) != text:
            return None
        return self._vectors.row(number)
