"""What is said on the condition that it is not remembered leaves no trace."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from scripted_chat import WAYS, ProviderError, ScriptedChatModel, at

from langchain_convmem import ConversationMemory

FORGET = {"remember": False}


def _entries(memory, thread_id="t"):
    return memory.history(thread_id, user_id="ana").entries


def _marked(text, **fields):
    return HumanMessage(text, additional_kwargs=dict(FORGET), **fields)


# -- messages -----------------------------------------------------------------------------------


def test_a_marked_message_is_left_out_of_those_added(memory):
    said = [HumanMessage("one"), _marked("two"), AIMessage("three"), AIMessage("", **_kwargs())]
    entries = memory.add_messages(said, thread_id="t", user_id="ana")
    assert [entry.contents for entry in entries] == [("one",), ("three",)]
    assert asyncio.run(memory.aadd_messages(said[1:2], thread_id="u", user_id="ana")) == []
    memory.history("t", user_id="ana").add_messages(said[1:2])
    assert _entries(memory) == entries
    assert [info.key.thread_id for info in memory.threads("ana")] == ["t"]


def _kwargs():
    return {"additional_kwargs": dict(FORGET)}


def test_a_marked_message_is_never_recalled(memory):
    memory.add_messages([HumanMessage("My boat is red.")], thread_id="t", user_id="ana")
    memory.add_messages([_marked("My boat is blue.")], thread_id="t", user_id="ana")
    found = memory.recall("Which colour has my boat?", user_id="ana")
    assert [match.line.text for match in found.matches] == ["My boat is red."]


# -- turns --------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_a_marked_question_is_answered_from_what_was_said_elsewhere(memory, way):
    memory.add_messages([HumanMessage("My boat is red.")], thread_id="u", user_id="ana")
    model = ScriptedChatModel(replies=["Red."])
    WAYS[way](memory.wrap(model), _marked("Which colour has my boat?"), at())
    assert "My boat is red." in str(model.seen[-1][-1].content)
    assert _entries(memory) == []


def test_a_cut_reply_to_a_marked_question_is_not_stored(memory):
    model = ScriptedChatModel(replies=["One two three"], breaks_after=2)
    with pytest.raises(ProviderError):
        list(memory.wrap(model, recall=False).stream(_marked("Count."), at()))
    assert _entries(memory) == []


@pytest.mark.parametrize("way", WAYS)
def test_a_marked_reply_is_not_stored(memory, way):
    model = ScriptedChatModel(replies=["Secret."])
    marking = model | RunnableLambda(lambda reply: reply.model_copy(update=_kwargs()))
    WAYS[way](memory.wrap(marking, recall=False), "What is it?", at())
    assert [entry.contents for entry in _entries(memory)] == [("What is it?",)]


def test_of_several_replies_only_the_marked_ones_are_not_stored(memory):
    replies = [AIMessage("Secret.", **_kwargs()), AIMessage("Done.")]
    memory.wrap(RunnableLambda(lambda _: replies), recall=False).invoke("Go.", at())
    assert [entry.contents for entry in _entries(memory)] == [("Go.",), ("Done.",)]


# -- not even a note ----------------------------------------------------------------------------


def _dump(path):
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


@pytest.mark.parametrize(
    ("said", "switches"),
    [("Which boat?", {"remember": False}), (_marked("Which boat?"), {})],
    ids=["call", "message"],
)
@pytest.mark.parametrize("way", WAYS)
def test_a_turn_that_is_not_remembered_writes_nothing_at_all(tmp_path, way, said, switches):
    path = tmp_path / "memory.db"
    with ConversationMemory.open(path) as memory:
        talk = [HumanMessage("My boat is red."), AIMessage("I see.")] * 100
        memory.add_messages(talk, thread_id="t", user_id="ana")
        memory.refresh(user_id="ana")
        before = _dump(path)
        chain = memory.wrap(ScriptedChatModel(replies=["Red."]), history_tokens=40)
        WAYS[way](chain, said, at(**switches))
        assert _dump(path) == before
        WAYS[way](chain, "Which boat?", at())
        assert _dump(path) != before
