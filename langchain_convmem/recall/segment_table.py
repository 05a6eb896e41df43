"""The lines of one owner as columns: which segment belongs to what, and stands beside which.

Segments are numbered consecutively from 0 in the order they were added and keep their number for
ever; lines likewise. Removing a line closes the gap between its neighbours. No I/O, no scores.
Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from langchain_convmem.recall.growable import Growable
from langchain_convmem.recall.segments import Segment, split_line
from langchain_convmem.records import DialogLine, ThreadKey

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SESSION_GAP_MS", "Links", "SegmentTable"]

SESSION_GAP_MS = 30 * 60 * 1000
"""Two lines of a thread further apart than this belong to different sittings."""


@dataclass(frozen=True, slots=True)
class Links:
    """The segment before and behind each segment, by number; -1 for none."""

    before: NDArray[np.int64]
    behind: NDArray[np.int64]


@dataclass(slots=True)
class _Thread:
    """The end of a thread: where the next line is linked."""

    number: int
    last_line: DialogLine | None = None
    session: int = -1
    last_segment: int = -1


class SegmentTable:
    """Lines and their segments in columns of equal length."""

    def __init__(self) -> None:
        """Create an empty table."""
        self._lines: list[DialogLine] = []
        self._first_segment: list[int] = []
        self._sessions = 0
        self._lines_of_entry: dict[str, list[int]] = {}
        self._threads: dict[ThreadKey, _Thread] = {}
        self._speakers: dict[str, int] = {}
        self._line = Growable(np.int64)
        self._start = Growable(np.int64)
        self._end = Growable(np.int64)
        self._thread = Growable(np.int64)
        self._session = Growable(np.int64)
        self._speaker = Growable(np.int64)
        self._position = Growable(np.int64)
        self._before = Growable(np.int64)
        self._behind = Growable(np.int64)
        self._live = Growable(np.bool_)
        self._within_sessions: Links | None = None

    def __len__(self) -> int:
        """Return how many segments were added, removed ones included."""
        return len(self._line)

    # -- writing -----------------------------------------------------------------------------

    def add(self, line: DialogLine) -> range:
        """Append a line behind its thread's last one; return the numbers of its segments.

        A blank line has none.
        """
        if not line.text.strip():
            return range(0)
        thread = self._threads.setdefault(line.key, _Thread(len(self._threads)))
        self._place_in_session(thread, line)
        segments = split_line(line.text)
        numbers = range(len(self), len(self) + len(segments))
        self._lines_of_entry.setdefault(line.entry_id, []).append(len(self._lines))
        self._append_columns(thread, line, segments)
        self._lines.append(line)
        self._first_segment.append(numbers.start)
        self._link(thread, numbers)
        self._within_sessions = None
        return numbers

    def _place_in_session(self, thread: _Thread, line: DialogLine) -> None:
        last = thread.last_line
        same = last is not None and last.session == line.session
        if same and last is not None and line.session is None:
            # Imported lines may lie before what the thread already holds.
            same = abs(line.time_ms - last.time_ms) <= SESSION_GAP_MS
        if not same:
            thread.session = self._sessions
            self._sessions += 1
        thread.last_line = line

    def _append_columns(self, thread: _Thread, line: DialogLine, segments: list[Segment]) -> None:
        count = len(segments)
        speaker = self._speakers.setdefault(line.speaker, len(self._speakers))
        for column, value in (
            (self._line, len(self._lines)),
            (self._thread, thread.number),
            (self._session, thread.session),
            (self._speaker, speaker),
            (self._position, line.position),
            (self._live, True),
        ):
            column.extend([value] * count)
        self._start.extend([segment.start for segment in segments])
        self._end.extend([segment.end for segment in segments])

    def _link(self, thread: _Thread, numbers: range) -> None:
        if thread.last_segment >= 0:
            self._behind.view[thread.last_segment] = numbers.start
        self._before.extend([thread.last_segment, *numbers[:-1]])
        self._behind.extend([*numbers[1:], -1])
        thread.last_segment = numbers[-1]

    def remove_entries(self, entry_ids: Iterable[str]) -> list[int]:
        """Take the entries' lines out; return the numbers of their segments. Idempotent."""
        gone: list[int] = []
        for entry_id in entry_ids:
            for line in self._lines_of_entry.pop(entry_id, ()):
                gone += self.segments_of(line)
        for number in gone:
            self._unlink(number)
        self._live.view[gone] = False
        self._within_sessions = None
        return gone

    def _unlink(self, number: int) -> None:
        before, behind = int(self._before.view[number]), int(self._behind.view[number])
        if before >= 0:
            self._behind.view[before] = behind
        if behind >= 0:
            self._before.view[behind] = before
        thread = self._threads[self.line_of(number).key]
        if thread.last_segment == number:
            thread.last_segment = before
        self._before.view[number] = self._behind.view[number] = -1

    # -- reading one -------------------------------------------------------------------------

    def line_number(self, number: int) -> int:
        """Return the number of the line that a segment belongs to."""
        return int(self._line.view[number])

    def line(self, line_number: int) -> DialogLine:
        """Return a line by its number."""
        return self._lines[line_number]

    def line_of(self, number: int) -> DialogLine:
        """Return the line that a segment belongs to."""
        return self._lines[self.line_number(number)]

    def segments_of(self, line_number: int) -> range:
        """Return the numbers of a line's segments, in order."""
        first = self._first_segment[line_number]
        last = line_number + 1 == len(self._lines)
        return range(first, len(self) if last else self._first_segment[line_number + 1])

    def text(self, number: int) -> str:
        """Return a segment's text, verbatim."""
        start, end = int(self._start.view[number]), int(self._end.view[number])
        whole: str = self.line_of(number).text
        return whole[start:end]

    def next_line(self, line_number: int, step: int, *, cross_sessions: bool = False) -> int | None:
        """Return the line behind (`step` 1) or before (-1) in the same sitting or thread."""
        segments = self.segments_of(line_number)
        links = self.links(cross_sessions=cross_sessions)
        at = int(links.behind[segments[-1]] if step > 0 else links.before[segments[0]])
        return None if at < 0 else self.line_number(at)

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
        return self._session.view

    @property
    def speaker_column(self) -> NDArray[np.int64]:
        """The speaker of each segment, as an index into `speakers`; do not write."""
        return self._speaker.view

    @property
    def line_column(self) -> NDArray[np.int64]:
        """The line of each segment; do not write."""
        return self._line.view

    def links(self, *, cross_sessions: bool = False) -> Links:
        """Return each segment's neighbours in its sitting, or in its whole thread."""
        whole = Links(self._before.view, self._behind.view)
        if cross_sessions:
            return whole
        if self._within_sessions is None:
            self._within_sessions = Links(
                self._in_session(whole.before), self._in_session(whole.behind)
            )
        return self._within_sessions

    def _in_session(self, links: NDArray[np.int64]) -> NDArray[np.int64]:
        session = self._session.view
        same = (links >= 0) & (session[links] == session)
        return np.where(same, links, -1)

    def allowed(
        self,
        within: ThreadKey | None = None,
        exclude: Mapping[ThreadKey, Collection[int]] | None = None,
    ) -> NDArray[np.bool_]:
        """Return which segments may be recalled: live, in the thread, not of excluded positions."""
        mask = self._live.view.copy()
        if within is not None:
            mask &= self._of_thread(within)
        for key, positions in (exclude or {}).items():
            excluded = np.isin(self._position.view, list(positions))
            mask &= ~(self._of_thread(key) & excluded)
        return mask

    def _of_thread(self, key: ThreadKey) -> NDArray[np.bool_]:
        thread = self._threads.get(key)
        result: NDArray[np.bool_] = self._thread.view == (-1 if thread is None else thread.number)
        return result
