import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from forked_processes import in_child
from hypothesis import given
from hypothesis import strategies as st
from ulid import ULID

from langchain_convmem import ids
from langchain_convmem.ids import (
    derive_ulid,
    get_now_ms,
    get_ulid_ms,
    get_ulid_number,
    is_ulid,
    make_numbered_ulid,
    make_ulid,
)

parts = st.lists(st.one_of(st.none(), st.text(max_size=4), st.just("\ud800")), max_size=3)


def test_ids_increase_and_name_their_time():
    before = get_now_ms()
    drawn = [make_ulid() for _ in range(2000)]
    assert drawn == sorted(set(drawn))
    assert all(map(is_ulid, drawn))
    assert before <= get_ulid_ms(drawn[0]) <= get_ulid_ms(drawn[-1]) <= get_now_ms()


def test_ids_increase_when_the_clock_steps_back(monkeypatch):
    times = iter([5_000_000, 5_000_000, 1, 4_999_999, 5_000_001])
    monkeypatch.setattr(ids, "get_now_ms", lambda: next(times))
    clock = ids.UlidClock()
    drawn = [str(ULID.from_int(clock.advance())) for _ in range(5)]
    assert drawn == sorted(set(drawn))
    assert get_ulid_ms(drawn[0]) == get_ulid_ms(drawn[3]) == 5_000_000
    assert get_ulid_ms(drawn[4]) == 5_000_001


@given(st.integers(0, 2**40 - 1))
def test_a_numbered_id_tells_its_number_and_its_time(number):
    before = get_now_ms()
    drawn = [make_numbered_ulid(number) for _ in range(3)]
    assert all(map(is_ulid, drawn))
    assert [get_ulid_number(one) for one in drawn] == [number] * 3
    assert len(set(drawn)) == 3
    assert before <= get_ulid_ms(drawn[0]) <= get_ulid_ms(drawn[-1])


def test_threads_never_draw_the_same_id():
    with ThreadPoolExecutor(4) as pool:
        drawn = list(pool.map(lambda _: [make_ulid() for _ in range(500)], range(4)))
    assert all(mine == sorted(mine) for mine in drawn)
    assert len({one for mine in drawn for one in mine}) == 2000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_does_not_count_on_where_its_parent_stopped(monkeypatch):
    monkeypatch.setattr(ids, "get_now_ms", lambda: 7)
    make_ulid()
    of_child = in_child(make_ulid)
    assert is_ulid(of_child)
    assert of_child != make_ulid()


@pytest.mark.parametrize(
    "text",
    ["", "0" * 25, "0" * 27, "8" + "0" * 25, "0" * 25 + "I", "0" * 25 + "a", "0" * 26 + "\n"],
)
def test_what_is_no_ulid_is_told_apart(text):
    assert not is_ulid(text)
    assert is_ulid("7" + "Z" * 25)


@given(st.binary(min_size=16, max_size=16))
def test_ids_are_read_as_the_ulid_library_writes_them(packed):
    text = str(ULID.from_bytes(packed))
    assert is_ulid(text)
    assert get_ulid_ms(text) == int.from_bytes(packed[:6], "big")


def test_a_derived_id_is_the_same_in_every_process():
    assert derive_ulid(1_756_923_600_000, "ana", "t1", None) == "01K48CX740QQDHF06TYR1EXYQC"


@given(parts, parts)
def test_other_parts_make_another_id(first, second):
    assert (derive_ulid(5, *first) == derive_ulid(5, *second)) == (first == second)


@pytest.mark.parametrize("at_ms", [0, -1, 5, 2**48 - 1])
def test_a_derived_id_names_the_time_it_was_given(at_ms):
    derived = derive_ulid(at_ms, "x")
    assert is_ulid(derived)
    assert get_ulid_ms(derived) == max(at_ms, 0)
