"""The lines of an index as a table of segments, and the vectors of these.

Long lines are cut, since each segment is searched on its own.
Invariant: the segments of a text follow each other without gap or overlap, so joining them gives
the text back, character by character.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, takewhile
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from langchain_convmem.records import DialogLine, Owner, Role, Scalar, ThreadKey
from langchain_convmem.words.bm25 import GrowableArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_convmem.recall.options import Scope

    Vector = NDArray[np.float16]
    Links = NDArray[np.int64]

Place: TypeAlias = tuple[int, int, int]
"""What names a segment among those of its owner: its entry's position, line of it, part of that."""
SEGMENT_CHARS = 400
"""About how many characters a segment holds at most."""
UNCUT_CHARS = 500
"""A line up to this long is one segment: a cut would cost more context than it wins."""
_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*")
_LINE_BREAK = re.compile(r"\n\s*")
# A full stop ends a sentence only before a blank, so that "3.5" and "a.b" stay whole; the
# ideographic marks end one wherever they stand.
_CLOSING = r"[\"'\u2019\u201d)\]]*"
_IDEOGRAPHIC = "[\u3002\uff01\uff1f\uff61]+[\u300d\u300f\u2019\u201d]*"
_SENTENCE = re.compile(rf"[.!?\u2026]{_CLOSING}\s+|{_IDEOGRAPHIC}\s*")
_WORD = re.compile(r"\s+")
_BORDERS = (_PARAGRAPH, _LINE_BREAK, _SENTENCE, _WORD)


class Segment(NamedTuple):
    """A piece of a text: `text[start:end]`."""

    start: int
    end: int


def split_line(
    text: str, *, target: int = SEGMENT_CHARS, uncut: int = UNCUT_CHARS
) -> list[Segment]:
    """Return the segments of a line, in order; a line of at most `uncut` characters has one.

    Cuts fall after paragraphs where possible, else after lines, sentences or words, and inside a
    word only if it alone is longer than `target`.

    Args:
        text: The line.
        target: Characters of a segment at most; the last one may have up to `uncut`.
        uncut: Characters up to which a line stays whole; at least `target`.
    """
    if len(text) <= uncut:
        return [Segment(0, len(text))]
    segments: list[Segment] = []
    for start, end in _split_span(text, Segment(0, len(text)), target, 0):
        if segments and end - segments[-1].start <= target:
            segments[-1] = Segment(segments[-1].start, end)
        else:
            segments.append(Segment(start, end))
    # A tail of a few words says nothing on its own.
    if len(segments) > 1 and len(text) - segments[-2].start <= uncut:
        segments[-2:] = [Segment(segments[-2].start, len(text))]
    return segments


def _split_span(text: str, span: Segment, target: int, level: int) -> Iterator[Segment]:
    """Yield the smallest pieces of `span` needed, each at most `target` long, in order."""
    if span.end - span.start <= target:
        yield span
    elif level == len(_BORDERS):
        for start in range(span.start, span.end, target):
            yield Segment(start, min(start + target, span.end))
    else:
        for piece in _cut(text, span, _BORDERS[level]):
            yield from _split_span(text, piece, target, level + 1)


def _cut(text: str, span: Segment, border: re.Pattern[str]) -> Iterator[Segment]:
    start = span.start
    for match in border.finditer(text, span.start, span.end):
        yield Segment(start, match.end())
        start = match.end()
    if start < span.end:
        yield Segment(start, span.end)


# -- the lines of some owners as columns ----------------------------------------------------------
_LATEST_MS = 2**62
SESSION_GAP_MS = 30 * 60 * 1000
"""Two lines of a thread further apart than this belong to different sessions."""
_NAMES = ("speaker", "role", "trust")
_COLUMNS = ("line", "thread", "session", "position", "time", *_NAMES, *Segment._fields)


