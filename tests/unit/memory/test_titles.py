"""Titles of threads: given, listed, kept through copies and exports, gone with their thread."""

from __future__ import annotations

import json

import pytest

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.errors import ConfigError
from langchain_convmem.records import ThreadKey
from langchain_convmem.titles import shorten_title
from langchain_convmem.transfer import copy_log, export_rows, read_threads, store_thread


@pytest.fixture
def memory():
    with ConversationMemory.open(":memory:") as opened:
        for thread in ("t1", "t2"):
            opened.add_messages("Hi", thread_id=thread, user_id="ana")
        yield opened


def list_titles(memory, user_id="ana"):
    return {info.key.thread_id: info.title for info in memory.threads(user_id)}


def test_a_title_is_listed_and_taken_away(memory):
    memory.set_title("t1", "  Parking in Lyon ", user_id="ana")
    assert list_titles(memory) == {"t1": "Parking in Lyon", "t2": ""}
    assert memory.get_title("t1", user_id="ana") == "Parking in Lyon"
    memory.set_title("t1", "", user_id="ana")
    assert list_titles(memory) == {"t1": "", "t2": ""}


def test_archiving_keeps_the_title_and_is_taken_back(memory):
    memory.set_title("t1", "Lyon", user_id="ana")
    memory.archive("t1", user_id="ana")
    memory.archive("t2", user_id="ana")
    memory.archive("t2", user_id="ana", archived=False)
    found = {one.key.thread_id: (one.title, one.archived) for one in memory.threads("ana")}
    assert found == {"t1": ("Lyon", True), "t2": ("", False)}


@pytest.mark.parametrize(
    ("title", "problem"),
    [("x" * 201, "201 characters"), ("a\nb", "one line"), ("\x1b[2J", "one line"), (7, "text")],
)
def test_a_bad_title_is_refused(memory, title, problem):
    with pytest.raises(ConfigError, match=problem):
        memory.set_title("t1", title, user_id="ana")
    assert list_titles(memory) == {"t1": "", "t2": ""}


def test_a_thread_without_entries_gets_no_title(memory):
    with pytest.raises(ConfigError, match="'t3' has no entries"):
        memory.set_title("t3", "Lyon", user_id="ana")


def test_forgetting_a_thread_erases_its_title(memory):
    memory.set_title("t1", "Lyon", user_id="ana")
    memory.forget(user_id="ana", thread_id="t1")
    memory.add_messages("Hi again", thread_id="t1", user_id="ana")
    assert list_titles(memory) == {"t1": "", "t2": ""}


def test_threads_of_no_user_have_titles(memory):
    memory.add_messages("Hi", thread_id="t1")
    memory.set_title("t1", "Nobody's")
    assert list_titles(memory, None) == {"t1": "Nobody's"}
    assert list_titles(memory) == {"t1": "", "t2": ""}


def test_a_copy_follows_titles_of_the_source(memory):
    memory.set_title("t1", "Lyon", user_id="ana")
    with ConversationMemory(InMemoryLog()) as other:
        copy_log(memory.log, other.log, source_name="a")
        assert list_titles(other) == {"t1": "Lyon", "t2": ""}
        memory.set_title("t1", "Paris", user_id="ana")
        copy_log(memory.log, other.log, source_name="a")
        assert list_titles(other) == {"t1": "Paris", "t2": ""}


def test_an_export_brings_titles_back(memory, tmp_path):
    memory.set_title("t1", "Lyon \N{SNOWMAN}", user_id="ana")
    path = tmp_path / "export.jsonl"
    rows = list(export_rows(memory.log, ThreadKey("ana", "t1").owner))
    path.write_text("\n".join(rows), encoding="utf-8")
    assert [json.loads(row)["convmem"] for row in rows] == ["entry", "entry", "thread"]
    with ConversationMemory(InMemoryLog()) as other:
        for thread in read_threads(path):
            store_thread(other.log, thread, user_id="bo")
        assert list_titles(other, "bo") == {"t1": "Lyon \N{SNOWMAN}", "t2": ""}


def test_an_import_keeps_the_title_that_was_given_here(memory, tmp_path):
    path = tmp_path / "conversations.json"
    chat = {
        "uuid": "c1",
        "name": "Their\nname",
        "chat_messages": [{"uuid": "m1", "sender": "human", "text": "Hello"}],
    }
    path.write_text(json.dumps([chat]), encoding="utf-8")
    memory.import_file(path, user_id="ana")
    assert list_titles(memory)["c1"] == "Their name"
    memory.set_title("c1", "Mine", user_id="ana")
    memory.import_file(path, user_id="ana")
    assert list_titles(memory)["c1"] == "Mine"


def test_a_title_of_any_length_becomes_one_line():
    assert shorten_title("a \n\t b\x1b") == "a b"
    assert shorten_title("x" * 300) == "x" * 199 + "…"
