"""Promises of crowding: what is near to many vectors is told apart from what stands alone."""

from __future__ import annotations

import numpy as np
import pytest

from langchain_convmem.recall.vectors import SegmentVectors, round_vector


def vector_at(degrees):
    angle = np.radians(degrees)
    return round_vector([np.cos(angle), np.sin(angle), 0.0])


def store(vectors, **options):
    store = SegmentVectors(**options)
    store.extend(vectors)
    return store


def random_vectors(count, seed=5):
    numbers = np.random.default_rng(seed).normal(size=(count, 8))
    return [round_vector(row) for row in numbers]


def crowding_among_others(vectors, lines=None):
    """Return the crowding of vectors in a store where fourteen others point elsewhere."""
    others = [round_vector([0.0, 0.0, 1.0])] * 14
    lines = [*(lines or range(len(vectors))), *range(100, 114)]
    found = store([*vectors, *others]).compute_crowding(np.array(lines))
    return found[: len(vectors)]


def test_a_vector_is_as_crowded_as_its_nearest_one_is_near():
    found = crowding_among_others([vector_at(90), vector_at(0), vector_at(40)])
    assert found == pytest.approx(np.cos(np.radians([50, 40, 40])), abs=1e-3)


def test_a_few_vectors_are_no_crowd():
    assert (
        not store([vector_at(angle) for angle in range(15)]).compute_crowding(np.arange(15)).any()
    )


def test_of_many_the_five_nearest_count():
    angles = [0, 35, 40, 45, 50, 60, *[180] * 100]
    found = store([vector_at(angle) for angle in angles]).compute_crowding(np.arange(len(angles)))
    assert found[0] == pytest.approx(np.cos(np.radians([35, 40, 45, 50, 60])).mean(), abs=1e-3)


def test_the_same_text_and_the_same_line_are_no_crowd():
    vectors = [vector_at(0), vector_at(0), vector_at(60), vector_at(35)]
    found = crowding_among_others(vectors, [0, 1, 2, 0])
    assert found[0] == pytest.approx(np.cos(np.radians(60)), abs=1e-3)
    assert found[1] == pytest.approx(np.cos(np.radians(35)), abs=1e-3)


def test_what_points_elsewhere_crowds_nobody():
    found = crowding_among_others([vector_at(0), vector_at(120)])
    assert found.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("index", ["numpy", "faiss"])
@pytest.mark.parametrize("count", [0, 1, 20, 256, 257, 700])
def test_adding_one_by_one_gives_what_adding_all_gives(index, count):
    vectors = random_vectors(count)
    lines = np.arange(count) // 2
    grown = SegmentVectors(index=index)
    for number in range(count):
        grown.extend([vectors[number]])
        if number % 7 == 0:
            grown.compute_crowding(lines[: number + 1])
    whole = store(vectors, index=index).compute_crowding(lines)
    np.testing.assert_allclose(grown.compute_crowding(lines), whole, atol=1e-6)
    assert len(whole) == count


@pytest.mark.parametrize("count", [30, 600])
def test_vectors_that_come_late_count_as_if_they_had_always_been_there(count):
    vectors, lines = random_vectors(count), np.arange(count)
    late = [number for number in range(count) if number % 3 == 0]
    waiting = store([None if number in late else vectors[number] for number in range(count)])
    assert waiting.compute_crowding(lines)[0] == 0.0
    for number in late:
        waiting.fill([number], [vectors[number]])
        waiting.compute_crowding(lines)
    np.testing.assert_allclose(
        waiting.compute_crowding(lines), store(vectors).compute_crowding(lines), atol=1e-6
    )


def test_removed_vectors_crowd_nobody():
    others = [round_vector([0.0, 0.0, 1.0])] * 14
    vectors = store([vector_at(0), vector_at(10), vector_at(60), *others])
    vectors.compute_crowding(np.arange(17))
    vectors.remove([1])
    found = vectors.compute_crowding(np.arange(17))
    assert found[:3] == pytest.approx([0.5, 0.0, 0.5], abs=1e-3)


def test_without_vectors_nothing_is_crowded():
    assert SegmentVectors().compute_crowding(np.arange(3)).tolist() == [0.0, 0.0, 0.0]


def test_vectors_in_bytes_are_nearly_as_crowded():
    vectors, lines = random_vectors(300), np.arange(300)
    short = store(vectors, index="faiss", bits=8).compute_crowding(lines)
    off = np.abs(short - store(vectors).compute_crowding(lines))
    assert np.quantile(off, 0.95) < 0.02
