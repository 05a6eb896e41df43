"""When a thread is compacted, and how much of it."""

from __future__ import annotations

import pytest
from histories import KEY, histories, spoken
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_convmem import SummarySettings
from langchain_convmem.errors import ConfigError
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.summarizing.planning import ROLLED, Size, make_plan, make_plan_again, measure
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.live import (
    find_covers,
    find_live_entries,
    find_summary_chain,
    has_calls,
)
from langchain_convmem.views.messages import count_tokens
from langchain_convmem.views.summaries import draft_summary, find_said_since

TIGHT = SummarySettings(trigger=("messages", 4), keep=("messages", 2), rebuild_every=0)


def talk(exchanges):
    return [
        message
        for number in range(exchanges)
        for message in (HumanMessage(f"q{number}"), AIMessage(f"a{number}"))
    ]


def covered(plan):
    return [text for turn in plan.window.turns for text in turn.contents]


def commit(log, plan, text="S"):
    draft = draft_summary(text, plan.window, log.entries(KEY))
    draft.metadata.aux["summary"] = {ROLLED: plan.rolled}
    return log.append(KEY, [draft])[0]


def say(log, *messages, turn_id=None):
    return log.append(KEY, [make_draft(message, turn_id=turn_id) for message in messages])


# -- examples -----------------------------------------------------------------------------------
def test_nothing_is_due_below_the_high_mark():
    assert make_plan(KEY, spoken(*talk(1), "q"), TIGHT) is None


def test_the_fewest_are_covered_that_leave_as_little_as_the_low_mark():
    plan = make_plan(KEY, spoken(*talk(3), "pending"), TIGHT)
    assert covered(plan) == ["q0", "a0", "q1", "a1", "q2", "a2"]
    plan = make_plan(KEY, spoken(*talk(3)), TIGHT)
    assert covered(plan) == ["q0", "a0", "q1", "a1"]


def test_on_request_all_is_covered_but_the_question_that_waits():
    plan = make_plan(KEY, spoken(*talk(1), "pending"), TIGHT, force=True)
    assert covered(plan) == ["q0", "a0"]
    assert make_plan(KEY, spoken("pending"), TIGHT, force=True) is None


def test_an_open_tool_loop_stays_however_large_it_is():
    calls = [
        message
        for number in range(20)
        for message in (
            AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": f"c{number}"}]),
            ToolMessage("seen " * 100, tool_call_id=f"c{number}"),
        )
    ]
    assert covered(make_plan(KEY, spoken(*talk(1), "look", *calls), TIGHT)) == ["q0", "a0"]
    assert make_plan(KEY, spoken("look", *calls), TIGHT) is None


def test_the_next_summary_continues_the_one_before():
    with InMemoryLog() as log:
        say(log, *talk(3))
        first = commit(log, make_plan(KEY, log.entries(KEY), TIGHT))
        say(log, *[HumanMessage("q3"), AIMessage("a3")])
        plan = make_plan(KEY, log.entries(KEY), TIGHT)
    assert covered(plan) == ["q2", "a2"]
    assert plan.window.previous.id == first.id
    assert plan.rolled == 1


def test_a_rebuilt_summary_covers_what_was_said_since_the_last_that_was_made_of_it():
    with InMemoryLog() as log:
        for number in range(4):
            say(log, HumanMessage(f"q{number}"), AIMessage(f"a{number}"))
            commit(log, make_plan(KEY, log.entries(KEY), TIGHT, force=True))
        first = next(entry for entry in log.entries(KEY) if entry.role == "summary")
        say(log, HumanMessage("q4"), AIMessage("a4"))
        plan = make_plan(KEY, log.entries(KEY), TIGHT, force=True, rebuild=True)
        assert covered(plan) == [f"{who}{number}" for number in range(1, 5) for who in "qa"]
        assert (plan.window.previous.id, plan.rolled) == (first.id, 0)
        commit(log, plan)


def test_a_rebuilt_summary_also_covers_what_a_late_part_of_a_turn_stands_before():
    with InMemoryLog() as log:
        say(log, HumanMessage("A?"), AIMessage("a!"), turn_id="1")
        say(log, HumanMessage("B?"), AIMessage("b!"), turn_id="2")
        for _ in range(2):
            commit(log, make_plan(KEY, log.entries(KEY), TIGHT, force=True))
            say(log, HumanMessage("more"), AIMessage("said"))
        for turn_id in "12":
            say(log, HumanMessage(f"{turn_id}?"), AIMessage(f"{turn_id}!"), turn_id=turn_id)
        # Of what no summary covers yet, only the first late part goes into the next one.
        settings = SummarySettings(trigger=("messages", 6), keep=("messages", 4))
        plan = make_plan(KEY, log.entries(KEY), settings, rebuild=True)
        assert covered(plan) == ["1?", "1!", "more", "said"]
        commit(log, plan)
        live = find_live_entries(log.entries(KEY))
    assert [entry.contents[0] for entry in find_said_since(live, find_summary_chain(live)[0])] == [
        "2?",
        "2!",
        "more",
        "said",
    ]


