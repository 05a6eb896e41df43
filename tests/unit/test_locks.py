import asyncio

import pytest

from langchain_convmem.errors import ThreadBusyError
from langchain_convmem.locks import FifoLock


@pytest.fixture
def lock():
    return FifoLock("t")


def is_free(lock):
    waiter = lock.enter()
    lock.leave(waiter)
    return waiter.done()


async def test_tasks_take_turns_in_the_order_they_came(lock):
    order = []

    async def work(number):
        async with lock.ahold():
            order.append(number)
            await asyncio.sleep(0)

    await asyncio.gather(*(work(number) for number in range(9)))
    assert order == list(range(9))


async def test_threads_and_tasks_exclude_each_other(lock):
    inside, entered = [], []

    def enter():
        entered.append(list(inside))
        inside.append(1)

    def in_thread():
        for _ in range(50):
            with lock.hold():
                enter()
                inside.pop()

    async def in_task():
        for _ in range(50):
            async with lock.ahold():
                enter()
                await asyncio.sleep(0)
                inside.pop()

    threads = [asyncio.to_thread(in_thread) for _ in range(3)]
    await asyncio.gather(*threads, *(in_task() for _ in range(3)))
    assert entered == [[]] * 300
    assert is_free(lock)


@pytest.mark.parametrize("ticks", range(4))
async def test_a_cancelled_task_gives_its_place_to_the_next(lock, ticks):
    async def stay():
        async with lock.ahold():
            pass

    first = lock.enter()
    waiting = asyncio.create_task(stay())
    await asyncio.sleep(0)
    following = asyncio.create_task(stay())
    await asyncio.sleep(0)
    # With the turn granted first, the task that is cancelled never learns of it.
    for step in [waiting.cancel, lambda: lock.leave(first)][:: -1 if ticks % 2 else 1]:
        step()
    for _ in range(ticks):
        await asyncio.sleep(0)
    await asyncio.wait_for(following, 5)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert is_free(lock)
    with lock.hold():
        pass


async def test_a_synchronous_call_that_would_block_its_own_loop_is_refused(lock):
    entered, done = asyncio.Event(), asyncio.Event()

    async def stay():
        async with lock.ahold():
            entered.set()
            await done.wait()

    other = asyncio.create_task(stay())
    await entered.wait()
    with pytest.raises(ThreadBusyError, match="wait for itself"), lock.hold():
        pass
    done.set()
    await other
    with lock.hold():
        pass
    assert is_free(lock)


def test_who_is_inside_may_not_wait_for_itself(lock):
    with lock.hold(), pytest.raises(ThreadBusyError, match="wait for itself"), lock.hold():
        pass
    assert is_free(lock)


def test_who_waits_too_long_is_told_how_long(lock):
    waiter = lock.enter()
    with pytest.raises(ThreadBusyError, match=r"after 0\.01 s"), lock.hold(0.01):
        pass
    lock.leave(waiter)
    assert is_free(lock)
