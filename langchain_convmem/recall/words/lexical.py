"""An incremental BM25 over documents of analysed terms. Pure; not thread-safe."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from langchain_convmem.recall.indexes.growable import Growable

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LexicalIndex"]

# From this many documents on, sorting all their terms at once beats counting one by one.
_MANY = 64
_MOST_UNWRITTEN = 20_000
_POSTING_BYTES = array("i").itemsize


class _Ids(dict[str, int]):
    """Numbers terms in the order they are asked for."""

    def __missing__(self, term: str) -> int:
        number = self[term] = len(self)
        return number


class _Postings(NamedTuple):
    """Where a term stands: documents, ascending, and its shape in each."""

    numbers: array[int]
    shapes: array[int]


def _joined(arrays: Iterable[array[int]]) -> NDArray[np.intc]:
    """Return a copy of the arrays behind one another: a view would forbid them to grow."""
    return np.frombuffer(b"".join(arrays), dtype=np.intc)


class LexicalIndex:
    """BM25 over documents numbered consecutively from 0 (Robertson and Zaragoza 2009, eq. 3.15).

    Scores depend on the documents present alone: adding one by one, or adding and removing some,
    gives the same scores as building the index from those that remain.
    """

    def __init__(self) -> None:
        """Create an empty index."""
        self._postings: dict[str, _Postings] = {}
        # How often a term stands in a document of which length: few pairs, shared by many.
        self._shapes: dict[tuple[int, int], int] = {}
        self._shape_counts = Growable(np.int64)
        self._shape_lengths = Growable(np.int64)
        self._lengths = Growable(np.int64)
        self._removed = Growable(np.bool_)
        self._present = 0
        self._total_length = 0
        # The terms of documents whose postings are not written yet, by their places among `_ids`:
        # many at once cost a fraction.
        self._ids = _Ids()
        self._unwritten = array("i")
        self._written = 0

    def __len__(self) -> int:
        """Return how many documents were added, removed ones included."""
        return len(self._lengths)

    def add(self, documents: Iterable[Sequence[str]]) -> None:
        """Append documents, each the list of its terms; numbers continue the earlier ones."""
        added = list(documents)
        lengths = [len(terms) for terms in added]
        ids = self._ids
        self._unwritten.extend([ids[term] for terms in added for term in terms])
        self._lengths.gather(lengths)
        self._removed.gather([False] * len(added))
        self._present += len(added)
        self._total_length += sum(lengths)
        if len(self) - self._written >= _MOST_UNWRITTEN:
            self.settle()

    # -- writing postings --------------------------------------------------------------------

    def settle(self) -> None:
        """Write the postings of what was added, which a search would do otherwise."""
        if self._written == len(self):
            return
        lengths = self._lengths.view[self._written :]
        if len(lengths) < _MANY:
            self._write_few(lengths.tolist())
        else:
            self._write_many(lengths)
        self._written = len(self)
        self._unwritten = array("i")
        self._ids = _Ids()

    def _write_few(self, lengths: Sequence[int]) -> None:
        """Write postings document by document."""
        names = list(self._ids)
        start = 0
        for number, length in enumerate(lengths, self._written):
            counts = Counter(self._unwritten[start : start + length])
            for term, count in counts.items():
                posting = self._postings_of(names[term])
                posting.numbers.append(number)
                posting.shapes.append(self._shape(count, length))
            start += length

    def _write_many(self, lengths: NDArray[np.int64]) -> None:
        """Write postings as `_write_few` does, sorted by term with NumPy instead of counted."""
        flat = np.array(self._unwritten, dtype=np.int64)
        places = np.repeat(np.arange(len(lengths)), lengths)
        keys, counts = np.unique(flat * len(lengths) + places, return_counts=True)
        term_ids, places = np.divmod(keys, len(lengths))
        numbers = (places + self._written).astype(np.intc).tobytes()
        shapes = self._shapes_of(counts, lengths[places]).astype(np.intc).tobytes()
        ends = np.searchsorted(term_ids, np.arange(len(self._ids)), side="right") * _POSTING_BYTES
        start = 0
        for term, end in zip(self._ids, ends.tolist(), strict=True):
            posting = self._postings_of(term)
            posting.numbers.frombytes(numbers[start:end])
            posting.shapes.frombytes(shapes[start:end])
            start = end

    def _shapes_of(
        self, counts: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        width = int(lengths.max(initial=0)) + 1
        pairs, which = np.unique(counts * width + lengths, return_inverse=True)
        found = [self._shape(*divmod(pair, width)) for pair in pairs.tolist()]
        return np.array(found, dtype=np.int64)[which]

    def _postings_of(self, term: str) -> _Postings:
        found = self._postings.get(term)
        if found is None:
            found = self._postings[term] = _Postings(array("i"), array("i"))
        return found

    def _shape(self, count: int, length: int) -> int:
        shape = self._shapes.get((count, length))
        if shape is None:
            shape = self._shapes[count, length] = len(self._shapes)
            self._shape_counts.append(count)
            self._shape_lengths.append(length)
        return shape

    def remove(self, numbers: Iterable[int]) -> None:
        """Take documents out of every later scoring; the numbers of others stay. Idempotent."""
        for number in numbers:
            if not self._removed.at(number):
                self._removed.put(number, True)
                self._present -= 1
                self._total_length -= self._lengths.at(number)

    # -- reading -----------------------------------------------------------------------------

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many terms each document has, removed ones included; do not write."""
        return self._lengths.view

    def length(self, number: int) -> int:
        """Return how many terms a document has."""
        return int(self._lengths.at(number))

    def having(self, terms: Iterable[str]) -> dict[str, array[int]]:
        """Return the documents, ascending and removed ones included, of those terms that have any.

        Do not write, and do not keep.
        """
        self.settle()
        return {term: self._postings[term].numbers for term in terms if term in self._postings}

    def has(self, term: str, number: int) -> bool:
        """Return whether a document, removed or not, was added with this term."""
        return bool(self.shared([term], [number])[0])

    def shared(self, terms: Sequence[str], numbers: Sequence[int]) -> list[list[int]]:
        """Return which of the terms, by their places, each of some documents was added with."""
        self.settle()
        found: list[list[int]] = [[] for _ in numbers]
        places = [place for place, term in enumerate(terms) if term in self._postings]
        wanted = np.array(numbers, dtype=np.intc)
        nearest = np.empty((len(places), len(wanted)), dtype=np.intc)
        for row, place in enumerate(places):
            # A view that ends here, before anybody may add to the array.
            having = np.frombuffer(self._postings[terms[place]].numbers, dtype=np.intc)
            having.take(having.searchsorted(wanted), mode="clip", out=nearest[row])
        for row, at in zip(*(one.tolist() for one in (nearest == wanted).nonzero()), strict=True):
            found[at].append(places[row])
        return found

    def scores(
        self, terms: Iterable[str], *, k1: float = 1.2, b: float = 0.3
    ) -> NDArray[np.float64]:
        """Return every document's BM25 score for the distinct `terms`; removed ones score 0.

        Args:
            terms: Analysed words; those in no document count nothing.
            k1: How soon repeats of a word stop counting.
            b: Share of the length normalisation, from 0 to 1.
        """
        self.settle()
        found = [self._postings[term] for term in dict.fromkeys(terms) if term in self._postings]
        if not found or not self._present:
            return np.zeros(len(self))
        numbers = _joined([posting.numbers for posting in found])
        counts = [len(posting.numbers) for posting in found]
        worth = self._shape_weights(k1, b).take(_joined([posting.shapes for posting in found]))
        worth *= np.repeat(self._idfs(numbers, counts), counts)
        # Adds one after the other, term by term.
        scores = np.bincount(numbers, worth, len(self)).astype(np.float64, copy=False)
        if self._present < len(self):
            scores[self._removed.view] = 0.0
        return scores

    def _idfs(self, numbers: NDArray[np.intc], counts: Sequence[int]) -> list[float]:
        """Return how rare each term is among the documents that are still there."""
        if self._present < len(self):
            starts = np.cumsum([0, *counts[:-1]])
            gone = np.add.reduceat(self._removed.view[numbers], starts, dtype=np.int64)
            counts = (counts - gone).tolist()
        return [math.log1p((self._present - count + 0.5) / (count + 0.5)) for count in counts]

    def _shape_weights(self, k1: float, b: float) -> NDArray[np.float64]:
        """Return what a term counts in a document of each shape, but for its rarity."""
        average = max(self._total_length / self._present, 1.0)
        counts = self._shape_counts.view
        damping = k1 * (1 - b + b * self._shape_lengths.view / average)
        weights: NDArray[np.float64] = counts * (k1 + 1) / (counts + damping)
        return weights
