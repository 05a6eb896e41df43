import asyncio
import threading

import pytest

from langchain_convmem.errors import ThreadBusyError
from langchain_convmem.locks import FifoLock


def make_lock():
    return FifoLock("t")


def is_free(lock):
    waiter = lock.enter()
    lock.leave(waiter)
    return waiter.done()


def test_tasks_take_turns_in_the_order_they_came():
    lock, order = make_lock(), []

    async def work(number):
        async with lock.ahold():
            order.append(number)
            await asyncio.sleep(0)

    async def scenario():
        await asyncio.gather(*(work(number) for number in range(9)))

    asyncio.run(scenario())
    assert order == list(range(9))


def test_threads_and_tasks_exclude_each_other():
    lock, inside, entered = make_lock(), [], []

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

    async def scenario():
        await asyncio.gather(*(in_task() for _ in range(3)))

    threads = [threading.Thread(target=in_thread) for _ in range(3)]
    for thread in threads:
        thread.start()
    asyncio.run(scenario())
    for thread in threads:
        thread.join()
    assert entered == [[]] * 300
    assert is_free(lock)


@pytest.mark.parametrize("ticks", range(4))
def test_a_cancelled_task_gives_its_place_to_the_next(ticks):
    lock = make_lock()

    async def stay():
        async with lock.ahold():
            pass

    async def scenario():
        first = lock.enter()
        waiting = asyncio.create_task(stay())
        await asyncio.sleep(0)
        following = asyncio.create_task(stay())
        await asyncio.sleep(0)
        if ticks % 2:
            lock.leave(first)  # the turn is granted, and the task never learns of it
            waiting.cancel()
        else:
            waiting.cancel()
            lock.leave(first)
        for _ in range(ticks):
            await asyncio.sleep(0)
        await asyncio.wait_for(following, 5)
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(scenario())
    assert is_free(lock)
    with lock.hold():
        pass


def test_a_synchronous_call_that_would_block_its_own_loop_is_refused():
    lock = make_lock()

    async def stay(entered, done):
        async with lock.ahold():
            entered.set()
            await done.wait()

    async def scenario():
        with lock.hold():
            pass
        entered, done = asyncio.Event(), asyncio.Event()
        other = asyncio.create_task(stay(entered, done))
        await entered.wait()
        with pytest.raises(ThreadBusyError, match="wait for itself"), lock.hold():
            pass
        done.set()
        await other
        with lock.hold():
            pass

    asyncio.run(scenario())
    assert is_free(lock)


def test_who_is_inside_may_not_wait_for_itself():
    lock = make_lock()
    with lock.hold(), pytest.raises(ThreadBusyError, match="wait for itself"), lock.hold():
        pass
    assert is_free(lock)


def test_who_waits_too_long_is_told_how_long():
    lock = make_lock()
    waiter = lock.enter()
    with pytest.raises(ThreadBusyError, match=r"after 0\.01 s"), lock.hold(0.01):
        pass
    lock.leave(waiter)
    assert is_free(lock)
