"""`convmem reindex`: an embedder that is known by name takes over, and says how far it came."""

import pytest
from langchain_core.messages import HumanMessage
from watched_embedder import WordEmbeddings

from langchain_convmem import ConversationMemory
from langchain_convmem.cli import main, models


@pytest.fixture
def db(tmp_path):
    path = tmp_path / "memory.db"
    with ConversationMemory.open(path) as memory:
        for user in ("ana", "ben"):
            memory.add_messages([HumanMessage("The key.")], user_id=user, thread_id="t")
            memory.refresh(user_id=user)
    return path


@pytest.fixture
def embedder(monkeypatch):
    embedder = WordEmbeddings()
    known = {None: None, "acme:words": embedder}
    monkeypatch.setattr(models, "choose_embeddings", known.__getitem__)
    return embedder


def held(db, embedder, user):
    with ConversationMemory.open(db, embeddings=embedder) as memory:
        return memory.recall("key", user_id=user).problems


def test_one_user_or_all_are_embedded_anew(db, embedder, capsys):
    assert held(db, embedder, "ana")
    words = ["reindex", "--db", str(db), "--user", "ana", "--embeddings", "acme:words"]
    assert main(words) == 0
    assert capsys.readouterr() == ("every line of user 'ana' is embedded with acme:words\n", "")
    assert held(db, embedder, "ana") == ()
    assert held(db, embedder, "ben")
    assert main([*words, "--all-users"]) == 0
    assert "all users" in capsys.readouterr().out
    assert held(db, embedder, "ben") == ()


def test_what_is_left_is_said_and_another_call_goes_on(db, embedder, capsys, monkeypatch):
    monkeypatch.setenv("CONVMEM_EMBEDDINGS", "acme:words")
    embedder.failing = TimeoutError("quota exhausted")
    assert main(["reindex", "--db", str(db), "--all-users"]) == 1
    out, err = capsys.readouterr()
    assert (out, "TimeoutError" in err) == ("", True)
    embedder.failing = None
    assert main(["reindex", "--db", str(db), "--all-users"]) == 0
    assert held(db, embedder, "ana") == held(db, embedder, "ben") == ()
