"""What each question of a recall passes before it is searched for."""

from __future__ import annotations

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.messages import HumanMessage

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.recall.recall import LineRecall
from langchain_convmem.records import Owner

ANA = Owner(user_id="ana")


class Asked(Embeddings):
    """Notes the questions and the lines that it is sent."""

    def __init__(self):
        self.questions = []
        self.lines = []

    def embed_documents(self, texts):
        self.lines += texts
        return [[1.0, float(len(text))] for text in texts]

    def embed_query(self, text):
        self.questions.append(text)
        return [1.0, float(len(text))]


@pytest.fixture
def embeddings():
    return Asked()


@pytest.fixture
def recall(embeddings):
    log = InMemoryLog()
    memory = ConversationMemory(log)
    memory.add_messages([HumanMessage("The key is red.")], thread_id="t", user_id="ana")
    return LineRecall(log, embeddings)


def test_hooks_are_passed_latest_first_and_the_recall_itself_keeps_none(recall, embeddings):
    once = recall.bind_query_hook(lambda text: f"{text} one")
    twice = once.bind_query_hook(lambda text: f"{text} two")
    for each in (recall, once, twice):
        assert each.recall(ANA, "Key?").matches
    assert embeddings.questions == ["Key?", "Key? one", "Key? two one"]


async def test_where_a_hook_leaves_nothing_nothing_is_embedded_or_found(recall, embeddings):
    later = []
    empty = recall.bind_query_hook(lambda text: later.append(text) or text)
    empty = empty.bind_query_hook(lambda _: " ")
    assert empty.recall(ANA, "Key?").matches == ()
    assert (await empty.arecall(ANA, "Key?")).matches == ()
    assert (embeddings.questions, later) == ([], [])


def test_what_was_said_before_passes_them_too(recall, embeddings):
    seen = []

    def note(text):
        seen.append(text)
        return text

    recall.bind_query_hook(note).recall(ANA, "And hers?", before="Where is my key?")
    assert sorted(seen) == ["And hers?", "Where is my key?"]
