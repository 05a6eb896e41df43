"""What users of other libraries ran into with order, pairs, emptiness and names: never here."""

from __future__ import annotations

import pytest
from histories import KEY, spoken
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.records import Cover, Draft
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.context import build_context
from langchain_convmem.views.providers import PROVIDERS
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


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_pain_3_an_empty_summary_replaces_the_history(text):
    with InMemoryLog() as log:
        entries = summarised(log, [HumanMessage("a"), AIMessage("b"), HumanMessage("c")], 2, text)
        for found in every(entries):
            assert [m.content for m in found.messages] == ["c"]
        assert [entry.contents for entry in entries[:2]] == [("a",), ("b",)]


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
