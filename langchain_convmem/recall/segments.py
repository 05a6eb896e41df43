"""The lines of an index as a table of segments, and what logs have stored of these.

The table is pure: lines are cut, numbered and linked to their neighbours. Long lines are cut, since
each segment is searched on its own.
Invariant: the segments of a text follow each other without gap or overlap, so joining them gives
the text back, character by character.
"""

from __future__ import annotations

import logging
import re
import zlib
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from langchain_convmem.causes import report_problem
from langchain_convmem.errors import LogError
from langchain_convmem.message_log import MessageLog
from langchain_convmem.recall.embedding import compute_fingerprint, is_free
from langchain_convmem.recall.line_store import EntryLines, LineStore, PackedLines
from langchain_convmem.recall.vectors import HALF, to_half_bytes
from langchain_convmem.records import DialogLine, Owner, Role, Scalar, StoredSegment, ThreadKey
from langchain_convmem.words.analysis import ANALYSIS_VERSION
from langchain_convmem.words.columns import GrowableArray, SavedColumns

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
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


# -- the lines of one owner as columns ---------------------------------------------------------
SegmentName: TypeAlias = tuple[str, int, int]
"""What names a segment in every process: its entry's id, which line of it, which part of that."""
_LATEST_MS = 2**62
SESSION_GAP_MS = 30 * 60 * 1000
"""Two lines of a thread further apart than this belong to different sessions."""


@dataclass(slots=True)
class _ThreadLines:
    """The end of a thread: where the next line is linked."""

    number: int
    session: int = -1
    last_session: str | None = None
    last_ms: int = 0


