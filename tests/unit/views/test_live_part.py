"""A view of the live part is the view of the whole thread, or the note says that it is not."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from langchain_convmem.errors import BudgetError
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.records import Entry
from langchain_convmem.testing.log_contract import retract, say_all
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.context import LivePart, build_context, is_current, narrow_live_part
from langchain_convmem.views.messages import count_tokens
from langchain_convmem.views.shown import Context
from tests.fuzz.generator import KEY, history

PROVIDERS = ("strict", "bedrock_converse", "anthropic", "openai", "gemini")


def needed(part: LivePart, entries: Sequence[Entry]) -> list[Entry]:
    return [e for e in entries if e.position > part.floor or e.position in part.kept]


def note(entries, before=None, max_tokens=None):
    return narrow_live_part(
        entries, before, max_tokens=max_tokens, token_counter=count_tokens, min_saved=1
    )


def shown(entries: Sequence[Entry], part: LivePart | None = None, **options) -> Context | str:
    if part is not None:
        options |= part.describe_earlier()
    try:
        return build_context(entries, **options)
    except BudgetError as error:
        return str(error)


def without_numbering(view: Context) -> list[str]:
    # Calls that repeat an id, and files that repeat a name, are told apart by what is in view.
    fields = [
        message.model_dump(exclude={"tool_calls", "tool_call_id"}) for message in view.messages
    ]
    return [
        re.sub(r"-\d+'", "'", repr({**each, "content": str(each["content"])})) for each in fields
    ]


@given(seed=st.integers(0, 10**9), chance=st.randoms(use_true_random=False))
def test_a_thread_read_on_from_a_note_looks_as_if_it_had_been_read_whole(
    seed: int, chance: random.Random
):
    entries = history(seed)
    loaded, part = [], None
    for end in sorted(chance.sample(range(len(entries) + 1), min(3, len(entries)))):
        now = entries[:end]
        loaded = now if part is None else needed(part, now)
        if part is None or not is_current(part, loaded):
            loaded, part = now, None
        for profile in PROVIDERS:
            assert shown(loaded, part, provider=profile) == shown(now, provider=profile)
        part = note(loaded, part) or part


@given(
    seed=st.integers(0, 10**9),
    chance=st.randoms(use_true_random=False),
    budget=st.integers(1, 400),
)
def test_a_view_within_a_budget_reads_on_from_a_note_too(
    seed: int, chance: random.Random, budget: int
):
    entries = [entry for number in range(3) for entry in history_behind(seed, number)]
    part = note(entries[: chance.randint(0, len(entries))], max_tokens=budget)
    if part is None or not is_current(part, needed(part, entries)):
        return
    found = shown(needed(part, entries), part, max_tokens=budget)
    whole = shown(entries, max_tokens=budget)
    if part.is_whole:
        assert found == whole
    elif isinstance(found, Context) and not found.is_whole:
        assert isinstance(whole, Context)
        assert (found.positions, found.left_out) == (whole.positions, whole.left_out)
        assert without_numbering(found) == without_numbering(whole)
        assert not whole.is_whole


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


def test_a_note_for_a_budget_keeps_system_messages_and_more_than_the_budget():
    entries = dialogue(500)
    part = note(entries, max_tokens=100)
    assert part is not None
    assert part.kept == (entries[0].position,)
    assert not part.is_whole
    read = needed(part, entries)
    assert 125 <= count_tokens([e.message for e in read]) < 200
    assert (
        build_context(read, max_tokens=100, **part.describe_earlier()).messages
        == build_context(entries, max_tokens=100).messages
    )


def test_a_thread_without_summary_and_budget_needs_all_of_it():
    assert note(dialogue(500)) is None


def test_a_note_comes_back_from_its_document():
    part = note(dialogue(500), max_tokens=100)
    assert part is not None
    assert LivePart.read(part.write_document()) == part


@pytest.mark.parametrize(
    "document",
    [None, 3, [], {}, {"form": 1, "floor": 1}, {"form": 2, "floor": 1}, {"form": 4, "floor": 1}],
)
def test_a_note_of_another_form_is_none(document):
    assert LivePart.read(document) is None


def test_a_turn_stands_where_it_began_though_what_began_it_was_taken_back():
    with InMemoryLog() as log:
        [began] = say_all(log, KEY, [SystemMessage("Be kind.")], turn="a")
        retract(log, KEY, began.id)
        say_all(log, KEY, [HumanMessage("Hi")], turn="b")
        say_all(log, KEY, [AIMessage("Late.")], turn="a")
        say_all(log, KEY, [HumanMessage("More")], turn="c")
        entries = log.entries(KEY)
    part = note(entries)
    read = entries if part is None else needed(part, entries)
    assert without_numbering(shown(read, part)) == without_numbering(shown(entries))
