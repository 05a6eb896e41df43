import pytest
from histories import KEY, histories, spoken
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_convmem import SummarySettings
from langchain_convmem.errors import ConfigError
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.records import Control, Draft
from langchain_convmem.summarizing.planning import (
    Size,
    make_plan,
    make_plan_again,
    measure,
    plan_leaves,
)
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.live import find_frontier, find_live_entries, find_uncovered, has_calls
from langchain_convmem.views.summaries import (
    draft_summary,
    find_closing_points,
    find_said_since,
)

TIGHT = SummarySettings(trigger=("messages", 4), keep=("messages", 2))


def talk(exchanges):
    return [
        message
        for number in range(exchanges)
        for message in (HumanMessage(f"q{number}"), AIMessage(f"a{number}"))
    ]


def covered(plan):
    return [text for turn in plan.window.turns for text in turn.contents]


def commit(log, plan, text="S"):
    return log.append(KEY, [draft_summary(text, plan.window, log.entries(KEY))])[0]


def say(log, *messages, turn_id=None):
    return log.append(KEY, [make_draft(message, turn_id=turn_id) for message in messages])


def test_the_fewest_are_covered_that_leave_as_little_as_the_low_mark():
    for said in (talk(3), [*talk(3), "pending"]):
        assert covered(make_plan(KEY, spoken(*said), TIGHT)) == ["q0", "a0", "q1", "a1"]


def test_the_latest_exchange_stays_however_long_it_is():
    own = SummarySettings(trigger=("tokens", 200), keep=("tokens", 20))
    pasted = [HumanMessage("log " * 2000), AIMessage("It is the disk.")]
    for waiting in ([], ["Why?"], [SystemMessage("Be brief.")]):
        said = spoken(*talk(1), *pasted, *waiting)
        assert covered(make_plan(KEY, said, own)) == ["q0", "a0"]
        assert [covered(plan) for plan in plan_leaves(KEY, said, own)] == [["q0", "a0"]]
        assert make_plan(KEY, spoken(*pasted, *waiting), own) is None


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
    assert covered(make_plan(KEY, spoken(*talk(2), "look", *calls), TIGHT)) == ["q0", "a0"]
    assert make_plan(KEY, spoken("look", *calls), TIGHT) is None


def test_a_gap_between_summaries_is_a_stretch_of_its_own_and_comes_first():
    with InMemoryLog() as log:
        for number in range(3):
            say(log, HumanMessage(f"q{number}"), AIMessage(f"a{number}"))
            [plan] = plan_leaves(KEY, log.entries(KEY), TIGHT, force=True)
            commit(log, plan)
        middle = find_frontier(find_live_entries(log.entries(KEY)))[1]
        log.append(KEY, [Draft(role="control", control=Control((middle.id,), "undo"))])
        say(log, *talk(2))
        plans = plan_leaves(KEY, log.entries(KEY), TIGHT)
        assert [covered(plan) for plan in plans] == [["q1", "a1"], ["q0", "a0"]]
        for plan in plans:
            commit(log, plan)
        live = find_live_entries(log.entries(KEY))
    shown = [entry.contents[0] for entry in find_uncovered(live)]
    assert shown == ["q1", "a1"]
    assert len(find_frontier(live)) == 4


def test_instructions_in_between_part_no_stretch():
    said = spoken(*talk(1), SystemMessage("Be brief."), *talk(2))
    [plan] = plan_leaves(KEY, said, TIGHT, force=True)
    assert covered(plan) == ["q0", "a0", "q0", "a0", "q1", "a1"]


def test_a_long_stretch_is_cut_where_replies_end_into_parts_of_about_one_size():
    own = SummarySettings(trigger=("tokens", 200), keep=("tokens", 20))
    said = [
        message
        for number in range(40)
        for message in (HumanMessage(f"{number:03} " + "q" * 60), AIMessage("a" * 60))
    ]
    plans = plan_leaves(KEY, spoken(*said), own, force=True)
    told = [text for plan in plans for text in covered(plan)]
    assert told == [message.content for message in said]
    sizes = [plan.tokens for plan in plans]
    assert max(sizes) <= 200
    assert min(sizes) > 100