class SegmentTable:
    """Lines and their segments in columns of equal length."""

    def __init__(self) -> None:
        """Create an empty table."""
        self._lines = LineStore()
        # Where each line's segments begin, and where the last one's end.
        self._first_segment = array("i", [0])
        self._line_of_segment = array("i")
        self._session_count = 0
        self._entries = EntryLines()
        self._known_threads: dict[ThreadKey, _ThreadLines] = {}
        self._saved_threads: list[Any] = []
        self._speakers: dict[str, int] = {}
        self._roles: dict[str, int] = {}
        self._trusts: dict[str, int] = {}
        # Sessions that lines name, by the name; a thread may come back to one.
        self._named_sessions: dict[str | None, list[int]] = {}
        self._tags = Labels()
        # Of folded texts, once somebody asked for them; 0: nobody did.
        self._hashes = array("q")
        self._start = GrowableArray(np.int64)
        self._end = GrowableArray(np.int64)
        self._thread = GrowableArray(np.int64)
        self._speaker = GrowableArray(np.int64)
        self._role = GrowableArray(np.int8)
        self._trust = GrowableArray(np.int8)
        # Each as long as there were segments when somebody asked for it.
        self._of_role: dict[Role, NDArray[np.bool_]] = {}
        self._line = GrowableArray(np.int64)
        self._position = GrowableArray(np.int64)
        self._time_ms = GrowableArray(np.int64)
        self._live = GrowableArray(np.bool_)
        self._neighbours = Neighbours()

    def __len__(self) -> int:
        """Return how many segments were added, removed ones included."""
        return len(self._line_of_segment)

    # -- as bytes ------------------------------------------------------------------------------

    def save_to(self, columns: SavedColumns) -> None:
        """Add copies of all but the lines; see `get_parts`."""
        self._entries.save_to(columns)
        self._tags.save_to(columns)
        self._neighbours.save_to(columns)
        columns.put_narrow("first segments", self._first_segment)
        columns.put_narrow("lines of segments", self._line_of_segment)
        for name, column in self._list_columns().items():
            columns.put_narrow(name, column.view)
        names = [list(one) for one in (self._speakers, self._roles, self._trusts)]
        columns.put_value("names", names)
        columns.put_value("sessions", [self._session_count, list(self._named_sessions.items())])
        threads = [
            (key.user_id, key.thread_id, one.session, one.last_session, one.last_ms)
            for key, one in self._threads.items()
        ]
        columns.put_value("threads", threads)

    @classmethod
    def load_from(cls, columns: SavedColumns) -> SegmentTable:
        """Return the table for which `save_to` was asked, with its lines, which were packed.

        Raises:
            KeyError: If something is missing.
            ValueError: If something is not what was saved.
        """
        made = cls()
        made._load_names(columns)
        names = [(user, thread) for user, thread, *_ in made._saved_threads]
        made._lines = LineStore(PackedLines(columns, names))
        made._entries = EntryLines.load_from(columns)
        made._tags = Labels.load_from(columns)
        made._neighbours = Neighbours.load_from(columns)
        made._first_segment = columns.get_numbers("i", "first segments")
        made._line_of_segment = columns.get_numbers("i", "lines of segments")
        for name, column in made._list_columns().items():
            column.extend(columns.get_narrow(name))
        made._line.extend(columns.get_narrow("lines of segments"))
        return made

    def _list_columns(self) -> dict[str, GrowableArray]:
        """Return columns by name."""
        return {
            "starts": self._start,
            "ends": self._end,
            "threads of segments": self._thread,
            "speakers": self._speaker,
            "roles": self._role,
            "trusts": self._trust,
            "positions": self._position,
            "times": self._time_ms,
            "live": self._live,
        }

    def _load_names(self, columns: SavedColumns) -> None:
        names = columns.get_value("names")
        self._speakers, self._roles, self._trusts = (
            {name: number for number, name in enumerate(some)} for some in names
        )
        self._session_count, named = columns.get_value("sessions")
        self._named_sessions = dict(named)
        self._saved_threads = columns.get_value("threads")

    @property
    def _threads(self) -> dict[ThreadKey, _ThreadLines]:
        """What is known of each thread, in the order of their numbers; made once it is asked for.

        A first question about some of many threads needs none of it.
        """
        saved, self._saved_threads = self._saved_threads, []
        for number, (user, thread, *rest) in enumerate(saved):
            self._known_threads[ThreadKey(user, thread)] = _ThreadLines(number, *rest)
        return self._known_threads

    def get_parts(self) -> tuple[PackedLines, list[DialogLine]]:
        """Return the lines: packed ones, and those that follow them."""
        return self._lines.get_parts()

    # -- writing -------------------------------------------------------------------------------

    def add(self, line: DialogLine) -> range:
        """Append a line after its thread's last one; return the numbers of its segments.

        A blank line has none.
        """
        return self.add_many([line])

    def add_many(self, lines: Iterable[DialogLine]) -> range:
        """Append lines one after the other, as `add` does; return the numbers of all segments."""
        spoken = [line for line in lines if line.text.strip()]
        threads = self._find_threads(spoken)
        # In order, since a session goes on from the thread's line before.
        sessions = [
            self._assign_session(thread, line) for thread, line in zip(threads, spoken, strict=True)
        ]
        first, first_line = len(self), len(self._lines)
        self._append_segments(spoken)
        if len(self) - first > len(spoken):
            which = [number - first_line for number in self._line_of_segment[first:]]
            spoken = [spoken[at] for at in which]
            threads = [threads[at] for at in which]
            sessions = [sessions[at] for at in which]
        thread_numbers = [thread.number for thread in threads]
        self._thread.gather(thread_numbers)
        self._append_columns(spoken)
        self._neighbours.add(thread_numbers, sessions)
        return range(first, len(self))

    def _find_threads(self, lines: Sequence[DialogLine]) -> list[_ThreadLines]:
        """Return the thread of each line, made where there is none yet."""
        found: list[_ThreadLines] = []
        known, key, thread = self._threads, None, None
        for line in lines:
            # Mostly that of the line before, and comparing keys takes longer.
            if thread is None or line.key is not key:
                key = line.key
                thread = known.get(key)
                if thread is None:
                    thread = known[key] = _ThreadLines(len(known))
            found.append(thread)
        return found

    def _assign_session(self, thread: _ThreadLines, line: DialogLine) -> int:
        """Return the session of a thread's next line."""
        same = thread.session >= 0 and thread.last_session == line.session
        if same and line.session is None:
            # Imported lines may lie before what the thread already holds.
            same = abs(line.time_ms - thread.last_ms) <= SESSION_GAP_MS
        if not same:
            thread.session = self._session_count
            self._named_sessions.setdefault(line.session, []).append(self._session_count)
            self._session_count += 1
        thread.last_session, thread.last_ms = line.session, line.time_ms
        return thread.session

    def _append_segments(self, lines: Sequence[DialogLine]) -> None:
        """Cut lines; note where they and their segments stand, and how lines are marked."""
        entries, line_of, first = self._entries, self._line_of_segment, len(self)
        starts: list[int] = []
        ends: list[int] = []
        for number, line in enumerate(lines, len(self._lines)):
            entries.add(line.entry_id, number)
            for start, end in split_line(line.text):
                starts.append(start)
                ends.append(end)
                line_of.append(number)
            for name, value in line.tags.items():
                self._tags.add(name, value, range(first, len(line_of)))
            first = len(line_of)
            self._first_segment.append(first)
        self._lines.extend(lines)
        self._start.gather(starts)
        self._end.gather(ends)
        self._line.gather(line_of[len(line_of) - len(starts) :].tolist())

    def _append_columns(self, lines: Sequence[DialogLine]) -> None:
        """Append what segments have of their lines.

        Args:
            lines: That of each segment.
        """
        speakers, roles, trusts = self._speakers, self._roles, self._trusts
        self._speaker.gather([speakers.setdefault(one.speaker, len(speakers)) for one in lines])
        self._role.gather([roles.setdefault(one.role, len(roles)) for one in lines])
        self._trust.gather([trusts.setdefault(one.trust, len(trusts)) for one in lines])
        self._position.gather([line.position for line in lines])
        # A time from a foreign file may lie outside of every calendar.
        self._time_ms.gather([max(-_LATEST_MS, min(line.time_ms, _LATEST_MS)) for line in lines])
        self._live.gather([True] * len(lines))

    def remove_entries(self, entry_ids: Iterable[str]) -> list[int]:
        """Take the entries' lines out; return the numbers of their segments. Idempotent."""
        gone: list[int] = []
        for entry_id in entry_ids:
            for line in self._entries.pop(entry_id):
                gone += self.list_segments(line)
        for number in gone:
            self._neighbours.remove(number, self._thread.get_item(number))
            self._live.put(number, False)
        return gone

    # -- reading one ---------------------------------------------------------------------------

    def find_line_number(self, number: int) -> int:
        """Return the number of the line that a segment belongs to."""
        return self._line_of_segment[number]

    def find_line_numbers(self, numbers: Iterable[int]) -> list[int]:
        """Return the numbers of the lines that segments belong to."""
        line_of = self._line_of_segment
        return [line_of[number] for number in numbers]

    def get_line(self, line_number: int) -> DialogLine:
        """Return a line by its number."""
        return self._lines[line_number]

    def find_line(self, number: int) -> DialogLine:
        """Return the line that a segment belongs to."""
        return self._lines[self.find_line_number(number)]

    def list_entry_lines(self, entry_id: str) -> Sequence[int]:
        """Return the numbers of an entry's lines, in order; none of one that is not there."""
        return self._entries.find(entry_id)

    def find_lines(self, words: Collection[str]) -> list[DialogLine]:
        """Return the lines that hold all of these words, folded ones, in the order of adding."""
        live = self._live.view[self._first_segment[:-1]]
        wanted = _sort_words(words)
        lines, numbers = self._lines, np.flatnonzero(live).tolist()
        return [lines[number] for number in numbers if _holds_all(lines.get_text(number), wanted)]

    def list_places(self, numbers: Iterable[int]) -> Iterator[Place]:
        """Yield where segments are stored, in the order of `numbers`."""
        for number in numbers:
            at = self._line_of_segment[number]
            line = self._lines[at]
            yield line.position, line.part, number - self._first_segment[at]

    def get_name(self, number: int) -> SegmentName:
        """Return the name of a segment."""
        line = self.find_line(number)
        first = self.list_segments(self.find_line_number(number)).start
        return line.entry_id, line.part, number - first

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
        at = self._line_of_segment[number]
        whole = self._lines.get_text(at)
        if self._first_segment[at + 1] - self._first_segment[at] == 1:
            return whole
        return whole[self._start.get_item(number) : self._end.get_item(number)]

    def hash_folded(self, number: int) -> int:
        """Return a hash that is equal for segments with the same text."""
        hashes = self._hashes
        if number >= len(hashes):
            hashes.extend([0] * (len(self) - len(hashes)))
        if not hashes[number]:
            hashes[number] = hash(fold(self.get_text(number)))
        return hashes[number]

    def has_same_text(self, number: int, other: int) -> bool:
        """Return whether two segments say the same but for case and blanks."""
        return fold(self.get_text(number)) == fold(self.get_text(other))

    def get_span(self, number: int) -> tuple[int, int]:
        """Return where a segment starts and ends in its line's text."""
        return self._start.get_item(number), self._end.get_item(number)

    def measure_lengths(self, numbers: Sequence[int]) -> list[int]:
        """Return how many characters the texts of segments have."""
        at = np.array(numbers, dtype=np.int64)
        found: list[int] = (self._end.view[at] - self._start.view[at]).tolist()
        return found

    def find_next_line(
        self, line_number: int, step: int, *, cross_sessions: bool = False
    ) -> int | None:
        """Return the line after (`step` 1) or before (-1) in the same session or thread."""
        before, after = self.find_adjacent_lines(
            line_number, line_number, cross_sessions=cross_sessions
        )
        return after if step > 0 else before

    def find_adjacent_lines(
        self, first: int, last: int, *, cross_sessions: bool = False
    ) -> tuple[int | None, int | None]:
        """Return the lines before and after some, in the same session or thread."""
        sides = self._neighbours.in_thread if cross_sessions else self._neighbours.in_session
        at_before = sides.before.get_item(self._first_segment[first])
        at_after = sides.after.get_item(self._first_segment[last + 1] - 1)
        line_of = self._line_of_segment
        return (
            None if at_before < 0 else line_of[at_before],
            None if at_after < 0 else line_of[at_after],
        )

    def find_adjacent(self, number: int) -> tuple[int, int]:
        """Return the segments before and after one in its session; -1 for none."""
        sides = self._neighbours.in_session
        return sides.before.get_item(number), sides.after.get_item(number)

    # -- reading all ---------------------------------------------------------------------------

    @property
    def speakers(self) -> list[str]:
        """Every speaker so far, in order of appearance; the index is the column's value."""
        return list(self._speakers)

    @property
    def live(self) -> NDArray[np.bool_]:
        """Whether each segment is still there; do not write."""
        return self._live.view

    @property
    def session_column(self) -> NDArray[np.int64]:
        """The session of each segment, numbered over all threads; do not write."""
        return self._neighbours.sessions

    @property
    def line_column(self) -> NDArray[np.int64]:
        """The number of each segment's line; do not write."""
        return self._line.view

    @property
    def lines_are_whole(self) -> bool:
        """Whether every line is one segment, so that their numbers are the same."""
        return len(self._lines) == len(self)

    @property
    def time_column(self) -> NDArray[np.int64]:
        """When each segment was said, milliseconds since the epoch; do not write."""
        return self._time_ms.view

    def select_role(self, role: Role) -> NDArray[np.bool_]:
        """Return which segments a role has said.

        Do not write: it is kept until a segment is added.
        """
        known = self._of_role.get(role)
        if known is None or len(known) != len(self):
            known = holds_one(self._role.view, [self._roles.get(role, -1)])
            self._of_role[role] = known
        return known

    @property
    def roles(self) -> Collection[str]:
        """Every role so far."""
        return self._roles.keys()

    @property
    def speaker_column(self) -> NDArray[np.int64]:
        """The speaker of each segment, as an index into `speakers`; do not write."""
        return self._speaker.view

    def find_session_starts(self) -> NDArray[np.int64] | None:
        """Return where each session starts if every one is a row of consecutive segments.

        None where one is not, or lines were removed: several threads may go on at once. Do not
        write.
        """
        return self._neighbours.find_session_starts()

    def get_links(self, *, cross_sessions: bool = False) -> Links:
        """Return each segment's neighbours in its session, or in its whole thread."""
        sides = self._neighbours.in_thread if cross_sessions else self._neighbours.in_session
        return Links(sides.before.view, sides.after.view)

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
        if name == "thread_id":
            return self._select_threads(key for key in self._threads if key.thread_id in values)
        if name == "user_id":
            return self._select_threads(key for key in self._threads if key.user_id in values)
        if name == "session":
            # A line has its session as text, whatever its message had.
            names = {None if value is None else str(value) for value in values}
            sessions = [one for name in names for one in self._named_sessions.get(name, ())]
            return holds_one(self._neighbours.sessions, sessions)
        columns: Mapping[str, tuple[GrowableArray, Mapping[str, int]]] = {
            "speaker": (self._speaker, self._speakers),
            "role": (self._role, self._roles),
            "trust": (self._trust, self._trusts),
        }
        if name in columns:
            column, numbers = columns[name]
            return holds_one(column.view, find_numbers(numbers, values))
        mask = np.zeros(len(self), dtype=np.bool_)
        mask[self._tags.find_numbers(name, values)] = True
        return mask


