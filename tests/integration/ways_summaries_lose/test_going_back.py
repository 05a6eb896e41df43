"""What is undone, replaced or forgotten while a summary is made, and summaries taken back."""

from dataclasses import replace
from functools import partial

import pytest
from summaries import ScriptedSummarizer

from langchain_convmem import ConversationMemory
from langchain_convmem.message_log import MessageLog
from langchain_convmem.summarizing import resummarize

CHANGES = {
    "forgotten": lambda thread: thread.memory.forget(
        user_id="ana", thread_id="t", entry_ids=[thread.history.entries[0].id]
    ),
    "all forgotten": lambda thread: thread.memory.forget(user_id="ana"),
    "undone": lambda thread: thread.history.undo(),
    "replaced": lambda thread: thread.history.replace(thread.history.turns[1].id, "Other."),
    "cleared": lambda thread: thread.history.clear(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_while_it_is_summarised_makes_the_summary_stale(thread, change):
    thread.talk(4)

    def meanwhile(request):
        CHANGES[change](thread)
        return request.transcript

    thread.summarizer.replies = [meanwhile, "A summary."]
    report = thread.summarize(force=True)
    assert (report.outcome, report.summary) == ("stale", None)
    assert report.problem
    assert set(thread.summaries) <= {"A summary."}
    thread.check()
    thread.memory.flush()  # who forgets has the rest compacted behind
    thread.talk(1, start=9)
    assert thread.summarize(force=True)
    assert set(thread.summaries) == {"A summary."}
    thread.check()


def test_a_summary_that_is_undone_while_the_next_one_is_made_leaves_that_as_it_is(thread):
    thread.talk(4)
    assert thread.summarize()
    thread.talk(3, start=4)
    thread.summarizer.replies = [lambda _: thread.history.undo_summary() and "Second.", "Again."]
    assert thread.summarize()
    assert thread.shown[:2] == ["Second.", "What about tea?"]
    thread.check()
    assert thread.summarize(force=True)
    assert [line for line in thread.shown[0].splitlines() if not line.startswith("(")] == [
        "Again.",
        "",
        "Second.",
        "",
        "Again.",
    ]
    thread.check()


def test_a_summary_can_be_written_anew_by_another_model(thread):
    thread.talk(4)
    assert thread.summarize()
    thread.talk(3, start=4)
    assert thread.summarize()
    first = thread.summaries[0]
    rest = thread.shown[1:]
    other = ScriptedSummarizer("In other words.")
    other.name = "other-model"
    report = resummarize(thread.memory, "t", user_id="ana", summarizer=other)
    assert report
    request = other.requests[0]
    assert request.previous == ""
    assert request.transcript in thread.summarizer.asked
    assert first in thread.shown[0]
    assert thread.shown[0].endswith("In other words.")
    assert thread.shown[1:] == rest
    assert report.summary.cover.model == "other-model"
    thread.check()
    thread.history.undo_summary()
    assert thread.shown[0] == first
    thread.check()


def test_forgetting_erases_every_summary_that_ever_told_of_it(thread):
    secret = "My secret word is hullabaloo."
    thread.say(secret, "Noted.")
    thread.talk(4)
    assert thread.summarize()
    assert resummarize(thread.memory, "t", user_id="ana")
    thread.history.undo_summary()
    assert thread.summarize(force=True)
    thread.talk(3, start=4)
    assert thread.summarize()  # tells what the one before told
    entry = next(one for one in thread.history.entries if secret in one.contents)
    thread.memory.forget(user_id="ana", thread_id="t", entry_ids=[entry.message_id])
    assert "hullabaloo" not in str(thread.history.entries)
    thread.check()


SECRET = "My secret word is marzipan."


@MessageLog.register
class LetsIn:
    """A log that lets something happen right before each of the first calls of a kind."""

    def __init__(self, log, name, *events, role=None):
        self._log = log
        self._names = (name, f"a{name}")
        self._events = list(events)
        self._role = role

    def __getattr__(self, name):
        method = getattr(self._log, name)
        return partial(self._called, method) if name in self._names else method

    def _called(self, method, key, given, **options):
        if self._events and self._role in (None, *(getattr(one, "role", None) for one in given)):
            self._events.pop(0)()
        return method(key, given, **options)


def forget_secret(thread, memory=None):
    """Forget it, by a memory that does not summarise in the background what is left."""
    memory = memory or ConversationMemory(thread.log)
    named = [one.id for one in thread.history.entries if SECRET in one.contents]
    return memory.forget(user_id="ana", thread_id="t", entry_ids=named)


@pytest.fixture
def telling(thread):
    """A thread in which a secret was said, among other things."""
    thread.say(SECRET, "Noted.")
    thread.talk(4)
    return thread


def test_a_summary_that_is_written_while_something_is_forgotten_is_erased_with_it(telling):
    def later():
        telling.talk(3, start=4)
        assert telling.summarize(force=True)

    log = LetsIn(telling.log, "forget", lambda: telling.summarize(force=True), later)
    receipt = forget_secret(telling, ConversationMemory(log))
    assert len(telling.summarizer.requests) == 2
    assert "marzipan" not in str(telling.history.entries)
    assert receipt.entries == 2
    assert len(telling.summaries) == 1  # of what was said later
    assert len(telling.history.entries) == 16
    telling.check()


FORGETTING = {
    "an entry": forget_secret,
    "the thread": lambda thread: thread.memory.forget(user_id="ana", thread_id="t"),
    "the user": lambda thread: thread.memory.forget(user_id="ana"),
}


WRITING = {
    "first": lambda memory: memory.summarize("t", user_id="ana", force=True),
    "anew": lambda memory: resummarize(memory, "t", user_id="ana"),
}


@pytest.mark.parametrize("what", FORGETTING)
@pytest.mark.parametrize("by", WRITING)
def test_what_is_forgotten_right_before_its_summary_is_written_is_not_told_by_it(telling, what, by):
    assert by == "first" or telling.summarize()
    log = LetsIn(telling.log, "append", lambda: FORGETTING[what](telling), role="summary")
    memory = ConversationMemory(log, summarizer=telling.summarizer)
    report = WRITING[by](memory)
    assert (report.outcome, report.summary) == ("stale", None)
    assert "marzipan" not in str(telling.history.entries)
    assert telling.summaries == []
    telling.check()


def test_what_is_undone_right_before_its_summary_is_written_is_not_told_by_it(telling):
    log = LetsIn(telling.log, "append", telling.history.clear, role="summary")
    report = WRITING["first"](ConversationMemory(log, summarizer=telling.summarizer))
    assert (report.outcome, telling.summaries) == ("stale", [])


def test_what_is_forgotten_right_before_a_parent_is_written_is_not_told_by_it(telling):
    settings = replace(telling.settings, tree_tokens=32)
    memory = telling.with_summarizer(telling.summarizer, summary_settings=settings)
    assert telling.summarize(force=True)
    for number in (4, 6):
        telling.talk(2, start=number)
        assert telling.summarize(force=True)
    log = LetsIn(telling.log, "append", lambda: forget_secret(telling), role="summary")
    memory = ConversationMemory(log, summarizer=telling.summarizer, summary_settings=settings)
    assert not memory.summarize("t", user_id="ana")
    assert "marzipan" not in str(telling.history.entries)
    assert len(telling.summaries) in (2, 3)  # the gap may have been compacted behind
    telling.check()
