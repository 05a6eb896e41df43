"""What a log keeps of an index: each segment's terms and vector, and snapshots of the whole.

All of it are copies. With a snapshot, a new process opens an index in a fraction of the time, and
reads only what came after it; else an index is made of the rows that its log keeps of each line.
What does not fit counts as none, and is made anew.
"""

from __future__ import annotations

import io
import json
import logging
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from langchain_convmem.causes import report_problem
from langchain_convmem.errors import LogClosedError, LogError
from langchain_convmem.message_log import MessageLog
from langchain_convmem.recall.embedding import compute_fingerprint
from langchain_convmem.recall.segments import (
    SEGMENT_CHARS,
    UNCUT_CHARS,
    SegmentTable,
    SegmentVectors,
)
from langchain_convmem.records import DialogLine, Owner, StoredSegment, ThreadKey
from langchain_convmem.words.analysis import ANALYSIS_VERSION
from langchain_convmem.words.bm25 import LexicalIndex

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

    from langchain_convmem.recall.segments import Vector

_log = logging.getLogger("langchain_convmem")

_HALF = np.dtype("<f2")
"""Components in their stored form: half precision, little endian."""
_VERSION = 6
"""Of the form in which an index is written. Raise it with every change of that."""
_LEAST = 64
"""So many segments at least: fewer are read nearly as fast without a snapshot."""
_SHARE = 10
"""A snapshot is made anew once an index has grown by this part of it, and by the least."""
_DAMAGE = (
    *(AttributeError, EOFError, LookupError, MemoryError, OSError, RuntimeError, TypeError),
    *(ValueError, zipfile.BadZipFile),
)
_REPEATED = (5, 8, 9, 12)
"""Columns of speakers, sessions, roles and trust, of which many lines have the same."""
_UNREADABLE = "stored terms and vectors could not be read"


class Derived(NamedTuple):
    """What is stored of a segment; None where there is nothing that can be used."""

    terms: list[str] | None = None
    vector: Vector | None = None


class IndexParts(NamedTuple):
    """What an index is made of, by segment number each, and how far its log was read."""

    table: SegmentTable
    lexical: LexicalIndex
    vectors: SegmentVectors
    reader: list[Any]


