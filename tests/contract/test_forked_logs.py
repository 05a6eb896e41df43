import asyncio
import os
import threading
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from dynamodb_servers import moto_server, new_table_name
from forked_processes import in_child, start_child
from langchain_core.messages import HumanMessage
from postgres_server import new_schema, running_server

from benchmarks.chaos.forks import SCENARIOS, Run
from langchain_convmem.errors import LogError
from langchain_convmem.logs import InMemoryLog, SQLiteLog, dynamodb, postgres
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing.log_contract import list_texts, say, say_all
from langchain_convmem.views.codec import make_draft

KEY = ThreadKey("ana", "t1")
FORKS = 3
pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


@pytest.fixture(
    params=[
        "sqlite",
        "memory",
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("dynamodb", marks=pytest.mark.sockets),
    ]
)
def opening(request, path, monkeypatch):
    """Yield what opens the log of a backend, with a client of its own; in memory, another one."""
    with ExitStack() as stack:
        open_log = {"sqlite": partial(SQLiteLog, path), "memory": InMemoryLog}.get(request.param)
        if request.param == "postgres":
            server, schema = running_server(), new_schema()
            open_log = partial(postgres.PostgresLog, server.dsn, schema=schema, max_size=4)
        elif request.param == "dynamodb":
            for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
                monkeypatch.setenv(name, "none")
            at = {"region_name": "eu-central-1", "endpoint_url": stack.enter_context(moto_server())}
            open_log = partial(dynamodb.DynamoDBLog, new_table_name(), **at)
            open_log().create_table()
        yield lambda: stack.enter_context(open_log())


@pytest.fixture
def log(opening):
    return opening()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.db"


@pytest.fixture
def file_log(path):
    with SQLiteLog(path) as opened:
        yield opened


def start_later(body):
    """Fork a child that begins when it is told so; return what tells it, and returns its text."""
    waiting, telling = os.pipe()

    def begin():
        os.read(waiting, 1)
        return body()

    wait = start_child(begin)

    def tell():
        os.write(telling, b"!")
        os.close(telling)
        os.close(waiting)
        return wait()

    return tell


def test_parent_and_child_both_write_and_see_both_or_have_a_copy_each(log):
    say(log, KEY, "before")
    tell = start_later(lambda: (say(log, KEY, "child"), list_texts(log.entries(KEY)))[1])
    say(log, KEY, "parent")
    said, mine = tell(), list_texts(log.entries(KEY))
    if isinstance(log, InMemoryLog):
        assert (said, mine) == ("['before', 'child']", ["before", "parent"])
    else:
        assert mine == ["before", "parent", "child"]
        assert said == str(mine)
    assert in_child(lambda: list_texts(log.entries(KEY))) == str(mine)
    assert log.verify().ok


def test_what_a_child_writes_after_its_parent_has_closed_is_there(log, opening):
    say(log, KEY, "parent")
    tell = start_later(lambda: (say_all(log, KEY, ["one", "two"]), len(log.entries(KEY)))[1])
    log.close()
    assert tell() == "3"
    if not isinstance(log, InMemoryLog):
        again = opening()
        assert list_texts(again.entries(KEY)) == ["parent", "one", "two"]
        assert again.verify().ok


def test_a_fork_under_busy_threads_waits_for_what_they_write(log):
    stop, errors = threading.Event(), []

    def write(name):
        key = ThreadKey("ana", name)
        while not stop.wait(0.002):
            try:
                say_all(log, key, ["one", "two"])
                log.entries(key, last=2)
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
        said = [in_child(use) for _ in range(FORKS)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert said == ["(True, 'child', True)"] * FORKS
    assert errors == []
    assert len(log.entries(KEY)) == (0 if isinstance(log, InMemoryLog) else FORKS)
    assert log.verify().ok


async def test_a_child_of_an_event_loop_writes_in_a_loop_of_its_own(log):
    await log.aappend(KEY, [make_draft(HumanMessage("parent"))])

    def write():
        return len(asyncio.run(log.aappend(KEY, [make_draft(HumanMessage("child"))])))

    writing = asyncio.create_task(log.aappend(KEY, [make_draft(HumanMessage("x"))]))
    await asyncio.sleep(0)
    said = in_child(write)
    await writing
    assert said == "1"
    theirs = [] if isinstance(log, InMemoryLog) else ["child"]
    assert sorted(list_texts(await log.aentries(KEY))) == [*theirs, "parent", "x"]


SLOW = {True: pytest.mark.slow, False: ()}


@pytest.mark.parametrize(
    "scenario", [pytest.param(one, marks=SLOW["third" in one]) for one in SCENARIOS], ids="-".join
)
def test_what_was_acknowledged_around_a_fork_is_there(scenario, path):
    for seed in range(2):
        _, noted, problems = Run(scenario, path.with_name(f"{seed}.db"), seed).finish()
        assert (problems, noted > 0) == ([], True)


def test_a_fork_leaves_nothing_of_sqlite_open(path, file_log):
    say(file_log, KEY, "parent")
    links = Path("/proc/self/fd")
    if not links.is_dir():
        pytest.skip("this system does not list open files")

    def list_open():
        mine = str(path.resolve())
        return [one.name for one in links.iterdir() if os.path.realpath(one).startswith(mine)]

    assert list_open()
    assert in_child(list_open) == "[]"


def test_a_fork_within_a_transaction_lets_nothing_pass_for_written(file_log):
    """The connection is closed for the child; so the parent's transaction is over, and says so."""

    def plan(_):
        assert in_child(lambda: list_texts([say(file_log, KEY, "child")])) == "['child']"
        return [make_draft(HumanMessage("lost"))]

    say(file_log, KEY, "before")
    with pytest.raises(LogError, match="was closed in a transaction, as by a fork"):
        file_log.append_planned(KEY, plan, after=0)
    say(file_log, KEY, "after")
    assert list_texts(file_log.entries(KEY)) == ["before", "child", "after"]