def test_a_summary_is_made_again_of_what_it_covers_and_what_came_before():
    with InMemoryLog() as log:
        assert make_plan_again(KEY, log.entries(KEY)) is None
        say(log, *talk(1))
        first = commit(log, make_plan(KEY, log.entries(KEY), TIGHT, force=True))
        assert make_plan_again(KEY, log.entries(KEY)).window.previous is None
        say(log, HumanMessage("q1"), AIMessage("a1"))
        plan = make_plan(KEY, log.entries(KEY), TIGHT, force=True)
        second = commit(log, plan)
        say(log, HumanMessage("q2"), AIMessage("a2"))
        again = make_plan_again(KEY, log.entries(KEY))
    assert covered(again) == ["q1", "a1"]
    assert again.window == plan.window
    assert again.window.previous.id == first.id
    assert (again.rolled, again.is_redone) == (1, True)
    assert second.cover.digest == again.window.cover.digest


# -- properties ---------------------------------------------------------------------------------
marks = st.builds(
    lambda low, more, measure: SummarySettings(
        trigger=(measure, low + more), keep=(measure, low), rebuild_every=0
    ),
    st.integers(1, 60),
    st.integers(1, 60),
    st.sampled_from(["tokens", "messages"]),
)


@settings(max_examples=60)
@given(histories, marks)
def test_a_plan_never_covers_what_waits_and_reaches_the_low_mark_or_the_end(entries, own):
    live = find_live_entries(entries)
    newest = next(iter(find_summary_chain(live)), None)
    said = find_said_since(live, newest)
    plan = make_plan(KEY, entries, own)
    if plan is None:
        whole = make_plan(KEY, entries, own, force=True)
        assert whole is None or not own.is_due(measure(said))
        return
    under = {
        entry.id
        for entry in said
        for first, last in plan.window.cover.ranges
        if first <= entry.position <= last
    }
    covers = [entry for entry in said if entry.id in under]
    rest = said[len(covers) :]
    assert covers == said[: len(covers)]
    assert covers[-1].role == "assistant"
    assert not has_calls(covers[-1])
    further = make_plan(KEY, entries, own, force=True)
    assert own.is_small(measure(rest)) or further.window.cover == plan.window.cover


turns = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2), st.integers(1, 120)), max_size=12)


@settings(max_examples=40)
@given(turns, marks, st.booleans())
def test_over_many_compactions_each_entry_is_covered_exactly_once(script, own, rebuild):
    with InMemoryLog() as log:
        for questions, tools, length in script:
            say(log, *[HumanMessage("q" * length)] * questions, *_loop(tools), AIMessage("a"))
            plan = make_plan(KEY, log.entries(KEY), own, rebuild=rebuild)
            if plan is not None:
                commit(log, plan)
        live = find_live_entries(log.entries(KEY))
    chain = find_summary_chain(live)
    shown = find_said_since(live, chain[0] if chain else None)
    told = [find_covers(live, [summary]).keys() for summary in chain]
    assert sum(map(len, told)) + len(shown) == sum(entry.role != "summary" for entry in live)
    assert all(told_ids.isdisjoint(entry.id for entry in shown) for told_ids in told)


def _loop(tools):
    names = [f"c{number}" for number in range(tools)]
    calls = [{"name": "look", "args": {}, "id": name} for name in names]
    results = [ToolMessage("seen", tool_call_id=name) for name in names]
    return [AIMessage("", tool_calls=calls), *results] if names else []


def test_sizes_are_those_of_the_token_counter():
    entries = spoken(*talk(2))
    size = measure(entries)
    assert size.messages == 4
    assert size.tokens == count_tokens([entry.message for entry in entries])


# -- When a thread is compacted: marks that can be followed, and no others ------------------------


LOW = ("messages", 2)


@pytest.mark.parametrize(
    ("trigger", "due", "not_due"),
    [
        (("tokens", 100), Size(100, 1), Size(99, 50)),
        (("messages", 10), Size(1, 10), Size(5000, 9)),
        (("fraction", 0.5), Size(500, 1), Size(499, 50)),
        ({"tokens": 100, "messages": 10}, Size(100, 10), Size(5000, 9)),
        ([("tokens", 100), ("messages", 10)], Size(1, 10), Size(99, 9)),
        ([{"tokens": 100, "messages": 10}, ("tokens", 900)], Size(900, 1), Size(899, 9)),
    ],
)
def test_a_compaction_is_due_from_the_high_mark_on(trigger, due, not_due):
    settings = SummarySettings(trigger=trigger, keep=LOW, window_tokens=1000)
    assert settings.is_due(due)
    assert not settings.is_due(not_due)


