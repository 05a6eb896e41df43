from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from summaries import bare_texts

from langchain_convmem import ConversationMemory, SummarySettings
from langchain_convmem.errors import ConfigError, LogUnavailableError
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.offline import ExtractiveSummarizer


@pytest.fixture
def memory():
    with InMemoryLog() as log:
        yield ConversationMemory(log)


@pytest.fixture
def history(memory):
    return memory.history("t1", user_id="ana")


def texts(history):
    return [" ".join(turn.contents) for turn in history.turns]


def test_a_fork_goes_on_from_a_point_and_leaves_the_other_thread_alone(memory, history, say):
    say("a", "b", "c", "d")
    before = history.entries
    fork = memory.fork("t1", at=history.turns[1].id, user_id="ana")
    assert texts(fork) == ["a", "b"]
    fork.add("user", "C")
    assert texts(fork) == ["a", "b", "C"]
    assert history.entries == before
    assert fork.user_id == "ana"
    assert fork.thread_id != "t1"
    assert {info.key.thread_id for info in memory.threads("ana")} == {"t1", fork.thread_id}


def test_a_fork_holds_the_same_messages_ids_times_and_marks(memory, history):
    history.add_messages([HumanMessage("a", id="m1", name="Ana"), AIMessage("b")])
    history.turns[1].add_timing("playEnd", 7)
    history.turns[1].add_data("mood", "calm")
    fork = memory.fork("t1", new_thread_id="t2", user_id="ana")
    assert fork.thread_id == "t2"
    assert fork.messages == history.messages
    for copy, entry in zip(fork.entries, history.entries, strict=True):
        assert copy.id != entry.id
        assert copy.metadata.timing == entry.metadata.timing
        assert copy.metadata.aux == {
            **entry.metadata.aux,
            "forked_from": {"thread_id": "t1", "entry_id": entry.id},
        }


def test_only_what_is_shown_is_forked(memory, history, say):
    say("a", "b", "c", "d")
    history.undo()
    history.replace(history.turns[0].id, "A", keep_later=True)
    assert texts(memory.fork("t1", user_id="ana")) == ["A", "b"]
    with pytest.raises(ConfigError, match="no message"):
        memory.fork("t1", at=history.entries[2].id, user_id="ana")


def test_a_turn_names_the_point_behind_its_last_part(memory, history):
    history.add("assistant", "Welcome!")
    for text in ("a", "b", "c"):
        history.add("user", text)
    *_, merged = history.turns
    assert texts(memory.fork("t1", at=merged, user_id="ana")) == ["...", "Welcome!", "a b c"]
    assert texts(memory.fork("t1", at=merged.id, user_id="ana")) == ["...", "Welcome!", "a"]
    with pytest.raises(ConfigError, match="placeholder"):
        memory.fork("t1", at=history.turns[0], user_id="ana")


def test_summaries_come_along_with_what_they_cover(memory, history, say):
    say("a", "b")
    history.add_summary("S", history.summary_window(), model="m", prompt_version="v")
    say("c", "d")
    history.add_summary("T", history.summary_window())
    say("e", "f")
    fork = memory.fork("t1", at=history.turns[-2].id, user_id="ana")
    assert texts(fork) == ["a", "b", "S", "c", "d", "T", "e"]
    assert bare_texts(fork.messages) == ["T", "e"]
    of_fork = {turn.id: turn.contents for turn in fork.turns}
    named = [of_fork[name] for name in fork.last_summary.metadata.summary_ids]
    assert named == [("S",), ("c",), ("d",)]
    cover = next(entry.cover for entry in fork.entries if entry.role == "summary")
    assert (cover.model, cover.prompt_version) == ("m", "v")
    fork.undo_summary()
    assert bare_texts(fork.messages) == ["S", "c", "d", "e"]
    assert history.last_summary.contents == ("T",)


def test_a_summary_of_more_than_is_forked_stays_behind(memory, history, say):
    say("a", "b", "c", "d")
    history.add_summary("S", history.summary_window())
    fork = memory.fork("t1", at=history.turns[1].id, user_id="ana")
    assert bare_texts(fork.messages) == ["a", "b"]


def test_a_summary_of_what_was_forgotten_stands_before_the_rest(memory, history, say):
    say("a", "b", "c", "d")
    window = history.summary_window()
    history.add_summary("S", window)
    say("e")
    history.log.forget(history.key, [*window.entry_ids])
    fork = memory.fork("t1", user_id="ana")
    assert bare_texts(fork.messages) == ["S", "e"]
    assert texts(fork) == ["S", "e"]


def test_a_thread_in_use_is_not_forked_into(memory, history, say):
    say("a", "b")
    memory.history("t2", user_id="ana").add("user", "x")
    for taken in ("t2", "t1"):
        with pytest.raises(ConfigError, match="in use"):
            memory.fork("t1", new_thread_id=taken, user_id="ana")
    assert len(history.entries) == 2


def test_a_fork_that_was_cut_short_can_be_made_again(memory, history, say, monkeypatch):
    say("a", "b", "c")
    history.add_summary("S", history.summary_window())
    append = memory.log.append
    calls = []

    def fail_once(key, drafts, **options):
        calls.append(key)
        if len(calls) == 2:
            raise LogUnavailableError("gone for a moment")
        return append(key, drafts, **options)

    monkeypatch.setattr(memory.log, "append", fail_once)
    with pytest.raises(LogUnavailableError):
        memory.fork("t1", new_thread_id="t2", user_id="ana")
    cut = memory.history("t2", user_id="ana")
    assert texts(cut) == ["a", "b", "c"]
    fork = memory.fork("t1", new_thread_id="t2", user_id="ana")
    assert texts(fork) == ["a", "b", "S", "c"]
    assert len(fork.entries) == 4


def test_what_an_undone_summary_showed_again_stays_shown_in_a_fork():
    settings = SummarySettings(trigger=("messages", 4), keep=("messages", 2))
    with ConversationMemory.open(
        ":memory:", summarizer=ExtractiveSummarizer(), summary_settings=settings
    ) as memory:
        said = [(("user", "ai")[n % 2], f"Box {n} stands on shelf {n}.") for n in range(8)]
        memory.add_messages(said, thread_id="t", user_id="ana")
        assert memory.summarize("t", user_id="ana").outcome == "written"
        memory.history("t", user_id="ana").undo_summary()
        fork = memory.fork("t", user_id="ana")
        shown = [message.text for message in fork.messages]
        assert memory.summarize(fork.thread_id, user_id="ana").outcome == "not_due"
        assert [message.text for message in fork.messages] == shown
        again = memory.fork(fork.thread_id, user_id="ana")
        assert memory.summarize(again.thread_id, user_id="ana").outcome == "not_due"
