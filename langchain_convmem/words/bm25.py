"""An incremental BM25 over documents of analysed terms. Pure; not thread-safe."""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import chain, pairwise, repeat
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray

_T = TypeVar("_T", bound=np.generic)
_FIRST_CAPACITY = 64
# How soon repeats of a word stop counting.
_K1 = 1.2


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


class Postings(NamedTuple):
    """Which documents hold some terms: a copy, since what is looked at cannot grow.

    Attributes:
        rarities: How rare each term is that any document has: its inverse document frequency.
        sizes: How many documents each of these has, removed ones included.
        documents: Their numbers, term after term, ascending for each.
        counts: How often each of them holds the term.
    """

    rarities: Mapping[str, float]
    sizes: NDArray[np.int64]
    documents: NDArray[np.int64]
    counts: NDArray[np.float64]

    def select(self, numbers: Sequence[int] | NDArray[np.int64], total: int) -> Postings:
        """Return which of these documents, of so many in all, hold the terms."""
        some = np.zeros(total, dtype=np.bool_)
        some[numbers] = True
        at = some.take(self.documents).nonzero()[0] if len(numbers) else np.empty(0, dtype=np.int64)
        sizes = at.searchsorted(self.sizes.cumsum())
        sizes[1:] -= sizes[:-1].copy()
        return self._replace(sizes=sizes, documents=self.documents[at], counts=self.counts[at])

    def sum_up(self, worth: NDArray[np.floating[Any]], total: int) -> NDArray[np.float64]:
        """Return for each document, of so many, the sum of what its postings are worth."""
        return np.bincount(self.documents, worth, total).astype(np.float64, copy=False)

    def find_shared(self, numbers: Iterable[int], total: int) -> dict[int, list[str]]:
        """Return which terms each of some documents holds; there are so many in all."""
        found: dict[int, list[str]] = {number: [] for number in numbers}
        near = self.select(list(found), total)
        terms = chain.from_iterable(map(repeat, near.rarities, near.sizes.tolist()))
        for number, term in zip(near.documents.tolist(), terms, strict=True):
            found[number].append(term)
        return found


