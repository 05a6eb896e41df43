"""Every line index passes the contract, and the contract notices broken ones."""

from __future__ import annotations

import numpy as np
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


# -- seeded faults -----------------------------------------------------------------------------


class _ForgetsToScaleBytes(FaissIndex):
    def __init__(self, dim):
        super().__init__(dim, bits=8)

    def _divide_by_length(self, products, asked):
        return products


class _RoundsAway(FaissIndex):
    def _round_rows(self, rows):
        return np.rint(rows)


class _NoNorm(ExactIndex):
    def search(self, query, k, *, allowed=None):
        numbers, similarities = super().search(query, k, allowed=allowed)
        return numbers, similarities * np.float32(np.linalg.norm(query))


class _Reversed(ExactIndex):
    def search(self, query, k, *, allowed=None):
        numbers, similarities = super().search(query, k, allowed=allowed)
        return numbers[::-1], similarities[::-1]


class _LateFilter(ExactIndex):
    def search(self, query, k, *, allowed=None):
        numbers, similarities = super().search(query, k)
        kept = slice(None) if allowed is None else allowed[numbers]
        return numbers[kept], similarities[kept]


class _ForgetsRemovals(ExactIndex):
    def remove(self, numbers):
        pass


class _RemovesOnlyUnfiltered(ExactIndex):
    def search(self, query, k, *, allowed=None):
        if allowed is not None:
            self._kept.view[:] = True
        return super().search(query, k, allowed=allowed)


class _Absolute(ExactIndex):
    def search(self, query, k, *, allowed=None):
        numbers, similarities = super().search(query, k, allowed=allowed)
        order = np.argsort(-np.abs(similarities), kind="stable")
        return numbers[order], similarities[order]


class _LastOfTies(ExactIndex):
    def search(self, query, k, *, allowed=None):
        numbers, similarities = super().search(query, len(self), allowed=allowed)
        order = np.lexsort((-numbers, -similarities))[:k]
        return numbers[order], similarities[order]


class _ReplaceAppends(ExactIndex):
    def replace(self, number, vector):
        self.remove([number])
        self.add(np.asarray(vector)[None, :])


class _ReplaceRevives(ExactIndex):
    def replace(self, number, vector):
        super().replace(number, vector)
        self._kept.view[number] = True


class _ShiftsNumbers(ExactIndex):
    def search(self, query, k, *, allowed=None):
        numbers, similarities = super().search(query, k, allowed=allowed)
        return numbers - np.searchsorted(np.flatnonzero(~self._kept.view), numbers), similarities


class _PadsDimension(ExactIndex):
    def search(self, query, k, *, allowed=None):
        return super().search(np.resize(query, self.dim), k, allowed=allowed)


class _FindsZero(ExactIndex):
    @property
    def searchable(self):
        return self._kept.view


class _SimilaritiesInOrder(ExactIndex):
    def similarities(self, query, numbers=None):
        return super().similarities(query, None if numbers is None else np.sort(numbers))


_FAULTY = [
    _ForgetsToScaleBytes,
    _RoundsAway,
    _NoNorm,
    _Reversed,
    _LateFilter,
    _ForgetsRemovals,
    _RemovesOnlyUnfiltered,
    _Absolute,
    _LastOfTies,
    _ReplaceAppends,
    _ReplaceRevives,
    _ShiftsNumbers,
    _PadsDimension,
    _FindsZero,
    _SimilaritiesInOrder,
]


def _failures(contract):
    failed = []
    for name in dir(contract):
        if not name.startswith("test_"):
            continue
        test = getattr(contract, name)
        marks = getattr(test, "pytestmark", [])
        cases = next((mark.args[1] for mark in marks if mark.name == "parametrize"), None)
        try:
            for case in [()] if cases is None else [(case,) for case in cases]:
                test(*case)
        except (AssertionError, pytest.fail.Exception, IndexError, ValueError):
            failed.append(name)
    return failed


@pytest.mark.parametrize("faulty", _FAULTY, ids=lambda cls: cls.__name__.strip("_"))
def test_the_contract_notices_a_seeded_fault(faulty):
    contract = type("Faulty", (LineIndexContract,), {"make_index": lambda _, dim: faulty(dim)})()
    assert _failures(contract)


def test_the_contract_finds_nothing_wrong_with_a_sound_index():
    contract = type("Sound", (LineIndexContract,), {"make_index": lambda _, dim: ExactIndex(dim)})()
    assert _failures(contract) == []


def test_a_contract_test_cannot_be_redefined():
    with pytest.raises(TypeError, match="test_a_zero_query_finds_nothing"):
        type("Sly", (LineIndexContract,), {"test_a_zero_query_finds_nothing": lambda _: None})
