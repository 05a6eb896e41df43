"""What a SQLite log promises beyond the contract: its file, its durability, its neighbours."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sqlite3

import pytest
from histories import KEY
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_convmem.errors import (
    ConfigError,
    LogError,
    LogUnavailableError,
    SchemaVersionError,
)
from langchain_convmem.ids import make_ulid
from langchain_convmem.logs import SQLiteLog, sqlite_file
from langchain_convmem.logs.sqlite import DecodedEntries
from langchain_convmem.logs.sqlite_file import APPLICATION_ID, SCHEMA_VERSION
from langchain_convmem.records import StoredSegment, ThreadKey
from langchain_convmem.testing.log_contract import list_texts, say, say_all
from langchain_convmem.views.codec import make_draft

SECRET = "correct horse battery staple"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.db"


@pytest.fixture
def connections(monkeypatch):
    """All connections that are opened from now on, in order."""
    found, connect = [], sqlite3.connect

    def note(*args, **options):
        found.append(connect(*args, **options))
        return found[-1]

    monkeypatch.setattr(sqlite3, "connect", note)
    return found


@pytest.fixture
def log(path, connections):
    with SQLiteLog(path) as opened:
        yield opened


def plain(path):
    """Open the file as another program would."""
    return contextlib.closing(sqlite3.connect(path, isolation_level=None))


# -- the file -----------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["a?mode=memory.db", "a#b.db", "a%20b.db", "file:x", "汉 '\".db"])
def test_any_file_name_is_just_a_name(tmp_path, name):
    with SQLiteLog(tmp_path / name) as log:
        say(log, KEY, "Hi")
    assert (tmp_path / name).stat().st_size > 0
    with SQLiteLog(str(tmp_path / name)) as log:
        assert list_texts(log.entries(KEY)) == ["Hi"]


def test_a_relative_path_stays_where_it_was_opened(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with SQLiteLog("log.db") as log:
        monkeypatch.chdir(tmp_path / "elsewhere")
        # What is read within a write takes a new connection.
        log.append_planned(KEY, lambda _: log.entries(KEY), after=0)
        say(log, KEY, "Hi")
    assert (tmp_path / "log.db").exists()
    assert not (tmp_path / "elsewhere" / "log.db").exists()


@pytest.mark.parametrize("name", ["", ":memory:", "a\0b"])
def test_what_is_no_file_is_refused(name):
    with pytest.raises(ConfigError, match="needs a file"):
        SQLiteLog(name)


def test_a_missing_directory_is_named_and_not_made(tmp_path):
    with pytest.raises(ConfigError, match="nowhere"):
        SQLiteLog(tmp_path / "nowhere" / "log.db")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="is a directory"):
        SQLiteLog(tmp_path)


@pytest.mark.parametrize(
    "script", ["CREATE TABLE notes(text)", "PRAGMA application_id = 7", "PRAGMA user_version = 1"]
)
def test_a_database_of_another_program_is_refused_and_left_alone(path, script):
    with plain(path) as db:
        db.execute(script)
    before = path.read_bytes()
    with pytest.raises(SchemaVersionError, match="another program"):
        SQLiteLog(path)
    assert path.read_bytes() == before
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_an_empty_file_becomes_a_log(path):
    path.touch()
    SQLiteLog(path).close()
    with plain(path) as db:
        assert db.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert db.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)


def test_a_file_that_is_no_database_is_refused_by_name(path):
    path.write_bytes(b"Dear diary, " * 100)
    with pytest.raises(LogError, match=r"log\.db") as caught:
        SQLiteLog(path)
    assert not isinstance(caught.value, LogUnavailableError)
    assert path.read_bytes().startswith(b"Dear diary")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everything")
def test_a_file_that_cannot_be_written_is_not_worth_another_try(path):
    SQLiteLog(path).close()
    path.chmod(0o400)
    with pytest.raises(LogError) as caught, SQLiteLog(path) as log:
        say(log, KEY, "Hi")
    assert not isinstance(caught.value, LogUnavailableError)


# -- durability ---------------------------------------------------------------------------------
def pragma(connections, name):
    return connections[-1].execute(f"PRAGMA {name}").fetchone()[0]


def test_acknowledged_writes_wait_for_the_disk(log, connections):
    full, normal = 2, 1
    say(log, KEY, "Hi")
    assert pragma(connections, "journal_mode") == "wal"
    assert pragma(connections, "synchronous") == full
    log.append(KEY, [make_draft(HumanMessage("again"))], durable=False)
    assert pragma(connections, "synchronous") == normal
    for write in (
        lambda: say(log, KEY, "more"),
        lambda: log.annotate(KEY, log.entries(KEY)[0].id, attributes=["seen"]),
        lambda: log.set_state(KEY, "buffer", 1, expected=None),
        lambda: log.delete_state(KEY, "buffer"),
        lambda: log.forget(KEY),
    ):
        log.append(KEY, [make_draft(HumanMessage("relaxed"))], durable=False)
        write()
        assert pragma(connections, "synchronous") == full


def test_every_connection_overwrites_what_it_deletes(log, connections):
    assert pragma(connections, "secure_delete") == 1
    assert pragma(connections, "foreign_keys") == 1


@pytest.mark.parametrize("whole", [False, True])
def test_forgotten_text_is_not_in_the_files(path, whole):
    with SQLiteLog(path) as log:
        for number in range(40):
            say(log, KEY, f"harmless {number} " * 30)
        entry = say(log, KEY, HumanMessage(SECRET, id=f"id of {SECRET}"))
        say(log, KEY, HumanMessage(f"{SECRET} again" * 999, id=f"id of {SECRET}"))
        log.annotate(KEY, entry.id, aux={"note": SECRET})
        log.annotate(KEY, entry.id, aux={"note": "nothing"})
        row = StoredSegment(entry.position, 0, 0, SECRET, SECRET.encode())
        log.save_segments(KEY.owner, "model", [row])
        if whole:
            log.set_state(KEY, SECRET, SECRET, expected=None)
            log.forget(KEY.owner)
        else:
            log.forget(KEY, [f"id of {SECRET}"])
        files = {item.name: item.read_bytes() for item in path.parent.iterdir()}
        assert len(log.entries(KEY)) == (0 if whole else 41)
    assert len(files) > 1
    for name, content in files.items():
        assert SECRET.encode() not in content, name
    assert (b"harmless 7" in files["log.db"]) != whole


def test_not_even_the_name_of_a_forgotten_user_stays(path):
    with SQLiteLog(path) as log:
        say(log, ThreadKey(SECRET, f"thread of {SECRET}"), "Hi")
        say(log, KEY, "Hi")
        log.forget(ThreadKey(SECRET, f"thread of {SECRET}"))
        assert all(SECRET.encode() not in item.read_bytes() for item in path.parent.iterdir())
        assert list_texts(log.entries(KEY)) == ["Hi"]


def test_forgetting_waits_for_no_reader_forever_and_says_what_is_left(path, monkeypatch):
    monkeypatch.setattr(sqlite_file, "BUSY_TIMEOUT_S", 0.05)
    with SQLiteLog(path) as log, plain(path) as reader:
        entry = say(log, KEY, SECRET)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM entries").fetchone()
        with pytest.raises(LogUnavailableError, match="forget them again"):
            log.forget(KEY, [entry.id])
        assert log.entries(KEY) == []
        reader.execute("COMMIT")
        assert log.forget(KEY, [entry.id]).entries == 0
        assert all(SECRET.encode() not in item.read_bytes() for item in path.parent.iterdir())


def test_an_entry_costs_few_bytes_beside_its_message(path):
    count = 2_000
    with SQLiteLog(path) as log:
        with plain(path) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        empty = path.stat().st_size
        turn = ""
        for number in range(count):
            if number % 2 == 0:
                turn = make_ulid()
                say_all(log, KEY, [f"Where did I park the car on day {number}?"], turn=turn)
            else:
                say_all(log, KEY, [AIMessage(f"Behind the harbour, day {number}.")], turn=turn)
    with plain(path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        payload = db.execute("SELECT sum(length(CAST(body AS BLOB))) FROM entries").fetchone()[0]
    beside = (path.stat().st_size - empty - payload) / count
    assert beside <= 190


def test_no_statement_walks_through_what_does_not_concern_it(log, connections):
    entry = say(log, KEY, HumanMessage("Hi", id="m1"))
    statements = []
    db = connections[-1]
    db.set_trace_callback(statements.append)
    say(log, KEY, HumanMessage("Ho", id="m1"))
    log.entries(KEY, after=1, last=2)
    log.changes(KEY.owner, 1, limit=5)
    log.threads("ana")
    log.annotate(KEY, entry.id, attributes=["seen"])
    log.set_state(KEY, "buffer", 1, expected=None)
    log.save_segments(KEY.owner, "model", [StoredSegment(entry.position, 0, 0, "hi", None)])
    log.load_segments(KEY.owner, "model")
    log.forget(KEY, ["m1"])
    log.forget(KEY.owner)
    db.set_trace_callback(None)
    kinds = ("SELECT", "INSERT", "UPDATE", "DELETE")
    queries = [one for one in statements if one.split()[0] in kinds]
    assert len(queries) > 30
    for query in queries:
        steps = [step[3] for step in db.execute(f"EXPLAIN QUERY PLAN {query}")]
        walked = [step for step in steps if step.startswith("SCAN") and step != "SCAN meta"]
        assert walked in ([], ["SCAN CONSTANT ROW"]), query
        if "LIMIT" in query and "entries e WHERE" in query:
            assert not any("TEMP B-TREE" in step for step in steps), query


# -- neighbours ---------------------------------------------------------------------------------
def test_a_locked_file_is_worth_another_try(path, monkeypatch):
    monkeypatch.setattr(sqlite_file, "BUSY_TIMEOUT_S", 0.05)
    with SQLiteLog(path) as log, plain(path) as other:
        entry = say(log, KEY, "before")
        other.execute("BEGIN IMMEDIATE")
        for write in (
            lambda: say(log, KEY, "Hi"),
            lambda: log.annotate(KEY, entry.id, attributes=["seen"]),
            lambda: log.forget(KEY),
        ):
            with pytest.raises(LogUnavailableError, match=r"log\.db.*locked") as caught:
                write()
            assert caught.value.is_retryable
        assert log.entries(KEY) == [entry]
        other.execute("ROLLBACK")
        say(log, KEY, "after")
        assert list_texts(log.entries(KEY)) == ["before", "after"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_writes_through_connections_of_its_own(log, connections):
    say(log, KEY, "parent, before")
    inherited = list(connections)
    assert inherited
    child = os.fork()
    if child == 0:  # pragma: no cover - the child is not measured
        status = 1
        with contextlib.suppress(BaseException):
            say(log, KEY, "child")
            assert len(connections) > len(inherited)
            log.close()
            status = 0
        os._exit(status)
    say(log, KEY, "parent, meanwhile")
    assert os.waitpid(child, 0)[1] == 0
    say(log, KEY, "parent, after")
    for db in inherited:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            db.execute("SELECT 1")
    assert sorted(list_texts(log.entries(KEY))) == [
        "child",
        "parent, after",
        "parent, before",
        "parent, meanwhile",
    ]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_gets_a_worker_of_its_own(log):
    asyncio.run(log.aappend(KEY, [make_draft(HumanMessage("parent"))]))
    child = os.fork()
    if child == 0:  # pragma: no cover - the child is not measured
        done = asyncio.run(log.aappend(KEY, [make_draft(HumanMessage("child"))]))
        os._exit(0 if done else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert list_texts(asyncio.run(log.aentries(KEY))) == ["parent", "child"]


# -- Entries that a SQLite log keeps decoded ------------------------------------------------------


THREAD, OTHER = ThreadKey("ana", "t"), ThreadKey("bo", "t")


def read(log, key=THREAD):
    return log.read_thread(key, "none", lambda _: [(0, None)])[1]


def messages_with(text):
    gc.collect()
    return [one for one in gc.get_objects() if isinstance(one, BaseMessage) and one.content == text]


def test_rows_that_did_not_change_are_decoded_once(tmp_path):
    with SQLiteLog(tmp_path / "log.db") as log:
        log.append(THREAD, [make_draft(HumanMessage("one")), make_draft(HumanMessage("two"))])
        first = read(log)
        log.annotate(THREAD, first[0].id, attributes=["seen"])
        again = read(log)
    assert again[1] is first[1]
    assert again[0].metadata.attributes == ("seen",)


def test_what_another_process_forgot_leaves_memory_with_the_next_reading(tmp_path):
    secret = "the code of the safe is 1812"
    with SQLiteLog(tmp_path / "log.db") as here, SQLiteLog(tmp_path / "log.db") as there:
        for key, text in ((THREAD, secret), (OTHER, "hello")):
            here.append(key, [make_draft(HumanMessage(text))])
            read(here, key)
        assert messages_with(secret)
        there.forget(THREAD)
        read(here, OTHER)
    assert not messages_with(secret)


def test_the_oldest_leave_where_there_are_too_many(path):
    with SQLiteLog(path) as log:
        say_all(log, THREAD, [f"kept {number}" for number in range(20)])
    decoded = DecodedEntries(most=8)
    with plain(path) as db:
        assert len(decoded.read_stretch(db, THREAD, 1, after=0, until=None)) == 20
    gc.collect()
    messages = [one for one in gc.get_objects() if isinstance(one, BaseMessage)]
    assert len([one for one in messages if str(one.content).startswith("kept ")]) <= 8
