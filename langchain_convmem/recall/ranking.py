"""From a query to a ranking of segments: standardise, add, smooth over neighbours, order. Pure.

Every segment is scored, of however many: looking for candidates first takes longer than working the
formula out for all of them, and finds less.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from langchain_convmem.recall.options import (
    RecallQuery,
    find_named_speakers,
    find_spans,
    read_parts,
    read_person,
)
from langchain_convmem.recall.segments import SegmentTable, SegmentVectors, fold
from langchain_convmem.words.analysis import extract_query_terms, find_kinds, select_telling_words
from langchain_convmem.words.bm25 import LexicalIndex, Postings
from langchain_convmem.words.dates import Span
from langchain_convmem.words.speech import Persons

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Scores = NDArray[np.float32]
    Mask = NDArray[np.bool_]

# Rounded to so many steps, so that lines of equal worth tie however their scores were summed.
_STEPS = 1e5
# What a segment takes of the scores of those around it in its session, from the nearest on.
_KERNEL = (0.5, 0.25)
# From about so many words on, a line takes less of what lines around it score, and how sharply;
# long replies take nothing.
_SPEAKS_FOR_ITSELF = 60.0
_STEEPNESS = 3
# Share that a segment takes of the other segments of its own line.
_WITHIN_LINE = np.float32(0.25)
# The smallest standard deviation that BM25 scores are divided by, as a share of the score of a word
# that a single line holds: such a word is worth no more, however few lines hold any word at all.
_LEAST_DEVIATION = 0.36
# Of what length takes from a BM25 score: lines of a dialog say about one thing each.
_LENGTH_SHARE = 0.3
# What lines gain that the named speaker said, or that were said at the named time. The smoothed
# score has a standard deviation of about 2.3.
_SPEAKER = 2.25
_SAID_THEN = 6.0
# What lines gain that the person said whom the question is about.
_PERSON = np.float32(7.0)
# So much less is the evidence for a user's line that asks and states nothing.
_ASKED = np.float32(3.0)
# A question that holds this share of the words of the present one asks it again.
_REPEATS = 0.75
_QUESTION_MARKS = frozenset("?\uff1f\u061f")
_ROUNDING = 1e-9
# Where nothing else has so much evidence, earlier askings are better than nothing.
_SOMETHING_ELSE = 0.5
# The share of words that counts where nothing answers clearly.
_VAGUE_WORDS = np.float32(0.4)
# Evidence, in standard deviations, from where on one of so many segments answers clearly.
_CLEAR = 8.4
_MANY = 400
# What the rest of the line that answers is worth of the best one, and a long reply to it.
_ANSWER_SHARE = np.float32(0.5)
# From so many standard deviations of nearness to the question on, an instruction of the user's is
# worth such a share of the best.
_MAY_APPLY = 1.5
_INSTRUCTION_SHARE = np.float32(0.9)
# Below every score that is one.
_MUTED = np.float32(1000.0)
# Of so few segments none can stand out by chance.
_FEW = 8
# So many of the best segments are compared with the best one. They are about the same thing where
# so much comes together: the share of its evidence that they have (up to so large a one), that of
# its words of the question by a weight, and by another one the standard deviations (up to so many)
# that they are nearer to it than chance.
_LEADERS = 9
_SAME = 1.1
_MOST_EVIDENCE = 0.7
_SAME_WORDS = 0.5
_SAME_MEANING = 1 / 6
_NEAREST = 8.0
# Of twice as many segments or more, a sample of about so many tells what is near by chance. It is
# taken in runs of so many neighbours, which are read in half the time of single ones.
_SAMPLE, _RUN = 2_000, 16
# A later statement may replace the leading one from this sum of standard deviations on, of its
# nearness to that and of a share of its nearness to the question, and leads from the next on, so
# many at most: the best of the usual number by chance comes nearly as far, of more further.
_MAY_REPLACE = 1.0
_REPLACES = 2.75
_MOST_LEADING = 5
_ASKED_SHARE = 0.5
_USUAL_COUNT = 150
# What may replace it but does not lead ranks among so many of the best statements.
_AMONG_THE_BEST = 20
_AHEAD = np.float32(1e-3)
# Cosines in single precision differ by less for no reason: equal lines are not to be told apart.
_NEGLIGIBLE = 1e-6


@dataclass(eq=False)
class Ranking:
    """Segments in order of relevance, best first; ties in ascending number.

    Attributes:
        view: What was asked, and of which segments; those that are allowed rank.
        relevance: Final scores, by segment number, as all scores.
        meaning: The cosine's standardised part of the score.
        words: The same for BM25.
        kinds: The same for what is of a kind that the question names.
        around: What the neighbours added.
        said_by: The bonus for a named speaker, or for the person whom the question is about.
        evidence: What speaks for the segment itself: its score with that of its neighbours and what
            the question names; minus infinity for what says nothing, such as an earlier asking, and
            for what may not be recalled.
        older: Numbers of segments of which a later statement about the same thing ranks first.
        beside: Numbers of what is worth its room beside the best: statements that may replace the
            leading one, the rest of the line that answers, with a long reply to it, and
            instructions.
    """

    view: View
    relevance: Scores
    meaning: Scores
    words: Scores
    kinds: Scores
    around: Scores
    said_by: Scores
    evidence: Scores
    older: frozenset[int] = frozenset()
    beside: frozenset[int] = frozenset()

    def __len__(self) -> int:
        """Return how many segments are ranked."""
        return int(np.count_nonzero(self.view.allowed))

    @cached_property
    def is_few(self) -> bool:
        """Whether there are too few segments for any to stand out by chance."""
        return len(self) <= _FEW

    @cached_property
    def scale(self) -> float:
        """How much stands out by chance: the best of many does, as that of a few never can."""
        return math.log1p(len(self)) / math.log1p(_MANY)

    @cached_property
    def clarity(self) -> float:
        """How clearly the best one answers: from 1 on it does, as the best of a few always does."""
        return 1.0 if self.is_few else float(self.evidence.max()) / (_CLEAR * self.scale)

    def sort(self, among: Mask, most: int | None = None) -> NDArray[np.int64]:
        """Return the numbers of those that rank among some, best first, so many at most.

        They are sorted by rounded scores, so that equal lines tie.
        """
        numbers, size = (self.view.allowed & among).nonzero()[0], len(among)
        if most is not None and most < len(numbers):
            # Those are left out first that cannot even tie: most, as a rule.
            found = self.relevance.take(numbers)
            numbers = numbers[found >= np.partition(found, -most)[-most] - 2 / _STEPS]
        # Score and number as one integer: a stable sort takes eight times as long.
        keys = np.rint(self.relevance[numbers] * -_STEPS).astype(np.int64) * size + numbers
        keys.sort()
        return np.asarray(keys[:most] % max(size, 1), dtype=np.int64)


def rank(
    query: RecallQuery,
    table: SegmentTable,
    vectors: SegmentVectors,
    lexical: LexicalIndex,
    vector: Scores | None,
) -> Ranking:
    """Return the segments in scope by relevance, best first; ties in ascending number.

    Args:
        query: What is asked.
        table: The segments.
        vectors: Their vectors.
        lexical: Their terms.
        vector: The question's embedding, shape (dim,); None if it could not be embedded.
    """
    allowed = table.select_allowed(query.scope)
    similarity = vectors.similarities(vector)
    terms = extract_query_terms(query.search_text, lexical)
    held = lexical.find(terms)
    none = np.zeros(len(table), dtype=np.bool_)
    all_count = View(query, table, vectors, lexical, terms, held, allowed, none, similarity)
    if query.settings.cosine_only:
        meaning, nothing = standardize(similarity, allowed & vectors.present), similarity * 0
        evidence = np.where(allowed, meaning, np.float32(-np.inf))
        return Ranking(all_count, meaning, meaning, nothing, nothing, nothing, nothing, evidence)
    view = replace(all_count, muted=_find_muted(all_count))
    ranking = _score(view)
    if view.muted.any() and ranking.evidence.max(initial=-np.inf) < _SOMETHING_ELSE:
        # Nothing else was said about it: an earlier asking is better than nothing.
        view = all_count
        ranking = _score(view)
    best = ranking.sort(allowed, _LEADERS).tolist()
    answer, wanted = _find_answer(view, ranking), _find_instructions(view, ranking)
    for numbers, share in ((answer, _ANSWER_SHARE), (wanted, _INSTRUCTION_SHARE)):
        if numbers:
            worth = share * (ranking.relevance * view.counted).max(initial=0.0)
            ranking.relevance[numbers] = np.maximum(ranking.relevance[numbers], worth)
    ranking.older = _lead_with_latest(view, ranking, best)
    ranking.beside = _raise_successors(view, ranking).union(answer, wanted)
    return ranking


@dataclass(eq=False)
class View:
    """What is scored, and what of it counts.

    Attributes:
        query: What is asked.
        table: The segments.
        vectors: Their vectors.
        lexical: Their terms.
        terms: The words of the question, by term.
        held: Where these stand.
        allowed: Which of the segments may come back.
        muted: Which say nothing themselves.
        similarity: The cosine of each.
    """

    query: RecallQuery
    table: SegmentTable
    vectors: SegmentVectors
    lexical: LexicalIndex
    terms: Mapping[str, str]
    held: Postings
    allowed: Mask
    muted: Mask
    similarity: Scores

    @cached_property
    def counted(self) -> Mask:
        """Which segments may come back and say something."""
        return self.allowed & ~self.muted

    @cached_property
    def by_user(self) -> Mask:
        """Which segments the user said."""
        return self.table.select_role("user")

    @cached_property
    def substance(self) -> Mask:
        """Which are more than a courtesy."""
        return ~self.lexical.select_marked("courtesy")

    @cached_property
    def stated(self) -> Mask:
        """Which of those that count the user said, and not to ask."""
        return self.counted & self.by_user & ~self.lexical.select_marked("asks")

    @cached_property
    def meant(self) -> Persons:
        """Who the question is about."""
        return read_person(self.query.text, self.query.before)

    @property
    def is_about_asker(self) -> bool:
        """Whether the question may be about the person who asks."""
        return self.meant.asker or self.meant.subject_open

    @cached_property
    def spans(self) -> list[Span]:
        """The stretches of time that the question names."""
        text, before, now_ms = self.query.text, self.query.before, self.query.now_ms
        return [] if now_ms is None else find_spans(text, before, now_ms)


# -- scoring --------------------------------------------------------------------------------------


def _score(view: View) -> Ranking:
    query, table, lexical = view.query, view.table, view.lexical
    meaning = standardize(view.similarity, view.counted & view.vectors.present)
    found = lexical.compute_scores(view.held, b=_LENGTH_SHARE, ignored=view.muted)
    least = _LEAST_DEVIATION * lexical.rarest
    words = standardize(found, view.counted, least_deviation=least)
    kinds = np.zeros_like(meaning)
    if named := find_kinds(query.search_text):
        found = lexical.compute_kind_scores(named, view.muted)
        kinds = standardize(found, view.counted, least_deviation=least)
    own = meaning + words + kinds
    around = _sum_around(own, table, lexical)
    said_by = _compute_speaker_bonus(query, table)
    score = own + around + said_by
    if table.is_two_sided:
        score -= _ASKED * (lexical.select_marked("asks") & view.by_user)
    for since_ms, until_ms in view.spans:
        times = table.get_column("time")
        score[(times >= since_ms) & (times < until_ms)] += _SAID_THEN
    evidence = np.where(view.counted, score, np.float32(-np.inf))
    bonus = _compute_person_bonus(view)
    # Lines that have nothing to do with the question would push aside what answers it from the
    # other side.
    person = bonus * (score > 0)
    by = said_by + person
    ranking = Ranking(view, score + person, meaning, words, kinds, around, by, evidence)
    if bonus.any() and ranking.clarity < 1:
        # Then no line holds the question's words as an answer would: that some do is mostly chance.
        ranking.relevance = score - words * (1 - _VAGUE_WORDS) + bonus
    ranking.relevance -= _MUTED * view.muted
    return ranking


def standardize(
    scores: NDArray[np.floating[Any]], counted: Mask, *, least_deviation: float = 0.0
) -> Scores:
    """Return scores as distances from the mean in standard deviations.

    Args:
        scores: One per segment.
        counted: Segments that define mean and deviation; all others get 0, as do all if the
            counted ones are equal.
        least_deviation: What a smaller deviation is taken for, so that a few scores that differ
            from many equal ones do not become arbitrarily large.
    """
    count = max(int(np.count_nonzero(counted)), 1)
    # Of many a product takes less time than gathering those that count.
    is_part = count < len(scores)
    mean = (scores * counted if is_part else scores).sum(dtype=np.float64) / count
    distances: Scores = np.subtract(scores, mean, dtype=np.float32)
    if is_part:
        distances *= counted
    # Not `dot`: BLAS shares that out to threads and waits for the last of them.
    deviation = math.sqrt(np.square(distances).sum() / count)
    if deviation < _NEGLIGIBLE:
        return np.zeros(len(scores), dtype=np.float32)
    distances /= np.float32(max(deviation, least_deviation))
    return distances


def _sum_around(own: Scores, table: SegmentTable, lexical: LexicalIndex) -> Scores:
    """Return what each segment takes of the scores of those around it in its session.

    It takes the less from other lines, the more its own line says: a short answer is found through
    the question before it, a long reply speaks for itself.
    """
    givers = lexical.keep("givers", partial(_find_givers, table))
    shares = lexical.keep("shares", partial(_compute_shares, table, lexical, givers))
    total: Scores = (own.take(givers) * shares).sum(axis=0)
    return total


def _find_givers(table: SegmentTable) -> NDArray[np.int64]:
    """Return by side and distance from whom each segment takes; -1 for none."""
    near = table.get_links()
    # What has no number has no neighbour either.
    beyond = [np.append(side, -1)[side] for side in near]
    return np.stack([near, beyond], axis=1).reshape(2 * len(_KERNEL), -1)


def _compute_shares(
    table: SegmentTable, lexical: LexicalIndex, givers: NDArray[np.int64]
) -> Scores:
    """Return what each segment takes of the scores of each giver, by the words of its line."""
    lines = table.get_column("line")
    words = np.bincount(lines, lexical.lengths)[lines] if len(lines) else lexical.lengths
    share = 1.0 / (1.0 + np.power(words / _SPEAKS_FOR_ITSELF, _STEEPNESS))
    taken = np.where(lines[givers] == lines, _WITHIN_LINE, share.astype(np.float32))
    weights = np.tile(_KERNEL, 2)[:, None]
    shares: Scores = np.where(givers >= 0, weights * taken, 0.0).astype(np.float32)
    return shares


# -- who is meant ------------------------------------------------------------------------------


def _compute_speaker_bonus(query: RecallQuery, table: SegmentTable) -> Scores:
    """Return what each segment gains where the question names its speaker."""
    speakers = table.speakers
    # Where the question names nobody, whom what was said before names.
    parts = read_parts(query.text, query.before)
    named = next(filter(None, (find_named_speakers(part, speakers) for part in parts)), ())
    bonus = np.zeros(len(table), dtype=np.float32)
    # A question that names every speaker prefers none.
    for number in named if len(named) < len(speakers) else ():
        bonus[table.get_column("speaker") == number] = _SPEAKER
    return bonus


def _compute_person_bonus(view: View) -> Scores:
    """Return what lines gain from being said by the person whom the question is about."""
    bonus = np.zeros(len(view.table), dtype=np.float32)
    if not view.table.is_two_sided:
        return bonus
    if view.meant.listener:
        bonus[~view.by_user] = _PERSON
    if view.is_about_asker:
        bonus[view.by_user & view.substance] = _PERSON
    return bonus


# -- the whole answer --------------------------------------------------------------------------


def _find_answer(view: View, ranking: Ranking) -> list[int]:
    """Return the segments of the line that answers clearly, and of a long reply to it.

    A long reply takes nothing of the scores of what it replies to, and seldom repeats its words. A
    long reply to the same question, the last time that it was asked, counts as well.
    """
    evidence, table = ranking.evidence, view.table
    hits = (view.muted & view.lexical.select_marked("asks")).nonzero()[0][-1:].tolist()
    if view.counted.any() and ranking.clarity >= 1:
        hits.append(int(evidence.argmax()))
    answer: set[int] = set()
    for line in map(table.find_line_number, hits):
        following = table.find_next_line(line, 1)
        reply = table.list_segments(line if following is None else following)
        answer |= {*table.list_segments(line), *(reply if len(reply) > 1 else ())}
    return [number for number in answer if view.counted[number]]


def _find_instructions(view: View, ranking: Ranking) -> list[int]:
    """Return what the user wants for the future, where it is about the question.

    "Always name the version when I ask about libraries" answers no question about libraries.
    """
    if not view.table.is_two_sided:
        return []
    wanted = view.counted & view.by_user & view.lexical.select_marked("instructs")
    wanted &= ranking.meaning >= _MAY_APPLY
    return list(map(int, wanted.nonzero()[0]))


# -- what says nothing -------------------------------------------------------------------------


def _find_muted(view: View) -> Mask:
    """Return which segments only ask what is asked now, or answer that nothing is known.

    A reply that the question quotes is what it looks for.
    """
    table, lexical, text = view.table, view.lexical, view.query.text
    assistant = table.select_role("assistant")
    ignorant = lexical.select_marked("ignorant") & assistant
    muted = ignorant.copy()
    words, quoted = select_telling_words(text), fold(text)
    saying_little = ignorant | (lexical.select_marked("asks") & ~assistant)
    held = view.held.select(saying_little.nonzero()[0], len(table))
    coverage = compute_coverage(view.terms, held, lexical)
    for number in (coverage >= _REPEATS - _ROUNDING).nonzero()[0].tolist():
        said = table.get_text(number)
        muted[number] = fold(said) != quoted if ignorant[number] else _asks_the_same(words, said)
    return muted


def compute_coverage(
    terms: Mapping[str, str], held: Postings, lexical: LexicalIndex
) -> NDArray[np.float64]:
    """Return what share of a question's words each segment holds, each word by its rarity.

    Args:
        terms: The words, by term.
        held: Where these and others stand, in the segments that are asked about.
        lexical: The terms of all segments.
    """
    shares = weigh_words(terms, held, lexical)
    worth = [shares.get(term, 0.0) for term in held.rarities]
    return held.sum_up(np.repeat(worth, held.sizes), len(lexical))


def weigh_words(
    terms: Mapping[str, str], held: Postings, lexical: LexicalIndex
) -> dict[str, float]:
    """Return what share of a question's words each of its terms that was ever said stands for."""
    rarest = dict.fromkeys(terms.values(), 0.0)
    for term, word in terms.items():
        rarest[word] = max(held.rarities.get(term, 0.0), rarest[word])
    # A word that was never said is as rare as one can be.
    whole = sum([rarity or lexical.rarest for rarity in rarest.values()]) or 1.0
    return {term: rarity / whole for term, rarity in held.rarities.items() if term in terms}


