"""Whether a question is related to the history. Pure.

The scores of a ranking are relative: some line is always best. This looks for absolute evidence,
in two shares that every embedder and script has in common:

- coverage: how much of the question's rarity (the sum of its words' idf, to the power of 1.5) one
  line and the two next to it hold. A word that was never said is the rarest of all, so a question
  about something else covers little. Long lines hold many words by chance and count for less.
- closeness: how much of the way from the mean cosine of all lines to 1 the nearest line has come.
  Nearly all lines have nothing to do with a question, so their cosines with it are what chance
  gives: for this embedder, this script and this user.

Their sum is compared with one number, which grows with the lines up to `RELATED`.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from langchain_convmem.recall.options import read_person, search_text
from langchain_convmem.recall.ranking import (
    Columns,
    Ranking,
    clear_evidence,
    scale_evidence,
)
from langchain_convmem.recall.segments import SegmentTable
from langchain_convmem.words.analysis import analyze, extract_query_terms
from langchain_convmem.words.bm25 import LexicalIndex
from langchain_convmem.words.dates import NAMES_OF_TIMES
from langchain_convmem.words.languages import FUNCTION_CHARACTERS
from langchain_convmem.words.speech import is_courtesy

if TYPE_CHECKING:
    from numpy.typing import NDArray

RELATED = 0.55
"""From what sum of both shares on a question counts as related to a hundred lines or more.

Chosen on five dialogues between people, where 3 to 4 % of unrelated questions pass;
`python -m benchmarks.personal` prints what it holds back and costs.
"""
# Evidence, in standard deviations: what is worth its room next to a segment that answers clearly,
# and what stands out though nothing relates it to the question.
_NEAR_CLEAR = 4.5
_NEAR_REPLY = 7.5
_RELATED_EVIDENCE = 3.5
_STANDING_OUT = 4.5
_NEAR_BEST = 0.8
_LEADING = 1
_LOOSE = 2.5
# A question about the person who asks gets all that is loosely related up to the first of these
# shares of clear evidence, so many at most just above it, and ever fewer up to the second one.
_FADING = (0.8, 1.5)
_MOST_LOOSE = 13
# What a question about nobody gets of what the user stated, where nothing answers it clearly: so
# many at most, from so much evidence on next to what is related, and from so much alone.
_MOST_NEARBY = 2
_STATED_NEARBY = 2.5
_STATED_ALONE = 3.5
# Where the best one has so many times the evidence of a clear answer, and where one answers, what
# is worth less than a share of the best one is left out.
_CERTAIN = 1.3
_HALF = 0.5
_OWN = 0.2
# A line answers that holds this share of what is asked about, and comes so near to the evidence for
# the best one. `python -m benchmarks.personal` counts verdicts by kind of question.
_ANSWERING = 0.66
# Of so few all are worth their room; all numbers above grow with how many there are.
_FEW = 8
# What is `compute_needed` with one line, and so much more for every factor of e.
_RELATED_TO_ONE = 0.1
_RELATED_GROWTH = 0.098
# With few lines their mean says little about chance: as if so many more had cosine 0.
_UNSEEN_LINES = 10
_ALMOST_ONE = 0.99
# As if so many lines held no word of the question: in a log of three lines every word is rare.
_OTHER_LINES = 100
_RARITY_POWER = 1.5
# From this many words on, what a line and its neighbours hold counts for less, slowly.
_SHORT_STRETCH = 60
_LENGTH_WEIGHT = 0.4
# So many of the best ranked lines may hold what the question asks about.
_FIRST = 24
_NONE = np.empty(0, dtype=np.intp)
_NUMBER = re.compile(r"\d+(?:st|nd|rd|th)?")


def select_related(
    query: str,
    ranking: Ranking,
    table: SegmentTable,
    lexical: LexicalIndex,
    allowed: NDArray[np.bool_],
    *,
    before: str | None = None,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which segments of a ranking are worth returning, and which are loosely related.

    Where something answers clearly, only what comes near it is worth more. Where nothing does, a
    question about the person who asks gets what they said: a fact that is missing costs the answer,
    some tokens too many cost next to nothing. In between it gets the fewer of what they said, the
    clearer something answers. Any other question gets what is related to it, if `is_related` finds
    anything, else what stands out; and where nothing answers it clearly, a few of the statements
    that the user made, since it may be about what is theirs ("Which breed is the dog?"). Greetings
    and thanks get nothing.

    Args:
        query: The question.
        ranking: What it finds.
        table: Where the segments stand.
        lexical: Their terms.
        allowed: Which segments may be recalled.
        before: What was said just before, from which a short follow-up borrows.

    Returns:
        Two masks over all segments.
    """
    nothing = np.zeros(len(table), dtype=np.bool_)
    if is_courtesy(query) or not len(ranking):
        return nothing, nothing
    found = _RankedRows.from_ranking(ranking, table, lexical)
    kept, loose = _select_worth(
        query, before, found, ranking, table=table, lexical=lexical, allowed=allowed
    )
    first = ranking.order[kept[ranking.order]]
    asked = search_text(query, before)
    is_answer = is_answered(asked, first, ranking, table, lexical, allowed=allowed)
    if not found.few and (is_answer or found.clarity >= _CERTAIN):
        saying = ~(lexical.select_marked("asks") | lexical.select_marked("ignorant"))
        best = ranking.columns.relevance.max(initial=0.0, where=kept & saying)
        is_near = ranking.columns.relevance >= _HALF * best
        strong = kept & is_near
        # A reply that repeats what the user said must not take its place.
        is_own = saying & allowed & table.select_role("user")
        own = np.flatnonzero(is_own & (ranking.columns.relevance >= _OWN * best))
        if len(own):
            first_own = own[ranking.columns.relevance[own].argmax()]
            kept[first_own] = strong[first_own] = True
        links = table.get_links()
        # What stands next to it shares its block.
        beside = strong[links.before] & (links.before >= 0)
        beside |= strong[links.after] & (links.after >= 0)
        kept &= strong | beside
    return kept, loose


