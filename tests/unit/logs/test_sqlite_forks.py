"""A SQLite log loses nothing when processes fork, nor when its file is replaced under it."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
import time
from pathlib import Path

import pytest
from forked_processes import ForkedProcess
from langchain_core.messages import HumanMessage

from benchmarks.chaos.forks import SCENARIOS, Run
from langchain_convmem import ConversationMemory
from langchain_convmem.errors import LogClosedError, LogError, LogUnavailableError
from langchain_convmem.logs import SQLiteLog, sqlite_file
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing.log_contract import list_texts, say, say_all
from langchain_convmem.views.codec import make_draft

KEY = ThreadKey("ana", "t1")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.db"


@pytest.fixture
def log(path):
    with SQLiteLog(path) as opened:
        yield opened


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


# -- nothing is lost ----------------------------------------------------------------------------


@needs_fork
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


@needs_fork
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


@needs_fork
def test_a_fork_leaves_nothing_of_sqlite_open(path, log):
    say(log, KEY, "parent")
    with SQLiteLog(path.parent / ".." / path.parent.name / path.name) as other:
        say(other, KEY, "the same file")
        links = Path("/proc/self/fd")
        if not links.is_dir():
            pytest.skip("this system does not list open files")

        def list_open():
            # Those of this test: what others abandoned stays open while the process lasts.
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


@needs_fork
@pytest.mark.parametrize("master", ["close", "keep"])
def test_workers_that_are_forked_after_loading(path, master):
    assert ForkedProcess(PRE_FORK, path, master).finish() == "[0, 0, 0]\n"
    with SQLiteLog(path) as log:
        for number in range(3):
            texts = list_texts(log.entries(ThreadKey("ana", f"t{number}")))
            assert texts == [f"{number}-{turn}" for turn in range(4)]
        assert log.verify().ok


DAEMON = """
import os, sys
from langchain_convmem.forks import FORKS
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing.log_contract import say

log = SQLiteLog(sys.argv[1])
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
for line in sys.stdin:
    say(log, ThreadKey("ana", "t1"), line.strip())
    print("done", flush=True)
