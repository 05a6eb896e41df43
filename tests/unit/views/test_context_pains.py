"""What users of other libraries ran into with order, pairs, emptiness and names: never here."""

from __future__ import annotations

from itertools import pairwise

import pytest
from histories import KEY, spoken
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langchain_convmem.errors import BudgetError
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.records import Cover, Draft
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.context import NOTED_TEXT, SUMMARY_SOURCE, build_context
from langchain_convmem.views.live import build_turns
from langchain_convmem.views.providers import PROVIDERS
from langchain_convmem.views.summaries import SUMMARY_NOTICE
from tests.fuzz.promises import drop_note
from tests.fuzz.validators import VALIDATORS

ALL = sorted(PROVIDERS)


def asks(*ids):
    return AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": own} for own in ids])


def result(own, text="found"):
    return ToolMessage(text, tool_call_id=own)


def loop(number):
    """Return a question, a loop of two parallel calls and two single ones, and a reply."""
    a, b, c, d = (f"{kind}{number}" for kind in "abcd")
    loops = [asks(a, b), result(b), result(a), asks(c), result(c), asks(d), result(d)]
    return [HumanMessage(f"question {number}"), *loops, AIMessage(f"answer {number}")]


def every(entries, **options):
    """Yield the context of every profile; each is valid."""
    for profile in ALL:
        found = build_context(entries, provider=profile, **options)
        assert VALIDATORS[profile](found.messages) == []
        yield found


def summarised(log, said, covered, text="They talked."):
    entries = log.append(KEY, [make_draft(message) for message in said])
    cover = Cover(((entries[0].position, entries[covered - 1].position),))
    log.append(KEY, [Draft(role="summary", contents=(text,), cover=cover)])
    return log.entries(KEY)


def test_pain_1_compaction_leaves_orphaned_tool_results():
    said = [message for number in range(3) for message in loop(number)]
    for covered in range(1, len(said)):
        with InMemoryLog() as log:
            for found in every(summarised(log, said, covered)):
                owned = {c["id"] for m in found.messages for c in getattr(m, "tool_calls", ())}
                told = [m.tool_call_id for m in found.messages if isinstance(m, ToolMessage)]
                assert sorted(told) == sorted(owned)


def test_pain_1_orphans_of_a_cut_are_named_and_stay_in_the_log():
    with InMemoryLog() as log:
        entries = summarised(log, loop(0)[:4], covered=2)
        for found in every(entries):
            assert [m.type for m in found.messages] == ["human", "ai"]
            assert len([repair for repair in found.repairs if "no open tool call" in repair]) == 2
        assert len(entries) == 5


def test_pain_2_the_pending_question_is_swallowed_by_a_cut():
    said = [*loop(0), *loop(1), HumanMessage("And the pending one, verbatim?")]
    for budget in (30, 60, 100):
        for found in every(spoken(*said), max_tokens=budget):
            assert found.messages[-1].content == "And the pending one, verbatim?"


def test_pain_2_the_pending_question_stays_with_its_whole_tool_loop():
    said = [*loop(0), *loop(1)[:-1]]
    for found in every(spoken(*said), max_tokens=200):
        said = drop_note(found)
        assert said[0].content == "question 1"
        assert len(said) == 8


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_pain_3_an_empty_summary_replaces_the_history(text):
    with InMemoryLog() as log:
        entries = summarised(log, [HumanMessage("a"), AIMessage("b"), HumanMessage("c")], 2, text)
        for found in every(entries):
            assert [m.content for m in found.messages] == ["c"]
        assert [entry.contents for entry in entries[:2]] == [("a",), ("b",)]


def test_pain_7_a_summary_passes_for_what_the_user_says_now():
    with InMemoryLog() as log:
        entries = summarised(log, [HumanMessage("a"), AIMessage("b"), HumanMessage("c")], 2)
        for found in every(entries):
            summary = found.messages[0]
            assert summary.text == f"<summary>\n{SUMMARY_NOTICE}\n\nThey talked.\n</summary>"
            assert found.messages[1].text == NOTED_TEXT
            assert summary.additional_kwargs == {"source": SUMMARY_SOURCE}


