"""One summary of a thread at a time."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from forked_processes import in_child

from langchain_convmem import InMemoryLog, SQLiteLog, SummarySettings
from langchain_convmem.records import ThreadKey
from langchain_convmem.summarizing.leases import Leases

KEY = ThreadKey("ana", "t")
SETTINGS = SummarySettings(lease_s=10, first_pause_s=30)


class Clock:
    def __init__(self):
        self.now_ms = 1_000_000

    def __call__(self):
        return self.now_ms

    def goes_on(self, seconds):
        self.now_ms += round(1000 * seconds)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def leases(clock):
    return Leases(InMemoryLog(), SETTINGS, clock=clock)


def take(leases, key=KEY, **options):
    return leases.take(key, **options)


def give_back(leases, lease, ended="done"):
    leases.give_back(lease, ended)


def test_a_thread_is_leased_once_until_it_is_given_back(leases):
    lease = take(leases)
    assert take(leases) is None
    assert take(leases, even_resting=True) is None
    assert take(leases, ThreadKey("ben", "t")) is not None
    assert leases.renew(lease)
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


def test_who_stopped_working_loses_the_lease_and_cannot_renew_it(tmp_path, clock):
    with SQLiteLog(tmp_path / "log.db") as one, SQLiteLog(tmp_path / "log.db") as two:
        first, second = (Leases(log, SETTINGS, clock=clock) for log in (one, two))
        lost = take(first)
        clock.goes_on(9.999)
        assert take(second) is None
        clock.goes_on(0.001)
        held = take(second)
        assert held is not None
        assert not first.renew(lost)
        give_back(first, lost, "failed")
        assert second.renew(held)
        give_back(second, held)
        assert take(first) is not None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_holds_none_of_its_parents_leases(tmp_path, clock):
    leases = Leases(SQLiteLog(tmp_path / "log.db"), SETTINGS, clock=clock)
    assert take(leases)
    clock.goes_on(11)
    assert in_child(lambda: bool(take(leases) and not take(leases))) == "True"
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


def test_what_was_stopped_does_not_rest_and_failures_before_it_still_count(leases, clock):
    give_back(leases, take(leases), "failed")
    clock.goes_on(30)
    give_back(leases, take(leases), "stopped")
    give_back(leases, take(leases), "failed")
    clock.goes_on(60 - 0.001)
    assert take(leases) is None
    clock.goes_on(0.001)
    assert take(leases) is not None
