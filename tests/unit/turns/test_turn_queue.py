"""The line in front of a thread: first come, first served, for threads and tasks alike."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from forked_processes import in_child

from langchain_convmem.errors import ThreadBusyError
from langchain_convmem.records import ThreadKey
from langchain_convmem.turns.turn import get_line

PLACE = ("log", ThreadKey("ana", "t"))
OTHER = ("log", ThreadKey("ben", "t"))


def _waiting():
    """Return how many stand in line, the one who holds the thread included."""
    return get_line(PLACE).length


def _until(condition):
    while not condition():
        time.sleep(0.001)


@contextmanager
def _held():
    """Let another thread hold the place: what runs here is no part of its turn."""
    entered, leave = threading.Event(), threading.Event()

    def hold():
        with get_line(PLACE).hold(10):
            entered.set()
            leave.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait(10)
    try:
        yield
    finally:
        leave.set()
        thread.join()


def _is_free():
    with get_line(PLACE).hold(0.01):
        return True


async def test_tasks_and_threads_are_served_in_one_order():
    served = []

    async def come(number):
        async with get_line(PLACE).ahold(30):
            served.append(number)

    def come_by_thread(number):
        with get_line(PLACE).hold(30):
            served.append(number)

    loop = asyncio.get_running_loop()
    turns: list[asyncio.Future[None]] = []
    with ThreadPoolExecutor(10) as pool:
        with _held():
            for number in range(20):
                if number % 2:
                    turns.append(asyncio.ensure_future(come(number)))
                else:
                    turns.append(loop.run_in_executor(pool, come_by_thread, number))
                while _waiting() < number + 2:  # noqa: ASYNC110 - a thread sets no event
                    await asyncio.sleep(0.001)
        await asyncio.gather(*turns)
    assert served == list(range(20))


def test_different_places_do_not_wait_for_each_other():
    with (
        get_line(PLACE).hold(1),
        get_line(OTHER).hold(0.01),
        get_line(("log 2", PLACE[1])).hold(0.01),
    ):
        assert _waiting() == 1


def test_who_waits_too_long_leaves_and_the_next_is_served():
    served = []

    def come():
        with get_line(PLACE).hold(30):
            served.append(True)

    thread = threading.Thread(target=come)
    with _held():
        with (
            pytest.raises(ThreadBusyError, match="still busy after"),
            get_line(PLACE).hold(0.01),
        ):
            pass
        thread.start()
        _until(lambda: _waiting() == 2)
    thread.join(10)
    assert served == [True]


async def test_who_is_cancelled_in_the_moment_of_admission_passes_the_thread_on():
    entered = []

    async def come():
        async with get_line(PLACE).ahold(30):
            entered.append(True)
            await asyncio.sleep(60)

    with _held():
        task = asyncio.create_task(come())
        await asyncio.sleep(0)
        assert _waiting() == 2
    task.cancel()  # admitted by now, and cancelled before it could run
    with pytest.raises(asyncio.CancelledError):
        await task
    assert entered == []
    assert _is_free()


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt, GeneratorExit])
def test_a_turn_that_fails_frees_the_thread(error):
    with pytest.raises(error), get_line(PLACE).hold(1):
        raise error
    assert _is_free()


def test_a_turn_cannot_wait_for_itself():
    with get_line(PLACE).hold(1):
        with (
            pytest.raises(ThreadBusyError, match="wait for itself") as raised,
            get_line(PLACE).hold(9),
        ):
            pass
        assert raised.value.thread_id == "t"
    assert _is_free()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_does_not_wait_for_its_parents_turns():
    done = []

    def hold():
        with get_line(PLACE).hold(5):
            done.append(True)

    def hold_in_thread():
        thread = threading.Thread(target=hold)
        thread.start()
        thread.join()
        return done

    with get_line(PLACE).hold(1):
        assert in_child(hold_in_thread) == "[True]"
