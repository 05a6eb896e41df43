import asyncio
import gc
import threading
from contextlib import aclosing
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from talks import CHATML, text_engine
from troubled_turns import ASKED, BoomError, Halt, boom, talk, ways

from langchain_convmem import Engine
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


class Model:
    """A text engine that fails when it is told to, and conversations with it."""

    def __init__(self, **options):
        self.fails_at = ""
        self.engine = text_engine(
            lambda text: f"Reply {text.count('<|im_start|>assistant')} to you.",
            before_prefill=lambda _: self.fail("prefill"),
            before_chunk=lambda number: self.fail(f"chunk {number}"),
            **options,
        )
        self.shared = Engine(self.engine)
        self.talks = [self.shared.create_conversation() for _ in range(2)]
        self.marks = {}

    def fail(self, place):
        if place == self.fails_at:
            self.fails_at = ""
            raise BoomError

    def check(self):
        assert self.engine.misuses == []
        for one_talk in self.talks:
            replies = [one.text for one in one_talk.history if one.type == "ai"]
            whole = [f"Reply {n} to you." for n in range(1, len(replies) + 1)]
            assert [one[: len(said)] for one, said in zip(whole, replies, strict=True)] == replies
            assert one_talk.wait(0)


def check_sent(model, talk):
    said = CHATML.render(talk.history, add_generation_prompt=False)
    written = [event for event in model.engine.events if event.action == "decode"][-1]
    assert said.startswith(model.engine.sessions[written.session - 1].text)
    assert said.removesuffix("\n").removesuffix("<|im_end|>").endswith("to you.")


def send(model, talk):
    talk.send_message("Hello")
    check_sent(model, talk)


def asend(model, talk):
    asyncio.run(talk.asend_message("Hello"))
    check_sent(model, talk)


def fail(place):
    def act(model, talk):
        model.fails_at = place
        with pytest.raises(BoomError):
            talk.send_message(f"Fails at {place}")

    return act


def leave(model, talk):
    stream = talk.stream("Left alone")
    next(stream)
    del stream


def cancel(model, talk):
    stream = talk.stream("Cancelled")
    next(stream)
    assert talk.cancel()
    with pytest.raises(TurnCancelledError):
        next(stream)


def mark(model, talk):
    model.marks[id(talk)] = talk.checkpoint()


def rewind(model, talk):
    known = model.marks.get(id(talk))
    if known is not None and known.message_id in [None, *(one.id for one in talk.history)]:
        talk.rewind(known)


def drop(model, talk):
    assert all(one.text.startswith("Oh, ") for one in talk.drop_pending())


def cut(model, talk):
    if talk.history:
        assert talk.cut_reply("Reply").text == "Reply"


def edit(model, talk):
    """Put another conversation in the place of this one, with the same history."""
    number = model.talks.index(talk)
    talk.close()
    model.talks[number] = model.shared.create_conversation(history=talk.history)


ACTS = [send, asend, fail("prefill"), fail("chunk 0"), fail("chunk 2"), leave, cancel, mark, rewind]
ACTS += [drop, cut, edit]
ACTS += [
    lambda model, talk: talk.undo(),
    lambda model, talk: talk.send_message("Oh, ", pending=True),
    lambda model, talk: model.talks.append(talk.clone()),
]


@settings(max_examples=40)
@given(
    acts=st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 5)), min_size=4, max_size=14),
    rewindable=st.booleans(),
    clonable=st.booleans(),
    holds_stop=st.booleans(),
)
def test_sessions_hold_what_was_said(acts, **options):
    model = Model(**options)
    for act, number in acts:
        act(model, model.talks[number % len(model.talks)])
        model.check()
        assert len(model.engine.open_sessions) <= len(model.talks)
    model.shared.close()
    assert model.engine.open_sessions == []
