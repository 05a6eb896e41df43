"""Several processes on one SQLite file: readers stand in nobody's way, and none is held up."""

import contextlib
import sqlite3
import threading

from forked_processes import ForkedProcess

from langchain_convmem.records import ThreadKey
from langchain_convmem.testing.log_contract import TIMES, WRITERS, check_writers, list_texts, say

KEY = ThreadKey("ana", "t1")
SECRET = "correct horse battery staple"

READER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN")
count = "SELECT count(*) FROM entries"
print(db.execute(count).fetchone()[0], flush=True)
sys.stdin.readline()
print(db.execute(count).fetchone()[0], flush=True)
"""

WRITER = """
import sys
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing.log_contract import say_all

path, writer, times = sys.argv[1:]
with SQLiteLog(path) as log:
    for number in range(int(times)):
        said = [f"{writer}-{number} {half}" for half in "ab"]
        say_all(log, ThreadKey("ana", "t1"), said)
        print(number, flush=True)
"""


@contextlib.contextmanager
def reading(path):
    """Let a process read one state of the file all the while; yields what ends it."""
    with ForkedProcess(READER, path) as process:
        before = process.stdout.readline()

        def release():
            assert process.finish("go\n") == before, "the reader's state of the file has changed"
            assert process.returncode == 0

        yield release


def test_writers_lose_nothing_beside_a_long_reader_and_checkpoints(path, log):
    say(log, ThreadKey("ana", "t2"), "before")
    with contextlib.ExitStack() as stack:
        release = stack.enter_context(reading(path))
        checkpointer = sqlite3.connect(path, isolation_level=None, timeout=0)
        stack.enter_context(contextlib.closing(checkpointer))
        processes = [ForkedProcess(WRITER, path, writer, TIMES) for writer in range(WRITERS)]
        writers = [stack.enter_context(process) for process in processes]
        modes, tried = ("PASSIVE", "FULL", "RESTART", "TRUNCATE"), 0
        while any(writer.returncode is None for writer in writers):
            with contextlib.suppress(sqlite3.OperationalError):  # another one is at it
                checkpointer.execute(f"PRAGMA wal_checkpoint({modes[tried % 4]})")
            tried += 1
        assert [writer.returncode for writer in writers] == [0] * WRITERS
        check_writers(log.entries(KEY))
        assert checkpointer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 1
        release()
        assert checkpointer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    assert tried > 0
    check_writers(log.entries(KEY))
    assert log.verify().ok


def test_a_thread_that_forgets_beside_a_long_reader_holds_up_no_writer(path, log):
    doomed = ThreadKey("ana", "t2")
    say(log, doomed, SECRET)
    with reading(path) as release:
        forgetting = threading.Thread(target=log.forget, args=(doomed,))
        forgetting.start()
        while log.entries(doomed):
            assert forgetting.is_alive()
        for number in range(TIMES):
            say(log, KEY, f"line {number}")
        assert forgetting.is_alive()
        release()
        forgetting.join()
    assert list_texts(log.entries(KEY)) == [f"line {number}" for number in range(TIMES)]
    assert all(SECRET.encode() not in item.read_bytes() for item in path.parent.iterdir())
