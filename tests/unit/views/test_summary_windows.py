"""Where a window may end: behind a reply across which no tool call reaches."""

from __future__ import annotations

from histories import KEY, histories, spoken
from hypothesis import given, settings
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_convmem.views.live import live_entries
from langchain_convmem.views.summaries import (
    closing_points,
    said_since,
    summary_window,
    window_of,
)
from langchain_convmem.views.tool_calls import answered_calls
from langchain_convmem.views.turns import has_calls


def call(*names):
    return AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": name} for name in names])


def result(name):
    return ToolMessage("seen", tool_call_id=name)


def points(*messages):
    return closing_points(spoken(*messages))


def test_a_window_may_end_behind_each_reply():
    assert points("a", AIMessage("b"), "c", AIMessage("d"), "e") == [2, 4]
    assert points("a") == points() == []


def test_a_window_never_ends_between_calls_and_their_results():
    loop = [call("c1", "c2"), result("c1"), result("c2"), AIMessage("both")]
    assert points("a", *loop, "b") == [5]
    assert points("a", *loop[:-1]) == []


def test_a_late_result_closes_only_what_it_answers():
    late = ["a", call("c1"), "hello?", AIMessage("wait"), result("c1"), AIMessage("done")]
    assert points(*late) == [6]
    assert points(*late[:-1]) == []


def test_system_messages_are_not_said():
    entries = spoken(HumanMessage("a"), AIMessage("b"))
    assert said_since(entries, None) == entries


@settings(max_examples=50)
@given(histories)
def test_no_point_parts_a_call_from_its_result_or_covers_what_waits(entries):
    live = live_entries(entries)
    said = said_since(live, None)
    at = {entry.id: number for number, entry in enumerate(said)}
    pairs = [(at[call], at[result]) for call, result in answered_calls(said)]
    for point in closing_points(said):
        assert said[point - 1].role == "assistant"
        assert not has_calls(said[point - 1])
        assert [pair for pair in pairs if pair[0] < point <= pair[1]] == []


@settings(max_examples=50)
@given(histories)
def test_a_window_up_to_a_point_covers_exactly_what_stands_before_it(entries):
    live = live_entries(entries)
    said = said_since(live, None)
    for point in closing_points(said):
        window = window_of(KEY, entries, said[:point], None)
        spoken_entries = [one for one in entries if one.role not in ("summary", "control")]
        under = {
            one.id
            for one in spoken_entries
            for first, last in window.cover.ranges
            if first <= one.position <= last
        }
        assert under == {one.id for one in said[:point]}
        assert set(window.entry_ids) <= under
    points_ = closing_points(said_since(live, None))
    assert summary_window(KEY, entries).is_empty or points_
