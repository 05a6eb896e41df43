"""`memory.assign_user`: a thread of nobody, or of another user, becomes a user's."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.errors import ConfigError, LogUnavailableError


def fill(memory, thread_id="visit", user_id=None):
    history = memory.history(thread_id, user_id=user_id)
    history.add("user", "My cat is called Mitzi.")
    history.add("assistant", "A fine name.")
    history.add_summary("The cat is called Mitzi.", history.summary_window())
    question = history.add("user", "Where is the harbuor?")
    history.replace(question.id, "Where is the harbour?")
    history.add("assistant", "At the end of the quay.")
    history.pin("Answer in one sentence.")
    memory.set_title(thread_id, "Cat and harbour", user_id=user_id)
    return history


def show(history):
    pins = [pin.text for pin in history.pins]
    said = [(message.type, message.content) for message in history.messages]
    return said, history.messages[-2].id, pins


@pytest.mark.parametrize("before", [None, "guest"])
def test_a_thread_moves_whole_and_is_signed(tmp_path, before):
    path = tmp_path / "chat.db"
    with ConversationMemory.open(path, signing_key=b"0123456789abcdef") as memory:
        shown = show(fill(memory, user_id=before))
        moved = memory.assign_user("visit", "ana", from_user_id=before)
        assert show(moved) == shown
        assert memory.get_title("visit", user_id="ana") == "Cat and harbour"
        assert memory.threads(before) == []
        assert memory.get_title("visit", user_id=before) == ""
        [block] = memory.recall("Where is the harbour?", user_id="ana", k=1).blocks
        assert any("harbour" in line.text for line in block.lines)
        assert memory.log.verify().ok


def test_a_move_that_is_refused_changes_nothing(memory):
    fill(memory)
    fill(memory, user_id="ana")
    with pytest.raises(ConfigError, match="has a thread 'visit' already"):
        memory.assign_user("visit", "ana")
    with pytest.raises(ConfigError, match="has a thread 'visit' already"):
        memory.assign_user("visit", "ana", from_user_id="ana")
    with pytest.raises(ConfigError, match="no thread 'other'"):
        memory.assign_user("other", "ana")
    with pytest.raises(ConfigError, match="user_id must be text"):
        memory.assign_user("visit", None)
    assert len(memory.log.entries(memory.threads()[0].key)) == memory.threads()[0].entries


def test_a_move_that_was_cut_short_goes_on_and_doubles_nothing():
    class Failing(InMemoryLog):
        is_down = True

        def forget(self, scope, entry_ids=None):
            if self.is_down:
                raise LogUnavailableError("the disk is full")
            return super().forget(scope, entry_ids)

    with ConversationMemory(Failing()) as memory:
        shown = show(fill(memory))
        with pytest.raises(LogUnavailableError):
            memory.assign_user("visit", "ana")
        assert show(memory.history("visit")) == shown
        memory.log.is_down = False
        assert show(memory.assign_user("visit", "ana")) == shown
        assert memory.threads() == []


def test_a_user_who_goes_on_with_what_a_guest_said_keeps_one_thread(memory):
    said = [HumanMessage("A table for two?"), AIMessage("At eight.")]
    memory.add_messages(said, thread_id="booking")
    memory.add_messages(
        [*said, HumanMessage("And a high chair.")], thread_id="booking", user_id="ana"
    )
    moved = memory.assign_user("booking", "ana")
    assert [one.content for one in moved.messages] == [
        "A table for two?",
        "At eight.",
        "And a high chair.",
    ]
    assert memory.threads() == []
