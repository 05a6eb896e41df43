"""Snapshots: an index as bytes, which a new process opens in a fraction of the time.

Without one, an index is made of the rows that its log keeps of each line. With one, only what came
after it is read. What a snapshot holds is a copy: wherever it does not fit, the index is made anew.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from langchain_convmem.causes import report_problem
from langchain_convmem.errors import LogClosedError, LogError
from langchain_convmem.recall.segments import SegmentTable
from langchain_convmem.recall.vectors import SegmentVectors
from langchain_convmem.records import Owner
from langchain_convmem.words.analysis import ANALYSIS_VERSION
from langchain_convmem.words.bm25 import LexicalIndex
from langchain_convmem.words.columns import SavedColumns

if TYPE_CHECKING:
    from langchain_convmem.message_log import MessageLog

_log = logging.getLogger("langchain_convmem")

SNAPSHOT_VERSION = 2
"""Of the form in which an index is written. Raise it with every change of that."""
LEAST = 64
"""So many segments at least: fewer are read nearly as fast without."""
SHARE = 10
"""A snapshot is made anew once an index has grown by this part of it, and by the least."""


class SnapshotStore:
    """The snapshot of one index in its log. Thread-safe as far as one caller saves at a time.

    The border to a log's snapshots: where these fail, an index goes on without.
    """

    def __init__(self, log: MessageLog, owners: Sequence[Owner]) -> None:
        """Create the store; an index of several owners has no snapshot."""
        self._owner = owners[0]
        self._log = log if len(owners) == 1 and log.keeps_segments else None
        self._saved = 0

    def load(self, fingerprint: str) -> tuple[SavedColumns, int] | None:
        """Return what is kept of an index, and the log's generation then; None if nothing is.

        Args:
            fingerprint: What made its vectors; see `SegmentStore.fingerprint`.
        """
        if self._log is None:
            return None
        try:
            found = self._log.load_snapshot(self._owner, _make_name(fingerprint))
        except LogError as error:
            # Whether the log can be read, the next step says.
            report_problem(_log, "the snapshot of an index could not be read", error)
            return None
        return None if found is None else (SavedColumns.load(found[0]), found[1])

    def note(self, segments: int) -> None:
        """Note that what is kept has so many segments."""
        self._saved = segments

    def is_due(self, segments: int) -> bool:
        """Return whether an index of so many segments is to be saved."""
        grown = segments - self._saved
        return self._log is not None and grown >= max(LEAST, self._saved // SHARE)

    def save(self, fingerprint: str, columns: SavedColumns, generation: int) -> None:
        """Keep an index; after a failure, no more is tried.

        Raises:
            LogClosedError: If the log is closed.
        """
        if self._log is None:
            return
        data = columns.dump()
        try:
            self._log.save_snapshot(self._owner, _make_name(fingerprint), data, generation)
        except LogClosedError:
            raise
        except LogError as error:
            self._log = None
            report_problem(_log, "the snapshot of an index could not be stored", error)


class IndexParts(NamedTuple):
    """What an index is made of, by segment number each."""

    table: SegmentTable
    lexical: LexicalIndex
    vectors: SegmentVectors


def save_parts(parts: IndexParts, columns: SavedColumns) -> None:
    """Add copies of all but the lines, which the table tells how to pack."""
    parts.table.save_to(columns)
    parts.lexical.save_to(columns)
    parts.vectors.save_to(columns, parts.table.line_column)


def load_parts(columns: SavedColumns, vectors: SegmentVectors) -> IndexParts | None:
    """Return what was saved; None if it does not fit.

    Args:
        columns: What `save_parts` has added, and the packed lines.
        vectors: Empty, as they are wanted now: whoever saved theirs may have wanted other bits.
    """
    try:
        table, lexical = SegmentTable.load_from(columns), LexicalIndex.load_from(columns)
        vectors.load_from(columns)
    except (KeyError, ValueError) as error:
        _log.info("the snapshot of an index does not fit: %s", type(error).__name__)
        return None
    return IndexParts(table, lexical, vectors)


def _make_name(fingerprint: str) -> str:
    """Return what tells how a snapshot is made."""
    return f"{SNAPSHOT_VERSION}/{sys.byteorder}/terms-{ANALYSIS_VERSION}/{fingerprint}"
