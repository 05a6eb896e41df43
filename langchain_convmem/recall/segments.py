"""The lines of an index as a table of segments. Pure: lines are cut, numbered and linked.

Long lines are cut, since each segment is searched on its own.
Invariant: the segments of a text follow each other without gap or overlap, so joining them gives
the text back, character by character.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from langchain_convmem.records import DialogLine, Role, Scalar, ThreadKey
from langchain_convmem.words.columns import GrowableArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
SegmentName: TypeAlias = tuple[str, int, int]
"""What names a segment in every process: its entry's id, which line of it, which part of that."""
_LATEST_MS = 2**62
SESSION_GAP_MS = 30 * 60 * 1000
"""Two lines of a thread further apart than this belong to different sessions."""


@dataclass(slots=True)
class _ThreadEnd:
    """The end of a thread: where the next line is linked."""

    number: int
    segment: int = -1
    session: int = -1
    last_session: str | None = None
    last_ms: int = 0


class Links(NamedTuple):
    """The segment before and after each segment, by number; -1 for none."""

    before: NDArray[np.int64]
    after: NDArray[np.int64]


class SegmentTable:
    """Lines and their segments in columns of equal length. Not thread-safe."""

    def __init__(self) -> None:
        """Create an empty table."""
        self._lines: list[DialogLine] = []
        # Where each line's segments begin, and where the last one's end.
        self._first_segment = [0]
        self._entries: dict[str, list[int]] = {}
        self._threads: dict[ThreadKey, _ThreadEnd] = {}
        self._sessions: list[str | None] = []
        self._known: dict[str, dict[str, int]] = {"speaker": {}, "role": {}, "trust": {}}
        self._tags: dict[tuple[str, bool, Scalar], list[int]] = {}
        self._hashes: dict[int, int] = {}
        self._links: Links | None = None
        self._line, self._start, self._end = (GrowableArray(np.int64) for _ in range(3))
        self._thread, self._session = GrowableArray(np.int64), GrowableArray(np.int64)
        self._before, self._after = GrowableArray(np.int64), GrowableArray(np.int64)
        self._values = {name: GrowableArray(np.int64) for name in self._known}
        self._live = GrowableArray(np.bool_)
        self._position, self._time_ms = GrowableArray(np.int64), GrowableArray(np.int64)

    def __len__(self) -> int:
        """Return how many segments were added, removed ones included."""
        return self._first_segment[-1]

    # -- writing ----------------------------------------------------------------------------------

    def add_many(self, lines: Iterable[DialogLine]) -> range:
        """Append lines, each after its thread's last one; return the numbers of their segments.

        A blank line has none.
        """
        first = len(self)
        for line in lines:
            if line.text.strip():
                self._add(line)
        self._links = None
        return range(first, len(self))

    def _add(self, line: DialogLine) -> None:
        number, first = len(self._lines), len(self)
        thread = self._threads.get(line.key)
        if thread is None:
            thread = self._threads[line.key] = _ThreadEnd(len(self._threads))
        self._assign_session(thread, line)
        pieces = split_line(line.text)
        count = len(pieces)
        self._lines.append(line)
        self._entries.setdefault(line.entry_id, []).append(number)
        self._first_segment.append(first + count)
        self._start.gather([piece.start for piece in pieces])
        self._end.gather([piece.end for piece in pieces])
        for name, known in self._known.items():
            value = getattr(line, name)
            self._values[name].gather([known.setdefault(value, len(known))] * count)
        # A time from a foreign file may be outside of every calendar.
        time_ms = max(-_LATEST_MS, min(line.time_ms, _LATEST_MS))
        for column, value in (
            (self._line, number),
            (self._thread, thread.number),
            (self._session, thread.session),
            (self._position, line.position),
            (self._time_ms, time_ms),
            (self._live, True),
        ):
            column.gather([value] * count)
        self._before.gather([thread.segment, *range(first, first + count - 1)])
        self._after.gather([*range(first + 1, first + count), -1])
        if thread.segment >= 0:
            self._after.put(thread.segment, first)
        thread.segment = first + count - 1
        for name, tag in line.tags.items():
            self._tags.setdefault(_make_label(name, tag), []).extend(range(first, first + count))

    def _assign_session(self, thread: _ThreadEnd, line: DialogLine) -> None:
        """Note the session of a thread's next line."""
        same = thread.session >= 0 and thread.last_session == line.session
        if same and line.session is None:
            # Imported lines may be older than what the thread already holds.
            same = abs(line.time_ms - thread.last_ms) <= SESSION_GAP_MS
        if not same:
            thread.session = len(self._sessions)
            self._sessions.append(line.session)
        thread.last_session, thread.last_ms = line.session, line.time_ms

    def remove_entries(self, entry_ids: Iterable[str]) -> list[int]:
        """Take the entries' lines out; return the numbers of their segments. Idempotent."""
        gone: list[int] = []
        for entry_id in entry_ids:
            for line in self._entries.pop(entry_id, ()):
                gone += self.list_segments(line)
        if gone:
            self._live.view[gone] = False
            self._link_anew()
        return gone

    def _link_anew(self) -> None:
        """Make those neighbours whose segments between them were taken out."""
        before, after = self._before.view, self._after.view
        before[:] = after[:] = -1
        kept = self._live.view.nonzero()[0]
        order = kept[np.lexsort((kept, self._thread.view[kept]))]
        same = self._thread.view[order[1:]] == self._thread.view[order[:-1]]
        before[order[1:][same]] = order[:-1][same]
        after[order[:-1][same]] = order[1:][same]
        ends = dict(zip(self._thread.view[order].tolist(), order.tolist(), strict=True))
        for thread in self._threads.values():
            thread.segment = ends.get(thread.number, -1)
        self._links = None

    # -- reading one ------------------------------------------------------------------------------

    @property
    def lines(self) -> Sequence[DialogLine]:
        """Every line by number, removed ones included; do not write."""
        return self._lines

    def find_line_number(self, number: int) -> int:
        """Return the number of the line that a segment belongs to."""
        line: int = self._line.get_item(number)
        return line

    def get_line(self, line_number: int) -> DialogLine:
        """Return a line by its number."""
        return self._lines[line_number]

    def find_line(self, number: int) -> DialogLine:
        """Return the line that a segment belongs to."""
        return self._lines[self.find_line_number(number)]

    def list_entry_lines(self, entry_id: str) -> Sequence[int]:
        """Return the numbers of an entry's lines, in order; none of one that is not there."""
        return self._entries.get(entry_id, ())

    def find_lines(self, words: Collection[str]) -> list[DialogLine]:
        """Return the lines that hold all of these words, folded ones, in the order of adding."""
        live = self._live.view
        lines = zip(self._lines, self._first_segment, strict=False)
        return select_holding((line for line, first in lines if live[first]), words)

    def get_place(self, number: int) -> Place:
        """Return where a segment is stored."""
        at = self.find_line_number(number)
        line = self._lines[at]
        return line.position, line.part, number - self._first_segment[at]

    def get_name(self, number: int) -> SegmentName:
        """Return the name of a segment."""
        at = self.find_line_number(number)
        line = self._lines[at]
        return line.entry_id, line.part, number - self._first_segment[at]

    def number_of(self, name: SegmentName) -> int | None:
        """Return the number of a segment; None if it is not there, or no more."""
        entry_id, part, segment = name
        for line_number in self.list_entry_lines(entry_id):
            segments = self.list_segments(line_number)
            if self.get_line(line_number).part == part and segment < len(segments):
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
        return self._start.get_item(number), self._end.get_item(number)

    def hash_folded(self, number: int) -> int:
        """Return a hash that is equal for segments with the same text."""
        if number not in self._hashes:
            self._hashes[number] = hash(fold(self.get_text(number)))
        return self._hashes[number]

    def has_same_text(self, number: int, other: int) -> bool:
        """Return whether two segments say the same but for case and blanks."""
        return fold(self.get_text(number)) == fold(self.get_text(other))

    def find_next_line(
        self, line_number: int, step: int, *, cross_sessions: bool = False
    ) -> int | None:
        """Return the line after (`step` 1) or before (-1) in the same session or thread."""
        sides = self.find_adjacent_lines(line_number, line_number, cross_sessions=cross_sessions)
        return sides[step > 0]

    def find_adjacent_lines(
        self, first: int, last: int, *, cross_sessions: bool = False
    ) -> tuple[int | None, int | None]:
        """Return the lines before and after some, in the same session or thread."""
        start, end = self._first_segment[first], self._first_segment[last + 1] - 1
        sides = (start, self._before.get_item(start)), (end, self._after.get_item(end))
        before, after = (
            self.find_line_number(other)
            if other >= 0 and (cross_sessions or self._is_same_session(number, other))
            else None
            for number, other in sides
        )
        return before, after

    def find_adjacent(self, number: int) -> list[int]:
        """Return the segments before and after one in its session; -1 for none."""
        sides = self._before.get_item(number), self._after.get_item(number)
        return [one if one >= 0 and self._is_same_session(number, one) else -1 for one in sides]

    def _is_same_session(self, number: int, other: int) -> bool:
        same: bool = self._session.get_item(number) == self._session.get_item(other)
        return same

    # -- reading all ------------------------------------------------------------------------------

    @property
    def speakers(self) -> list[str]:
        """Every speaker so far, in order of appearance; the index is the column's value."""
        return list(self._known["speaker"])

    @property
    def roles(self) -> Collection[str]:
        """Every role so far."""
        return self._known["role"].keys()

    @property
    def live(self) -> NDArray[np.bool_]:
        """Whether each segment is still there; do not write."""
        return self._live.view

    @property
    def session_column(self) -> NDArray[np.int64]:
        """The session of each segment, numbered over all threads; do not write."""
        return self._session.view

    @property
    def line_column(self) -> NDArray[np.int64]:
        """The number of each segment's line; do not write."""
        return self._line.view

    @property
    def time_column(self) -> NDArray[np.int64]:
        """When each segment was said, milliseconds since the epoch; do not write."""
        return self._time_ms.view

    @property
    def speaker_column(self) -> NDArray[np.int64]:
        """The speaker of each segment, as an index into `speakers`; do not write."""
        return self._values["speaker"].view

    def select_role(self, role: Role) -> NDArray[np.bool_]:
        """Return which segments a role has said."""
        return holds_one(self._values["role"].view, [self._known["role"].get(role, -1)])

    def get_links(self) -> Links:
        """Return each segment's neighbours in its session; do not write."""
        if self._links is None:
            sessions = self._session.view
            before, after = (
                np.where((side >= 0) & (sessions[side] == sessions), side, -1)
                for side in (self._before.view, self._after.view)
            )
            self._links = Links(before, after)
        return self._links

    def select_allowed(
        self,
        within: ThreadKey | None = None,
        exclude: Mapping[ThreadKey, Collection[int]] | None = None,
        *,
        where: Mapping[str, Collection[Scalar]] | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
    ) -> NDArray[np.bool_]:
        """Return which segments may be recalled: those that are live and fulfil every condition.

        Args:
            within: In this thread.
            exclude: Not of entries at these positions, by thread.
            where: By name one of these values; see `LineFilter`.
            since_ms: Said at this time or later, milliseconds since the epoch.
            until_ms: Said before this time.
        """
        mask = self._live.view.copy()
        if within is not None:
            mask &= self._select_threads([within])
        for key, positions in (exclude or {}).items():
            numbers = np.flatnonzero(self._select_threads([key]))
            mask[numbers[np.isin(self._position.view[numbers], list(positions))]] = False
        for name, values in (where or {}).items():
            mask &= self._select_having(name, values)
        if since_ms is not None:
            mask &= self._time_ms.view >= since_ms
        if until_ms is not None:
            mask &= self._time_ms.view < until_ms
        return mask

    def _select_threads(self, keys: Iterable[ThreadKey]) -> NDArray[np.bool_]:
        numbers = [self._threads[key].number for key in keys if key in self._threads]
        return holds_one(self._thread.view, numbers)

    def _select_having(self, name: str, values: Collection[Scalar]) -> NDArray[np.bool_]:
        if name in ("thread_id", "user_id"):
            return self._select_threads(
                key for key in self._threads if getattr(key, name) in values
            )
        if name == "session":
            # A line has its session as text, whatever its message had.
            names = {None if value is None else str(value) for value in values}
            sessions = [number for number, one in enumerate(self._sessions) if one in names]
            return holds_one(self._session.view, sessions)
        if name in self._known:
            numbers = [self._known[name].get(one, -1) for one in values if isinstance(one, str)]
            return holds_one(self._values[name].view, [one for one in numbers if one >= 0])
        mask = np.zeros(len(self), dtype=np.bool_)
        for value in values:
            mask[self._tags.get(_make_label(name, value), [])] = True
        return mask


def _make_label(name: str, value: Scalar) -> tuple[str, bool, Scalar]:
    # True equals 1, and yet means something else.
    return name, isinstance(value, bool), value


def fold(text: str) -> str:
    """Return a text as it is compared: without case, blanks as one."""
    return " ".join(text.casefold().split())


def select_holding(lines: Iterable[DialogLine], words: Collection[str]) -> list[DialogLine]:
    """Return the lines that hold all of these words, folded ones, as words or as parts of some."""
    # The longest is the soonest that a text lacks.
    wanted = sorted(words, key=len, reverse=True)
    return [line for line in lines if _holds_all(line.text.casefold(), wanted)]


def _holds_all(folded: str, words: Iterable[str]) -> bool:
    return all(word in folded for word in words)


def holds_one(column: NDArray[Any], numbers: Sequence[int]) -> NDArray[np.bool_]:
    """Return where a column of small numbers holds one of these."""
    found: NDArray[np.bool_]
    if len(numbers) == 1:
        found = column == numbers[0]
        return found
    wanted = np.zeros(int(column.max(initial=0)) + 1, dtype=np.bool_)
    wanted[list(numbers)] = True
    found = wanted[column]
    return found
