"""Conversations that live in a thread: log, summaries and recalled lines apply."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from scripted_chat import FailingLog, ProviderError, ScriptedChatModel, texts
from summaries import ScriptedSummarizer
from talks import text_engine

from langchain_convmem import ConversationMemory, Engine, InMemoryLog, SummarySettings
from langchain_convmem.conversation import ConversationConfig
from langchain_convmem.errors import ConversationError, LogError
from langchain_convmem.records import ThreadKey

KEY = ThreadKey("ana", "t")


def talk(memory, model, **settings):
    return memory.conversation(model, thread_id="t", user_id="ana", **settings)


def answering(*replies):
    return ScriptedChatModel(replies=list(replies))


def test_a_turn_that_cannot_be_stored_gives_the_reply_with_the_error():
    memory = ConversationMemory(FailingLog(InMemoryLog(), fails_at=4))
    said = talk(memory, answering("Hello.", "Level 3.", "Again."), recall=False)
    said.send_message("Hi")
    with pytest.raises(LogError) as raised:
        said.send_message("Where is the car?")
    assert raised.value.text == "Level 3."
    assert len(said.history) == 2
    assert said.send_message("Where is the car?").text == "Again."


def test_the_log_shows_how_far_a_failed_turn_came(memory):
    def level() -> str:
        """Tell the level."""
        return "level 3"

    call = AIMessage("", tool_calls=[{"name": "level", "args": {}, "id": "c1"}])
    model = answering(call, ProviderError("down"), "Level 3.")
    said = talk(memory, model, preface={"tools": [level]})
    with pytest.raises(ProviderError):
        said.send_message("Where is the car?")
    *turn, control = memory.log.entries(KEY)
    assert [entry.role for entry in turn] == ["user", "assistant", "tool"]
    assert control.control.retracts == tuple(entry.id for entry in turn)
    assert {entry.turn_id for entry in turn} == {control.turn_id}
    assert said.history == []
    said.send_message("Where is the car?")
    assert texts(memory) == ["Where is the car?", "Level 3."]


def test_a_reply_that_the_write_hook_refuses_takes_the_question_with_it():
    def refuse(message):
        if message.type == "ai":
            raise ProviderError("no replies")
        return message

    with ConversationMemory(InMemoryLog(), before_write=refuse) as memory:
        said = talk(memory, answering("Level 3."), recall=False)
        with pytest.raises(ProviderError, match="no replies"):
            said.send_message("Where is the car?")
        assert (said.history, texts(memory)) == ([], [])
        assert [entry.role for entry in memory.log.entries(KEY)] == ["user", "control"]


def test_while_a_turn_runs_the_conversation_is_as_it_was_before(memory):
    during = {}

    def look(_messages):
        during["history"] = [one.text for one in said.history]
        during["point"], during["twin"] = said.checkpoint(), said.clone()
        during["thread"] = texts(memory)
        return AIMessage("two")

    said = talk(memory, answering("one", look, "three"), recall=False)
    said.send_message("a")
    said.send_message("b")
    assert during["history"] == ["a", "one"]
    assert during["thread"] == ["a", "one", "b"]
    assert [one.text for one in during["twin"].history] == ["a", "one"]
    said.rewind(during["point"])
    assert [one.text for one in said.history] == ["a", "one"]


def test_a_session_reads_the_summary_once_and_goes_on_from_there():
    settings = SummarySettings(
        trigger=("messages", 4), keep=("messages", 2), max_summary_tokens=4000
    )
    options = {"summary_settings": settings, "summarize_when": "foreground"}
    with ConversationMemory(InMemoryLog(), summarizer=ScriptedSummarizer(), **options) as memory:
        engine = text_engine()
        said = talk(memory, engine, recall=False)
        for number in range(7):
            said.send_message(f"message {number}")
        session = engine.sessions[0].text
        assert "message 0" not in session.split("</summary>")[-1]


def test_a_setting_of_the_call_goes_before_those_of_the_config(memory):
    engine = Engine(answering("x"))
    config = ConversationConfig(on_cancel="keep", busy_timeout_s=7)
    assert talk(memory, engine, config=config).config == config
    found = talk(memory, engine, config=config, on_cancel="discard").config
    assert (found.on_cancel, found.busy_timeout_s) == ("discard", 7)


def test_words_that_nobody_heard_are_not_recalled(memory):
    said = talk(memory, answering("The car is on level 3. The ticket lies in the glovebox."))
    said.send_message("Where is the car, and where is the ticket?")
    said.cut_reply("The car is on level 3.")
    found = memory.recall("Where is the ticket of the car?", user_id="ana", max_tokens=200)
    assert "glovebox" not in "".join(block.text for block in found.blocks)
    assert "level 3" in "".join(block.text for block in found.blocks)


def test_a_checkpoint_that_was_taken_back_is_unknown(memory):
    said = talk(memory, answering("one", "two"))
    said.send_message("a")
    point = said.checkpoint()
    said.undo()
    with pytest.raises(ConversationError, match="no longer shows"):
        said.rewind(point)


def test_an_edit_that_fails_leaves_the_conversation_as_before(memory):
    model = answering("One.", "Two.", ProviderError("down"), "Three.")
    said = talk(memory, model, recall=False)
    said.send_message("Where is the red car?")
    said.send_message("And the blue one?")
    before = texts(memory)
    asked = memory.history("t", user_id="ana").messages[2]
    edited = HumanMessage("And the blue one there?", id=asked.id)
    chat = ["Where is the red car?", ("ai", "One."), edited]
    with pytest.raises(ProviderError):
        said.send_message(chat)
    assert texts(memory) == before
    said.send_message(chat)
    assert texts(memory) == [*before[:2], "And the blue one there?", "Three."]
