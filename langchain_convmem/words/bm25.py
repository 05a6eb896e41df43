"""An incremental BM25 over documents of analysed terms. Pure; not thread-safe."""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from langchain_convmem.words.columns import GrowableArray, SavedColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray


_T = TypeVar("_T", bound=np.generic)


class _DocumentsByTerm(Mapping[str, "Sequence[int]"]):
    """The documents of terms, looked up when they are asked for: mostly the terms will do."""

    def __init__(self, terms: Iterable[str], postings: Postings) -> None:
        self._terms = dict.fromkeys(term for term in terms if term in postings)
        self._postings = postings

    def __getitem__(self, term: str) -> Sequence[int]:
        parts = [part.numbers for part in self._postings.find_postings(term)]
        return parts[0] if len(parts) == 1 else join_columns(parts).data

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
        self._lengths = GrowableArray(np.int64)
        self._removed = GrowableArray(np.bool_)
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

    def save_to(self, columns: SavedColumns) -> None:
        """Add copies of all there is."""
        self._postings.save_to(columns)
        columns.put_narrow("lengths", self._lengths.view)
        columns.put("removed documents", self._removed.view)

    @classmethod
    def load_from(cls, columns: SavedColumns) -> LexicalIndex:
        """Return the index that `save_to` was asked for.

        Raises:
            KeyError: If something is missing.
            ValueError: If something is not what was saved.
        """
        made = cls()
        made._lengths = GrowableArray.from_rows(columns.get_narrow("lengths"))
        made._removed = columns.get_growable("removed documents", np.bool_)
        kept = ~made._removed.view
        made._present = int(np.count_nonzero(kept))
        made._total_length = int(made._lengths.view[kept].sum())
        made._postings = Postings.load_from(columns, len(made))
        return made

    def remove(self, numbers: Iterable[int]) -> None:
        """Take documents out of every later scoring; the numbers of others stay. Idempotent."""
        for number in numbers:
            if not self._removed.get_item(number):
                self._removed.put(number, True)
                self._present -= 1
                self._total_length -= self._lengths.get_item(number)

    # -- reading -------------------------------------------------------------------------------

    @property
    def rarest(self) -> float:
        """How rare a term is that a single document has."""
        return math.log1p(max(self._present - 0.5, 0.0) / 1.5)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many terms each document has, removed ones included; do not write."""
        return self._lengths.view

    def count_terms(self, number: int) -> int:
        """Return how many terms a document has."""
        return int(self._lengths.get_item(number))

    def find_documents(self, terms: Iterable[str]) -> Mapping[str, Sequence[int]]:
        """Return the documents, ascending and removed ones included, of those terms that have any.

        Do not write, and do not keep.
        """
        self.settle()
        return _DocumentsByTerm(terms, self._postings)

    def find_terms_with(self, character: str) -> list[str]:
        """Return the terms that hold a character, in the order in which they came."""
        return self._postings.find_terms_with(character)

    def find_shared(self, terms: Sequence[str], numbers: Sequence[int]) -> list[list[int]]:
        """Return which of the terms, by their places, each of some documents was added with."""
        found: list[list[int]] = [[] for _ in numbers]
        self.settle()
        postings = self._postings
        parts_of = [postings.find_postings(term) if term in postings else () for term in terms]
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
        self.settle()
        postings = self._postings
        found = [postings.find_postings(term) for term in dict.fromkeys(terms) if term in postings]
        if not found or not self._present:
            return np.zeros(len(self))
        parts = list(chain.from_iterable(found))
        numbers = join_columns(part.numbers for part in parts)
        counts = [sum(len(part.numbers) for part in parts) for parts in found]
        worth = self._compute_shape_weights(k1, b).take(join_columns(part.shapes for part in parts))
        gone = ignored
        if self._present < len(self):
            gone = self._removed.view if ignored is None else self._removed.view | ignored
        worth *= np.repeat(self._compute_idfs(numbers, counts, gone), counts)
        # Adds one after the other, term by term.
        scores = np.bincount(numbers, worth, len(self)).astype(np.float64, copy=False)
        if self._present < len(self):
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
        self.settle()
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
        postings = self._postings
        found = [postings.find_postings(term) for term in terms if term in postings]
        mask[join_columns(part.numbers for part in chain.from_iterable(found))] = True
        return mask

    def select_marked(self, mark: str) -> NDArray[np.bool_]:
        """Return which documents bear a mark of `speech.find_marks`, removed ones included.

        Do not write: it is kept until a document is added.
        """
        return self.keep(f"={mark}", None, lambda: self._select_mark(f"={mark}"))

    def _select_mark(self, name: str) -> NDArray[np.bool_]:
        mask = np.zeros(len(self), dtype=np.bool_)
        found = self.find_documents([name])
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

    def compute_rarities(self, terms: Iterable[str]) -> dict[str, float]:
        """Return how rare each term is that some document has: its inverse document frequency."""
        self.settle()
        postings, present = self._postings, self._present
        counts = {
            term: sum([len(part.numbers) for part in postings.find_postings(term)])
            for term in terms
            if term in postings
        }
        return {
            term: math.log1p((present - count + 0.5) / (count + 0.5))
            for term, count in counts.items()
        }

    def _compute_idfs(
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

    def _compute_shape_weights(self, k1: float, b: float) -> NDArray[np.float64]:
        """Return what a term counts in a document of each shape, but for its rarity."""
        average = max(self._total_length / self._present, 1.0)
        shapes = self._postings.shapes
        counts, lengths = shapes.counts.view, shapes.lengths.view
        damping = k1 * (1 - b + b * lengths / average)
        weights: NDArray[np.float64] = counts * (k1 + 1) / (counts + damping)
        return weights


# -- postings ----------------------------------------------------------------------------------

# From this many documents on, sorting all their terms at once beats counting one by one.
_MANY = 64
# And for more at once it takes much memory.
_MOST_UNSORTED = 20_000
# One question looks up each of its terms several times.
_MOST_LOOKED_UP = 256
Column: TypeAlias = "array[int] | memoryview[int]"


class TermPostings(NamedTuple):
    """Where a term stands: documents, ascending, and its shape in each."""

    numbers: Column
    shapes: Column


def join_columns(columns: Iterable[Column]) -> NDArray[np.intc]:
    """Return a copy of the columns one after another: a view would forbid them to grow."""
    return np.frombuffer(b"".join(columns), dtype=np.intc)


class Postings:
    """The postings of documents that are numbered consecutively from 0. Not thread-safe.

    A block holds those of the documents that came first, many at once. Of later ones each term has
    columns of its own, which can grow, until so many come at once that a new block is worth it.
    """

    def __init__(self) -> None:
        """Create postings of no document."""
        self.shapes = Shapes()
        self._terms = _TermNumbers()
        self._block = _Block(array("q", [0]), array("i"), memoryview(array("i")))
        self._later: defaultdict[int, tuple[array[int], array[int]]] = _make_later()
        self._looked_up: dict[str, list[TermPostings]] = {}
        self._written = 0
        # What is to be written: parts in order, and after them documents as they came.
        self._parts: list[_TermColumns] = []
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

    def find_terms_with(self, character: str) -> list[str]:
        """Return the terms that hold a character, in the order in which they came."""
        return [term for term in self._terms if character in term]

    def find_postings(self, term: str) -> list[TermPostings]:
        """Return where a term stands, in parts one after another, if `settle` was called.

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
        found = [self._block.get_postings(number)] if number < self._block.terms else []
        later = self._later.get(number)
        if later is not None:
            found.append(TermPostings(*later))
        if len(self._looked_up) >= _MOST_LOOKED_UP:
            self._looked_up.clear()
        self._looked_up[term] = found
        return found

    # -- writing -------------------------------------------------------------------------------

    def save_to(self, columns: SavedColumns) -> None:
        """Add copies of all there is, which is put into one block first."""
        self.settle()
        self._gather(())
        columns.put_words("terms", self._terms)
        columns.put_narrow("starts of terms", self._block.starts)
        columns.put_narrow("documents", self._block.numbers)
        columns.put_narrow("shapes", self._block.shapes)
        columns.put("counts of shapes", self.shapes.counts.view)
        columns.put("lengths of shapes", self.shapes.lengths.view)

    @classmethod
    def load_from(cls, columns: SavedColumns, documents: int) -> Postings:
        """Return the postings of so many documents for which `save_to` was asked."""
        made = cls()
        made.shapes = Shapes.load_from(columns)
        terms = columns.get_words("terms")
        # Twice as fast as the pairs themselves.
        made._terms.update({term: number for number, term in enumerate(terms)})
        made._block = _Block(
            columns.get_numbers("q", "starts of terms"),
            columns.get_numbers("i", "documents"),
            columns.get_narrow("shapes", np.intc).data,
        )
        made._written = made._first_unsorted = documents
        return made

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
                numbers, shapes = self._later[term]
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
            self._gather(parts)
        self._written = self._first_unsorted

    def _gather(self, parts: Sequence[_TermColumns]) -> None:
        """Make one block of all that is written, and of parts that come after it."""
        if parts or self._later or self._block.terms < len(self._terms):
            self._looked_up.clear()
            before = [self._block.to_part(), self._make_later_part()]
            self._block = _Block.from_parts([*before, *parts], len(self._terms))
            self._later = _make_later()

    def _sort(self) -> None:
        """Make a part of what is unsorted."""
        lengths = np.array(self._lengths, dtype=np.int64)
        bits = len(lengths).bit_length()
        places = np.repeat(np.arange(len(lengths)), lengths)
        keys = np.array(self._unsorted, dtype=np.int64) << bits | places
        keys, counts = np.unique(keys, return_counts=True)
        places = keys & ((1 << bits) - 1)
        shapes = self.shapes.find_numbers(counts, lengths[places])
        numbers = (places + self._first_unsorted).astype(np.intc)
        self._parts.append(_TermColumns((keys >> bits).astype(np.intc), numbers, shapes))
        self._end_unsorted()

    def _end_unsorted(self) -> int:
        """Begin after the documents so far; return how many they are."""
        self._first_unsorted += len(self._lengths)
        self._unsorted = array("i")
        self._lengths = []
        return self._first_unsorted

    def _write_later(self, part: _TermColumns) -> None:
        terms, starts = np.unique(part.terms, return_index=True)
        ends = [*starts[1:].tolist(), len(part.terms)]
        for term, start, end in zip(terms.tolist(), starts.tolist(), ends, strict=True):
            numbers, shapes = self._later[term]
            numbers.frombytes(part.numbers[start:end].tobytes())
            shapes.frombytes(part.shapes[start:end].tobytes())

    def _make_later_part(self) -> _TermColumns:
        """Return all that comes after the block."""
        counts = [len(numbers) for numbers, _ in self._later.values()]
        return _TermColumns(
            np.repeat(np.array(list(self._later), dtype=np.intc), counts),
            join_columns(numbers for numbers, _ in self._later.values()),
            join_columns(shapes for _, shapes in self._later.values()),
        )