class SegmentTable:
    """Lines and their segments in columns of equal length. Not thread-safe."""

    def __init__(self) -> None:
        """Create an empty table."""
        self.lines: list[DialogLine] = []
        """Every line by number, removed ones included; do not write."""
        # Where each line's segments begin, and where the last one's end.
        self._first_segment = array("q", [0])
        # Of each entry the number of its first line; others follow.
        self._entries: dict[str, int] = {}
        # By thread its number, and the number of its last session and the last line.
        self._threads: dict[ThreadKey, tuple[int, int, DialogLine]] = {}
        self._sessions: list[str | None] = []
        self._known: dict[str, dict[str, int]] = {name: {} for name in _NAMES}
        self._tags: dict[tuple[str, bool, Scalar], list[int]] = {}
        self._links: tuple[Links, Links] | None = None
        self._columns = {name: GrowableArray(np.int64) for name in _COLUMNS}
        self._live = GrowableArray(np.bool_)

    def __len__(self) -> int:
        """Return how many segments were added, removed ones included."""
        return self._first_segment[-1]

    # -- writing ----------------------------------------------------------------------------------

    def add_many(self, lines: Iterable[DialogLine]) -> range:
        """Append lines, each after its thread's last one; return the numbers of their segments.

        A blank line has none.
        """
        first, start = len(self), len(self.lines)
        added = [line for line in lines if line.text.strip()]
        # In arrays, since so many tuples would have the garbage of the whole process collected.
        counts, borders = array("q"), array("q")
        for line in added:
            pieces = split_line(line.text)
            counts.append(len(pieces))
            borders.extend(chain.from_iterable(pieces))
        columns: dict[str, Iterable[int]] = {
            "line": range(start, start + len(added)),
            "position": [line.position for line in added],
            # A time from a foreign file may be outside of every calendar.
            "time": [max(-_LATEST_MS, min(line.time_ms, _LATEST_MS)) for line in added],
        }
        for name, known in self._known.items():
            columns[name] = [known.setdefault(getattr(line, name), len(known)) for line in added]
        sessions = array("q", chain.from_iterable(map(self._assign_session, added)))
        columns["thread"], columns["session"] = sessions[::2], sessions[1::2]
        for name, values in columns.items():
            self._columns[name].extend(np.repeat(np.fromiter(values, dtype=np.int64), counts))
        self._columns["start"].extend(borders[::2])
        self._columns["end"].extend(borders[1::2])
        for number, (line, count) in enumerate(zip(added, counts, strict=True), start):
            self._entries.setdefault(line.entry_id, number)
            for name, tag in line.tags.items():
                label = _make_label(name, tag)
                self._tags.setdefault(label, []).extend(range(len(self), len(self) + count))
            self._first_segment.append(len(self) + count)
        self.lines += added
        self._live.extend(np.ones(len(self) - first, dtype=np.bool_))
        self._links = None
        return range(first, len(self))

    def _assign_session(self, line: DialogLine) -> tuple[int, int]:
        """Return the numbers of the thread and the session of a thread's next line."""
        thread, session, last = self._threads.get(line.key, (len(self._threads), -1, line))
        same = session >= 0 and last.session == line.session
        if same and line.session is None:
            # Imported lines may be older than what the thread already holds.
            same = abs(line.time_ms - last.time_ms) <= SESSION_GAP_MS
        if not same:
            session = len(self._sessions)
            self._sessions.append(line.session)
        self._threads[line.key] = thread, session, line
        return thread, session

    def remove_entries(self, entry_ids: Iterable[str], owner: Owner) -> list[int]:
        """Take an owner's entries out; return the numbers of their segments. Idempotent."""
        gone: list[int] = []
        for entry_id in entry_ids:
            lines = self._list_lines(entry_id)
            if lines and self.lines[lines[0]].key.owner == owner:
                gone += [number for line in lines for number in self.list_segments(line)]
                del self._entries[entry_id]
        if gone:
            self._live.view[gone] = False
            self._links = None
        return gone

    # -- reading one ------------------------------------------------------------------------------

    def _list_lines(self, entry_id: str) -> list[int]:
        """Return the numbers of an entry's lines; none of one that is not there, or no more."""
        later = range(self._entries.get(entry_id, len(self.lines)), len(self.lines))
        return list(takewhile(lambda number: self.lines[number].entry_id == entry_id, later))

    def find_line_number(self, number: int) -> int:
        """Return the number of the line that a segment belongs to."""
        found: int = self._columns["line"].get_item(number)
        return found

    def find_line(self, number: int) -> DialogLine:
        """Return the line that a segment belongs to."""
        return self.lines[self.find_line_number(number)]

    def find_lines(self, words: Collection[str]) -> list[DialogLine]:
        """Return the lines that hold all of these words, folded ones, in the order of adding."""
        live = self._live.view
        lines = zip(self.lines, self._first_segment, strict=False)
        return select_holding((line for line, first in lines if live[first]), words)

    def get_place(self, number: int) -> Place:
        """Return where a segment is stored."""
        at = self.find_line_number(number)
        line = self.lines[at]
        return line.position, line.part, number - self._first_segment[at]

    def number_of(self, name: tuple[str, int, int]) -> int | None:
        """Return the number of a segment; None if it is not there, or no more.

        Args:
            name: Its entry's id, which line of the entry, and which part of that line.
        """
        entry_id, part, segment = name
        for line_number in self._list_lines(entry_id):
            segments = self.list_segments(line_number)
            if self.lines[line_number].part == part and segment < len(segments):
                return segments[segment]
        return None

    def list_segments(self, line_number: int) -> range:
        """Return the numbers of a line's segments, in order."""
        return range(self._first_segment[line_number], self._first_segment[line_number + 1])

    def get_text(self, number: int) -> str:
        """Return a segment's text, verbatim."""
        start, end = self.get_span(number)
        return self.find_line(number).text[start:end]

    def get_span(self, number: int) -> tuple[int, int]:
        """Return where a segment starts and ends in its line's text."""
        return self._columns["start"].get_item(number), self._columns["end"].get_item(number)

    def find_next_line(
        self, line_number: int, step: int, *, cross_sessions: bool = False
    ) -> int | None:
        """Return the line after (`step` 1) or before (-1) in the same session or thread."""
        side = int(step > 0)
        number = self._first_segment[line_number + side] - side
        found: int = self.get_links(cross_sessions=cross_sessions).item(side, number)
        return self.find_line_number(found) if found >= 0 else None

    # -- reading all ------------------------------------------------------------------------------

    @property
    def speakers(self) -> tuple[str, ...]:
        """Every speaker so far, in order of appearance; the index is the column's value."""
        return tuple(self._known["speaker"])

    @property
    def is_two_sided(self) -> bool:
        """Whether a user and an assistant speak."""
        return len(self._known["role"]) > 1

    def get_column(self, name: Literal["line", "time", "speaker"]) -> NDArray[np.int64]:
        """Return something of each segment; do not write.

        That is the number of its line; when it was said, in milliseconds since the epoch; or its
        speaker, as an index into `speakers`.
        """
        return self._columns[name].view

    def select_role(self, role: Role) -> NDArray[np.bool_]:
        """Return which segments a role has said."""
        found: NDArray[np.bool_] = self._columns["role"].view == self._known["role"].get(role, -1)
        return found

    def get_links(self, *, cross_sessions: bool = False) -> Links:
        """Return each segment's neighbours in its session, or in its thread; do not write.

        That is the number of the one before in the first row, of the one after in the second; -1
        for none.
        """
        if self._links is None:
            threads, sessions = self._columns["thread"].view, self._columns["session"].view
            kept = self._live.view.nonzero()[0]
            order = kept[threads[kept].argsort(kind="stable")]
            self._links = _link(order, sessions), _link(order, threads)
        return self._links[cross_sessions]

    def select_allowed(self, scope: Scope) -> NDArray[np.bool_]:
        """Return which segments may be recalled: those that are live and in scope."""
        mask, times = self._live.view.copy(), self.get_column("time")
        if scope.within is not None:
            mask &= self._select_threads([scope.within])
        for key, positions in scope.exclude.items():
            numbers = np.flatnonzero(self._select_threads([key]))
            mask[numbers[np.isin(self._columns["position"].view[numbers], list(positions))]] = False
        for name, values in scope.where.items():
            mask &= self._select_having(name, values)
        if scope.since_ms is not None:
            mask &= times >= scope.since_ms
        if scope.until_ms is not None:
            mask &= times < scope.until_ms
        return mask

    def _select_threads(self, keys: Iterable[ThreadKey]) -> NDArray[np.bool_]:
        numbers = [self._threads[key][0] for key in keys if key in self._threads]
        return np.isin(self._columns["thread"].view, numbers)

    def _select_having(self, name: str, values: Collection[Scalar]) -> NDArray[np.bool_]:
        if name in ("thread_id", "user_id"):
            return self._select_threads(
                key for key in self._threads if getattr(key, name) in values
            )
        if name == "session":
            # A line has its session as text, whatever its message had.
            names = {None if value is None else str(value) for value in values}
            sessions = [number for number, one in enumerate(self._sessions) if one in names]
            return np.isin(self._columns["session"].view, sessions)
        if name in self._known:
            numbers = [self._known[name].get(one, -1) for one in values if isinstance(one, str)]
            return np.isin(self._columns[name].view, numbers)
        mask = np.zeros(len(self), dtype=np.bool_)
        for value in values:
            mask[self._tags.get(_make_label(name, value), [])] = True
        return mask


