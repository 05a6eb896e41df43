"""Checks, copies and restored copies of a database file, as typed."""

import contextlib
import sqlite3

import pytest

from langchain_convmem.logs import SQLiteLog
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing.log_contract import list_texts, say

KEY = ThreadKey("me", "t1")


@pytest.fixture
def db(tmp_path):
    path = tmp_path / "memory.db"
    with SQLiteLog(path) as log:
        say(log, KEY, "a secret \x1b]0;of mine")
        say(log, KEY, "another")
        log.set_state(KEY, "buffer", 1, expected=None)
    return path


def damage(path, script):
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.executescript(script)


def test_a_sound_file_is_counted(convmem, db):
    assert convmem("db", "verify", "--db", db) == (
        0,
        f"{db}: 2 entries, 1 thread, 1 owner: no problems\n",
        "",
    )


def test_each_problem_is_a_line_and_the_code_is_1(convmem, db):
    damage(db, "UPDATE entries SET body = 'broken ' || body")
    code, out, err = convmem("db", "verify", "--db", db)
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        "position 1 of thread 't1' of user 'me': it does not match its checksum",
        "position 2 of thread 't1' of user 'me': it does not match its checksum",
        f"{db}: 2 entries, 1 thread, 1 owner: 2 problems",
    ]


def test_a_copy_takes_the_place_of_the_file(convmem, db, tmp_path):
    copy = tmp_path / "copy.db"
    convmem("db", "backup", copy, "--db", db)
    with SQLiteLog(db) as log:
        say(log, KEY, "later")
    damage(db, "UPDATE entries SET body = replace(body, 'another', 'a mother')")
    code, out, err = convmem("db", "restore", copy, "--db", db, "--fetch")
    assert (code, err) == (0, "")
    entries, fetched, kept = out.splitlines()
    assert (entries, fetched) == (f"{db}: 3 entries", f"taken from {copy}: 1 entry")
    assert kept.startswith(f"old file: {db}.2")
    with SQLiteLog(db) as log:
        assert list_texts(log.entries(KEY))[1:] == ["another", "later"]
    code, out, _ = convmem("db", "restore", copy, "--db", db)
    assert (code, out.splitlines()[0]) == (0, f"{db}: 2 entries")
    code, _, err = convmem("db", "restore", tmp_path / "none.db", "--db", db)
    assert (code, "there is no backup at" in err) == (1, True)


def test_the_address_of_a_server_is_no_file_and_its_password_is_not_shown(convmem):
    address = "postgresql://app:hunter2@localhost/chats"
    for command in ("backup", "restore"):
        code, out, err = convmem("db", command, "x", "--db", address)
        assert (code, out, "hunter2" in err) == (1, "", False)
        assert "address of a server" in err


def test_a_file_that_is_no_database_is_one_sentence(convmem, tmp_path):
    notes = tmp_path / "notes.txt"
    notes.write_text("these are my notes, not a database\n" * 100)
    code, out, err = convmem("db", "verify", "--db", notes)
    assert (code, out) == (1, "")
    assert err.startswith("convmem: ")
    assert err.count("\n") == 1
    assert notes.read_text().startswith("these are my notes")


def test_a_key_comes_with_the_first_entry_and_is_needed_from_then_on(
    convmem, db, monkeypatch, tmp_path
):
    keyed = tmp_path / "keyed.db"
    monkeypatch.setenv("CONVMEM_SIGNING_KEY", "a secret of enough bytes")
    code, _, err = convmem("db", "verify", "--db", db)
    assert (code, "is not signed with a key; copy it" in err) == (1, True)
    with SQLiteLog(keyed, signing_key="a secret of enough bytes") as log:
        say(log, KEY, "Hi")
    assert convmem("db", "verify", "--db", keyed)[0] == 0
    monkeypatch.delenv("CONVMEM_SIGNING_KEY")
    code, _, err = convmem("db", "verify", "--db", keyed)
    assert (code, "is signed with a key" in err) == (1, True)
