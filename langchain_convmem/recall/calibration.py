"""What of a ranking is worth its room, and whether it holds what is asked. Pure.

The scores of a ranking are relative: some line is always best. What is worth its room depends on
who the question is about, and on how clearly something answers it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from langchain_convmem.recall.options import read_person
from langchain_convmem.recall.ranking import (
    FEW,
    Ranking,
    clear_evidence,
    compute_coverage,
    scale_evidence,
)
from langchain_convmem.words.analysis import analyze
from langchain_convmem.words.bm25 import LexicalIndex, Postings
from langchain_convmem.words.dates import NAMES_OF_TIMES
from langchain_convmem.words.languages import FUNCTION_CHARACTERS
from langchain_convmem.words.speech import is_courtesy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]

# Evidence, in standard deviations: what stands out, and is worth its room next to a segment that
# answers clearly; and what does among people.
_STANDING_OUT = 4.5
_NEAR = 4.2
# So much has the best of many lines of people among themselves, where anything is related to the
# question at all; of few it has ever less.
_RELATED = 5.5
# The same of a few, as a share of words and of cosines, the larger the more there are; as if so
# many more had cosine 0, since the mean of a few says little about chance.
_RELATED_SHARE = 0.1
_UNSEEN = 10
_NEAR_BEST = 0.8
_LOOSE = 2.5
# A question about the person who asks gets all that is loosely related up to the first of these
# shares of clear evidence, so many at most just above it, and ever fewer up to the second one.
_FADING, _GONE = 0.8, 1.5
_MOST_LOOSE = 13
# Below the first of these shares, a question about nobody gets so many of those that stand out, and
# so many of the user's statements.
_A_FEW = 2
# Where something answers clearly, what is worth less than this share of the best one is left out.
_HALF = 0.5
# A line answers that holds this share of what is asked about, and comes so near to the evidence for
# the best one. `python -m benchmarks.personal` counts verdicts by kind of question.
_ANSWERING = 0.66
_NUMBER = re.compile(r"\d+(?:st|nd|rd|th)?")


def select_worth(ranking: Ranking) -> tuple[Mask, Mask]:
    """Return which segments of a ranking are worth returning, and which are loosely related.

    Where something answers clearly, only what comes near it or may replace it is worth more. Where
    nothing does, a question about the person who asks gets what they said: a fact that is missing
    costs the answer, some tokens too many cost next to nothing. In between it gets the fewer of
    what they said, the clearer something answers. Any other question gets what stands out, and
    where nothing answers clearly, a few lines. Greetings and thanks get nothing.

    Returns:
        Two masks over all segments.
    """
    query, nothing = ranking.view.query, np.zeros(len(ranking.view.table), dtype=np.bool_)
    if is_courtesy(query.text) or not len(ranking):
        return nothing, nothing
    rows = _Rows(ranking)
    meant = read_person(query.text, query.before)
    if meant.asker or meant.subject_open or meant.listener:
        near, loose = rows.select_for_asker(meant.listener)
    elif ranking.view.table.is_two_sided and not rows.is_few:
        near, loose = rows.select_standing_out()
    else:
        near, loose = rows.select_near()
    kept = near | loose
    if kept.any():
        # Older ones that the best one replaces must be seen.
        kept[[*ranking.older, *ranking.beside, *ranking.sort(ranking.view.allowed, 1)]] = True
        kept &= rows.said
    if not rows.is_few and rows.clarity >= 1:
        kept &= rows.select_precise(kept)
    return kept, loose


@dataclass(slots=True)
class _Rows:
    """What a ranking tells of all segments, to judge which are worth their room."""

    ranking: Ranking

    @property
    def said(self) -> Mask:
        """Which say anything themselves."""
        found: Mask = self.ranking.evidence > -np.inf
        return found

    @property
    def is_few(self) -> bool:
        """Whether there are too few segments for any to stand out by chance."""
        return len(self.ranking) <= FEW

    @property
    def substance(self) -> Mask:
        """Which are more than a courtesy."""
        return ~self.ranking.view.lexical.select_marked("courtesy")

    @property
    def scale(self) -> float:
        """How much stands out by chance among so many."""
        return scale_evidence(len(self.ranking))

    @property
    def clarity(self) -> float:
        """How clearly the best one answers: 1 where its evidence is just clear."""
        return float(self.ranking.evidence.max()) / clear_evidence(len(self.ranking))

    def select_for_asker(self, asks_for_replies: bool) -> tuple[Mask, Mask]:
        """Return what a question about one of both sides gets, and what of it only just."""
        view, evidence, relevance = self.ranking.view, self.ranking.evidence, self.ranking.relevance
        near = evidence >= _STANDING_OUT * self.scale
        loose = self.said & ~near & self.substance
        if view.table.is_two_sided and not self.is_few:
            meant = view.stated | (asks_for_replies & view.table.select_role("assistant"))
            loose &= meant | (evidence >= _LOOSE * self.scale)
        elif not self.is_few:
            # Nobody answers in a memory of notes: all of it states something, most of it elsewhere.
            loose &= relevance >= _HALF * relevance[self.said].max(initial=0.0)
        if not self.is_few and self.clarity > _FADING:
            left = max((_GONE - self.clarity) / (_GONE - _FADING), 0.0)
            best = self.ranking.sort(loose, round(_MOST_LOOSE * left))
            loose[:] = False
            loose[best] = True
        return near, loose

    def select_near(self) -> tuple[Mask, Mask]:
        """Return what any question gets where nobody answers; it is shown whole."""
        nothing, most = np.zeros_like(self.said), self.ranking.evidence.max()
        # Less is enough where half of a memory says the same.
        least = min(_NEAR * self.scale, _NEAR_BEST * most)
        near = self.said if self.is_few else self.ranking.evidence >= least
        is_related = self._is_related() if self.is_few else most >= _RELATED * self.scale**2
        return (near if is_related else nothing), nothing

    def _is_related(self) -> bool:
        """Return whether anything is related to a question, by its words and by its meaning.

        What one holds of the words, and how much of the way from the mean cosine to 1 the nearest
        has come; the best of a few is seldom good by chance.
        """
        ranked, count = self.ranking.view.allowed, len(self.ranking)
        similarity = self.ranking.view.similarity[ranked]
        held = float(_compute_asked_share(self.ranking, self.ranking.view.held)[ranked].max())
        mean = float(similarity.sum()) / (count + _UNSEEN)
        closeness = (float(similarity.max()) - mean) / (1 - mean)
        return held + closeness >= _RELATED_SHARE * math.log(math.e * count)

    def select_standing_out(self) -> tuple[Mask, Mask]:
        """Return what a question about nobody gets of a dialogue with an assistant.

        Where nothing answers clearly, it may still ask for a fact: "Where is the spare key?"
        """
        near = (self.ranking.evidence >= _STANDING_OUT * self.scale) & self.substance
        if self.clarity < _FADING:
            stated = self.ranking.sort(self.ranking.view.stated & self.substance, _A_FEW)
            best = [*self.ranking.sort(near, _A_FEW), *stated]
            near = np.zeros_like(near)
            near[best] = True
        return near, np.zeros_like(near)

    def select_precise(self, kept: Mask) -> Mask:
        """Return what is worth half as much as the best that states something, or beside it."""
        relevance = self.ranking.relevance
        best = relevance[kept & ~_find_silent(self.ranking.view.lexical)].max(initial=0.0)
        strong: Mask = kept & (relevance >= _HALF * best)
        # What replaces a statement is seldom near to the question itself.
        strong[[*self.ranking.beside]] = True
        before, after = self.ranking.view.table.get_links()
        # What stands next to it shares its block.
        beside: Mask = strong[before] & (before >= 0)
        beside |= strong[after] & (after >= 0)
        return strong | beside


def is_answered(ranking: Ranking, numbers: NDArray[np.int64]) -> bool:
    """Return whether one of some segments holds what is asked; askings and ignorance do not.

    Neighbours are left out: they hold a question's words where a line merely stands next to them.
    """
    if not len(numbers):
        return False
    evidence = ranking.evidence[numbers]
    best = float(evidence.max())
    silent = _find_silent(ranking.view.lexical)[numbers]
    near = numbers[(evidence >= best - (1 - _NEAR_BEST) * abs(best)) & ~silent]
    held = ranking.view.held.select(near, len(ranking.view.table))
    return bool((_compute_asked_share(ranking, held) >= _ANSWERING).any())


def _find_silent(lexical: LexicalIndex) -> Mask:
    """Return which segments only ask, or answer that nothing is known."""
    return lexical.select_marked("asks") | lexical.select_marked("ignorant")


def _compute_asked_share(ranking: Ranking, held: Postings) -> NDArray[np.float64]:
    """Return what share each segment holds of the words that say what is asked about.

    Of all words of the question if nothing else is left.
    """
    words, context = ranking.view.terms, _collect_context_terms(ranking.view.table.speakers)
    telling = {
        term: word
        for term, word in words.items()
        if term not in context
        and not _NUMBER.fullmatch(term)
        and FUNCTION_CHARACTERS.isdisjoint(term)
    }
    return compute_coverage(telling or words, held, ranking.view.lexical)


@lru_cache(maxsize=16)
def _collect_context_terms(speakers: tuple[str, ...]) -> frozenset[str]:
    """Return the terms that name who spoke or when, which is known of a line but not its topic."""
    return frozenset(term for name in (*NAMES_OF_TIMES, *speakers) for term in analyze(name))
