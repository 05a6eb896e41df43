"""Promises of the sample of an owner's vectors, from which is read what cosine chance gives."""

from __future__ import annotations

import numpy as np
import pytest

from langchain_convmem.recall.vectors import SegmentVectors, round_vector

INDEXES = ["numpy", "faiss"]


def vectors_of(count, index="auto"):
    rows = np.random.default_rng(count).standard_normal((count, 8)).astype(np.float32)
    vectors = SegmentVectors(index=index)
    vectors.extend([round_vector(row) for row in rows])
    return vectors


@pytest.mark.parametrize("index", INDEXES)
def test_rows_have_unit_length_in_the_order_asked_for(index):
    vectors = vectors_of(20, index)
    rows = vectors.get_unit_rows([3, 0, 3])
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 1, 1], abs=1e-6)
    assert (rows[0] == rows[2]).all()
    cosines = vectors.similarities(rows[0], np.array([3, 0]))
    assert cosines == pytest.approx([1.0, float(rows[0] @ rows[1])], abs=1e-3)


def test_there_are_no_rows_before_the_first_vector_and_nearly_equal_ones_of_bytes():
    assert SegmentVectors().get_unit_rows([0]).shape == (1, 0)
    assert len(SegmentVectors().compare_sample(np.ones(8, dtype=np.float32))) == 0
    vectors = SegmentVectors(index="faiss", bits=8)
    vectors.extend([round_vector(np.ones(8, dtype=np.float32))])
    assert np.allclose(vectors.get_unit_rows([0]), 1 / np.sqrt(8), atol=0.01)


def spread_out(count, alike, dim=64):
    """Vectors of which any two have the cosine `alike`."""
    rows = np.sqrt(1 - alike) * np.eye(dim, dtype=np.float32)[1 : count + 1]
    rows[:, 0] = np.sqrt(alike)
    return [round_vector(row) for row in rows]


QUESTION = np.eye(64, dtype=np.float32)[0]


@pytest.mark.parametrize(("alike", "trust"), [(0.1, 1.0), (0.8, 0.5), (0.96, 0.1)])
def test_an_embedder_to_which_texts_look_alike_is_trusted_less(alike, trust):
    vectors = SegmentVectors(trusted_spread=0.4)
    vectors.extend(spread_out(20, alike))
    assert vectors.trust(QUESTION) == pytest.approx(trust, abs=0.01)


def test_texts_like_the_question_tell_and_no_others():
    vectors = SegmentVectors(trusted_spread=0.4)
    apart = [round_vector(row) for row in np.eye(64, dtype=np.float32)[30:60]]
    vectors.extend([*spread_out(20, 0.96), *apart])
    assert vectors.trust(QUESTION) == pytest.approx(0.1, abs=0.01)
    assert vectors.trust(np.eye(64, dtype=np.float32)[29:60].sum(axis=0)) == 1.0


def test_an_embedder_that_declares_no_spread_is_trusted_and_so_is_one_of_a_few_texts():
    declared, other = SegmentVectors(trusted_spread=0.4), SegmentVectors()
    declared.extend(spread_out(15, 0.96))
    other.extend(spread_out(20, 0.96))
    assert declared.trust(QUESTION) == other.trust(QUESTION) == 1.0


@pytest.mark.parametrize("index", INDEXES)
def test_a_sample_holds_what_was_added_and_filled_in_since(index):
    ones = round_vector(np.ones(8, dtype=np.float32))
    vectors = vectors_of(4, index)
    vectors.extend([None, ones, ones])
    vectors.remove([6])
    cosines = vectors.compare_sample(ones.astype(np.float32))
    assert cosines[:4].all()
    assert cosines[4:] == pytest.approx([0.0, 1.0, 0.0], abs=1e-3)
    vectors.fill([4], [ones])
    cosines = vectors.compare_sample(ones.astype(np.float32))
    assert cosines[4:] == pytest.approx([1.0, 1.0, 0.0], abs=1e-3)


@pytest.mark.parametrize("index", INDEXES)
def test_a_sample_is_spread_over_all(index):
    vectors = vectors_of(2000, index)
    [last] = vectors.get_unit_rows([1995])
    cosines = vectors.compare_sample(last)
    assert 256 <= len(cosines) < 512
    assert cosines[-1] == pytest.approx(1.0, abs=1e-3)
    known = vectors.compare_sample(last, vectors.similarities(last))
    np.testing.assert_allclose(cosines, known, atol=1e-6)


@pytest.mark.parametrize("index", INDEXES)
def test_trust_is_the_same_with_cosines_that_are_known(index):
    vectors = SegmentVectors(index=index, trusted_spread=0.4)
    vectors.extend(spread_out(40, 0.8))
    vectors.remove([3, 5])
    known = vectors.similarities(QUESTION)
    assert vectors.trust(QUESTION, known) == vectors.trust(QUESTION) == pytest.approx(0.5, abs=0.01)
