"""What is forgotten while a turn is under way does not come back with the turn's reply."""

from __future__ import annotations

import pytest
from langchain_core.language_models import FakeListChatModel

from langchain_convmem import ConversationMemory

CONFIG = {"configurable": {"user_id": "ana", "thread_id": "b"}}


@pytest.fixture
def memory():
    with ConversationMemory.open(":memory:") as memory:
        yield memory


def test_a_reply_to_a_forgotten_question_is_not_stored(memory):
    chain = memory.wrap(FakeListChatModel(responses=["The code is 4711."]))
    stream = chain.stream("What is the code?", CONFIG)
    next(stream)
    memory.forget(user_id="ana")
    assert "".join(chunk.content for chunk in stream)  # the caller has all of it
    assert memory.threads("ana") == []
    assert memory.recall("code", user_id="ana").blocks == ()


def test_nor_is_the_part_that_a_cut_stream_had_brought(memory):
    stream = memory.wrap(FakeListChatModel(responses=["The code is 4711."])).stream("Code?", CONFIG)
    next(stream)
    memory.forget(user_id="ana", thread_id="b")
    stream.close()
    assert memory.threads("ana") == []


def test_the_next_question_is_stored_as_ever(memory):
    chain = memory.wrap(FakeListChatModel(responses=["Noted.", "Hello again."]))
    stream = chain.stream("My code is 4711.", CONFIG)
    next(stream)
    memory.forget(user_id="ana")
    list(stream)
    chain.invoke("Good morning.", CONFIG)
    texts = [message.content for message in memory.history("b", user_id="ana").messages]
    assert texts == ["Good morning.", "Hello again."]
