import os
import random
import shutil
import stat
import threading

import pytest
from forked_processes import ForkedProcess
from histories import KEY
from langchain_core.messages import HumanMessage
from sqlite_files import damage

from langchain_convmem.errors import ConfigError, LogError, LogUnavailableError
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.logs.sqlite import restore
from langchain_convmem.records import StoredSegment, ThreadKey
from langchain_convmem.testing.log_contract import list_texts, say, say_all

BEN = ThreadKey("ben", "t1")
LONE = ThreadKey(None, "lone")
SIGNING_KEY = "0123456789abcdef"


@pytest.fixture
def copy(tmp_path):
    return tmp_path / "copy.db"


def names(directory):
    return {item.name for item in directory.iterdir()}


def test_the_copy_opens_as_a_log_with_everything(log, copy):
    entry = say(log, KEY, HumanMessage("Hi 🦊", id="m1"))
    log.set_state(KEY, "buffer", [1], expected=None)
    log.save_segments(KEY.owner, "model", [StoredSegment(entry.position, 0, 0, "hi", b"12")])
    copy.with_name(".copy.db.unfinished").write_bytes(b"half of it")  # of one that was killed
    log.backup(str(copy))
    assert names(copy.parent) == {"log.db", "log.db-shm", "log.db-wal", "copy.db"}
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with SQLiteLog(copy) as copied:
        assert copied.verify().ok
        assert copied.entries(KEY) == log.entries(KEY)
        assert copied.get_state(KEY, "buffer") == log.get_state(KEY, "buffer")
        assert len(copied.load_segments(KEY.owner, "model")) == 1
        assert copied.changes(KEY.owner) == log.changes(KEY.owner)
        say(copied, KEY, "in the copy")
    assert list_texts(log.entries(KEY)) == ["Hi 🦊"]


def test_what_was_forgotten_is_not_in_a_later_copy(log, copy):
    secret = "correct horse battery staple"
    entry = say(log, KEY, secret)
    say(log, KEY, "harmless")
    log.forget(KEY, [entry.id])
    log.backup(copy)
    assert b"harmless" in copy.read_bytes()
    assert secret.encode() not in copy.read_bytes()


def test_copies_are_whole_while_threads_write(log, tmp_path):
    stop = threading.Event()

    def write(writer):
        number = 0
        while not stop.is_set():
            say_all(log, KEY, [f"{writer}-{number} a", f"{writer}-{number} b"])
            number += 1

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(2)]
    for thread in threads:
        thread.start()
    try:
        for number in range(5):
            known = list_texts(log.entries(KEY))
            log.backup(tmp_path / f"copy {number}.db")
            with SQLiteLog(tmp_path / f"copy {number}.db") as copied:
                assert copied.verify().ok
                said = list_texts(copied.entries(KEY))
            assert said[: len(known)] == known
            assert [one[:-1] for one in said[::2]] == [one[:-1] for one in said[1::2]]
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_nothing_is_overwritten_unless_it_is_asked_for(log, copy):
    say(log, KEY, "Hi")
    copy.write_bytes(b"precious")
    for target in (copy, log.path):
        with pytest.raises(ConfigError, match="exists"):
            log.backup(target)
    assert copy.read_bytes() == b"precious"
    log.backup(copy, overwrite=True)
    with SQLiteLog(copy) as copied:
        assert list_texts(copied.entries(KEY)) == ["Hi"]


def test_no_copy_is_made_beside_what_another_left_or_in_a_new_directory(log, copy, tmp_path):
    copy.with_name("copy.db-wal").write_bytes(b"of another file")
    nowhere = tmp_path / "nowhere"
    for target, what in ((copy, r"copy\.db-wal"), (nowhere / "copy.db", "nowhere")):
        with pytest.raises(ConfigError, match=what):
            log.backup(target)
    assert (copy.exists(), nowhere.exists()) == (False, False)


def test_a_copy_is_on_the_disk_before_it_has_its_name_and_then_that_is_too(log, copy, monkeypatch):
    synced = []
    monkeypatch.setattr("os.fsync", lambda at: synced.append((os.fstat(at).st_ino, copy.exists())))
    log.backup(copy)
    assert synced == [(copy.stat().st_ino, False), (copy.parent.stat().st_ino, True)]


def test_a_disk_that_fails_leaves_nothing_and_is_named(log, copy, monkeypatch):
    def fail(_):
        raise OSError(28, "No space left on device")

    say(log, KEY, "Hi")
    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(LogError, match=r"copy\.db.*No space left"):
        log.backup(copy)
    assert names(copy.parent) == {"log.db", "log.db-shm", "log.db-wal"}


