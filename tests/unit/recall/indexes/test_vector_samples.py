"""Promises of the sample of an owner's vectors, from which is read what cosine chance gives."""

from __future__ import annotations

import numpy as np
import pytest

from langchain_convmem.recall.indexes.vectors import SegmentVectors, rounded

INDEXES = ["numpy", "faiss"]


def vectors_of(count, index="auto"):
    rows = np.random.default_rng(count).standard_normal((count, 8)).astype(np.float32)
    vectors = SegmentVectors(index=index)
    vectors.extend([rounded(row) for row in rows])
    return vectors


@pytest.mark.parametrize("index", INDEXES)
def test_rows_have_unit_length_in_the_order_asked_for(index):
    vectors = vectors_of(20, index)
    rows = vectors.unit_rows([3, 0, 3])
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 1, 1], abs=1e-6)
    assert (rows[0] == rows[2]).all()
    cosines = vectors.similarities(rows[0], np.array([3, 0]))
    assert cosines == pytest.approx([1.0, float(rows[0] @ rows[1])], abs=1e-3)


def test_there_are_no_rows_of_vectors_kept_in_bytes_nor_before_the_first_one():
    assert SegmentVectors().unit_rows([0]) is None
    assert len(SegmentVectors().sample()) == 0
    vectors = SegmentVectors(index="faiss", bits=8)
    vectors.extend([rounded(np.ones(8, dtype=np.float32))])
    assert vectors.unit_rows([0]) is None


@pytest.mark.parametrize("index", INDEXES)
def test_a_sample_holds_what_was_added_and_filled_in_since(index):
    vectors = vectors_of(4, index)
    assert len(vectors.sample()) == 4
    vectors.extend([None, rounded(np.ones(8, dtype=np.float32))])
    assert vectors.sample().any(axis=1).tolist() == [True, True, True, True, False, True]
    vectors.fill([4], [rounded(np.ones(8, dtype=np.float32))])
    assert vectors.sample()[4] == pytest.approx(vectors.sample()[5])


def test_a_sample_is_spread_over_all():
    vectors = vectors_of(2000)
    assert 256 <= len(vectors.sample()) < 512
    assert vectors.sample()[-1] == pytest.approx(vectors.unit_rows([1995])[0])