def _asks_the_same(words: Collection[str], said: str) -> bool:
    """Return whether a request is about most of the words of a question, and tells nothing more.

    "Add milk to the shopping list" does not ask what is on it.
    """
    mine = {word.casefold() for word in words}
    theirs = {word.casefold() for word in select_telling_words(said)}
    is_alike = 2 * len(mine & theirs) >= len(mine | theirs)
    return is_alike and (theirs <= mine or not _QUESTION_MARKS.isdisjoint(said))


# -- the latest word ---------------------------------------------------------------------------


def _lead_with_latest(view: View, ranking: Ranking, best: Sequence[int]) -> frozenset[int]:
    """Let later statements about the same thing as the best one come before it, the latest first.

    Of replies the latest alone: what an assistant says seldom changes what it said before.

    Args:
        view: What is scored.
        ranking: Its scores.
        best: The numbers of the best segments, in order.

    Returns:
        The numbers of the older ones.
    """
    table, asks, evidence = view.table, view.lexical.select_marked("asks"), ranking.evidence
    lead, *others = best or (-1,)
    speakers, lines = table.get_column("speaker"), table.get_column("line")
    others = [
        number
        for number in others
        if speakers[number] == speakers[lead]
        and lines[number] != lines[lead]
        and not (asks[lead] or asks[number])
        and evidence[number] > -math.inf
    ]
    if not others:
        return frozenset()
    held = view.held.find_shared([lead, *others], len(table))
    others = _leave_out_other_numbers(held, lead)
    sameness = _measure_sameness(view, held, lead, others)
    # Of a few segments one always stands out and another never does: all have so large a share.
    most, is_few = float(evidence[lead]), ranking.is_few
    same = [
        number
        for number, more in zip(others, sameness, strict=True)
        if (is_few or most > 0)
        and more + min(evidence[number] / most if not is_few else 1, _MOST_EVIDENCE) >= _SAME
    ]
    # What was written later counts as said later within the same millisecond.
    said = sorted([lead, *same], key=lambda number: (table.get_column("time")[number], number))
    most_ahead = 1 if table.find_line(lead).role == "assistant" else len(same)
    later = said[said.index(lead) + 1 :][-most_ahead:]
    ranking.relevance[later] = ranking.relevance[lead] + _AHEAD * np.arange(1, len(later) + 1)
    return frozenset(said[:-1])


