"""Work behind turns gives way, and no other work does."""

from __future__ import annotations

import threading

import pytest

from langchain_convmem import priority
from langchain_convmem.effects import make_effect, run_sync
from langchain_convmem.priority import give_way, mark_awaited, mark_background
from langchain_convmem.records import ThreadKey
from langchain_convmem.workers import BackgroundJobs


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self):
        self.now = 0.0
        self.slept = []

    def perf_counter(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(threading.current_thread().name)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(priority, "time", clock)
    return clock


def test_a_turn_gives_way_to_nobody(clock):
    clock.now = 100.0
    give_way()
    assert clock.slept == []


def test_work_in_the_background_gives_way_once_a_millisecond(clock):
    with mark_background():
        give_way()
        assert len(clock.slept) == 0
        for _ in range(3):
            clock.now += 0.0011
            give_way()
            give_way()
        assert len(clock.slept) == 3
    clock.now += 1
    give_way()
    assert len(clock.slept) == 3


def test_a_block_within_a_block_ends_alone(clock):
    with mark_background():
        with mark_background():
            pass
        clock.now += 1
        give_way()
    assert len(clock.slept) == 1


def test_other_threads_are_not_behind_turns(clock):
    with mark_background():
        clock.now += 1
        other = threading.Thread(target=give_way)
        other.start()
        other.join()
    assert clock.slept == []


def test_while_somebody_waits_a_tenth_of_the_time_is_left(clock):
    with mark_awaited(), mark_background():
        clock.now += 0.0011
        give_way()
    # Several sleeps, and yet an end to them.
    assert 0.01 <= clock.now - 0.0011 < 0.012


def test_work_in_the_background_is_not_waited_for(clock):
    with mark_background(), mark_awaited():
        clock.now += 0.0011
        give_way()
    assert len(clock.slept) == 1
    with mark_background():
        clock.now += 0.0011
        give_way()
    assert len(clock.slept) == 2, "what was waited for is over"


def test_jobs_behind_turns_give_way_between_their_steps(clock):
    def pass_time():
        clock.now += 1

    def steps():
        yield make_effect(pass_time, pass_time)
        yield make_effect(pass_time, pass_time)

    jobs = BackgroundJobs(lambda _: run_sync(steps()), name="try")
    assert jobs.submit(ThreadKey("ana", "t"))
    assert jobs.flush(10)
    jobs.close()
    assert [name.rsplit("_", 1)[0] for name in clock.slept] == ["convmem-try"]
