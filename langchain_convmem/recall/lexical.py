"""Words of a text, and an incremental BM25 over them. Pure; not thread-safe.

The analysis is part of what a log stores beside its lines: raise `ANALYSIS_VERSION` whenever
`analyze` answers differently, or old rows would be searched with new words.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import snowballstemmer

from langchain_convmem.recall.growable import Growable

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "ANALYSIS_VERSION",
    "LexicalIndex",
    "analyze",
    "is_stop_word",
    "query_terms",
    "stands_in",
]

ANALYSIS_VERSION = 1

# Han, kana, Hangul, and Thai/Lao/Khmer/Myanmar, all written without blanks between words (Hangul
# with, but its particles stick to the words): characters themselves are the terms there.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u30ff\u3130-\u318f"
_UNSPACED += "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
_UNSPACED += "\uff66-\uff9f\U00020000-\U0003ffff"
# Vowel signs and points are no word characters to a regular expression, yet stand inside words.
_MARKS = "\u0300-\u036f\u0591-\u05bd\u064b-\u0652\u0900-\u0963\u0966-\u0dff"
_LETTER = rf"(?:[^\W_{_UNSPACED}]|[{_MARKS}])"
_RUN = re.compile(rf"[{_UNSPACED}]+|{_LETTER}+(?:'{_LETTER}+)*")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")

# Words that shape an English question without saying what it is about. They are searched for in
# no question but stay in the index, so that a question of nothing else still finds something.
_STOP_WORDS = """
a an the and or but nor if then than so as because while of at by for from with without about into
over under to in on up down out off between through during before after above below again
i me my mine myself you your yours yourself he him his himself she her hers herself it its itself
we us our ours ourselves they them their theirs themselves this that these those there here
am is are was were be been being do does did doing done have has had having
can could may might must shall should will would
what which who whom whose when where why how not no any some such same too very just only
i'm i've i'd i'll you're you've you'd you'll he'd he'll she'd she'll it'll we're we've we'd we'll
they're they've they'd they'll isn't aren't wasn't weren't don't doesn't didn't haven't hasn't
hadn't can't couldn't won't wouldn't shouldn't
"""

# From this many documents on, sorting all their terms at once beats counting one by one.
_MANY = 64
_MOST_UNWRITTEN = 20_000
_POSTING_BYTES = array("i").itemsize

_stemmer = threading.local()


@lru_cache(maxsize=100_000)
def _stem(word: str) -> str:
    # A Snowball stemmer keeps the word it works on, so each thread has its own.
    stemmer = getattr(_stemmer, "english", None)
    if stemmer is None:
        stemmer = _stemmer.english = snowballstemmer.stemmer("english")
    return str(stemmer.stemWord(word))


def _runs(text: str) -> list[str]:
    if not text.isascii():
        # Composed letters, plain-width forms, one apostrophe: the same word, the same term.
        text = unicodedata.normalize("NFKC", text).replace("\u2019", "'")
    runs: list[str] = _RUN.findall(text)
    return runs


def _terms_of_run(run: str) -> Iterable[str]:
    if not _IS_UNSPACED.match(run):
        return (_stem(run.removesuffix("'s")),)
    if len(run) == 1:
        return (run,)
    return (run[i : i + 2] for i in range(len(run) - 1))


def analyze(text: str) -> list[str]:
    """Return the search terms of `text`, in order, repeats included.

    Words are casefolded and reduced to their English stem; scripts without blanks between words
    give the overlapping pairs of their characters (a lone character stands for itself).
    """
    return [term for run in _runs(text) for term in _terms_of_run(run.casefold())]


def query_terms(text: str, *, stop_words: bool = False) -> dict[str, str]:
    """Return the distinct terms of a question in order, each with the word that stands for it.

    Args:
        text: The question.
        stop_words: Keep function words. They stay in any case if there is nothing else.
    """
    words = dict(_query_words(text))
    stop_terms = _stop_terms()
    telling = {term: word for term, word in words.items() if term not in stop_terms}
    return words if stop_words or not telling else telling


@lru_cache(maxsize=16)
def _query_words(text: str) -> tuple[tuple[str, str], ...]:
    # Kept for a moment, since one recall asks for them several times.
    words: dict[str, str] = {}
    for run in _runs(text):
        unspaced = _IS_UNSPACED.match(run)
        for term in _terms_of_run(run.casefold()):
            words.setdefault(term, term if unspaced else run)
    return tuple(words.items())


def is_stop_word(word: str) -> bool:
    """Return whether questions leave the word out."""
    return word.casefold() in _stop_words()


@lru_cache(maxsize=1)
def _stop_words() -> frozenset[str]:
    return frozenset(_STOP_WORDS.split())


@lru_cache(maxsize=1)
def _stop_terms() -> frozenset[str]:
    return frozenset(analyze(_STOP_WORDS))


def stands_in(numbers: Sequence[int], number: int) -> bool:
    """Return whether a number is among ascending ones."""
    at = bisect_left(numbers, number)
    return at < len(numbers) and numbers[at] == number


class _Ids(dict[str, int]):
    """Numbers terms in the order they are asked for."""

    def __missing__(self, term: str) -> int:
        number = self[term] = len(self)
        return number


class _Postings(NamedTuple):
    """Where a term stands: documents, ascending, and its shape in each."""

    numbers: array[int]
    shapes: array[int]


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
        # Documents whose postings are not written yet: many at once cost a fraction.
        self._unwritten: list[Sequence[str]] = []

    def __len__(self) -> int:
        """Return how many documents were added, removed ones included."""
        return len(self._lengths)

    def add(self, documents: Iterable[Sequence[str]]) -> None:
        """Append documents, each the list of its terms; numbers continue the earlier ones."""
        for terms in documents:
            self._lengths.append(len(terms))
            self._removed.append(False)
            self._present += 1
            self._total_length += len(terms)
            self._unwritten.append(terms)
            if len(self._unwritten) == _MOST_UNWRITTEN:
                self.settle()

    # -- writing postings --------------------------------------------------------------------

    def settle(self) -> None:
        """Write the postings of what was added, which a search would do otherwise."""
        documents, self._unwritten = self._unwritten, []
        first = len(self) - len(documents)
        if len(documents) < _MANY:
            for number, terms in enumerate(documents, first):
                for term, count in Counter(terms).items():
                    posting = self._postings_of(term)
                    posting.numbers.append(number)
                    posting.shapes.append(self._shape(count, len(terms)))
        else:
            self._write_many(first, documents)

    def _write_many(self, first: int, documents: Sequence[Sequence[str]]) -> None:
        """Write postings as `settle` does, sorted by term with NumPy instead of counted."""
        ids = _Ids()
        flat = np.array([ids[term] for terms in documents for term in terms], dtype=np.int64)
        lengths = np.array([len(terms) for terms in documents], dtype=np.int64)
        places = np.repeat(np.arange(len(documents)), lengths)
        keys, counts = np.unique(flat * len(documents) + places, return_counts=True)
        term_ids, places = np.divmod(keys, len(documents))
        numbers = (places + first).astype(np.intc).tobytes()
        shapes = self._shapes_of(counts, lengths[places]).astype(np.intc).tobytes()
        ends = np.searchsorted(term_ids, np.arange(len(ids)), side="right") * _POSTING_BYTES
        start = 0
        for term, end in zip(ids, ends.tolist(), strict=True):
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

    def having(self, terms: Iterable[str]) -> dict[str, array[int]]:
        """Return the documents, ascending and removed ones included, of those terms that have any.

        Do not write, and do not keep.
        """
        self.settle()
        return {term: self._postings[term].numbers for term in terms if term in self._postings}

    def has(self, term: str, number: int) -> bool:
        """Return whether a document, removed or not, was added with this term."""
        return stands_in(self.having([term]).get(term, ()), number)

    def scores(
        self, terms: Iterable[str], *, k1: float = 1.2, b: float = 0.3
    ) -> NDArray[np.float32]:
        """Return every document's BM25 score for the distinct `terms`; removed ones score 0.

        Args:
            terms: Analysed words; those in no document count nothing.
            k1: How soon repeats of a word stop counting.
            b: Share of the length normalisation, from 0 to 1.
        """
        scores = np.zeros(len(self._lengths), dtype=np.float32)
        if not self._present:
            return scores
        self.settle()
        removed = self._removed.view if self._present < len(self._lengths) else None
        weights = self._shape_weights(k1, b)
        for term in dict.fromkeys(terms):
            if term in self._postings:
                # Copies: a view of an `array` would forbid it to grow for as long as it lives.
                numbers = np.array(self._postings[term].numbers, dtype=np.intp)
                shapes = np.array(self._postings[term].shapes, dtype=np.intp)
                count = len(numbers)
                if removed is not None:
                    count -= int(np.count_nonzero(removed[numbers]))
                idf = np.log1p((self._present - count + 0.5) / (count + 0.5))
                scores[numbers] += (idf * weights)[shapes]
        if removed is not None:
            scores[removed] = 0.0
        return scores

    def _shape_weights(self, k1: float, b: float) -> NDArray[np.float64]:
        """Return what a term counts in a document of each shape, but for its rarity."""
        average = max(self._total_length / self._present, 1.0)
        counts = self._shape_counts.view
        damping = k1 * (1 - b + b * self._shape_lengths.view / average)
        weights: NDArray[np.float64] = counts * (k1 + 1) / (counts + damping)
        return weights
