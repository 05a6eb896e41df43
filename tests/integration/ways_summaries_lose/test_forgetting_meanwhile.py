"""Something is forgotten at the very moment in which a summary that tells of it is written."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from langchain_convmem import ConversationMemory
from langchain_convmem.message_log import MessageLog
from langchain_convmem.summarizing import resummarize

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


def named(thread):
    """Return the ids of the entries that tell the secret."""
    return [one.id for one in thread.history.entries if SECRET in one.contents]


def forget_secret(thread, memory=None):
    """Forget it, by a memory that does not summarise in the background what is left."""
    memory = memory or ConversationMemory(thread.log)
    return memory.forget(user_id="ana", thread_id="t", entry_ids=named(thread))


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
