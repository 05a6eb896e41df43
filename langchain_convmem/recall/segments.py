"""The lines of an index as a table of segments. Pure: lines are cut, numbered and linked.

Long lines are cut, since each segment is searched on its own.
Invariant: the segments of a text follow each other without gap or overlap, so joining them gives
the text back, character by character.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from langchain_convmem.records import DialogLine, Owner, Role, Scalar, ThreadKey
from langchain_convmem.words.bm25 import GrowableArray

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
_NAMES = ("speaker", "role", "trust")


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
        # By thread its number, and the number of its last session and the last line.
        self._threads: dict[ThreadKey, tuple[int, int, DialogLine]] = {}
        self._sessions: list[str | None] = []
        self._known: dict[str, dict[str, int]] = {name: {} for name in _NAMES}
        self._tags: dict[tuple[str, bool, Scalar], list[int]] = {}
        self._links: tuple[Links, Links] | None = None
        columns = ("line", "start", "end", "thread", "session", "position", "time", *_NAMES)
        self._columns = {name: GrowableArray(np.int64) for name in columns}
        self._live = GrowableArray(np.bool_)

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
        pieces = split_line(line.text)
        count = len(pieces)
        thread, session = self._assign_session(line)
        self._lines.append(line)
        self._entries.setdefault(line.entry_id, []).append(number)
        self._first_segment.append(first + count)
        values = {
            "line": number,
            "thread": thread,
            "session": session,
            "position": line.position,
            # A time from a foreign file may be outside of every calendar.
            "time": max(-_LATEST_MS, min(line.time_ms, _LATEST_MS)),
        }
        for name, known in self._known.items():
            values[name] = known.setdefault(getattr(line, name), len(known))
        for name, value in values.items():
            self._columns[name].gather([value] * count)
        self._columns["start"].gather([piece.start for piece in pieces])
        self._columns["end"].gather([piece.end for piece in pieces])
        self._live.gather([True] * count)
        for name, tag in line.tags.items():
            self._tags.setdefault(_make_label(name, tag), []).extend(range(first, first + count))

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
            lines = self._entries.get(entry_id, ())
            if lines and self._lines[lines[0]].key.owner == owner:
                gone += [number for line in lines for number in self.list_segments(line)]
                del self._entries[entry_id]
        if gone:
            self._live.view[gone] = False
            self._links = None
        return gone

    # -- reading one ------------------------------------------------------------------------------

    @property
    def lines(self) -> Sequence[DialogLine]:
        """Every line by number, removed ones included; do not write."""
        return self._lines

    def find_line_number(self, number: int) -> int:
        """Return the number of the line that a segment belongs to."""
        line: int = self._columns["line"].get_item(number)
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
        return self._columns["start"].get_item(number), self._columns["end"].get_item(number)

    def find_next_line(
        self, line_number: int, step: int, *, cross_sessions: bool = False
    ) -> int | None:
        """Return the line after (`step` 1) or before (-1) in the same session or thread."""
        segments = self.list_segments(line_number)
        before, after = self.get_links(cross_sessions=cross_sessions)
        found = int(after[segments[-1]] if step > 0 else before[segments[0]])
        return self.find_line_number(found) if found >= 0 else None

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
    def line_column(self) -> NDArray[np.int64]:
        """The number of each segment's line; do not write."""
        return self._columns["line"].view

    @property
    def time_column(self) -> NDArray[np.int64]:
        """When each segment was said, milliseconds since the epoch; do not write."""
        return self._columns["time"].view

    @property
    def speaker_column(self) -> NDArray[np.int64]:
        """The speaker of each segment, as an index into `speakers`; do not write."""
        return self._columns["speaker"].view

    def select_role(self, role: Role) -> NDArray[np.bool_]:
        """Return which segments a role has said."""
        return holds_one(self._columns["role"].view, [self._known["role"].get(role, -1)])

    def get_links(self, *, cross_sessions: bool = False) -> Links:
        """Return each segment's neighbours in its session, or in its thread; do not write."""
        if self._links is None:
            threads, sessions = self._columns["thread"].view, self._columns["session"].view
            kept = self._live.view.nonzero()[0]
            order = kept[threads[kept].argsort(kind="stable")]
            self._links = _link(order, sessions), _link(order, threads)
        return self._links[cross_sessions]

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
            mask[numbers[np.isin(self._columns["position"].view[numbers], list(positions))]] = False
        for name, values in (where or {}).items():
            mask &= self._select_having(name, values)
        if since_ms is not None:
            mask &= self._columns["time"].view >= since_ms
        if until_ms is not None:
            mask &= self._columns["time"].view < until_ms
        return mask

    def _select_threads(self, keys: Iterable[ThreadKey]) -> NDArray[np.bool_]:
        numbers = [self._threads[key][0] for key in keys if key in self._threads]
        return holds_one(self._columns["thread"].view, numbers)

    def _select_having(self, name: str, values: Collection[Scalar]) -> NDArray[np.bool_]:
        if name in ("thread_id", "user_id"):
            return self._select_threads(
                key for key in self._threads if getattr(key, name) in values
            )
        if name == "session":
            # A line has its session as text, whatever its message had.
            names = {None if value is None else str(value) for value in values}
            sessions = [number for number, one in enumerate(self._sessions) if one in names]
            return holds_one(self._columns["session"].view, sessions)
        if name in self._known:
            numbers = [self._known[name].get(one, -1) for one in values if isinstance(one, str)]
            return holds_one(self._columns[name].view, [one for one in numbers if one >= 0])
        mask = np.zeros(len(self), dtype=np.bool_)
        for value in values:
            mask[self._tags.get(_make_label(name, value), [])] = True
        return mask


def _link(order: NDArray[np.int64], groups: NDArray[np.int64]) -> Links:
    """Return the neighbours of numbers in an order where both are of one group."""
    links = Links(*(np.full(len(groups), -1, dtype=np.int64) for _ in range(2)))
    same = groups[order[1:]] == groups[order[:-1]]
    links.before[order[1:][same]] = order[:-1][same]
    links.after[order[:-1][same]] = order[1:][same]
    return links


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
