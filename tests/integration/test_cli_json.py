"""With `--json`, standard output is JSON of the shapes in docs/reference/command_line.md."""

import io
import json
import sys

import pytest

from langchain_convmem.cli import main

LINE = "The spare key hangs in the cellar."
ROW = json.dumps({"role": "user", "name": "Ana", "content": LINE})


@pytest.fixture
def convmem(convmem):
    """Run a command with `--json`; the answer is what it printed, decoded."""

    def run(*words):
        code, out, err = convmem(*words, "--json")
        assert code == 0, err
        return json.loads(out)

    return run


@pytest.fixture
def imported(convmem, tmp_path):
    (tmp_path / "key.jsonl").write_text(ROW + "\n")
    return convmem("import", "key.jsonl")


def test_an_import_counts_by_file(imported, convmem):
    first = {
        "path": "key.jsonl",
        "lines": 1,
        "thread_ids": ["key"],
        "branches": 0,
        "added": 1,
        "known": 0,
        "skipped": [],
        "unread": [],
    }
    assert imported == {"files": [first], "problems": []}
    again = convmem("import", "key.jsonl")
    assert again["files"] == [first | {"added": 0, "known": 1}]


@pytest.mark.usefixtures("imported")
def test_a_recall_holds_its_blocks(convmem):
    found = convmem("recall", "spare key")
    assert found.keys() == {"query", "verdict", "blocks", "best_rejected", "problems"}
    [block] = found["blocks"]
    assert [(one["thread_id"], one["text"]) for one in block["lines"]] == [("key", LINE)]


@pytest.mark.usefixtures("imported")
def test_a_log_and_a_list_of_threads_are_lists(convmem):
    [entry] = convmem("log", "--thread", "key")
    assert (entry["position"], entry["role"], entry["speaker"]) == (1, "user", "Ana")
    assert entry["contents"] == [LINE]
    [thread] = convmem("threads")
    assert thread.keys() == {
        "user_id",
        "thread_id",
        "entries",
        "first",
        "last",
        "title",
        "archived",
    }


@pytest.mark.usefixtures("imported")
def test_an_export_names_its_file_and_prints_the_same_rows_without_one(convmem, tmp_path, capsys):
    assert convmem("export", "--out", "me.jsonl") == {"path": "me.jsonl", "lines": 1}
    assert main(["export", "--out", "-", "--json"]) == 0
    assert capsys.readouterr().out == (tmp_path / "me.jsonl").read_text()


@pytest.mark.usefixtures("imported")
def test_a_copy_counts(convmem, tmp_path):
    words = ("copy", "--from", "memory.db", "--to", "other.db")
    source, target = (str(tmp_path / name) for name in ("memory.db", "other.db"))
    counts = {"owners": 1, "threads": 1, "entries": 1, "written": 1, "short": [], "damaged": []}
    assert convmem(*words) == {"source": source, "target": target, "report": counts}


@pytest.mark.usefixtures("imported")
def test_forget_verify_backup_and_restore_count(convmem, tmp_path):
    checked = convmem("db", "verify")
    assert (checked["ok"], checked["missing"], checked["damaged"]) == (True, 0, [])
    assert (checked["path"], checked["entries"], checked["problems"]) == ("memory.db", 1, [])
    size = convmem("db", "backup", "copy.db")
    assert size == {"path": "copy.db", "bytes": (tmp_path / "copy.db").stat().st_size}
    done = convmem("db", "restore", "copy.db")
    kept = done.pop("kept")
    assert done == {"path": "memory.db", "entries": 1, "fetched": 0}
    assert (tmp_path / kept).exists()
    receipt = convmem("forget", "--thread", "key", "--yes")
    names = {"user_id", "thread_id", "entries", "threads", "segments", "documents"}
    assert receipt.keys() == names
    assert (receipt["thread_id"], receipt["entries"]) == ("key", 1)


@pytest.mark.usefixtures("imported")
def test_what_embeds_is_told(convmem):
    done = convmem("reindex")
    assert done == {"user_id": "me", "embedder": done["embedder"], "problems": []}
    assert done["embedder"]
    assert convmem("reindex", "--all-users")["user_id"] is None


def test_each_answer_of_a_chat_is_a_line(convmem, imported, monkeypatch, capsys):
    typed = b"Where is the spare key?\n/recall spare key\n/history\n/help\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed), encoding="utf-8"))
    assert main(["chat", "--thread", "t", "--show-recall", "--json"]) == 0
    reply, recall, history, listed = map(json.loads, capsys.readouterr().out.splitlines())
    assert reply.keys() == {"kind", "thread_id", "text", "reply", "recall"}
    assert (reply["kind"], reply["thread_id"]) == ("reply", "t")
    assert reply["text"] == "Where is the spare key?"
    assert "cellar" in reply["reply"]
    assert reply["recall"]["blocks"][0]["lines"][0]["thread_id"] == "key"
    assert (recall["kind"], recall["query"]) == ("recall", "spare key")
    assert history["kind"] == "history"
    assert "spare key" in history["text"]
    assert listed["kind"] == "help"
