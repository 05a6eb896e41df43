"""Wrapped chains of a memory that summarises: in the background, within the turn, or by a queue."""

from __future__ import annotations

import asyncio
import pickle
import threading
from dataclasses import replace
from functools import partial

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from scripted_chat import WAYS, FailingLog, ProviderError, ScriptedChatModel, at
from summaries import ScriptedSummarizer, bare

from langchain_convmem import ConversationMemory, InMemoryLog, SummarySettings
from langchain_convmem.errors import ConfigError
from langchain_convmem.offline import ExtractiveSummarizer
from langchain_convmem.records import ThreadKey
from langchain_convmem.summarizing import aresummarize, resummarize
from langchain_convmem.turns.memory import get_turn_memory
from langchain_convmem.views.models import ModelFacts

KEY = ThreadKey("ana", "t")
SETTINGS = SummarySettings(
    trigger=("messages", 4), keep=("messages", 2), max_summary_tokens=4000, first_pause_s=0.001
)


def summarising(when, summarizer=None, log=None, **options):
    return ConversationMemory(
        log or InMemoryLog(),
        summarizer=summarizer or ScriptedSummarizer(),
        summary_settings=options.pop("settings", SETTINGS),
        summarize_when=when,
        **options,
    )


def chat(memory, *texts, way="invoke", model=None):
    chain = memory.wrap(model or ScriptedChatModel(replies=["Fine."]), recall=False)
    for text in texts:
        WAYS[way](chain, text, at())


def last(memory):
    return memory.history("t", user_id="ana").last_summary


@pytest.mark.parametrize("when", ["background", "foreground"])
@pytest.mark.parametrize("way", ["invoke", "astream"])
def test_errors_of_a_summariser_never_reach_the_chat(when, way):
    broken = ScriptedSummarizer(ProviderError("overloaded"))
    with summarising(when, broken) as memory:
        chat(memory, "one", "two", "three", way=way)
        assert memory.flush(20)
        assert broken.requests
        assert last(memory) is None
        assert len(memory.history("t", user_id="ana").messages) == 6


RESTING = SummarySettings(
    trigger=("messages", 4), keep=("messages", 2), max_summary_tokens=4000, first_pause_s=3600
)


class UntilCancelled(ScriptedSummarizer):
    """Works on its first summary until it is cancelled."""

    def __init__(self):
        super().__init__()
        self.began = asyncio.Event()

    async def asummarize(self, request):
        if not self.began.is_set():
            self.began.set()
            await asyncio.Event().wait()
        return self.summarize(request)


async def test_a_summary_that_is_cancelled_is_no_failure_of_its_model():
    summarizer = UntilCancelled()
    async with summarising("background", summarizer, settings=RESTING) as memory:
        said = ["one", AIMessage("Fine."), "two", AIMessage("Fine.")]
        memory.add_messages(said, thread_id="t", user_id="ana")
        compaction = asyncio.create_task(memory.asummarize("t", user_id="ana"))
        await summarizer.began.wait()
        compaction.cancel()
        with pytest.raises(asyncio.CancelledError):
            await compaction
        assert await memory.asummarize("t", user_id="ana")


async def test_a_turn_that_is_cancelled_in_its_summary_keeps_its_reply_and_frees_the_thread():
    summarizer = UntilCancelled()
    async with summarising("foreground", summarizer, settings=RESTING) as memory:
        chain = memory.wrap(ScriptedChatModel(replies=["Fine."]), recall=False)
        await chain.ainvoke("one", at())
        turn = asyncio.create_task(chain.ainvoke("two", at()))
        await summarizer.began.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert len(memory.history("t", user_id="ana").messages) == 4
        assert await memory.asummarize("t", user_id="ana")


# -- coroutine functions ------------------------------------------------------------------------


async def summarise(messages):
    return messages[-1].text


@pytest.mark.parametrize(
    "asynchronous", [{"summarizer": summarise}, {"settings": replace(SETTINGS, judge=summarise)}]
)
async def test_an_async_summariser_or_judge_is_awaited_or_refused_at_once(asynchronous):
    async with summarising("background", **asynchronous) as memory:
        memory.add_messages(["one", AIMessage("Fine.")], thread_id="t", user_id="ana")
        before = memory.log.entries(KEY)
        for call in (partial(memory.summarize, force=True), partial(resummarize, memory)):
            with pytest.raises(ConfigError, match="asummarize, aresummarize, ainvoke"):
                call("t", user_id="ana")
        assert memory.log.entries(KEY) == before
        assert memory.log.get_state(KEY, "summary:lease") is None
        assert await memory.asummarize("t", user_id="ana", force=True)
        assert await aresummarize(memory, "t", user_id="ana")