def _make_later() -> defaultdict[int, tuple[array[int], array[int]]]:
    return defaultdict(lambda: (array("i"), array("i")))


class _TermNumbers(dict[str, int]):
    """Numbers terms in the order they are asked for."""

    def __missing__(self, term: str) -> int:
        number = self[term] = len(self)
        return number


class _TermColumns(NamedTuple):
    """Postings by number of term, and of each term by document, in columns of equal length."""

    terms: NDArray[np.intc]
    numbers: NDArray[np.intc]
    shapes: NDArray[np.intc]


class _Block(NamedTuple):
    """Postings in two long columns: columns for each term would take a multiple of the time."""

    starts: array[int]
    """Where each term begins; after them, where the last one ends."""
    numbers: array[int]
    """As Python reads single numbers fastest."""
    shapes: memoryview[int]

    @classmethod
    def from_parts(cls, parts: Sequence[_TermColumns], terms: int) -> _Block:
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

    def get_postings(self, term: int) -> TermPostings:
        """Return where a term stands."""
        start, end = self.starts[term], self.starts[term + 1]
        return TermPostings(self.numbers[start:end], self.shapes[start:end])

    def to_part(self) -> _TermColumns:
        """Return all of it."""
        terms = np.repeat(np.arange(self.terms, dtype=np.intc), np.diff(self.starts))
        return _TermColumns(terms, join_columns([self.numbers]), join_columns([self.shapes]))


