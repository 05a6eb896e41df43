import contextlib
import copy
import random
from dataclasses import replace

import pytest
from histories import KEY, histories
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_convmem.errors import BudgetError
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.testing.log_contract import are_identical, read_backwards, retract, say_all
from langchain_convmem.views.context import LiveReach, build_context
from langchain_convmem.views.messages import count_tokens
from langchain_convmem.views.providers import PROVIDERS
from langchain_convmem.views.summaries import draft_pin
from tests.fuzz.generator import history
from tests.fuzz.oracles import ORACLES
from tests.fuzz.promises import (
    Thread,
    broken_promises,
    budget_faults,
    faults_of_reading_back,
    without_numbering,
)
from tests.fuzz.runner import run
from tests.fuzz.validators import VALIDATORS

profiles = st.sampled_from(sorted(PROVIDERS))


def superadditive(messages):
    """Count more for a whole than for its parts."""
    return count_tokens(messages) + len(messages) ** 2


def vandalise(value):
    """Change everything in a value that can be changed."""
    if isinstance(value, list):
        for item in value:
            vandalise(item)
        value.append("vandalised")
    elif isinstance(value, dict):
        for item in value.values():
            vandalise(item)
        value["vandalised"] = True
    elif isinstance(value, set):
        value.add("vandalised")
    elif hasattr(value, "__dict__"):
        vandalise(value.__dict__)


@given(histories, profiles, st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None)
def test_any_context_is_valid_tells_everything_and_keeps_its_budget(entries, profile, rng):
    thread = Thread.from_chain(entries)
    assert broken_promises(thread, profile) == []
    assert budget_faults(thread, profile, rng) == []


@given(seed=st.integers(0, 10**9), profile=profiles, parts=st.integers(1, 4))
def test_a_thread_read_backwards_looks_as_if_it_had_been_read_whole(seed, profile, parts):
    entries = [entry for number in range(parts) for entry in history_behind(seed, number)]
    assert not faults_of_reading_back(Thread.from_chain(entries), profile, random.Random(seed))


def history_behind(seed, number):
    """Return a history with positions and message ids of its own."""
    found = []
    for entry in history(seed + number):
        message = entry.message and entry.message.model_copy()
        if message and message.id:
            message.id = f"{number}.{message.id}"
        found.append(replace(entry, position=entry.position + 10_000 * number, message=message))
    return found


@given(histories)
@settings(max_examples=100, deadline=None)
def test_a_context_is_the_same_every_time_and_shares_nothing_with_the_entries(entries):
    before = copy.deepcopy(entries)
    found = build_context(entries)
    assert found == build_context(before)
    for message in found.messages:
        vandalise(message)
    for entry, kept in zip(entries, before, strict=True):
        assert are_identical(entry.message, kept.message)
        assert entry.metadata == kept.metadata


@given(histories, st.integers(1, 300))
@settings(max_examples=100, deadline=None)
def test_a_budget_holds_by_the_counter_of_the_application(entries, budget):
    with contextlib.suppress(BudgetError):
        shown = build_context(entries, max_tokens=budget, token_counter=superadditive)
        assert shown.tokens == superadditive(shown.messages) <= budget


@pytest.mark.parametrize(
    "broken",
    [
        [HumanMessage("q", id="q"), ToolMessage("found", tool_call_id="c1")],
        [AIMessage("a", id="a")],
        [HumanMessage(" ", id="q")],
        [HumanMessage("q", id="q"), AIMessage("a", id="q")],
        [HumanMessage([{"type": "hologram"}], id="q")],
    ],
    ids=["a result alone", "the assistant first", "blank text", "one id twice", "unknown block"],
)
def test_what_no_provider_takes_is_named_by_every_judge(broken):
    for profile in PROVIDERS:
        assert VALIDATORS[profile](broken), profile


def test_random_threads_are_judged_by_every_judge_and_none_is_invalid():
    report = run(range(3000, 3060), 3)
    assert (report.failures, report.histories) == ([], 60)
    counts = report.tallies
    assert {counts["validators", name, "judged"] for name in PROVIDERS} == {60}
    for oracle in ORACLES:  # 20 went through all eight, each of the other 40 through one
        pairs = [(oracle.name, name) for name in oracle.profiles]
        assert {counts[*pair, "judged"] + counts[*pair, "skipped"] for pair in pairs} == {25}
    assert sum(counts["budget", name, "judged"] for name in PROVIDERS) == 30


def read_for(entries, budget=None):
    reach = LiveReach(budget, count_tokens)
    return reach.select_needed(read_backwards(entries, reach, page=1))


@pytest.mark.parametrize("budget", [None, 20])
def test_a_turn_stands_where_it_began_though_what_began_it_was_taken_back(budget):
    with InMemoryLog() as log:
        [began] = say_all(log, KEY, [SystemMessage("Be kind.")], turn="a")
        retract(log, KEY, began.id)
        say_all(log, KEY, [HumanMessage("Hi")], turn="b")
        say_all(log, KEY, [AIMessage("Late.")], turn="a")
        say_all(log, KEY, [HumanMessage("More")], turn="c")
        entries = log.entries(KEY)
    read = read_for(entries, budget)
    assert without_numbering(build_context(read)) == without_numbering(build_context(entries))


def test_a_pin_goes_with_the_words_of_its_message_however_far_back():
    with InMemoryLog() as log:
        for number in range(200):
            say_all(log, KEY, [f"question {number}", AIMessage(f"answer {number}")])
        source = log.entries(KEY)[0]
        log.append(KEY, [draft_pin("question 0", source, [])])
        assert "question 0" in str(build_context(read_for(log.entries(KEY), 100)).messages)
        say_all(log, KEY, [HumanMessage("else", id=source.message_id)])
        retract(log, KEY, source.id)
        entries = log.entries(KEY)
    for shown in (entries, read_for(entries, 100)):
        assert "question 0" not in str(build_context(shown, max_tokens=100).messages)