def test_the_low_mark_is_reached_at_its_very_number():
    settings = SummarySettings(trigger=("tokens", 100), keep=("tokens", 40))
    assert settings.is_small(Size(40, 99))
    assert not settings.is_small(Size(41, 1))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"trigger": ("tokens", 0)}, "positive"),
        ({"trigger": ("tokens", True)}, "positive"),
        ({"trigger": ("words", 5)}, "words"),
        ({"trigger": ()}, "trigger"),
        ({"trigger": {}}, "trigger"),
        ({"trigger": 6000}, "trigger"),
        ({"keep": ("tokens", "many")}, "keep"),
        ({"keep": {"tokens": 5}}, "keep"),
        ({"trigger": ("fraction", 1.5), "window_tokens": 1000}, "at most 1"),
        ({"max_summary_tokens": 15}, "max_summary_tokens"),
        ({"facts_tokens": -1}, "facts_tokens"),
        ({"retries": 1.5}, "retries"),
        ({"input_tokens": 63}, "input_tokens"),
        ({"rebuild_every": True}, "rebuild_every"),
        ({"lease_s": 0}, "lease_s"),
        ({"first_pause_s": -1}, "first_pause_s"),
    ],
)
def test_what_no_compaction_can_follow_is_refused_by_name(options, reason):
    with pytest.raises(ConfigError, match=reason):
        SummarySettings(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"trigger": ("tokens", 4001), "keep": ("fraction", 0.5), "window_tokens": 8000},
        {"trigger": ("fraction", 0.5), "keep": ("tokens", 3999), "window_tokens": 8000},
        {"trigger": {"tokens": 90, "fraction": 0.5}, "keep": ("tokens", 90), "window_tokens": 8000},
        {"trigger": ("messages", 5), "keep": ("tokens", 9000)},
    ],
)
def test_marks_that_a_compaction_can_follow_are_taken_in_any_measures(options):
    settings = SummarySettings(**options)
    assert (settings.trigger, settings.keep) == (options["trigger"], options["keep"])


def test_a_mark_of_several_amounts_is_reached_at_the_largest():
    both = {"tokens": 90, "fraction": 0.5}
    settings = SummarySettings(trigger=both, keep=("tokens", 90), window_tokens=8000)
    assert settings.trigger_tokens == 4000


TRIGGERS = [
    ("tokens", 1),
    ("tokens", 50),
    ("tokens", 1500),
    ("tokens", 6000),
    ("messages", 1),
    ("messages", 40),
    ("fraction", 0.01),
    ("fraction", 0.6),
    {"tokens": 90, "messages": 9},
    [("tokens", 6000), ("fraction", 0.1)],
]
KEEPS = [("tokens", 2000), ("messages", 20), ("fraction", 0.5), ("tokens", 50)]


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("trigger", TRIGGERS)
def test_forty_plain_combinations_of_marks_can_be_followed(trigger, keep):
    told = SummarySettings(trigger=trigger, keep=keep)
    for budget in (40, 400, 4000, 400_000):
        fitted = told.fit_to(budget)
        mark = fitted.trigger_tokens
        if mark is not None:
            assert mark + fitted.max_summary_tokens + fitted.facts_tokens <= budget
        assert fitted.is_due(Size(10**6, 10**6))
        assert (fitted is told) or fitted.notes
    # At the mark there is more than may stay, so that something can be covered.
    if told.trigger_tokens not in (None, 1):
        assert not told.is_small(Size(told.trigger_tokens, 10**6))


@pytest.mark.parametrize(
    ("options", "keep"),
    [
        ({"trigger": ("tokens", 1500)}, ("tokens", 750)),
        ({"trigger": ("messages", 6), "keep": ("messages", 6)}, ("messages", 3)),
        (
            {"trigger": ("tokens", 4000), "keep": ("fraction", 0.5), "window_tokens": 8000},
            ("fraction", 0.25),
        ),
        ({"trigger": ("tokens", 4000), "keep": ("fraction", 0.5)}, ("fraction", 0.125)),
        ({"trigger": [("tokens", 6000), {"tokens": 90, "messages": 9}]}, ("tokens", 45)),
    ],
)
def test_a_low_mark_that_is_not_below_the_high_one_is_lowered_with_a_note(caplog, options, keep):
    settings = SummarySettings(**options)
    assert settings.keep == keep
    assert "keep" in settings.notes[-1]
    assert settings.notes[-1] in caplog.text


def test_settings_that_can_be_followed_have_no_notes():
    settings = SummarySettings()
    assert settings.notes == ()
    assert settings.fit_to(6900) is settings