def _select_worth(
    query: str,
    before: str | None,
    found: _RankedRows,
    ranking: Ranking,
    *,
    table: SegmentTable,
    lexical: LexicalIndex,
    allowed: NDArray[np.bool_],
) -> _Worth:
    """Return what is worth its room by who the question is about, and what of it only just."""
    meant = read_person(query, before)
    if meant.asker or meant.subject_open or meant.listener:
        near, loose = _select_for_asker(found, wants_replies=meant.listener)
    elif is_related(search_text(query, before), ranking, table, lexical, allowed):
        near, loose = _select_if_related(found)
    else:
        near, loose = _select_if_unrelated(found)
        return near | loose, loose
    return _add_leading(near | loose, ranking), loose


class _RankedRows(NamedTuple):
    """What is known of all segments, to judge which are worth their room.

    Attributes:
        evidence: What speaks for each; minus infinity for those that do not rank.
        relevance: What puts them in order.
        said: Which say anything themselves.
        replies: Which the assistant said; none where one side alone speaks.
        stated: Which the user states; all where one side alone speaks.
        substance: Which are more than a courtesy.
        two_sided: Whether a user and an assistant speak, and more than a few segments are there.
        few: Whether there are too few segments for any to stand out by chance.
        scale: How much stands out by chance among so many.
        best: The most evidence that any has.
        clarity: How clearly the best one answers: 1 where its evidence is just clear.
    """

    evidence: NDArray[np.float32]
    relevance: NDArray[np.float32]
    said: NDArray[np.bool_]
    replies: NDArray[np.bool_]
    stated: NDArray[np.bool_]
    substance: NDArray[np.bool_]
    two_sided: bool
    few: bool
    scale: float
    best: float
    clarity: float

    @classmethod
    def from_ranking(
        cls, ranking: Ranking, table: SegmentTable, lexical: LexicalIndex
    ) -> _RankedRows:
        """Return what is known of the segments of a ranking."""
        evidence = np.where(ranking.ranked, ranking.columns.evidence, np.float32(-np.inf))
        said: NDArray[np.bool_] = evidence > -np.inf
        count, best = len(ranking), float(evidence.max())
        two_sided = len(table.roles) > 1 and count > _FEW
        by_user, stated = np.ones_like(said), said
        if two_sided:
            by_user = table.select_role("user")
            stated = said & by_user & lexical.select_marked("states")
        return cls(
            evidence,
            ranking.columns.relevance,
            said,
            ~by_user,
            stated,
            ~lexical.select_marked("courtesy"),
            two_sided,
            few=count <= _FEW,
            scale=scale_evidence(count),
            best=best,
            clarity=best / clear_evidence(count),
        )

    def find_least(self, evidence: float) -> float:
        """Return what evidence is worth its room: less where half of a memory says the same."""
        return min(evidence * self.scale, _NEAR_BEST * self.best)

    def keep_best(self, rows: NDArray[np.bool_], most: int) -> NDArray[np.bool_]:
        """Return the best ranked of some rows, so many at most; of equally good ones the first."""
        at = rows.nonzero()[0]
        chosen = np.zeros_like(rows)
        chosen[at[(-self.relevance[at]).argsort(kind="stable")[:most]]] = True
        return chosen


