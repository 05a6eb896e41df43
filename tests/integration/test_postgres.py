"""What `PostgresLog` does when connections break, in event loops, and on pools of the caller."""

import asyncio
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage
from postgres_proxy import cutting_proxy
from postgres_server import wait_for

from langchain_convmem.errors import LogUnavailableError
from langchain_convmem.logs import postgres
from langchain_convmem.logs.postgres import PostgresLog
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing.log_contract import list_texts, say
from langchain_convmem.views.codec import make_draft

pytestmark = pytest.mark.postgres

ANA = ThreadKey("ana", "t1")
COMMIT = b";\nCOMMIT\0"  # the end of a message, not of READ COMMITTED


@pytest.fixture
def log(server, schema):
    wait_for(lambda: not server.backends())  # those of the test before end when the server hears it
    with PostgresLog(server.dsn, schema=schema, max_size=2) as opened:
        say(opened, ANA, "first")
        yield opened


@pytest.fixture
def proxy(server):
    with (
        tempfile.TemporaryDirectory(prefix="convmem-px-") as directory,
        cutting_proxy(server.directory, Path(directory)) as running,
    ):
        yield running


@pytest.fixture
def owner_lock(server, schema, log):
    """Hold the lock that ana's writers need, until the test ends or commits."""
    import psycopg

    with psycopg.connect(server.dsn) as holder:
        holder.execute(f"SELECT FROM {schema}.owners FOR UPDATE")
        yield holder


def drafts(*said):
    return [make_draft(HumanMessage(text)) for text in said]


def test_idle_connections_that_broke_are_noticed_by_nobody(server, log):
    server.kill(server.backends())
    assert list_texts(log.entries(ANA)) == ["first"]
    server.kill(server.backends())
    say(log, ANA, "second")
    server.kill(server.backends())
    log.set_state(ANA, "buffer", 1, expected=None)

    async def scenario():
        await log.aentries(ANA)
        await asyncio.to_thread(server.kill, server.backends())
        await log.aappend(ANA, drafts("third"))
        await asyncio.to_thread(server.kill, server.backends())
        assert list_texts(await log.aentries(ANA)) == ["first", "second", "third"]

    asyncio.run(scenario())


def test_a_backend_killed_in_the_middle_of_an_append_loses_and_doubles_nothing(
    server, log, owner_lock
):
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(say, log, ANA, "second")
        server.kill(wait_for(lambda: server.backends(wait_event_type="Lock")))
        wait_for(lambda: server.backends(wait_event_type="Lock"))  # on its second connection
        owner_lock.commit()
        entry = written.result()
    assert log.entries(ANA)[1:] == [entry]


def test_a_backend_killed_again_and_again_ends_in_an_error_that_may_be_retried(
    server, log, owner_lock
):
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(say, log, ANA, "second")
        server.kill(wait_for(lambda: server.backends(wait_event_type="Lock")))
        server.kill(wait_for(lambda: server.backends(wait_event_type="Lock")))
        with pytest.raises(LogUnavailableError, match="terminating connection") as caught:
            written.result()
    assert caught.value.is_retryable
    owner_lock.commit()
    assert list_texts(log.entries(ANA)) == ["first"]
    say(log, ANA, "second")
    assert list_texts(log.entries(ANA)) == ["first", "second"]


def test_a_server_that_is_down_is_unavailable_until_it_is_back(server, log):
    server.stop()
    try:
        for call in (log.entries, lambda key: say(log, key, "while it is down")):
            with pytest.raises(LogUnavailableError, match="unavailable") as caught:
                call(ANA)
            assert caught.value.is_retryable
        with pytest.raises(LogUnavailableError):
            asyncio.run(log.aentries(ANA))
    finally:
        server.start()
    assert list_texts(log.entries(ANA)) == ["first"]
    assert list_texts(asyncio.run(log.aentries(ANA))) == ["first"]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("reached", [False, True])
def test_a_lost_answer_to_a_commit_is_looked_up(proxy, schema, log, reached, is_async):
    with PostgresLog(proxy.dsn, schema=schema) as through:
        through.entries(ANA)
        proxy.cut(COMMIT, answered=reached)

        def write():
            if is_async:
                return asyncio.run(through.aappend(ANA, drafts("second")))
            return through.append(ANA, drafts("second"))

        if reached:
            assert write() == log.entries(ANA)[1:]
        else:
            with pytest.raises(LogUnavailableError, match="nothing was written"):
                write()
            assert list_texts(log.entries(ANA)) == ["first"]
        assert proxy.at is None
        say(through, ANA, "third")
    assert list_texts(log.entries(ANA))[-1] == "third"


def test_a_commit_that_cannot_be_looked_up_is_said_to_be_unknown(proxy, schema, log, monkeypatch):
    monkeypatch.setattr(postgres, "PAUSES_S", (0.01, 0.01))
    with PostgresLog(proxy.dsn, schema=schema) as through:
        through.entries(ANA)
        proxy.cut(COMMIT, b"pg_xact_status", answered=True, cuts=100)
        with pytest.raises(LogUnavailableError, match="not known: repeat"):
            through.append(ANA, [make_draft(HumanMessage("second", id="m2"))])
        proxy.at = None
        through.append(ANA, [make_draft(HumanMessage("second", id="m2"))])
    assert list_texts(log.entries(ANA)) == ["first", "second"]


@pytest.mark.parametrize("at", [b"BEGIN", b"FOR UPDATE", b"INSERT"])
def test_a_connection_lost_before_the_commit_is_replaced(proxy, schema, log, at):
    with PostgresLog(proxy.dsn, schema=schema) as through:
        through.entries(ANA)
        proxy.cut(at, answered=True)
        entry = say(through, ANA, "second")
        assert proxy.at is None
    assert log.entries(ANA)[1:] == [entry]


def test_a_writer_waits_for_another_no_longer_than_its_limit(server, schema, owner_lock):
    with PostgresLog(server.dsn, schema=schema, statement_timeout_s=0.2) as impatient:
        for call in (lambda: say(impatient, ANA, "second"), lambda: impatient.forget(ANA)):
            with pytest.raises(LogUnavailableError, match="timeout") as caught:
                call()
            assert caught.value.is_retryable
        assert list_texts(impatient.entries(ANA)) == ["first"]  # readers do not wait
        owner_lock.commit()
        say(impatient, ANA, "second")
        assert list_texts(impatient.entries(ANA)) == ["first", "second"]


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
