from __future__ import annotations

import math
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.recall.analysis import analyze, is_stop_word, query_terms
from langchain_convmem.recall.lexical import LexicalIndex

DOCUMENTS = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=8), max_size=25)


def index_of(documents):
    index = LexicalIndex()
    index.add(documents)
    return index


# -- analysis ----------------------------------------------------------------------------------


def test_words_are_casefolded_and_stemmed():
    assert analyze("Running DOGS ran, straße") == ["run", "dog", "ran", "strass"]


def test_a_possessive_is_the_same_word():
    assert analyze("Caroline's Caroline\u2019s Caroline") == ["carolin"] * 3


def test_underscores_hyphens_and_points_separate_words():
    assert analyze("snake_case e-mail 3.5") == ["snake", "case", "e", "mail", "3", "5"]


def test_scripts_without_blanks_give_pairs_of_characters():
    assert analyze("東京タワー") == ["東京", "京タ", "タワ", "ワー"]
    assert analyze("車 and 東京") == ["車", "and", "東京"]


def test_composed_and_decomposed_letters_are_the_same_word():
    text = "café naïve Ünder"
    assert analyze(unicodedata.normalize("NFD", text)) == analyze(text)


def test_vowel_signs_stay_inside_their_word():
    assert len(analyze("हिन्दी भाषा")) == 2


def test_analysis_is_the_same_in_every_thread():
    texts = [f"running {n} dogs happily jumped over buildings number {n}" for n in range(200)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(analyze, texts)) == [analyze(text) for text in texts]


@given(st.text())
def test_terms_hold_no_blanks_so_that_they_can_be_stored_in_one_text(text):
    terms = analyze(text)
    assert " ".join(terms).split() == terms


def test_a_question_is_searched_for_without_its_function_words():
    assert query_terms("Where did you park the Car?") == {"park": "park", "car": "Car"}


def test_function_words_can_be_kept():
    assert set(query_terms("the car", stop_words=True)) == {"the", "car"}


def test_a_question_of_function_words_alone_keeps_them():
    assert set(query_terms("Who are you?")) == {"who", "are", "you"}


def test_stop_words_are_recognised_in_any_case():
    assert is_stop_word("Will")
    assert not is_stop_word("William")


# -- scores ------------------------------------------------------------------------------------


def test_scores_follow_the_formula():
    index = index_of([["car", "car", "park"], ["park"], ["tree", "house"]])
    idf = math.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    expected = idf * 2 * 2.2 / (2 + 1.2 * (1 - 0.3 + 0.3 * 3 / 2))
    assert index.scores(["car"]).tolist() == pytest.approx([expected, 0, 0])


def test_a_repeated_query_term_counts_once():
    index = index_of([["a", "b"], ["b"]])
    assert index.scores(["a", "a"]).tolist() == index.scores(["a"]).tolist()


def test_an_empty_index_and_an_unknown_term_score_nothing():
    assert LexicalIndex().scores(["a"]).tolist() == []
    assert index_of([["b"]]).scores(["a"]).tolist() == [0.0]


def test_an_index_can_grow_after_it_was_searched():
    index = index_of([["a"]])
    scores = index.scores(["a"])
    index.add([["a"], ["b"]])
    assert len(scores) == 1
    assert len(index.scores(["a"])) == 3


@given(DOCUMENTS, st.integers(0, 25))
def test_adding_in_parts_equals_adding_at_once(documents, cut):
    index = index_of(documents[:cut])
    index.add(documents[cut:])
    assert index.scores("abc").tolist() == index_of(documents).scores("abc").tolist()


@given(DOCUMENTS, st.sets(st.integers(0, 24)))
def test_removing_equals_never_having_added(documents, removed):
    gone = {number for number in removed if number < len(documents)}
    index = index_of(documents)
    index.remove(gone)
    index.remove(gone)
    scores = index.scores("abc")
    kept = [number for number in range(len(documents)) if number not in gone]
    expected = index_of([documents[number] for number in kept]).scores("abc")
    np.testing.assert_allclose(scores[kept], expected, rtol=1e-6)
    assert not scores[sorted(gone)].any()


def test_a_document_has_the_terms_it_was_added_with_and_no_others():
    index = LexicalIndex()
    index.add([["level", "c"], [], ["level", "level"], ["d"]])
    index.remove([2])
    having = {term: [n for n in range(5) if index.has(term, n)] for term in ("level", "d", "e")}
    assert having == {"level": [0, 2], "d": [3], "e": []}


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=8), max_size=90))
def test_many_documents_at_once_are_the_same_as_one_by_one(documents):
    single = LexicalIndex()
    for document in documents:
        single.add([document])
        single.settle()
    many = index_of([*documents, *documents])
    single.add(documents)
    for terms in ("abc", "h", "gz"):
        assert many.scores(terms).tolist() == single.scores(terms).tolist()
    every = range(2 * len(documents))
    assert [many.has("a", n) for n in every] == [single.has("a", n) for n in every]
