"""Keys and items of the DynamoDB layout: what is written comes back, and sorts as it must."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.ids import make_ulid
from langchain_convmem.logs.base import Row
from langchain_convmem.logs.checksums import Signer
from langchain_convmem.logs.dynamodb.items import (
    ENTRIES_PER_BATCH,
    INLINE_BYTES,
    PIECE_BYTES,
    Batch,
    choose_number,
    compute_base_number,
    compute_number,
    compute_place,
    compute_position,
    is_expired,
    is_of_earlier_day,
    join_pieces,
    make_batch_item,
    make_batch_key,
    make_batch_range,
    make_generation_item,
    make_marker_item,
    make_partition_key,
    make_state_key,
    make_state_range,
    make_thread_key,
    make_thread_range,
    read_batch,
    read_owner,
)
from langchain_convmem.records import Owner, ThreadKey

DAY_MS = 86_400_000


names = st.one_of(
    st.text(min_size=1),
    st.text("s#%=~$0123", min_size=1, max_size=6),
    st.text("s#", min_size=1).map(lambda text: (text * 1000)[:1000]),
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


@given(names.flatmap(owners))
def test_an_owner_can_be_told_from_a_batch_of_its_own(owner):
    assert read_owner(make_partition_key(owner)) == owner


@given(names, names, names, names)
def test_a_range_holds_the_documents_of_its_thread_and_no_others(one, other, name, another):
    mine, others = ThreadKey("ana", one), ThreadKey("ana", other)
    assert between(make_state_key(others, name), make_state_range(mine)) == (one == other)
    assert (make_state_key(mine, name) == make_state_key(mine, another)) == (name == another)
    assert len(make_state_key(mine, name).encode()) <= 1024


@given(numbers, numbers)
def test_batches_sort_as_their_numbers_do(first, second):
    assert (make_batch_key(first) < make_batch_key(second)) == (first < second)


@given(numbers, st.integers(0, ENTRIES_PER_BATCH - 1))
def test_a_position_names_its_batch(number, place):
    position = compute_position(number, place)
    assert compute_number(position) == number
    assert position < compute_position(number + 1, 0)


def test_positions_of_this_century_are_exact_in_every_json_reader():
    end_of_2099_ms = 4_102_444_800_000
    assert compute_position(compute_base_number(end_of_2099_ms), 0) < 2**53


@given(st.integers(DAY_MS, 2**42), st.integers(1, 99_999))
def test_numbers_of_a_day_lie_above_those_of_the_day_before(now_ms, batches):
    assert compute_base_number(now_ms + DAY_MS) > compute_base_number(now_ms) + batches
    assert compute_base_number(now_ms) > 0
    last = compute_base_number(now_ms) + batches
    assert is_of_earlier_day(last, compute_base_number(now_ms + DAY_MS))
    assert not is_of_earlier_day(compute_base_number(now_ms), last)


def test_the_next_number_follows_the_newest():
    now_ms = 20_000 * DAY_MS
    assert choose_number(None, is_over=False, now_ms=now_ms) == 2_000_000_000
    assert choose_number(7, is_over=False, now_ms=now_ms) == 8
    assert choose_number(7, is_over=True, now_ms=now_ms) == 2_000_000_000
    assert choose_number(3_000_000_000, is_over=True, now_ms=now_ms) == 3_000_000_001


def test_names_that_no_encoding_can_hold_are_refused():
    with pytest.raises(ConfigError, match="no valid Unicode"):
        make_state_key(ThreadKey("ana", "t"), "\ud800")


KEY = ThreadKey("ana", "t1")


NUMBER = 2_077_700_001


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def blank(**fields):
    batch = Batch("U#ana", NUMBER, "t1", "b", "r", 0, "", "", 5, None, 0, None)
    return dataclasses.replace(batch, **fields)


def row(place=0, **fields):
    one = Row(make_ulid(), compute_position(NUMBER, place), "turn", "user", "{}", None)
    return dataclasses.replace(one, **fields)


rows = st.lists(
    st.builds(
        lambda turn, role, body, metadata: (turn, role, body, metadata),
        st.none() | texts,
        st.sampled_from(["user", "assistant", "tool", "system", "summary", "control"]),
        texts,
        st.none() | texts,
    ),
    min_size=1,
    max_size=5,
)


@given(rows, st.none() | st.integers(1, 2**40))
def test_rows_come_back_from_an_item_exactly(made, expires):
    stored = []
    for place, (turn, role, body, metadata) in enumerate(made):
        one = row(2 * place, role=role, body=body, metadata=metadata)
        stored.append(dataclasses.replace(one, turn_id=one.id if turn is None else turn))
    head, pieces = make_batch_item(KEY, blank(expires_s=expires), stored, now_us=9)
    assert pieces == []
    ids = [one.id for one in stored]
    assert read_batch(head) == blank(
        size=len(stored),
        first=min(ids),
        last=max(ids),
        expires_s=expires,
        rows=tuple(stored),
    )


def signed_rows(places, **fields):
    """Return rows at these places, signed."""
    made = [row(place, **fields) for place in places]
    return [dataclasses.replace(one, signature=Signer().sign(KEY, one)) for one in made]


@pytest.mark.parametrize("body", ["{}", "x" * INLINE_BYTES])
def test_signatures_come_back_with_the_key_that_made_them(body):
    stored = signed_rows([0, 2, 3], body=body)
    head, pieces = make_batch_item(KEY, blank(key_id=b"k" * 8), stored, now_us=9)
    read = read_batch(head)
    assert (read.size, read.key_id) == (3, b"k" * 8)
    if pieces:
        read = join_pieces(read, [piece["data"]["B"] for piece in pieces])
    assert (read.rows, read.damage) == (tuple(stored), "")


@pytest.mark.parametrize("letter", ["x", "é", "汉", "🦊", '"'])
def test_rows_come_back_from_pieces_exactly(letter):
    stored = [row(place, body=letter * 300_000, metadata=letter) for place in range(2)]
    head, pieces = make_batch_item(KEY, blank(expires_s=7), stored, now_us=9)
    batch = read_batch(head)
    assert (batch.rows, batch.pieces, batch.size) == (None, len(pieces), 2)
    data = [piece["data"]["B"] for piece in pieces]
    assert {len(part) for part in data[:-1]} <= {PIECE_BYTES}
    assert 0 < len(data[-1]) <= PIECE_BYTES
    assert [piece["sk"]["S"] for piece in pieces] == sorted(piece["sk"]["S"] for piece in pieces)
    assert all(piece["expires"] == {"N": "7"} for piece in pieces)
    assert join_pieces(batch, data).rows == tuple(stored)


@pytest.mark.parametrize(("size", "inline"), [(INLINE_BYTES - 200, True), (INLINE_BYTES, False)])
def test_an_item_holds_its_rows_up_to_a_size(size, inline):
    head, pieces = make_batch_item(KEY, blank(), [row(body="é" * (size // 2))], now_us=9)
    assert ("rows" in head, pieces == []) == (inline, inline)


def test_text_that_no_encoding_can_keep_is_refused():
    with pytest.raises(InvalidMessageError, match="no valid Unicode"):
        make_batch_item(KEY, blank(), [row(turn_id="\ud800")], now_us=9)


def test_a_row_keeps_its_place_when_others_are_gone():
    stored = [row(0), row(7)]
    head, _ = make_batch_item(KEY, blank(), stored[1:], now_us=9)
    [read] = read_batch(head).rows
    assert compute_place(read, NUMBER) == 7


def test_a_marker_tells_its_number_and_nothing_else():
    item = make_marker_item("U#ana", NUMBER, now_us=20_777 * 86_400_000_000)
    assert set(item) == {"pk", "sk", "size", "born", "expires"}
    batch = read_batch(item)
    assert (batch.number, batch.size, batch.thread) == (NUMBER, 0, "")


@given(st.integers(0, 10**10), st.integers(0, 2**51))
def test_a_marker_ends_only_when_later_numbers_are_larger(number, now_us):
    batch = read_batch(make_marker_item("U#ana", number, now_us=now_us))
    if batch.expires_s is not None:
        assert compute_base_number(batch.expires_s * 1000) > number
        assert batch.expires_s * 1_000_000 > now_us + 86_400_000_000


def test_the_generation_ends_where_nothing_else_is_left():
    assert "expires" not in make_generation_item("U#ana", 5_000_000, ends=False)
    assert make_generation_item("U#ana", 5_000_000, ends=True)["expires"] == {"N": "172805"}


def test_what_ends_has_ended_at_that_second():
    item = {"expires": {"N": "100"}}
    assert [is_expired(item, now) for now in (99.9, 100.0, 101.0)] == [False, True, True]
    assert not is_expired({}, 1e12)
    assert [blank(expires_s=100).is_over(now) for now in (99.9, 100.0)] == [False, True]
    assert not blank().is_over(1e12)


@pytest.mark.parametrize(
    "damage",
    [
        {"size": {"S": "one"}},
        {"rows": {"S": "none"}},
        {"first": {"S": "king"}},
        {"thread": {"N": "7"}},
        {"born": None},
    ],
)
def test_a_damaged_item_is_a_batch_of_one_damaged_row(damage):
    head, _ = make_batch_item(KEY, blank(), [row()], now_us=9)
    read = read_batch({**head, **damage})
    [only] = read.rows
    assert (read.thread, read.number, read.revision) == ("t1", NUMBER, "r")
    position = compute_position(NUMBER, 0)
    assert (only.id, only.position) == (f"damaged-{position}", position)
    assert only.damage == read.damage == "the item of its batch cannot be read"


NAMELESS = {"p": {"S": "1"}, "body": {"S": ""}, "sig": {"S": ""}}


@pytest.mark.parametrize(
    ("damage", "entry_id"),
    [
        ({"M": {"p": {"S": "1"}}}, None),
        ({"M": {"p": {"S": "x"}, "id": {"S": "a"}}}, None),
        (
            {"M": {"p": {"S": "0"}, "id": {"S": "a"}, "role": {"S": "user"}, "body": {"S": ""}}},
            None,
        ),
        ({"M": {**NAMELESS, "id": {"S": "a"}, "role": {"S": "king"}}}, "a"),
        ({"S": "text"}, None),
        (7, None),
    ],
)
def test_a_damaged_row_takes_no_other_down(damage, entry_id):
    stored = signed_rows([0, 1, 2])
    head, _ = make_batch_item(KEY, blank(), stored, now_us=9)
    head["rows"]["L"][1] = damage
    first, damaged, last = read_batch(head).rows
    assert [first, last] == [stored[0], stored[2]]
    position = compute_position(NUMBER, 1)
    assert (damaged.id, damaged.position) == (entry_id or f"damaged-{position}", position)
    assert damaged.damage


@pytest.mark.parametrize("data", [b"", b"[", b"7", b"\xff", b"{}1"])
def test_damaged_pieces_are_one_damaged_row(data):
    read = join_pieces(blank(pieces=1), [data])
    [only] = read.rows
    assert only.position == compute_position(NUMBER, 0)
    assert only.damage == "the pieces of its batch cannot be read"
