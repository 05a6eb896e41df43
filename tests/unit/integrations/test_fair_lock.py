from __future__ import annotations

import asyncio
import threading

import pytest

from langchain_convmem.errors import ThreadBusyError
from langchain_convmem.integrations.fair_lock import FairLock


def test_tasks_take_turns_in_the_order_they_came():
    lock, order = FairLock(), []

    async def work(number):
        await lock.aacquire()
        order.append(number)
        await asyncio.sleep(0)
        lock.release()

    async def scenario():
        await asyncio.gather(*(work(number) for number in range(9)))

    asyncio.run(scenario())
    assert order == list(range(9))


def test_threads_and_tasks_exclude_each_other():
    lock, inside, most = FairLock(), [0], [0]

    def enter():
        inside[0] += 1
        most[0] = max(most[0], inside[0])

    def leave():
        inside[0] -= 1
        lock.release()

    def in_thread():
        for _ in range(50):
            lock.acquire()
            enter()
            leave()

    async def in_task():
        for _ in range(50):
            await lock.aacquire()
            enter()
            await asyncio.sleep(0)
            leave()

    async def scenario():
        await asyncio.gather(*(in_task() for _ in range(3)))

    threads = [threading.Thread(target=in_thread) for _ in range(3)]
    for thread in threads:
        thread.start()
    asyncio.run(scenario())
    for thread in threads:
        thread.join()
    assert (inside[0], most[0]) == (0, 1)


@pytest.mark.parametrize("ticks", range(4))
def test_a_cancelled_task_gives_its_place_to_the_next(ticks):
    lock = FairLock()

    async def scenario():
        await lock.aacquire()
        waiting = asyncio.create_task(lock.aacquire())
        await asyncio.sleep(0)
        following = asyncio.create_task(lock.aacquire())
        await asyncio.sleep(0)
        if ticks % 2:
            lock.release()  # the turn is granted, and the task never learns of it
            waiting.cancel()
        else:
            waiting.cancel()
            lock.release()
        for _ in range(ticks):
            await asyncio.sleep(0)
        await asyncio.wait_for(following, 5)
        lock.release()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(scenario())
    lock.acquire()
    lock.release()


def test_a_synchronous_call_that_would_block_its_own_loop_is_refused():
    lock = FairLock()

    async def scenario():
        lock.acquire()
        lock.release()
        await lock.aacquire()
        with pytest.raises(ThreadBusyError, match="await"):
            lock.acquire()
        lock.release()
        lock.acquire()
        lock.release()

    asyncio.run(scenario())
