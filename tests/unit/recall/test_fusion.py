from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from langchain_convmem.recall.ranking import (
    Reception,
    average_run_bests,
    average_session_bests,
    smooth,
    smooth_runs,
    standardize,
)

SCORES = hnp.arrays(np.float64, st.integers(0, 30), elements=st.floats(-5, 5))
KERNEL = (0.25, 0.5, 1.0, 0.5, 0.25)
SHARES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=30, max_size=30)
LINES = st.lists(st.integers(0, 1), min_size=30, max_size=30).map(np.cumsum)


def chain(breaks, count):
    """Links of a row of segments that is cut before each number in `breaks`."""
    before = np.array(
        [-1 if n == 0 or n in breaks else n - 1 for n in range(count)], dtype=np.int64
    )
    behind = np.array(
        [-1 if n + 1 == count or n + 1 in breaks else n + 1 for n in range(count)], dtype=np.int64
    )
    return before, behind


def reception_of(count, lines, shares, within=0.5):
    return Reception(lines[:count], np.array(shares[:count], dtype=np.float32), within)


@given(
    SCORES,
    st.sets(st.integers(1, 29)),
    st.sampled_from([KERNEL, (1.0,), (0.1, 1.0, 0.9)]),
    LINES,
    SHARES,
)
def test_smoothing_adds_what_a_segment_takes_of_its_neighbours_in_the_same_row(
    scores, breaks, kernel, lines, shares
):
    reach = len(kernel) // 2
    expected = []
    for at in range(len(scores)):
        total = kernel[reach] * scores[at]
        for offset in (*range(-reach, 0), *range(1, reach + 1)):
            other = at + offset
            low, high = min(at, other), max(at, other)
            cut = any(low < border <= high for border in breaks)
            if 0 <= other < len(scores) and not cut:
                share = 0.5 if lines[at] == lines[other] else shares[at]
                total += kernel[offset + reach] * share * scores[other]
        expected.append(total)
    reception = reception_of(len(scores), lines, shares)
    smoothed = smooth(scores, *chain(breaks, len(scores)), kernel, reception)
    np.testing.assert_allclose(smoothed, expected, atol=1e-6)


def starts_of(breaks, count):
    return np.array([n for n in range(count) if n == 0 or n in breaks], dtype=np.int64)


@given(
    SCORES,
    st.sets(st.integers(1, 29)),
    st.sampled_from([KERNEL, (1.0,), (0.1, 0.2, 1, 0.9, 0.3)]),
    LINES,
    SHARES,
)
def test_rows_side_by_side_are_smoothed_alike_without_their_links(
    scores, breaks, kernel, lines, shares
):
    count = len(scores)
    reception = reception_of(count, lines, shares)
    expected = smooth(scores, *chain(breaks, count), kernel, reception)
    found = smooth_runs(scores, starts_of(breaks, count), kernel, reception)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@given(
    hnp.arrays(np.float64, st.integers(0, 30), elements=st.integers(-2, 3)),
    st.sets(st.integers(1, 29)),
    st.integers(1, 4),
)
def test_rows_side_by_side_have_the_same_bests_as_sessions_even_where_scores_are_equal(
    scores, breaks, best
):
    starts = starts_of(breaks, len(scores))
    sessions = np.searchsorted(starts, np.arange(len(scores)), side="right") - 1
    found, lengths = average_run_bests(scores, starts, best)
    expected = average_session_bests(scores, sessions, best)
    assert np.repeat(found, lengths).tolist() == expected.tolist()


@given(SCORES, st.lists(st.integers(0, 3), min_size=30, max_size=30), st.integers(1, 4))
def test_a_sessions_bests_are_the_mean_of_its_highest_scores(scores, labels, best):
    sessions = np.array(labels[: len(scores)], dtype=np.int64)
    expected = []
    for session in sessions:
        highest = sorted(np.maximum(scores[sessions == session], 0), reverse=True)[:best]
        expected.append(sum(highest) / best)
    np.testing.assert_allclose(average_session_bests(scores, sessions, best), expected, atol=1e-9)


def test_standardised_scores_have_mean_zero_and_deviation_one():
    z = standardize(np.array([1, 5, 9, 2], dtype=np.float32))
    assert z.mean() == pytest.approx(0, abs=1e-6)
    assert z.std() == pytest.approx(1)


def test_scores_that_do_not_count_are_average_and_move_nothing():
    scores = np.array([1, 700, 5, 9, -30, 2], dtype=np.float32)
    counted = np.array([True, False, True, True, False, True])
    z = standardize(scores, counted)
    assert z[~counted].tolist() == [0.0, 0.0]
    assert z[counted].tolist() == standardize(scores[counted]).tolist()


@pytest.mark.parametrize("counted", [None, np.array([True, False, True, True])])
def test_equal_scores_say_nothing(counted):
    assert standardize(np.full(4, 7.1, dtype=np.float32), counted).tolist() == [0.0] * 4


def test_no_scores_are_standardised_to_none():
    nothing = np.zeros(3, dtype=np.bool_)
    assert standardize(np.zeros(0, dtype=np.float32)).tolist() == []
    assert standardize(np.ones(3, dtype=np.float32), nothing).tolist() == [0.0] * 3


def test_few_scores_among_many_equal_ones_are_no_farther_than_a_least_deviation_allows():
    scores = np.array([0.0] * 99 + [3.0], dtype=np.float32)
    assert standardize(scores).max() == pytest.approx(9.95, abs=0.01)
    assert standardize(scores, least_deviation=2.0).max() == pytest.approx(1.485, abs=0.001)
    wide = np.array([1, 5, 9, 2], dtype=np.float32)
    assert standardize(wide, least_deviation=2.0).tolist() == standardize(wide).tolist()


def test_a_weight_stretches_all_distances():
    scores = np.array([1, 5, 9, 2], dtype=np.float32)
    np.testing.assert_allclose(standardize(scores, weight=0.5), standardize(scores) / 2)
