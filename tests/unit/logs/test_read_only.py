"""A SQLite log that may not be written is opened for reading, and says so when it is written."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from forked_processes import ForkedProcess
from histories import KEY
from sqlite_files import read_files

from langchain_convmem.errors import ConfigError, LogError
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.testing.log_contract import list_texts, say, say_all

UNFINISHED = """
import os, sys
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing.log_contract import say

log = SQLiteLog(sys.argv[1])
say(log, ThreadKey("ana", "t1"), "in the write-ahead file")
os._exit(0)
"""


@pytest.fixture
def path(tmp_path):
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


def test_a_log_is_opened_for_reading_on_request(path):
    before = read_files(path)
    with SQLiteLog(path, read_only=True) as log:
        check_reading(log)
    assert read_files(path) == before


def test_what_a_crash_has_left_is_read_as_well(path):
    ForkedProcess(UNFINISHED, path).finish()
    before = read_files(path)
    with SQLiteLog(path, read_only=True) as log:
        check_reading(log)
        assert list_texts(log.entries(KEY))[2:] == ["in the write-ahead file"]
    after = read_files(path)
    assert (after["log.db"], after["log.db-wal"]) == (before["log.db"], before["log.db-wal"])


def test_only_a_log_that_is_there_can_be_read(tmp_path):
    with pytest.raises(LogError, match=r"log\.db"):
        SQLiteLog(tmp_path / "log.db", read_only=True)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(params=["file", "folder", "disk"])
def protected(request, path):
    """A log without the right to write: the file, its folder, or the whole disk."""
    if request.param == "disk":
        if os.geteuid() or shutil.which("mount") is None:
            pytest.skip("only root mounts a disk")
        mount = [shutil.which("mount"), "--bind", "-o", "ro", path.parent, path.parent]
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            pytest.skip("this system mounts nothing")
        yield path
        subprocess.run([shutil.which("umount"), path.parent], check=True)
        return
    if os.geteuid() == 0:
        pytest.skip("root may write everything")
    part = path if request.param == "file" else path.parent
    before = part.stat().st_mode
    part.chmod(before & ~0o222)
    yield path
    part.chmod(before)


def test_a_file_without_the_right_to_write_is_read(protected):
    before = read_files(protected)
    with SQLiteLog(protected) as log:
        check_reading(log)
        if not os.access(protected.parent, os.W_OK):
            with pytest.raises(ConfigError, match="put the copy elsewhere"):
                log.backup(protected.with_name("copy.db"))
    assert read_files(protected) == before
