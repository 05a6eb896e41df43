from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem.logs.base import encode_drafts, plan_append
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