_Worth: TypeAlias = "tuple[NDArray[np.bool_], NDArray[np.bool_]]"
"""Which rows are worth their room, and which others only just."""


def _select_for_asker(found: _RankedRows, *, wants_replies: bool) -> _Worth:
    near = found.evidence >= _NEAR_CLEAR * found.scale
    if not wants_replies:
        # A reply costs several statements, and it is seldom what somebody asks of themselves.
        near &= ~found.replies | (found.evidence >= found.find_least(_NEAR_REPLY))
    loose = found.said & ~near & found.substance
    if found.two_sided:
        loose &= found.stated | (found.evidence >= _LOOSE * found.scale)
    elif not found.few:
        # Nobody answers in a memory of notes: all of it states something, and most of it elsewhere.
        loose &= found.relevance >= _HALF * found.relevance.max(initial=0.0, where=found.said)
    fading, gone = _FADING
    if found.few or found.clarity <= fading:
        return near, loose
    left = max((gone - found.clarity) / (gone - fading), 0.0)
    return near, found.keep_best(loose, round(_MOST_LOOSE * left))


def _select_if_related(found: _RankedRows) -> _Worth:
    if found.few:
        return found.said, np.zeros_like(found.said)
    near = found.evidence >= found.find_least(_RELATED_EVIDENCE)
    if found.two_sided and found.clarity >= 1:
        return near, np.zeros_like(near)
    near &= ~found.replies | (found.evidence >= found.find_least(_STANDING_OUT))
    nearby = found.stated & ~near & (found.evidence >= _STATED_NEARBY * found.scale)
    nearby = found.keep_best(nearby, _MOST_NEARBY)
    # Where one side alone speaks, nothing tells statements from all else: they are shown whole.
    return (near, nearby) if found.two_sided else (near | nearby, np.zeros_like(near))


def _select_if_unrelated(found: _RankedRows) -> _Worth:
    near = found.evidence >= _STANDING_OUT * max(found.scale, 1.0)
    if found.two_sided:
        near &= found.substance
    if not found.two_sided or found.clarity >= 1:
        return near, np.zeros_like(near)
    loose = found.stated & ~near & (found.evidence >= _STATED_ALONE * max(found.scale, 1.0))
    return near, found.keep_best(loose, _MOST_NEARBY)


def _add_leading(kept: NDArray[np.bool_], ranking: Ranking) -> NDArray[np.bool_]:
    """Add the best few segments, and older ones that one of them replaces: that must be seen."""
    kept[[*ranking.older, *ranking.later, *ranking.order[:_LEADING].tolist()]] = True
    return kept & (ranking.columns.evidence > -np.inf)


def is_answered(
    query: str,
    numbers: NDArray[np.int64],
    ranking: Ranking,
    table: SegmentTable,
    lexical: LexicalIndex,
    *,
    allowed: NDArray[np.bool_],
) -> bool:
    """Return whether one of some segments holds what is asked; askings and ignorance do not.

    Args:
        query: What is searched for.
        numbers: The segments.
        ranking: What speaks for them.
        table: Where they stand.
        lexical: Their terms.
        allowed: Which segments may be recalled: among them a word is common or rare.
    """
    if not len(numbers):
        return False
    evidence = ranking.columns.evidence[numbers]
    best = float(evidence.max())
    silent = lexical.select_marked("asks") | lexical.select_marked("ignorant")
    near = numbers[(evidence >= best - (1 - _NEAR_BEST) * abs(best)) & ~silent[numbers]]
    asked = _select_words(query, table, lexical, allowed)
    least = _ANSWERING * sum([word.rarity for word in asked])
    # Neighbours are left out: they hold a question's words where a line merely stands next to them.
    return least > 0 and any(
        sum([word.rarity for word in asked if _holds(word.numbers, number)]) >= least
        for number in near.tolist()
    )


def compute_needed(allowed: NDArray[np.bool_]) -> float:
    """Return the sum from which a question counts as related; lower for short histories.

    The best of a few lines is seldom good by chance; of many it often is.

    Args:
        allowed: Which segments may be recalled.
    """
    count = max(int(np.count_nonzero(allowed)), 1)
    return min(RELATED, _RELATED_TO_ONE + _RELATED_GROWTH * math.log(count))


def is_related(
    query: str,
    ranking: Ranking,
    table: SegmentTable,
    lexical: LexicalIndex,
    allowed: NDArray[np.bool_],
) -> bool:
    """Return whether coverage and closeness together reach `compute_needed`.

    Coverage is looked for among the lines that rank first: what holds the question's words does.
    """
    if is_courtesy(query):
        return False
    least = compute_needed(allowed) - _compute_closeness(ranking.columns, allowed)
    if least <= 0:
        return True
    asked = _select_words(query, table, lexical, allowed)
    rarest_first = sorted(asked, key=lambda word: -word.rarity)
    wanted = least * sum([word.rarity for word in asked])
    first = ranking.order[:_FIRST].tolist() if wanted else ()
    return any(_holds_around(number, rarest_first, wanted, table, lexical) for number in first)