def test_pain_8_the_history_for_people_shrinks_with_the_one_for_the_model():
    with InMemoryLog() as log:
        entries = summarised(log, [HumanMessage("a"), AIMessage("b"), HumanMessage("c")], 2)
        assert [turn.contents for turn in build_turns(entries)] == [
            ("a",),
            ("b",),
            ("They talked.",),
            ("c",),
        ]


@pytest.mark.parametrize("role", [HumanMessage, AIMessage])
def test_pain_10_roles_must_alternate(role):
    for found in every(spoken("q", role("a"), role("b"), role("c"), "r")):
        spoken_by = [m.type for m in found.messages]
        assert all(before != after for before, after in pairwise(spoken_by))
        assert "a\nb\nc" in "\n".join(m.content for m in found.messages)


def test_pain_10_the_first_message_must_be_the_users():
    for found in every(spoken(SystemMessage("s"), AIMessage("Welcome!"), "a")):
        assert [m.type for m in found.messages] == ["system", "human", "ai", "human"]


def test_pain_11_a_summary_followed_by_the_user_breaks_the_order():
    with InMemoryLog() as log:
        entries = summarised(log, [HumanMessage("a"), AIMessage("b"), HumanMessage("c")], 2)
        for found in every(entries):
            assert [m.type for m in found.messages] == ["human", "ai", "human"]


def test_pain_11_a_summary_followed_by_the_assistant_breaks_the_order():
    with InMemoryLog() as log:
        entries = summarised(log, [HumanMessage("a"), AIMessage("b"), AIMessage("c")], 2)
        for found in every(entries):
            assert [m.type for m in found.messages] == ["human", "ai", "human", "ai"]


@pytest.mark.parametrize("kept", range(1, 8))
def test_pain_12_an_interrupted_tool_call_wedges_the_thread(kept):
    entries = spoken(*loop(0)[:kept], HumanMessage("Still there?"))
    for found in every(entries):
        assert found.messages[-1].text.endswith("Still there?")
    assert len(entries) == kept + 1


def test_pain_12_a_result_that_arrives_after_all_takes_its_place():
    waiting = spoken("q", asks("c1"), "Still there?")
    late = spoken("q", asks("c1"), "Still there?", result("c1", "late"))
    for before, after in zip(every(waiting), every(late), strict=True):
        assert before.messages[2].status == "error"
        assert after.messages[2].content == "late"


def test_pain_13_a_window_cuts_between_call_and_result():
    entries = spoken(*[message for number in range(4) for message in loop(number)])
    whole = build_context(entries).tokens
    cuts = set()
    for budget in range(whole // 3, whole, 7):
        for found in every(entries, max_tokens=budget):
            said = drop_note(found)
            assert said[0].content.startswith("question")
            cuts.add(len(said))
    assert cuts == {9, 18, 27}


def test_pain_13_a_single_exchange_over_budget_says_both_numbers():
    entries = spoken(*loop(0), *loop(1))
    needed = build_context(spoken(*loop(1))).tokens
    for profile in ALL:
        with pytest.raises(BudgetError) as caught:
            build_context(entries, provider=profile, max_tokens=needed - 1)
        assert (caught.value.needed, caught.value.available) == (needed, needed - 1)


@pytest.mark.parametrize(
    "blank",
    [
        HumanMessage(""),
        HumanMessage(" \n"),
        HumanMessage([]),
        HumanMessage([{"type": "text", "text": " "}]),
        AIMessage(""),
        AIMessage([{"type": "text", "text": ""}]),
        AIMessageChunk(content=""),
        SystemMessage(""),
    ],
)
def test_empty_messages_are_refused(blank):
    for found in every(spoken("a", blank, AIMessage("b"))):
        assert [(m.type, m.content) for m in found.messages] == [("human", "a"), ("ai", "b")]


def test_a_speakers_name_with_a_space_is_refused():
    for found in every(spoken(HumanMessage("a", name="Ana María"), HumanMessage("b", name="Bo"))):
        assert "Ana María: a" in found.messages[0].content