def _link(order: NDArray[np.int64], groups: NDArray[np.int64]) -> Links:
    """Return the neighbours of numbers in an order where both are of one group."""
    links = np.full((2, len(groups)), -1, dtype=np.int64)
    same = groups[order[1:]] == groups[order[:-1]]
    links[0, order[1:][same]] = order[:-1][same]
    links[1, order[:-1][same]] = order[1:][same]
    return links


def _make_label(name: str, value: Scalar) -> tuple[str, bool, Scalar]:
    # True equals 1, and yet means something else.
    return name, isinstance(value, bool), value


def fold(text: str) -> str:
    """Return a text as it is compared: without case, blanks as one."""
    return " ".join(text.casefold().split())


def select_holding(lines: Iterable[DialogLine], words: Collection[str]) -> list[DialogLine]:
    """Return the lines that hold all of these words, folded ones, as words or as parts of some."""
    texts = ((line, line.text.casefold()) for line in lines)
    return [line for line, text in texts if all(word in text for word in words)]


# -- their vectors, searched by FAISS -----------------------------------------------------------
# Vectors are rounded to half precision at unit length on the way in: what comes back from storage
# equals what was computed, and a warm index answers exactly like a cold one.
_LIST = 0


def round_vector(vector: Any) -> Vector:
    """Return a vector, or each row, at unit length in half precision; zero stays zero."""
    rows = np.asarray(vector, dtype=np.float32)
    lengths = np.sqrt(np.vecdot(rows, rows))[..., None]
    return (rows / np.where(lengths > 0, lengths, 1)).astype(np.float16)


