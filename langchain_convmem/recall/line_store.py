"""The lines of an index: those of a snapshot as bytes, which take less memory, later ones as read.

Not thread-safe, but for what says so.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from langchain_convmem.columns import Buffer, SavedColumns
from langchain_convmem.priority import give_way
from langchain_convmem.records import DialogLine, ThreadKey

if TYPE_CHECKING:
    from numpy.typing import NDArray

_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_decode = json.JSONDecoder().raw_decode
_MOST_DECODED = 1000
"""About so many lines a recall looks at, most of them several times."""


class PackedLines:
    """Lines as bytes: their texts, and what else is known of them. Immutable, so thread-safe."""

    def __init__(self, columns: SavedColumns | None = None, keys: Sequence[ThreadKey] = ()) -> None:
        """Take the lines that `save_to` has put there.

        Args:
            columns: Where they are; None for no lines.
            keys: The threads, by number.

        Raises:
            KeyError: If something is missing.
            ValueError: If something is not what was saved.
        """
        self._keys = keys
        self._texts: Buffer = b"" if columns is None else columns.parts["texts"]
        self._marks: Buffer = b"" if columns is None else columns.parts["marks"]
        self._text_ends, self._mark_ends, self._threads = array("q"), array("q"), array("i")
        if columns is not None:
            self._text_ends = columns.get_numbers("q", "ends of texts")
            self._mark_ends = columns.get_numbers("q", "ends of marks")
            self._threads = columns.get_numbers("i", "threads of lines")

    def save_to(self, columns: SavedColumns) -> None:
        """Add all but the keys of the threads."""
        columns.parts["texts"] = self._texts
        columns.parts["marks"] = self._marks
        columns.parts["ends of texts"] = self._text_ends.tobytes()
        columns.parts["ends of marks"] = self._mark_ends.tobytes()
        columns.parts["threads of lines"] = self._threads.tobytes()

    def add(self, lines: Sequence[DialogLine]) -> PackedLines:
        """Return these lines, and more behind them. Thread-safe."""
        made = PackedLines()
        numbers = {key: number for number, key in enumerate(self._keys)}
        threads = [numbers.setdefault(line.key, len(numbers)) for line in lines]
        made._keys = list(numbers)
        made._threads = self._threads + array("i", threads)
        texts = [line.text.encode("utf-8", "surrogatepass") for line in lines]
        made._texts = b"".join([self._texts, *texts])
        made._text_ends = self._text_ends + _find_ends(texts, len(self._texts))
        marks = [_encode_marks(line) for line in lines]
        made._marks = b"".join([self._marks, *marks])
        made._mark_ends = self._mark_ends + _find_ends(marks, len(self._marks))
        return made

    def __len__(self) -> int:
        """Return how many lines there are."""
        return len(self._threads)

    def get_text(self, number: int) -> str:
        """Return the text of a line."""
        ends = self._text_ends
        part = self._texts[ends[number - 1] if number else 0 : ends[number]]
        return str(part, "utf-8", "surrogatepass")

    def get(self, number: int) -> DialogLine:
        """Return a line."""
        ends = self._mark_ends
        part = self._marks[ends[number - 1] if number else 0 : ends[number]]
        known, _ = _decode(str(part, "ascii"))
        line_id, position, place, speaker, time_ms, session, role, entry_id, tags, trust = known
        return DialogLine(
            entry_id if line_id is None else line_id,
            self._keys[self._threads[number]],
            position,
            place,
            speaker,
            self.get_text(number),
            time_ms,
            session,
            role,
            entry_id,
            tags,
            trust,
        )


def _encode_marks(line: DialogLine) -> bytes:
    """Return what is known of a line beside its text and thread."""
    give_way()
    known = (
        # Mostly they are the same.
        None if line.line_id == line.entry_id else line.line_id,
        line.position,
        line.part,
        line.speaker,
        line.time_ms,
        line.session,
        line.role,
        line.entry_id,
        dict(line.tags),
        line.trust,
    )
    return _encode(known).encode("ascii")


def _find_ends(parts: Sequence[bytes], first: int) -> array[int]:
    """Return where each part ends, if the first begins there."""
    return array("q", list(accumulate(map(len, parts), initial=first))[1:])


class LineStore:
    """Lines by number."""

    def __init__(self, packed: PackedLines | None = None) -> None:
        """Begin with packed lines, or none."""
        self._packed = packed or PackedLines()
        self._first = len(self._packed)
        self._recent: list[DialogLine] = []
        self._decoded: dict[int, DialogLine] = {}

    def __len__(self) -> int:
        """Return how many lines there are."""
        return self._first + len(self._recent)

    def __getitem__(self, number: int) -> DialogLine:
        """Return a line; two calls may return two equal objects."""
        if number >= self._first:
            return self._recent[number - self._first]
        line = self._decoded.get(number)
        if line is None:
            if len(self._decoded) >= _MOST_DECODED:
                self._decoded.clear()
            line = self._decoded[number] = self._packed.get(number)
        return line

    def get_text(self, number: int) -> str:
        """Return the text of a line."""
        if number >= self._first:
            return self._recent[number - self._first].text
        return self._packed.get_text(number)

    def extend(self, lines: Iterable[DialogLine]) -> None:
        """Append lines."""
        self._recent.extend(lines)

    def get_parts(self) -> tuple[PackedLines, list[DialogLine]]:
        """Return packed lines, and those that follow them."""
        return self._packed, self._recent.copy()


# -- which lines an entry has --------------------------------------------------------------------


class _SortedIds(NamedTuple):
    """Ids in order, and the number of the line that each is of."""

    ids: NDArray[np.bytes_]
    lines: NDArray[np.int32]


class EntryLines:
    """The numbers of each entry's lines, by its id."""

    def __init__(self) -> None:
        """Create it for no entry."""
        self._old = _SortedIds(np.empty(0, dtype="S1"), np.empty(0, dtype=np.int32))
        self._removed: set[str] = set()
        # Most entries have one, and a number is far smaller than a row of one.
        self._recent: dict[str, int | tuple[int, ...]] = {}

    @classmethod
    def load_from(cls, columns: SavedColumns) -> EntryLines:
        """Return those for which `save_to` was asked."""
        made = cls()
        ids = columns.get("ids of entries", f"S{columns.get_value('length of ids')}")
        made._old = _SortedIds(ids, columns.get("lines of entries", np.int32))
        return made

    def save_to(self, columns: SavedColumns) -> None:
        """Add a copy of all that are there."""
        recent = [(one, line) for one, lines in self._recent.items() for line in _to_tuple(lines)]
        ids = np.array([_encode_id(one) for one, _ in recent], dtype="S")
        kept = ~np.isin(self._old.ids, np.array(list(map(_encode_id, self._removed)), dtype="S"))
        ids = np.concatenate([self._old.ids[kept], ids])
        lines = np.array([line for _, line in recent], dtype=np.int32)
        lines = np.concatenate([self._old.lines[kept], lines])
        order = np.lexsort((lines, ids))
        columns.put_value("length of ids", max(ids.dtype.itemsize, 1))
        columns.put("ids of entries", ids[order])
        columns.put("lines of entries", lines[order])

    def add(self, entry_id: str, line: int) -> None:
        """Note one more line of an entry, whose lines ascend and come at once."""
        found = self._recent.setdefault(entry_id, line)
        if found != line:
            self._recent[entry_id] = (*_to_tuple(found), line)

    def find(self, entry_id: str) -> tuple[int, ...]:
        """Return the numbers of an entry's lines, ascending; none of one that is not there."""
        known = self._recent.get(entry_id)
        if known is not None:
            return _to_tuple(known)
        return self._find_old(entry_id)

    def pop(self, entry_id: str) -> tuple[int, ...]:
        """Return the numbers of an entry's lines, and have none any more."""
        found = self.find(entry_id)
        self._recent.pop(entry_id, None)
        if len(self._old.ids):
            self._removed.add(entry_id)
        return found

    def _find_old(self, entry_id: str) -> tuple[int, ...]:
        ids, lines = self._old
        if not len(ids) or entry_id in self._removed:
            return ()
        wanted = _encode_id(entry_id)
        if len(wanted) > ids.dtype.itemsize:
            return ()
        start, end = ids.searchsorted(wanted, "left"), ids.searchsorted(wanted, "right")
        return tuple(lines[start:end].tolist())


def _encode_id(entry_id: str) -> bytes:
    return entry_id.encode("utf-8", "surrogatepass")


def _to_tuple(numbers: int | tuple[int, ...]) -> tuple[int, ...]:
    return (numbers,) if isinstance(numbers, int) else numbers
