"""Reading one owner's part of a log, from where the last reading stopped."""

from __future__ import annotations

from collections.abc import Callable

from langchain_convmem.protocols import MessageLog
from langchain_convmem.records import Entry, Owner
from langchain_convmem.views.live import retracted_ids

__all__ = ["LogReader"]

_PAGE = 2000


class LogReader:
    """How far an owner's log has been read, and what its control entries retract.

    Not thread-safe.
    """

    def __init__(self, log: MessageLog, owner: Owner) -> None:
        """Create a reader that has read nothing yet."""
        self.owner = owner
        self._log = log
        self._generation: int | None = None
        self.rewind()

    def rewind(self) -> None:
        """Read from the beginning next time."""
        self._cursor = 0
        self._controls: list[Entry] = []

    def read(self, take: Callable[[Entry], None]) -> bool:
        """Give what the log has new to `take`, in commit order.

        Returns:
            False at the end of the log; True when the log forgot something of what was read
            earlier: then everything is to be read again, after `rewind`.

        Raises:
            LogError: If the log cannot be read; the next call goes on where this one stopped.
        """
        while True:
            changes = self._log.changes(self.owner, self._cursor, limit=_PAGE)
            if changes.generation != self._generation:
                self._generation = changes.generation
                if self._cursor > 0:
                    return True
            self._cursor = changes.cursor
            if not changes.entries:
                return False
            for entry in changes.entries:
                if entry.control is not None:
                    self._controls.append(entry)
                take(entry)

    def retracted(self) -> frozenset[str]:
        """Return the ids of the entries that were read and count no more."""
        return retracted_ids(self._controls)
