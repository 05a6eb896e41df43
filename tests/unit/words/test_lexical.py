from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.words.bm25 import LexicalIndex

DOCUMENTS = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=8), max_size=25)


def index_of(documents):
    index = LexicalIndex()
    index.add(documents)
    return index


def test_scores_follow_the_formula():
    index = index_of([["car", "car", "park"], ["park"], ["tree", "house"]])
    idf = math.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    expected = idf * 2 * 2.2 / (2 + 1.2 * (1 - 0.3 + 0.3 * 3 / 2))
    assert index.compute_scores(["car"]).tolist() == pytest.approx([expected, 0, 0])


@given(DOCUMENTS, st.integers(0, 25))
def test_adding_in_parts_equals_adding_at_once(documents, cut):
    index = index_of(documents[:cut])
    index.add(documents[cut:])
    assert (
        index.compute_scores("abc").tolist() == index_of(documents).compute_scores("abc").tolist()
    )


@given(DOCUMENTS, st.sets(st.integers(0, 24)))
def test_removing_equals_never_having_added(documents, removed):
    gone = {number for number in removed if number < len(documents)}
    index = index_of(documents)
    index.remove(gone)
    index.remove(gone)
    scores = index.compute_scores("abc")
    kept = [number for number in range(len(documents)) if number not in gone]
    expected = index_of([documents[number] for number in kept]).compute_scores("abc")
    np.testing.assert_allclose(scores[kept], expected, rtol=1e-6)
    assert not scores[sorted(gone)].any()


def test_a_document_has_the_terms_it_was_added_with_and_no_others():
    index = LexicalIndex()
    index.add([["level", "c"], [], ["level", "level"], ["d"]])
    index.remove([2])
    having = {
        term: [n for n in range(5) if index.find_shared([term], [n])[0]]
        for term in ("level", "d", "e")
    }
    assert having == {"level": [0, 2], "d": [3], "e": []}
    assert index.find_shared(["d", "e", "level"], [3, 0, 1]) == [[0], [2], []]


PETS = {"pet": ["pet", "cat", "dog"]}


def test_all_terms_of_a_kind_count_as_one_by_how_rare_they_are_together():
    index = index_of([["cat", "dog"], ["dog"], ["tree"], ["house"]])
    once = math.log1p((4 - 2 + 0.5) / (2 + 0.5))
    assert index.compute_kind_scores(PETS).tolist() == pytest.approx([once, once, 0, 0])


def test_a_document_that_names_the_kind_itself_is_left_to_its_words():
    index = index_of([["pet", "cat"], ["dog"], ["tree"]])
    once = math.log1p((3 - 2 + 0.5) / (2 + 0.5))
    assert index.compute_kind_scores(PETS).tolist() == pytest.approx([0, once, 0])


def test_removed_documents_are_of_no_kind_and_ignored_ones_make_none_more_common():
    index = index_of([["cat"], ["dog"], ["dog"], ["tree"], ["house"]])
    index.remove([0])
    ignored = np.array([False, True, False, False, False])
    once = math.log1p((3 - 1 + 0.5) / (1 + 0.5))
    found = index.compute_kind_scores(PETS, ignored=ignored)
    assert found.tolist() == pytest.approx([0, once, once, 0, 0])
