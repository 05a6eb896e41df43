"""Entries that were decoded lately: a thread is read at every turn, and hardly changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langchain_convmem.logs.rows import entry_of
from langchain_convmem.logs.sqlite.rows import row_of
from langchain_convmem.records import Entry, ThreadKey

__all__ = ["DecodedEntries"]

_MOST = 4096
_LONGEST_BODY = 20_000


class DecodedEntries:
    """Entries by what their rows hold; rows that changed are decoded anew. Thread-safe.

    Who gets them shares them with others, and must not change them.
    """

    def __init__(self, most: int = _MOST) -> None:
        """Keep at most about so many; those that were decoded first go first."""
        self._most = most
        # Single operations on a dict need no lock, which a fork could leave held.
        self._kept: dict[int, tuple[ThreadKey, Sequence[Any], Entry]] = {}
        self._epoch: int | None = None

    def clear(self) -> None:
        """Let go of all."""
        self._kept = {}

    def of(self, key: ThreadKey, found: Iterable[Sequence[Any]], epoch: int) -> list[Entry]:
        """Return the entries of rows.

        Args:
            key: Their thread.
            found: The `COLUMNS` of each.
            epoch: Number of the file's last `forget`: what another process has forgotten must not
                stay in the memory of this one.

        Raises:
            CorruptEntryError: If a row cannot be read.
        """
        if epoch != self._epoch:
            self.clear()
            self._epoch = epoch
        return [self._of(key, columns) for columns in found]

    def _of(self, key: ThreadKey, columns: Sequence[Any]) -> Entry:
        position = columns[0]
        known = self._kept.get(position)
        if known is not None and known[1] == columns and known[0] == key:
            return known[2]
        entry = entry_of(key, row_of(columns, key.thread_id))
        if len(columns[4]) <= _LONGEST_BODY:
            self._kept[position] = (key, columns, entry)
            self._make_room()
        return entry

    def _make_room(self) -> None:
        kept = self._kept
        if len(kept) > self._most:
            for position in list(kept)[: self._most // 4]:
                kept.pop(position, None)
