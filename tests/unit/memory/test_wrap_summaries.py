from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from functools import partial

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from scripted_chat import WAYS, FailingLog, ProviderError, ScriptedChatModel, at, texts
from summaries import ScriptedSummarizer, bare, bare_texts

from langchain_convmem import ConversationMemory, InMemoryLog, SQLiteLog, SummaryEvent
from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.offline import ExtractiveSummarizer
from langchain_convmem.records import ThreadKey
from langchain_convmem.summarizing import SummarySettings, aresummarize, resummarize
from langchain_convmem.views.context import LEFT_OUT_TEXT, is_framing
from langchain_convmem.views.messages import NOTED_TEXT

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


def chat(memory, *texts, way="invoke", model=None, **options):
    model = model or ScriptedChatModel(replies=["Fine."])
    chain = memory.wrap(model, recall=False, **options)
    for text in texts:
        WAYS[way](chain, text, at())
    return model


def last(memory):
    return memory.history("t", user_id="ana").last_summary


WHENS = pytest.mark.parametrize("when", ["background", "foreground"])


@WHENS
@pytest.mark.parametrize("way", ["invoke", "astream"])
def test_errors_of_a_summariser_never_reach_the_chat(when, way):
    broken = ScriptedSummarizer(ProviderError("overloaded"))
    with summarising(when, broken) as memory:
        chat(memory, "one", "two", "three", way=way)
        assert memory.flush(20)
        assert broken.requests
        assert last(memory) is None
        assert len(texts(memory)) == 6


RESTING = replace(SETTINGS, first_pause_s=3600)


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
def test_a_coroutine_summarises_after_turns_of_all_kinds(way):
    with summarising("foreground", summarise) as memory:
        chat(memory, "one", "two", way=way)
        assert "one" in last(memory).contents[0]


async def test_a_synchronous_turn_whose_rewriter_nothing_could_await_stores_nothing():
    with ConversationMemory.open(":memory:", rewriter=summarise) as memory:
        chain = memory.wrap(ScriptedChatModel(replies=["Fine."]))
        with pytest.raises(ConfigError, match="the rewriter is a coroutine function"):
            chain.invoke("one", at())
        assert memory.log.entries(KEY) == []
        assert memory.wrap(ScriptedChatModel(replies=["Fine."]), recall=False).invoke("one", at())


@pytest.mark.parametrize("way", ["invoke", "stream", "ainvoke", "astream"])
def test_a_log_that_fails_under_a_summary_does_not_take_the_reply_away(way):
    log = FailingLog(InMemoryLog(), fails_at=5)  # behind two turns of two appends
    memory = summarising("foreground", log=log)
    chat(memory, "one", "two", way=way)
    assert last(memory) is None
    chat(memory, "three", way=way)
    assert last(memory) is not None


class Slow(ScriptedSummarizer):
    """Tells when it has begun, and ends its first summary when it may."""

    def __init__(self):
        super().__init__()
        self.began, self.may_end = threading.Event(), threading.Event()

    def summarize(self, request):
        self.began.set()
        assert self.may_end.wait(20)
        return super().summarize(request)


async def test_a_turn_that_is_cancelled_in_its_summary_keeps_its_reply_and_frees_the_thread():
    slow = Slow()
    async with summarising("foreground", slow) as memory:
        chain = memory.wrap(ScriptedChatModel(replies=["Fine."]), recall=False)
        await chain.ainvoke("one", at())
        turn = asyncio.create_task(chain.ainvoke("two", at()))
        await asyncio.to_thread(slow.began.wait, 20)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert len(texts(memory)) == 4
        slow.may_end.set()
        assert await memory.aflush(20)
        assert last(memory) is not None


def test_a_turn_does_not_wait_for_a_summary_in_the_background():
    slow = Slow()
    with summarising("background", slow) as memory:
        chat(memory, "one", "two", "three", "four")  # all answered while the summary waits
        assert last(memory) is None
        assert not memory.flush(0)
        slow.may_end.set()
        assert memory.flush(20)
        assert last(memory) is not None
        model = ScriptedChatModel(replies=["Fine."])
        chat(memory, "five", model=model)
        assert "\n".join(bare(one.text) for one in model.seen[0]).count("three") == 1


