"""`SQLiteLog.backup`: a whole copy under its name while others write, or nothing at all."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest
from forked_processes import ForkedProcess
from langchain_core.messages import HumanMessage

from langchain_convmem.errors import ConfigError, LogClosedError, LogError
from langchain_convmem.logs import SQLiteLog, sqlite_maintenance
from langchain_convmem.records import StoredSegment, ThreadKey
from langchain_convmem.testing.log_contract import list_texts, say, say_all
from langchain_convmem.views.codec import make_draft

KEY = ThreadKey("ana", "t1")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.db"


@pytest.fixture
def copy(tmp_path):
    return tmp_path / "copy.db"


@pytest.fixture
def log(path):
    with SQLiteLog(path) as opened:
        yield opened


def names(directory):
    return {item.name for item in directory.iterdir()}


def test_the_copy_opens_as_a_log_with_everything(log, copy):
    entry = say(log, KEY, HumanMessage("Hi 🦊", id="m1"))
    log.set_state(KEY, "buffer", [1], expected=None)
    log.save_segments(KEY.owner, "model", [StoredSegment(entry.position, 0, 0, "hi", b"12")])
    log.backup(copy)
    with SQLiteLog(copy) as restored:
        assert restored.verify().ok
        assert restored.entries(KEY) == log.entries(KEY)
        assert restored.get_state(KEY, "buffer") == log.get_state(KEY, "buffer")
        assert len(restored.load_segments(KEY.owner, "model")) == 1
        assert restored.changes(KEY.owner) == log.changes(KEY.owner)


def test_log_and_copy_go_on_apart(log, copy):
    say(log, KEY, "before")
    log.backup(str(copy))
    with SQLiteLog(copy) as restored:
        say(restored, KEY, "in the copy")
        say(log, KEY, "in the log")
        assert list_texts(restored.entries(KEY)) == ["before", "in the copy"]
    assert list_texts(log.entries(KEY)) == ["before", "in the log"]


def test_the_copy_is_one_file_for_its_owner_alone(log, copy):
    say(log, KEY, "Hi")
    log.backup(copy)
    assert names(copy.parent) == {"log.db", "log.db-shm", "log.db-wal", "copy.db"}
    assert copy.stat().st_mode & 0o077 == 0


def test_what_was_forgotten_is_not_in_a_later_copy(log, copy):
    secret = "correct horse battery staple"
    entry = say(log, KEY, secret)
    say(log, KEY, "harmless")
    log.forget(KEY, [entry.id])
    log.backup(copy)
    assert b"harmless" in copy.read_bytes()
    assert secret.encode() not in copy.read_bytes()


def test_progress_rises_to_the_number_of_pages(log, copy, monkeypatch):
    monkeypatch.setattr(sqlite_maintenance, "PAGES_AT_ONCE", 2)
    say_all(log, KEY, ["0123456789" * 300] * 20)
    told = []
    log.backup(copy, progress=lambda done, total: told.append((done, total)))
    assert len(told) > 5
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1] == copy.stat().st_size // 8192


# -- others at work -----------------------------------------------------------------------------


def test_writes_between_two_steps_are_left_out_and_do_not_start_it_anew(
    path, log, copy, monkeypatch
):
    monkeypatch.setattr(sqlite_maintenance, "PAGES_AT_ONCE", 1)
    say_all(log, KEY, [f"before {number} " * 50 for number in range(50)])
    before = log.entries(KEY)
    done = []
    with SQLiteLog(path) as other:

        def write(copied, _):
            done.append(copied)
            say(other, KEY, "meanwhile")

        log.backup(copy, progress=write)
    assert done == list(range(1, len(done) + 1))
    assert len(log.entries(KEY)) == len(before) + len(done)
    with SQLiteLog(copy) as restored:
        assert restored.verify().ok
        assert restored.entries(KEY) == before


def test_copies_are_consistent_while_threads_write(log, tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_maintenance, "PAGES_AT_ONCE", 1)
    stop = threading.Event()
    started = threading.Barrier(3)

    def write(writer):
        started.wait()
        for number in range(10_000):
            if stop.is_set():
                return
            say_all(log, KEY, [f"{writer}-{number} a", f"{writer}-{number} b"])

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(2)]
    for thread in threads:
        thread.start()
    started.wait()
    try:
        for number in range(5):
            known = list_texts(log.entries(KEY))
            log.backup(tmp_path / f"copy {number}.db")
            with SQLiteLog(tmp_path / f"copy {number}.db") as restored:
                assert restored.verify().ok
                said = list_texts(restored.entries(KEY))
            assert said[: len(known)] == known
            assert [one[:-1] for one in said[::2]] == [one[:-1] for one in said[1::2]]
    finally:
        stop.set()
        for thread in threads:
            thread.join()


WRITER = """
import sys
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing.log_contract import say_all