class LexicalIndex:
    """BM25 over documents numbered consecutively from 0 (Robertson and Zaragoza 2009, eq. 3.15).

    Scores depend on the documents present alone: adding one by one, or adding and removing some,
    gives the same scores as building the index from those that remain.
    """

    def __init__(self) -> None:
        """Create an empty index."""
        # Of each term the documents, ascending, each followed by how often it holds the term.
        self._postings: dict[str, array[int]] = {}
        self._lengths = GrowableArray(np.int64)
        self._removed = GrowableArray(np.bool_)
        self._present = 0
        self._total_length = 0
        # The number of terms, and all of them in one text, a line each: that is searched faster.
        self._listed = 0, ""
        self._kept: dict[Hashable, tuple[tuple[int, int], NDArray[Any]]] = {}

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
                postings.setdefault(term, array("i")).extend((number, count))
        self._lengths.extend(lengths)
        self._removed.extend([False] * len(lengths))
        self._present += len(lengths)
        self._total_length += sum(lengths)

    def remove(self, numbers: Iterable[int]) -> None:
        """Take documents out of every later scoring; the numbers of others stay. Idempotent."""
        present = [one for one in dict.fromkeys(numbers) if not self._removed.get_item(one)]
        self._removed.view[present] = True
        self._present -= len(present)
        self._total_length -= int(self._lengths.view[present].sum())

    def save(self) -> tuple[list[str], dict[str, NDArray[Any]]]:
        """Return the terms, and copies of the columns by name."""
        postings = self._postings.values()
        columns: dict[str, NDArray[Any]] = {
            "ends": np.cumsum([len(one) for one in postings], dtype=np.int64),
            "postings": np.frombuffer(b"".join(postings), dtype=np.intc),
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
        postings = saved["postings"].astype(np.intc, copy=False)
        borders = [0, *saved["ends"].tolist()]
        if len(postings) != borders[-1] or len(borders) != len(terms) + 1:
            raise ValueError("postings of another length")
        for term, (start, end) in zip(terms, pairwise(borders), strict=True):
            made._postings[term] = array("i", postings[start:end].tobytes())
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

    def find(self, terms: Iterable[str]) -> Postings:
        """Return which documents hold the distinct terms."""
        rarities = self.compute_rarities(terms)
        held = [self._postings[term] for term in rarities]
        pairs = np.frombuffer(b"".join(held), dtype=np.intc).reshape(-1, 2)
        documents, counts = pairs[:, 0].astype(np.int64), pairs[:, 1].astype(np.float64)
        sizes = np.array([len(one) // 2 for one in held], dtype=np.int64)
        return Postings(rarities, sizes, documents, counts)

    def find_terms_with(self, part: str) -> list[str]:
        """Return the terms that hold a part, in the order in which they came."""
        if len(self._postings) > self._listed[0]:
            self._listed = len(self._postings), "\n".join(self._postings)
        _, text = self._listed
        held = re.finditer(f"{re.escape(part)}.*", text)
        return [text[text.rfind("\n", 0, one.start()) + 1 : one.end()] for one in held]

    def compute_scores(
        self, found: Postings, *, b: float = 0.3, ignored: NDArray[np.bool_] | bool = False
    ) -> NDArray[np.float64]:
        """Return every document's BM25 score for the terms that were found; removed ones score 0.

        Args:
            found: What `find` returned for them.
            b: Share of the length normalisation, from 0 to 1.
            ignored: Documents that do not count in how rare a term is.
        """
        gone = self._removed.view | ignored
        present = len(self) - int(np.count_nonzero(gone))
        average = max(self._total_length / max(self._present, 1), 1.0)
        damping = self.keep(b, lambda: _K1 * (1 - b + b * self._lengths.view / average))
        lost = found.select(gone.nonzero()[0], len(self)).sizes if present < len(self) else 0
        having = found.sizes - lost
        rarities = [(_K1 + 1) * _weigh_rarity(present, one) for one in having.tolist()]
        worth = np.repeat(rarities, found.sizes) * found.counts
        worth /= found.counts + damping.take(found.documents)
        scores = found.sum_up(worth, len(self))
        scores[self._removed.view] = 0.0
        return scores

    def compute_kind_scores(
        self, kinds: Mapping[str, Iterable[str]], ignored: NDArray[np.bool_] | bool = False
    ) -> NDArray[np.float64]:
        """Return what documents score by terms of the kinds that a question names.

        All terms of a kind count as one: a document that holds any of them scores how rare such
        documents are, unless it holds the name of the kind itself. Removed ones score 0.

        Args:
            kinds: By the term that names a kind the terms of what is of it.
            ignored: Documents that do not count in how rare a kind is.
        """
        counted, scores = ~(self._removed.view | ignored), np.zeros(len(self))
        present = int(np.count_nonzero(counted))
        for name, terms in kinds.items():
            holding, named = map(self._select_holding, (frozenset(terms), frozenset([name])))
            having = int(np.count_nonzero(holding & counted))
            scores += _weigh_rarity(present, having) * (holding & ~named)
        scores[self._removed.view] = 0.0
        return scores

    def _select_holding(self, terms: frozenset[str]) -> NDArray[np.bool_]:
        """Return which documents hold any of some terms, removed ones included; do not write."""
        return self.keep(
            terms, lambda: np.bincount(self.find(terms).documents, None, len(self)) > 0
        )

    def select_marked(self, mark: str) -> NDArray[np.bool_]:
        """Return which documents bear a mark of `speech.find_mark`, removed ones included.

        Do not write: it is kept until a document is added or removed.
        """
        return self._select_holding(frozenset([f"={mark}"]))

    def keep(self, name: Hashable, make: Callable[[], NDArray[_T]]) -> NDArray[_T]:
        """Return a column of this name, which depends on the documents alone.

        Do not write: it is kept until a document is added or removed.
        """
        size, known = (len(self), self._present), self._kept.get(name)
        if known is None or known[0] != size:
            known = self._kept[name] = size, make()
        return known[1]

    def select_held(self, terms: Iterable[str]) -> list[str]:
        """Return the terms that some document has, removed ones included."""
        return list(filter(self._postings.__contains__, terms))

    def compute_rarities(self, terms: Iterable[str]) -> dict[str, float]:
        """Return how rare each term is that some document has: its inverse document frequency."""
        counts = {term: len(self._postings[term]) // 2 for term in self.select_held(terms)}
        return {term: _weigh_rarity(self._present, count) for term, count in counts.items()}


def _weigh_rarity(present: int, having: int) -> float:
    """Return the inverse document frequency of what so many of the documents have."""
    return math.log1p((present - having + 0.5) / (having + 0.5))
