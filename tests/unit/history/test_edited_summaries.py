"""Summaries that the application edits, and summaries taken back that stay taken back."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from summaries import ScriptedSummarizer, bare

from langchain_convmem import ConversationMemory, InMemoryLog, SummarySettings
from langchain_convmem.errors import ConfigError, InvalidMessageError, StaleWindowError
from langchain_convmem.history import ConversationHistory
from langchain_convmem.views.context import NOTED_TEXT
from langchain_convmem.views.live import find_frontier, find_live_entries
from langchain_convmem.views.summaries import find_held_back

SETTINGS = SummarySettings(
    trigger=("messages", 4), keep=("messages", 2), max_summary_tokens=4000, first_pause_s=0.001
)


def say(history, *numbers):
    for number in numbers:
        history.add_messages(
            [HumanMessage(f"question {number}", id=f"q{number}"), AIMessage(f"answer {number}")]
        )


def summarising(log, **options):
    return ConversationMemory(
        log, summarizer=ScriptedSummarizer(), summary_settings=SETTINGS, **options
    )


def compact(memory, **options):
    return memory.summarize("t1", user_id="ana", **options)


def shown(history):
    return [bare(message.text) for message in history.messages]


# -- editing --------------------------------------------------------------------------------------


@pytest.fixture
def told(history):
    say(history, 1, 2)
    history.add_summary(["They talked."], history.summary_window(), model="m")
    say(history, 3)
    return history


def test_an_edited_summary_stands_for_the_same_in_other_words(told):
    old = told.last_summary
    turn = told.edit_summary(["They met.", " ", "In Rome."])
    assert turn.contents == ("They met.", "In Rome.")
    assert shown(told) == ["They met.\nIn Rome.", NOTED_TEXT, "question 3", "answer 3"]
    [new] = turn.entries
    assert new.cover.ranges == old.entries[0].cover.ranges
    assert new.cover.model == "edited"
    assert new.metadata.aux["summary"] == {"edited": True}
    assert new.metadata.summary_ids == old.metadata.summary_ids
    assert told.last_summary.id == turn.id


def test_a_summary_is_edited_by_its_id_and_again(told):
    first = told.last_summary
    second = told.edit_summary("Second.", summary_id=first.id)
    assert told.edit_summary("Third.", summary_id=second.id).contents == ("Third.",)
    with pytest.raises(ConfigError, match="no summary"):
        told.edit_summary("Fourth.", summary_id=first.id)
    assert shown(told)[0] == "Third."


@pytest.mark.parametrize("text", [" ", [], 3, [3], None])
def test_what_is_no_summary_changes_nothing(told, text):
    before = told.entries
    with pytest.raises(InvalidMessageError):
        told.edit_summary(text)
    assert told.entries == before


def test_a_summary_that_a_later_one_retells_is_not_edited(told):
    first = told.last_summary
    told.add_summary("More.", told.summary_window())
    with pytest.raises(ConfigError, match="edit that one"):
        told.edit_summary("New.", summary_id=first.id)
    assert told.edit_summary("Other.").contents == ("Other.",)


class ForgetsMeanwhile(InMemoryLog):
    """Forgets the summaries of a thread as soon as another one is written."""

    def append(self, key, drafts, **options):
        old = [entry.id for entry in self.entries(key) if entry.role == "summary"]
        added = super().append(key, drafts, **options)
        if old and added[0].role == "summary":
            self.forget(key, old)
        return added


def test_what_is_forgotten_while_it_is_edited_stays_forgotten():
    with ForgetsMeanwhile() as log:
        history = ConversationHistory(log, "t")
        say(history, 1)
        history.add_summary("They talked.", history.summary_window())
        with pytest.raises(StaleWindowError, match="forgotten"):
            history.edit_summary("They whispered.")
        assert "whispered" not in str(history.entries)


def test_parents_fall_with_an_edited_leaf_and_are_made_anew_of_it():
    settings = SummarySettings(
        trigger=("messages", 4),
        keep=("messages", 2),
        max_summary_tokens=16,
        facts_tokens=0,
    )
    summarizer = ScriptedSummarizer(lambda asked: asked.transcript.splitlines()[1][:60])
    with ConversationMemory(
        InMemoryLog(), summarizer=summarizer, summary_settings=settings
    ) as memory:
        history = memory.history("t1", user_id="ana")
        for number in range(40):
            say(history, number)
            compact(memory)
        live = find_live_entries(history.entries)
        parents = [one for one in live if one.metadata.aux.get("summary", {}).get("level")]
        assert parents, "the chat is long enough for parents"
        leaf = next(
            one
            for one in live
            if one.role == "summary" and one.id in parents[0].metadata.summary_ids
        )
        say(history, 40)
        history.edit_summary("question 0 was about tea.", summary_id=leaf.id)
        after = find_live_entries(history.entries)
        assert parents[0].id not in {entry.id for entry in after}
        assert "question 0 was about tea." in shown(history)[0]
        uncovered = shown(history)[1:]
        compact(memory, force=True)
        frontier = find_frontier(find_live_entries(history.entries))
        assert leaf.id not in {name for one in frontier for name in one.metadata.summary_ids}
        assert uncovered[-1] == "answer 40"


# -- an undo that stays undone --------------------------------------------------------------------


@pytest.fixture
def log():
    with InMemoryLog() as log:
        yield log


def test_what_an_undo_shows_again_is_not_compacted_by_turns_to_come(log):
    memory = summarising(log)
    history = memory.history("t1", user_id="ana")
    say(history, 1, 2, 3)
    assert compact(memory)
    history.undo_summary()
    before = shown(history)
    assert compact(memory).outcome == "not_due"
    assert compact(summarising(log)).outcome == "not_due", "another process reads it from the log"
    say(history, 4, 5, 6)
    assert compact(memory)
    assert shown(history)[1:6] == [NOTED_TEXT, *before[:4]]
    assert "question 3" in shown(history)[0]
    assert shown(history)[-1] == "answer 6"


def test_on_request_it_is_compacted_and_then_is_no_longer_held_back(log):
    memory = summarising(log)
    history = memory.history("t1", user_id="ana")
    say(history, 1, 2, 3)
    assert compact(memory)
    history.undo_summary()
    assert compact(memory, force=True)
    assert find_held_back(history.entries) == frozenset()
    history.replace("q1", "question one", keep_later=True)
    assert history.last_summary is None
    assert compact(memory), "the edit, not an undo, shows these again"


def test_an_undo_stays_undone_when_one_message_of_it_is_forgotten(log):
    memory = summarising(log)
    history = memory.history("t1", user_id="ana")
    say(history, 1, 2, 3)
    assert compact(memory)
    history.undo_summary()
    memory.forget(user_id="ana", thread_id="t1", entry_ids=["q1"])
    memory.flush()
    assert compact(memory).outcome == "not_due"
    assert "question 2" in shown(history)
