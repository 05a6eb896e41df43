from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.columns import GrowableArray
from langchain_convmem.errors import ConfigError, DimensionMismatchError
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.recall import LineRecall, RecallSettings
from langchain_convmem.recall.vectors import (
    ExactIndex,
    FaissIndex,
    SegmentVectors,
    round_vector,
    to_half_bytes,
)
from langchain_convmem.records import Owner

ANA = Owner(user_id="ana")
DIM = 8


def some(count, seed=3):
    rows = np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)
    return [round_vector(row) for row in rows]


def test_a_view_taken_before_growth_keeps_its_rows():
    column = GrowableArray(np.int64)
    column.extend([1, 2])
    view = column.view
    column.extend(range(1000))
    assert view.tolist() == [1, 2]
    assert column.view.tolist() == [1, 2, *range(1000)]


def test_a_rounded_vector_survives_its_stored_form():
    vector = round_vector([0.3, -4.0, 1e-3])
    assert np.frombuffer(to_half_bytes(vector), dtype="<f2").tolist() == vector.tolist()
    assert float(np.linalg.norm(vector.astype(np.float32))) == pytest.approx(1, abs=1e-3)
    assert round_vector([0.0, 0.0]).tolist() == [0.0, 0.0]


def test_without_any_vector_everything_is_missing_and_similar_to_nothing():
    vectors = SegmentVectors()
    vectors.extend([None, None])
    assert vectors.dim is None
    assert vectors.missing == {0, 1}
    assert vectors.similarities(np.ones(DIM, dtype=np.float32)).tolist() == [0.0, 0.0]
    assert vectors.get_row(0) is None


@given(st.lists(st.booleans(), min_size=1, max_size=20), st.sampled_from(["faiss", "numpy"]))
def test_filling_what_was_missing_equals_having_had_it(given_flags, index):
    rows = some(len(given_flags))
    late, whole = SegmentVectors(index=index), SegmentVectors(index=index)
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


def test_a_removed_number_is_filled_no_more():
    vectors = SegmentVectors()
    rows = some(3)
    vectors.extend([rows[0], None, rows[2]])
    vectors.remove([1])
    assert not vectors.missing
    vectors.fill([1], [rows[1]])
    assert vectors.present.tolist() == [True, False, True]


@pytest.mark.parametrize("bits", [16, 8])
def test_vectors_that_were_expected_are_kept_like_any_others(bits):
    rows = some(60)
    surprised, ready = SegmentVectors(bits=bits), SegmentVectors(bits=bits)
    ready.expect(60)
    for vectors in (surprised, ready):
        vectors.extend([None, *rows[:29]])
        vectors.extend([])
        vectors.extend([*rows[30:], round_vector(np.zeros(DIM))])
    query = rows[3].astype(np.float32)
    assert ready.similarities(query).tolist() == surprised.similarities(query).tolist()
    assert ready.present.tolist() == surprised.present.tolist()
    assert ready.missing == surprised.missing == {0}


@pytest.mark.parametrize("bits", [16, 8])
@pytest.mark.parametrize("length", [1, 3])
def test_vectors_in_half_precision_are_kept_as_those_in_single_precision(bits, length):
    rows = (np.array(some(20)) * length).astype(np.float16)
    rows[4] = 0
    whole, half = FaissIndex(DIM, bits=bits), FaissIndex(DIM, bits=bits)
    whole.add(rows.astype(np.float32))
    half.add(rows)
    for one, other in zip(whole.search(rows[3], 20), half.search(rows[3], 20), strict=True):
        assert one.tolist() == other.tolist()


@pytest.mark.parametrize("index", ["faiss", "numpy"])
def test_a_vector_comes_back_as_it_was_given(index):
    vectors, rows = SegmentVectors(index=index), some(50)
    vectors.extend([*rows[:-1], None, round_vector(np.zeros(DIM)), None])
    vectors.fill([49], rows[49:])
    vectors.remove([4])
    assert [vectors.get_row(number).tolist() for number in range(50)] == [
        row.tolist() for row in rows
    ]
    assert vectors.get_row(50) is None
    assert vectors.get_row(51) is None


def test_a_vector_kept_in_bytes_does_not_come_back():
    vectors = SegmentVectors(index="faiss", bits=8)
    vectors.extend(some(2))
    assert vectors.get_row(0) is None


