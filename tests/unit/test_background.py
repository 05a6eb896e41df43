"""Calls off the event loop, what they ask of it, and jobs behind turns."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import threading
from collections import Counter
from concurrent.futures import wait

import pytest
from forked_processes import in_child

from langchain_convmem import background
from langchain_convmem.background import BackgroundJobs, ask, can_await, finish, hop
from langchain_convmem.errors import LogUnavailableError
from langchain_convmem.records import ThreadKey

NAME = contextvars.ContextVar("name", default="nobody")


async def get_loop_thread():
    return threading.get_ident(), NAME.get()


def ask_for_it():
    """Ask which thread answers, and under which context."""
    return ask(lambda: ("called", NAME.get()), get_loop_thread)


# -- hops -----------------------------------------------------------------------------------------


async def test_a_hop_sees_the_callers_context_and_is_another_thread():
    NAME.set("ana")
    name, thread = await hop(lambda: (NAME.get(), threading.get_ident()))
    assert name == "ana"
    assert thread != threading.get_ident()


async def test_what_a_hop_asks_is_awaited_by_its_event_loop_in_the_context_of_the_hop():
    def call():
        NAME.set("bob")
        return ask_for_it()

    assert await hop(call) == (threading.get_ident(), "bob")


async def test_without_a_hop_or_in_another_thread_nothing_is_awaited():
    def call():
        context = contextvars.copy_context()
        found = []
        thread = threading.Thread(target=lambda: found.append(context.run(ask_for_it)))
        thread.start()
        thread.join()
        return can_await(), found[0]

    assert (can_await(), ask_for_it()) == (False, ("called", "nobody"))
    assert await hop(call) == (True, ("called", "nobody"))


@pytest.mark.parametrize("error", [KeyError("a"), asyncio.CancelledError(), StopIteration()])
async def test_what_the_asked_code_raises_is_raised_where_it_was_asked(error):
    async def fail():
        raise error

    def call():
        try:
            return ask(lambda: None, fail)
        except BaseException as caught:  # noqa: BLE001 - a cancelled task is one of them
            return type(caught)

    assert await hop(call) in (type(error), RuntimeError)


async def test_more_hops_than_workers_may_ask_and_hop_again_before_they_are_answered(monkeypatch):
    monkeypatch.setattr(background, "HOPS_AT_ONCE", 2)
    all_asked = asyncio.Barrier(10)

    async def answer():
        await all_asked.wait()
        return await hop(lambda: 1)

    async with asyncio.timeout(30):
        found = await asyncio.gather(*(hop(lambda: ask(int, answer)) for _ in range(10)))
    assert found == [1] * 10


async def test_a_loop_of_its_own_under_a_hop_may_hop(monkeypatch):
    monkeypatch.setattr(background, "HOPS_AT_ONCE", 1)
    async with asyncio.timeout(30):
        assert await hop(lambda: asyncio.run(hop(lambda: 1))) == 1


@pytest.mark.parametrize("run", [hop, finish])
async def test_who_is_cancelled_waits_for_a_call_that_runs(run):
    began, may_end, done = threading.Event(), threading.Event(), []

    def call():
        began.set()
        assert may_end.wait(30)
        done.append(1)

    task = asyncio.create_task(run(call))
    while not began.is_set():  # noqa: ASYNC110 - another thread sets it
        await asyncio.sleep(0.001)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == [1]


@pytest.mark.parametrize(("run", "is_made"), [(hop, False), (finish, True)])
async def test_who_is_cancelled_in_the_line_makes_the_call_only_to_finish(
    monkeypatch, run, is_made
):
    monkeypatch.setattr(background, "HOPS_AT_ONCE", 1)
    may_end, done = threading.Event(), []
    first = asyncio.create_task(hop(may_end.wait))
    task = asyncio.create_task(run(lambda: done.append(1)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await first, bool(done)) == (True, is_made)


def test_what_waits_in_the_line_is_finished_when_the_loop_ends(monkeypatch):
    monkeypatch.setattr(background, "HOPS_AT_ONCE", 1)
    may_end, done, tasks = threading.Event(), [], []

    async def leave():
        tasks.append(asyncio.create_task(hop(may_end.wait)))
        tasks.append(asyncio.create_task(finish(lambda: done.append(1))))
        await asyncio.sleep(0.01)
        threading.Timer(0.05, may_end.set).start()

    asyncio.run(leave())
    assert done == [1]


async def test_what_a_cancelled_hop_asks_is_cancelled_and_the_call_may_tidy_up():
    asked, done = asyncio.Event(), []

    async def never():
        asked.set()
        await asyncio.Event().wait()

    async def tidy_up():
        await asyncio.sleep(0)
        done.append(1)

    def call():
        try:
            ask(int, never)
        finally:
            ask(int, tidy_up)

    task = asyncio.create_task(hop(call))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == [1]


async def test_a_call_that_raises_stop_iteration_does_not_wait_for_ever():
    with pytest.raises(RuntimeError, match="StopIteration"):
        await hop(lambda: next(iter(())))


# -- Background jobs: one per thread at a time, and none is left over ------------------------------


KEYS = [ThreadKey("ana", str(number)) for number in range(20)]
SOON_S = 20


class Job:
    """A job that can be held up; keeps what it was asked, and how many ran at once."""

    def __init__(self):
        self.keys = []
        self.began = threading.Semaphore(0)
        self.may_end = threading.Event()
        self.may_end.set()
        self.most_at_once = 0
        self.running = []
        self._lock = threading.Lock()

    def __call__(self, key):
        with self._lock:
            assert key not in self.running, "two jobs of one thread at once"
            self.running.append(key)
            self.keys.append(key)
            self.most_at_once = max(self.most_at_once, len(self.running))
        self.began.release()
        assert self.may_end.wait(SOON_S)
        with self._lock:
            self.running.remove(key)

    def hold(self, count=1):
        """Return when so many jobs have begun."""
        for _ in range(count):
            assert self.began.acquire(timeout=SOON_S)


@pytest.fixture
def job():
    return Job()


@pytest.fixture
def jobs(job):
    jobs = BackgroundJobs(job)
    yield jobs
    job.may_end.set()
    jobs.close()


def test_each_thread_that_was_asked_for_is_done(jobs, job):
    done = [jobs.submit(key) for key in KEYS]
    assert jobs.flush(SOON_S)
    assert all(one.done() for one in done)
    assert Counter(job.keys) == Counter(KEYS)
    assert job.most_at_once <= 2


def test_who_asks_while_a_job_runs_gets_one_more_and_only_one(jobs, job):
    job.may_end.clear()
    jobs.submit(KEYS[0])
    job.hold()
    for _ in range(5):
        jobs.submit(KEYS[0])
    job.may_end.set()
    assert jobs.flush(SOON_S)
    assert job.keys == KEYS[:1] * 2


def test_waiting_comes_to_an_end_in_time(jobs, job):
    assert jobs.flush(0)
    job.may_end.clear()
    jobs.submit(KEYS[0])
    job.hold()
    assert not jobs.flush(0.01)


def test_closing_finishes_what_runs_drops_what_waits_and_takes_no_more(jobs, job):
    job.may_end.clear()
    for key in KEYS[:5]:
        jobs.submit(key)
    job.hold(2)
    waiter = threading.Thread(target=jobs.flush)
    closer = threading.Thread(target=jobs.close)
    for thread in (waiter, closer):
        thread.start()
    job.may_end.set()
    for thread in (waiter, closer):
        thread.join(SOON_S)
        assert not thread.is_alive()
    assert set(KEYS[:2]) <= set(job.keys)
    assert jobs.submit(KEYS[9]).done()
    assert KEYS[9] not in job.keys
    assert jobs.flush(0)
    jobs.close()


def test_a_job_with_more_to_do_waits_its_turn_behind_the_others():
    left = {"a": 3, "b": 2}
    order = []
    both_asked = threading.Event()

    def job(key):
        assert both_asked.wait(SOON_S)
        order.append(key)
        left[key] -= 1
        return left[key]

    jobs = BackgroundJobs(job, workers=1)
    done = [jobs.submit(key) for key in left]
    both_asked.set()
    assert not wait(done, SOON_S).not_done
    assert order == ["a", "b", "a", "b", "a"]
    jobs.close()


def test_what_is_dropped_is_finished_where_it_runs_and_not_begun_where_it_waits(job):
    jobs = BackgroundJobs(job, workers=1)
    job.may_end.clear()
    done = [jobs.submit(key) for key in KEYS[:3]]
    job.hold()
    jobs.submit(KEYS[0])  # once more, which is dropped as well
    dropping = threading.Thread(target=jobs.drop, args=(KEYS[:2],))
    dropping.start()
    assert not wait([done[1]], SOON_S).not_done
    assert not done[0].done()
    job.may_end.set()
    dropping.join(SOON_S)
    assert jobs.flush(SOON_S)
    assert job.keys == [KEYS[0], KEYS[2]]
    jobs.close()


@pytest.mark.parametrize("error", [LogUnavailableError("gone"), KeyError("a mistake")])
def test_a_job_that_fails_is_logged_and_the_next_one_is_done(caplog, error):
    done = []

    def job(key):
        done.append(key)
        if len(done) == 1:
            raise error

    jobs = BackgroundJobs(job, workers=1)
    with caplog.at_level(logging.ERROR, logger="langchain_convmem"):
        for _ in range(2):
            jobs.submit(KEYS[0])
            assert jobs.flush(SOON_S)
        jobs.close()
    assert len(done) == 2
    [record] = caplog.records
    assert record.exc_info[1] is error


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_starts_with_no_jobs_and_does_its_own(jobs, job):
    job.may_end.clear()
    jobs.submit(KEYS[0])
    job.hold()

    def do_own():
        job.may_end.set()
        job.running.clear()
        done = jobs.flush(SOON_S) and jobs.submit(KEYS[0]) and jobs.flush(SOON_S)
        jobs.close()
        return done and job.keys == KEYS[:1] * 2

    assert in_child(do_own) == "True"
