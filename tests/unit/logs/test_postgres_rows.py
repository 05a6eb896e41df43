from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.errors import ConfigError
from langchain_convmem.ids import new_ulid
from langchain_convmem.logs.base import Row, encode_drafts, hash_message_id, plan_append
from langchain_convmem.logs.postgres import (
    _digest_owner,
    _digest_thread,
    _read_name,
    _read_row,
    _store_name,
    _to_ulid,
    _to_uuid,
    _write_row,
)
from langchain_convmem.records import Control, Draft, Owner

NAMES = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\0\\0"))


@given(NAMES)
def test_a_name_comes_back_and_is_stored_without_nul(name):
    stored = _store_name(name)
    assert "\0" not in stored
    assert _read_name(stored) == name


@given(NAMES, NAMES)
def test_two_names_are_never_stored_alike(one, other):
    assert (_store_name(one) == _store_name(other)) == (one == other)


@pytest.mark.parametrize("name", ["ana@example.org", "café 🦊", "100%", "{x}", "'; --"])
def test_an_ordinary_name_is_stored_as_it_is(name):
    assert _store_name(name) == name


def test_a_name_that_no_encoding_holds_is_refused():
    for call in (_store_name, _digest_thread, lambda name: _digest_owner(Owner(user_id=name))):
        with pytest.raises(ConfigError, match="Unicode"):
            call("\ud800")


def test_a_user_and_a_lone_thread_of_one_name_are_two_owners():
    owners = [Owner(user_id="x"), Owner(thread_id="x"), Owner(user_id="tx"), Owner(thread_id="ux")]
    assert len({_digest_owner(owner) for owner in owners}) == 4


def test_ids_sort_in_the_database_as_they_do_as_text():
    ids = [new_ulid() for _ in range(50)]
    assert [_to_ulid(_to_uuid(entry_id)) for entry_id in ids] == ids
    assert sorted(ids, key=lambda entry_id: _to_uuid(entry_id).bytes) == ids


ULID = "01JZ3W5V9QX8N2M4K6T7R0ABCD"


@pytest.mark.parametrize("turn_id", ["", ULID, "turn 7", "x" * 16, "\ud83d", "a\0b"])
def test_a_row_comes_back_from_its_columns(turn_id):
    entry_id = new_ulid()
    row = Row(entry_id, 7, turn_id or entry_id, "user", '{"v":1}', None)
    position, uuid, turn, turn_name, role, key, body, metadata = _write_row(
        row, hash_message_id("m1")
    )
    assert _read_row((position, uuid, turn, turn_name, role, body, metadata)) == row
    assert key is not None


def test_a_control_entry_has_no_key():
    entry_id = new_ulid()
    row = Row(entry_id, 7, entry_id, "control", '{"v":1}', None)
    assert _write_row(row, None)[5] is None
    undo = Draft(role="control", control=Control((entry_id,), "undo"))
    assert plan_append(encode_drafts([undo]), first_position=7).key_hashes == [None]
