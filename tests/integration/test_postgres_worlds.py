"""`PostgresLog` in event loops, in processes that fork, and on connections that the caller gave."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest
from langchain_core.messages import HumanMessage
from postgres_server import new_schema, running_server, wait_for

from langchain_convmem.errors import ConfigError, LogClosedError
from langchain_convmem.logs.postgres import PostgresLog
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing.log_contract import list_texts, say
from langchain_convmem.views.codec import make_draft

pytestmark = pytest.mark.postgres

ANA = ThreadKey("ana", "t1")


@pytest.fixture(scope="module")
def server():
    return running_server()


@pytest.fixture
def schema():
    return new_schema()


@pytest.fixture
def log(server, schema):
    wait_for(lambda: not server.backends())  # those of the test before end when the server hears it
    with PostgresLog(server.dsn, schema=schema, max_size=2) as opened:
        say(opened, ANA, "first")
        yield opened


@pytest.fixture
def owner_lock(server, schema, log):
    """Hold the lock that ana's writers need, until the test ends or commits."""
    import psycopg

    with psycopg.connect(server.dsn) as holder:
        holder.execute(f"SELECT FROM {schema}.owners FOR UPDATE")
        yield holder


def drafts(*said):
    return [make_draft(HumanMessage(text)) for text in said]


# -- asynchronous calls ---------------------------------------------------------------------------


async def test_the_event_loop_runs_on_while_an_append_waits(server, log, owner_lock):
    waiting = asyncio.create_task(log.aappend(ANA, drafts("second")))
    ticks = 0
    await asyncio.to_thread(wait_for, lambda: server.backends(wait_event_type="Lock"))
    while ticks < 1000:
        await asyncio.sleep(0)
        ticks += 1
    assert not waiting.done()
    owner_lock.commit()
    [entry] = await waiting
    assert (await log.aentries(ANA))[1:] == [entry]
    await log.aclose()


