"""Which segments stand beside which: in their thread, and within their sitting. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from langchain_convmem.recall.indexes.growable import Growable

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Links", "Neighbours", "Sides"]


@dataclass(frozen=True, slots=True)
class Links:
    """The segment before and behind each segment, by number; -1 for none."""

    before: NDArray[np.int64]
    behind: NDArray[np.int64]


class Sides:
    """The neighbours of each segment, as columns that grow; -1 for none."""

    def __init__(self) -> None:
        """Create empty columns."""
        self.before = Growable(np.int64)
        self.behind = Growable(np.int64)

    def of(self, number: int) -> tuple[int, int]:
        """Return the neighbours of one segment."""
        return self.before.at(number), self.behind.at(number)

    def links(self) -> Links:
        """Return the neighbours of all segments; do not write."""
        return Links(self.before.view, self.behind.view)


class Neighbours:
    """The segments beside each segment. Removing one closes the gap. Not thread-safe."""

    def __init__(self) -> None:
        """Create it without any segment."""
        self.in_thread = Sides()
        """The neighbours that each segment has in its thread."""
        self.in_sitting = Sides()
        """Those of them that belong to its sitting."""
        self._sitting = Growable(np.int64)
        self._last_of_thread: dict[int, int] = {}
        # Where each sitting starts, as long as all of them stand side by side.
        self._starts = Growable(np.int64)
        self._is_in_rows = True

    def __len__(self) -> int:
        """Return how many segments were added, removed ones included."""
        return len(self._sitting)

    # -- writing -----------------------------------------------------------------------------

    def add(self, threads: Sequence[int], sittings: Sequence[int]) -> None:
        """Append segments, each behind the last one of its thread.

        Args:
            threads: The thread of each, by number.
            sittings: And the sitting.
        """
        first, last_of = len(self), self._last_of_thread
        before, behind, before_in, behind_in = ([-1] * len(threads) for _ in range(4))
        # Where fresh ones follow earlier ones, or nothing.
        seams: list[tuple[int, int]] = []
        for at, (thread, sitting) in enumerate(zip(threads, sittings, strict=True)):
            last, number = last_of.get(thread, -1), first + at
            last_of[thread] = number
            if last < first:
                seams.append((last, number))
                continue
            before[at] = last
            behind[last - first] = number
            if sitting == sittings[last - first]:
                before_in[at] = last
                behind_in[last - first] = number
                self._is_in_rows &= number == last + 1
        self._sitting.gather(sittings)
        self.in_thread.before.gather(before)
        self.in_thread.behind.gather(behind)
        self.in_sitting.before.gather(before_in)
        self.in_sitting.behind.gather(behind_in)
        for last, number in seams:
            self._join(last, number)
            before_in[number - first] = self.in_sitting.before.at(number)
        self._starts.gather([at for at, last in enumerate(before_in, first) if last < 0])

    def remove(self, number: int, thread: int) -> None:
        """Take out a segment of a thread, which is there: its neighbours become each other's."""
        before, behind = self.in_thread.of(number)
        self._is_in_rows = False
        self._join(before, behind)
        if self._last_of_thread[thread] == number:
            self._last_of_thread[thread] = before
        self._join(-1, number)
        self._join(number, -1)

    def _join(self, before: int, behind: int) -> None:
        """Make two segments neighbours; -1 stands for the end of the thread."""
        sitting = self._sitting
        together = before >= 0 and behind >= 0 and sitting.at(before) == sitting.at(behind)
        self._is_in_rows &= not together or behind == before + 1
        if before >= 0:
            self.in_thread.behind.put(before, behind)
            self.in_sitting.behind.put(before, behind if together else -1)
        if behind >= 0:
            self.in_thread.before.put(behind, before)
            self.in_sitting.before.put(behind, before if together else -1)

    # -- reading -----------------------------------------------------------------------------

    @property
    def sittings(self) -> NDArray[np.int64]:
        """The sitting of each segment; do not write."""
        return self._sitting.view

    def starts(self) -> NDArray[np.int64] | None:
        """Return where each sitting starts if every one is a row of segments side by side.

        None where one is not, or some were removed: several threads may go on at once. Do not
        write.
        """
        return self._starts.view if self._is_in_rows else None
