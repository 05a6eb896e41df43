from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.errors import CorruptEntryError, InvalidMessageError
from langchain_convmem.ids import new_ulid
from langchain_convmem.logs.base import Row
from langchain_convmem.logs.dynamodb.items import (
    INLINE_BYTES,
    PIECE_BYTES,
    Batch,
    compute_base_number,
    compute_place,
    compute_position,
    is_expired,
    join_rows,
    make_batch_item,
    make_generation_item,
    make_marker_item,
    read_batch,
)
from langchain_convmem.records import ThreadKey

KEY = ThreadKey("ana", "t1")
NUMBER = 2_077_700_001
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def blank(**fields):
    batch = Batch("U#ana", NUMBER, "t1", "b", "r", 0, "", "", 5, None, 0, None)
    return dataclasses.replace(batch, **fields)


def row(place=0, **fields):
    one = Row(new_ulid(), compute_position(NUMBER, place), "turn", "user", "{}", None)
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
        size=len(stored), first=min(ids), last=max(ids), expires_s=expires, rows=tuple(stored)
    )


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
    assert join_rows(batch, data) == tuple(stored)


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
    assert set(item) == {"pk", "sk", "n", "born", "expires"}
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
        {"n": {"S": "one"}},
        {"sk": {"S": "E#x"}},
        {"rows": {"L": [{"M": {"p": {"S": "0"}}}]}},
        {"rows": {"L": [{"M": {"p": {"S": "0"}, "id": {"S": "a"}, "role": {"S": "king"}}}]}},
        {"born": None},
    ],
)
def test_a_damaged_item_is_an_error_that_names_it(damage):
    head, _ = make_batch_item(KEY, blank(), [row()], now_us=9)
    with pytest.raises(CorruptEntryError, match="U#ana") as caught:
        read_batch({**head, **damage})
    assert caught.value.thread_id == "t1"


@pytest.mark.parametrize("data", [b"", b"[", b"[1]", b'[{"p": "0"}]', b"\xff", b"{}1"])
def test_damaged_pieces_are_an_error_that_names_them(data):
    with pytest.raises(CorruptEntryError, match=rf"U#ana.*E#00{NUMBER}") as caught:
        join_rows(blank(pieces=1), [data])
    assert caught.value.position == compute_position(NUMBER, 0)