def fold(text: str) -> str:
    """Return a text as it is compared: without case, blanks as one."""
    return " ".join(text.casefold().split())


def select_holding(lines: Iterable[DialogLine], words: Collection[str]) -> list[DialogLine]:
    """Return the lines that hold all of these words, folded ones, as words or as parts of some."""
    wanted = _sort_words(words)
    return [line for line in lines if _holds_all(line.text, wanted)]


def _sort_words(words: Iterable[str]) -> list[str]:
    """Return words in the order in which a text is found soonest to lack one."""
    return sorted(words, key=len, reverse=True)


def _holds_all(text: str, words: Iterable[str]) -> bool:
    """Return whether a text holds all of these words, folded ones, as words or as parts of some."""
    folded = text.casefold()
    return all(word in folded for word in words)


# -- which segments bear -----------------------------------------------------------------------
_Label: TypeAlias = "tuple[str, bool, Scalar]"


class Labels:
    """Segments by label, so that a filter costs what it finds and not what there is."""

    def __init__(self) -> None:
        """Create it without any label."""
        self._numbers: dict[_Label, array[int]] = {}

    @classmethod
    def load_from(cls, columns: SavedColumns) -> Labels:
        """Return those for which `save_to` was asked."""
        made = cls()
        numbers, first = columns.get_numbers("q", "labelled"), 0
        for name, value, count in columns.get_value("labels"):
            made._numbers[_make_label(name, value)] = numbers[first : first + count]
            first += count
        return made

    def save_to(self, columns: SavedColumns) -> None:
        """Add a copy of all labels."""
        labels = [(name, value, len(some)) for (name, _, value), some in self._numbers.items()]
        columns.put_value("labels", labels)
        columns.put_narrow("labelled", list(chain.from_iterable(self._numbers.values())))

    def add(self, name: str, value: Scalar, numbers: Iterable[int]) -> None:
        """Label segments; their numbers ascend from call to call."""
        self._numbers.setdefault(_make_label(name, value), array("q")).extend(numbers)

    def find_numbers(self, name: str, values: Iterable[Scalar]) -> NDArray[np.int64]:
        """Return the numbers of the segments that bear one of the values, in any order."""
        found = (self._numbers.get(_make_label(name, value)) for value in values)
        # Copies: an array that is looked at cannot grow.
        return np.concatenate(
            [np.empty(0, np.int64), *(np.array(one) for one in found if one is not None)]
        )