def test_closing_finishes_the_summary_in_the_making(tmp_path):
    slow = Slow()
    memory = summarising("background", slow, log=SQLiteLog(tmp_path / "memory.db"))
    chat(memory, "one", "two")
    assert slow.began.wait(20)
    closer = threading.Thread(target=memory.close)
    closer.start()
    slow.may_end.set()
    closer.join(20)
    assert not closer.is_alive()
    with ConversationMemory.open(tmp_path / "memory.db") as again:
        assert last(again) is not None


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


@WHENS
@pytest.mark.parametrize("way", ["invoke", "astream"])
def test_the_application_is_told_what_was_compacted(when, way):
    events = []
    with summarising(when, on_summary=events.append) as memory:
        chat(memory, "one", "two", way=way)
        assert memory.flush(20)
    assert events == [SummaryEvent(key=KEY, kind="compacted", covered=2, calls=1)]


LONG = "This is a long message that tells nothing worth keeping. " * 4


def test_a_model_is_told_of_messages_that_it_neither_sees_nor_has_summarised():
    broken, events = ScriptedSummarizer(ProviderError("overloaded")), []
    tells = {"on_summary": events.append}
    with summarising("foreground", broken, settings=RESTING, **tells) as memory:
        model = ScriptedChatModel(replies=["Fine."])
        for number in range(12):
            chat(memory, f"{number}: {LONG}", model=model, context_tokens=600)
        view = memory.history("t", user_id="ana").context(max_tokens=600)
    for number, asked in enumerate(model.seen):
        framing = [bare(one.text) for one in asked if is_framing(one)]
        is_cut = 2 * number + 1 > len(asked) - len(framing)
        assert framing == [LEFT_OUT_TEXT, NOTED_TEXT] * is_cut
    assert (view.is_cut, view.tokens <= 600) == (True, True)
    assert bare(view.messages[0].text) == LEFT_OUT_TEXT
    assert ([event.kind for event in events], len(broken.requests)) == (["failed"], 1)


def test_the_model_sees_the_summary_or_what_it_covers():
    seen: list[str] = []
    is_due = threading.Event()

    def answer(payload):
        seen[:] = [message.text for message in payload["messages"]]
        calls = [{"name": "send", "args": {}, "id": "c1"}] if seen[-1] == "Send it." else []
        return AIMessage("" if calls else "Noted.", tool_calls=calls)

    def summarize(messages):
        is_due.wait(5)
        return " ".join(message.text for message in messages if message.type == "human")

    with summarising("background", summarize) as memory:
        chain = memory.wrap(RunnableLambda(answer), recall=False)
        for number in range(4):
            chain.invoke(f"Fact {number}.", at())
        chain.invoke("Send it.", at())
        is_due.set()
        memory.flush()  # the summary is there now, and the call is still open
        chain.invoke([ToolMessage("sent", tool_call_id="c1")], at())
    shown = "\n".join(seen)
    assert all(f"Fact {number}." in shown for number in range(4))
    assert seen[-1] == "sent"


def test_a_summary_that_is_sent_back_is_not_stored_as_what_somebody_said():
    with summarising("foreground") as memory:
        chat(memory, "one", "two", "three")
        history = memory.history("t", user_id="ana")
        told = history.messages
        for said in (told[:2], HumanMessage("one", id=told[0].id)):
            with pytest.raises(InvalidMessageError):
                chat(memory, said)
        history.add_messages(told)
        chat(memory, [*told, HumanMessage("four")])
        users = [entry.contents[0] for entry in history.entries if entry.role == "user"]
    assert users == ["one", "two", "three", "four"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("text", ["Where is the boat?", "Where is the bike?"])
def test_a_question_that_a_summary_covers_is_answered_once_more(way, text):
    """Neither the summary that tells of it is shown, nor what followed."""
    model = ScriptedChatModel(replies=["In the shed.", "On the lake.", "At the pier."])
    with summarising("foreground", settings=replace(SETTINGS, trigger=("messages", 9))) as memory:
        chain = memory.wrap(model, recall=False)
        for name, said in (("a", "Where is the car?"), ("b", "Where is the boat?")):
            chain.invoke(HumanMessage(said, id=name), at())
        assert memory.summarize("t", user_id="ana", force=True)
        WAYS[way](chain, [HumanMessage(text, id="b")], at())
        assert bare_texts(model.seen[2]) == ["Where is the car?", "In the shed.", text]
        memory.history("t", user_id="ana").undo_summary()
        assert texts(memory) == [*bare_texts(model.seen[2]), "At the pier."]
