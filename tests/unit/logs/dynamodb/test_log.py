from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem.logs.base import encode_drafts, hash_message_id, plan_append
from langchain_convmem.logs.dynamodb.items import compute_position
from langchain_convmem.logs.dynamodb.log import KnownIds, hash_row
from langchain_convmem.records import Control, Draft, ThreadKey
from langchain_convmem.views.codec import make_draft

KEY, OTHER = ThreadKey("ana", "t1"), ThreadKey("ana", "t2")


def encoded(*messages):
    return encode_drafts([make_draft(message) for message in messages])


def planned(batch, stored, number):
    """Return the plan of an append that becomes batch `number`."""
    return plan_append(batch, stored, first_position=compute_position(number, 0))


def test_new_rows_stand_in_order_behind_each_other():
    plan = planned(encoded(HumanMessage("a"), AIMessage("b", id="m1")), [], 7)
    assert plan.rows == plan.added
    assert [row.position for row in plan.added] == [compute_position(7, 0), compute_position(7, 1)]
    assert [row.role for row in plan.added] == ["user", "assistant"]


def test_what_is_stored_is_not_planned_again():
    said = encoded(HumanMessage("a", id="m1"), HumanMessage("b", id="m2"))
    stored = planned(said[:1], [], 7).added
    plan = planned(said, stored, 8)
    assert plan.rows[0] == stored[0]
    assert plan.added == [plan.rows[1]]
    assert planned(said, [*stored, *plan.added], 9).added == []


def test_a_replacement_is_planned_with_its_control_entry():
    stored = planned(encoded(HumanMessage("frist", id="m1")), [], 7).added
    plan = planned(encoded(HumanMessage("first", id="m1")), stored, 8)
    mark, new = plan.added
    assert (mark.role, plan.rows) == ("control", [new])
    assert stored[0].id in mark.body
    assert new.turn_id == stored[0].turn_id


def test_a_retracted_message_is_planned_again():
    said = encoded(HumanMessage("a", id="m1"))
    stored = planned(said, [], 7).added
    undo = Draft(role="control", control=Control((stored[0].id,), "undo"))
    stored += planned(encode_drafts([undo]), stored, 8).added
    assert len(planned(said, stored, 9).added) == 1


# -- known ids ----------------------------------------------------------------------------------


def rows(number, *ids):
    return planned(encoded(*[HumanMessage("x", id=own) for own in ids]), [], number).added


def knows(known, own, key=KEY):
    return not known.has_none_of(key, {hash_message_id(own)}, known.get_known_number(key))


def test_a_thread_is_known_after_it_was_read_from_its_beginning():
    known = KnownIds()
    assert known.get_known_number(KEY) is None
    known.learn(KEY, rows(7, "m1"), after=7, number=8)
    assert known.get_known_number(KEY) is None, "what came before 7 was not read"
    known.learn(KEY, rows(7, "m1"), after=None, number=7)
    assert known.get_known_number(KEY) == 7
    assert knows(known, "m1")
    assert not knows(known, "m2")
    assert not known.has_none_of(KEY, {hash_message_id("m2")}, 8), "8 was not read"
    assert not known.has_none_of(OTHER, {hash_message_id("m1")}, 1), "nothing was read"


def test_what_follows_is_added_and_what_leaves_a_gap_is_not():
    known = KnownIds()
    known.learn(KEY, rows(7, "m1"), after=None, number=7)
    known.learn(KEY, rows(9, "m9"), after=8, number=9)
    assert (known.get_known_number(KEY), knows(known, "m9")) == (7, False)
    known.learn(KEY, rows(8, "m8"), after=7, number=8)
    assert known.get_known_number(KEY) == 8
    assert knows(known, "m1")
    assert knows(known, "m8")
    known.learn(KEY, rows(8, "m8"), after=None, number=7)
    assert known.get_known_number(KEY) == 8


def test_an_entry_without_an_id_is_known_by_its_own_and_a_control_entry_by_none():
    [row] = planned(encoded(HumanMessage("a")), [], 7).added
    assert hash_row(row) == hash_message_id(row.id)
    assert hash_row(dataclasses.replace(row, role="control")) is None


def test_the_threads_used_last_are_kept():
    known = KnownIds(limit=3)
    for number in range(5):
        known.learn(ThreadKey("ana", str(number)), rows(7, "a", "b"), after=None, number=7)
    kept = [number for number in range(5) if known.get_known_number(ThreadKey("ana", str(number)))]
    assert kept == [4]
    known.learn(KEY, rows(7, *"abcdefgh"), after=None, number=7)
    assert known.get_known_number(KEY) == 7, "the thread at hand is kept, however long"


@given(st.lists(st.tuples(st.integers(0, 2), st.lists(st.sampled_from("abcdef"), max_size=3))))
def test_no_id_of_a_known_thread_is_ever_missing(batches):
    known, stored = KnownIds(limit=4), {}
    for number, (thread, ids) in enumerate(batches, start=1):
        key = ThreadKey("ana", str(thread))
        before = stored.setdefault(key, [])
        fresh = rows(number, *ids)
        if known.get_known_number(key) is None:
            known.learn(key, [*before, *fresh], after=None, number=number)
        else:
            known.learn(key, fresh, after=known.get_known_number(key), number=number)
        before.extend(fresh)
        for one, its_rows in stored.items():
            if known.get_known_number(one) is not None:
                assert not any(known.has_none_of(one, {hash_row(row)}, 0) for row in its_rows)
