"""`convmem reindex`: an embedder that is known by name takes over, and says how far it came."""

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.messages import HumanMessage

from langchain_convmem import ConversationMemory
from langchain_convmem.cli import main, models


class Lengths(Embeddings):
    fingerprint = "lengths"

    def __init__(self):
        self.failing = False

    def embed_documents(self, texts):
        if self.failing:
            raise TimeoutError("quota exhausted")
        return [[1.0, float(len(text))] for text in texts]

    def embed_query(self, text):
        return [1.0, float(len(text))]


@pytest.fixture
def db(tmp_path):
    path = tmp_path / "memory.db"
    with ConversationMemory.open(path) as memory:
        for user in ("ana", "ben"):
            memory.add_messages([HumanMessage("The key.")], user_id=user, thread_id="t")
            memory.refresh(user_id=user)
    return path


@pytest.fixture
def lengths(monkeypatch):
    embedder = Lengths()
    known = {None: None, "acme:lengths": embedder}
    monkeypatch.setattr(models, "choose_embeddings", known.__getitem__)
    return embedder


def held(db, lengths, user):
    with ConversationMemory.open(db, embeddings=lengths) as memory:
        return memory.recall("key", user_id=user).problems


def test_one_user_or_all_are_embedded_anew(db, lengths, capsys):
    assert held(db, lengths, "ana")
    words = ["reindex", "--db", str(db), "--user", "ana", "--embeddings", "acme:lengths"]
    assert main(words) == 0
    assert capsys.readouterr() == ("every line of user 'ana' is embedded with acme:lengths\n", "")
    assert held(db, lengths, "ana") == ()
    assert held(db, lengths, "ben")
    assert main([*words, "--all-users"]) == 0
    assert "all users" in capsys.readouterr().out
    assert held(db, lengths, "ben") == ()


def test_what_is_left_is_said_and_another_call_goes_on(db, lengths, capsys, monkeypatch):
    monkeypatch.setenv("CONVMEM_EMBEDDINGS", "acme:lengths")
    lengths.failing = True
    assert main(["reindex", "--db", str(db), "--all-users"]) == 1
    out, err = capsys.readouterr()
    assert (out, "TimeoutError" in err) == ("", True)
    lengths.failing = False
    assert main(["reindex", "--db", str(db), "--all-users"]) == 0
    assert held(db, lengths, "ana") == held(db, lengths, "ben") == ()