def _make_label(name: str, value: Scalar) -> _Label:
    # True equals 1, and yet means something else.
    return name, isinstance(value, bool), value


def find_numbers(known: Mapping[str, int], values: Iterable[Scalar]) -> list[int]:
    """Return the numbers of those names that are known."""
    return [known[value] for value in values if isinstance(value, str) and value in known]


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


# -- which segments are adjacent, in their thread and within their session --------------
@dataclass(frozen=True, slots=True)
class Links:
    """The segment before and after each segment, by number; -1 for none."""

    before: NDArray[np.int64]
    after: NDArray[np.int64]


class Sides:
    """The neighbours of each segment, as columns that grow; -1 for none."""

    def __init__(self) -> None:
        """Create empty columns."""
        self.before = GrowableArray(np.int64)
        self.after = GrowableArray(np.int64)


class Neighbours:
    """The segments next to each segment. Removing one closes the gap. Not thread-safe."""

    def __init__(self) -> None:
        """Create it without any segment."""
        self.in_thread = Sides()
        """The neighbours that each segment has in its thread."""
        self.in_session = Sides()
        """Those of them that belong to its session."""
        self._session = GrowableArray(np.int64)
        self._last_of_thread: dict[int, int] = {}
        # Where each session starts, as long as all of them stand side by side.
        self._starts = GrowableArray(np.int64)
        self._is_in_rows = True

    def __len__(self) -> int:
        """Return how many segments were added, removed ones included."""
        return len(self._session)

    @classmethod
    def load_from(cls, columns: SavedColumns) -> Neighbours:
        """Return those for which `save_to` was asked."""
        made = cls()
        for name, column in made._list_columns().items():
            column.extend(columns.get_narrow(name))
        last = columns.get_narrow("ends of threads").tolist()
        made._last_of_thread = dict(enumerate(last))
        made._is_in_rows = bool(columns.get_value("is in rows"))
        return made

    def save_to(self, columns: SavedColumns) -> None:
        """Add copies of all there is."""
        for name, column in self._list_columns().items():
            columns.put_narrow(name, column.view)
        last = [self._last_of_thread[thread] for thread in range(len(self._last_of_thread))]
        columns.put_narrow("ends of threads", last)
        columns.put_value("is in rows", self._is_in_rows)

    def _list_columns(self) -> dict[str, GrowableArray]:
        return {
            "sessions of segments": self._session,
            "before in thread": self.in_thread.before,
            "after in thread": self.in_thread.after,
            "before in session": self.in_session.before,
            "after in session": self.in_session.after,
            "starts of sessions": self._starts,
        }

    # -- writing -------------------------------------------------------------------------------

    def add(self, threads: Sequence[int], sessions: Sequence[int]) -> None:
        """Append segments, each after the last one of its thread.

        Args:
            threads: The thread of each, by number.
            sessions: And the session.
        """
        first, last_of = len(self), self._last_of_thread
        before, after, before_in, after_in = ([-1] * len(threads) for _ in range(4))
        # Where fresh ones follow earlier ones, or nothing.
        seams: list[tuple[int, int]] = []
        for at, (thread, session) in enumerate(zip(threads, sessions, strict=True)):
            last, number = last_of.get(thread, -1), first + at
            last_of[thread] = number
            if last < first:
                seams.append((last, number))
                continue
            before[at] = last
            after[last - first] = number
            if session == sessions[last - first]:
                before_in[at] = last
                after_in[last - first] = number
                self._is_in_rows &= number == last + 1
        self._session.gather(sessions)
        self.in_thread.before.gather(before)
        self.in_thread.after.gather(after)
        self.in_session.before.gather(before_in)
        self.in_session.after.gather(after_in)
        for last, number in seams:
            self._join(last, number)
            before_in[number - first] = self.in_session.before.get_item(number)
        self._starts.gather([at for at, last in enumerate(before_in, first) if last < 0])

    def remove(self, number: int, thread: int) -> None:
        """Take out a segment of a thread, which is there: its neighbours become each other's."""
        before, after = (
            self.in_thread.before.get_item(number),
            self.in_thread.after.get_item(number),
        )
        self._is_in_rows = False
        self._join(before, after)
        if self._last_of_thread[thread] == number:
            self._last_of_thread[thread] = before
        self._join(-1, number)
        self._join(number, -1)

    def _join(self, before: int, after: int) -> None:
        """Make two segments neighbours; -1 stands for the end of the thread."""
        session = self._session
        together = (
            before >= 0 and after >= 0 and session.get_item(before) == session.get_item(after)
        )
        self._is_in_rows &= not together or after == before + 1
        if before >= 0:
            self.in_thread.after.put(before, after)
            self.in_session.after.put(before, after if together else -1)
        if after >= 0:
            self.in_thread.before.put(after, before)
            self.in_session.before.put(after, before if together else -1)

    # -- reading -------------------------------------------------------------------------------

    @property
    def sessions(self) -> NDArray[np.int64]:
        """The session of each segment; do not write."""
        return self._session.view

    def find_session_starts(self) -> NDArray[np.int64] | None:
        """Return where each session starts if every one is a row of consecutive segments.

        None where one is not, or some were removed: several threads may go on at once. Do not
        write.
        """
        return self._starts.view if self._is_in_rows else None


