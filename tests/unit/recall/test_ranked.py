from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rankings import ordered

from langchain_convmem.recall.ranking import Columns, Ranking


def columns_of(relevance, numbers=None):
    scores = np.array(relevance, dtype=np.float64)
    numbers = np.arange(len(scores)) if numbers is None else np.array(numbers)
    similarity = (scores / 10).astype(np.float32)
    return Columns(numbers, scores, similarity, *[scores] * 6)


@given(st.integers(0, 2**31), st.sampled_from([0, 1, 127, 128, 129, 1500]), st.booleans())
def test_reading_bit_by_bit_gives_the_order_of_a_whole_stable_sort(seed, count, gathered):
    random = np.random.default_rng(seed)
    # Few different scores, so that ties stand across every border of what is looked at.
    scores = random.integers(0, 40, count) + random.normal(0, 1e-9, count)
    numbers = np.sort(random.choice(10 * count, count, replace=False)) if gathered else None
    ranking = Ranking(columns_of(scores, numbers))
    order = np.argsort(-np.round(scores, 6), kind="stable")
    expected = ranking.columns.numbers[order].tolist()
    first = [number for number, _ in zip(ranking, range(200), strict=False)]
    assert first == expected[:200]
    assert list(ranking) == expected
    np.testing.assert_array_equal(ordered(ranking, "relevance"), scores[order])


@given(st.integers(0, 2**31), st.sampled_from([1, 127, 300, 1500]), st.integers(0, 1500))
def test_the_order_of_some_does_not_depend_on_how_much_of_all_was_read_before(seed, count, read):
    random = np.random.default_rng(seed)
    columns = columns_of(random.integers(0, 40, count))
    kept = random.random(count) < random.random()
    ranking = Ranking(columns)
    for _ in zip(ranking, range(read), strict=False):
        pass
    assert list(ranking.select_where(kept)) == list(Ranking(columns).select_where(kept))
    assert list(ranking.select_where(kept)) == [number for number in ranking if kept[number]]


def test_rows_that_do_not_rank_are_not_read():
    ranking = Ranking(columns_of([1.0, 5.0, 3.0, 4.0]), np.array([0, 2, 3]))
    assert len(ranking) == 3
    assert list(ranking) == [3, 2, 0]
    assert list(ranking.select_above(0.25)) == [3, 2]


@pytest.mark.parametrize("similarity", [0.3, np.nextafter(np.float32(0.3), np.float32(1))])
def test_a_similarity_that_equals_the_bound_but_for_rounding_is_not_above_it(similarity):
    columns = columns_of([1.0, 5.0, 3.0, 4.0])
    columns.similarity[2] = similarity
    assert list(Ranking(columns).select_above(0.3)) == [1, 3]
    assert list(Ranking(columns).select_above(0.2999)) == [1, 3, 2]


@pytest.mark.parametrize("numbers", [None, [4, 7, 8, 30]])
def test_a_segment_is_found_by_its_number(numbers):
    ranking = Ranking(columns_of([1.0, 5.0, 3.0, 4.0], numbers))
    assert [ranking.find_row(number) for number in ranking] == [1, 3, 2, 0]
