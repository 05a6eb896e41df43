"""An incremental BM25 over documents of analysed terms. Pure; not thread-safe."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray

_T = TypeVar("_T", bound=np.generic)
_FIRST_CAPACITY = 64


class GrowableArray:
    """A NumPy array that grows at its end in amortised constant time. Not thread-safe."""

    def __init__(self, dtype: DTypeLike) -> None:
        """Create an empty array."""
        self._rows: NDArray[Any] = np.empty(0, dtype=dtype)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def extend(self, rows: ArrayLike) -> None:
        """Append numbers; a view taken before keeps showing the old ones alone."""
        added = np.asarray(rows, dtype=self._rows.dtype)
        needed = self._length + len(added)
        if needed > len(self._rows):
            capacity = max(needed, len(self._rows) * 3 // 2, _FIRST_CAPACITY)
            grown = np.empty(capacity, dtype=self._rows.dtype)
            grown[: self._length] = self.view
            self._rows = grown
        self._rows[self._length : needed] = added
        self._length = needed

    def get_item(self, number: int) -> Any:
        """Return one number as a Python value."""
        return self._rows.item(number)

    @property
    def view(self) -> NDArray[Any]:
        """The numbers so far, writable, without a copy."""
        return self._rows[: self._length]


class LexicalIndex:
    """BM25 over documents numbered consecutively from 0 (Robertson and Zaragoza 2009, eq. 3.15).

    Scores depend on the documents present alone: adding one by one, or adding and removing some,
    gives the same scores as building the index from those that remain.
    """

    def __init__(self) -> None:
        """Create an empty index."""
        # Of each term the documents, ascending, and how often each holds it.
        self._postings: dict[str, tuple[array[int], array[int]]] = {}
        self._lengths = GrowableArray(np.int64)
        self._removed = GrowableArray(np.bool_)
        self._present = 0
        self._total_length = 0
        self._kept: dict[str, tuple[tuple[int, int], NDArray[Any]]] = {}

    def __len__(self) -> int:
        """Return how many documents were added, removed ones included."""
        return len(self._lengths)

    # -- writing ----------------------------------------------------------------------------------

    def add(self, documents: Iterable[Sequence[str]]) -> None:
        """Append documents, each the list of its terms; numbers continue the earlier ones."""
        postings, lengths = self._postings, list[int]()
        for number, terms in enumerate(documents, len(self)):
            lengths.append(len(terms))
            for term, count in Counter(terms).items():
                found = postings.get(term)
                if found is None:
                    found = postings[term] = array("i"), array("i")
                found[0].append(number)
                found[1].append(count)
        self._lengths.extend(lengths)
        self._removed.extend([False] * len(lengths))
        self._present += len(lengths)
        self._total_length += sum(lengths)

    def remove(self, numbers: Iterable[int]) -> None:
        """Take documents out of every later scoring; the numbers of others stay. Idempotent."""
        for number in numbers:
            if not self._removed.get_item(number):
                self._removed.view[number] = True
                self._present -= 1
                self._total_length -= self._lengths.get_item(number)

    def save(self) -> tuple[list[str], dict[str, NDArray[Any]]]:
        """Return the terms, and copies of the columns by name."""
        documents, counts = ([part[at] for part in self._postings.values()] for at in (0, 1))
        columns: dict[str, NDArray[Any]] = {
            "ends": np.cumsum([len(one) for one in documents], dtype=np.int64),
            "documents": np.frombuffer(b"".join(documents), dtype=np.intc),
            "counts": np.frombuffer(b"".join(counts), dtype=np.intc),
            "lengths": self._lengths.view.copy(),
            "removed documents": self._removed.view.copy(),
        }
        return list(self._postings), columns

    @classmethod
    def load(cls, terms: Sequence[str], saved: Mapping[str, NDArray[Any]]) -> LexicalIndex:
        """Return the index of which `save` was asked.

        Raises:
            KeyError: If a column is missing.
            ValueError: If one does not fit.
        """
        made = cls()
        documents, counts = (saved[name].astype(np.intc) for name in ("documents", "counts"))
        borders = [0, *saved["ends"].tolist()]
        if not len(documents) == len(counts) == borders[-1] or len(borders) != len(terms) + 1:
            raise ValueError("postings of another length")
        for term, (start, end) in zip(terms, pairwise(borders), strict=True):
            parts = (array("i", column[start:end].tobytes()) for column in (documents, counts))
            made._postings[term] = tuple(parts)  # type: ignore[assignment]  # two
        made._lengths.extend(saved["lengths"])
        made._removed.extend(saved["removed documents"])
        kept = ~made._removed.view
        made._present, made._total_length = int(kept.sum()), int(made._lengths.view[kept].sum())
        return made

    # -- reading ----------------------------------------------------------------------------------

    @property
    def rarest(self) -> float:
        """How rare a term is that a single document has."""
        return math.log1p(max(self._present - 0.5, 0.0) / 1.5)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many terms each document has, removed ones included; do not write."""
        return self._lengths.view

    def find_documents(self, terms: Iterable[str]) -> dict[str, NDArray[np.intc]]:
        """Return the documents, ascending and removed ones included, of those terms that have any.

        Copies: an array that is looked at cannot grow.
        """
        return {term: np.array(self._postings[term][0]) for term in terms if term in self._postings}

    def find_terms_with(self, character: str) -> list[str]:
        """Return the terms that hold a character, in the order in which they came."""
        return [term for term in self._postings if character in term]

    def find_shared(self, terms: Sequence[str], numbers: Sequence[int]) -> list[list[int]]:
        """Return which of the terms, by their places, each of some documents was added with."""
        found: list[list[int]] = [[] for _ in numbers]
        wanted = np.array(numbers, dtype=np.intc)
        for place, term in enumerate(terms):
            for having in self.find_documents([term]).values():
                near = having.take(having.searchsorted(wanted), mode="clip")
                for at in (near == wanted).nonzero()[0].tolist():
                    found[at].append(place)
        return found

    def compute_scores(
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
        scores = np.zeros(len(self))
        gone = self._removed.view if ignored is None else self._removed.view | ignored
        present = len(self) - int(np.count_nonzero(gone))
        average = max(self._total_length / max(self._present, 1), 1.0)
        for documents, repeats in filter(None, map(self._postings.get, dict.fromkeys(terms))):
            numbers, counts = np.array(documents), np.array(repeats)
            having = len(numbers) - int(np.count_nonzero(gone[numbers]))
            damping = k1 * (1 - b + b * self._lengths.view[numbers] / average)
            rarity = math.log1p((present - having + 0.5) / (having + 0.5))
            scores[numbers] += rarity * counts * (k1 + 1) / (counts + damping)
        scores[self._removed.view] = 0.0
        return scores

    def compute_kind_scores(
        self,
        kinds: Mapping[str, Iterable[str]],
        *,
        ignored: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.float64]:
        """Return what documents score by terms of the kinds that a question names.

        All terms of a kind count as one: a document that holds any of them scores how rare such
        documents are, unless it holds the name of the kind itself. Removed ones score 0.

        Args:
            kinds: By the term that names a kind the terms of what is of it.
            ignored: Documents that do not count in how rare a kind is.
        """
        counted = ~self._removed.view if ignored is None else ~(self._removed.view | ignored)
        present = int(np.count_nonzero(counted))
        scores = np.zeros(len(self))
        for name, terms in kinds.items():
            holding = self._select_holding(terms)
            having = np.count_nonzero(holding & counted)
            holding &= ~self._select_holding([name])
            scores[holding] += math.log1p((present - having + 0.5) / (having + 0.5))
        scores[self._removed.view] = 0.0
        return scores

    def _select_holding(self, terms: Iterable[str]) -> NDArray[np.bool_]:
        """Return which documents hold any of some terms, removed ones included."""
        mask = np.zeros(len(self), dtype=np.bool_)
        for numbers in self.find_documents(terms).values():
            mask[numbers] = True
        return mask

    def select_marked(self, mark: str) -> NDArray[np.bool_]:
        """Return which documents bear a mark of `speech.find_mark`, removed ones included.

        Do not write: it is kept until a document is added or removed.
        """
        return self.keep(f"={mark}", lambda: self._select_holding([f"={mark}"]))

    def keep(self, name: str, make: Callable[[], NDArray[_T]]) -> NDArray[_T]:
        """Return a column of this name, which depends on the documents alone.

        Do not write: it is kept until a document is added or removed.
        """
        size, known = (len(self), self._present), self._kept.get(name)
        if known is None or known[0] != size:
            known = self._kept[name] = size, make()
        return known[1]

    def compute_rarities(self, terms: Iterable[str]) -> dict[str, float]:
        """Return how rare each term is that some document has: its inverse document frequency."""
        counts = {term: len(self._postings[term][0]) for term in terms if term in self._postings}
        return {
            term: math.log1p((self._present - count + 0.5) / (count + 0.5))
            for term, count in counts.items()
        }