@pytest.mark.parametrize("way", WAYS)
def test_a_turn_whose_summary_nothing_could_await_is_refused_before_it_is_stored(way):
    with summarising("foreground", summarise) as memory:
        if way in ("invoke", "stream", "batch"):
            with pytest.raises(ConfigError, match="ainvoke"):
                chat(memory, "one", way=way)
            assert memory.log.entries(KEY) == []
        else:
            chat(memory, "one", "two", way=way)
            assert "one" in last(memory).contents[0]


async def test_a_synchronous_turn_whose_rewriter_nothing_could_await_stores_nothing():
    with ConversationMemory.open(":memory:", rewriter=summarise) as memory:
        chain = memory.wrap(ScriptedChatModel(replies=["Fine."]))
        with pytest.raises(ConfigError, match="the rewriter is a coroutine function"):
            chain.invoke("one", at())
        assert memory.log.entries(KEY) == []
        assert memory.wrap(ScriptedChatModel(replies=["Fine."]), recall=False).invoke("one", at())


def test_behind_turns_an_async_summariser_runs_whatever_the_turns_are():
    with summarising("background", summarise) as memory:
        chat(memory, "one", "two")
        assert memory.flush(20)
        assert "one" in last(memory).contents[0]


def test_a_summariser_that_is_replaced_meanwhile_still_signs_what_it_wrote():
    def take_over(message):
        if message.type == "system":  # the summary, on its way into the log
            get_turn_memory(memory).use_model(ModelFacts.read(ScriptedChatModel(replies=["Hi."])))
        return message

    with summarising("foreground", "auto", before_write=take_over) as memory:
        memory.add_messages(["one", AIMessage("Fine.")], thread_id="t", user_id="ana")
        report = memory.summarize("t", user_id="ana", force=True)
        assert report.summary.cover.model == "extractive"
        report = resummarize(memory, "t", user_id="ana")
        assert report.summary.cover.model == "ScriptedChatModel"


def test_a_summary_that_a_signal_stops_is_no_failure_of_its_model():
    stopped = ScriptedSummarizer(KeyboardInterrupt(), lambda request: request.transcript)
    with summarising("foreground", stopped, settings=RESTING) as memory:
        chat(memory, "one")
        with pytest.raises(KeyboardInterrupt):
            chat(memory, "two")
        chat(memory, "three")
        assert last(memory) is not None


@pytest.mark.parametrize("way", ["invoke", "stream", "ainvoke", "astream"])
def test_a_log_that_fails_under_a_summary_does_not_take_the_reply_away(way):
    log = FailingLog(InMemoryLog(), fails_at=5)  # behind two turns of two appends
    memory = summarising("foreground", log=log)
    chat(memory, "one", "two", way=way)
    assert last(memory) is None
    chat(memory, "three", way=way)
    assert last(memory) is not None


def test_a_turn_does_not_wait_for_a_summary_in_the_background():
    may_end = threading.Event()

    def slow(request):
        assert may_end.wait(20)
        return request.transcript

    with summarising("background", ScriptedSummarizer(slow)) as memory:
        chat(memory, "one", "two", "three", "four")  # all answered while the summary waits
        assert last(memory) is None
        assert not memory.flush(0)
        may_end.set()
        assert memory.flush(20)
        assert last(memory) is not None
        model = ScriptedChatModel(replies=["Fine."])
        chat(memory, "five", model=model)
        assert "\n".join(bare(one.text) for one in model.seen[0]).count("three") == 1


async def test_waiting_for_summaries_does_not_block_the_loop():
    may_end = threading.Event()
    slow = ScriptedSummarizer(lambda request: may_end.wait(20) and request.transcript)
    async with summarising("background", slow) as memory:
        chain = memory.wrap(ScriptedChatModel(replies=["Fine."]), recall=False)
        for text in ("one", "two"):
            await chain.ainvoke(text, at())
        waiting = asyncio.create_task(memory.aflush())
        await asyncio.sleep(0)
        may_end.set()
        assert await waiting
        assert last(memory) is not None


