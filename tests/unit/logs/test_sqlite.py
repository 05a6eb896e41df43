import gc
import os
import shutil
import sqlite3
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from forked_processes import ForkedProcess
from histories import KEY
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from sqlite_files import plain, read_files

from langchain_convmem.errors import ConfigError, InvalidMessageError, LogError, LogUnavailableError
from langchain_convmem.logs import InMemoryLog, SQLiteLog, sqlite
from langchain_convmem.records import StoredSegment, ThreadKey
from langchain_convmem.testing.log_contract import ReadingPlan, list_texts, say, say_all
from langchain_convmem.views.codec import make_draft

SECRET = "correct horse battery staple"
SIGNING_KEY = "0123456789abcdef"


@pytest.fixture
def said(monkeypatch):
    """The statements of what is opened from now on, where SQLite was built with lax defaults."""
    connect, statements = sqlite3.connect, []

    def open_traced(*args, **options):
        db = connect(*args, **options)
        db.executescript("PRAGMA synchronous = OFF; PRAGMA secure_delete = OFF")
        db.set_trace_callback(statements.append)
        return db

    monkeypatch.setattr(sqlite3, "connect", open_traced)
    return statements


@pytest.mark.parametrize("name", ["a?mode=memory.db", "a#b.db", "a%20b.db", "file:x", "汉 '\".db"])
def test_any_file_name_is_just_a_name(tmp_path, name):
    with SQLiteLog(tmp_path / name) as log:
        say(log, KEY, "Hi")
    assert (tmp_path / name).stat().st_size > 0
    for read_only in (False, True):
        with SQLiteLog(str(tmp_path / name), read_only=read_only) as log:
            assert list_texts(log.entries(KEY)) == ["Hi"]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        (":memory:", r"InMemoryLog\(\)"),
        ("sqlite:///memory.db", "path of a file"),
        ("postgresql://localhost/chat", "path of a file"),
        ("", "path of a file"),
        ("a\0b", "path of a file"),
    ],
)
def test_what_is_no_path_is_refused_with_what_to_write(name, what):
    with pytest.raises(ConfigError, match=what):
        SQLiteLog(name)