async def test_a_cancelled_append_writes_nothing_and_gives_its_connection_back(
    server, log, owner_lock
):
    await log.aentries(ANA)
    sessions = set(server.backends())
    for _ in range(4):  # twice as often as there are connections
        task = asyncio.create_task(log.aappend(ANA, drafts("cancelled")))
        await asyncio.to_thread(wait_for, lambda: server.backends(wait_event_type="Lock"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert server.backends(wait_event_type="Lock") == []
        assert set(server.backends()) == sessions  # rolled back, not thrown away
    owner_lock.commit()
    await log.aappend(ANA, drafts("second"))
    assert list_texts(await log.aentries(ANA)) == ["first", "second"]
    assert server.backends(state="idle in transaction") == []
    await log.aclose()


async def test_tasks_cancelled_at_any_moment_leave_all_or_nothing(server, log):
    async def write(number):
        await log.aappend(ANA, drafts(f"{number} a", f"{number} b"))

    for number in range(60):
        tasks = [asyncio.create_task(write(f"{number}-{other}")) for other in range(3)]
        await asyncio.sleep(number * 0.0002)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.wait_for(write("last"), timeout=20)
    said = list_texts(await log.aentries(ANA))[1:]
    assert said[-2:] == ["last a", "last b"]
    assert [text[:-1] for text in said[::2]] == [text[:-1] for text in said[1::2]]
    assert server.backends(state="idle in transaction") == []
    await log.aclose()


def test_each_event_loop_has_connections_of_its_own_and_close_ends_them_all(server, log):
    async def some():
        await asyncio.gather(*(log.aentries(ANA) for _ in range(4)))

    for _ in range(3):
        asyncio.run(some())
    # Loops that ended are noticed when a new one comes.
    assert len(server.backends()) <= 1 + 2 + 2
    log.close()
    wait_for(lambda: not server.backends())


def test_closing_ends_the_connections_of_a_loop_in_another_thread(server, log):
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(log.aentries(ANA), loop).result()
        log.close()
        wait_for(lambda: not server.backends())
        with pytest.raises(LogClosedError):
            asyncio.run_coroutine_threadsafe(log.aentries(ANA), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


# -- processes ------------------------------------------------------------------------------------

UNCLOSED = """
import asyncio, sys
from langchain_convmem.logs.postgres import PostgresLog
from langchain_convmem.records import ThreadKey

log = PostgresLog(sys.argv[1], schema=sys.argv[2])

async def main():
    await asyncio.gather(*(log.aentries(ThreadKey("ana", "t1")) for _ in range(6)))

asyncio.run(main())
print(len(log.entries(ThreadKey("ana", "t1"))))
"""

FORKING = """
import os, sys
from langchain_core.messages import HumanMessage
from langchain_convmem.logs.postgres import PostgresLog
from langchain_convmem.records import ThreadKey
from langchain_convmem.views.codec import make_draft

log, key = PostgresLog(sys.argv[1], schema=sys.argv[2]), ThreadKey("ana", "t1")
log.append(key, [make_draft(HumanMessage("parent"))])
child = os.fork()
for number in range(20):
    name = "parent" if child else "child"
    log.append(key, [make_draft(HumanMessage(f"{name} {number}"))])
if child:
    assert os.waitpid(child, 0)[1] == 0
    print(len(log.entries(key)))
log.close()
"""


@pytest.mark.parametrize(("program", "printed"), [(UNCLOSED, "1\n"), (FORKING, "42\n")])
def test_a_program_may_end_without_closing_and_may_fork(server, schema, log, program, printed):
    done = subprocess.run(
        [sys.executable, "-c", program, server.dsn, schema],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, printed, "")


# -- what the caller gave -------------------------------------------------------------------------


def test_a_given_connection_is_left_as_it_was(server, schema):
    import psycopg

    with psycopg.connect(server.dsn) as connection:
        with PostgresLog(pool=connection, schema=schema, statement_timeout_s=5) as log:
            say(log, ANA, "Hi")
            assert list_texts(log.entries(ANA)) == ["Hi"]
            assert not connection.autocommit
            connection.execute("SELECT 1")  # the caller's own transaction
            with pytest.raises(ConfigError, match="open transaction"):
                log.entries(ANA)
            connection.rollback()
            with pytest.raises(ConfigError, match="async_pool"):
                asyncio.run(log.aentries(ANA))
        for name, value in (
            ("statement_timeout", "0"),
            ("idle_in_transaction_session_timeout", "0"),
            ("synchronous_commit", "on"),
            ("transaction_isolation", "read committed"),
        ):
            assert connection.execute(f"SHOW {name}").fetchone() == (value,)
        locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
        assert connection.execute(locks).fetchone() == (0,)


async def test_given_asynchronous_connections_are_left_as_they_were(server, schema):
    import psycopg
    from psycopg_pool import AsyncConnectionPool

    connection = await psycopg.AsyncConnection.connect(server.dsn)
    async with (
        connection,
        AsyncConnectionPool(server.dsn, min_size=1, max_size=2, open=False) as pool,
    ):
        for given in (connection, pool):
            async with PostgresLog(async_pool=given, schema=schema) as log:
                await asyncio.gather(*(log.aappend(ANA, drafts("Hi")) for _ in range(4)))
                with pytest.raises(ConfigError, match="asynchronous connections only"):
                    log.entries(ANA)
        assert not connection.autocommit
        cursor = await connection.execute(f"SELECT count(*) FROM {schema}.entries")
        assert await cursor.fetchone() == (8,)
        async with pool.connection() as lent:
            assert not lent.autocommit


def test_a_given_pool_whose_connections_broke_is_asked_to_mend_itself(server, schema):
    from psycopg_pool import ConnectionPool

    name = {"application_name": "langchain-convmem"}
    with ConnectionPool(server.dsn, kwargs=name, min_size=2, max_size=2, open=True) as pool:
        pool.wait()
        with PostgresLog(pool=pool, schema=schema) as log:
            say(log, ANA, "first")
            server.kill(server.backends())
            say(log, ANA, "second")
            assert list_texts(log.entries(ANA)) == ["first", "second"]
