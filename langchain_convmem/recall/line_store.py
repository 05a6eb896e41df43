"""The lines of an index: those of a snapshot as bytes, which take less memory, later ones as read.

Not thread-safe, but for what says so.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from langchain_convmem.records import DialogLine, ThreadKey
from langchain_convmem.words.columns import Buffer, SavedColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_convmem.records import Role, Scalar, Trust

_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_MOST_DECODED = 1000
"""About so many lines a recall looks at, most of them several times."""
_NO_IDS: NDArray[np.bytes_] = np.empty(0, dtype="S1")


def _encode_id(entry_id: str) -> bytes:
    """Return an id of an entry as bytes, which sort as ids do."""
    return entry_id.encode("utf-8", "surrogatepass")


def _load_ids(columns: SavedColumns) -> NDArray[np.bytes_]:
    """Return the id of each line's entry."""
    ids: NDArray[np.bytes_] = columns.get("ids of lines", f"S{columns.get_value('length of ids')}")
    return ids


class _Kind(NamedTuple):
    """What many lines have in common."""

    speaker: str
    session: str | None
    role: Role
    tags: Mapping[str, Scalar]
    trust: Trust


class PackedLines:
    """Lines as bytes and numbers. Immutable, so thread-safe."""

    def __init__(
        self,
        columns: SavedColumns | None = None,
        threads: Sequence[tuple[str | None, str]] = (),
    ) -> None:
        """Take the lines that `save_to` has put there.

        Args:
            columns: Where they are; None for no lines.
            threads: User and id of each thread, by number.

        Raises:
            KeyError: If something is missing.
            ValueError: If something is not what was saved.
        """
        self._threads = threads
        self._texts: Buffer = b""
        self._ids = _NO_IDS
        self._kinds: list[_Kind] = []
        # Lines by number that are not the first of their entry, or have another id: that, and
        # which line of the entry they are.
        self._named: dict[int, tuple[str, int]] = {}
        self._ends, self._positions, self._times = array("q"), array("q"), array("q")
        self._thread_of, self._kind_of = array("i"), array("i")
        if columns is not None:
            self._load_from(columns)
        # Keys of threads that were asked for.
        self._keys: dict[int, ThreadKey] = {}

    def _load_from(self, columns: SavedColumns) -> None:
        self._texts = columns.parts["texts"]
        self._ids = _load_ids(columns)
        self._kinds = [_Kind(*kind) for kind in columns.get_value("kinds")]
        named = columns.get_value("named lines")
        self._named = {number: (line_id, part) for number, line_id, part in named}
        self._ends = columns.get_numbers("q", "ends of texts")
        self._positions = columns.get_numbers("q", "positions of lines")
        self._times = columns.get_numbers("q", "times of lines")
        self._thread_of = columns.get_numbers("i", "threads of lines")
        self._kind_of = columns.get_numbers("i", "kinds of lines")

    def save_to(self, columns: SavedColumns) -> None:
        """Add all but the names of the threads."""
        columns.parts["texts"] = self._texts
        columns.put_value("length of ids", self._ids.dtype.itemsize)
        columns.put("ids of lines", self._ids)
        columns.put_value("kinds", self._kinds)
        columns.put_value("named lines", [(number, *name) for number, name in self._named.items()])
        columns.put_narrow("ends of texts", self._ends)
        columns.put_narrow("positions of lines", self._positions)
        columns.put_narrow("times of lines", self._times)
        columns.put_narrow("threads of lines", self._thread_of)
        columns.put_narrow("kinds of lines", self._kind_of)

    def add(self, lines: Sequence[DialogLine]) -> PackedLines:
        """Return these lines, and more behind them. Thread-safe."""
        made = PackedLines()
        numbers = {name: number for number, name in enumerate(self._threads)}
        names = [(line.key.user_id, line.key.thread_id) for line in lines]
        threads = [numbers.setdefault(name, len(numbers)) for name in names]
        made._threads = list(numbers)
        made._thread_of = self._thread_of + array("i", threads)
        made._kinds, made._kind_of = self._kinds.copy(), self._kind_of[:]
        made._add_kinds(lines)
        texts = [line.text.encode("utf-8", "surrogatepass") for line in lines]
        made._texts = b"".join([self._texts, *texts])
        made._ends = self._ends + _find_ends(texts, len(self._texts))
        made._positions = self._positions + array("q", [line.position for line in lines])
        made._times = self._times + array("q", [line.time_ms for line in lines])
        ids = np.array([_encode_id(line.entry_id) for line in lines], dtype="S")
        made._ids = np.concatenate([self._ids, ids])
        made._named = self._named | {
            number: (line.line_id, line.part)
            for number, line in enumerate(lines, len(self))
            if line.part or line.line_id != line.entry_id
        }
        return made

    def _add_kinds(self, lines: Sequence[DialogLine]) -> None:
        """Note the kind of each of these lines."""
        # As JSON, in which True is not 1.
        numbers = {_encode(kind): number for number, kind in enumerate(self._kinds)}
        for line in lines:
            kind = _Kind(line.speaker, line.session, line.role, dict(line.tags), line.trust)
            number = numbers.setdefault(_encode(kind), len(numbers))
            if number == len(self._kinds):
                self._kinds.append(kind)
            self._kind_of.append(number)

    def __len__(self) -> int:
        """Return how many lines there are."""
        return len(self._thread_of)

    def get_text(self, number: int) -> str:
        """Return the text of a line."""
        ends = self._ends
        part = self._texts[ends[number - 1] if number else 0 : ends[number]]
        return str(part, "utf-8", "surrogatepass")

    def get(self, number: int) -> DialogLine:
        """Return a line."""
        kind = self._kinds[self._kind_of[number]]
        entry_id = str(self._ids[number], "utf-8", "surrogatepass")
        line_id, part = self._named.get(number, (entry_id, 0))
        return DialogLine(
            line_id,
            self._get_key(self._thread_of[number]),
            self._positions[number],
            part,
            kind.speaker,
            self.get_text(number),
            self._times[number],
            kind.session,
            kind.role,
            entry_id,
            dict(kind.tags),
            kind.trust,
        )

    def _get_key(self, thread: int) -> ThreadKey:
        key = self._keys.get(thread)
        if key is None:
            key = self._keys[thread] = ThreadKey(*self._threads[thread])
        return key


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
    lines: NDArray[np.int64]


