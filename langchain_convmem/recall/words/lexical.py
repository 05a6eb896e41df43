"""An incremental BM25 over documents of analysed terms. Pure; not thread-safe."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from langchain_convmem.recall.indexes.growable import Growable
from langchain_convmem.recall.words.postings import Postings, joined

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LexicalIndex"]

_T = TypeVar("_T", bound=np.generic)


class _Having(Mapping[str, "Sequence[int]"]):
    """The documents of terms, looked up when they are asked for: mostly the terms will do."""

    def __init__(self, terms: Iterable[str], postings: Postings) -> None:
        self._terms = dict.fromkeys(term for term in terms if term in postings)
        self._postings = postings

    def __getitem__(self, term: str) -> Sequence[int]:
        parts = [part.numbers for part in self._postings.of(term)]
        return parts[0] if len(parts) == 1 else joined(parts).data

    def __contains__(self, term: object) -> bool:
        return term in self._terms

    def __iter__(self) -> Iterator[str]:
        return iter(self._terms)

    def __len__(self) -> int:
        return len(self._terms)


class LexicalIndex:
    """BM25 over documents numbered consecutively from 0 (Robertson and Zaragoza 2009, eq. 3.15).

    Scores depend on the documents present alone: adding one by one, or adding and removing some,
    gives the same scores as building the index from those that remain.
    """

    def __init__(self) -> None:
        """Create an empty index."""
        self._postings = Postings()
        self._lengths = Growable(np.int64)
        self._removed = Growable(np.bool_)
        self._present = 0
        self._total_length = 0
        self._kept: dict[str, tuple[int, Hashable, NDArray[Any]]] = {}

    def __len__(self) -> int:
        """Return how many documents were added, removed ones included."""
        return len(self._lengths)

    def add(self, documents: Iterable[Sequence[str]]) -> None:
        """Append documents, each the list of its terms; numbers continue the earlier ones."""
        added = list(documents)
        lengths = list(map(len, added))
        self._postings.add(added, lengths)
        self._lengths.gather(lengths)
        self._removed.gather([False] * len(added))
        self._present += len(added)
        self._total_length += sum(lengths)

    def settle(self) -> None:
        """Write the postings of what was added, which a search would do otherwise."""
        self._postings.settle()

    def remove(self, numbers: Iterable[int]) -> None:
        """Take documents out of every later scoring; the numbers of others stay. Idempotent."""
        for number in numbers:
            if not self._removed.at(number):
                self._removed.put(number, True)
                self._present -= 1
                self._total_length -= self._lengths.at(number)

    # -- reading -----------------------------------------------------------------------------

    @property
    def rarest(self) -> float:
        """How rare a term is that a single document has."""
        return math.log1p(max(self._present - 0.5, 0.0) / 1.5)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many terms each document has, removed ones included; do not write."""
        return self._lengths.view

    def length(self, number: int) -> int:
        """Return how many terms a document has."""
        return int(self._lengths.at(number))

    def having(self, terms: Iterable[str]) -> Mapping[str, Sequence[int]]:
        """Return the documents, ascending and removed ones included, of those terms that have any.

        Do not write, and do not keep.
        """
        self.settle()
        return _Having(terms, self._postings)

    def has(self, term: str, number: int) -> bool:
        """Return whether a document, removed or not, was added with this term."""
        return bool(self.shared([term], [number])[0])

    def shared(self, terms: Sequence[str], numbers: Sequence[int]) -> list[list[int]]:
        """Return which of the terms, by their places, each of some documents was added with."""
        found: list[list[int]] = [[] for _ in numbers]
        self.settle()
        postings = self._postings
        parts_of = [postings.of(term) if term in postings else () for term in terms]
        places = [place for place, parts in enumerate(parts_of) for _ in parts]
        wanted = np.array(numbers, dtype=np.intc)
        nearest = np.empty((len(places), len(wanted)), dtype=np.intc)
        for row, part in enumerate(chain.from_iterable(parts_of)):
            # A view that ends here, before anybody may add to the array.
            having = np.frombuffer(part.numbers, dtype=np.intc)
            having.take(having.searchsorted(wanted), mode="clip", out=nearest[row])
        for row, at in zip(*(one.tolist() for one in (nearest == wanted).nonzero()), strict=True):
            found[at].append(places[row])
        return found

    def scores(
        self,
        terms: Iterable[str],
        *,
        k1: float = 1.2,
        b: float = 0.3,
        ignored: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.float64]:
        """Return every document's BM25 score for the distinct `terms`; removed ones score 0.

        Args:
            terms: Analysed words; those in no document count nothing.
            k1: How soon repeats of a word stop counting.
            b: Share of the length normalisation, from 0 to 1.
            ignored: Documents that do not count in how rare a term is.
        """
        self.settle()
        postings = self._postings
        found = [postings.of(term) for term in dict.fromkeys(terms) if term in postings]
        if not found or not self._present:
            return np.zeros(len(self))
        parts = list(chain.from_iterable(found))
        numbers = joined(part.numbers for part in parts)
        counts = [sum(len(part.numbers) for part in parts) for parts in found]
        worth = self._shape_weights(k1, b).take(joined(part.shapes for part in parts))
        gone = self._gone(ignored)
        worth *= np.repeat(self._idfs(numbers, counts, gone), counts)
        # Adds one after the other, term by term.
        scores = np.bincount(numbers, worth, len(self)).astype(np.float64, copy=False)
        if self._present < len(self):
            scores[self._removed.view] = 0.0
        return scores

    def marked(self, mark: str) -> NDArray[np.bool_]:
        """Return which documents bear a mark of `speech.marks`, removed ones included.

        Do not write: it is kept until a document is added.
        """
        return self.keep(f"={mark}", None, lambda: self._having_mark(f"={mark}"))

    def _having_mark(self, name: str) -> NDArray[np.bool_]:
        mask = np.zeros(len(self), dtype=np.bool_)
        found = self.having([name])
        if name in found:
            mask[np.array(found[name], dtype=np.intp)] = True
        return mask

    def keep(self, name: str, how: Hashable, make: Callable[[], NDArray[_T]]) -> NDArray[_T]:
        """Return a column that depends on the documents alone, removed ones included.

        Do not write: it is kept until a document is added.

        Args:
            name: Of the column.
            how: What else it depends on; of each name, the last one is kept.
            make: Makes it.
        """
        known = self._kept.get(name)
        if known is None or known[:2] != (len(self), how):
            known = self._kept[name] = len(self), how, make()
        return known[2]

    def rarities(self, terms: Iterable[str]) -> dict[str, float]:
        """Return how rare each term is that some document has: its inverse document frequency."""
        self.settle()
        postings, present = self._postings, self._present
        counts = {
            term: sum([len(part.numbers) for part in postings.of(term)])
            for term in terms
            if term in postings
        }
        return {
            term: math.log1p((present - count + 0.5) / (count + 0.5))
            for term, count in counts.items()
        }

    def _gone(self, ignored: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
        """Return which documents do not count; None where all do."""
        if self._present == len(self):
            return ignored
        return self._removed.view if ignored is None else self._removed.view | ignored

    def _idfs(
        self, numbers: NDArray[np.intc], counts: Sequence[int], gone: NDArray[np.bool_] | None
    ) -> list[float]:
        """Return how rare each term is among the documents that count."""
        present = len(self)
        if gone is not None:
            present -= int(np.count_nonzero(gone))
            starts = np.cumsum([0, *counts[:-1]])
            without = np.add.reduceat(gone[numbers], starts, dtype=np.int64)
            counts = (counts - without).tolist()
        return [math.log1p((present - count + 0.5) / (count + 0.5)) for count in counts]

    def _shape_weights(self, k1: float, b: float) -> NDArray[np.float64]:
        """Return what a term counts in a document of each shape, but for its rarity."""
        average = max(self._total_length / self._present, 1.0)
        shapes = self._postings.shapes
        damping = k1 * (1 - b + b * shapes.lengths / average)
        weights: NDArray[np.float64] = shapes.counts * (k1 + 1) / (shapes.counts + damping)
        return weights