class Shapes:
    """How often a term stands in a document of which length: few pairs, shared by many."""

    def __init__(self) -> None:
        """Create it without any."""
        # By count and length; filled once one is asked for.
        self._numbers: dict[tuple[int, int], int] = {}
        self.counts = GrowableArray(np.int64)
        """How often, by the shape's number."""
        self.lengths = GrowableArray(np.int64)
        """In how many terms, by the shape's number."""

    @classmethod
    def load_from(cls, columns: SavedColumns) -> Shapes:
        """Return the shapes for which `Postings.save_to` was asked."""
        made = cls()
        made.counts = columns.get_growable("counts of shapes", np.int64)
        made.lengths = columns.get_growable("lengths of shapes", np.int64)
        return made

    def number(self, count: int, length: int) -> int:
        """Return the number of a shape."""
        if not self._numbers:
            pairs = zip(self.counts.view.tolist(), self.lengths.view.tolist(), strict=True)
            self._numbers = {pair: number for number, pair in enumerate(pairs)}
        found = self._numbers.get((count, length))
        if found is None:
            found = self._numbers[count, length] = len(self._numbers)
            self.counts.append(count)
            self.lengths.append(length)
        return found

    def find_numbers(
        self, counts: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> NDArray[np.intc]:
        """Return the numbers of many shapes."""
        width = int(lengths.max(initial=0)) + 1
        keys = counts * width + lengths
        pairs = np.unique(keys)
        found = [self.number(*divmod(pair, width)) for pair in pairs.tolist()]
        return np.array(found, dtype=np.intc)[pairs.searchsorted(keys)]