# -- what logs have stored of segments: terms and vectors, by segment number ---------------------
_log = logging.getLogger("langchain_convmem")
# Rows that may wait for more: those of a few turns, which are soon made again.
_FEW = 8


class SegmentStore:
    """The rows of the owners of one index under the fingerprint of an embedder. Not thread-safe.

    The border to a log's own cache: where that fails, an index goes on without it, and `problems`
    says so.
    """

    def __init__(
        self,
        cache: MessageLog | None,
        owners: Sequence[Owner],
        embeddings: Embeddings,
        table: SegmentTable,
    ) -> None:
        """Create a store for the segments of `table`; without a cache it holds nothing."""
        self._cache = cache
        self._is_free = is_free(embeddings)
        self._embeddings = embeddings
        self._table = table
        self._only = owners[0] if len(owners) == 1 else None
        self._unsaved: dict[Owner, dict[Place, StoredSegment]] = {owner: {} for owner in owners}
        # What the last failure of each owner was, until rows are stored again.
        self._problem_of: dict[Owner, str] = {}

    def __len__(self) -> int:
        """Return how many rows wait to be stored."""
        return sum(map(len, self._unsaved.values()))

    @property
    def fingerprint(self) -> str:
        """What makes the vectors: the embedder, and how lines are cut."""
        return f"{compute_fingerprint(self._embeddings)}/cut-{SEGMENT_CHARS}-{UNCUT_CHARS}"

    @property
    def problems(self) -> list[str]:
        """What keeps rows from being read or stored."""
        return [self._problem_of[owner] for owner in self._unsaved if owner in self._problem_of]

    def load(self, numbers: Sequence[int]) -> tuple[dict[int, StoredSegment], bool]:
        """Return what is stored of these segments, and whether all of it could be read.

        Args:
            numbers: Ascending, as the positions of an owner's segments are, too.
        """
        found: dict[int, StoredSegment] = {}
        if self._cache is None or not numbers:
            return found, True
        is_complete = True
        for owner, some in self._group_by_owner(numbers).items():
            first, _, _ = next(self._table.list_places(some))
            try:
                rows = self._cache.load_segments(owner, self.fingerprint, after=first - 1)
            except LogError as error:
                self._note_failure(owner, "stored terms and vectors could not be read", error)
                is_complete = False
                continue
            if not self._unsaved[owner]:
                self._problem_of.pop(owner, None)
            matched = _match_segments(some, self._table.list_places(some), rows)
            found.update((number, self._drop_damage(number, row)) for number, row in matched)
        return found, is_complete

    def put(
        self,
        number: int,
        terms: Sequence[str],
        vector: NDArray[np.float16] | None,
        old: StoredSegment | None,
    ) -> None:
        """Keep a segment until `save`, unless `old` says the same."""
        [place] = self._table.list_places([number])
        words = " ".join(terms)
        packed = None if vector is None else to_half_bytes(vector)
        seed = self._hash_text(number)
        row = StoredSegment(
            *place,
            terms=words,
            vector=packed,
            analysis=ANALYSIS_VERSION,
            terms_check=zlib.crc32(words.encode(), seed),
            vector_check=None if packed is None else zlib.crc32(packed, seed),
        )
        if row != old and self._cache is not None:
            self._unsaved[self._find_owner(number)][place] = row

    def _drop_damage(self, number: int, row: StoredSegment) -> StoredSegment:
        """Return a row without what does not fit its line: that is derived anew."""
        seed = self._hash_text(number)
        terms = row.terms if isinstance(row.terms, str) else ""
        known = row.terms_check
        if known is not None and zlib.crc32(terms.encode("utf-8", "surrogatepass"), seed) != known:
            row = replace(row, terms="", analysis=0)
        if row.vector is not None and not self._is_vector_sound(row.vector, row.vector_check, seed):
            row = replace(row, vector=None)
        return row

    def _is_vector_sound(self, vector: object, check: int | None, seed: int) -> bool:
        if not isinstance(vector, bytes) or len(vector) % HALF.itemsize:
            return False
        return check is None or zlib.crc32(vector, seed) == check

    def _hash_text(self, number: int) -> int:
        """Return the CRC-32 of a segment's text."""
        return zlib.crc32(self._table.get_text(number).encode("utf-8", "surrogatepass"))

    def drop(self, numbers: Iterable[int]) -> None:
        """Leave out segments that were to be stored."""
        for number in numbers:
            [place] = self._table.list_places([number])
            self._unsaved[self._find_owner(number)].pop(place, None)

    def save(self, *, may_wait: bool = False) -> None:
        """Store what waits; what cannot be stored waits on, since a recall has all it needs.

        Args:
            may_wait: A few rows that cost nothing may wait until there are more.
        """
        for owner, unsaved in self._unsaved.items():
            if self._cache is None or not unsaved:
                continue
            rows = list(unsaved.values())
            if may_wait and self._are_cheap(rows):
                continue
            try:
                self._cache.save_segments(owner, self.fingerprint, rows)
            except LogError as error:
                self._note_failure(owner, "terms and vectors could not be stored", error)
                continue
            unsaved.clear()
            self._problem_of.pop(owner, None)

    def list_other_fingerprints(self) -> list[str] | None:
        """Return, sorted, the fingerprints of vectors that others made; None: nobody knows."""
        found: set[str] = set()
        for owner in self._unsaved:
            names = self._list_others(owner)
            if names is None:
                return None
            found.update(names)
        return sorted(found)

    def delete_others(self) -> None:
        """Delete the vectors that others made, and the terms stored with them."""
        if self._cache is None:
            return
        for owner in self._unsaved:
            try:
                for name in self._list_others(owner) or ():
                    self._cache.delete_segments(owner, name)
            except LogError as error:
                self._note_failure(
                    owner, "vectors of an earlier embedder could not be deleted", error
                )

    def _list_others(self, owner: Owner) -> list[str] | None:
        """Return the fingerprints of an owner's vectors that others made; None: nobody knows."""
        if self._cache is None:
            return []
        try:
            found = self._cache.segment_fingerprints(owner)
        except LogError as error:
            self._note_failure(owner, "stored terms and vectors could not be read", error)
            return None
        own = self.fingerprint
        return [name for name in found if name != own]

    def _note_failure(self, owner: Owner, what: str, error: LogError) -> None:
        self._problem_of[owner] = report_problem(_log, what, error)

    def _are_cheap(self, rows: Sequence[StoredSegment]) -> bool:
        """Return whether little is lost with rows if the process ends before they are stored."""
        is_free = self._is_free or all(row.vector is None for row in rows)
        return is_free and len(rows) <= _FEW

    def _find_owner(self, number: int) -> Owner:
        return self._only or self._table.find_line(number).key.owner

    def _group_by_owner(self, numbers: Sequence[int]) -> Mapping[Owner, Sequence[int]]:
        """Return the numbers of each owner's segments, in order."""
        if self._only is not None:
            return {self._only: numbers}
        found: dict[Owner, list[int]] = {}
        for number in numbers:
            found.setdefault(self._find_owner(number), []).append(number)
        return found


