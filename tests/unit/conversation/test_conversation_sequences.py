import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from talks import CHATML, text_engine

from langchain_convmem import Engine
from langchain_convmem.errors import TurnCancelledError


class BoomError(Exception):
    """What something foreign raises."""


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
        for talk in self.talks:
            replies = [one.text for one in talk.history if one.type == "ai"]
            whole = [f"Reply {n} to you." for n in range(1, len(replies) + 1)]
            assert [one[: len(said)] for one, said in zip(whole, replies, strict=True)] == replies
            assert talk.wait(0)


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
