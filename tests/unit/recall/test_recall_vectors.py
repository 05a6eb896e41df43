"""Vectors that cannot be are refused; short ones are nearly as good."""

from __future__ import annotations

import numpy as np
import pytest

from langchain_convmem.errors import ConfigError
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.recall import LineRecall, RecallSettings
from langchain_convmem.recall.vectors import (
    FaissIndex,
    SegmentVectors,
    round_vector,
)
from langchain_convmem.records import Owner

ANA = Owner(user_id="ana")
DIM = 8


def some(count, seed=3):
    rows = np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)
    return [round_vector(row) for row in rows]


@pytest.mark.parametrize(("dim", "bits"), [(0, 16), (8, 4)])
def test_an_index_that_cannot_be_is_refused(dim, bits):
    with pytest.raises(ConfigError, match=f"{dim} and {bits}"):
        FaissIndex(dim, bits=bits)


def test_another_dimension_is_refused():
    vectors = SegmentVectors()
    vectors.extend(some(2))
    with pytest.raises(ConfigError):
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
