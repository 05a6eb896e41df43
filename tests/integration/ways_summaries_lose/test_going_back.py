"""What is undone, replaced or forgotten while a summary is made, and summaries taken back."""

from __future__ import annotations

import pytest
from summaries import ScriptedSummarizer

from langchain_convmem.errors import StaleWindowError
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


def test_taking_back_a_summary_shows_everything_again(thread):
    thread.talk(4)
    before = thread.shown
    assert thread.summarize()
    assert thread.shown != before
    thread.history.undo_summary()
    assert thread.shown == before
    assert thread.summarize().outcome == "not_due"
    assert thread.shown == before
    assert thread.summarize(force=True)
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


def test_a_newer_summary_is_not_put_aside_by_an_older_one_written_anew(thread):
    thread.talk(4)
    assert thread.summarize()

    def meanwhile(request):
        thread.talk(2, start=4)
        window = thread.history.summary_window()
        thread.history.add_summary("Newer.", window)
        return request.transcript

    thread.summarizer.replies = [meanwhile]
    assert resummarize(thread.memory, "t", user_id="ana").outcome == "stale"
    assert thread.shown[0] == "Newer."
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


def test_a_window_taken_by_hand_is_stale_once_the_memory_has_summarised(thread):
    thread.talk(4)
    window = thread.history.summary_window()
    assert thread.summarize(force=True)
    with pytest.raises(StaleWindowError):
        thread.history.add_summary("By hand.", window)
