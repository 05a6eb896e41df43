"""The lines of one owner as columns: which segment belongs to what, and stands beside which.

Segments are numbered consecutively from 0 in the order they were added and keep their number for
ever; lines likewise. Removing a line closes the gap between its neighbours. No I/O, no scores.
Not thread-safe.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from langchain_convmem.recall.indexes.growable import Growable
from langchain_convmem.recall.indexes.labels import Labels, holds_one, numbers_of
from langchain_convmem.recall.indexes.neighbours import Links, Neighbours
from langchain_convmem.recall.indexes.segments import Place, split_line
from langchain_convmem.records import DialogLine, Role, Scalar, ThreadKey

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SESSION_GAP_MS", "Links", "SegmentName", "SegmentTable"]

SegmentName: TypeAlias = tuple[str, int, int]
"""What names a segment in every process: its entry's id, which line of it, which part of that."""

_LATEST_MS = 2**62

SESSION_GAP_MS = 30 * 60 * 1000
"""Two lines of a thread further apart than this belong to different sittings."""


@dataclass(slots=True)
class _Thread:
    """The end of a thread: where the next line is linked."""

    number: int
    last_line: DialogLine | None = None
    session: int = -1


class SegmentTable:
    """Lines and their segments in columns of equal length."""

    def __init__(self) -> None:
        """Create an empty table."""
        self._lines: list[DialogLine] = []
        # Where each line's segments begin, and where the last one's end.
        self._first_segment = [0]
        self._line_of_segment: list[int] = []
        self._sessions = 0
        # Most entries have one, and a number is far smaller than a row of one.
        self._lines_of_entry: dict[str, int | tuple[int, ...]] = {}
        self._threads: dict[ThreadKey, _Thread] = {}
        self._speakers: dict[str, int] = {}
        self._roles: dict[str, int] = {}
        # The sittings whose lines name a session, by that name.
        self._sittings: dict[str | None, list[int]] = {}
        self._tags = Labels()
        # Of folded texts, once somebody asked for them; 0: nobody did.
        self._hashes = array("q")
        self._start = Growable(np.int64)
        self._end = Growable(np.int64)
        self._thread = Growable(np.int64)
        self._speaker = Growable(np.int64)
        self._role = Growable(np.int8)
        # Each as long as there were segments when somebody asked for it.
        self._of_role: dict[Role, NDArray[np.bool_]] = {}
        self._line = Growable(np.int64)
        self._position = Growable(np.int64)
        self._time_ms = Growable(np.int64)
        self._live = Growable(np.bool_)
        self._neighbours = Neighbours()

    def __len__(self) -> int:
        """Return how many segments were added, removed ones included."""
        return len(self._line_of_segment)

    # -- writing -----------------------------------------------------------------------------

    def add(self, line: DialogLine) -> range:
        """Append a line behind its thread's last one; return the numbers of its segments.

        A blank line has none.
        """
        return self.add_many([line])

    def add_many(self, lines: Iterable[DialogLine]) -> range:
        """Append lines one after the other, as `add` does; return the numbers of all segments."""
        spoken = [line for line in lines if line.text.strip()]
        threads = self._threads_of(spoken)
        # In order, since a sitting goes on from the thread's line before.
        sessions = [
            self._session_of(thread, line) for thread, line in zip(threads, spoken, strict=True)
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

    def _threads_of(self, lines: Sequence[DialogLine]) -> list[_Thread]:
        """Return the thread of each line, made where there is none yet."""
        found: list[_Thread] = []
        known, key, thread = self._threads, None, None
        for line in lines:
            # Mostly that of the line before, and comparing keys takes longer.
            if thread is None or line.key is not key:
                key = line.key
                thread = known.get(key)
                if thread is None:
                    thread = known[key] = _Thread(len(known))
            found.append(thread)
        return found

    def _session_of(self, thread: _Thread, line: DialogLine) -> int:
        """Return the sitting of a thread's next line."""
        last = thread.last_line
        same = last is not None and last.session == line.session
        if same and last is not None and line.session is None:
            # Imported lines may lie before what the thread already holds.
            same = abs(line.time_ms - last.time_ms) <= SESSION_GAP_MS
        if not same:
            thread.session = self._sessions
            self._sittings.setdefault(line.session, []).append(self._sessions)
            self._sessions += 1
        thread.last_line = line
        return thread.session

    def _append_segments(self, lines: Sequence[DialogLine]) -> None:
        """Cut lines; note where they and their segments stand, and how lines are marked."""
        known, line_of, first = self._lines_of_entry, self._line_of_segment, len(self)
        starts: list[int] = []
        ends: list[int] = []
        for number, line in enumerate(lines, len(self._lines)):
            found = known.setdefault(line.entry_id, number)
            if found != number:
                known[line.entry_id] = (*_as_many(found), number)
            for start, end in split_line(line.text):
                starts.append(start)
                ends.append(end)
                line_of.append(number)
            for name, value in line.tags.items():
                self._tags.add(name, value, range(first, len(line_of)))
            first = len(line_of)
            self._first_segment.append(first)
        self._lines += lines
        self._start.gather(starts)
        self._end.gather(ends)
        self._line.gather(line_of[len(line_of) - len(starts) :])

    def _append_columns(self, lines: Sequence[DialogLine]) -> None:
        """Append what segments have of their lines.

        Args:
            lines: That of each segment.
        """
        speakers, roles = self._speakers, self._roles
        self._speaker.gather([speakers.setdefault(one.speaker, len(speakers)) for one in lines])
        self._role.gather([roles.setdefault(one.role, len(roles)) for one in lines])
        self._position.gather([line.position for line in lines])
        # A time from a foreign file may lie outside of every calendar.
        self._time_ms.gather([max(-_LATEST_MS, min(line.time_ms, _LATEST_MS)) for line in lines])
        self._live.gather([True] * len(lines))

    def remove_entries(self, entry_ids: Iterable[str]) -> list[int]:
        """Take the entries' lines out; return the numbers of their segments. Idempotent."""
        gone: list[int] = []
        for entry_id in entry_ids:
            for line in _as_many(self._lines_of_entry.pop(entry_id, ())):
                gone += self.segments_of(line)
        for number in gone:
            self._neighbours.remove(number, self._thread.at(number))
            self._live.put(number, False)
        return gone

    # -- reading one -------------------------------------------------------------------------

    def line_number(self, number: int) -> int:
        """Return the number of the line that a segment belongs to."""
        return self._line_of_segment[number]

    def line_numbers(self, numbers: Iterable[int]) -> list[int]:
        """Return the numbers of the lines that segments belong to."""
        line_of = self._line_of_segment
        return [line_of[number] for number in numbers]

    def line(self, line_number: int) -> DialogLine:
        """Return a line by its number."""
        return self._lines[line_number]

    def line_of(self, number: int) -> DialogLine:
        """Return the line that a segment belongs to."""
        return self._lines[self.line_number(number)]

    def lines_of_entry(self, entry_id: str) -> Sequence[int]:
        """Return the numbers of an entry's lines, in order; none of one that is not there."""
        return _as_many(self._lines_of_entry.get(entry_id, ()))

    def places(self, numbers: Iterable[int]) -> Iterator[Place]:
        """Yield where segments are stored, in the order of `numbers`."""
        for number in numbers:
            at = self._line_of_segment[number]
            line = self._lines[at]
            yield line.position, line.part, number - self._first_segment[at]

    def name_of(self, number: int) -> SegmentName:
        """Return the name of a segment."""
        line = self.line_of(number)
        first = self.segments_of(self.line_number(number)).start
        return line.entry_id, line.part, number - first

    def number_of(self, name: SegmentName) -> int | None:
        """Return the number of a segment; None if it is not there, or no more."""
        entry_id, part, segment = name
        for line_number in self.lines_of_entry(entry_id):
            segments = self.segments_of(line_number)
            if self.line(line_number).part == part and segment < len(segments):
                return segments[segment]
        return None

    def segments_of(self, line_number: int) -> range:
        """Return the numbers of a line's segments, in order."""
        return range(self._first_segment[line_number], self._first_segment[line_number + 1])

    def text(self, number: int) -> str:
        """Return a segment's text, verbatim."""
        at = self._line_of_segment[number]
        whole: str = self._lines[at].text
        if self._first_segment[at + 1] - self._first_segment[at] == 1:
            return whole
        return whole[self._start.at(number) : self._end.at(number)]

    def folded_hash(self, number: int) -> int:
        """Return what segments have in common that say the same; others hardly ever do."""
        hashes = self._hashes
        if number >= len(hashes):
            hashes.extend([0] * (len(self) - len(hashes)))
        if not hashes[number]:
            hashes[number] = hash(_folded(self.text(number)))
        return hashes[number]

    def says_same(self, number: int, other: int) -> bool:
        """Return whether two segments say the same but for case and blanks."""
        return _folded(self.text(number)) == _folded(self.text(other))

    def span(self, number: int) -> tuple[int, int]:
        """Return where a segment starts and ends in its line's text."""
        return self._start.at(number), self._end.at(number)

    def lengths(self, numbers: Sequence[int]) -> list[int]:
        """Return how many characters the texts of segments have."""
        at = np.array(numbers, dtype=np.int64)
        found: list[int] = (self._end.view[at] - self._start.view[at]).tolist()
        return found

    def next_line(self, line_number: int, step: int, *, cross_sessions: bool = False) -> int | None:
        """Return the line behind (`step` 1) or before (-1) in the same sitting or thread."""
        before, behind = self.lines_beside(line_number, line_number, cross_sessions=cross_sessions)
        return behind if step > 0 else before

    def lines_beside(
        self, first: int, last: int, *, cross_sessions: bool = False
    ) -> tuple[int | None, int | None]:
        """Return the lines before and behind some, in the same sitting or thread."""
        sides = self._neighbours.in_thread if cross_sessions else self._neighbours.in_sitting
        at_before = sides.before.at(self._first_segment[first])
        at_behind = sides.behind.at(self._first_segment[last + 1] - 1)
        line_of = self._line_of_segment
        return (
            None if at_before < 0 else line_of[at_before],
            None if at_behind < 0 else line_of[at_behind],
        )

    def beside(self, number: int) -> tuple[int, int]:
        """Return the segments before and behind one in its sitting; -1 for none."""
        return self._neighbours.in_sitting.of(number)

    # -- reading all -------------------------------------------------------------------------

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
        """The sitting of each segment, numbered over all threads; do not write."""
        return self._neighbours.sittings

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

    def of_role(self, role: Role) -> NDArray[np.bool_]:
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

    def starts(self) -> NDArray[np.int64] | None:
        """Return where each sitting starts if every one is a row of segments side by side.

        None where one is not, or lines were removed: several threads may go on at once. Do not
        write.
        """
        return self._neighbours.starts()

    def links(self, *, cross_sessions: bool = False) -> Links:
        """Return each segment's neighbours in its sitting, or in its whole thread."""
        sides = self._neighbours.in_thread if cross_sessions else self._neighbours.in_sitting
        return sides.links()

    def allowed(
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
            mask &= self._of_threads([within])
        for key, positions in (exclude or {}).items():
            numbers = np.flatnonzero(self._of_threads([key]))
            mask[numbers[np.isin(self._position.view[numbers], list(positions))]] = False
        for name, values in (where or {}).items():
            mask &= self._having(name, values)
        if since_ms is not None:
            mask &= self._time_ms.view >= since_ms
        if until_ms is not None:
            mask &= self._time_ms.view < until_ms
        return mask

    def _of_threads(self, keys: Iterable[ThreadKey]) -> NDArray[np.bool_]:
        numbers = [self._threads[key].number for key in keys if key in self._threads]
        return holds_one(self._thread.view, numbers)

    def _having(self, name: str, values: Collection[Scalar]) -> NDArray[np.bool_]:
        if name == "thread_id":
            return self._of_threads(key for key in self._threads if key.thread_id in values)
        if name == "user_id":
            return self._of_threads(key for key in self._threads if key.user_id in values)
        if name == "session":
            # A line has its session as text, whatever its message had.
            names = {None if value is None else str(value) for value in values}
            sittings = [one for name in names for one in self._sittings.get(name, ())]
            return holds_one(self._neighbours.sittings, sittings)
        if name == "speaker":
            return holds_one(self._speaker.view, numbers_of(self._speakers, values))
        if name == "role":
            return holds_one(self._role.view, numbers_of(self._roles, values))
        mask = np.zeros(len(self), dtype=np.bool_)
        mask[self._tags.having(name, values)] = True
        return mask


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _as_many(numbers: int | tuple[int, ...]) -> tuple[int, ...]:
    return (numbers,) if isinstance(numbers, int) else numbers
