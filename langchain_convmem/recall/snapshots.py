"""Snapshots: an index as bytes, which a new process opens in a fraction of the time.

Without one, an index is made of the rows that its log keeps of each line. With one, only what came
after it is read. What a snapshot holds is a copy: wherever it does not fit, the index is made anew.
"""

from __future__ import annotations

import io
import json
import logging
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from langchain_convmem.causes import report_problem
from langchain_convmem.errors import ConfigError, LogClosedError, LogError
from langchain_convmem.recall.segments import SegmentTable
from langchain_convmem.recall.vectors import SegmentVectors
from langchain_convmem.records import DialogLine, Owner, ThreadKey
from langchain_convmem.words.analysis import ANALYSIS_VERSION
from langchain_convmem.words.bm25 import LexicalIndex

if TYPE_CHECKING:
    from langchain_convmem.message_log import MessageLog

_log = logging.getLogger("langchain_convmem")

_VERSION = 3
"""Of the form in which an index is written. Raise it with every change of that."""
_LEAST = 64
"""So many segments at least: fewer are read nearly as fast without."""
_SHARE = 10
"""A snapshot is made anew once an index has grown by this part of it, and by the least."""


class IndexParts(NamedTuple):
    """What an index is made of, by segment number each, and how far its log was read."""

    table: SegmentTable
    lexical: LexicalIndex
    vectors: SegmentVectors
    reader: list[Any]


class SnapshotStore:
    """The snapshot of one index in its log. Thread-safe as far as one caller saves at a time.

    The border to a log's snapshots: where these fail, an index goes on without.
    """

    def __init__(self, log: MessageLog, owners: Sequence[Owner], fingerprint: str) -> None:
        """Create the store; an index of several owners has no snapshot.

        Args:
            log: Where it is kept.
            owners: Whose lines it holds.
            fingerprint: What made its vectors; see `SegmentStore.fingerprint`.
        """
        self._owner = owners[0]
        self._log = log if len(owners) == 1 and log.keeps_segments else None
        self._name = f"{_VERSION}/{sys.byteorder}/terms-{ANALYSIS_VERSION}/{fingerprint}"
        self._saved = 0

    def load(self) -> tuple[IndexParts, int] | None:
        """Return what is kept of an index, and the log's generation then; None if nothing is."""
        if self._log is None:
            return None
        try:
            found = self._log.load_snapshot(self._owner, self._name)
        except LogError as error:
            # Whether the log can be read, the next step says.
            report_problem(_log, "the snapshot of an index could not be read", error)
            return None
        parts = None if found is None else _unpack(found[0])
        if found is None or parts is None:
            return None
        self._saved = len(parts.table)
        return parts, found[1]

    def is_due(self, segments: int) -> bool:
        """Return whether an index of so many segments is to be saved."""
        grown = segments - self._saved
        return self._log is not None and grown >= max(_LEAST, self._saved // _SHARE)

    def save(self, parts: IndexParts, generation: int) -> None:
        """Keep an index; after a failure, no more is tried.

        Raises:
            LogClosedError: If the log is closed.
        """
        if self._log is None:
            return
        self._saved = len(parts.table)
        try:
            self._log.save_snapshot(self._owner, self._name, _pack(parts), generation)
        except LogClosedError:
            raise
        except LogError as error:
            self._log = None
            report_problem(_log, "the snapshot of an index could not be stored", error)


def _pack(parts: IndexParts) -> bytes:
    """Return an index as the bytes of an `npz` file."""
    terms, postings = parts.lexical.save()
    lines = [
        (one.line_id, one.key.user_id, one.key.thread_id, *astuple(one)[2:])
        for one in parts.table.lines
    ]
    said = {"lines": lines, "terms": terms, "reader": parts.reader}
    text = np.frombuffer(json.dumps(said).encode("utf-8", "surrogatepass"), dtype=np.uint8)
    live = parts.table.live
    file = io.BytesIO()
    arrays = {"said": text, "live": live, **postings, **parts.vectors.save()}
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def _unpack(data: bytes) -> IndexParts | None:
    """Return what `_pack` was given; None where the bytes are no such thing, whatever they are."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            saved = dict(file)
        said = json.loads(saved["said"].tobytes().decode("utf-8", "surrogatepass"))
        table = SegmentTable()
        keys: dict[tuple[str | None, str], ThreadKey] = {}
        table.add_many(
            DialogLine(line_id, keys.setdefault((user, thread), ThreadKey(user, thread)), *rest)
            for line_id, user, thread, *rest in said["lines"]
        )
        live = saved["live"]
        if len(live) != len(table):
            return None
        gone = {table.find_line(number).entry_id for number in np.flatnonzero(~live).tolist()}
        table.remove_entries(gone)
        lexical = LexicalIndex.load(said["terms"], saved)
        vectors = SegmentVectors.load(saved, len(table))
        if len(lexical) != len(table):
            return None
        return IndexParts(table, lexical, vectors, said["reader"])
    except (
        *(ValueError, TypeError, LookupError, AttributeError, OSError, EOFError),
        *(RecursionError, MemoryError, NotImplementedError),
        *(zipfile.BadZipFile, ConfigError),
    ) as error:
        _log.info("the snapshot of an index does not fit: %s", type(error).__name__)
        return None
