"""One summary of a thread at a time."""

from __future__ import annotations

import os

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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_holds_none_of_its_parents_leases(tmp_path, clock):
    leases = Leases(SQLiteLog(tmp_path / "log.db"), SETTINGS, clock=clock)
    assert take(leases)
    clock.goes_on(11)
    assert in_child(lambda: bool(take(leases) and not take(leases))) == "True"
    assert take(leases) is None


def test_what_was_stopped_does_not_rest_and_failures_before_it_still_count(leases, clock):
    give_back(leases, take(leases), "failed")
    clock.goes_on(30)
    give_back(leases, take(leases), "stopped")
    give_back(leases, take(leases), "failed")
    clock.goes_on(60 - 0.001)
    assert take(leases) is None
    clock.goes_on(0.001)
    assert take(leases) is not None
