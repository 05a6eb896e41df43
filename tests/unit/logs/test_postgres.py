"""Rows and appends of a PostgreSQL log; no server is needed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from langchain_convmem.errors import ConfigError
from langchain_convmem.ids import make_ulid
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.logs.base import (
    Row,
    Signer,
    decode_entry,
    encode_drafts,
    get_own_id,
    hash_message_id,
    plan_append,
    read_message_id,
)
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
from langchain_convmem.logs.signatures import START
from langchain_convmem.records import Control, Draft, Owner, ThreadKey
from langchain_convmem.views.codec import make_draft

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
    ids = [make_ulid() for _ in range(50)]
    assert [_to_ulid(_to_uuid(entry_id)) for entry_id in ids] == ids
    assert sorted(ids, key=lambda entry_id: _to_uuid(entry_id).bytes) == ids


ULID = "01JZ3W5V9QX8N2M4K6T7R0ABCD"


@pytest.mark.parametrize("turn_id", ["", ULID, "turn 7", "x" * 16, "\ud83d", "a\0b"])
def test_a_row_comes_back_from_its_columns(turn_id):
    entry_id = make_ulid()
    row = Row(entry_id, 7, turn_id or entry_id, "user", '{"v":1}', None)
    assert store(row, hash_message_id("m1")) == row
    signed = replace(row, signature=Signer().sign(KEY, row, START))
    assert store(signed, hash_message_id("m1")) == signed


def store(row, key_hash):
    """Return the row that is read of the columns that are written of a row."""
    columns = dict(zip(WRITTEN, _write_row(row, key_hash), strict=True))
    assert columns.pop("key_hash") == key_hash
    for name in ("role", "payload", "metadata"):
        columns[name] = None if columns[name] is None else columns[name].encode()
    return _read_row(tuple(columns.values()))


WRITTEN = (
    "position", "id", "turn", "turn_name", "role", "key_hash", "payload", "metadata", "signature"
)  # fmt: skip


@pytest.mark.parametrize(
    "damage",
    [{"role": b"king"}, {"payload": b"\xff secret"}, {"metadata": b"\xff"}, {"turn_name": b"\xff"}],
)
def test_columns_that_cannot_be_read_make_a_damaged_row_and_quote_nothing(damage):
    entry_id = make_ulid()
    row = Row(entry_id, 7, entry_id, "user", '{"v":1}', None)
    columns = dict(zip(WRITTEN, _write_row(row, 5), strict=True))
    columns |= {"role": b"user", "payload": b"{}"} | damage
    del columns["key_hash"]
    read = _read_row(tuple(columns.values()))
    assert (read.id, read.position, read.damage) == (entry_id, 7, "its columns cannot be read")
    entry = decode_entry(KEY, read, Signer())
    assert (entry.role, entry.damage) == ("control", "its columns cannot be read")
    assert "secret" not in repr(entry)


def test_a_control_entry_has_no_key():
    entry_id = make_ulid()
    row = Row(entry_id, 7, entry_id, "control", '{"v":1}', None)
    assert _write_row(row, None)[5] is None
    undo = Draft(role="control", control=Control((entry_id,), "undo"))
    assert plan_append(encode_drafts([undo]), first_position=7).key_hashes == [None]


# -- What one append to a PostgreSQL log adds, against the log in memory; no server is needed -----


KEY = ThreadKey("ana", "t1")


ACTIONS = st.one_of(
    st.tuples(st.just("say"), st.sampled_from([None, "m1", "m2", ""]), st.sampled_from("ab")),
    st.tuples(st.just("retract"), st.integers(0, 30), st.just("")),
    st.tuples(st.just("rename"), st.integers(0, 30), st.sampled_from("ab")),
)


class Rows:
    """A thread as its table would hold it."""

    def __init__(self):
        self.rows: list[Row] = []

    def append(self, drafts):
        wanted = {get_own_id(draft) for draft in drafts} - {None}
        versions = [row for row in self.rows if read_message_id(row.id, row.body) in wanted]
        versions = [row for row in versions if row.role != "control"]
        controls = [row for row in self.rows if row.role == "control"] if versions else []
        batch, first = encode_drafts(drafts), len(self.rows) + 1
        plan = plan_append(batch, [*versions, *controls], first_position=first)
        for row, key_hash in zip(plan.added, plan.key_hashes, strict=True):
            assert row.position == len(self.rows) + 1
            is_control = row.role == "control"
            name = None if is_control else hash_message_id(read_message_id(row.id, row.body))
            assert key_hash == name
            self.rows.append(store(row, key_hash))
        return plan.rows


def draft(action, entries):
    """Return what the action appends to a thread of such entries (or rows)."""
    kind, what, text = action
    if kind == "say":
        return make_draft(HumanMessage(text, id=what))
    among = [entry for entry in entries if kind == "retract" or entry.role != "control"]
    target = among[what % len(among)].id if among else "nothing"
    if kind == "retract":
        return Draft(role="control", control=Control((target,), "undo"))
    return make_draft(HumanMessage(text, id=target))


def shape(rows):
    """Return rows with ids as places, so that two logs can be compared."""
    places = {row.id: place for place, row in enumerate(rows)}
    texts = []
    for row in rows:
        text = row.body
        for known, place in places.items():
            text = text.replace(known, f"<{place}>")
        texts.append((row.role, text, places.get(row.turn_id, row.turn_id)))
    return texts


@given(st.lists(st.lists(ACTIONS, max_size=6), max_size=6))
def test_batches_add_what_the_log_in_memory_adds(batches):
    rows, log = Rows(), InMemoryLog()
    for actions in batches:
        mine, theirs = list(rows.rows), log.entries(KEY)
        placed = rows.append([draft(action, mine) for action in actions])
        entries = log.append(KEY, [draft(action, theirs) for action in actions])
        assert [row.position for row in placed] == [entry.position for entry in entries]
    expected = log._threads[KEY].rows if KEY in log._threads else []
    assert shape(rows.rows) == shape(expected)
