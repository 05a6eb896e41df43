"""A record says of every fact where it is."""

from __future__ import annotations

import asyncio
import json

from langchain_core.messages import AIMessage
from summaries import ScriptedSummarizer

from langchain_convmem import ConversationMemory, InMemoryLog, SummarySettings
from langchain_convmem.summarizing import asummary_record, summary_record

NO_LIST = SummarySettings(facts_tokens=0, retries=0)
WITH_LIST = SummarySettings(facts_tokens=300, retries=0)
SAID = (
    "The boiler repair costs 1,240 euros.",
    "The garden fence is painted on 8 May.",
    "The code of the olive press is XK-42.",
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
    record = summary_record(memory, "t", user_id="ana")
    assert asyncio.run(asummary_record(memory, "t", user_id="ana")) == record
    return {fact.text: fact.state for fact in record.facts}


def test_a_thread_without_a_summary_has_an_empty_record():
    with remember(*SAID) as memory:
        record = summary_record(memory, "t", user_id="ana")
        assert (record.facts, record.summaries, record.covered) == ((), 0, 0)
        assert repr(record) == "SummaryRecord(thread 't', 0 entries in 0)"
        assert summary_record(memory, "nobody", user_id="ana").facts == ()


def test_a_fact_is_told_listed_or_left():
    teller = ScriptedSummarizer("The fence is painted on 2026-05-08.", "On 8 May.")
    with remember(*SAID, teller=ScriptedSummarizer("The fence: 8 May.")) as memory:
        memory.summarize("t", user_id="ana", force=True)
        assert states(memory) == {
            "1,240 euros": "left",
            "8 May": "told",
            "XK-42": "left",
            "42": "left",
        }
    with remember(*SAID, teller=teller, options=WITH_LIST) as memory:
        memory.summarize("t", user_id="ana", force=True)
        assert states(memory) == {
            "1,240 euros": "listed",
            "8 May": "told",
            "XK-42": "listed",
            "42": "listed",
        }


def test_what_is_pinned_is_told():
    with remember(*SAID) as memory:
        memory.summarize("t", user_id="ana", force=True)
        assert states(memory)["42"] == "left"
        pin = memory.history("t", user_id="ana").pin("It is 42.")
        assert states(memory)["42"] == "told"
        memory.history("t", user_id="ana").unpin(pin)
        assert states(memory)["42"] == "left"


def test_what_is_forgotten_is_in_no_record():
    with remember(*SAID, options=WITH_LIST) as memory:
        memory.summarize("t", user_id="ana", force=True)
        assert len(states(memory)) == 4
        memory.forget(user_id="ana", thread_id="t")
        assert states(memory) == {}


def test_its_repr_and_dict_count_by_kind_and_quote_nothing():
    with remember(*SAID) as memory:
        memory.summarize("t", user_id="ana", force=True)
        record = summary_record(memory, "t", user_id="ana")
    shown = f"{record!r} {record.facts!r} {json.dumps(record.to_dict())}"
    assert "amount 1 left; date 1 left; id 1 left; number 1 left" in shown
    assert not any(word in shown for word in ("1,240", "boiler", "fence", "XK", "42."))
    assert record.count()["amount"] == {"told": 0, "listed": 0, "left": 1}