def test_a_summary_is_made_again_of_what_it_covers_and_what_came_before():
    with InMemoryLog() as log:
        assert make_plan_again(KEY, log.entries(KEY), SummarySettings()) is None
        say(log, *talk(1))
        first = commit(log, make_plan(KEY, log.entries(KEY), TIGHT, force=True))
        assert make_plan_again(KEY, log.entries(KEY), SummarySettings()).window.previous is None
        say(log, HumanMessage("q1"), AIMessage("a1"))
        plan = make_plan(KEY, log.entries(KEY), TIGHT, force=True)
        second = commit(log, plan)
        say(log, HumanMessage("q2"), AIMessage("a2"))
        again = make_plan_again(KEY, log.entries(KEY), SummarySettings())
    assert covered(again) == ["q1", "a1"]
    assert again.window == plan.window
    assert again.window.previous.id == first.id
    assert again.is_redone
    assert second.cover.digest == again.window.cover.digest


marks = st.builds(
    lambda low, more, measure: SummarySettings(trigger=(measure, low + more), keep=(measure, low)),
    st.integers(1, 60),
    st.integers(1, 60),
    st.sampled_from(["tokens", "messages"]),
)


@settings(max_examples=60)
@given(histories, marks)
def test_leaves_cover_stretches_that_end_with_a_reply_and_hold_nothing_that_is_covered(
    entries, own
):
    live = find_live_entries(entries)
    said = {entry.id for entry in find_said_since(live, find_frontier(live))}
    spoken_ids = [entry.id for entry in live if entry.role not in ("summary", "system")]
    plans = plan_leaves(KEY, entries, own)
    assert bool(plans) <= own.is_due(measure([entry for entry in live if entry.id in said]))
    told = [name for plan in plans for name in plan.window.entry_ids]
    assert len(told) == len(set(told))
    assert said.issuperset(told)
    for plan in plans:
        assert plan.window.turns[-1].role == "assistant"
        ids = plan.window.entry_ids
        between = spoken_ids[spoken_ids.index(ids[0]) : spoken_ids.index(ids[-1]) + 1]
        assert said.issuperset(between)


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
    settings = SummarySettings(trigger=trigger, keep=("messages", 2), window_tokens=1000)
    assert settings.is_due(due)
    assert not settings.is_due(not_due)


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
        ({"trigger": 4000}, r'trigger must look like \("tokens", 4000\)'),
        ({"trigger": ("tokens", 1500), "keep": ("tokens", 2000)}, "lower keep"),
        ({"trigger": ("messages", 6), "keep": ("messages", 6)}, "lower keep"),
        ({"trigger": ("fraction", 0.5), "keep": ("fraction", 0.5)}, "lower keep"),
        (
            {"trigger": ("tokens", 4000), "keep": ("fraction", 0.5), "window_tokens": 8000},
            "lower keep",
        ),
        (
            {"trigger": [("tokens", 6000), {"tokens": 90, "messages": 9}], "keep": ("tokens", 90)},
            "lower keep",
        ),
        ({"window_tokens": 0}, "window_tokens"),
        ({"max_summary_tokens": 15}, "max_summary_tokens"),
        ({"facts_tokens": -1}, "facts_tokens"),
        ({"retries": 1.5}, "retries"),
        ({"input_tokens": 63}, "input_tokens"),
        ({"tree_tokens": 31}, "tree_tokens"),
        ({"fan_out": 1}, "fan_out"),
        ({"lease_s": 0}, "lease_s"),
        ({"first_pause_s": -1}, "first_pause_s"),
        *(({"judge": value}, "judge") for value in ("gpt", 7, [], dict)),
        *(({"instructions": value}, "instructions") for value in (3, None)),
        *(({"sections": value}, "sections") for value in ("Decisions", [1], None)),
        ({"sections": ["Decisions", " "]}, "sections"),
        ({"sections": ["Decisions", "decisions:"]}, "sections"),
    ],
)
def test_settings_that_cannot_be_followed_are_refused_by_name(options, reason):
    with pytest.raises(ConfigError, match=reason):
        SummarySettings(**options)


