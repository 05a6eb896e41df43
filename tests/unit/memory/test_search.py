"""The search for words: the same lines whether a user was recalled from before or not."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.errors import ConfigError
from langchain_convmem.testing import HashEmbeddings


@pytest.fixture(params=["read from the log", "read from the index"])
def memory(request):
    with ConversationMemory(InMemoryLog(), embeddings=HashEmbeddings()) as memory:
        said = [HumanMessage("The LONG ladder is in the shed.", id="q1"), AIMessage("Noted.")]
        memory.add_messages(said, user_id="ana", thread_id="house")
        memory.add_messages(
            [HumanMessage("How long is\nthe Straße ladder?", id="q2")],
            user_id="ana",
            thread_id="street",
        )
        memory.add_messages([HumanMessage("A long ladder.")], user_id="ben", thread_id="house")
        if request.param == "read from the index":
            memory.refresh(user_id="ana")
        yield memory


def search(memory, words, **options):
    return [line.text for line in memory.search(words, **options or {"user_id": "ana"})]


def test_all_words_are_held_whatever_their_case_and_order_and_the_latest_line_leads(memory):
    first, second = "The LONG ladder is in the shed.", "How long is\nthe Straße ladder?"
    assert search(memory, "ladder Long") == [second, first]
    assert search(memory, "STRASSE") == [second]
    assert search(memory, "lad shed") == [first]
    assert search(memory, "ladder cellar") == []


def test_lines_that_were_taken_back_or_erased_are_not_found(memory):
    memory.history("house", user_id="ana").replace("q1", "The steps are in the shed.")
    assert search(memory, "long ladder") == ["How long is\nthe Straße ladder?"]
    assert search(memory, "shed") == ["The steps are in the shed."]
    memory.forget(user_id="ana", thread_id="street")
    assert search(memory, "ladder") == []


def test_lines_that_come_later_are_found(memory):
    memory.add_messages([HumanMessage("Another ladder.")], user_id="ana", thread_id="new")
    assert search(memory, "another") == ["Another ladder."]


def test_a_thread_of_no_user_and_other_users_are_apart(memory):
    memory.add_messages([HumanMessage("My own ladder.")], thread_id="alone")
    assert search(memory, "ladder", thread_id="alone") == ["My own ladder."]
    assert search(memory, "ladder", user_id="ben") == ["A long ladder."]
    assert search(memory, "own") == []


def test_the_event_loop_is_not_blocked_by_it(memory):
    found = asyncio.run(memory.asearch("shed", user_id="ana"))
    assert [line.key.thread_id for line in found] == ["house"]


@pytest.mark.parametrize("words", ["", " \n"])
def test_no_words_are_refused(memory, words):
    with pytest.raises(ConfigError, match="words is blank"):
        memory.search(words, user_id="ana")
    with pytest.raises(ConfigError, match="user"):
        memory.search("ladder")


class _CountedEmbedding(DeterministicFakeEmbedding):
    sent: list[str] = []  # noqa: RUF012 - a field

    def embed_documents(self, texts):
        self.sent += texts
        return super().embed_documents(texts)


def test_nothing_is_sent_to_an_embedder_that_costs():
    embeddings = _CountedEmbedding(size=8)
    with ConversationMemory(InMemoryLog(), embeddings=embeddings) as memory:
        memory.refresh(user_id="ana")
        assert search(memory, "ladder") == []
        memory.add_messages([HumanMessage("A ladder.")], user_id="ana", thread_id="t")
        assert search(memory, "ladder") == ["A ladder."]
        assert embeddings.sent == []
        memory.refresh(user_id="ana")
        assert embeddings.sent == ["A ladder."]
