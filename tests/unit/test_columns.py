from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.columns import GrowableArray, SavedColumns

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(-99, 99)),
        st.tuples(st.just("gather"), st.lists(st.integers(-99, 99), max_size=5)),
        st.tuples(st.just("extend"), st.lists(st.integers(-99, 99), max_size=70)),
        st.tuples(st.just("put"), st.integers(0, 10**6)),
        st.tuples(st.just("view"), st.none()),
    ),
    max_size=30,
)


@given(STEPS)
def test_however_it_is_filled_it_is_the_list_of_what_was_put_in(steps):
    grown, expected = GrowableArray(np.int64), []
    for step, value in steps:
        if step == "append":
            grown.append(value)
            expected.append(value)
        elif step in {"gather", "extend"}:
            getattr(grown, step)(value)
            expected += value
        elif step == "put" and expected:
            grown.put(value % len(expected), 7)
            expected[value % len(expected)] = 7
        elif step == "view":
            assert grown.view.tolist() == expected
        assert len(grown) == len(expected)
        assert [grown.get_item(number) for number in range(len(expected))] == expected
    assert grown.view.tolist() == expected


def test_a_view_taken_before_keeps_showing_the_old_rows_alone():
    grown = GrowableArray(np.float32, 2)
    grown.extend([[1, 2]])
    before = grown.view
    grown.extend(np.ones((100, 2)))
    assert before.tolist() == [[1, 2]]
    assert grown.view.shape == (101, 2)


def test_room_made_ahead_changes_nothing_that_is_seen():
    grown = GrowableArray(np.int64)
    grown.extend([1, 2])
    grown.append(3)
    grown.reserve(1000)
    grown.reserve(1)
    assert grown.view.tolist() == [1, 2, 3]
    grown.extend(range(2000))
    assert grown.view.tolist() == [1, 2, 3, *range(2000)]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.integers(0, 63), st.integers(-9, 9))
def test_a_narrow_column_comes_back_as_it_was_in_as_few_bytes_as_it_needs(numbers, bits, more):
    numbers = [(number >> bits) + (more if bits else 0) for number in numbers]
    columns = SavedColumns()
    columns.put_narrow("numbers", numbers)
    assert columns.get_narrow("numbers").tolist() == numbers
    assert columns.get_numbers("q", "numbers").tolist() == numbers
    spread = max(numbers, default=0) - min(numbers, default=0)
    width = next(one for one in (1, 2, 4, 8) if spread < 256**one)
    assert len(columns.parts["numbers"]) == 9 + len(numbers) * width


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.intc, np.uint64])
def test_a_narrow_column_comes_back_in_the_type_that_is_wanted(dtype):
    columns = SavedColumns()
    columns.put_narrow("numbers", np.array([1, 0, 1], dtype=dtype))
    found = columns.get_narrow("numbers", dtype)
    assert found.dtype == dtype
    assert found.tolist() == [1, 0, 1]


@pytest.mark.parametrize("data", [b"", b"3" + bytes(12), b"2" + bytes(11)])
def test_what_is_no_narrow_column_is_refused(data):
    with pytest.raises((KeyError, ValueError)):
        SavedColumns({"numbers": data}).get_narrow("numbers")
