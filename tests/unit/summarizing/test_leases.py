import os

import pytest
from forked_processes import in_child

from langchain_convmem import InMemoryLog, SQLiteLog, SummarySettings
from langchain_convmem.records import ThreadKey
from langchain_convmem.summarizing.leases import Leases

KEY = ThreadKey("ana", "t")
SETTINGS = SummarySettings(lease_s=10, first_pause_s=30)


class Clock:
    now_ms = 1_000_000

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


def test_a_thread_is_leased_once_until_it_is_given_back(leases):
    lease = leases.take(KEY)
    assert leases.take(KEY) is None
    assert leases.take(KEY, even_resting=True) is None
    assert leases.take(ThreadKey("ben", "t")) is not None
    assert leases.renew(lease)
    leases.give_back(lease, "done")
    assert leases.take(KEY) is not None


def test_a_thread_rests_after_a_failure_twice_as_long_each_time(leases, clock):
    for pause_s in (30, 60, 120):
        leases.give_back(leases.take(KEY), "failed")
        clock.goes_on(pause_s - 0.001)
        assert leases.take(KEY) is None
        clock.goes_on(0.001)
    for outcome in ("done", "failed", "stopped", "failed"):
        leases.give_back(leases.take(KEY), outcome)
        clock.goes_on(30 if outcome == "failed" else 0)
    # What was stopped does not rest, and the failure before it still counts.
    clock.goes_on(30 - 0.001)
    assert leases.take(KEY) is None
    clock.goes_on(0.001)
    assert leases.take(KEY) is not None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_holds_none_of_its_parents_leases(tmp_path, clock):
    leases = Leases(SQLiteLog(tmp_path / "log.db"), SETTINGS, clock=clock)
    assert leases.take(KEY)
    clock.goes_on(11)
    assert in_child(lambda: bool(leases.take(KEY) and not leases.take(KEY))) == "True"
    assert leases.take(KEY) is None
