import asyncio
import gc
import threading
from contextlib import aclosing
from itertools import islice

import pytest
from troubled_turns import ASKED, BoomError, Halt, boom, talk, ways

from langchain_convmem.errors import ConvMemError, TurnCancelledError


def untroubled(kind):
    """Return a conversation that never failed, and the number of points of its second turn."""
    twin = talk(kind)
    twin.trouble.arm(None, boom)
    twin.conversation.send_message(ASKED)
    return twin


def points(kind, start=0):
    """Yield a conversation for each point of its second turn, and a way to send.

    Whoever sends at a point that there is not ends the loop.
    """
    for number, (_, send) in enumerate(islice(ways(start), 60)):
        yield number, talk(kind), send
    pytest.fail("there is no end to the points")


def check_as_if_never_tried(tried, twin, before):
    tried.check_rest()
    assert tried.history == before
    tried.seen.clear()
    reply = tried.conversation.send_message(ASKED)
    assert reply.text == f"Answer 2 to {ASKED}"
    assert tried.history == twin.history
    assert tried.seen == twin.seen
    assert tried.held == twin.held
    tried.check_rest()


@pytest.mark.parametrize(
    "kind", ["text rewinds stops", "text rewinds memory", "text", "chat", "chat memory"]
)
def test_an_error_at_any_point_of_a_turn_leaves_no_trace(kind):
    twin = untroubled(kind)
    for number, tried, send in points(kind):
        before = tried.history
        tried.trouble.arm(number, boom)
        try:
            send(tried.conversation, ASKED)
        except (BoomError, Halt, ConvMemError):
            check_as_if_never_tried(tried, twin, before)
        else:
            assert number >= 8
            assert tried.trouble.at == number, "the point was reached, and nothing came of it"
            break


@pytest.mark.parametrize("kind", ["text rewinds", "text stops memory", "chat memory"])
def test_a_cancel_at_any_point_of_a_turn_leaves_no_trace(kind):
    twin = untroubled(kind)
    for number, tried, send in points(kind, start=3):
        before, told = tried.history, []
        tried.trouble.arm(
            number, lambda _, it=tried, told=told: told.append(it.conversation.cancel())
        )
        try:
            send(tried.conversation, ASKED)
        except TurnCancelledError:
            assert told != [False]
            check_as_if_never_tried(tried, twin, before)
        else:
            # While it is stored, a turn can be cancelled no more.
            assert told in ([], [False])
            if not told:
                break


@pytest.mark.parametrize("kind", ["text rewinds", "text stops memory", "chat memory"])
def test_a_task_that_is_cancelled_at_any_point_leaves_no_trace(kind):
    twin = untroubled(kind)

    async def send(tried):
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        tried.trouble.act = lambda _: loop.call_soon_threadsafe(task.cancel)
        try:
            await tried.conversation.ainvoke(ASKED)
        finally:
            await asyncio.sleep(0)  # where a cancel that came with the end is told

    for number, tried, _ in points(kind):
        before = tried.history
        tried.trouble.arm(number, boom)
        try:
            asyncio.run(send(tried))
        except asyncio.CancelledError:
            if tried.history == before:
                check_as_if_never_tried(tried, twin, before)
            else:  # it came while the turn was stored, too late to undo it
                tried.check_rest()
                assert tried.history == twin.history
        else:
            assert tried.trouble.at == number
            break


def reading(close):
    """Return who reads so many chunks of a reply and goes, and tells whether it ended before."""

    def go(tried, count):
        stream = tried.conversation.stream(ASKED)
        read = [chunk for chunk, _ in zip(stream, range(count), strict=False)]
        close(stream)
        del stream
        gc.collect()
        return len(read) < count

    return go


def close_elsewhere(stream):
    closing = threading.Thread(target=stream.close)
    closing.start()
    closing.join()


def aleave(tried, count):
    async def read():
        seen = 0
        async with aclosing(tried.conversation.astream(ASKED)) as stream:
            async for _ in stream:
                seen += 1
                if seen == count:
                    break
        return seen < count

    return asyncio.run(read())


def raise_in_callback(tried, count):
    seen = []

    def hear(event):
        seen.append(event)
        if len(seen) == count:
            raise BoomError

    handle = tried.conversation.send_message_async(ASKED, hear)
    try:
        handle.result(30)
    except BoomError:
        assert len(seen) == count, "nobody is told of an error of his own"
        return seen[-1].chunk_position == "last"
    return True


@pytest.mark.parametrize(
    ("kind", "go"),
    [
        ("text memory", reading(lambda stream: stream.close())),
        ("text rewinds", reading(lambda _: None)),
        ("chat", reading(close_elsewhere)),
        ("chat memory", aleave),
        ("text stops", aleave),
        ("text rewinds stops", raise_in_callback),
    ],
)
def test_a_reader_who_leaves_at_any_chunk_takes_the_turn_back(kind, go):
    twin = untroubled(kind)
    for count in range(1, 40):
        tried = talk(kind)
        before = tried.history
        if go(tried, count):
            tried.check_rest()
            assert tried.history == twin.history
            break
        if tried.history == twin.history:  # the last chunk is shown when the turn is stored
            continue
        check_as_if_never_tried(tried, twin, before)
    else:
        pytest.fail("there is no end to the chunks")
    assert count > 4
