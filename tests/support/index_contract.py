"""The contract of a line index, by value: every answer is compared with brute force in float64.

Subclass `LineIndexContract`, give `make_index`, and let pytest collect the class. An approximate
index must be set so that it finds everything among the few hundred vectors used here. Their
components are whole numbers from -127 to 127, times a power of two: an index that keeps vectors in
half precision or in bytes holds them exactly and answers exactly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from langchain_convmem.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_convmem.recall.vectors import ExactIndex, FaissIndex

    LineIndex = ExactIndex | FaissIndex

__all__ = ["LineIndexContract"]

_DIM = 24
_COUNT = 300
_CLOSE = 2e-6


def _vectors(count: int = _COUNT, *, seed: int = 7) -> NDArray[np.float32]:
    rows = np.random.default_rng(seed).normal(size=(count, _DIM))
    rows = np.rint(rows * (127 / np.abs(rows).max(axis=1, keepdims=True)))
    # Lengths differ, so that an inner product alone gives another order than the cosine.
    lengths = np.exp2(np.random.default_rng(seed + 1).integers(-9, 0, size=(count, 1)))
    result: NDArray[np.float32] = (rows * lengths).astype(np.float32)
    return result


def _cosines(rows: NDArray[np.float32], query: NDArray[np.float32]) -> NDArray[np.float64]:
    exact, asked = rows.astype(np.float64), query.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1) * np.linalg.norm(asked)
    result: NDArray[np.float64] = np.divide(
        exact @ asked, lengths, out=np.zeros(len(exact)), where=lengths > 0
    )
    return result


def _expect(
    index: LineIndex,
    rows: NDArray[np.float32],
    query: NDArray[np.float32],
    k: int,
    *,
    allowed: NDArray[np.bool_] | None = None,
    removed: tuple[int, ...] = (),
) -> None:
    """Assert that a search answers as brute force over `rows` does."""
    cosines = _cosines(rows, query)
    mask = np.ones(len(rows), dtype=np.bool_) if allowed is None else allowed.copy()
    mask[list(removed)] = False
    numbers = np.flatnonzero(mask)
    # Rounded, so that equal vectors tie here as they must in the index.
    order = np.argsort(-np.round(cosines[numbers], 9), kind="stable")[:k]
    found, similarities = index.search(query, k, allowed=allowed)
    assert found.tolist() == numbers[order].tolist()
    np.testing.assert_allclose(similarities, cosines[numbers[order]], atol=_CLOSE)


class LineIndexContract(ABC):
    """What every index of vectors promises, as tests."""

    @abstractmethod
    def make_index(self, dim: int) -> LineIndex:
        """Return an empty index of vectors of `dim` components."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse a subclass that redefines a test of the contract."""
        super().__init_subclass__(**kwargs)
        redefined = sorted(
            name
            for name in vars(cls)
            if name.startswith("test_") and hasattr(LineIndexContract, name)
        )
        if redefined:
            msg = f"{cls.__name__} redefines contract tests: {', '.join(redefined)}"
            raise TypeError(msg)

    def _filled(self, rows: NDArray[np.float32]) -> LineIndex:
        index = self.make_index(_DIM)
        index.add(rows)
        return index

    # -- searching ---------------------------------------------------------------------------

    def test_an_empty_index_answers_with_nothing(self) -> None:
        index = self.make_index(_DIM)
        numbers, similarities = index.search(_vectors(1)[0], 5)
        assert len(index) == 0
        assert index.dim == _DIM
        assert (numbers.tolist(), similarities.tolist()) == ([], [])
        assert index.similarities(_vectors(1)[0]).tolist() == []

    def test_every_vector_finds_itself_at_similarity_one(self) -> None:
        rows = _vectors()
        index = self._filled(rows)
        for number in range(0, _COUNT, 13):
            found, similarities = index.search(rows[number], 1)
            assert found.tolist() == [number]
            assert similarities[0] == pytest.approx(1.0, abs=_CLOSE)

    def test_the_nearest_come_first_with_their_cosine(self) -> None:
        rows = _vectors()
        index = self._filled(rows)
        for query in _vectors(20, seed=99):
            _expect(index, rows, query, 10)

    def test_a_query_of_any_length_gives_the_same_answer(self) -> None:
        rows, query = _vectors(), _vectors(1, seed=5)[0]
        index = self._filled(rows)
        short, long = index.search(query * 0.01, 10), index.search(query * 100, 10)
        assert short[0].tolist() == long[0].tolist()
        np.testing.assert_allclose(short[1], long[1], atol=_CLOSE)

    def test_the_direction_counts_and_not_only_the_axis(self) -> None:
        rows = _vectors()
        index = self._filled(rows)
        numbers, similarities = index.search(-rows[4], _COUNT)
        assert numbers[-1] == 4
        assert similarities[-1] == pytest.approx(-1.0, abs=_CLOSE)

    def test_equal_vectors_come_in_ascending_number(self) -> None:
        rows = _vectors()
        twins = [250, 3, 77, 12, 201, 8, 160]
        rows[twins] = rows[40]
        index = self._filled(rows)
        numbers, _ = index.search(rows[40], 8)
        assert numbers.tolist() == sorted([*twins, 40])

    def test_of_equal_vectors_at_the_end_the_lowest_numbers_come_back(self) -> None:
        rows = _vectors()
        rows[100:120] = rows[100]
        index = self._filled(rows)
        numbers, _ = index.search(rows[100], 5)
        assert numbers.tolist() == [100, 101, 102, 103, 104]

    def test_a_k_beyond_the_count_returns_all(self) -> None:
        rows = _vectors(9)
        index = self._filled(rows)
        _expect(index, rows, rows[0], 50)

    def test_a_k_of_zero_returns_nothing(self) -> None:
        assert self._filled(_vectors(9)).search(_vectors(1)[0], 0)[0].tolist() == []

    def test_a_zero_vector_is_similar_to_nothing(self) -> None:
        rows = _vectors(30)
        rows[[2, 5]] = 0.0
        index = self._filled(rows)
        numbers, _ = index.search(rows[0], 30)
        assert not {2, 5} & set(numbers.tolist())
        assert len(numbers) == 28
        assert index.similarities(rows[0])[[2, 5]].tolist() == [0.0, 0.0]

    def test_a_zero_query_finds_nothing(self) -> None:
        rows = _vectors(30)
        index = self._filled(rows)
        nothing = np.zeros(_DIM, dtype=np.float32)
        assert index.search(nothing, 5)[0].tolist() == []
        assert index.similarities(nothing).tolist() == [0.0] * 30

    def test_similarities_follow_the_numbers_asked_for(self) -> None:
        rows, query = _vectors(), _vectors(1, seed=3)[0]
        index = self._filled(rows)
        numbers = np.array([7, 299, 0, 7, 150])
        expected = _cosines(rows, query)
        np.testing.assert_allclose(index.similarities(query), expected, atol=_CLOSE)
        np.testing.assert_allclose(
            index.similarities(query, numbers), expected[numbers], atol=_CLOSE
        )

    def test_similarities_of_no_numbers_are_none(self) -> None:
        index = self._filled(_vectors(9))
        nothing = np.empty(0, dtype=np.int64)
        assert index.similarities(_vectors(1)[0], nothing).tolist() == []

    def test_numbers_and_similarities_have_the_types_they_promise(self) -> None:
        rows = _vectors(9)
        index = self._filled(rows)
        numbers, similarities = index.search(rows[0], 4)
        assert numbers.dtype == np.int64
        assert similarities.dtype == np.float32
        assert index.similarities(rows[0]).dtype == np.float32

    def test_asking_changes_neither_the_question_nor_the_filter(self) -> None:
        rows = _vectors()
        index = self._filled(rows)
        query, allowed = rows[3].copy(), np.arange(_COUNT) % 2 == 0
        index.search(query, 5, allowed=allowed)
        index.similarities(query)
        assert query.tolist() == rows[3].tolist()
        assert allowed.tolist() == (np.arange(_COUNT) % 2 == 0).tolist()

    def test_changing_an_answer_changes_no_later_one(self) -> None:
        rows = _vectors()
        index = self._filled(rows)
        for answer in (*index.search(rows[3], 5), index.similarities(rows[3])):
            answer[:] = 0
        _expect(index, rows, rows[3], 5)
        np.testing.assert_allclose(
            index.similarities(rows[3]), _cosines(rows, rows[3]), atol=_CLOSE
        )

    # -- filters -----------------------------------------------------------------------------

    @pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 1.0])
    def test_only_allowed_numbers_are_searched(self, share: float) -> None:
        rows = _vectors()
        index = self._filled(rows)
        allowed = np.random.default_rng(1).random(_COUNT) < share
        for query in _vectors(5, seed=42):
            _expect(index, rows, query, 7, allowed=allowed)

    def test_a_filter_that_allows_nothing_finds_nothing(self) -> None:
        rows = _vectors()
        allowed = np.zeros(_COUNT, dtype=np.bool_)
        assert self._filled(rows).search(rows[0], 5, allowed=allowed)[0].tolist() == []

    def test_a_filter_of_one_search_does_not_hold_for_the_next(self) -> None:
        rows = _vectors()
        index = self._filled(rows)
        index.search(rows[0], 5, allowed=np.arange(_COUNT) > _COUNT // 2)
        _expect(index, rows, rows[0], 5)

    # -- changes -----------------------------------------------------------------------------

    def test_adding_in_parts_equals_adding_at_once(self) -> None:
        rows = _vectors()
        index = self.make_index(_DIM)
        for part in np.split(rows, [1, 2, 60, 60, 299]):
            index.add(part)
        assert len(index) == _COUNT
        for query in _vectors(5, seed=11):
            _expect(index, rows, query, 12)

    def test_a_vector_added_after_a_search_is_found(self) -> None:
        rows = _vectors()
        index = self._filled(rows[:-1])
        index.search(rows[-1], 3)
        index.add(rows[-1:])
        assert index.search(rows[-1], 1)[0].tolist() == [_COUNT - 1]

    def test_changing_the_array_that_was_added_changes_nothing(self) -> None:
        rows = _vectors()
        given = rows.copy()
        index = self._filled(given)
        given[:] = 1.0
        _expect(index, rows, rows[9], 6)

    def test_removed_numbers_are_never_found_and_others_keep_theirs(self) -> None:
        rows = _vectors()
        index = self._filled(rows)
        removed = (0, 17, 18, 299)
        index.remove(removed)
        index.remove([17])
        assert len(index) == _COUNT
        for number in removed:
            _expect(index, rows, rows[number], 9, removed=removed)
        allowed = np.zeros(_COUNT, dtype=np.bool_)
        allowed[[17, 20]] = True
        _expect(index, rows, rows[17], 9, allowed=allowed, removed=removed)

    def test_filters_hold_among_vectors_added_and_replaced_behind_removed_ones(self) -> None:
        rows = _vectors()
        index = self._filled(rows[:200])
        removed = (3, 150, 199)
        index.remove(removed)
        index.add(rows[200:])
        rows[10] = _vectors(1, seed=77)[0]
        index.replace(10, rows[10])
        allowed = np.random.default_rng(2).random(_COUNT) < 0.5
        allowed[[3, 10, 150, 250]] = True
        for query in (rows[10], rows[150], rows[250]):
            _expect(index, rows, query, 20, allowed=allowed, removed=removed)

    def test_numbers_continue_behind_removed_ones(self) -> None:
        rows = _vectors(12)
        index = self._filled(rows[:10])
        index.remove([9])
        index.add(rows[10:])
        assert index.search(rows[11], 1)[0].tolist() == [11]

    def test_a_replaced_vector_is_found_by_its_new_value_alone(self) -> None:
        rows = _vectors()
        index = self._filled(rows)
        old = rows[30].copy()
        rows[30] = _vectors(1, seed=123)[0]
        index.replace(30, rows[30])
        assert len(index) == _COUNT
        _expect(index, rows, rows[30], 5)
        _expect(index, rows, old, _COUNT)

    def test_the_similarity_of_a_replaced_vector_is_that_of_its_new_value(self) -> None:
        rows = _vectors(20)
        index = self._filled(rows)
        given = _vectors(1, seed=123)[0]
        rows[7] = given
        index.replace(7, given)
        given[:] = 0
        np.testing.assert_allclose(
            index.similarities(rows[0]), _cosines(rows, rows[0]), atol=_CLOSE
        )

    def test_a_pending_zero_vector_can_be_replaced(self) -> None:
        rows = _vectors(20)
        given = rows.copy()
        given[6] = 0.0
        index = self._filled(given)
        index.replace(6, rows[6])
        _expect(index, rows, rows[6], 20)

    def test_replacing_a_removed_number_does_not_bring_it_back(self) -> None:
        rows = _vectors(20)
        index = self._filled(rows)
        index.remove([6])
        index.replace(6, rows[0])
        _expect(index, rows, rows[0], 20, removed=(6,))

    # -- errors ------------------------------------------------------------------------------

    @pytest.mark.parametrize("wrong", [_DIM - 1, _DIM + 1])
    def test_a_wrong_dimension_is_refused_naming_both_numbers(self, wrong: int) -> None:
        rows = _vectors(10)
        index = self._filled(rows)
        vector = np.ones(wrong, dtype=np.float32)
        for attempt in (
            lambda: index.add(vector[None, :]),
            lambda: index.replace(0, vector),
            lambda: index.search(vector, 3),
            lambda: index.similarities(vector),
        ):
            with pytest.raises(ConfigError) as caught:
                attempt()
            assert str(_DIM) in str(caught.value)
            assert str(wrong) in str(caught.value)
        assert len(index) == 10
        _expect(index, rows, rows[3], 4)
