"""The ranking against its formula, written out line by line without arrays."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from rankings import ordered

from langchain_convmem.recall import RecallSettings
from langchain_convmem.recall.options import RecallQuery, Scope, find_named_speakers
from langchain_convmem.recall.ranking import rank
from langchain_convmem.recall.segments import SegmentTable
from langchain_convmem.recall.vectors import SegmentVectors, round_vector
from langchain_convmem.records import Owner
from langchain_convmem.words.analysis import analyze, extract_query_terms
from langchain_convmem.words.bm25 import LexicalIndex

WORDS = ["car", "park", "tree", "house", "dog", "river", "music"]
SPEAKERS = ["Ana", "Bo"]
WISHES = [
    RecallSettings(latest_first=False, crowding=0.0),
    RecallSettings(latest_first=False, crowding=0.7, kernel=(1.0,)),
    RecallSettings(
        kernel=(0.5, 1.0, 0.1),
        session_best=1,
        speaker_bonus=0.7,
        speaks_for_itself=4.0,
        least_deviation=0.3,
        crowding=0.0,
        latest_first=False,
    ),
    RecallSettings.spec(),
]


class Line:
    """One short line, its place in the dialogue, and its scores."""

    def __init__(self, number, text, speaker, session, vector):
        self.number, self.speaker, self.session = number, speaker, session
        self.vector = vector
        self.terms = Counter(analyze(f"{speaker}: {text}"))
        self.in_scope = True
        self.own = self.score = 0.0


def standardised(values, least=0.0):
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    if deviation <= 1e-9:
        return [0.0] * len(values)
    return [(value - mean) / max(deviation, least) for value in values]


def bm25(lines, terms, wish):
    average = max(sum(line.terms.total() for line in lines) / len(lines), 1.0)
    scores = [0.0] * len(lines)
    for term in terms:
        having = sum(term in line.terms for line in lines)
        rarity = math.log(1 + (len(lines) - having + 0.5) / (having + 0.5))
        for at, line in enumerate(lines):
            count = line.terms[term]
            norm = wish.k1 * (1 - wish.b + wish.b * line.terms.total() / average)
            scores[at] += rarity * count * (wish.k1 + 1) / (count + norm)
    return scores


def crowding(line, lines, stored):
    """Return the highest cosine with another line, of those that do not say the same."""
    if stored < 16:
        return 0.0
    cosines = [float(line.vector @ other.vector) for other in lines if other is not line]
    return max([0.0, *(cosine for cosine in cosines if cosine <= 0.85)])


def plain_ranking(lines, speakers, question, query, wish, *, terms, stored):
    """Return (number, relevance) of the lines in scope, best first.

    `lines` are those that are left, in the order of the dialogue.
    """
    scope = [line for line in lines if line.in_scope]
    words_of = dict(zip(lines, bm25(lines, terms, wish), strict=True))
    crowds = {line: crowding(line, lines, stored) for line in scope}
    near = [float(line.vector @ query) - wish.crowding * crowds[line] for line in scope]
    meaning = standardised(near)
    rarest = math.log(1 + (len(lines) - 0.5) / 1.5)
    words = standardised([words_of[line] for line in scope], wish.least_deviation * rarest)
    for line, near, matching in zip(scope, meaning, words, strict=True):
        line.own = wish.dense_weight * near + wish.lexical_weight * matching
    named = [speakers[n] for n in find_named_speakers(question, speakers)]
    # A question about everybody prefers nobody.
    preferred = named if len(named) < len(speakers) else []
    for line in lines:
        beside = [other for other in lines if other.session == line.session]
        reach, at = len(wish.kernel) // 2, beside.index(line)
        # The more a line says itself, the less it takes of its neighbours.
        share = 1 / (1 + (line.terms.total() / wish.speaks_for_itself) ** 3)
        for step, weight in enumerate(wish.kernel, -reach):
            if 0 <= at + step < len(beside):
                line.score += weight * (share if step else 1.0) * beside[at + step].own
        line.score += wish.speaker_bonus * (line.speaker in preferred)
    prior = {}
    for session in {line.session for line in lines}:
        scores = [line.score for line in scope if line.session == session]
        best = sorted((max(score, 0.0) for score in scores), reverse=True)[: wish.session_best]
        prior[session] = wish.session_prior * sum(best) / wish.session_best
    found = [(line.number, line.score + prior[line.session]) for line in scope]
    return sorted(found, key=lambda pair: (-round(pair[1], 6), pair[0]))


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(WORDS), min_size=1, max_size=5),
            st.sampled_from(SPEAKERS),
            st.sampled_from("ab"),
            st.sampled_from(["live", "live", "live", "removed", "hidden"]),
        ),
        min_size=2,
        max_size=25,
    ),
    st.sampled_from(["car tree", "what did Ana park", "Bo and Ana", "river river dog", "the"]),
    st.sampled_from(WISHES),
)
def test_every_ranking_follows_the_formula(line, word_embeddings, dialogue, question, wish):
    embeddings = word_embeddings()
    query = np.array(embeddings.embed_query(question), dtype=np.float32)
    unit = query.astype(np.float64) / max(np.linalg.norm(query), 1e-12)
    table, vectors, lexical, lines = SegmentTable(), SegmentVectors(), LexicalIndex(), []
    for number, (words, speaker, thread, _) in enumerate(dialogue):
        text = " ".join(words)
        table.add(line(text, number, thread=thread, speaker=speaker, session=str(number // 6)))
        lexical.add([analyze(f"{speaker}: {text}")])
        vector = round_vector(embeddings.embed_query(text))
        vectors.extend([vector])
        exact = vector.astype(np.float64)
        session = (thread, number // 6)
        lines.append(Line(number, text, speaker, session, exact / np.linalg.norm(exact)))
    gone = [number for number, (*_, fate) in enumerate(dialogue) if fate == "removed"]
    table.remove_entries(f"e-{dialogue[number][2]}-{number}" for number in gone)
    lexical.remove(gone)
    vectors.remove(gone)
    allowed = table.select_allowed()
    for number, (*_, fate) in enumerate(dialogue):
        lines[number].in_scope = fate == "live"
        allowed[number] &= fate == "live"
    left = [one for one in lines if one.number not in gone]
    asked = RecallQuery(question, Scope((Owner(user_id="ana"),)), wish)
    found = rank(asked, table, vectors, lexical, vector=query, allowed=allowed)
    speakers = list(dict.fromkeys(speaker for _, speaker, *_ in dialogue))
    # A line of two words may pass for one in another language, whose stems count then.
    terms = extract_query_terms(question, lexical, stop_words=wish.stop_words)
    if not wish.lexical_weight:
        terms = {}
    expected = []
    if allowed.any():
        expected = plain_ranking(
            left, speakers, question, unit, wish, terms=terms, stored=len(dialogue)
        )
    np.testing.assert_allclose(
        sorted(ordered(found, "relevance")), sorted(score for _, score in expected), atol=2e-4
    )
    relevance = dict(expected)
    got = [relevance[number] for number in found]
    assert len(got) == len(expected)
    assert all(one >= other - 4e-4 for one, other in pairwise(got))
