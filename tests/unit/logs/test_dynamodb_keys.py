from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.errors import ConfigError
from langchain_convmem.logs.dynamodb.items import (
    ENTRIES_PER_BATCH,
    GENERATION_KEY,
    PIECE_RANGE,
    STATE_RANGE,
    choose_number,
    compute_base_number,
    compute_number,
    compute_position,
    is_hashed,
    make_batch_key,
    make_batch_range,
    make_cache_range,
    make_partition_key,
    make_piece_key,
    make_state_key,
    make_state_range,
    make_thread_key,
    make_thread_range,
    read_owner,
    read_revision,
)
from langchain_convmem.records import Owner, ThreadKey

DAY_MS = 86_400_000
names = st.one_of(
    st.text(min_size=1),
    st.text("s#%=~$0123", min_size=1, max_size=6),
    st.text("s#", min_size=1).map(lambda text: (text * 2000)[:2000]),
)
numbers = st.integers(1, 10**11)


def owners(name):
    return st.sampled_from([Owner(user_id=name), Owner(thread_id=name)])


def between(key, bounds):
    return bounds[0].encode() <= key.encode() <= bounds[1].encode()


@given(names.flatmap(owners), names.flatmap(owners))
def test_owners_share_a_partition_only_if_they_are_one(first, second):
    assert (make_partition_key(first) == make_partition_key(second)) == (first == second)
    assert len(make_partition_key(first).encode()) <= 2048


def test_keys_can_be_read_by_people():
    key = ThreadKey("ana@example.org", "car #7")
    assert make_partition_key(key.owner) == "U#ana@example.org"
    assert make_partition_key(ThreadKey(None, "t1").owner) == "T#t1"
    assert make_batch_key(2_077_700_001) == "E#002077700001"
    assert make_thread_key(key, 12) == "car %237#000000000012"
    assert make_state_key(key, "buffer") == "S#car %237#buffer"
    assert make_piece_key("01JX", 3) == "P#01JX#00003"


@given(names, names, numbers, numbers, numbers)
def test_a_range_holds_the_batches_of_its_thread_and_no_others(one, other, first, low, number):
    mine, others = ThreadKey("ana", one), ThreadKey("ana", other)
    key = make_thread_key(others, number)
    assert between(key, make_thread_range(mine, low)) == (one == other and number >= low)
    assert between(make_batch_key(number), make_batch_range(first)) == (number >= first)
    assert len(key.encode()) <= 1024


@given(names, numbers, numbers, numbers)
def test_a_range_ends_at_a_number(name, first, last, number):
    key = ThreadKey("ana", name)
    found = between(make_thread_key(key, number), make_thread_range(key, first, last))
    assert found == (first <= number <= last)


@given(names.flatmap(owners), names)
def test_an_owner_can_be_told_from_a_batch_of_its_own(owner, name):
    thread_id = owner.thread_id or name
    user_id = owner.user_id if is_hashed(owner) and owner.user_id is not None else ""
    assert read_owner(make_partition_key(owner), thread_id, user_id) == owner


@given(names, names, names)
def test_a_range_holds_the_caches_of_its_thread(one, other, name):
    mine, others = ThreadKey("ana", one), ThreadKey("ana", other)
    bounds = make_cache_range(mine)
    for key in (mine, others):
        cache = make_state_key(key, f"cache:{name}")
        assert between(cache, bounds) == cache.startswith(bounds[0]) == (key == mine)
        for document in (name, f"cache{name}", f"cache;{name}", f"Cache:{name}", "cache;"):
            is_cache = document.startswith("cache:") and key == mine
            assert make_state_key(key, document).startswith(bounds[0]) == is_cache


@given(names, names, names, names)
def test_a_range_holds_the_documents_of_its_thread_and_no_others(one, other, name, another):
    mine, others = ThreadKey("ana", one), ThreadKey("ana", other)
    assert between(make_state_key(others, name), make_state_range(mine)) == (one == other)
    assert (make_state_key(mine, name) == make_state_key(mine, another)) == (name == another)
    assert len(make_state_key(mine, name).encode()) <= 1024


@given(names, numbers)
def test_kinds_of_items_are_kept_apart(name, number):
    state = make_state_key(ThreadKey("ana", name), name)
    ranges = {"E": make_batch_range(), "P": PIECE_RANGE, "S": STATE_RANGE}
    for kind, key in (
        ("E", make_batch_key(number)),
        ("P", make_piece_key("01JX", 7)),
        ("S", state),
    ):
        assert [found for found, bounds in ranges.items() if between(key, bounds)] == [kind]
    assert make_batch_range()[0] > GENERATION_KEY
    assert not between(GENERATION_KEY, make_batch_range())


@given(numbers, numbers)
def test_batches_sort_as_their_numbers_do(first, second):
    assert (make_batch_key(first) < make_batch_key(second)) == (first < second)


@given(numbers, st.integers(0, ENTRIES_PER_BATCH - 1))
def test_a_position_names_its_batch(number, place):
    position = compute_position(number, place)
    assert compute_number(position) == number
    assert position < compute_position(number + 1, 0)


def test_positions_before_all_batches_name_none():
    assert compute_number(0) == compute_number(-5) == 0


def test_positions_behind_all_batches_still_make_keys_that_sort():
    key = ThreadKey("ana", "t1")
    first, last = make_thread_range(key, compute_number(2**62), compute_number(2**80))
    assert between(
        make_thread_key(key, compute_base_number(2**42)),
        make_thread_range(key, 0, compute_number(2**80)),
    )
    assert not between(make_thread_key(key, compute_base_number(2**42)), (first, last))
    assert first <= last


def test_a_piece_names_its_revision():
    assert read_revision(make_piece_key("01JX", 3)) == "01JX"


def test_positions_of_this_century_are_exact_in_every_json_reader():
    end_of_2099_ms = 4_102_444_800_000
    assert compute_position(compute_base_number(end_of_2099_ms), 0) < 2**53


@given(st.integers(DAY_MS, 2**42), st.integers(1, 99_999))
def test_numbers_of_a_day_lie_above_those_of_the_day_before(now_ms, batches):
    assert compute_base_number(now_ms + DAY_MS) > compute_base_number(now_ms) + batches
    assert compute_base_number(now_ms) > 0


def test_the_next_number_follows_the_newest():
    now_ms = 20_000 * DAY_MS
    assert choose_number(None, is_over=False, now_ms=now_ms) == 2_000_000_000
    assert choose_number(7, is_over=False, now_ms=now_ms) == 8
    assert choose_number(7, is_over=True, now_ms=now_ms) == 2_000_000_000
    assert choose_number(3_000_000_000, is_over=True, now_ms=now_ms) == 3_000_000_001


def test_names_that_no_encoding_can_hold_are_refused():
    with pytest.raises(ConfigError, match="no valid Unicode"):
        make_state_key(ThreadKey("ana", "t"), "\ud800")