"""


@needs_fork
def test_a_daemon_beside_the_commands_of_somebody_else(path):
    from click.testing import CliRunner

    from langchain_convmem.cli.app import convmem

    with ForkedProcess(DAEMON, path) as daemon:
        for number in range(4):
            daemon.stdin.write(f"line {number}\n")
            assert daemon.stdout.readline() == "done\n"
            result = CliRunner().invoke(convmem, ["threads", "--user", "ana", "--db", str(path)])
            assert result.exit_code == 0, result.output
    with SQLiteLog(path) as log:
        assert list_texts(log.entries(KEY)) == [f"line {number}" for number in range(4)]


# -- what goes on in a child is refused ---------------------------------------------------------


REFUSED = "LogError: the log on {} cannot be used: this process was forked while"


@needs_fork
def test_a_transaction_that_goes_on_in_a_child_is_refused_there_alone(path, log, tmp_path):
    said = []

    def plan(_):
        uses = (lambda: log.entries(KEY), lambda: SQLiteLog(path))
        said.extend(in_child(use) for use in uses)
        said.append(in_child(lambda: in_child(lambda: say(log, KEY, "grandchild"))))
        with SQLiteLog(tmp_path / "other.db") as other:
            said.append(in_child(lambda: say(other, KEY, "elsewhere").position))
        return [make_draft(HumanMessage("parent"))]

    log.append_planned(KEY, plan, after=0)
    assert [one.startswith(REFUSED.format(path)) for one in said] == [True] * 3 + [False]
    assert said[-1] == "1"
    say(log, KEY, "after")
    assert list_texts(log.entries(KEY)) == ["parent", "after"]


@needs_fork
def test_a_child_that_was_forked_while_a_thread_writes_on_is_refused(path, log, monkeypatch):
    monkeypatch.setattr("langchain_convmem.forks.FORKS.patience_s", 0.05)
    say(log, KEY, "parent")
    inside, may_end = threading.Event(), threading.Event()

    def plan(_):
        inside.set()
        may_end.wait()
        return []

    writer = threading.Thread(target=lambda: log.append_planned(KEY, plan, after=0))
    writer.start()
    inside.wait()
    try:
        assert in_child(lambda: log.entries(KEY)).startswith(REFUSED.format(path))
        other = path.with_name("other.db")
        assert in_child(lambda: SQLiteLog(other)).startswith(REFUSED.format(other))
        assert in_child(log.close) == "None"
    finally:
        may_end.set()
        writer.join()
    say(log, KEY, "after")
    assert in_child(lambda: list_texts(log.entries(KEY))) == "['parent', 'after']"


@needs_fork
def test_a_thread_that_waits_for_the_fork_goes_on_after_it(log):
    stop = threading.Event()
    errors = []

    def write(name):
        number = 0
        while not stop.is_set():
            try:
                say(log, ThreadKey("ana", name), f"{number}")
            except LogError as error:  # pragma: no cover - a failure
                errors.append(error)
            number += 1

    threads = [threading.Thread(target=write, args=(f"w{number}",)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        texts = [in_child(lambda: say(log, KEY, "child").message.text) for _ in range(8)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert errors == []
    assert texts == ["child"] * 8
    assert len(log.entries(KEY)) == 8


@needs_fork
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


# -- files that are replaced --------------------------------------------------------------------


def replace_by_copy(log, path):
    """Put a copy of the log, made now, in its place."""
    copy = path.with_name("copy.db")
    log.backup(copy)
    restore(path, copy)


def test_a_restored_backup_is_seen_instead_of_the_deleted_file(path, log):
    say(log, KEY, "kept")
    replace_by_copy(log, path)
    with SQLiteLog(path) as other:
        say(other, KEY, "new")
        assert list_texts(log.entries(KEY)) == ["kept", "new"]
        say(log, KEY, "newer")
        assert list_texts(other.entries(KEY)) == ["kept", "new", "newer"]
    assert log.verify().ok


def make_quiet(monkeypatch):
    """Have every folder count as one where nothing has changed for long."""
    time.sleep(0.05)  # more than what clocks of file systems cannot tell apart
    monkeypatch.setattr(sqlite_file, "QUIET_NS", 0)
    monkeypatch.setattr(sqlite_file, "FINE_QUIET_NS", 0)


def restore(path, copy):
    """Put a copy in the place of the log, as one who restores a backup."""
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    copy.replace(path)


def test_a_restored_backup_gets_a_generation_of_its_own(path, log):
    say(log, KEY, "kept")
    copy = path.with_name("copy.db")
    log.backup(copy)
    say_all(log, KEY, ["lost", "lost as well"])
    read = log.line_changes(KEY.owner)
    restore(path, copy)
    with SQLiteLog(path) as other:
        say_all(other, KEY, ["new", "newer"])
    assert log.line_changes(KEY.owner, read.cursor).generation > read.generation
    assert log.changes(KEY.owner, read.cursor).generation > read.generation
    again = log.line_changes(KEY.owner)
    assert [line.text for line in again.lines] == ["kept", "new", "newer"]
    assert log.line_changes(KEY.owner, again.cursor).generation == again.generation


def test_recall_finds_what_was_said_after_a_backup_was_restored(path):
    with ConversationMemory.open(path) as memory:
        copy = path.with_name("copy.db")
        memory.add_messages([HumanMessage("The umbrella is blue.")], thread_id="t", user_id="u")
        memory.log.backup(copy)
        memory.add_messages([HumanMessage("The bicycle is red.")], thread_id="t", user_id="u")
        assert "bicycle is red" in tell(memory, "bicycle")
        restore(path, copy)
        assert "bicycle" not in tell(memory, "umbrella")
        memory.add_messages([HumanMessage("The ladder is green.")], thread_id="t", user_id="u")
        assert "ladder is green" in tell(memory, "ladder")


def tell(memory, query):
    return "\n".join(block.text for block in memory.recall(query, user_id="u").blocks)


@pytest.mark.parametrize("is_quiet", [False, True])
def test_a_write_into_a_file_that_was_replaced_meanwhile_is_not_acknowledged(
    path, log, is_quiet, monkeypatch
):
    if is_quiet:
        make_quiet(monkeypatch)
    say(log, KEY, "kept")

    def plan(_):
        replace_by_copy(log, path)
        return [make_draft(HumanMessage("lost"))]

    with pytest.raises(LogUnavailableError, match=r"replaced.*not acknowledged.*try again"):
        log.append_planned(KEY, plan, after=0)
    assert list_texts(log.entries(KEY)) == ["kept"]
    say(log, KEY, "lost")
    log.close()
    with SQLiteLog(path) as again:
        assert list_texts(again.entries(KEY)) == ["kept", "lost"]


@pytest.mark.skipif(os.name == "nt", reason="no file that is open can be replaced there")
@pytest.mark.parametrize("ending", ["", "-wal"])
@pytest.mark.parametrize("how", ["deleted", "moved away", "replaced"])
def test_a_folder_that_was_quiet_hides_nothing(path, monkeypatch, how, ending):
    make_quiet(monkeypatch)
    part = path.with_name(path.name + ending)
    with SQLiteLog(path) as log:
        say(log, KEY, "one")
        time.sleep(0.05)
        say(log, KEY, "two")

        def plan(_):
            change_file(part, how)
            return [make_draft(HumanMessage("lost"))]

        with pytest.raises(LogUnavailableError, match="not acknowledged"):
            log.append_planned(KEY, plan, after=0)


def change_file(path, how):
    """Take a file away from its name, and the folder's own time back, as far as anybody can."""
    before = path.parent.stat()
    if how == "deleted":
        path.unlink()
    elif how == "moved away":
        path.rename(path.with_name("elsewhere"))
    else:
        other = path.with_name("other")
        other.write_bytes(path.read_bytes())
        other.replace(path)
    os.utime(path.parent, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_file_that_was_deleted_is_not_acknowledged_and_made_anew(path, log):
    say(log, KEY, "gone")

    def plan(_):
        for one in list(path.parent.iterdir()):
            one.unlink()
        return [make_draft(HumanMessage("lost"))]

    with pytest.raises(LogUnavailableError, match="not acknowledged"):
        log.append_planned(KEY, plan, after=0)
    assert log.entries(KEY) == []


def test_closing_a_log_whose_file_was_replaced_leaves_the_new_one_alone(path):
    old = SQLiteLog(path)
    say(old, KEY, "kept")
    replace_by_copy(old, path)
    with SQLiteLog(path) as new:
        say(new, KEY, "new")
        old.close()
        assert path.with_name("log.db-wal").exists()
        say(new, KEY, "newer")
    with pytest.raises(LogClosedError):
        old.entries(KEY)
    with SQLiteLog(path) as again:
        assert list_texts(again.entries(KEY)) == ["kept", "new", "newer"]


WITHOUT_WAL = """
import os, sys
from langchain_convmem.errors import LogError
from langchain_convmem.forks import FORKS
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing.log_contract import say

key = ThreadKey("ana", "t1")
log = SQLiteLog(sys.argv[1])
say(log, key, "one")
os.unlink(sys.argv[1] + "-wal")
for use in (lambda: say(log, key, "two"), lambda: say(log, key, "three"), lambda: log.entries(key)):
    try:
        use()
    except LogError as error:
        print(type(error).__name__, "not acknowledged" in str(error))
log.close()
"""


def test_a_write_ahead_file_that_is_deleted_stops_its_process(path):
    with ForkedProcess(WITHOUT_WAL, path) as process:
        assert process.finish().splitlines() == [
            "LogUnavailableError True",
            "LogError False",
            "LogError False",
        ]


# -- whose files they are -----------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="rights are other ones there")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_new_files_are_for_their_owner_alone(path, umask):
    before = os.umask(umask)
    try:
        with SQLiteLog(path) as log:
            say(log, KEY, "Hi")
            rights = {one.name: one.stat().st_mode & 0o777 for one in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert rights == dict.fromkeys(("log.db", "log.db-wal", "log.db-shm"), 0o600)


@pytest.mark.skipif(os.name == "nt", reason="rights are other ones there")
def test_files_that_are_there_keep_their_rights(path):
    path.touch()
    path.chmod(0o660)
    with SQLiteLog(path) as log:
        say(log, KEY, "Hi")
        assert {one.stat().st_mode & 0o777 for one in path.parent.iterdir()} == {0o660}
