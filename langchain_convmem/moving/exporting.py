"""Everything about one user, as lines of JSON; `exported` says what a line holds."""

from __future__ import annotations

from collections.abc import Iterator

from langchain_convmem.moving.exported import entry_row
from langchain_convmem.protocols import MessageLog
from langchain_convmem.records import Owner

__all__ = ["export_rows"]

_PAGE = 500
"""Entries per read."""


def export_rows(log: MessageLog, owner: Owner, *, thread_id: str | None = None) -> Iterator[str]:
    """Yield one line per entry, without line ends, in the order in which they were written.

    `read_threads` reads a file of these lines, and `store_thread` writes what it read to any log:
    messages, metadata, edits and summaries come back as they were.

    Args:
        log: Where from.
        owner: Whose entries.
        thread_id: Those of this thread only.
    """
    cursor = 0
    while (page := log.changes(owner, cursor, limit=_PAGE)).entries:
        for entry in page.entries:
            if thread_id in (None, entry.key.thread_id):
                yield entry_row(entry)
        cursor = page.cursor
