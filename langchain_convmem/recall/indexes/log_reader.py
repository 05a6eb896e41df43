"""Reading one owner's part of a log, from where the last reading stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from langchain_convmem.protocols import LineSource, MessageLog, speaks_for
from langchain_convmem.records import DialogLine, Entry, LineChanges, Owner
from langchain_convmem.views.lines import dialog_lines
from langchain_convmem.views.live import retracted_ids

__all__ = ["LogReader"]

_PAGE = 4000
"""Entries at once: a log may look at all that are left to find them, and what is read at once
waits in memory."""


class LogReader:
    """How far an owner's log has been read, and what its control entries retract.

    Not thread-safe.
    """

    def __init__(self, log: MessageLog, owner: Owner) -> None:
        """Create a reader that has read nothing yet."""
        self.owner = owner
        self._line_changes = _reading_of(log)
        self._generation: int | None = None
        self.rewind()

    def rewind(self) -> None:
        """Read from the beginning next time."""
        self._cursor = 0
        self._controls: list[Entry] = []
        self._retracted: frozenset[str] = frozenset()

    def read(self, take: Callable[[Sequence[DialogLine]], object]) -> bool:
        """Give the lines that the log has new to `take`, in commit order.

        Returns:
            False at the end of the log; True when the log forgot something of what was read
            earlier: then everything is to be read again, after `rewind`.

        Raises:
            LogError: If the log cannot be read; the next call goes on where this one stopped.
        """
        while True:
            changes = self._line_changes(self.owner, self._cursor, limit=_PAGE)
            if changes.generation != self._generation:
                self._generation = changes.generation
                if self._cursor > 0:
                    return True
            if changes.cursor == self._cursor:
                return False
            self._cursor = changes.cursor
            if changes.controls:
                self._controls += changes.controls
                self._retracted = retracted_ids(self._controls)
            take(changes.lines)
            if changes.is_last:
                return False

    def retracted(self) -> frozenset[str]:
        """Return the ids of the entries that were read and count no more.

        The same object as long as no further control entry is read.
        """
        return self._retracted


class _Reading(Protocol):
    def __call__(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> LineChanges:
        """Return lines as `LineSource.line_changes` does."""
        ...


def _reading_of(log: MessageLog) -> _Reading:
    """Return how lines are read from a log."""
    if isinstance(log, LineSource) and speaks_for(log, "line_changes", "changes"):
        return log.line_changes

    def from_entries(owner: Owner, cursor: int = 0, *, limit: int | None = None) -> LineChanges:
        changes = log.changes(owner, cursor, limit=limit)
        return LineChanges(
            tuple(line for entry in changes.entries for line in dialog_lines(entry)),
            tuple(entry for entry in changes.entries if entry.control is not None),
            # Without entries the log has ended, wherever it says that its cursor is.
            changes.cursor if changes.entries else cursor,
            changes.generation,
        )

    return from_entries
