from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.errors import DimensionMismatchError
from langchain_convmem.recall import ExactIndex, FaissIndex
from langchain_convmem.recall.fusion import spread_of
from langchain_convmem.recall.growable import Growable
from langchain_convmem.recall.vectors import SegmentVectors, half_bytes, rounded

DIM = 8


def some(count, seed=3):
    rows = np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)
    return [rounded(row) for row in rows]


def test_a_view_taken_before_growth_keeps_its_rows():
    column = Growable(np.int64)
    column.extend([1, 2])
    view = column.view
    column.extend(range(1000))
    assert view.tolist() == [1, 2]
    assert column.view.tolist() == [1, 2, *range(1000)]


def test_a_rounded_vector_survives_its_stored_form():
    vector = rounded([0.3, -4.0, 1e-3])
    assert np.frombuffer(half_bytes(vector), dtype="<f2").tolist() == vector.tolist()
    assert float(np.linalg.norm(vector.astype(np.float32))) == pytest.approx(1, abs=1e-3)
    assert rounded([0.0, 0.0]).tolist() == [0.0, 0.0]


def test_without_any_vector_everything_is_missing_and_similar_to_nothing():
    vectors = SegmentVectors(100)
    vectors.extend([None, None])
    assert vectors.dim is None
    assert vectors.missing == {0, 1}
    assert vectors.similarities(np.ones(DIM, dtype=np.float32)).tolist() == [0.0, 0.0]
    assert vectors.nearest(np.ones(DIM, dtype=np.float32), 3, np.ones(2, np.bool_)).tolist() == []


@given(st.lists(st.booleans(), min_size=1, max_size=20), st.sampled_from([0, 5, 100]))
def test_filling_what_was_missing_equals_having_had_it(given_flags, exact_limit):
    rows = some(len(given_flags))
    late, whole = SegmentVectors(exact_limit), SegmentVectors(exact_limit)
    flagged = zip(rows, given_flags, strict=True)
    for part in [row if flag else None for row, flag in flagged]:
        late.extend([part])
    pending = sorted(late.missing)
    assert pending == [n for n, flag in enumerate(given_flags) if not flag]
    late.fill(pending, [rows[number] for number in pending])
    whole.extend(rows)
    query = rows[0].astype(np.float32)
    np.testing.assert_allclose(late.similarities(query), whole.similarities(query), atol=1e-6)
    assert late.present.tolist() == whole.present.tolist()
    assert not late.missing
    late_spread, spread = late.spread(query), whole.spread(query)
    assert late_spread.mean == pytest.approx(spread.mean, abs=1e-6)
    assert late_spread.deviation == pytest.approx(spread.deviation, abs=1e-4)


def test_a_removed_number_is_filled_no_more():
    vectors = SegmentVectors(100)
    rows = some(3)
    vectors.extend([rows[0], None, rows[2]])
    vectors.remove([1])
    assert not vectors.missing
    vectors.fill([1], [rows[1]])
    assert vectors.present.tolist() == [True, False, True]
    assert 1 not in vectors.nearest(rows[1].astype(np.float32), 3, np.ones(3, np.bool_))


def test_growing_past_the_limit_changes_the_index_and_not_the_answers():
    rows = some(60)
    exact, grown = SegmentVectors(1000), SegmentVectors(40)
    for vectors in (exact, grown):
        vectors.extend(rows[:30])
        vectors.remove([3, 7])
        vectors.extend([*rows[30:50], None])
        vectors.extend(rows[50:])
        vectors.remove([7, 55])
    assert exact.is_exact
    assert not grown.is_exact
    query, everything = rows[3].astype(np.float32), np.ones(61, dtype=np.bool_)
    assert grown.nearest(query, 20, everything).tolist() == (
        exact.nearest(query, 20, everything).tolist()
    )
    expected = spread_of(exact.similarities(query)[exact.present])
    spread = grown.spread(query)
    assert spread.mean == pytest.approx(expected.mean, abs=1e-5)
    assert spread.deviation == pytest.approx(expected.deviation, abs=1e-4)


def test_an_index_taken_over_keeps_removals_and_zero_vectors():
    rows = np.array(some(80), dtype=np.float32)
    rows[9] = 0
    exact = ExactIndex(DIM)
    exact.add(rows)
    exact.remove([4])
    expected = exact.search(rows[4], 70)[0].tolist()
    graph = FaissIndex.over(exact, scan_limit=0)
    assert graph.search(rows[4], 70)[0].tolist() == expected
    assert not {4, 9} & set(expected)
    graph.add(rows[4:5])
    assert graph.search(rows[4], 1)[0].tolist() == [80]


def test_another_dimension_is_refused():
    vectors = SegmentVectors(10)
    vectors.extend(some(2))
    with pytest.raises(DimensionMismatchError):
        vectors.similarities(np.ones(DIM + 1, dtype=np.float32))
