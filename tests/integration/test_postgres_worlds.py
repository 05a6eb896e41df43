"""`PostgresLog` in event loops, in programs that end, and on connections that the caller gave."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from langchain_core.messages import HumanMessage
from postgres_server import new_schema, running_server, wait_for

from langchain_convmem.errors import ConfigError
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


def test_a_program_may_end_without_closing(server, schema, log):
    done = subprocess.run(
        [sys.executable, "-c", UNCLOSED, server.dsn, schema],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


# -- what the caller gave -------------------------------------------------------------------------


def test_a_given_pool_is_left_as_it_was(server, schema):
    from psycopg_pool import ConnectionPool

    with ConnectionPool(server.dsn, min_size=1, max_size=2, open=True) as pool:
        with PostgresLog(pool=pool, schema=schema, statement_timeout_s=5) as log:
            say(log, ANA, "Hi")
            assert list_texts(log.entries(ANA)) == ["Hi"]
            assert list_texts(asyncio.run(log.aentries(ANA))) == ["Hi"]
            with pytest.raises(ArithmeticError):
                log.append_planned(ANA, lambda _: 1 / 0, after=0)
        with pool.connection() as connection:
            assert not connection.autocommit
            for name, value in (
                ("search_path", '"$user", public'),
                ("statement_timeout", "0"),
                ("lock_timeout", "0"),
                ("idle_in_transaction_session_timeout", "0"),
                ("synchronous_commit", "on"),
                ("transaction_isolation", "read committed"),
            ):
                assert connection.execute(f"SHOW {name}").fetchone() == (value,)
            locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
            assert connection.execute(locks).fetchone() == (0,)


async def test_an_asynchronous_pool_is_refused_with_what_to_give(server):
    import psycopg
    from psycopg_pool import AsyncConnectionPool

    pool = AsyncConnectionPool(server.dsn, open=False)
    connection = await psycopg.AsyncConnection.connect(server.dsn)
    async with connection:
        for given in (pool, connection, object()):
            with pytest.raises(ConfigError, match=r"psycopg_pool\.ConnectionPool"):
                PostgresLog(pool=given)


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