class IndexStore:
    """What a log keeps of the index of some owners, under the fingerprint of an embedder.

    The border to a log's caches: where these fail, an index goes on without, and `problems` says
    so. Not thread-safe.
    """

    def __init__(self, log: MessageLog, owners: Sequence[Owner], embeddings: Embeddings) -> None:
        """Create a store; nothing is read yet."""
        self._log = log
        self._owners = owners
        self._embeddings = embeddings
        # What the last failure of each owner was, until that owner's rows can be used again.
        self._problem_of: dict[Owner, str] = {}
        self.is_unread = False
        """Whether the last reading failed: rows may be there that nobody has seen."""
        self.is_unsaved = False
        """Whether rows could not be stored."""
        # An index of several owners has none.
        self._has_snapshots = log.keeps_segments and len(owners) == 1
        self._snapshot_size = 0

    @property
    def fingerprint(self) -> str:
        """What makes the vectors: the embedder, and how lines are cut."""
        return f"{compute_fingerprint(self._embeddings)}/cut-{SEGMENT_CHARS}-{UNCUT_CHARS}"

    @property
    def problems(self) -> list[str]:
        """What keeps rows from being read or stored."""
        return [self._problem_of[owner] for owner in self._owners if owner in self._problem_of]

    @contextmanager
    def _note_failure(self, owner: Owner, what: str) -> Iterator[None]:
        """Keep a failure of the log as a problem of an owner; raise none."""
        try:
            yield
            self._problem_of.pop(owner, None)
        except LogError as error:
            self._problem_of[owner] = report_problem(_log, what, error)

    # -- rows -------------------------------------------------------------------------------------

    def load(self, table: SegmentTable, numbers: Sequence[int]) -> dict[int, Derived]:
        """Return what is stored of these segments of a table, which ascend."""
        found: dict[int, Derived] = {}
        self.is_unread = False
        for owner, some in self._group(table, numbers).items():
            after = table.get_place(some[0])[0] - 1
            rows = None
            with self._note_failure(owner, _UNREADABLE):
                rows = self._log.load_segments(owner, self.fingerprint, after=after)
            self.is_unread |= rows is None
            by_place = {(row.position, row.part, row.segment): row for row in rows or ()}
            for number in some if by_place else ():
                row = by_place.get(table.get_place(number))
                if row is not None:
                    found[number] = _read_row(row, table.get_text(number))
        return found

    def save(self, table: SegmentTable, made: Mapping[int, tuple[Sequence[str], Vector]]) -> None:
        """Store terms and vectors; what cannot be stored is made again by the next process."""
        for owner, some in self._group(table, list(made)).items():
            rows = [_make_row(table, number, *made[number]) for number in some]
            is_saved = False
            with self._note_failure(owner, "terms and vectors could not be stored"):
                try:
                    self._log.save_segments(owner, self.fingerprint, rows)
                    is_saved = True
                except LogClosedError:
                    _log.debug("terms and vectors are not stored: the log is closed")
            self.is_unsaved |= not is_saved

    def list_others(self) -> list[str] | None:
        """Return, sorted, the fingerprints of vectors that others made; None: nobody knows."""
        found: set[str] = set()
        for owner in self._owners:
            names = None
            with self._note_failure(owner, _UNREADABLE):
                names = self._log.segment_fingerprints(owner)
            if names is None:
                return None
            found.update(names)
        return sorted(found - {self.fingerprint})

    def delete_others(self) -> None:
        """Delete the vectors that others made, and the terms stored with them."""
        for name in self.list_others() or ():
            for owner in self._owners:
                what = "vectors of an earlier embedder could not be deleted"
                with self._note_failure(owner, what):
                    self._log.delete_segments(owner, name)

    def _group(self, table: SegmentTable, numbers: Sequence[int]) -> dict[Owner, list[int]]:
        """Return the numbers of each owner's segments, in order."""
        found: dict[Owner, list[int]] = {}
        for number in numbers:
            found.setdefault(table.find_line(number).key.owner, []).append(number)
        return found

    # -- snapshots --------------------------------------------------------------------------------

    @property
    def _snapshot_name(self) -> str:
        return f"{_VERSION}/{sys.byteorder}/terms-{ANALYSIS_VERSION}/{self.fingerprint}"

    def load_snapshot(self) -> tuple[IndexParts, int] | None:
        """Return what is kept of an index, and the log's generation then; None if nothing is."""
        if not self._has_snapshots:
            return None
        try:
            found = self._log.load_snapshot(self._owners[0], self._snapshot_name)
        except LogError as error:
            # Whether the log can be read, the next step says.
            report_problem(_log, "the snapshot of an index could not be read", error)
            return None
        parts = None if found is None else _unpack(found[0])
        if found is None or parts is None:
            return None
        self._snapshot_size = len(parts.table)
        return parts, found[1]

    def is_snapshot_due(self, segments: int) -> bool:
        """Return whether an index of so many segments is to be saved."""
        grown = segments - self._snapshot_size
        return self._has_snapshots and grown >= max(_LEAST, self._snapshot_size // _SHARE)

    def save_snapshot(self, parts: IndexParts, generation: int) -> None:
        """Keep an index; after a failure, no more is tried.

        Raises:
            LogClosedError: If the log is closed.
        """
        self._snapshot_size = len(parts.table)
        data = _pack(parts)
        try:
            self._log.save_snapshot(self._owners[0], self._snapshot_name, data, generation)
        except LogClosedError:
            raise
        except LogError as error:
            self._has_snapshots = False
            report_problem(_log, "the snapshot of an index could not be stored", error)


# -- one row -------------------------------------------------------------------------------------
def _make_row(
    table: SegmentTable, number: int, terms: Sequence[str], vector: Vector
) -> StoredSegment:
    words, packed = " ".join(terms), vector.astype(_HALF).tobytes()
    checks = _check_row(table.get_text(number), words, packed)
    return StoredSegment(*table.get_place(number), words, packed, ANALYSIS_VERSION, *checks)


def _read_row(row: StoredSegment, text: str) -> Derived:
    """Return a row without what does not fit its line: that is derived anew."""
    words = row.terms if isinstance(row.terms, str) else ""
    packed = row.vector if isinstance(row.vector, bytes) else b""
    terms_check, vector_check = _check_row(text, words, packed)
    is_current = row.analysis == ANALYSIS_VERSION and row.terms_check == terms_check
    terms = words.split() if is_current else None
    if row.vector is None or row.vector_check != vector_check:
        return Derived(terms, None)
    return Derived(terms, np.frombuffer(packed, dtype=_HALF).astype(np.float16, copy=False))


def _check_row(text: str, words: str, vector: bytes) -> tuple[int, int]:
    """Return the checksums of terms and vector, each begun with that of the segment's text."""
    seed = zlib.crc32(text.encode("utf-8", "surrogatepass"))
    return zlib.crc32(words.encode("utf-8", "surrogatepass"), seed), zlib.crc32(vector, seed)


# -- one snapshot --------------------------------------------------------------------------------
def _pack(parts: IndexParts) -> bytes:
    """Return an index as the bytes of an `npz` file; what its reader retracts is still in it."""
    terms, postings = parts.lexical.save()
    lines = [
        (one.line_id, one.key.user_id, one.key.thread_id, *astuple(one)[2:])
        for one in parts.table.lines
    ]
    # By columns: a list a line would leave holes in the memory of who reads it.
    said = {"columns": [*zip(*lines, strict=True)], "terms": terms, "reader": parts.reader}
    text = np.frombuffer(json.dumps(said).encode("utf-8", "surrogatepass"), dtype=np.uint8)
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, said=text, vectors=parts.vectors.copy(), **postings)
    return file.getvalue()


def _unpack(data: bytes) -> IndexParts | None:
    """Return what `_pack` was given; None where the bytes are no such thing, whatever they are."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            saved = dict(file)
        said = json.loads(saved["said"].tobytes().decode("utf-8", "surrogatepass"))
        # What many lines have, or one has twice, is one object.
        make, share, no_tags = cache(ThreadKey), cache(lambda value: value), dict[str, Any]()
        for at in _REPEATED:
            said["columns"][at] = map(share, said["columns"][at])
        lines = (
            DialogLine(
                entry if one == entry else one,
                *(make(user, thread), *rest, entry, tags or no_tags, trust),
            )
            for one, user, thread, *rest, entry, tags, trust in zip(*said["columns"], strict=True)
        )
        table, vectors = SegmentTable(), SegmentVectors.load(saved["vectors"])
        table.add_many(lines)
        lexical = LexicalIndex.load(said["terms"], saved)
        is_whole = len(table) == len(lexical) == len(vectors)
        if not is_whole or (len(table) and vectors.dim is None):
            return None
        return IndexParts(table, lexical, vectors, said["reader"])
    except _DAMAGE as error:
        _log.info("the snapshot of an index does not fit: %s", type(error).__name__)
        return None