def _leave_out_other_numbers(held: Mapping[int, Collection[str]], lead: int) -> list[int]:
    """Return all but the leading one that hold the numbers of the question which that one holds.

    Floor 3 is not floor 5: what the question numbers, it means.
    """
    numbered = {term for term in held[lead] if term.isdigit()}
    return [one for one, terms in held.items() if one != lead and numbered.issubset(terms)]


def _measure_sameness(
    view: View, held: Mapping[int, Collection[str]], lead: int, others: Sequence[int]
) -> list[float]:
    """Return how much words and meaning say that statements are about the same as the first one."""
    rarity = view.held.rarities
    total = sum([rarity[term] for term in held[lead]]) or 1.0
    found: list[float] = []
    for near, number in zip(_measure_nearness(view, lead, others).tolist(), others, strict=True):
        shared = sum([rarity[term] for term in held[lead] if term in held[number]])
        found.append(_SAME_WORDS * shared / total + _SAME_MEANING * near)
    return found


def _measure_nearness(view: View, lead: int, others: Sequence[int]) -> Scores:
    """Return by how many standard deviations segments are nearer to the first one than chance."""
    count = len(view.table)
    runs = np.zeros((count // _RUN + 1, _RUN), dtype=np.bool_)
    runs[:: max(count // _SAMPLE, 1)] = True
    known = runs.ravel()[:count]
    known[others] = True
    known &= view.vectors.present
    cosines = np.zeros(count, dtype=np.float32)
    cosines[known] = view.vectors.similarities(view.vectors.get_row(lead), known)
    # Of a few segments some are farther apart than chance: that says nothing against them.
    return standardize(cosines, known)[others].clip(0.0, _NEAREST)


def _raise_successors(view: View, ranking: Ranking) -> frozenset[int]:
    """Let what the user said later about the leading statement come before it.

    Who tells months later what has changed uses other words than the question, and is often nearer
    to what was so before. What comes out near enough to it leads; what may be meant comes among
    the best, where a budget reaches it. That holds for what is about the user, and for what was
    said clearly about anything else.

    Returns:
        The numbers of the statements that may replace the leading one.
    """
    is_worth_it = view.is_about_asker or ranking.clarity >= 1
    if not (view.table.is_two_sided and is_worth_it):
        return frozenset()
    stated = view.stated & view.vectors.present
    count = int(np.count_nonzero(stated))
    if count <= _FEW:
        return frozenset()
    relevance, similarity = ranking.relevance, ranking.view.similarity
    lead = int(np.where(stated, relevance, -np.inf).argmax())
    nearness = view.vectors.similarities(view.vectors.get_row(lead))
    score = standardize(nearness, stated) + _ASKED_SHARE * standardize(similarity, stated)
    scale = max(math.log(count) / math.log(_USUAL_COUNT), 1.0) ** 2
    times = view.table.get_column("time")
    later = stated & (times > times[lead]) & (score >= _MAY_REPLACE * scale)
    held = view.held.find_shared([lead, *later.nonzero()[0].tolist()], len(view.table))
    found = _leave_out_other_numbers(held, lead)
    leading = sorted(found, key=lambda number: -score[number])[:_MOST_LEADING]
    worth = np.sort(relevance[stated])[-_AMONG_THE_BEST:][0]
    relevance[leading] = np.maximum(relevance[leading], worth)
    for place, number in enumerate(leading, 1):
        if score[number] >= _REPLACES * scale:
            relevance[number] = relevance[lead] + np.float32(_MOST_LEADING + 1 - place) * _AHEAD
    return frozenset(found)
