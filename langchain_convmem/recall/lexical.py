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
from typing import TYPE_CHECKING

import numpy as np
import snowballstemmer

from langchain_convmem.recall.growable import Growable

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ANALYSIS_VERSION", "LexicalIndex", "analyze", "is_stop_word", "query_terms"]

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
    words: dict[str, str] = {}
    for run in _runs(text):
        for term in _terms_of_run(run.casefold()):
            words.setdefault(term, term if _IS_UNSPACED.match(run) else run)
    telling = {term: word for term, word in words.items() if term not in _stop_terms()}
    return words if stop_words or not telling else telling


def is_stop_word(word: str) -> bool:
    """Return whether questions leave the word out."""
    return word.casefold() in _STOP_WORDS.split()


@lru_cache(maxsize=1)
def _stop_terms() -> frozenset[str]:
    return frozenset(analyze(_STOP_WORDS))


class LexicalIndex:
    """BM25 over documents numbered consecutively from 0 (Robertson and Zaragoza 2009, eq. 3.15).

    Scores depend on the documents present alone: adding one by one, or adding and removing some,
    gives the same scores as building the index from those that remain.
    """

    def __init__(self) -> None:
        """Create an empty index."""
        self._numbers: dict[str, array[int]] = {}
        self._counts: dict[str, array[int]] = {}
        self._lengths = Growable(np.int64)
        self._removed = Growable(np.bool_)
        self._present = 0
        self._total_length = 0

    def __len__(self) -> int:
        """Return how many documents were added, removed ones included."""
        return len(self._lengths)

    def add(self, documents: Iterable[Sequence[str]]) -> None:
        """Append documents, each the list of its terms; numbers continue the earlier ones."""
        for terms in documents:
            number = len(self._lengths)
            for term, count in Counter(terms).items():
                if term not in self._numbers:
                    self._numbers[term], self._counts[term] = array("i"), array("i")
                self._numbers[term].append(number)
                self._counts[term].append(count)
            self._lengths.extend([len(terms)])
            self._removed.extend([False])
            self._present += 1
            self._total_length += len(terms)

    def remove(self, numbers: Iterable[int]) -> None:
        """Take documents out of every later scoring; the numbers of others stay. Idempotent."""
        for number in numbers:
            if not self._removed.view[number]:
                self._removed.view[number] = True
                self._present -= 1
                self._total_length -= int(self._lengths.view[number])

    def has(self, term: str, number: int) -> bool:
        """Return whether a document, removed or not, was added with this term."""
        numbers = self._numbers.get(term, ())
        at = bisect_left(numbers, number)
        return at < len(numbers) and numbers[at] == number

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
        removed = self._removed.view
        average = max(self._total_length / self._present, 1.0)
        for term in dict.fromkeys(terms):
            if term in self._numbers:
                # Copies: a view of an `array` would forbid it to grow for as long as it lives.
                numbers, counts = np.array(self._numbers[term]), np.array(self._counts[term])
                kept = ~removed[numbers]
                numbers, counts = numbers[kept], counts[kept]
                damping = k1 * (1 - b + b * self._lengths.view[numbers] / average)
                idf = np.log1p((self._present - len(numbers) + 0.5) / (len(numbers) + 0.5))
                scores[numbers] += idf * counts * (k1 + 1) / (counts + damping)
        return scores
