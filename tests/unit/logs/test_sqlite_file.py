"""Files of every earlier schema open whole; a migration is done once and whole, or not at all."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import histories
import pytest
from forked_processes import ForkedProcess
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_convmem.errors import LogError, SchemaVersionError
from langchain_convmem.logs import SQLiteLog, sqlite_file
from langchain_convmem.logs.sqlite_file import MIGRATIONS
from langchain_convmem.records import Control, Cover, Owner, StoredSegment, ThreadKey
from langchain_convmem.testing.log_contract import list_texts, say

FIRST = Path(histories.__file__).with_name("sqlite_version_1.sql")
VERSIONS = range(1, len(MIGRATIONS) + 1)
ANA = ThreadKey("ana", "t1")
BEN = ThreadKey("ben", "t1")
LONE = ThreadKey(None, "lone")


def plain(path):
    """Open the file as another program would."""
    return contextlib.closing(sqlite3.connect(path, isolation_level=None))


def file_of(path, version):
    """Make a file of a schema version: the first as it was written, brought up to there."""
    with plain(path) as db:
        db.executescript(FIRST.read_text(encoding="utf-8"))
        for script in MIGRATIONS[1:version]:
            db.executescript(script)
        db.execute(f"PRAGMA user_version = {version}")


def dump(path):
    with plain(path) as db:
        return db.execute("PRAGMA user_version").fetchone(), list(db.iterdump())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.db"


@pytest.fixture(params=VERSIONS, ids=lambda version: f"version {version}")
def version(request):
    return request.param


def test_every_entry_of_an_earlier_file_is_there(path, version):
    file_of(path, version)
    with SQLiteLog(path) as log:
        asked, calling, result, old, mark, answer, summary = log.entries(ANA)
        [of_nobody] = log.entries(LONE)
        [bens] = log.entries(BEN)
        assert log.verify().problems == ()
    assert asked.message == HumanMessage("Where did I park? 🦊")
    assert asked.id == "01KJ9PWEZ895F6VKWSYAFETNCS"
    assert asked.metadata.attributes == ("seen",)
    assert asked.metadata.timing == {"creation": 1772000000000 + 1000, "llmStart": 1772000000500}
    assert asked.metadata.aux == {"mood": "calm"}
    call = {"name": "find_car", "args": {"level": None}, "id": "call-1", "type": "tool_call"}
    assert calling.message == AIMessage("", id="run-1", tool_calls=[call])
    assert result.message == ToolMessage("Level C", id="tool-1", tool_call_id="call-1")
    assert old.message == AIMessage("Level B.", id="run-2")
    assert mark.control == Control((old.id,), "replaced", answer.id)
    assert answer.message == AIMessage("Level C.", id="run-2")
    assert {one.turn_id for one in (asked, calling, result, old, answer)} == {asked.id}
    assert summary.message == SystemMessage("Ana parked on level C.")
    assert summary.cover == Cover(((1, 6),), "abc", "offline", "1")
    assert summary.metadata.summary_ids == (asked.id,)
    assert of_nobody.message == HumanMessage("A thread of nobody.", id="m1")
    assert bens.message == HumanMessage("Bens thread of the same name.")
    everything = [asked, calling, result, old, mark, answer, summary, of_nobody, bens]
    assert [entry.position for entry in everything] == list(range(1, 10))


def test_what_stands_beside_the_entries_is_there_too(path, version):
    file_of(path, version)
    with SQLiteLog(path) as log:
        document = log.get_state(ANA, "buffer")
        assert (document.value, document.version) == (["a", 1], 1795275235674657)
        assert log.load_segments(ANA.owner, "static-256") == [
            StoredSegment(1, 0, 0, "park", b"\x00\x3c\x00\x40"),
            StoredSegment(6, 0, 0, "level c", None),
        ]
        assert set(log.owners()) == {Owner("ana"), Owner("ben"), Owner(thread_id="lone")}
        assert [log.changes(key.owner).generation for key in (ANA, BEN, LONE)] == [0, 1, 0]


def test_stored_vectors_outlive_the_analysis_that_they_were_stored_with(path):
    file_of(path, 3)
    with plain(path) as db:
        db.execute("UPDATE fingerprints SET name = 'words/terms-1/cut-400-500'")
    with SQLiteLog(path) as log:
        parked, level = log.load_segments(ANA.owner, "words/cut-400-500")
        assert (parked.vector, parked.analysis) == (b"\x00\x3c\x00\x40", 1)
        assert (level.vector, level.analysis) == (None, 1)
        assert log.segment_fingerprints(ANA.owner) == ["words/cut-400-500"]


def test_an_earlier_file_is_written_to_as_before(path, version):
    file_of(path, version)
    with SQLiteLog(path) as log:
        again = say(log, ANA, AIMessage("Level C.", id="run-2"))
        assert again.position == 6
        assert say(log, BEN, "new").position == 11  # that of what was forgotten is not used again
        assert [entry.position for entry in log.find(ANA, ["run-2"])] == [4, 6]
        noted = log.annotate(ANA, again.id, attributes=["late"])
        assert noted in log.entries(ANA)
        assert log.forget(ANA).segments == 2
        assert log.entries(ANA) == []
        assert list_texts(log.entries(BEN)) == ["Bens thread of the same name.", "new"]
        assert log.verify().problems == ()


def test_a_migrated_file_has_the_schema_of_a_new_one(tmp_path, version):
    file_of(tmp_path / "old.db", version)
    schemas = []
    for name in ("old.db", "new.db"):
        SQLiteLog(tmp_path / name).close()
        with plain(tmp_path / name) as db:
            schemas.append(sqlite_file.list_objects(db))
            assert db.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
            assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    assert schemas[0] == schemas[1] == sqlite_file.list_expected_objects()


@pytest.mark.parametrize(
    "script",
    [
        "CREATE TABLE more(x); INSERT INTO nowhere VALUES (1)",
        "DROP TABLE entries; DELETE FROM owners; CREATE TABLE meta(x)",
    ],
)
def test_a_migration_that_fails_half_way_leaves_the_old_version(path, version, script, monkeypatch):
    file_of(path, version)
    before = dump(path)
    monkeypatch.setattr(sqlite_file, "MIGRATIONS", (*MIGRATIONS, script))
    with pytest.raises(LogError, match=r"log\.db"):
        SQLiteLog(path)
    assert dump(path) == before
    monkeypatch.undo()
    with SQLiteLog(path) as log:
        assert len(log.entries(ANA)) == 7


DYING = """
import os, sys
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.logs import sqlite_file

