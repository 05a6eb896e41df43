"""Changing a memory's embedder, and what its recall keeps in memory of what is forgotten."""

from __future__ import annotations

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.messages import HumanMessage

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import ConfigError


class Counting(Embeddings):
    """A text's vector says how long it is; notes what it was sent."""

    def __init__(self, fingerprint):
        self.fingerprint = fingerprint
        self.sent = []

    def embed_documents(self, texts):
        self.sent += texts
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        return [1.0, float(len(text))]


OWNERS = [("ana", "t1"), ("ben", "t1"), (None, "lone")]


@pytest.fixture
def path(tmp_path):
    """A memory of three owners, embedded by an embedder of before."""
    place = tmp_path / "memory.db"
    with ConversationMemory.open(place, embeddings=Counting("old")) as memory:
        for user_id, thread_id in OWNERS:
            memory.add_messages(
                [HumanMessage(f"{thread_id} of {user_id}")], user_id=user_id, thread_id=thread_id
            )
            memory.refresh(user_id=user_id, thread_id=None if user_id else thread_id)
    return place


@pytest.fixture
def new():
    return Counting("new")


@pytest.fixture
def memory(path, new):
    with ConversationMemory.open(path, embeddings=new) as opened:
        yield opened


def test_only_the_user_who_is_named_is_embedded_anew(memory, new):
    with pytest.raises(ConfigError, match=r"memory\.reindex\(user_id='ana'\)"):
        memory.refresh(user_id="ana")
    seen = []
    assert memory.reindex(user_id="ana", progress=lambda *both: seen.append(both)) == ()
    assert (new.sent, seen) == (["t1 of ana"], [(1, 1)])
    assert memory.refresh(user_id="ana") == ()
    with pytest.raises(ConfigError, match=r"thread_id='lone'"):
        memory.refresh(thread_id="lone")


async def test_all_users_are_embedded_anew(memory, new):
    assert await memory.areindex(all_users=True) == ()
    assert sorted(new.sent) == ["lone of None", "t1 of ana", "t1 of ben"]
    for user_id, thread_id in OWNERS:
        found = await memory.arecall(
            "t1", user_id=user_id, thread_id=None if user_id else thread_id
        )
        assert found.problems == ()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ({}, "user_id"),
        ({"user_id": "ana", "all_users": True}, "not both"),
        ({"thread_id": "lone", "all_users": True}, "not both"),
    ],
)
def test_whose_lines_are_meant_must_be_said_once(memory, new, words, named):
    with pytest.raises(ConfigError, match=named):
        memory.reindex(**words)
    assert new.sent == []


@pytest.mark.parametrize("way", ["forget", "aforget"])
async def test_what_is_forgotten_leaves_this_processs_memory_at_once(memory, new, way):
    memory.reindex(user_id="ana")
    memory.add_messages([HumanMessage("another line")], user_id="ana", thread_id="t2")
    memory.recall("line", user_id="ana")
    sent = len(new.sent)
    if way == "forget":
        memory.forget(user_id="ana", thread_id="t1")
    else:
        await memory.aforget(user_id="ana", thread_id="t1")
    left = memory.recall("line", user_id="ana", k=9).matches
    assert [match.line.text for match in left] == ["another line"]
    assert "line" not in new.sent[sent:]