def test_closing_finishes_the_summary_in_the_making(tmp_path):
    began, may_end = threading.Event(), threading.Event()

    def slow(request):
        began.set()
        assert may_end.wait(20)
        return request.transcript

    options = {"summarizer": ScriptedSummarizer(slow), "summary_settings": SETTINGS}
    memory = ConversationMemory.open(tmp_path / "memory.db", **options)
    chat(memory, "one", "two")
    assert began.wait(20)
    closer = threading.Thread(target=memory.close)
    closer.start()
    may_end.set()
    closer.join(20)
    assert not closer.is_alive()
    with ConversationMemory.open(tmp_path / "memory.db") as again:
        assert last(again) is not None


def test_a_memory_without_a_summariser_compacts_nothing():
    with ConversationMemory(InMemoryLog()) as memory:
        chat(memory, *["word " * 3000] * 3)
        assert memory.flush(0)
        assert last(memory) is None
        with pytest.raises(ConfigError, match="no summarizer"):
            memory.summarize("t", user_id="ana")


def test_the_write_hook_stands_before_summaries_too():
    def redact(message):
        return message.model_copy(update={"content": message.text.replace("4242", "[number]")})

    teller = ScriptedSummarizer(lambda request: f"{request.transcript}\n4242")
    with summarising("foreground", teller, before_write=redact) as memory:
        chat(memory, "4242 is my number.", "two")
        kept = last(memory).contents
        assert "[number] is my number." in kept[0]
        assert not any("4242" in piece for piece in kept)


def test_a_hook_that_stores_nothing_of_a_summary_lets_nothing_be_covered():
    def only_talk(message):
        return None if message.type == "system" else message

    with summarising("foreground", before_write=only_talk) as memory:
        chat(memory, "one", "two", "three")
        assert last(memory) is None
        assert len(memory.history("t", user_id="ana").messages) == 6


# -- options ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"summarizer": 7}, "summarizer"),
        ({"summarizer": ExtractiveSummarizer}, "summarizer"),
        ({"summarizer": ExtractiveSummarizer(), "summarize_when": "later"}, "later"),
    ],
)
def test_options_that_fit_nothing_are_refused_before_anything_is_opened(tmp_path, options, reason):
    with pytest.raises(ConfigError, match=reason):
        ConversationMemory.open(tmp_path / "memory.db", **options)
    assert list(tmp_path.iterdir()) == []


def test_a_pickled_memory_keeps_its_summariser_and_when_to_use_it(tmp_path):
    options = {
        "summarizer": ExtractiveSummarizer(),
        "summary_settings": SETTINGS,
        "summarize_when": "foreground",
    }
    with ConversationMemory.open(tmp_path / "memory.db", **options) as memory:
        chat(memory, "one")
        with pickle.loads(pickle.dumps(memory)) as again:  # noqa: S301 - our own
            chat(again, "two")
            assert last(again).contents[0]
        assert last(memory) is not None


def test_the_record_of_a_summary_says_what_became_of_each_fact():
    teller = ScriptedSummarizer("They met Carla on 8 May.")
    with summarising("foreground", teller) as memory:
        said = [
            HumanMessage("I met Carla on 8 May at 12:30."),
            AIMessage("Fine."),
            HumanMessage("It is 42."),
        ]
        memory.add_messages([*said, AIMessage("Ok.")], thread_id="t", user_id="ana")
        report = memory.summarize("t", user_id="ana", force=True)
    assert (report.facts, report.in_text, report.listed, report.left) == (3, 1, 2, 0)
    assert (report.covered, report.calls) == (4, 1)
    record = report.summary.metadata.aux["summary"]
    days = record.pop("days")
    assert days[0] == days[1]
    assert record == {
        "level": 0,
        "facts": 3,
        "in_text": 1,
        "listed": 2,
        "left": 0,
    }
    assert report.summary.cover.model == "scripted"


@pytest.mark.parametrize(("room", "expected"), [(0, (0, 2)), (300, (2, 0))])
def test_what_is_not_listed_is_counted_as_left(room, expected):
    settings = SummarySettings(trigger=("messages", 4), keep=("messages", 2), facts_tokens=room)
    teller = ScriptedSummarizer("They met Carla.")
    with summarising("foreground", teller, settings=settings) as memory:
        said = [HumanMessage("I met Carla at 12:30."), AIMessage("The answer to it is 42.")]
        memory.add_messages(said, thread_id="t", user_id="ana")
        report = memory.summarize("t", user_id="ana", force=True)
    assert (report.listed, report.left) == expected
