"""Import, export and copy as typed."""

import json

import pytest
from langchain_core.messages import HumanMessage

from langchain_convmem import ConversationMemory
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.records import ThreadKey
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.live import find_live_entries


def said(name, parent, role, text):
    content = {"content_type": "text", "parts": [text]}
    message = {"id": name, "author": {"role": role}, "content": content, "create_time": 1.7e9}
    return {"message": message, "parent": parent}


CHATGPT = [
    {
        "conversation_id": "bike",
        "current_node": "b",
        "mapping": {
            "a": said("a", None, "user", "I locked my bicycle behind the bakery."),
            "b": said("b", "a", "assistant", "Behind the bakery, noted."),
            "c": said("c", "a", "assistant", "Which bakery do you mean?"),
        },
    }
]


@pytest.fixture
def chats(tmp_path):
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(CHATGPT))
    return path


@pytest.fixture
def filled(db):
    with SQLiteLog(db) as log:
        for user, thread in (("me", "t1"), ("me", "t2"), ("ana", "t1")):
            for text in ("frist", "sécond 🦊"):
                message = HumanMessage(text, id=text)
                log.append(ThreadKey(user, thread), [make_draft(message)])
        log.append(ThreadKey("me", "t1"), [make_draft(HumanMessage("first", id="frist"))])
    return db


def contents(db, user, thread):
    with SQLiteLog(db) as log:
        return [
            entry.contents[0] for entry in find_live_entries(log.entries(ThreadKey(user, thread)))
        ]


def test_a_chatgpt_export_is_imported_with_its_branches_and_recalled(convmem, db, chats):
    code, out, err = convmem("import", chats, "--db", db)
    assert (code, err) == (0, "")
    assert out == f"{chats}: 3 lines, 3 new, 2 threads, 1 of them a branch\n"
    assert contents(db, "me", "bike~branch-1") == ["Which bakery do you mean?"]
    assert "3 lines, 0 new" in convmem("import", chats, "--db", db)[1]
    assert "behind the bakery" in convmem("recall", "Where is the bicycle?", "--db", db)[1]


def test_an_export_is_imported_again_under_another_user(convmem, filled, tmp_path):
    out_file, other = tmp_path / "me.jsonl", tmp_path / "other.db"
    code, out, err = convmem("export", "--db", filled, "--out", out_file)
    assert (code, out, err) == (0, f"{out_file}: 6 lines\n", "")
    assert out_file.stat().st_mode & 0o077 == 0
    code, out, _ = convmem("import", out_file, "--db", other, "--user", "eve")
    assert (code, "6 lines, 6 new" in out) == (0, True)
    assert contents(other, "eve", "t1") == ["first", "sécond 🦊"]
    assert "6 lines, 0 new" in convmem("import", out_file, "--db", other, "--user", "eve")[1]


@pytest.mark.parametrize(
    "words", [["--user", "nobody"], ["--thread", "t9"], ["--db", "missing.db"]]
)
def test_an_export_of_nothing_is_refused_and_leaves_no_file(convmem, filled, tmp_path, words):
    out_file = tmp_path / "x.jsonl"
    code, _, err = convmem("export", "--db", filled, "--out", out_file, *words)
    assert code == 1
    assert words[1] in err
    assert not out_file.exists()


def test_users_are_copied_once_to_another_log(convmem, filled, tmp_path):
    other = tmp_path / "other.db"
    words = ("copy", "--from", filled, "--to", other, "--user", "me", "--user", "ana")
    code, out, err = convmem(*words)
    assert (code, err) == (0, "")
    assert out == f"8 entries, 3 threads, 2 users: 8 new in {other}\n"
    assert "8 entries, 3 threads, 2 users: 0 new" in convmem(*words)[1]
    assert contents(other, "me", "t1") == contents(filled, "me", "t1") == ["first", "sécond 🦊"]
    with ConversationMemory.open(other) as memory:
        assert memory.recall("first", user_id="me").matches


def test_all_users_are_copied_where_no_user_is_named(convmem, filled, tmp_path):
    other = tmp_path / "other.db"
    with SQLiteLog(filled) as log:
        log.append(ThreadKey(None, "alone"), [make_draft(HumanMessage("of nobody"))])
    code, out, err = convmem("copy", "--from", filled, "--to", other)
    assert (code, err) == (0, "")
    assert out == f"9 entries, 4 threads, 3 users: 9 new in {other}\n"
    assert contents(other, None, "alone") == ["of nobody"]
    assert contents(other, "ana", "t1") == contents(filled, "ana", "t1")


def test_a_copy_that_cannot_be_meant_is_refused(convmem, filled, tmp_path):
    for words, says in (
        (("--from", tmp_path / "typo.db", "--to", tmp_path / "x.db"), "typo.db"),
        (("--from", filled, "--to", filled), "into itself"),
        (("--from", filled, "--to", "redis://x"), "redis"),
        (("--from", filled, "--to", tmp_path / "x.db", "--user", "nobody"), "nobody"),
    ):
        code, _, err = convmem("copy", *words)
        assert code == 1
        assert says in err
