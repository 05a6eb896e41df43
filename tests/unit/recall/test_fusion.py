from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from langchain_convmem.recall.fusion import (
    Moments,
    Spread,
    session_bests,
    smooth,
    spread_of,
    standardize,
)

SCORES = hnp.arrays(np.float64, st.integers(0, 30), elements=st.floats(-5, 5))
KERNEL = (0.25, 0.5, 1.0, 0.5, 0.25)


def chain(breaks, count):
    """Links of a row of segments that is cut before each number in `breaks`."""
    before = np.array(
        [-1 if n == 0 or n in breaks else n - 1 for n in range(count)], dtype=np.int64
    )
    behind = np.array(
        [-1 if n + 1 == count or n + 1 in breaks else n + 1 for n in range(count)], dtype=np.int64
    )
    return before, behind


@given(SCORES, st.sets(st.integers(1, 29)), st.sampled_from([KERNEL, (1.0,), (0.1, 1.0, 0.9)]))
def test_smoothing_adds_weighted_neighbours_within_the_same_row(scores, breaks, kernel):
    reach = len(kernel) // 2
    expected = []
    for at in range(len(scores)):
        total = 0.0
        for offset in range(-reach, reach + 1):
            other = at + offset
            low, high = min(at, other), max(at, other)
            cut = any(low < border <= high for border in breaks)
            if 0 <= other < len(scores) and not cut:
                total += kernel[offset + reach] * scores[other]
        expected.append(total)
    smoothed = smooth(scores, *chain(breaks, len(scores)), kernel)
    np.testing.assert_allclose(smoothed, expected, atol=1e-9)


@given(SCORES, st.lists(st.integers(0, 3), min_size=30, max_size=30), st.integers(1, 4))
def test_a_sessions_bests_are_the_mean_of_its_highest_scores(scores, labels, best):
    sessions = np.array(labels[: len(scores)], dtype=np.int64)
    expected = []
    for session in sessions:
        highest = sorted(np.maximum(scores[sessions == session], 0), reverse=True)[:best]
        expected.append(sum(highest) / best)
    np.testing.assert_allclose(session_bests(scores, sessions, best), expected, atol=1e-9)


def test_standardised_scores_have_mean_zero_and_deviation_one():
    scores = np.array([1, 5, 9, 2], dtype=np.float32)
    z = standardize(scores, spread_of(scores))
    assert z.mean() == pytest.approx(0)
    assert z.std() == pytest.approx(1)


def test_equal_scores_say_nothing():
    scores = np.full(4, 7, dtype=np.float32)
    assert standardize(scores, spread_of(scores)).tolist() == [0.0] * 4
    assert spread_of(scores[:0]) == Spread(0.0, 0.0)


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(0, 20))
def test_running_moments_give_the_exact_spread_of_all_products(seed, count, removed):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(count, 6)).astype(np.float32)
    query = random.normal(size=6).astype(np.float32)
    moments = Moments(6)
    moments.add(rows[: count // 2])
    moments.add(rows[count // 2 :])
    kept = rows[min(removed, count - 1) :]
    moments.add(rows[: len(rows) - len(kept)], sign=-1)
    expected = spread_of(kept @ query)
    spread = moments.spread(query)
    assert spread.mean == pytest.approx(expected.mean, abs=1e-5)
    assert spread.deviation == pytest.approx(expected.deviation, abs=1e-3)


def test_moments_of_nothing_have_no_spread():
    assert Moments(3).spread(np.ones(3, dtype=np.float32)) == Spread(0.0, 0.0)
