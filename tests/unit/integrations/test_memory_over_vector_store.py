"""A memory whose lines are found in a vector store: chains, retrievers and hooks as ever."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.vectorstores import InMemoryVectorStore
from scripted_agents import agent_with, says
from scripted_chat import WAYS, ScriptedChatModel, at

from langchain_convmem import ConversationMemory, RecallSettings
from langchain_convmem.errors import ConfigError
from langchain_convmem.integrations import VectorStoreRecall, create_search_tool
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.recall import LineRecall
from langchain_convmem.testing import HashEmbeddings

KEY = "The spare key is with Teresa upstairs."


class Embedder(HashEmbeddings):
    """Notes what it is asked."""

    def __init__(self):
        self.asked = []

    def embed_query(self, text):
        self.asked.append(text)
        return super().embed_query(text)


@pytest.fixture
def store():
    return InMemoryVectorStore(Embedder())


@pytest.fixture
def memory(store):
    log = InMemoryLog()
    return ConversationMemory(log, recall=VectorStoreRecall(log, store))


def told(memory):
    history = memory.history("monday", user_id="ana")
    history.add("user", KEY)
    memory.history("monday", user_id="ben").add("user", "The spare key is under the mat.")
    return history


@pytest.mark.parametrize("way", ["invoke", "astream"])
def test_a_wrapped_chain_recalls_from_the_store(memory, store, way):
    told(memory)
    model = ScriptedChatModel(replies=["With Teresa."])
    WAYS[way](memory.wrap(model), "Who has the spare key?", at("tuesday"))
    asked = str(model.seen[0][-1].content)
    assert KEY in asked
    assert "under the mat" not in asked
    memory.refresh(user_id="ana")
    texts = {row["text"] for row in store.store.values()}
    assert texts == {KEY, "Who has the spare key?", "With Teresa."}


def test_retriever_tool_and_agent_recall_from_the_store(memory):
    told(memory)
    [found] = memory.retriever(user_id="ana").invoke("Who has the spare key?")
    assert isinstance(found, Document)
    assert KEY in found.page_content
    tool = create_search_tool(memory)
    assert KEY in tool.invoke({"query": "spare key"}, at("tuesday"))
    model = ScriptedChatModel(replies=[AIMessage("With Teresa.")])
    agent_with(memory, model, options={"recall": True}).invoke(
        says("The spare key?"), at("tuesday")
    )
    assert KEY in str(model.seen[0][-1].content)


def test_forgetting_holds_though_the_store_is_away(memory, store, monkeypatch, caplog):
    told(memory)
    memory.refresh(user_id="ana")

    def away(*_, **__):
        raise OSError("no route to the store")

    with monkeypatch.context() as patch:
        patch.setattr(store, "delete", away)
        assert memory.forget(user_id="ana").entries == 1
    assert "InMemoryVectorStore: OSError" in caplog.text
    assert memory.recall("spare key", user_id="ana").blocks == ()
    assert len(store.store) == 1
    memory.reindex(user_id="ana")
    assert not store.store


@pytest.mark.parametrize(
    ("name", "part"),
    [("embeddings", HashEmbeddings()), ("settings", RecallSettings()), ("rewriter", str.lower)],
    ids=["embeddings", "settings", "rewriter"],
)
def test_parts_of_another_recall_are_refused_beside_one(name, part):
    log = InMemoryLog()
    with pytest.raises(ConfigError, match=name):
        ConversationMemory(log, recall=LineRecall(log), **{name: part})


def test_a_recall_of_another_log_or_none_at_all_is_refused():
    with pytest.raises(ConfigError, match="one log"):
        ConversationMemory(InMemoryLog(), recall=LineRecall(InMemoryLog()))
    with pytest.raises(ConfigError, match="VectorStoreRecall"):
        ConversationMemory(InMemoryLog(), recall="recall")
    with pytest.raises(TypeError, match="recall"):  # nobody has the log before it is opened
        ConversationMemory.open(":memory:", recall=LineRecall(InMemoryLog()))
