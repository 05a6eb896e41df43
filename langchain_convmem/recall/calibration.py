"""What of a ranking is worth its room, and whether it holds what is asked. Pure.

The scores of a ranking are relative: some line is always best. What is worth its room depends on
who the question is about, and on how clearly something answers it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from langchain_convmem.recall.ranking import Ranking, weigh_words
from langchain_convmem.words.analysis import analyze
from langchain_convmem.words.bm25 import LexicalIndex
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
# Below the first of these shares, a question about nobody gets the best of those that stand out,
# and so many of the user's statements.
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
    if any(ranking.view.meant):
        near, loose = _select_for_asker(ranking)
    elif ranking.view.table.is_two_sided and not ranking.is_few:
        near, loose = _select_standing_out(ranking), nothing
    else:
        near, loose = _select_near(ranking), nothing
    kept = near | loose
    if kept.any():
        # Older ones that the best one replaces must be seen.
        lead = int(np.where(ranking.view.allowed, ranking.relevance, -np.inf).argmax())
        kept[[*ranking.older, *ranking.beside, lead]] = True
        kept &= ranking.view.counted
    if not ranking.is_few and ranking.clarity >= 1:
        kept &= _select_precise(ranking, kept)
    return kept, loose


def _select_for_asker(ranking: Ranking) -> tuple[Mask, Mask]:
    """Return what a question about one of both sides gets, and what of it only just."""
    view, evidence, relevance = ranking.view, ranking.evidence, ranking.relevance
    near = evidence >= _STANDING_OUT * ranking.scale
    loose = view.counted & ~near & view.substance
    if view.table.is_two_sided and not ranking.is_few:
        meant = view.stated | (view.meant.listener & view.table.select_role("assistant"))
        loose &= meant | (evidence >= _LOOSE * ranking.scale)
    elif not ranking.is_few:
        # Nobody answers in a memory of notes: all of it states something, most of it elsewhere.
        loose &= relevance >= _HALF * relevance[view.counted].max(initial=0.0)
    if not ranking.is_few and ranking.clarity > _FADING:
        left = max((_GONE - ranking.clarity) / (_GONE - _FADING), 0.0)
        best = ranking.sort(loose, round(_MOST_LOOSE * left))
        loose[:] = False
        loose[best] = True
    return near, loose


def _select_near(ranking: Ranking) -> Mask:
    """Return what any question gets where nobody answers; it is shown whole."""
    most = ranking.evidence.max()
    # Less is enough where half of a memory says the same.
    least = min(_NEAR * ranking.scale, _NEAR_BEST * most)
    near = ranking.view.counted if ranking.is_few else ranking.evidence >= least
    is_related = _is_related(ranking) if ranking.is_few else most >= _RELATED * ranking.scale**2
    return near & is_related


def _is_related(ranking: Ranking) -> bool:
    """Return whether anything is related to a question, by its words and by its meaning.

    What one holds of the words, and how much of the way from the mean cosine to 1 the nearest
    has come; the best of a few is seldom good by chance.
    """
    view, count = ranking.view, len(ranking)
    similarity, numbers = view.similarity[view.allowed], view.allowed.nonzero()[0].tolist()
    held = max(_compute_asked_shares(ranking, view.held.find_shared(numbers, len(view.table))))
    mean = float(similarity.sum()) / (count + _UNSEEN)
    closeness = (float(similarity.max()) - mean) / (1 - mean)
    return held + closeness >= _RELATED_SHARE * math.log(math.e * count)


def _select_standing_out(ranking: Ranking) -> Mask:
    """Return what a question about nobody gets of a dialogue with an assistant.

    Where nothing answers clearly, it may still ask for a fact: "Where is the spare key?"
    """
    substance = ranking.view.substance
    near: Mask = (ranking.evidence >= _STANDING_OUT * ranking.scale) & substance
    if ranking.clarity < _FADING:
        stated = ranking.sort(ranking.view.stated & substance, _A_FEW)
        best = [*ranking.sort(near, 1), *stated]
        near = np.zeros_like(near)
        near[best] = True
    return near


def _select_precise(ranking: Ranking, kept: Mask) -> Mask:
    """Return what is worth half as much as the best that states something, or beside it."""
    relevance = ranking.relevance
    best = relevance[kept & ~_find_silent(ranking.view.lexical)].max(initial=0.0)
    strong: Mask = kept & (relevance >= _HALF * best)
    # What replaces a statement is seldom near to the question itself.
    strong[[*ranking.beside]] = True
    before, after = ranking.view.table.get_links()
    # What stands next to it shares its block.
    beside: Mask = strong[before] & (before >= 0)
    beside |= strong[after] & (after >= 0)
    return strong | beside


def is_answered(ranking: Ranking, shown: Mapping[int, Collection[str]]) -> bool:
    """Return whether one of some segments holds what is asked; askings and ignorance do not.

    Neighbours are left out: they hold a question's words where a line merely stands next to them.

    Args:
        ranking: What was asked.
        shown: The terms of the question that each of the segments holds.
    """
    numbers = list(shown)
    evidence = ranking.evidence[numbers]
    best = float(evidence.max(initial=-np.inf))
    silent = _find_silent(ranking.view.lexical)[numbers]
    near = (evidence >= best - (1 - _NEAR_BEST) * abs(best)) & ~silent
    shares = np.array(_compute_asked_shares(ranking, shown))
    return bool((near & (shares >= _ANSWERING)).any())


def _find_silent(lexical: LexicalIndex) -> Mask:
    """Return which segments only ask, or answer that nothing is known."""
    return lexical.select_marked("asks") | lexical.select_marked("ignorant")


def _compute_asked_shares(ranking: Ranking, held: Mapping[int, Collection[str]]) -> list[float]:
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
    worth = weigh_words(telling or words, ranking.view.held, ranking.view.lexical)
    return [sum([worth.get(term, 0.0) for term in terms]) for terms in held.values()]


@lru_cache(maxsize=16)
def _collect_context_terms(speakers: tuple[str, ...]) -> frozenset[str]:
    """Return the terms that name who spoke or when, which is known of a line but not its topic."""
    return frozenset(term for name in (*NAMES_OF_TIMES, *speakers) for term in analyze(name))