def load_rows(rows):
    """Return indexes of the same rows in half precision: one of them added to, and one loaded."""
    added, loaded = ExactIndex(rows.shape[1]), ExactIndex(rows.shape[1])
    added.add(rows)
    inverse = GrowableArray(np.float32)
    inverse.extend(added.inverse)
    loaded.load(np.frombuffer(rows.tobytes(), dtype=np.float16).reshape(rows.shape), inverse)
    return added, loaded


halves = st.integers(0, 2**16 - 1).filter(lambda bits: bits & 0x7C00 != 0x7C00)


@given(st.lists(halves, min_size=1, max_size=80), st.integers(1, 9), st.randoms())
def test_what_was_loaded_is_compared_to_the_bit_however_often(bits, dim, random):
    values = np.array([random.choice(bits) for _ in range(dim * 300)], dtype=np.uint16)
    rows = values.view(np.float16).reshape(-1, dim)
    added, loaded = load_rows(rows)
    numbers = np.array([7, 0, 299, 7])
    for number in range(5):
        query = rows[number].astype(np.float32)
        expected = added.similarities(query)
        assert np.array_equal(loaded.similarities(query, numbers), expected[numbers])
        assert np.array_equal(loaded.similarities(query), expected)
        assert np.array_equal(loaded.get_unit_rows(numbers), added.get_unit_rows(numbers))
        assert np.array_equal(loaded.search(query, 9)[0], added.search(query, 9)[0])
        assert np.array_equal(loaded.get_codes(), rows)


@pytest.mark.parametrize("questions", range(4))
def test_what_was_loaded_can_be_added_to_and_replaced(questions):
    rows = np.array(some(20))
    added, loaded = load_rows(rows)
    for index in (added, loaded):
        for row in rows[:questions]:
            index.similarities(row.astype(np.float32))
        index.replace(3, rows[5].astype(np.float32))
        index.add(rows[:2])
        index.remove([0])
    assert len(loaded) == 22
    query = rows[5].astype(np.float32)
    assert np.array_equal(loaded.similarities(query), added.similarities(query))
    assert loaded.search(query, 2)[0].tolist() == [3, 5]
    assert loaded.get_row(21).tolist() == rows[1].tolist()


@pytest.mark.parametrize("bits", [16, 8])
def test_an_index_taken_over_keeps_removals_and_zero_vectors(bits):
    rows = np.array(some(80), dtype=np.float32)
    rows[9] = 0
    exact = ExactIndex(DIM)
    exact.add(rows)
    exact.remove([4])
    index = FaissIndex.from_exact(exact, bits=bits)
    numbers, similarities = index.search(rows[4], 80)
    assert len(index) == 80
    assert set(numbers.tolist()) == set(range(80)) - {4, 9}
    index.add(rows[4:5])
    assert index.search(rows[4], 1)[0].tolist() == [80]
    assert exact.search(rows[4], 1)[1] == pytest.approx(similarities[0], abs=0.02)


@pytest.mark.parametrize("dim", [7, 16, 256])
def test_bytes_are_compared_as_whole_numbers_whatever_kernel_the_dimension_gets(dim):
    random = np.random.default_rng(dim)
    rows = random.integers(-127, 128, size=(40, dim)).astype(np.float32)
    rows[:, 0] = 127
    index = FaissIndex(dim, bits=8)
    index.add(rows)
    lengths = np.linalg.norm(rows, axis=1)
    expected = rows @ rows[5] / lengths / lengths[5]
    np.testing.assert_allclose(index.similarities(rows[5]), expected, atol=1e-6)


@pytest.mark.parametrize(("dim", "bits"), [(0, 16), (8, 4)])
def test_an_index_that_cannot_be_is_refused(dim, bits):
    with pytest.raises(ConfigError, match=f"{dim} and {bits}"):
        FaissIndex(dim, bits=bits)


def test_another_dimension_is_refused():
    vectors = SegmentVectors()
    vectors.extend(some(2))
    with pytest.raises(DimensionMismatchError):
        vectors.similarities(np.ones(DIM + 1, dtype=np.float32))


def test_a_recall_with_short_vectors_finds_the_same_at_nearly_the_same_similarity(say):
    log = InMemoryLog()
    say(log, ["The tractor is in the barn.", "Rain again.", "We sold the old car.", "Good night!"])
    half, short = (
        LineRecall(log, settings=RecallSettings(vector_bits=bits)).recall(ANA, "a car or a tractor")
        for bits in (16, 8)
    )
    similarities = [[match.similarity for match in found.matches] for found in (half, short)]
    assert [match.line for match in half.matches] == [match.line for match in short.matches]
    assert similarities[1] == pytest.approx(similarities[0], abs=0.02)
    assert similarities[1] != similarities[0]
