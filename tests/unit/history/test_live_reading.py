"""A view reads the live part of a thread, however long the archive is that lies behind it."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from summaries import bare_texts

from langchain_convmem import ConversationHistory, InMemoryLog
from langchain_convmem.message_log import ReadPlan
from langchain_convmem.records import Entry, ThreadKey

KEY = ThreadKey("ana", "t")


class CountingLog(InMemoryLog):
    """A log that counts the entries that it hands out."""

    read = 0

    def entries(self, key: ThreadKey, **options: Any) -> list[Entry]:
        found = super().entries(key, **options)
        self.read += len(found)
        return found

    def read_back(self, key: ThreadKey, plan: ReadPlan, *, page: int = 64) -> list[Entry]:
        found = super().read_back(key, plan, page=page)
        self.read += len(found)
        return found


@pytest.fixture
def log():
    with CountingLog() as opened:
        yield opened


@pytest.fixture
def history(log):
    return ConversationHistory(log, "t", user_id="ana")


def talk(history: ConversationHistory, exchanges: int, *, start: int = 0) -> None:
    said = []
    for number in range(start, start + exchanges):
        said += [HumanMessage(f"question {number}"), AIMessage(f"answer {number}")]
    history.add_messages(said)


def reads_of(log: CountingLog, call) -> int:
    before = log.read
    call()
    return log.read - before


def test_a_summarised_thread_is_read_from_where_its_summary_ends(log, history):
    history.add("system", "Be kind.")
    reads = []
    for round_number in range(6):
        talk(history, 100, start=100 * round_number)
        history.add_summary(f"Summary {round_number}.", history.summary_window())
        history.add("user", f"pending {round_number}")
        reads.append(reads_of(log, history.context))
    assert max(reads) <= 10
    told = bare_texts(history.messages)
    assert told == ["Be kind.", "Summary 5.", "pending 5"]


def test_a_view_within_a_budget_reads_what_the_budget_reaches(log, history):
    talk(history, 1000)
    first = history.context(max_tokens=100)
    assert reads_of(log, lambda: history.context(max_tokens=100)) <= 150
    assert history.context(max_tokens=100).messages == first.messages
    talk(history, 5, start=1000)
    assert history.context(max_tokens=100).messages[-1].content == "answer 1004"


def test_what_is_left_out_is_counted_where_it_was_read(history):
    talk(history, 4)
    assert history.context(max_tokens=60).left_out == 2
    talk(history, 1000, start=4)
    view = history.context(max_tokens=60)
    assert 0 < view.left_out < 2000


def test_undoing_a_summary_brings_back_what_it_covers(history):
    talk(history, 100)
    history.add_summary("All of it.", history.summary_window())
    assert bare_texts(history.context().messages) == ["All of it."]
    history.context()
    history.undo_summary()
    assert len(history.context().messages) == 200


def test_forgetting_a_system_message_is_seen(history):
    history.add_messages([SystemMessage("Be kind.", id="s")])
    talk(history, 500)
    history.context(max_tokens=50)
    history.log.forget(KEY, ["s"])
    assert [m.type for m in history.context(max_tokens=50).messages].count("system") == 0


def test_adding_reads_a_page_however_long_the_thread_is(log, history):
    talk(history, 1000)
    assert reads_of(log, lambda: history.add("user", "one more")) <= 64


def test_the_turn_of_a_long_run_is_whole_when_something_is_added_to_it(history):
    history.add_messages([AIMessage("Hello."), *[HumanMessage(f"{n}") for n in range(150)]])
    assert len(history.add("user", "last").entries) == 151
