from __future__ import annotations

import copy

import pytest
from histories import Judge, histories
from hypothesis import given, settings
from hypothesis import strategies as st

from langchain_convmem.errors import BudgetError
from langchain_convmem.testing.log_contract import are_identical
from langchain_convmem.views.context import NOTED_SOURCE, SUMMARY_SOURCE, build_context
from langchain_convmem.views.live import find_frontier, find_live_entries, find_uncovered
from langchain_convmem.views.messages import count_tokens
from tests.fuzz.promises import drop_note


def superadditive(messages):
    """Count more for a whole than for its parts."""
    return count_tokens(messages) + len(messages) ** 2


def smallest_budget(entries, counter):
    """Return the weight of the system messages, the summary and the latest exchange."""
    messages = build_context(entries).messages
    users = [number for number, message in enumerate(messages) if message.type == "human"]
    latest = users[-1] if users else len(messages)
    return counter([*filter(stays, messages[:latest]), *messages[latest:]])


def stays(message):
    """Return whether a message is never cut."""
    return message.type == "system" or message.additional_kwargs.get("source") in (
        SUMMARY_SOURCE,
        NOTED_SOURCE,
    )


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


@given(histories)
@settings(max_examples=300, deadline=None)
def test_any_history_makes_a_valid_context(entries):
    for place in ("system", "omit"):
        shown = build_context(entries, summary=place)
        assert Judge().read(shown.messages) == []
        assert shown.tokens == count_tokens(shown.messages)


@given(histories)
@settings(max_examples=200, deadline=None)
def test_every_entry_is_shown_or_named_in_a_repair(entries):
    live = find_live_entries(entries)
    shown = build_context(entries)
    named = "\n".join(shown.repairs)
    for entry in find_uncovered(live):
        assert entry.position in shown.positions or f"left out {entry.message_id}:" in named
    covered = {entry.position for entry in live} - {
        entry.position for entry in find_uncovered(live)
    }
    allowed = {entry.position for entry in find_frontier(live)}
    assert shown.positions & covered == allowed
    assert shown.positions <= {entry.position for entry in live}
    assert (build_context(entries, summary="omit").positions & allowed) == set()


@given(histories)
@settings(max_examples=100, deadline=None)
def test_a_context_is_the_same_every_time(entries):
    first, second = build_context(entries), build_context(copy.deepcopy(entries))
    assert first == second


@given(histories)
@settings(max_examples=100, deadline=None)
def test_a_context_shares_nothing_with_the_entries(entries):
    before = copy.deepcopy(entries)
    for message in build_context(entries).messages:
        vandalise(message)
    for entry, kept in zip(entries, before, strict=True):
        assert are_identical(entry.message, kept.message)
        assert entry.metadata == kept.metadata


@given(histories, st.integers(1, 300), st.sampled_from([count_tokens, superadditive]))
@settings(max_examples=200, deadline=None)
def test_a_budget_cuts_the_oldest_exchanges_or_says_what_is_missing(entries, budget, counter):
    whole = build_context(entries, token_counter=counter)
    needed = smallest_budget(entries, counter)
    if budget < needed and len(find_frontier(find_live_entries(entries))) > 1:
        return  # fewer summaries may fit
    if budget < needed:
        with pytest.raises(BudgetError, match=str(needed)) as caught:
            build_context(entries, max_tokens=budget, token_counter=counter)
        assert (caught.value.needed, caught.value.available) == (needed, budget)
        return
    shown = build_context(entries, max_tokens=budget, token_counter=counter)
    assert shown.tokens == counter(shown.messages) <= budget
    assert Judge().read(shown.messages) == []
    head = [*filter(stays, whole.messages)]
    said = drop_note(shown)
    kept = len(said) - len(head)
    assert said == head + whole.messages[len(whole.messages) - kept :]
    assert shown.positions <= whole.positions
    cut = len(whole.messages) - len(said)
    assert (shown.left_out > 0) == (cut > 0)
    assert any("left out older" in repair for repair in shown.repairs) == (cut > 0)
    assert shown.is_whole == (cut == 0)