@pytest.mark.parametrize("key", [None, SIGNING_KEY])
def test_a_backup_takes_the_place_of_the_log_which_each_time_is_kept(path, copy, key):
    with SQLiteLog(path, signing_key=key) as log:
        say(log, KEY, "kept")
        log.backup(copy)
        say(log, KEY, "later")
    before = copy.read_bytes()
    done = restore(copy, path, signing_key=key)
    assert (done.entries, done.fetched) == (1, 0)
    assert copy.read_bytes() == before
    assert names(path.parent) == {"log.db", "copy.db", done.kept.name}
    again = restore(copy, path, signing_key=key)
    for name, texts in ((done.kept, ["kept", "later"]), (again.kept, ["kept"]), (path, ["kept"])):
        with SQLiteLog(name, signing_key=key) as opened:
            assert list_texts(opened.entries(KEY)) == texts
            assert opened.verify().ok


HOLDER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("SELECT 1 FROM meta").fetchall()
print("open", flush=True)
sys.stdin.readline()
"""


def test_a_log_that_somebody_uses_is_not_replaced(path, copy, log):
    say(log, KEY, "kept")
    log.backup(copy)
    with pytest.raises(LogUnavailableError, match="in use"):
        restore(copy, path)
    log.close()
    with ForkedProcess(HOLDER, path) as process:
        assert process.stdout.readline() == "open\n"
        with pytest.raises(LogUnavailableError, match="in use"):
            restore(copy, path)
        process.finish("go\n")
    restore(copy, path)


def test_what_is_no_backup_changes_nothing(path, copy, log):
    say(log, KEY, "kept")
    log.close()
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="no backup"):
        restore(copy, path)
    with pytest.raises(ConfigError, match="no backup"):
        restore(path, path)
    copy.write_bytes(b"Dear diary, " * 99)
    with pytest.raises(LogError):
        restore(copy, path)
    assert path.read_bytes() == before
    assert names(path.parent) == {"log.db", "copy.db"}


@pytest.fixture(params=[None, SIGNING_KEY], ids=["no key", "a key"])
def damaged(request, path, copy):
    """A log with entries that are damaged and missing, and a backup of before; and its key."""
    with SQLiteLog(path, signing_key=request.param) as log:
        for key in (KEY, BEN, LONE):
            say_all(log, key, [f"{key.thread_id} {number} " + "x" * 90 for number in range(90)])
        log.set_state(KEY, "buffer", ["old"], expected=None)
        log.backup(copy)
        say_all(log, KEY, [f"later {number} " + "x" * 90 for number in range(9)])
        log.set_state(LONE, "buffer", ["new"], expected=None)
        log.forget(BEN, [log.entries(BEN)[0].id])
    damage(path, "UPDATE entries SET body = replace(body, 'x', 'y') WHERE {at} IN (3, 4)")
    damage(path, "UPDATE entries SET thread = x'' WHERE {at} = 4")
    damage(path, "DELETE FROM entries WHERE {at} IN (7, 8, 9)")
    return request.param


def test_what_a_file_has_lost_is_fetched_from_its_backup(path, copy, damaged):
    done = restore(copy, path, signing_key=damaged, fetch=True)
    # Two damaged ones of each, and three missing ones of those who have forgotten nothing.
    assert done.fetched == 3 * 2 + 2 * 3
    with SQLiteLog(path, signing_key=damaged) as log:
        said = list_texts(log.entries(KEY))
        assert [text.split()[1] for text in said] == [*map(str, range(90)), *map(str, range(9))]
        assert len(log.entries(LONE)) == 90
        assert log.get_state(KEY, "buffer").value == ["old"]
        assert log.get_state(LONE, "buffer").value == ["new"]
        # What was forgotten does not come back, not even where nobody can tell what is missing.
        assert [entry.position for entry in log.entries(BEN)][:6] == [2, 3, 4, 5, 6, 10]
        report = log.verify()
        assert report.problems == ("user 'ben': 3 of 89 entries missing",)
        assert say(log, KEY, "after").position == 100


def test_who_was_forgotten_since_the_backup_stays_forgotten(path, copy):
    with SQLiteLog(path) as log:
        for key in (KEY, BEN, LONE):
            say_all(log, key, ["one", "two"])
        log.backup(copy)
        log.forget(BEN.owner)
        log.forget(LONE)
        say(log, LONE, "anew")
        known = log.changes(LONE.owner).generation
    damage(path, "DELETE FROM entries WHERE {at} = 1")
    restore(copy, path, fetch=True)
    with SQLiteLog(path) as log:
        assert set(log.owners()) == {KEY.owner, LONE.owner}
        assert list_texts(log.entries(KEY)) == ["one", "two"]
        assert list_texts(log.entries(LONE)) == ["anew"]
        assert log.verify().ok
        log.forget(LONE)  # and that shows to who has read the log before
        assert log.changes(LONE.owner).generation > known


def test_a_file_with_a_broken_page_loses_nothing_that_its_backup_has(path, copy):
    with SQLiteLog(path) as log:
        for key in (KEY, LONE):
            say_all(log, key, [f"{number} " + "x" * 200 for number in range(200)])
        log.backup(copy)
        say_all(log, KEY, ["later", "later still"])
    sound, chance = path.read_bytes(), random.Random(5)
    for page in range(4, len(sound) // 4096, 3):
        start = page * 4096
        path.write_bytes(sound[:start] + chance.randbytes(4096) + sound[start + 4096 :])
        done = restore(copy, path, fetch=True)
        assert done.fetched < 20  # what is on one page
        with SQLiteLog(path) as log:
            said = [text for text in list_texts(log.entries(KEY)) if "x" in text]
            assert said == [f"{number} " + "x" * 200 for number in range(200)]
            assert len(log.entries(LONE)) == 200
            assert log.verify().missing == 202 + 200 - done.entries
        done.kept.unlink()


LOG = """
import os, sys
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing.log_contract import say

