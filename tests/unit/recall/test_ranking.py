from __future__ import annotations

import numpy as np
import pytest
from rankings import ordered

from langchain_convmem.recall import RecallSettings
from langchain_convmem.recall.options import (
    RecallQuery,
    Scope,
    find_named_speakers,
    remove_names,
)
from langchain_convmem.recall.ranking import rank
from langchain_convmem.recall.segments import SegmentTable
from langchain_convmem.recall.vectors import SegmentVectors, round_vector
from langchain_convmem.records import Owner
from langchain_convmem.words.analysis import analyze
from langchain_convmem.words.bm25 import LexicalIndex

WORDS = ["car", "park", "tree", "house", "dog", "river", "music", "paper", "stone", "light"]


class World:
    """Table, vectors and words of some lines, embedded by `embeddings`."""

    def __init__(self, lines, embeddings):
        self.embeddings = embeddings
        self.table = SegmentTable()
        self.vectors = SegmentVectors()
        self.lexical = LexicalIndex()
        for line in lines:
            for number in self.table.add(line):
                text = self.table.get_text(number)
                self.lexical.add([analyze(f"{line.speaker}: {text}")])
                self.vectors.extend([round_vector(embeddings.embed_query(text))])

    def rank(self, text, wish=None, *, allowed=None, vector=True):
        asked = np.array(self.embeddings.embed_query(text), np.float32) if vector else None
        mask = self.table.select_allowed() if allowed is None else allowed
        query = RecallQuery(text, Scope((Owner(user_id="ana"),)), wish or RecallSettings())
        columns = self.table, self.vectors, self.lexical
        return rank(query, *columns, vector=asked, allowed=mask)


# -- names -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("What did caroline buy?", [0]),
        ("What is Caroline's car?", [0]),
        ("Does Mel\u2019s dog bark?", [1]),
        ("Is Carolines a name?", []),
        ("When will we go?", []),
        ("When does Will go?", [2]),
        ("Who is Ana Maria?", [3]),
        ("Who is ana?", [3]),
        ("The end", []),
        ("Ask The Boss.", [4]),
    ],
)
def test_named_speakers_are_found_by_whole_or_first_name(text, named):
    assert (
        find_named_speakers(text, ["Caroline", "Mel", "Will", "Ana Maria", "The Boss", " "])
        == named
    )


def test_names_are_taken_out_with_their_possessive():
    assert remove_names("What is Caroline's car, Mel?", ["Caroline", "Mel"]) == "What is car, ?"


def test_a_text_of_names_alone_stays():
    assert remove_names("Caroline?", ["Caroline"]) == "Caroline?"


# -- scores ------------------------------------------------------------------------------------


def test_a_line_near_a_good_line_is_raised(line, word_embeddings):
    lines = [line("stone paper", n) for n in range(9)]
    lines[4] = line("the car park", 4)
    found = World(lines, word_embeddings()).rank("car park")
    assert list(found)[:5] == [4, 3, 5, 2, 6]


def test_lines_of_the_speaker_whom_the_question_names_are_raised(line, word_embeddings):
    lines = [line("my car", n, speaker="Ana" if n % 2 else "Bo", session=str(n)) for n in range(8)]
    world = World(lines, word_embeddings())
    plain = RecallSettings(lexical_weight=0, latest_first=False)
    assert list(world.rank("Ana's car", plain))[:4] == [1, 3, 5, 7]
    both = world.rank("What did Ana tell Bo of the car", plain)
    assert ordered(both, "speaker").tolist() == [0.0] * 8


def test_a_session_with_several_good_lines_is_preferred(line, word_embeddings):
    texts = ["car", "car", "stone", "stone", "stone", "stone"]
    lines = [line(text, n, session="a" if n < 3 else "b") for n, text in enumerate(texts)]
    wish = RecallSettings(kernel=(1.0,))
    found = World(lines, word_embeddings()).rank("car", wish)
    score = dict(zip(found, ordered(found, "relevance").tolist(), strict=True))
    assert score[2] > score[5]


def test_a_pending_line_is_neither_near_nor_far(line, word_embeddings):
    world = World([line("car", 0), line("tree", 1)], word_embeddings())
    world.table.add(line("car car", 2))
    world.lexical.add([["car", "car"]])
    world.vectors.extend([None])
    found = world.rank("car")
    at = list(found).index(2)
    assert ordered(found, "similarity")[at] == 0.0
    assert ordered(found, "meaning")[at] == 0.0
    assert ordered(found, "words")[at] > 0


def test_without_a_vector_the_words_alone_decide(line, word_embeddings):
    world = World([line("tree", 0, session="a"), line("car", 1, session="b")], word_embeddings())
    found = world.rank("car", vector=False)
    assert list(found) == [1, 0]
    assert not ordered(found, "similarity").any()


def test_nothing_to_rank_gives_an_empty_ranking(line, word_embeddings):
    assert list(World([], word_embeddings()).rank("car")) == []
    world = World([line("car", 0)], word_embeddings())
    assert list(world.rank("car", allowed=np.zeros(1, dtype=np.bool_))) == []


def test_spec_settings_rank_by_cosine_alone(line, word_embeddings):
    random = np.random.default_rng(0)
    lines = [line(" ".join(random.choice(WORDS, 4)), n) for n in range(40)]
    world = World(lines, word_embeddings())
    found = world.rank("car tree dog", RecallSettings.spec())
    cosines = world.vectors.similarities(np.array(world.embeddings.embed_query("car tree dog")))
    assert list(found) == np.argsort(-np.round(cosines, 6), kind="stable").tolist()


def test_lines_out_of_scope_change_nothing_in_scope(line, word_embeddings):
    random = np.random.default_rng(1)
    lines = [
        line(" ".join(random.choice(WORDS, 4)), n, thread="ab"[n % 2], session=str(n // 9))
        for n in range(60)
    ]
    world = World(lines, word_embeddings())
    mask = world.table.select_allowed()
    mask[1::2] = False
    few = world.rank("car tree", allowed=mask)
    # The same lines scored among all columns, instead of gathered.
    wide = mask.copy()
    whole = world.rank("car tree", allowed=wide)
    assert set(few) == set(range(0, 60, 2))
    np.testing.assert_allclose(ordered(few, "relevance"), ordered(whole, "relevance"))