# -- words -------------------------------------------------------------------------------------


class _Word(NamedTuple):
    """A word of a question: the segments in scope that hold it, ascending, and its rarity."""

    numbers: Sequence[int] | NDArray[np.intp]
    rarity: float


def _select_words(
    query: str, table: SegmentTable, lexical: LexicalIndex, allowed: NDArray[np.bool_]
) -> list[_Word]:
    """Return the telling words of a question; like the index's own lists, not to be kept."""
    words = _select_telling(extract_query_terms(query, lexical), tuple(table.speakers))
    lines_of = lexical.find_documents(words)
    count = int(np.count_nonzero(allowed))
    scope = None if count == len(allowed) else allowed
    # The stems of a word in several languages are one word.
    terms_of: dict[str, list[str]] = {}
    for term, word in words.items():
        terms_of.setdefault(word, []).append(term)
    found = (_find_segments(terms, lines_of, scope) for terms in terms_of.values())
    return [_Word(numbers, _compute_rarity(len(numbers), count)) for numbers in found]


def _holds_around(
    number: int,
    asked: Sequence[_Word],
    wanted: float,
    table: SegmentTable,
    lexical: LexicalIndex,
) -> bool:
    """Return whether one segment in scope and the two next to it hold so much rarity, damped.

    Of a few segments this takes less time than a column of all of them.
    """
    near = [one for one in (number, *table.find_adjacent(number)) if one >= 0]
    excess = max(sum(map(lexical.count_terms, near)) / _SHORT_STRETCH, 1.0)
    missing = wanted * (1.0 + _LENGTH_WEIGHT * math.log(excess))
    for word in asked:
        if any(_holds(word.numbers, one) for one in near):
            missing -= word.rarity
            if missing <= 0:
                return True
    return False


def _holds(ascending: Sequence[int] | NDArray[np.intp], number: int) -> bool:
    at = bisect_left(ascending, number)
    return at < len(ascending) and bool(ascending[at] == number)


def _compute_rarity(having: int, lines: int) -> float:
    idf = math.log1p((lines + _OTHER_LINES - having + 0.5) / (having + 0.5))
    return math.pow(idf, _RARITY_POWER)


def _find_segments(
    terms: Sequence[str],
    lines_of: Mapping[str, NDArray[np.intc]],
    scope: NDArray[np.bool_] | None,
) -> Sequence[int] | NDArray[np.intp]:
    """Return the segments in scope that hold one of the terms, ascending, each once."""
    found = [lines_of[term] for term in terms if term in lines_of]
    arrays = [one.astype(np.intp) for one in found]
    numbers = arrays[0] if len(found) == 1 else np.unique(np.concatenate([_NONE, *arrays]))
    return numbers if scope is None else numbers[scope[numbers]]


def _select_telling(words: Mapping[str, str], speakers: tuple[str, ...]) -> dict[str, str]:
    """Return the terms that say what is asked about; all of them if nothing else is left."""
    context = _collect_context_terms(speakers)
    telling = {
        term: word
        for term, word in words.items()
        if term not in context
        and not _NUMBER.fullmatch(term)
        and FUNCTION_CHARACTERS.isdisjoint(term)
    }
    return telling or dict(words)


@lru_cache(maxsize=16)
def _collect_context_terms(speakers: tuple[str, ...]) -> frozenset[str]:
    """Return the terms that name who spoke or when, which is known of a line but not its topic."""
    return _collect_time_terms().union(*map(analyze, speakers))


@lru_cache(maxsize=1)
def _collect_time_terms() -> frozenset[str]:
    return frozenset(term for name in NAMES_OF_TIMES for term in analyze(name))


# -- meaning -----------------------------------------------------------------------------------


def _compute_closeness(columns: Columns, allowed: NDArray[np.bool_]) -> float:
    # A segment whose embedding is pending, or out of scope, was not standardised.
    compared = (columns.meaning != 0) & allowed
    if not compared.any():
        return float(columns.similarity.max(initial=0.0, where=allowed))
    similarity, count = columns.similarity[compared], int(np.count_nonzero(allowed))
    highest = float(similarity.max())
    mean = float(similarity.mean()) * count / (count + _UNSEEN_LINES)
    mean = min(mean, _ALMOST_ONE)
    return (highest - mean) / (1.0 - mean)