with SQLiteLog(sys.argv[1]) as log:
    for number in range(10_000):
        say_all(log, ThreadKey("ana", "t1"), [f"0-{number} a", f"0-{number} b"])
        print(number, flush=True)
"""


def test_copies_are_consistent_while_a_process_writes_and_is_killed(log, tmp_path):
    with ForkedProcess(WRITER, log.path) as process:
        for number in range(3):
            acknowledged = int(process.stdout.readline())
            log.backup(tmp_path / f"copy {number}.db")
            with SQLiteLog(tmp_path / f"copy {number}.db") as restored:
                assert restored.verify().ok
                said = list_texts(restored.entries(KEY))
            assert len(said) >= 2 * (acknowledged + 1)
            assert said == [f"0-{n} {half}" for n in range(len(said) // 2) for half in "ab"]
        process.kill()
    log.backup(tmp_path / "last.db")
    with SQLiteLog(tmp_path / "last.db") as restored:
        assert restored.entries(KEY) == log.entries(KEY)


async def test_the_asynchronous_twin_does_not_hold_up_other_calls(log, copy):
    say(log, KEY, "before")
    threads = set()

    def note(*_):
        threads.add(threading.current_thread())

    await asyncio.gather(
        log.abackup(copy, progress=note), log.aappend(KEY, [make_draft(HumanMessage("Hi"))])
    )
    assert threads
    assert threading.main_thread() not in threads
    with SQLiteLog(copy) as restored:
        assert list_texts(restored.entries(KEY))[0] == "before"


# -- what is refused, and what is left when it fails --------------------------------------------


def test_nothing_is_ever_overwritten(log, copy):
    copy.write_bytes(b"precious")
    with pytest.raises(ConfigError, match=r"copy\.db exists"):
        log.backup(copy)
    assert copy.read_bytes() == b"precious"
    with pytest.raises(ConfigError, match=r"log\.db exists"):
        log.backup(log.path)
    assert log.verify().ok


def test_a_file_that_appears_meanwhile_is_not_overwritten(log, copy):
    with pytest.raises(ConfigError, match=r"copy\.db exists"):
        log.backup(copy, progress=lambda *_: copy.write_bytes(b"precious"))
    assert copy.read_bytes() == b"precious"
    assert names(copy.parent) == {"log.db", "log.db-shm", "log.db-wal", "copy.db"}


@pytest.mark.parametrize("ending", ["-wal", "-journal"])
def test_what_another_database_left_is_not_taken_for_a_part_of_the_copy(log, copy, ending):
    left = copy.with_name(copy.name + ending)
    left.write_bytes(b"of another file")
    with pytest.raises(ConfigError, match=left.name):
        log.backup(copy)
    assert not copy.exists()


def test_a_missing_directory_is_named_and_not_made(log, tmp_path):
    with pytest.raises(ConfigError, match="nowhere"):
        log.backup(tmp_path / "nowhere" / "copy.db")
    assert not (tmp_path / "nowhere").exists()


def test_a_link_that_leads_nowhere_is_refused(log, copy):
    copy.symlink_to(copy.with_name("elsewhere"))
    with pytest.raises(ConfigError, match=r"copy\.db exists"):
        log.backup(copy)


def test_a_closed_log_is_not_copied(path, copy):
    log = SQLiteLog(path)
    log.close()
    with pytest.raises(LogClosedError):
        log.backup(copy)
    assert not copy.exists()


def test_an_interrupted_copy_leaves_nothing(log, copy):
    def interrupt(*_):
        raise KeyboardInterrupt

    say(log, KEY, "Hi")
    with pytest.raises(KeyboardInterrupt):
        log.backup(copy, progress=interrupt)
    assert names(copy.parent) == {"log.db", "log.db-shm", "log.db-wal"}
    log.backup(copy)


def test_a_disk_that_fails_leaves_nothing_and_is_named(log, copy, monkeypatch):
    def fail(_):
        raise OSError(28, "No space left on device")

    say(log, KEY, "Hi")
    monkeypatch.setattr(sqlite_maintenance.os, "fsync", fail)
    with pytest.raises(LogError, match=r"copy\.db.*No space left"):
        log.backup(copy)
    assert names(copy.parent) == {"log.db", "log.db-shm", "log.db-wal"}


def test_a_damaged_log_is_not_copied_silently(path, copy):
    with SQLiteLog(path) as log:
        say_all(log, KEY, ["0123456789" * 300] * 20)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(size // 2)
    with pytest.raises(LogError), SQLiteLog(path) as log:
        log.backup(copy)
    assert not copy.exists()


# -- copies of processes that were killed ---------------------------------------------------------

KILLED_IN_A_COPY = """
import os, signal, sys
from langchain_convmem.logs import SQLiteLog, sqlite_maintenance