log, key = SQLiteLog(sys.argv[1]), ThreadKey("ana", "t1")
"""

CRASHING = f"""{LOG}
times = int(sys.argv[2])
for number in range(times):
    say(log, key, f"before {{number}} " + "x" * 300)
log.backup(sys.argv[3])
for number in range(times):
    say(log, key, f"after {{number}} " + "x" * 300)
os._exit(0)
"""

CRASHING_LATE = f"""{LOG}
doomed = [say(log, key, "x" * 3000).id for _ in range(9)]
log.backup(sys.argv[2])
log.forget(key, doomed)  # folds the write-ahead file, and leaves room in the database
say(log, key, "after")
os._exit(0)
"""


@pytest.mark.parametrize(
    ("times", "kind"),
    [
        *((times, "a backup") for times in (1, 3, 300)),
        *((times, "an older file") for times in (1, 300)),
        (40, "another log"),
    ],
)
def test_another_file_beside_what_a_crash_has_left_is_refused(path, copy, times, kind):
    older = copy if kind == "a backup" else path.with_name("older.db")
    if kind == "an older file":
        for said in ("the first", "the second"):
            with SQLiteLog(path) as log:
                say(log, KEY, said)
            if said == "the first":
                shutil.copy(path, older)
    elif kind == "another log":
        with SQLiteLog(older) as log:
            for number in range(times):  # as many commits
                say(log, KEY, f"other {number}")
    assert ForkedProcess(CRASHING, path, times, copy).finish() == ""
    wal = path.with_name("log.db-wal")
    assert wal.stat().st_size
    crashed = wal.read_bytes()
    with SQLiteLog(path) as log:  # a crash alone harms nobody
        assert len(log.entries(KEY)) == 2 * times + (2 if kind == "an older file" else 0)
        assert log.verify().ok
    path.write_bytes(older.read_bytes())
    wal.write_bytes(crashed)
    check_refused_and_restored(path, copy)
    with SQLiteLog(path) as log:
        before = [f"before {number} " + "x" * 300 for number in range(times)]
        assert list_texts(log.entries(KEY))[-times:] == before


def check_refused_and_restored(path, copy):
    """Check that a file is refused beside what a crash has left, and that a copy may replace it."""
    wal = path.with_name("log.db-wal")
    before = path.read_bytes(), wal.read_bytes()
    for options in ({}, {"read_only": True}):
        with pytest.raises(LogError, match="convmem db restore"):
            SQLiteLog(path, **options)
    assert (path.read_bytes(), wal.read_bytes()) == before
    restore(copy, path)
    with SQLiteLog(path) as log:
        assert log.verify().ok


def test_a_copy_is_refused_beside_a_write_ahead_file_that_holds_no_first_page(path, copy):
    """The pages of a copy are in another order, so that the two do not meet where they should."""
    ForkedProcess(CRASHING_LATE, path, copy).finish()
    path.write_bytes(copy.read_bytes())
    check_refused_and_restored(path, copy)
