from __future__ import annotations

import subprocess
import sys

import pytest

from langchain_convmem.logs import InMemoryLog, SQLiteLog
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing.log_contract import MessageLogContract
from langchain_convmem.testing.log_contract_concurrency import check_writers
from langchain_convmem.testing.log_contract_reading import all_changes

KEY = ThreadKey("ana", "t1")

WRITER = """
import sys
from langchain_core.messages import HumanMessage
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.records import ThreadKey
from langchain_convmem.views.codec import draft_of

path, writer = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
with SQLiteLog(path) as log:
    for number in range(25):
        batch = [draft_of(HumanMessage(f"{writer}-{number} {half}")) for half in "ab"]
        log.append(ThreadKey("ana", "t1"), batch)
"""


class TestInMemoryLog(MessageLogContract):
    def make_log(self, tmp_path):
        log = InMemoryLog()
        return lambda: log


class TestSQLiteLog(MessageLogContract):
    persistent = True
    several_handles = True

    def make_log(self, tmp_path):
        return lambda: SQLiteLog(tmp_path / "log.db")


def test_four_processes_on_one_new_file_lose_nothing(tmp_path):
    path = tmp_path / "log.db"
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", WRITER, str(path), str(writer)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for writer in range(4)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    with SQLiteLog(path) as log:
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in processes:
            process.communicate()
        assert [process.returncode for process in processes] == [0] * 4
        check_writers(log.entries(KEY))
        check_writers(all_changes(log, KEY.owner, limit=7))


def test_a_backend_cannot_override_a_contract_test():
    with pytest.raises(TypeError, match="test_an_empty_batch_does_nothing"):

        class Cheating(MessageLogContract):
            def make_log(self, tmp_path):
                return InMemoryLog

            def test_an_empty_batch_does_nothing(self, log):
                """Promise less."""


def test_a_backend_must_say_how_its_log_is_opened():
    class Silent(MessageLogContract):
        pass

    with pytest.raises(TypeError, match="make_log"):
        Silent()