# -- rows ----------------------------------------------------------------------------------------
def read_terms(row: StoredSegment | None) -> list[str] | None:
    """Return the terms of a row, in order; None where an earlier analysis made them, or nobody."""
    if row is None or row.analysis != ANALYSIS_VERSION:
        return None
    return row.terms.split()


def read_vector(row: StoredSegment | None, dim: int | None) -> NDArray[np.float16] | None:
    """Return the vector of a row; None where there is none, or one of another length."""
    if row is None or row.vector is None:
        return None
    vector = np.frombuffer(row.vector, dtype=HALF).astype(np.float16, copy=False)
    return vector if dim in (None, len(vector)) else None


def read_complete(
    rows: Sequence[StoredSegment | None], dim: int | None
) -> tuple[list[list[str]], NDArray[np.float16]] | None:
    """Return the terms and vectors of rows, of which none lacks anything; None if one does.

    So they mostly are, and all at once take a fraction of the time.

    Args:
        rows: What is stored of some segments.
        dim: Components that each vector must have; None if any number will do.
    """
    terms = [known for known in map(read_terms, rows) if known is not None]
    packed = [row.vector for row in rows if row is not None and row.vector]
    if not rows or min(len(terms), len(packed)) < len(rows):
        return None
    size = len(packed[0]) if dim is None else dim * HALF.itemsize
    if any(len(one) != size for one in packed):
        return None
    vectors = np.frombuffer(b"".join(packed), dtype=HALF).reshape(len(rows), -1)
    return terms, vectors.astype(np.float16, copy=False)


def _match_segments(
    numbers: Iterable[int], places: Iterable[Place], rows: Iterable[StoredSegment]
) -> Iterator[tuple[int, StoredSegment]]:
    """Yield the number and the row of each segment that has one; all are in order of place."""
    ordered = iter(rows)
    row = next(ordered, None)
    for number, place in zip(numbers, places, strict=True):
        while row is not None and _get_place(row) < place:
            row = next(ordered, None)
        if row is not None and _get_place(row) == place:
            yield number, row


def _get_place(row: StoredSegment) -> Place:
    return row.position, row.part, row.segment
