"""A view of what was read backwards is the view of the whole thread."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.records import Entry
from langchain_convmem.testing.log_contract import read_backwards, retract, say_all
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.context import build_context
from langchain_convmem.views.messages import count_tokens
from langchain_convmem.views.pins import draft_pin
from langchain_convmem.views.providers import PROVIDERS
from langchain_convmem.views.reach import LiveReach
from tests.fuzz.generator import KEY, history
from tests.fuzz.promises import Thread, faults_of_reading_back, without_numbering


def read_for(
    entries: Sequence[Entry], budget: int | None = None, *, page: int = 1
) -> tuple[list[Entry], LiveReach]:
    reach = LiveReach(budget, count_tokens)
    return reach.select_needed(read_backwards(entries, reach, page=page)), reach


@given(
    seed=st.integers(0, 10**9), profile=st.sampled_from(sorted(PROVIDERS)), parts=st.integers(1, 4)
)
def test_a_thread_read_backwards_looks_as_if_it_had_been_read_whole(
    seed: int, profile: str, parts: int
):
    entries = [entry for number in range(parts) for entry in history_behind(seed, number)]
    assert not faults_of_reading_back(Thread.from_chain(entries), profile, random.Random(seed))


def history_behind(seed: int, number: int) -> list[Entry]:
    """Return a history with positions and message ids of its own."""
    found = []
    for entry in history(seed + number):
        message = entry.message and entry.message.model_copy()
        if message and message.id:
            message.id = f"{number}.{message.id}"
        found.append(replace(entry, position=entry.position + 10_000 * number, message=message))
    return found


def dialogue(exchanges: int) -> list[Entry]:
    with InMemoryLog() as log:
        messages = [SystemMessage("Be kind.", id="system")]
        for number in range(exchanges):
            messages += [HumanMessage(f"question {number}"), AIMessage(f"answer {number}")]
        log.append(KEY, [make_draft(message) for message in messages])
        return log.entries(KEY)


@pytest.mark.parametrize("budget", [None, 20])
def test_a_turn_stands_where_it_began_though_what_began_it_was_taken_back(budget: int | None):
    with InMemoryLog() as log:
        [began] = say_all(log, KEY, [SystemMessage("Be kind.")], turn="a")
        retract(log, KEY, began.id)
        say_all(log, KEY, [HumanMessage("Hi")], turn="b")
        say_all(log, KEY, [AIMessage("Late.")], turn="a")
        say_all(log, KEY, [HumanMessage("More")], turn="c")
        entries = log.entries(KEY)
    read, _ = read_for(entries, budget)
    assert without_numbering(build_context(read)) == without_numbering(build_context(entries))


def test_a_pin_goes_with_the_words_of_its_message_however_far_back():
    with InMemoryLog() as log:
        log.append(KEY, [make_draft(entry.message) for entry in dialogue(200)])
        source = log.entries(KEY)[1]
        log.append(KEY, [draft_pin("question 0", source, [])])
        assert "question 0" in str(build_context(read_for(log.entries(KEY), 100)[0]).messages[1])
        named = HumanMessage("else", id=source.message_id)
        log.append(KEY, [make_draft(named)])
        retract(log, KEY, source.id)
        entries = log.entries(KEY)
    budget = {"max_tokens": 100}
    read, _ = read_for(entries, 100)
    assert "question 0" not in str(build_context(entries, **budget).messages)
    assert "question 0" not in str(build_context(read, **budget).messages)
