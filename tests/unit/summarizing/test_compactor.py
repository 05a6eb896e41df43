"""One summary of a thread at a time, and compactions outside a turn."""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from langchain_convmem import InMemoryLog, SQLiteLog, SummarySettings
from langchain_convmem.effects import run_sync
from langchain_convmem.errors import LogUnavailableError
from langchain_convmem.records import ThreadKey
from langchain_convmem.summarizing.compactor import BackgroundJobs, Leases

KEY = ThreadKey("ana", "t")
SETTINGS = SummarySettings(lease_s=10, first_pause_s=30)


class Clock:
    def __init__(self):
        self.now_ms = 1_000_000

    def __call__(self):
        return self.now_ms

    def goes_on(self, seconds):
        self.now_ms += round(1000 * seconds)


class StatelessLog:
    """A log that keeps no state beside its entries."""


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["memory", "sqlite", "stateless"])
def log(request, tmp_path):
    if request.param == "stateless":
        yield StatelessLog()
        return
    with InMemoryLog() if request.param == "memory" else SQLiteLog(tmp_path / "log.db") as log:
        yield log


@pytest.fixture
def leases(log, clock):
    return Leases(log, SETTINGS, clock=clock)


def take(leases, key=KEY, **options):
    return run_sync(leases.take(key, **options))


def give_back(leases, lease, ended="done"):
    run_sync(leases.give_back(lease, ended))


def test_a_thread_is_leased_once_until_it_is_given_back(leases):
    lease = take(leases)
    assert take(leases) is None
    assert take(leases, even_resting=True) is None
    assert take(leases, ThreadKey("ben", "t")) is not None
    assert run_sync(leases.renew(lease))
    give_back(leases, lease)
    assert take(leases) is not None


def test_a_thread_rests_after_a_failure_twice_as_long_each_time(leases, clock):
    for pause_s in (30, 60, 120):
        give_back(leases, take(leases), "failed")
        clock.goes_on(pause_s - 0.001)
        assert take(leases) is None
        clock.goes_on(0.001)
    give_back(leases, take(leases))
    give_back(leases, take(leases), "failed")
    clock.goes_on(30)
    assert take(leases) is not None


def test_what_was_stopped_does_not_rest_and_failures_before_it_still_count(leases, clock):
    give_back(leases, take(leases), "failed")
    clock.goes_on(30)
    give_back(leases, take(leases), "stopped")
    give_back(leases, take(leases), "failed")
    clock.goes_on(60 - 0.001)
    assert take(leases) is None
    clock.goes_on(0.001)
    assert take(leases) is not None


def test_a_pause_is_an_hour_at_most_however_often_it_failed(leases, clock):
    for _ in range(40):
        give_back(leases, take(leases, even_resting=True), "failed")
    clock.goes_on(3599.999)
    assert take(leases) is None
    clock.goes_on(0.001)
    assert take(leases) is not None


def test_after_an_outage_a_thread_that_cannot_wait_is_taken(leases):
    give_back(leases, take(leases), "outage")
    assert run_sync(leases.find_rest(KEY))
    assert take(leases) is None
    held = take(leases, after_outage=True)
    assert held is not None
    assert take(leases, after_outage=True) is None
    give_back(leases, held, "failed")
    assert take(leases, after_outage=True) is None
    give_back(leases, take(leases, even_resting=True))
    assert not run_sync(leases.find_rest(KEY))


def test_on_request_a_resting_thread_is_taken(leases):
    give_back(leases, take(leases), "failed")
    assert take(leases) is None
    assert take(leases, even_resting=True) is not None


def test_who_stopped_working_loses_the_lease_and_cannot_renew_it(tmp_path, clock):
    with SQLiteLog(tmp_path / "log.db") as one, SQLiteLog(tmp_path / "log.db") as two:
        first, second = (Leases(log, SETTINGS, clock=clock) for log in (one, two))
        lost = take(first)
        clock.goes_on(9.999)
        assert take(second) is None
        clock.goes_on(0.001)
        held = take(second)
        assert held is not None
        assert not run_sync(first.renew(lost))
        give_back(first, lost, "failed")
        assert run_sync(second.renew(held))
        give_back(second, held)
        assert take(first) is not None


def test_a_renewed_lease_lasts_anew(tmp_path, clock):
    with SQLiteLog(tmp_path / "log.db") as one, SQLiteLog(tmp_path / "log.db") as two:
        first, second = (Leases(log, SETTINGS, clock=clock) for log in (one, two))
        lease = take(first)
        clock.goes_on(8)
        assert run_sync(first.renew(lease))
        clock.goes_on(8)
        assert take(second) is None


def test_a_failed_call_to_the_log_leaves_the_thread_free(clock):
    class Broken(InMemoryLog):
        def set_state(self, *args, **kwargs):
            raise OSError("gone")

    leases = Leases(Broken(), SETTINGS, clock=clock)
    for _ in range(2):
        with pytest.raises(OSError, match="gone"):
            take(leases)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_holds_none_of_its_parents_leases(clock):
    leases = Leases(StatelessLog(), SETTINGS, clock=clock)
    assert take(leases)
    child = os.fork()
    if child == 0:
        os._exit(0 if take(leases) and not take(leases) else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert take(leases) is None


@pytest.mark.parametrize("handles", [1, 2])
def test_threads_that_ask_at_once_get_one_lease(tmp_path, handles):
    logs = [SQLiteLog(tmp_path / "log.db") for _ in range(handles)]
    all_leases = [Leases(log, SETTINGS) for log in logs]
    barrier = threading.Barrier(8)

    def ask(number):
        barrier.wait()
        return take(all_leases[number % handles])

    with ThreadPoolExecutor(8) as pool:
        taken = [lease for lease in pool.map(ask, range(8)) if lease is not None]
    for log in logs:
        log.close()
    assert len(taken) == 1


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
        self._running = []
        self._lock = threading.Lock()

    def __call__(self, key):
        with self._lock:
            assert key not in self._running, "two jobs of one thread at once"
            self._running.append(key)
            self.keys.append(key)
            self.most_at_once = max(self.most_at_once, len(self._running))
        self.began.release()
        assert self.may_end.wait(SOON_S)
        with self._lock:
            self._running.remove(key)

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
    assert all(jobs.submit(key) for key in KEYS)
    assert jobs.flush(SOON_S)
    assert Counter(job.keys) == Counter(KEYS)
    assert job.most_at_once <= 2


def test_who_asks_while_a_job_runs_gets_one_more_and_only_one(jobs, job):
    job.may_end.clear()
    jobs.submit(KEYS[0])
    job.hold()
    for _ in range(5):
        assert jobs.submit(KEYS[0])
    job.may_end.set()
    assert jobs.flush(SOON_S)
    assert job.keys == KEYS[:1] * 2


def test_who_asks_while_a_job_waits_is_served_by_it(jobs, job):
    job.may_end.clear()
    for key in KEYS[:2]:
        jobs.submit(key)
    job.hold(2)
    for _ in range(5):
        jobs.submit(KEYS[2])
    job.may_end.set()
    assert jobs.flush(SOON_S)
    assert Counter(job.keys) == Counter(KEYS[:3])


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
    assert not jobs.submit(KEYS[9])
    assert jobs.flush(0)
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
    child = os.fork()
    if child == 0:
        job.may_end.set()
        job._running.clear()
        done = jobs.flush(SOON_S) and jobs.submit(KEYS[0]) and jobs.flush(SOON_S)
        jobs.close()
        os._exit(0 if done and job.keys == KEYS[:1] * 2 else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
