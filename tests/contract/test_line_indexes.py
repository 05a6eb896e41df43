"""Every line index passes the contract."""

from __future__ import annotations

import pytest
from index_contract import LineIndexContract

from langchain_convmem.recall.vectors import ExactIndex, FaissIndex


class TestExactIndex(LineIndexContract):
    def make_index(self, dim):
        return ExactIndex(dim)


class TestFaissIndexInHalfPrecision(LineIndexContract):
    def make_index(self, dim):
        return FaissIndex(dim)


class TestFaissIndexInBytes(LineIndexContract):
    def make_index(self, dim):
        return FaissIndex(dim, bits=8)


def test_a_contract_test_cannot_be_redefined():
    with pytest.raises(TypeError, match="test_a_zero_query_finds_nothing"):
        type("Sly", (LineIndexContract,), {"test_a_zero_query_finds_nothing": lambda _: None})