sqlite_file.MIGRATIONS = (*sqlite_file.MIGRATIONS, "DELETE FROM owners; SELECT never()")
run = sqlite_file._run

def run_and_die(db, script):
    db.create_function("never", 0, lambda: os._exit(7))
    run(db, script)

sqlite_file._run = run_and_die
SQLiteLog(sys.argv[1])
"""


def test_a_process_that_dies_in_a_migration_leaves_the_old_version(path, version):
    file_of(path, version)
    before = dump(path)
    assert ForkedProcess(DYING, path).ends() == 7
    assert dump(path) == before
    with SQLiteLog(path) as log:
        assert len(log.entries(ANA)) == 7


OPENING = """
import sys
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.records import ThreadKey

print("ready", flush=True)
sys.stdin.readline()
with SQLiteLog(sys.argv[1]) as log:
    print(len(log.entries(ThreadKey("ana", "t1"))))
"""


def test_of_several_processes_one_migrates_and_the_others_wait(path):
    file_of(path, 1)
    processes = [ForkedProcess(OPENING, path) for _ in range(4)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
    assert [process.finish() for process in processes] == ["7\n"] * 4
    with SQLiteLog(path) as log:
        report = log.verify()
        assert (report.schema_version, report.problems) == (len(MIGRATIONS), ())


def test_a_file_of_a_later_schema_is_refused_before_anything_changes(path):
    file_of(path, 1)
    with plain(path) as db:
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    before = path.read_bytes()
    with pytest.raises(SchemaVersionError, match="upgrade langchain-convmem"):
        SQLiteLog(path)
    assert path.read_bytes() == before