sqlite_maintenance.PAGES_AT_ONCE = 2
def stop(done, total):
    if done:
        print("under way", flush=True)
        sys.stdin.readline()
        os.kill(os.getpid(), signal.SIGKILL)
SQLiteLog(sys.argv[1]).backup(sys.argv[2], progress=stop)
"""


@pytest.fixture
def other_disk(tmp_path):
    directory = tmp_path / "elsewhere"
    directory.mkdir()
    return directory


@pytest.fixture
def process_in_a_copy(log, path, other_disk):
    """A process that is half-way through a copy in another directory."""
    say_all(log, KEY, ["correct horse battery staple" * 99] * 40)
    with ForkedProcess(KILLED_IN_A_COPY, path, other_disk / "copy.db") as process:
        assert process.stdout.readline() == "under way\n"
        yield process


def kill(process):
    process.ends()
    assert process.returncode == -signal.SIGKILL


def test_a_killed_process_leaves_no_copy_under_the_name(process_in_a_copy, log, other_disk):
    kill(process_in_a_copy)
    [left] = other_disk.iterdir()
    assert left.name.startswith(".convmem-copy-")
    assert left.stat().st_mode & 0o077 == 0
    assert log.verify().unfinished_copies == (str(left),)
    assert log.verify().ok


def test_the_next_copy_removes_what_a_killed_one_left(process_in_a_copy, log, copy, other_disk):
    kill(process_in_a_copy)
    log.backup(copy)
    assert names(other_disk) == set()
    assert names(copy.parent) == {"log.db", "log.db-shm", "log.db-wal", "copy.db", "elsewhere"}
    assert log.verify().unfinished_copies == ()


@pytest.mark.parametrize("scope", [KEY, KEY.owner, ThreadKey("nobody", "t")])
def test_forget_reaches_what_a_killed_copy_left(process_in_a_copy, log, path, other_disk, scope):
    kill(process_in_a_copy)
    log.forget(scope)
    assert names(other_disk) == set()
    assert names(path.parent) == {"log.db", "log.db-shm", "log.db-wal", "elsewhere"}


def test_a_copy_that_is_under_way_is_left_alone(process_in_a_copy, log, copy, other_disk):
    [unfinished] = names(other_disk)
    log.backup(copy)
    assert log.verify().unfinished_copies == ()
    assert names(other_disk) == {unfinished}
    kill(process_in_a_copy)
    assert log.verify().unfinished_copies == (str(other_disk / unfinished),)


def test_a_copy_whose_directory_is_away_is_remembered(process_in_a_copy, log, tmp_path, other_disk):
    kill(process_in_a_copy)
    away = other_disk.rename(tmp_path / "away")
    with pytest.raises(LogError, match=r"unfinished copies may hold them: delete .*convmem-copy-"):
        log.forget(KEY)
    assert log.entries(KEY) == []
    away.rename(other_disk)
    assert log.forget(KEY).entries == 0
    assert names(other_disk) == set()


def test_a_mark_that_names_another_file_deletes_nothing(log, path, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("keep")
    forged = path.with_name(".log.db-copy-0123456789abcdef")
    forged.write_text(str(precious))
    log.forget(KEY)
    assert precious.read_text() == "keep"
    assert not forged.exists()


def test_marks_of_a_log_with_a_longer_name_are_not_touched(log, path):
    other = path.with_name(".log.db-copy-x-copy-0123456789abcdef")
    other.write_text(str(path.with_name(".convmem-copy-0123456789abcdef")))
    log.forget(KEY)
    assert other.exists()
