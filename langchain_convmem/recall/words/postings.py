"""In which documents each term stands, and how often: written in bulk or one by one. Pure."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from langchain_convmem.recall.indexes.growable import Growable

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Column", "Postings", "TermPostings", "joined"]

# From this many documents on, sorting all their terms at once beats counting one by one.
_MANY = 64
# And for more at once it takes much memory.
_MOST_UNSORTED = 20_000
# One question looks up each of its terms several times.
_MOST_LOOKED_UP = 64

Column: TypeAlias = "array[int] | memoryview[int]"


class TermPostings(NamedTuple):
    """Where a term stands: documents, ascending, and its shape in each."""

    numbers: Column
    shapes: Column


def joined(columns: Iterable[Column]) -> NDArray[np.intc]:
    """Return a copy of the columns behind one another: a view would forbid them to grow."""
    return np.frombuffer(b"".join(columns), dtype=np.intc)


class Postings:
    """The postings of documents that are numbered consecutively from 0. Not thread-safe.

    A block holds those of the documents that came first, many at once. Of later ones each term has
    columns of its own, which can grow, until so many come at once that a new block is worth it.
    """

    def __init__(self) -> None:
        """Create postings of no document."""
        self.shapes = Shapes()
        self._terms = _Numbered()
        self._block = _Block(array("q", [0]), array("i"), memoryview(array("i")))
        self._later: dict[int, tuple[array[int], array[int]]] = {}
        self._looked_up: dict[str, list[TermPostings]] = {}
        self._written = 0
        # What is to be written: parts in order, and behind them documents as they came.
        self._parts: list[_Part] = []
        self._first_unsorted = 0
        self._unsorted = array("i")
        self._lengths: list[int] = []

    def add(self, documents: Sequence[Sequence[str]], lengths: Sequence[int]) -> None:
        """Append documents: the terms of each, and how many they are."""
        self._unsorted.extend(map(self._terms.__getitem__, chain.from_iterable(documents)))
        self._lengths += lengths
        if len(self._lengths) >= _MOST_UNSORTED:
            self._sort()

    def __contains__(self, term: object) -> bool:
        """Return whether a document has a term."""
        return term in self._terms

    def of(self, term: str) -> list[TermPostings]:
        """Return where a term stands, in parts behind one another, if `settle` was called.

        Do not write, and do not keep: what is looked at cannot grow.

        Raises:
            KeyError: If no document has the term.
        """
        known = self._looked_up.get(term)
        if known is not None:
            return known
        number = self._terms.get(term)
        if number is None:
            raise KeyError(term)
        found = self._parts_of(number)
        if len(self._looked_up) >= _MOST_LOOKED_UP:
            self._looked_up.clear()
        self._looked_up[term] = found
        return found

    def _parts_of(self, number: int) -> list[TermPostings]:
        found = [self._block.postings(number)] if number < self._block.terms else []
        later = self._later.get(number)
        if later is not None:
            found.append(TermPostings(*later))
        return found

    # -- writing -----------------------------------------------------------------------------

    def settle(self) -> None:
        """Write what was added."""
        if not self._parts and not self._lengths:
            return
        self._looked_up.clear()
        if self._parts or len(self._lengths) >= _MANY:
            self._write_many()
        else:
            self._write_few()

    def _write_few(self) -> None:
        """Write document by document."""
        start = 0
        for number, length in enumerate(self._lengths, self._first_unsorted):
            counts = Counter(self._unsorted[start : start + length])
            for term, count in counts.items():
                numbers, shapes = self._later_of(term)
                numbers.append(number)
                shapes.append(self.shapes.number(count, length))
            start += length
        self._written = self._end_unsorted()

    def _write_many(self) -> None:
        """Write as `_write_few` does, sorted by term with NumPy instead of counted."""
        self._sort()
        parts, self._parts = self._parts, []
        if self._first_unsorted - self._written < self._written:
            for part in parts:
                self._write_later(part)
        else:
            before = [self._block.part(), self._later_part()]
            self._block = _Block.of([*before, *parts], len(self._terms))
            self._later = {}
        self._written = self._first_unsorted

    def _sort(self) -> None:
        """Make a part of what is unsorted."""
        lengths = np.array(self._lengths, dtype=np.int64)
        bits = len(lengths).bit_length()
        places = np.repeat(np.arange(len(lengths)), lengths)
        keys = np.array(self._unsorted, dtype=np.int64) << bits | places
        keys, counts = np.unique(keys, return_counts=True)
        places = keys & ((1 << bits) - 1)
        shapes = self.shapes.numbers(counts, lengths[places])
        numbers = (places + self._first_unsorted).astype(np.intc)
        self._parts.append(_Part((keys >> bits).astype(np.intc), numbers, shapes))
        self._end_unsorted()

    def _end_unsorted(self) -> int:
        """Begin behind the documents so far; return how many they are."""
        self._first_unsorted += len(self._lengths)
        self._unsorted = array("i")
        self._lengths = []
        return self._first_unsorted

    def _later_of(self, term: int) -> tuple[array[int], array[int]]:
        found = self._later.get(term)
        if found is None:
            found = self._later[term] = (array("i"), array("i"))
        return found

    def _write_later(self, part: _Part) -> None:
        terms, starts = np.unique(part.terms, return_index=True)
        ends = [*starts[1:].tolist(), len(part.terms)]
        for term, start, end in zip(terms.tolist(), starts.tolist(), ends, strict=True):
            numbers, shapes = self._later_of(term)
            numbers.frombytes(part.numbers[start:end].tobytes())
            shapes.frombytes(part.shapes[start:end].tobytes())

    def _later_part(self) -> _Part:
        """Return all that stands behind the block."""
        counts = [len(numbers) for numbers, _ in self._later.values()]
        return _Part(
            np.repeat(np.array(list(self._later), dtype=np.intc), counts),
            joined(numbers for numbers, _ in self._later.values()),
            joined(shapes for _, shapes in self._later.values()),
        )


class _Numbered(dict[str, int]):
    """Numbers terms in the order they are asked for."""

    def __missing__(self, term: str) -> int:
        number = self[term] = len(self)
        return number


class _Part(NamedTuple):
    """Postings by number of term, and of each term by document, in columns of equal length."""

    terms: NDArray[np.intc]
    numbers: NDArray[np.intc]
    shapes: NDArray[np.intc]


class _Block(NamedTuple):
    """Postings in two long columns: columns for each term would take a multiple of the time."""

    starts: array[int]
    """Where each term begins; behind them, where the last one ends."""
    numbers: array[int]
    """As Python reads single numbers fastest."""
    shapes: memoryview[int]

    @classmethod
    def of(cls, parts: Sequence[_Part], terms: int) -> _Block:
        """Return the block of so many terms; documents of a part follow those of earlier ones."""
        which = np.concatenate([part.terms for part in parts])
        # Stable, so that documents stay in order; what is sorted already is only merged.
        order = which.argsort(kind="stable")
        starts = which[order].searchsorted(np.arange(terms + 1))
        return cls(
            array("q", starts.astype(np.int64).tobytes()),
            array("i", np.concatenate([part.numbers for part in parts])[order].tobytes()),
            np.concatenate([part.shapes for part in parts])[order].data,
        )

    @property
    def terms(self) -> int:
        """How many terms there are."""
        return len(self.starts) - 1

    def postings(self, term: int) -> TermPostings:
        """Return where a term stands."""
        start, end = self.starts[term], self.starts[term + 1]
        return TermPostings(self.numbers[start:end], self.shapes[start:end])

    def part(self) -> _Part:
        """Return all of it."""
        terms = np.repeat(np.arange(self.terms, dtype=np.intc), np.diff(self.starts))
        return _Part(terms, joined([self.numbers]), joined([self.shapes]))


class Shapes:
    """How often a term stands in a document of which length: few pairs, shared by many."""

    def __init__(self) -> None:
        """Create it without any."""
        self._numbers: dict[tuple[int, int], int] = {}
        self._counts = Growable(np.int64)
        self._lengths = Growable(np.int64)

    @property
    def counts(self) -> NDArray[np.int64]:
        """How often, by the shape's number; do not write."""
        return self._counts.view

    @property
    def lengths(self) -> NDArray[np.int64]:
        """In how many terms, by the shape's number; do not write."""
        return self._lengths.view

    def number(self, count: int, length: int) -> int:
        """Return the number of a shape."""
        found = self._numbers.get((count, length))
        if found is None:
            found = self._numbers[count, length] = len(self._numbers)
            self._counts.append(count)
            self._lengths.append(length)
        return found

    def numbers(self, counts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.intc]:
        """Return the numbers of many shapes."""
        width = int(lengths.max(initial=0)) + 1
        keys = counts * width + lengths
        pairs = np.unique(keys)
        found = [self.number(*divmod(pair, width)) for pair in pairs.tolist()]
        return np.array(found, dtype=np.intc)[pairs.searchsorted(keys)]
