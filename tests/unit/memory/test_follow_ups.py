"""A short follow-up recalls by what the user said just before in the thread."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from scripted_chat import WAYS, ScriptedChatModel, at
from topics import BOAT, DOG, memory_of_topics


@pytest.fixture
def memory():
    with memory_of_topics() as opened:
        yield opened


@pytest.fixture
def model():
    return ScriptedChatModel(replies=["Red.", "In May.", "Fine."])


def shown_to(model):
    """Return what the model read last of other conversations, with what the user said."""
    return str(model.seen[-1][-1].text)


@pytest.mark.parametrize("way", WAYS)
def test_a_follow_up_recalls_what_its_topic_recalls(memory, model, way):
    chain = memory.wrap(model)
    WAYS[way](chain, "What colour is my boat?", at())
    WAYS[way](chain, "and since when?", at())
    assert BOAT in shown_to(model)
    stored = [entry.contents for entry in memory.history("t", user_id="ana").entries]
    assert stored[2] == ("and since when?",), "only what was said is stored"


def test_the_latest_message_of_the_user_is_what_was_said_before(memory, model):
    chain = memory.wrap(model)
    for text in ("What colour is my boat?", "How is my dog called?", "and since when?"):
        chain.invoke(text, at())
    assert DOG in shown_to(model)
    assert BOAT not in shown_to(model)


def test_a_question_of_its_own_borrows_nothing(memory, model):
    chain = memory.wrap(model)
    chain.invoke("What colour is my boat?", at())
    chain.invoke("Who signed the treaty of Tordesillas?", at())
    assert shown_to(model) == "Who signed the treaty of Tordesillas?"


def test_nothing_is_borrowed_from_another_thread(memory, model):
    chain = memory.wrap(model)
    chain.invoke("What colour is my boat?", at("other"))
    chain.invoke("and since when?", at())
    assert shown_to(model) == "and since when?"


def test_what_was_taken_back_is_not_borrowed_from(memory, model):
    asked = [HumanMessage("What colour is my boat?"), AIMessage("Red.")]
    memory.add_messages(asked, thread_id="t", user_id="ana")
    memory.history("t", user_id="ana").undo()
    memory.wrap(model).invoke("and since when?", at())
    assert BOAT not in shown_to(model)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_recall_may_name_what_was_said_before(memory, is_async):
    options = {"user_id": "ana", "before": "What colour is my boat?"}
    if is_async:
        found = asyncio.run(memory.arecall("and since when?", **options))
    else:
        found = memory.recall("and since when?", **options)
    assert [match.line.text for match in found.matches] == [BOAT]
    assert memory.recall("and since when?", user_id="ana").matches == ()