class SegmentVectors:
    """Vectors by segment number. A missing one is a zero vector until it is filled in."""

    def __init__(self) -> None:
        """Create an empty store."""
        self.dim: int | None = None
        """Components of a vector; None before the first one."""
        self.missing: set[int] = set()
        """Numbers whose embedding is pending."""
        self._index: Any = None
        self._present = GrowableArray(np.bool_)
        self._removed: set[int] = set()

    def __len__(self) -> int:
        """Return how many numbers there are, missing and removed ones included."""
        return len(self._present)

    @property
    def present(self) -> NDArray[np.bool_]:
        """Whether a number has a vector that is similar to anything; do not write."""
        return self._present.view

    # -- writing ----------------------------------------------------------------------------------

    def extend(self, vectors: Sequence[Vector | None]) -> None:
        """Append rounded vectors; None, or one of another length than the first, is missing."""
        first, count = len(self), len(vectors)
        self._present.extend(np.zeros(count, dtype=np.bool_))
        self.missing.update(range(first, first + count))
        if self.dim is not None:
            self._append(np.zeros((count, self.dim), dtype=np.float16))
        self.fill({n: one for n, one in enumerate(vectors, first) if one is not None})

    @classmethod
    def load(cls, rows: Vector) -> SegmentVectors:
        """Return vectors made of the rows that `copy` returned."""
        made, vectors = cls(), rows.astype(np.float16, copy=False)
        made._present.extend(vectors.any(axis=1))
        if vectors.size:
            made._begin(vectors)
        return made

    def fill(self, made: Mapping[int, Vector]) -> None:
        """Put vectors where they were missing; a removed number is only no longer missing."""
        self.missing.difference_update(self._removed & made.keys())
        given = {n: one for n, one in made.items() if n not in self._removed}
        if given and self._index is None:
            dim = len(next(iter(given.values())))
            self._begin(np.zeros((len(self), dim), dtype=np.float16))
        fitting = [n for n, one in given.items() if len(one) == self.dim]
        if fitting:
            rows = np.array([given[n] for n in fitting])
            self._get_codes()[fitting] = rows
            self._present.view[fitting] = rows.any(axis=1)
            self.missing.difference_update(fitting)

    def remove(self, numbers: Sequence[int]) -> None:
        """Take numbers out of what is compared. Idempotent."""
        self._present.view[list(numbers)] = False
        self._removed.update(numbers)
        self.missing.difference_update(numbers)

    def _begin(self, rows: Vector) -> None:
        """Make the index, with a row for each of the numbers so far."""
        import faiss

        self.dim = dim = rows.shape[1]
        center = np.zeros((1, dim), dtype=np.float32)
        quantizer = faiss.IndexFlatIP(dim)
        quantizer.add(center)
        # One inverted list with every vector, in ascending number: FAISS scans it in the calling
        # thread when there is one question. Its `IndexScalarQuantizer` starts threads even then,
        # which wait for each other on a busy machine and do not survive a fork, and takes about
        # thirty times as long for the similarities of all vectors.
        kind = faiss.ScalarQuantizer.QT_fp16
        by_residual = False
        self._index = faiss.IndexIVFScalarQuantizer(
            quantizer, dim, 1, kind, faiss.METRIC_INNER_PRODUCT, by_residual
        )
        self._index.train(center)
        self._append(rows)

    def _append(self, rows: Vector) -> None:
        import faiss

        first = int(self._index.ntotal)
        numbers = np.arange(first, first + len(rows), dtype=np.int64)
        codes = np.ascontiguousarray(rows).view(np.uint8)
        # `add` would start threads to make the codes, and `add_sa_codes` adds one by one.
        pointers = faiss.swig_ptr(numbers), faiss.swig_ptr(codes)
        self._index.invlists.add_entries(_LIST, len(rows), *pointers)
        self._index.ntotal = first + len(rows)

    # -- reading ----------------------------------------------------------------------------------

    def copy(self) -> Vector:
        """Return every vector by number, shape (numbers, dim)."""
        return np.zeros((0, 0), np.float16) if self._index is None else self._get_codes().copy()

    def get_row(self, number: int) -> Vector | None:
        """Return the rounded vector at `number`; None where there is none."""
        return self._get_codes()[number].copy() if self._present.view[number] else None

    def similarities(
        self, query: NDArray[np.floating[Any]] | None, among: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float32]:
        """Return the cosine of every number, or of some, with a vector of `dim`.

        0 where there is none.
        """
        import faiss

        if self._index is None or query is None or not query.any():
            return np.zeros(len(self) if among is None else among.sum(), dtype=np.float32)
        wide = query.astype(np.float32, copy=False)
        unit = wide / np.sqrt(np.vecdot(wide, wide))
        only = None
        if among is not None:
            bits = np.packbits(among, bitorder="little")
            chosen = faiss.IDSelectorBitmap(len(bits), faiss.swig_ptr(bits))
            only = faiss.SearchParametersIVF()
            only.sel = chosen
        found: NDArray[np.float32] = self._index.range_search(unit[None], -np.inf, params=only)[1]
        return found

    def _get_codes(self) -> Vector:
        """Return every vector by number as FAISS keeps it, until the next one is appended."""
        import faiss

        size = len(self) * self._index.code_size
        codes = faiss.rev_swig_ptr(self._index.invlists.get_codes(_LIST), size)
        found: Vector = codes.view(np.float16).reshape(len(self), -1)
        return found
