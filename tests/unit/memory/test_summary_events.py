"""What an application and a model are told of compactions, and how these go on after an outage."""

from __future__ import annotations

import logging
from dataclasses import asdict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from scripted_chat import WAYS, ProviderError, ScriptedChatModel, at
from summaries import ScriptedSummarizer, bare

from langchain_convmem import (
    ConversationMemory,
    InMemoryLog,
    SummaryEvent,
    SummaryReport,
    SummarySettings,
)
from langchain_convmem.errors import ConfigError
from langchain_convmem.ids import get_now_ms
from langchain_convmem.records import ThreadKey
from langchain_convmem.summarizing import aresummarize
from langchain_convmem.summarizing.compactor import list_events
from langchain_convmem.views.context import LEFT_OUT_TEXT, NOTED_TEXT, is_framing

KEY = ThreadKey("ana", "t")
SETTINGS = SummarySettings(
    trigger=("messages", 4), keep=("messages", 2), max_summary_tokens=4000, first_pause_s=3600
)
OUTAGE = ProviderError("overloaded")


def summarising(summarizer, **options):
    return ConversationMemory(
        InMemoryLog(),
        summarizer=summarizer,
        **{"summary_settings": SETTINGS, "summarize_when": "foreground", **options},
    )


def chat(memory, *texts, way="invoke", model=None, **options):
    model = model or ScriptedChatModel(replies=["Fine."])
    chain = memory.wrap(model, recall=False, **options)
    for text in texts:
        WAYS[way](chain, text, at())
    return model


def kinds(events):
    return [event.kind for event in events]


# -- events ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["foreground", "background"])
@pytest.mark.parametrize("way", ["invoke", "astream"])
def test_the_application_is_told_what_was_compacted(when, way):
    events = []
    with summarising(ScriptedSummarizer(), summarize_when=when, on_summary=events.append) as memory:
        chat(memory, "one", "two", way=way)
        assert memory.flush(20)
    assert events == [SummaryEvent(key=KEY, kind="compacted", covered=2, calls=1)]


def test_a_failure_is_told_once_and_not_again_while_the_thread_rests():
    events = []
    with summarising(ScriptedSummarizer(OUTAGE), on_summary=events.append) as memory:
        chat(memory, "one", "two", "three")
        assert memory.summarize("t", user_id="ana").outcome == "resting"
    assert kinds(events) == ["failed"]
    assert {event.key for event in events} == {KEY}
    assert "ProviderError" in events[0].problem


async def test_what_is_asked_for_is_told_too():
    events = []
    async with summarising(ScriptedSummarizer(), on_summary=events.append) as memory:
        memory.add_messages(["one", AIMessage("Fine.")], thread_id="t", user_id="ana")
        assert await memory.asummarize("t", user_id="ana", force=True)
        assert await aresummarize(memory, "t", user_id="ana")
    assert kinds(events) == ["compacted", "compacted"]


def test_an_event_counts_and_quotes_nothing():
    report = SummaryReport(
        key=KEY,
        outcome="written",
        covered=6,
        calls=2,
        tokens_read=900,
        tokens_written=80,
        seconds=1.5,
        facts=7,
        in_text=3,
        listed=1,
        left=3,
        missing_sections=("Decisions",),
        doubted=("She paints.", "She has a boat."),
    )
    [event] = list_events(report)
    assert asdict(event) == {
        "key": asdict(KEY),
        "kind": "compacted",
        "problem": "",
        "next_attempt_ms": 0,
        "covered": 6,
        "folded": 0,
        "calls": 2,
        "tokens_read": 900,
        "tokens_written": 80,
        "seconds": 1.5,
        "facts": 7,
        "in_text": 3,
        "listed": 1,
        "left": 3,
        "missing_sections": 1,
        "doubted": 2,
    }


def test_an_event_tells_what_the_model_took_and_after_a_failure_when_it_is_asked_again():
    usage = {"input_tokens": 70, "output_tokens": 9, "total_tokens": 79}
    model = ScriptedChatModel(replies=[AIMessage("They talked.", usage_metadata=usage)])
    events = []
    with summarising(model, on_summary=events.append) as memory:
        chat(memory, "one", "two")
    assert (events[0].tokens_read, events[0].tokens_written) == (70, 9)
    assert events[0].seconds > 0
    assert events[0].next_attempt_ms == 0
    events.clear()
    with summarising(ScriptedSummarizer(OUTAGE), on_summary=events.append) as memory:
        chat(memory, "one", "two")
    assert kinds(events) == ["failed"]
    assert events[0].next_attempt_ms > get_now_ms()


def test_a_summary_and_the_failure_of_the_next_are_both_told():
    report = SummaryReport(key=KEY, outcome="written", problem="no answer")
    assert kinds(list_events(report)) == ["compacted", "failed"]


def test_where_nothing_is_due_nothing_is_told():
    events = []
    with summarising(ScriptedSummarizer(), on_summary=events.append) as memory:
        chat(memory, "one")
        assert memory.summarize("t", user_id="ana").outcome == "not_due"
    assert events == []


