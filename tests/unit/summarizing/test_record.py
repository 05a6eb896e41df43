"""A record says of every fact where it is, and equals what a full reading finds."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from summaries import ScriptedSummarizer

from benchmarks.summary_record import compare_chat
from langchain_convmem import ConversationMemory, InMemoryLog, SummarySettings
from langchain_convmem.summarizing.kinds import find_kinds
from langchain_convmem.summarizing.record import pick_words
from langchain_convmem.views.facts import FactSource

NO_LIST = SummarySettings(facts_tokens=0, retries=0)
WITH_LIST = SummarySettings(facts_tokens=300, retries=0)
SAID = (
    "The boiler repair costs 1,240 euros.",
    "I will paint the garden fence.",
    "I like grilled olives with butter.",
    "It is 42.",
)


def remember(*texts, teller=None, options=NO_LIST):
    teller = teller or ScriptedSummarizer("They talked about a garden and a boiler.")
    memory = ConversationMemory(InMemoryLog(), summarizer=teller, summary_settings=options)
    say(memory, *texts)
    return memory


def say(memory, *texts):
    said = [message for text in texts for message in (text, AIMessage("Fine."))]
    memory.add_messages(said, thread_id="t", user_id="ana")


def states(memory):
    record = memory.summary_record("t", user_id="ana")
    assert asyncio.run(memory.asummary_record("t", user_id="ana")) == record
    return {fact.text: fact.state for fact in record.facts}


@settings(max_examples=8, deadline=None)
@given(st.integers(1000, 1_000_000))
def test_it_is_what_an_oracle_finds_that_reads_everything(seed):
    counts, differences = compare_chat(seed)
    assert differences == []
    assert counts.total() > 0


def test_a_thread_without_a_summary_has_an_empty_record():
    with remember(*SAID) as memory:
        record = memory.summary_record("t", user_id="ana")
        assert (record.facts, record.summaries, record.covered) == ((), 0, 0)
        assert repr(record) == "SummaryRecord(thread 't', 0 entries in 0)"
        assert memory.summary_record("nobody", user_id="ana").facts == ()


def test_a_fact_is_told_listed_left_or_lost():
    teller = ScriptedSummarizer("The user will paint the garden fence.")
    with remember(*SAID, teller=teller) as memory:
        memory.summarize("t", user_id="ana", force=True)
        assert states(memory) == {
            "1,240": "left",
            SAID[1]: "told",
            SAID[2]: "left",
            "42": "lost",
        }
    with remember(*SAID, teller=teller, options=WITH_LIST) as memory:
        memory.summarize("t", user_id="ana", force=True)
        assert states(memory)["42"] == states(memory)["1,240"] == "listed"


def test_what_is_left_is_found_by_words_that_are_not_its_own():
    with remember(*SAID) as memory:
        memory.summarize("t", user_id="ana", force=True)
        left = memory.summary_record("t", user_id="ana").left
        assert left
        for fact in left:
            assert fact.words
            assert fact.text.casefold() not in fact.words.casefold()
            found = memory.recall(fact.words, user_id="ana", k=3)
            assert any(fact.text in block.text for block in found.blocks)


def test_it_counts_over_all_summaries_and_not_what_the_last_one_covers():
    with remember(
        SAID[0], teller=ScriptedSummarizer("A boiler for 1,240 euros.", "A fence.")
    ) as memory:
        memory.summarize("t", user_id="ana", force=True)
        assert states(memory) == {"1,240": "told"}
        say(memory, SAID[1])
        memory.summarize("t", user_id="ana", force=True)
        record = memory.summary_record("t", user_id="ana")
        assert {fact.text for fact in record.facts} == {"1,240", SAID[1]}
        assert record.covered == 4


def test_an_edited_summary_tells_what_its_new_text_tells():
    with remember(*SAID, options=WITH_LIST) as memory:
        memory.summarize("t", user_id="ana", force=True)
        history = memory.history("t", user_id="ana")
        history.edit_summary("The boiler repair costs 1,240 euros, and it is 42.")
        told = states(memory)
        assert (told["1,240"], told["42"]) == ("told", "told")
        assert told[SAID[1]] in ("left", "lost")  # its list of details went with the old text


def test_what_is_pinned_is_told():
    with remember(*SAID) as memory:
        memory.summarize("t", user_id="ana", force=True)
        assert states(memory)["42"] == "lost"
        pin = memory.history("t", user_id="ana").pin("It is 42.")
        assert states(memory)["42"] == "told"
        memory.history("t", user_id="ana").unpin(pin)
        assert states(memory)["42"] == "lost"


def test_a_promise_is_told_only_with_whose_it_is():
    with remember(SAID[1], teller=ScriptedSummarizer("The fence will be painted.")) as memory:
        memory.summarize("t", user_id="ana", force=True)
        assert states(memory)[SAID[1]] != "told"


def test_the_day_on_which_something_was_said_tells_no_date():
    today = datetime.now(UTC)
    moved = f"The sofa arrives on {today.day} {today:%B}."
    teller = ScriptedSummarizer(f"They talked.\n({today:%Y-%m-%d})\nOf a garden and a boiler.")
    with remember(moved, *SAID[:3], teller=teller) as memory:
        memory.summarize("t", user_id="ana", force=True)
        record = memory.summary_record("t", user_id="ana")
        assert [fact.state for fact in record.facts if fact.kind == "date"] == ["left"]


def test_what_is_forgotten_is_in_no_record():
    with remember(*SAID, options=WITH_LIST) as memory:
        memory.summarize("t", user_id="ana", force=True)
        assert len(states(memory)) == 4
        memory.forget(user_id="ana", thread_id="t")
        assert states(memory) == {}


def test_its_repr_and_dict_count_by_kind_and_quote_nothing():
    with remember(*SAID) as memory:
        memory.summarize("t", user_id="ana", force=True)
        record = memory.summary_record("t", user_id="ana")
    shown = f"{record!r} {record.facts!r} {json.dumps(record.to_dict())}"
    assert "promise 1 left; preference 1 left; price 1 left; number 1 lost" in shown
    assert not any(word in shown for word in ("1,240", "boiler", "fence", "olives", "42."))
    assert record.count()["price"] == {"told": 0, "listed": 0, "left": 1, "lost": 0}
    assert sum(len(part) for part in (record.told, record.listed, record.left, record.lost)) == 4


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("The boiler repair costs 1,240 euros.", "boiler repair costs"),
        ("Yesterday my visitor was Carla.", "visitor"),
        ("It is 42.", ""),
        ("The code of the red boat is XK-42.", "code red boat"),
    ],
)
def test_the_words_to_ask_for_are_those_around_a_fact(said, words):
    fact = find_kinds([FactSource(said, "User", 1)])[-1]
    assert pick_words(fact) == words


def test_a_saying_is_asked_for_by_at_most_half_of_its_words():
    [fact] = find_kinds([FactSource("I will paint the old garden fence next spring.", "User", 1)])
    words = pick_words(fact).split()
    assert words
    assert 2 * len(words) <= len(fact.sentence.split())
