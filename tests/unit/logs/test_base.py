import asyncio

import pytest
from histories import KEY
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from langchain_convmem.logs import InMemoryLog, SQLiteLog, base
from langchain_convmem.logs.base import (
    decode_entry,
    encode_drafts,
    get_own_id,
    hash_message_id,
    plan_append,
    read_message_id,
)
from langchain_convmem.records import Control, Draft
from langchain_convmem.testing.log_contract import list_live_texts, list_texts, say, say_all
from langchain_convmem.views.codec import encode_body, make_draft


def test_messages_whose_ids_share_a_hash_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(base, "hash_message_id", lambda _: 7)
    with SQLiteLog(tmp_path / "log.db") as log:
        said = [HumanMessage(f"text {number}", id=f"m{number}") for number in range(5)]
        entries = say_all(log, KEY, [*said, "without an id"])
        assert say_all(log, KEY, said) == entries[:5]
        say(log, KEY, HumanMessage("text two", id="m2"))
        assert list_live_texts(log, KEY)[:4] == ["text 0", "text 1", "text two", "text 3"]
        assert log.forget(KEY, ["m2", entries[5].id]).entries == 3
        assert list_texts(log.entries(KEY)) == ["text 0", "text 1", "text 3", "text 4"]


@pytest.mark.parametrize(
    ("body", "message_id"),
    [
        (encode_body(make_draft(HumanMessage("x", id="m1"))), "m1"),
        (encode_body(make_draft(HumanMessage("x", id=""))), "entry"),
        (encode_body(make_draft(HumanMessage("x"))), "entry"),
        (encode_body(Draft(role="summary", contents=("S",))), "entry"),
        ("damaged", "entry"),
        ("[]", "entry"),
        ('{"m":7}', "entry"),
    ],
)
def test_every_row_has_a_message_id(body, message_id):
    assert read_message_id("entry", body) == message_id


async def test_a_cancelled_append_is_whole_or_not_there(log):
    counts = []
    for ticks in range(5):
        batch = [make_draft(HumanMessage(f"{ticks}-{number}")) for number in range(30)]
        task = asyncio.create_task(log.aappend(KEY, batch))
        for _ in range(ticks):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        counts.append(len(await log.aentries(KEY)))
    assert all(count % 30 == 0 for count in counts)
    assert counts[0] == 0


def test_what_a_batch_retracts_it_may_say_again(log):
    said = make_draft(HumanMessage("a", id="m"))
    [first] = log.append(KEY, [said])
    undo = Draft(role="control", control=Control((first.id,), "undo"))
    same, _, again = log.append(KEY, [said, undo, said])
    assert (same, again.id == first.id) == (first, False)
    assert list_live_texts(log, KEY) == ["a"]


ACTIONS = st.one_of(
    st.tuples(st.just("say"), st.sampled_from([None, "m1", "m2", ""]), st.sampled_from("ab")),
    st.tuples(st.just("retract"), st.integers(0, 30), st.just("")),
    st.tuples(st.just("rename"), st.integers(0, 30), st.sampled_from("ab")),
)


class Rows:
    """A thread as a table holds it, of which an append reads what it must."""

    def __init__(self):
        self.rows = []

    def append(self, drafts):
        wanted = {get_own_id(draft) for draft in drafts} - {None}
        versions = [row for row in self.rows if read_message_id(row.id, row.body) in wanted]
        versions = [row for row in versions if row.role != "control"]
        controls = [row for row in self.rows if row.role == "control"] if versions else []
        batch, first = encode_drafts(drafts), len(self.rows) + 1
        plan = plan_append(batch, [*versions, *controls], first_position=first)
        for row in plan.added:
            assert row.position == len(self.rows) + 1
            is_control = row.role == "control"
            name = None if is_control else hash_message_id(read_message_id(row.id, row.body))
            assert row.key_hash == name
            self.rows.append(row)
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


def shape(entries):
    """Return entries with ids as places, so that two logs can be compared."""
    found = []
    for entry in entries:
        ids = [entry.turn_id, entry.message and entry.message.id]
        ids += entry.control.retracts if entry.control else []
        places = {one.id: place for place, one in enumerate(entries)}
        found.append((entry.role, entry.contents, [places.get(one, one) for one in ids]))
    return found


@given(st.lists(st.lists(ACTIONS, max_size=6), max_size=6))
def test_batches_add_what_the_log_in_memory_adds(batches):
    rows, log = Rows(), InMemoryLog()
    for actions in batches:
        mine, theirs = list(rows.rows), log.entries(KEY)
        placed = rows.append([draft(action, mine) for action in actions])
        entries = log.append(KEY, [draft(action, theirs) for action in actions])
        assert [row.position for row in placed] == [entry.position for entry in entries]
    assert shape([decode_entry(KEY, row) for row in rows.rows]) == shape(log.entries(KEY))