def test_what_the_callback_raises_is_logged_and_the_summary_stands(caplog):
    def fail(event):
        raise ConnectionError("no dashboard")

    with summarising(ScriptedSummarizer(), on_summary=fail) as memory:
        with caplog.at_level(logging.ERROR, logger="langchain_convmem"):
            chat(memory, "one", "two")
        assert "could not hand over the events" in caplog.text
        assert memory.history("t", user_id="ana").last_summary is not None


async def _tell(event):
    raise AssertionError


@pytest.mark.parametrize("wrong", ["print", 3, _tell])
def test_a_callback_that_cannot_be_called_is_refused(wrong):
    with pytest.raises(ConfigError, match="on_summary"):
        ConversationMemory(InMemoryLog(), on_summary=wrong)


# -- while a summariser fails ---------------------------------------------------------------------

LONG = "This is a long message that tells nothing worth keeping. " * 4


SMALL = SummarySettings(
    trigger=("tokens", 200), keep=("tokens", 100), max_summary_tokens=60, first_pause_s=3600
)


@pytest.mark.parametrize("reply", ["I'm sorry, I can't help with that.", OUTAGE])
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_a_summariser_that_fails_is_not_asked_at_every_turn_and_the_first_answer_compacts(
    reply, way
):
    summarizer = ScriptedSummarizer(reply, "They talked of a message that tells nothing.")
    with summarising(summarizer, summary_settings=SMALL) as memory:
        for number in range(12):
            chat(memory, f"{number}: {LONG}", way=way, context_tokens=600)
        history = memory.history("t", user_id="ana")
        assert history.context(max_tokens=600).left_out > 0
        assert len(summarizer.requests) == 1
        assert memory.summarize("t", user_id="ana", force=True)
        assert history.context(max_tokens=600).left_out == 0


# -- what a model is told of what it does not see -------------------------------------------------


def test_a_model_is_told_of_messages_that_it_neither_sees_nor_has_summarised():
    with summarising(ScriptedSummarizer(OUTAGE)) as memory:
        model = ScriptedChatModel(replies=["Fine."])
        for number in range(12):
            chat(memory, f"{number}: {LONG}", model=model, context_tokens=600)
        view = memory.history("t", user_id="ana").context(max_tokens=600)
    for number, asked in enumerate(model.seen):
        framing = [bare(one.text) for one in asked if is_framing(one)]
        is_cut = 2 * number + 1 > len(asked) - len(framing)
        assert framing == [LEFT_OUT_TEXT, NOTED_TEXT] * is_cut
    assert view.left_out == 24 - (len(view.messages) - 2)
    assert bare(view.messages[0].text) == LEFT_OUT_TEXT


def test_where_a_summary_covers_what_is_cut_no_such_line_stands():
    summarizer = ScriptedSummarizer("They talked of a message that tells nothing.")
    settings = SummarySettings(
        trigger=("tokens", 200), keep=("tokens", 100), max_summary_tokens=60, first_pause_s=3600
    )
    with summarising(summarizer, summary_settings=settings) as memory:
        model = ScriptedChatModel(replies=["Fine."])
        for number in range(12):
            chat(memory, f"{number}: {LONG}", model=model, context_tokens=600)
        view = memory.history("t", user_id="ana").context(max_tokens=600)
    assert view.left_out == 0
    told = "\n".join(message.text for asked in model.seen for message in asked)
    assert "neither shown nor summarised" not in told


def test_a_prompt_with_a_place_for_the_summary_gets_pins_and_the_line_there():
    prompt = ChatPromptTemplate(
        [
            ("system", "So far: {summary}"),
            MessagesPlaceholder("history"),
            MessagesPlaceholder("input"),
        ]
    )
    model = ScriptedChatModel(replies=["Fine."])
    with ConversationMemory(InMemoryLog()) as memory:
        memory.history("t", user_id="ana").pin("Answer in French.")
        chain = memory.wrap(prompt | model, recall=False, context_tokens=400)
        for number in range(8):
            chain.invoke(f"{number}: {LONG}", at())
    first, *_, last = (asked[0].text for asked in model.seen)
    assert first == "So far: Pinned, word for word:\n- Answer in French."
    assert last.startswith(first)
    assert "neither shown nor summarised" in last
    assert all(len(asked[0].text.split("Pinned")) == 2 for asked in model.seen)


@pytest.mark.parametrize("way", ["invoke", "astream"])
def test_pins_are_in_every_context_of_a_chain(way):
    with summarising(ScriptedSummarizer()) as memory:
        chat(memory, "I am allergic to penicillin.", way=way)
        memory.history("t", user_id="ana").pin("I am allergic to penicillin.")
        model = chat(memory, "two", "three", "four", way=way, context_tokens=4000)
    for asked in model.seen:
        assert "I am allergic to penicillin." in asked[0].text
        assert asked[0].text.count("Pinned, word for word:") == 1


def test_a_thread_without_a_budget_leaves_nothing_out():
    with ConversationMemory(InMemoryLog()) as memory:
        chat(memory, *map(str, range(30)))
        view = memory.history("t", user_id="ana").context()
    assert (view.left_out, len(view.messages)) == (0, 60)
    assert all(isinstance(one, HumanMessage | AIMessage) for one in view.messages)
