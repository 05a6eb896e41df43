"""A file gets its schema once and whole, or not at all; files of other versions are refused."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest
from forked_processes import ForkedProcess

from langchain_convmem.errors import SchemaVersionError
from langchain_convmem.logs import SQLiteLog, sqlite_file
from langchain_convmem.logs.sqlite_file import APPLICATION_ID, SCHEMA_VERSION
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing.log_contract import list_texts, say

ANA = ThreadKey("ana", "t1")


def plain(path):
    """Open the file as another program would."""
    return contextlib.closing(sqlite3.connect(path, isolation_level=None))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.db"


def test_a_new_file_has_the_schema_that_is_expected(path):
    SQLiteLog(path).close()
    with plain(path) as db:
        assert sqlite_file.list_objects(db) == sqlite_file.list_expected_objects()
        assert db.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        assert db.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)


OPENING = """
import sys
from langchain_core.messages import HumanMessage
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.records import ThreadKey
from langchain_convmem.views.codec import make_draft

print("ready", flush=True)
sys.stdin.readline()
with SQLiteLog(sys.argv[1]) as log:
    log.append(ThreadKey("ana", "t1"), [make_draft(HumanMessage("Hi"))])
"""


def test_of_several_processes_one_makes_the_schema_and_the_others_wait(path):
    processes = [ForkedProcess(OPENING, path) for _ in range(4)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
    for process in processes:
        process.finish()
    with SQLiteLog(path) as log:
        assert list_texts(log.entries(ANA)) == ["Hi"] * 4
        assert log.verify().problems == ()


DYING = """
import os, sys
from langchain_convmem.logs import SQLiteLog, sqlite_file

run = sqlite_file._run

def run_and_die(db, script):
    run(db, script)
    os._exit(7)

sqlite_file._run = run_and_die
SQLiteLog(sys.argv[1])
"""


def test_a_process_that_dies_as_it_makes_the_schema_leaves_an_empty_file(path):
    assert ForkedProcess(DYING, path).ends() == 7
    with plain(path) as db:
        assert sqlite_file.list_objects(db) == {}
    with SQLiteLog(path) as log:
        assert say(log, ANA, "Hi").position == 1


@pytest.mark.parametrize("version", [SCHEMA_VERSION - 1, SCHEMA_VERSION + 1, 6])
def test_a_file_of_another_version_is_refused_before_anything_changes(path, version):
    SQLiteLog(path).close()
    with plain(path) as db:
        db.execute(f"PRAGMA user_version = {version}")
        db.execute("PRAGMA journal_mode = DELETE")
    before = path.read_bytes()
    with pytest.raises(SchemaVersionError, match=f"schema version {version}") as caught:
        SQLiteLog(path)
    assert (caught.value.found, caught.value.supported) == (version, SCHEMA_VERSION)
    assert path.read_bytes() == before
