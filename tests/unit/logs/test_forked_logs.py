"""Logs keep their promises when their process forks, whatever other threads are doing."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from pathlib import Path

import pytest
from forked_processes import ForkedProcess
from langchain_core.messages import HumanMessage

from benchmarks.chaos.forks import SCENARIOS, Run
from langchain_convmem.errors import LogError
from langchain_convmem.logs import InMemoryLog, SQLiteLog
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing.log_contract import list_texts, say, say_all
from langchain_convmem.views.codec import make_draft

KEY = ThreadKey("ana", "t1")
pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


def in_child(body):
    """Return the text that a forked child returns, or the class and words of its error."""
    ending, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - the child is not measured
        try:
            said = str(body())
        except BaseException as error:  # noqa: BLE001 - the child ends here
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(ending, encoding="utf-8") as file:
        said = file.read()
    assert os.waitpid(child, 0)[1] == 0
    return said


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(scenario, marks=pytest.mark.slow if "third" in scenario else ())
        for scenario in SCENARIOS
    ],
    ids="-".join,
)
def test_what_was_acknowledged_around_a_fork_is_there(scenario, path):
    for seed in range(2):
        outcome = Run(scenario, path.with_name(f"{seed}.db"), seed).finish()
        assert outcome.problems == []
        assert outcome.noted


def test_what_a_child_writes_after_its_parent_has_closed_is_there(path):
    log = SQLiteLog(path)
    say(log, KEY, "parent")
    closed, closing = os.pipe()

    def write():
        os.close(closing)
        os.read(closed, 1)
        say_all(log, KEY, ["one", "two"])
        return path.with_name("log.db-wal").exists()

    child = multiprocessing.get_context("fork").Process(target=write)
    child.start()
    log.close()
    os.close(closing)
    child.join()
    assert child.exitcode == 0
    with SQLiteLog(path) as again:
        assert list_texts(again.entries(KEY)) == ["parent", "one", "two"]
        assert again.verify().ok


def test_a_fork_leaves_nothing_of_sqlite_open(path, log):
    say(log, KEY, "parent")
    links = Path("/proc/self/fd")
    if not links.is_dir():
        pytest.skip("this system does not list open files")

    def list_open():
        mine = str(path.resolve())
        return [one.name for one in links.iterdir() if os.path.realpath(one).startswith(mine)]

    assert list_open()
    assert in_child(list_open) == "[]"


PRE_FORK = """
import os, sys
from langchain_convmem import ConversationMemory

memory = ConversationMemory.open(sys.argv[1])
memory.history("t", user_id="master").add("user", "loaded")
workers = []
for number in range(3):
    worker = os.fork()
    if not worker:
        for turn in range(4):
            memory.history(f"t{number}", user_id="ana").add("user", f"{number}-{turn}")
        sys.exit(0)  # as gunicorn's workers end: the interpreter's exit runs
    workers.append(worker)
if sys.argv[2] == "close":
    memory.close()
print([os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) for worker in workers])
"""


@pytest.mark.parametrize("master", ["close", "keep"])
def test_workers_that_are_forked_after_loading(path, master):
    assert ForkedProcess(PRE_FORK, path, master).finish() == "[0, 0, 0]\n"
    with SQLiteLog(path) as log:
        for number in range(3):
            texts = list_texts(log.entries(ThreadKey("ana", f"t{number}")))
            assert texts == [f"{number}-{turn}" for turn in range(4)]
        assert log.verify().ok


@pytest.mark.parametrize("kind", [InMemoryLog, SQLiteLog])
def test_a_fork_under_busy_threads_waits_for_what_they_write(kind, path):
    log = kind(path) if kind is SQLiteLog else kind()
    stop, errors = threading.Event(), []

    def write(name):
        key = ThreadKey("ana", name)
        while not stop.is_set():
            try:
                say_all(log, key, ["one", "two"])
                log.read_thread(key, "note", lambda _: [(0, None)])
            except LogError as error:  # pragma: no cover - a failure
                errors.append(error)

    def use():
        texts = [list_texts(log.entries(ThreadKey("ana", f"w{number}"))) for number in range(3)]
        whole = all(text == ["one", "two"] * (len(text) // 2) for text in texts)
        return whole, say(log, KEY, "child").message.text, log.verify().ok

    threads = [threading.Thread(target=write, args=(f"w{number}",)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        said = [in_child(use) for _ in range(8)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert said == ["(True, 'child', True)"] * 8
    assert errors == []
    assert len(log.entries(KEY)) == (8 if kind is SQLiteLog else 0)
    assert log.verify().ok
    log.close()


def test_a_fork_waits_for_a_copy_that_is_being_made(log, tmp_path):
    say_all(log, KEY, ["x" * 1000] * 2000)
    copying = threading.Thread(target=log.backup, args=(tmp_path / "copy.db",))
    copying.start()
    assert in_child(lambda: say(log, KEY, "child").position) == "2001"
    copying.join()
    with SQLiteLog(tmp_path / "copy.db") as copy:
        assert copy.verify().ok
        assert len(copy.entries(KEY)) >= 2000
    assert log.verify().ok


def test_a_child_of_a_log_in_memory_goes_on_with_its_own_copy():
    with InMemoryLog() as log:
        say(log, KEY, "parent")
        child = in_child(lambda: (say(log, KEY, "child"), list_texts(log.entries(KEY)))[1])
        assert child == "['parent', 'child']"
        say(log, KEY, "after")
        assert list_texts(log.entries(KEY)) == ["parent", "after"]


async def test_a_child_of_an_event_loop_writes_in_a_loop_of_its_own(log):
    await log.aappend(KEY, [make_draft(HumanMessage("parent"))])

    def write():
        async def append():
            return (await log.aappend(KEY, [make_draft(HumanMessage("child"))]))[0].position

        return asyncio.run(append())

    writing = asyncio.create_task(log.aappend(KEY, [make_draft(HumanMessage("x"))]))
    await asyncio.sleep(0)
    said = in_child(write)
    await writing
    assert int(said) in (2, 3)
    assert sorted(list_texts(await log.aentries(KEY))) == ["child", "parent", "x"]


def test_a_fork_within_a_transaction_lets_nothing_pass_for_written(log):
    """The connection is closed for the child; so the parent's transaction is over, and says so."""

    def plan(_):
        assert in_child(lambda: "forked") == "forked"
        return [make_draft(HumanMessage("lost"))]

    say(log, KEY, "before")
    with pytest.raises(LogError):
        log.append_planned(KEY, plan, after=0)
    say(log, KEY, "after")
    assert list_texts(log.entries(KEY)) == ["before", "after"]