def test_a_missing_directory_is_named_and_not_made(tmp_path):
    with pytest.raises(ConfigError, match="nowhere"):
        SQLiteLog(tmp_path / "nowhere" / "log.db")
    with pytest.raises(ConfigError, match="is a directory"):
        SQLiteLog(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_for_its_owner_alone(path, log):
    say(log, KEY, "Hi")
    assert {stat.S_IMODE(item.stat().st_mode) for item in path.parent.iterdir()} == {0o600}


@pytest.mark.parametrize(
    "script", ["CREATE TABLE notes(text)", "PRAGMA application_id = 7", "PRAGMA user_version = 1"]
)
def test_a_database_of_another_program_is_refused_and_left_alone(path, script):
    with plain(path) as db:
        db.execute(script)
    before = read_files(path)
    with pytest.raises(LogError, match="another program"):
        SQLiteLog(path)
    assert read_files(path) == before


def test_a_file_that_is_no_database_is_refused_by_name(path):
    path.write_bytes(b"Dear diary, " * 100)
    with pytest.raises(LogError, match=r"log\.db is not a SQLite.*restore BACKUP") as caught:
        SQLiteLog(path)
    assert not isinstance(caught.value, LogUnavailableError)
    assert path.read_bytes().startswith(b"Dear diary")


def test_acknowledged_writes_wait_for_the_disk(path, said):
    def is_full():
        return [one for one in said if "synchronous =" in one][-1].endswith("FULL")

    with SQLiteLog(path) as log:
        assert "PRAGMA journal_mode = WAL" in said
        assert is_full()
        for write in (
            lambda: say(log, KEY, "more"),
            lambda: log.annotate(KEY, log.entries(KEY)[0].id, attributes=["seen"]),
            lambda: log.set_state(KEY, "buffer", 1, expected=None),
            lambda: log.delete_state(KEY, "buffer"),
            lambda: log.forget(KEY),
        ):
            log.append(KEY, [make_draft(HumanMessage("relaxed"))], durable=False)
            assert not is_full()
            write()
            assert is_full()


@pytest.mark.usefixtures("said")
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
        generation = log.changes(KEY.owner).generation
        assert log.save_snapshot(KEY.owner, "index", SECRET.encode(), generation)
        if whole:
            log.set_state(KEY, SECRET, SECRET, expected=None)
            log.forget(KEY.owner)
        else:
            log.forget(KEY, [f"id of {SECRET}"])
        files = read_files(path)
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
        assert all(SECRET.encode() not in content for content in read_files(path).values())
        assert list_texts(log.entries(KEY)) == ["Hi"]


def test_forgetting_waits_for_no_reader_forever_and_says_what_is_left(path, monkeypatch):
    monkeypatch.setattr(sqlite, "BUSY_S", 0.05)
    with SQLiteLog(path) as log, plain(path) as reader:
        entry = say(log, KEY, SECRET)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM entries").fetchone()
        with pytest.raises(LogUnavailableError, match="forget them again"):
            log.forget(KEY, [entry.id])
        assert log.entries(KEY) == []
        reader.execute("COMMIT")
        assert log.forget(KEY, [entry.id]).entries == 0
        assert all(SECRET.encode() not in content for content in read_files(path).values())


def test_no_statement_walks_through_what_does_not_concern_it(path, said):
    with SQLiteLog(path) as log:
        entry = say(log, KEY, HumanMessage("Hi", id="m1"))
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
    kinds = ("SELECT", "INSERT", "UPDATE", "DELETE")
    of_one_row = {"SCAN meta", "SCAN m", "SCAN identity", "SCAN x", "SCAN CONSTANT ROW"}
    queries = [one for one in said if one.split()[0] in kinds and "sqlite_master" not in one]
    assert len(queries) > 30
    with plain(path) as db:
        for query in queries:
            steps = [step[3] for step in db.execute(f"EXPLAIN QUERY PLAN {query}")]
            walked = {step for step in steps if step.startswith("SCAN")}
            assert walked <= of_one_row, query
            if "LIMIT" in query and "body" in query:
                assert not any("TEMP B-TREE" in step for step in steps), query


def test_a_file_with_a_key_opens_with_it_alone(path):
    with SQLiteLog(path, signing_key=SIGNING_KEY) as log:
        say(log, KEY, "one")
        assert log.verify().ok
    for other in (None, "another key of sixteen"):
        with pytest.raises(ConfigError, match="signing_key") as caught:
            SQLiteLog(path, signing_key=other)
        assert set(read_files(path)) == {"log.db"}, f"it is still open: {caught}"
    with SQLiteLog(path, signing_key=SIGNING_KEY) as log:
        assert list_texts(log.entries(KEY)) == ["one"]


def test_a_file_that_was_used_gets_no_key(path, log):
    say(log, KEY, "one")
    with pytest.raises(ConfigError, match="copy it into a new log"):
        SQLiteLog(path, signing_key=SIGNING_KEY)
    log.forget(KEY)
    with pytest.raises(ConfigError, match="copy it into a new log"):
        SQLiteLog(path, signing_key=SIGNING_KEY)


def test_a_locked_file_is_worth_another_try(path, monkeypatch):
    monkeypatch.setattr(sqlite, "BUSY_S", 0.05)
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


def test_nothing_is_written_to_a_file_that_is_not_there_anymore(path, log):
    say(log, KEY, "before")
    elsewhere = path.rename(path.with_name("elsewhere.db"))
    for _ in ("moved", "replaced"):
        with pytest.raises(LogError, match=r"log\.db .*moved, deleted or replaced.*put it back"):
            say(log, KEY, "lost")
        path.write_bytes(b"")
    elsewhere.replace(path)
    say(log, KEY, "after")
    assert list_texts(log.entries(KEY)) == ["before", "after"]


@pytest.mark.parametrize("folds", [False, True])
def test_a_file_opens_while_others_commit_between_any_two_looks(path, log, monkeypatch, folds):
    connect = sqlite3.connect

    def connect_late(name, *, uri, **options):
        if uri:  # which is how the file is looked at
            if folds:
                say(log, KEY, "folded in")
                with closing(connect(path)) as db:
                    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            say(log, KEY, "meanwhile")
        return connect(name, uri=uri, **options)

    say(log, KEY, "before")
    monkeypatch.setattr(sqlite3, "connect", connect_late)
    with SQLiteLog(path) as other:
        assert set(list_texts(other.entries(KEY))) >= {"before", "meanwhile"}


def test_a_reader_does_not_wait_for_a_writer_of_its_process(log):
    say(log, KEY, "before")

    def plan(_):
        # Another thread, since a call of this one would be part of the transaction.
        with ThreadPoolExecutor(1) as pool:
            assert list_texts(pool.submit(log.entries, KEY).result(timeout=20)) == ["before"]
        return [make_draft(HumanMessage("after"))]

    log.append_planned(KEY, plan, after=0)
    assert list_texts(log.entries(KEY)) == ["before", "after"]


def test_a_batch_that_fails_in_its_middle_leaves_nothing(path, log):
    say(log, KEY, "before")
    with plain(path) as db:
        db.execute(
            "CREATE TRIGGER refusing BEFORE INSERT ON entries WHEN NEW.role = 'assistant' "
            "BEGIN SELECT RAISE(ABORT, 'no room'); END"
        )
    with pytest.raises(LogError):
        log.append(KEY, [make_draft(HumanMessage("question")), make_draft(AIMessage("answer"))])
    assert list_texts(log.entries(KEY)) == ["before"]


@pytest.mark.parametrize("open_log", [SQLiteLog, lambda _: InMemoryLog()], ids=["file", "memory"])
def test_what_fails_within_a_transaction_is_undone_with_all_of_it(path, open_log):
    def plan(_):
        assert log.entries(KEY) == []
        with pytest.raises(LogError):
            say(log, KEY, "within")
        said = ("planned", [{"type": "x", "x": object()}])
        return [make_draft(HumanMessage(content)) for content in said]

    with open_log(path) as log:
        with pytest.raises(InvalidMessageError):
            log.append_planned(KEY, plan, after=0)
        assert log.entries(KEY) == []
        say(log, KEY, "after")
        assert list_texts(log.entries(KEY)) == ["after"]
        assert log.verify().ok


THREAD, OTHER = ThreadKey("ana", "t"), ThreadKey("bo", "t")


def read(log, key=THREAD):
    return log.read_back(key, ReadingPlan([(0, None)], 999))


def messages_with(text):
    gc.collect()
    return [one for one in gc.get_objects() if isinstance(one, BaseMessage) and one.content == text]


def test_rows_that_did_not_change_are_decoded_once(log):
    log.append(THREAD, [make_draft(HumanMessage("one")), make_draft(HumanMessage("two"))])
    first = read(log)
    log.annotate(THREAD, first[0].id, attributes=["seen"])
    again = read(log)
    assert again[1] is first[1]
    assert again[0].metadata.attributes == ("seen",)


def test_what_another_process_forgot_leaves_memory_with_the_next_reading(path):
    secret = "the code of the safe is 1812"
    with SQLiteLog(path) as here, SQLiteLog(path) as there:
        for key, text in ((THREAD, secret), (OTHER, "hello")):
            here.append(key, [make_draft(HumanMessage(text))])
            read(here, key)
        assert messages_with(secret)
        there.forget(THREAD)
        read(here, OTHER)
    assert not messages_with(secret)


UNFINISHED = """
import os, sys
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.testing.log_contract import ANA, say

say(SQLiteLog(sys.argv[1]), ANA, "in the write-ahead file")
os._exit(0)
"""


@pytest.fixture
def stored(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with SQLiteLog(folder / "log.db") as log:
        say_all(log, KEY, ["one", "two"])
        log.set_state(KEY, "buffer", [1], expected=None)
    return folder / "log.db"


def check_reading(log):
    entries = log.entries(KEY)
    assert list_texts(entries)[:2] == ["one", "two"]
    assert log.changes(KEY.owner).entries == tuple(entries)
    assert log.get_state(KEY, "buffer").value == [1]
    assert log.verify().ok
    for write in (
        lambda: say(log, KEY, "three"),
        lambda: log.annotate(KEY, entries[0].id, attributes=["seen"]),
        lambda: log.set_state(KEY, "buffer", 2, expected=None),
        lambda: log.forget(KEY),
        lambda: log.save_segments(KEY.owner, "model", []),
    ):
        with pytest.raises(LogError, match="open for reading alone"):
            write()
    assert log.entries(KEY) == entries


def test_a_log_is_opened_for_reading_on_request(stored):
    before = read_files(stored)
    with SQLiteLog(stored, read_only=True) as log:
        check_reading(log)
    assert read_files(stored) == before


def test_what_a_crash_has_left_is_read_as_well(stored):
    ForkedProcess(UNFINISHED, stored).finish()
    before = read_files(stored)
    with SQLiteLog(stored, read_only=True) as log:
        check_reading(log)
        assert list_texts(log.entries(KEY))[2:] == ["in the write-ahead file"]
    after = read_files(stored)
    assert (after["log.db"], after["log.db-wal"]) == (before["log.db"], before["log.db-wal"])


def test_only_a_log_that_is_there_can_be_read(tmp_path):
    with pytest.raises(LogError, match=r"log\.db"):
        SQLiteLog(tmp_path / "log.db", read_only=True)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(params=["file", "folder", "disk"])
def protected(request, stored):
    """A log without the right to write: the file, its folder, or the whole disk."""
    if request.param == "disk":
        if os.geteuid() or shutil.which("mount") is None:
            pytest.skip("only root mounts a disk")
        mount = [shutil.which("mount"), "--bind", "-o", "ro", stored.parent, stored.parent]
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            pytest.skip("this system mounts nothing")
        yield stored
        subprocess.run([shutil.which("umount"), stored.parent], check=True)
        return
    if os.geteuid() == 0:
        pytest.skip("root may write everything")
    part = stored if request.param == "file" else stored.parent
    before = part.stat().st_mode
    part.chmod(before & ~0o222)
    yield stored
    part.chmod(before)


def test_a_file_without_the_right_to_write_is_read(protected):
    before = read_files(protected)
    with SQLiteLog(protected) as log:
        check_reading(log)
        if not os.access(protected.parent, os.W_OK):
            with pytest.raises(ConfigError, match="put the copy elsewhere"):
                log.backup(protected.with_name("copy.db"))
            with pytest.raises(ConfigError, match="is not writable; use a file elsewhere"):
                SQLiteLog(protected.with_name("new.db"))
    assert read_files(protected) == before