class EntryLines:
    """The numbers of each entry's lines, by its id."""

    def __init__(self) -> None:
        """Create it for no entry."""
        self._old = _SortedIds(_NO_IDS, np.empty(0, dtype=np.int64))
        self._removed: set[str] = set()
        # Most entries have one, and a number is far smaller than a row of one.
        self._recent: dict[str, int | tuple[int, ...]] = {}

    @classmethod
    def load_from(cls, columns: SavedColumns) -> EntryLines:
        """Return those for which `save_to` was asked, of lines that were packed."""
        made = cls()
        lines = columns.get_narrow("lines of entries")
        made._old = _SortedIds(_load_ids(columns)[lines], lines)
        return made

    def save_to(self, columns: SavedColumns) -> None:
        """Add the numbers of all lines that are there, in the order of their entries' ids."""
        recent = [(one, line) for one, lines in self._recent.items() for line in _to_tuple(lines)]
        ids = np.array([_encode_id(one) for one, _ in recent], dtype="S")
        kept = ~np.isin(self._old.ids, np.array(list(map(_encode_id, self._removed)), dtype="S"))
        ids = np.concatenate([self._old.ids[kept], ids])
        lines = np.array([line for _, line in recent], dtype=np.int64)
        lines = np.concatenate([self._old.lines[kept], lines])
        columns.put_narrow("lines of entries", lines[np.lexsort((lines, ids))])

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


def _to_tuple(numbers: int | tuple[int, ...]) -> tuple[int, ...]:
    return (numbers,) if isinstance(numbers, int) else numbers