def test_settings_say_how_much_is_read_and_written_at_once():
    told = SummarySettings(sections=[" Next  steps: "], input_tokens=1000)
    assert (told.sections, told.count_asked(3000)) == (("Next steps",), 300)
    assert told.stretch_tokens == 750
    assert SummarySettings().fit_input(8000).input_tokens == 7100
    assert SummarySettings().fit_window(4000).trigger_tokens == 1950
    assert SummarySettings(trigger=("fraction", 0.25)).fit_window(4000).trigger_tokens == 1000
    least = {"input_tokens": 64, "fan_out": 2, "tree_tokens": 32, "max_summary_tokens": 16}
    assert SummarySettings(**least).count_asked(3000) == 16


@pytest.mark.parametrize(
    ("trigger", "kept"),
    [
        (("tokens", 9000), 2000),
        (("tokens", 1500), 500),
        (("messages", 40), 2000),
        (("fraction", 0.01), 53),
        ([("tokens", 6000), {"tokens": 90, "messages": 9}, ("fraction", 0.1)], 533),
    ],
)
def test_what_stays_is_a_third_of_the_trigger_unless_the_settings_say(trigger, kept):
    settings = SummarySettings(trigger=trigger)
    assert settings.is_small(Size(kept, 10**6))
    assert not settings.is_small(Size(kept + 1, 1))


@pytest.mark.parametrize("trigger", [("tokens", 6000), ("messages", 40), ("fraction", 0.6)])
def test_marks_follow_a_budget_that_is_smaller(trigger):
    told = SummarySettings(trigger=trigger)
    for budget in (40, 400, 4000):
        fitted = told.fit_to(budget)
        if fitted.trigger_tokens is not None:
            assert fitted.trigger_tokens + fitted.shown_tokens <= max(budget * 0.95, 40)
            # At the mark there is more than may stay, so that something can be covered.
            assert not fitted.is_small(Size(fitted.trigger_tokens, 10**6))
        assert fitted.is_due(Size(10**6, 10**6))
    assert SummarySettings().fit_to(9158) == SummarySettings()


@pytest.mark.parametrize(("told", "is_due"), [(40, False), (1500, True)])
def test_summaries_beyond_their_share_make_a_thread_due_earlier(told, is_due):
    """What they take, messages do not have: a budget that holds both shares would be too small."""
    settings = SummarySettings(trigger=("tokens", 400), keep=("tokens", 100), max_summary_tokens=60)
    log = InMemoryLog()
    log.append(KEY, [make_draft(message) for message in talk(1)])
    commit(log, make_plan(KEY, log.entries(KEY), TIGHT, force=True), text="word " * told)
    log.append(KEY, [make_draft(message) for message in talk(16)])
    said = measure(find_uncovered(find_live_entries(log.entries(KEY))), settings.counter)
    assert 100 < said.tokens < 400
    assert bool(plan_leaves(KEY, log.entries(KEY), settings)) is is_due


@settings(max_examples=60)
@given(histories, marks)
def test_a_plan_never_covers_what_waits_and_reaches_the_low_mark_or_the_end(entries, own):
    live = find_live_entries(entries)
    said = find_said_since(live, find_frontier(live))
    plan = make_plan(KEY, entries, own)
    if plan is None:
        assert len(find_closing_points(said)) < 2 or not own.is_due(measure(said))
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
    assert own.is_small(measure(rest)) or len(find_closing_points(rest)) == 1
