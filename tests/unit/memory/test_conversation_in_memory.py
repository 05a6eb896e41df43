"""Conversations that live in a thread: log, summaries and recalled lines apply."""

from __future__ import annotations

import threading

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from scripted_chat import ProviderError, ScriptedChatModel

from langchain_convmem import ChatTemplate, ConversationMemory, InMemoryLog
from langchain_convmem.ids import get_now_ms
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing import ScriptedEngine

KEY = ThreadKey("ana", "t")
TOLD = "I parked the car on level 3 of the garage."


def talk(memory, model, **settings):
    return memory.conversation(model, thread_id="t", user_id="ana", **settings)


def answering(*replies):
    return ScriptedChatModel(replies=list(replies))


def text_engine(*replies):
    return ScriptedEngine(
        list(replies), template=ChatTemplate.from_builtin("chatml"), end_text="<|im_end|>"
    )


def told_before(memory, text=TOLD):
    memory.add_messages([HumanMessage(text), AIMessage("Noted.")], thread_id="old", user_id="ana")


def live(memory):
    return [(one.type, one.text) for one in memory.history("t", user_id="ana").messages]


def test_other_words_under_an_id_that_the_thread_has_are_said_instead(memory):
    said = talk(memory, answering("Level 3.", "Hello.", "Level 4."), recall=False)
    said.send_message(HumanMessage("Where is the car?", id="m1"))
    said.send_message("Hi")
    said.send_message(HumanMessage("Where is the bus?", id="m1"))
    assert live(memory) == [("human", "Where is the bus?"), ("ai", "Level 4.")]


def test_a_question_bears_the_time_at_which_it_was_sent_however_long_it_waits(memory):
    inside, leave, called = threading.Event(), threading.Event(), []

    def slow(_messages):
        inside.set()
        leave.wait(10)
        called.append(get_now_ms())
        return AIMessage("one")

    said = talk(memory, answering(slow, "two"), recall=False)
    handles = [said.send_message_async("a")]
    inside.wait(10)
    handles.append(said.send_message_async("b"))
    sent = get_now_ms()
    leave.set()
    assert [handle.result(10).text for handle in handles] == ["one", "two"]
    _, first, second, _ = memory.log.entries(KEY)
    assert first.metadata.timing["llmEnd"] >= called[0]
    assert second.metadata.timing["creation"] <= sent


def test_a_reply_that_the_write_hook_refuses_takes_the_question_with_it():
    def refuse(message):
        if message.type == "ai":
            raise ProviderError("no replies")
        return message

    with ConversationMemory(InMemoryLog(), before_write=refuse) as memory:
        said = talk(memory, answering("Level 3."), recall=False)
        with pytest.raises(ProviderError, match="no replies"):
            said.send_message("Where is the car?")
        assert (said.history, live(memory)) == ([], [])
        assert [entry.role for entry in memory.log.entries(KEY)] == ["user", "control"]


def test_a_question_that_a_crash_left_is_answered_with_the_next(memory):
    memory.add_messages([HumanMessage("Where is the car?")], thread_id="t", user_id="ana")
    model = answering("Level 3, by the pillar.", "Bye.")
    said = talk(memory, model, recall=False)
    said.send_message("Next to what?")
    [asked] = model.seen[0]
    assert "Where is the car?" in asked.text
    assert asked.text.endswith("Next to what?")
    assert [one.text for one in said.undo()] == ["Next to what?", "Level 3, by the pillar."]


def test_while_a_turn_runs_the_conversation_is_as_it_was_before(memory):
    during = {}

    def look(_messages):
        during["history"] = [one.text for one in said.history]
        during["point"], during["twin"] = said.checkpoint(), said.clone()
        during["thread"] = [one.text for one in memory.history("t", user_id="ana").messages]
        return AIMessage("two")

    said = talk(memory, answering("one", look, "three"), recall=False)
    said.send_message("a")
    said.send_message("b")
    assert during["history"] == ["a", "one"]
    assert during["thread"] == ["a", "one", "b"]
    assert [one.text for one in during["twin"].history] == ["a", "one"]
    said.rewind(during["point"])
    assert [one.text for one in said.history] == ["a", "one"]


def test_a_session_that_has_read_recalled_lines_is_not_sent_them_again(memory):
    told_before(memory)
    engine = text_engine("Level 3.", "You are welcome.")
    said = talk(memory, engine)
    said.send_message("On which level did I park the car?")
    said.send_message("Thanks")
    assert "level 3 of the garage" in engine.prefills[0]
    assert engine.prefills[1].startswith("<|im_end|>\n<|im_start|>user\nThanks")
    assert [stats.diverged_at for stats in said.render_stats] == [None]


def test_words_that_nobody_heard_are_not_recalled(memory):
    said = talk(memory, answering("The car is on level 3. The ticket lies in the glovebox."))
    said.send_message("Where is the car, and where is the ticket?")
    said.cut_reply("The car is on level 3.")
    found = memory.recall("Where is the ticket of the car?", user_id="ana", max_tokens=200)
    assert "glovebox" not in "".join(block.text for block in found.blocks)
    assert "level 3" in "".join(block.text for block in found.blocks)


def test_a_system_message_steers_the_send_that_brings_it(memory):
    model = answering("Hi.", "Bye.")
    said = talk(memory, model, recall=False)
    said.send_message([("system", "Be brief."), "Hello"])
    said.send_message("And now?")
    assert [one.text for one in model.seen[0]] == ["Be brief.", "Hello"]
    assert [one.text for one in model.seen[1]] == ["Hello", "Hi.", "And now?"]


def test_a_question_that_a_crash_left_alone_is_no_other_when_it_is_sent_again(memory):
    memory.add_messages([HumanMessage("Where is the car?", id="m1")], user_id="ana", thread_id="t")
    model = answering("Level 3.")
    said = talk(memory, model, recall=False)
    said.send_message(HumanMessage("Where is the car?", id="m1"))
    assert [one.text for one in model.seen[-1]] == ["Where is the car?"]
    assert [one.text for one in said.history] == ["Where is the car?", "Level 3."]


def test_the_same_words_under_an_earlier_id_are_said_once_more(memory):
    said = talk(memory, answering("Fine.", "Hello.", "Still fine."), recall=False)
    asked = HumanMessage("How are you?", id="m1")
    for one in (asked, "Hi", asked):
        said.send_message(one)
    assert [text for _, text in live(memory)][::2] == ["How are you?", "Hi", "How are you?"]


def test_an_edit_that_fails_leaves_the_conversation_as_before(memory):
    model = answering("One.", "Two.", ProviderError("down"), "Three.")
    said = talk(memory, model, recall=False)
    said.send_message("Where is the red car?")
    said.send_message("And the blue one?")
    before = live(memory)
    asked = memory.history("t", user_id="ana").messages[2]
    edited = HumanMessage("And the blue one there?", id=asked.id)
    chat = ["Where is the red car?", ("ai", "One."), edited]
    with pytest.raises(ProviderError):
        said.send_message(chat)
    assert live(memory) == before
    said.send_message(chat)
    assert live(memory) == [*before[:2], ("human", "And the blue one there?"), ("ai", "Three.")]
