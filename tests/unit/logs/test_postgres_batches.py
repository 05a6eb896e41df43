"""What one append to a PostgreSQL log adds, against the log in memory; no server is needed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.logs.base import (
    Row,
    encode_drafts,
    get_own_id,
    hash_message_id,
    plan_append,
    read_message_id,
)
from langchain_convmem.logs.postgres import _read_row, _write_row
from langchain_convmem.records import Control, Draft, ThreadKey
from langchain_convmem.views.codec import draft_of

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
            position, uuid, turn, turn_name, role, key, body, metadata = _write_row(row, key_hash)
            assert position == len(self.rows) + 1
            name = None if role == "control" else hash_message_id(read_message_id(row.id, row.body))
            assert key == name
            self.rows.append(_read_row((position, uuid, turn, turn_name, role, body, metadata)))
        return plan.rows


def draft(action, entries):
    """Return what the action appends to a thread of such entries (or rows)."""
    kind, what, text = action
    if kind == "say":
        return draft_of(HumanMessage(text, id=what))
    among = [entry for entry in entries if kind == "retract" or entry.role != "control"]
    target = among[what % len(among)].id if among else "nothing"
    if kind == "retract":
        return Draft(role="control", control=Control((target,), "undo"))
    return draft_of(HumanMessage(text, id=target))


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
