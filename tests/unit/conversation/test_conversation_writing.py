"""The last moment of a turn: while it is stored, nothing can take it back, and nothing is lost."""

from __future__ import annotations

import asyncio
import threading

import pytest
from scripted_chat import WAYS, ScriptedChatModel
from talks import chat

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.conversation import Conversation


class SlowLog(InMemoryLog):
    """Says when it is to store a reply, and does so when it is told to."""

    def __init__(self):
        super().__init__()
        self.reached, self.go = threading.Event(), threading.Event()

    def append_planned(self, *args, **kwargs):
        self.reached.set()
        assert self.go.wait(30)
        return super().append_planned(*args, **kwargs)


def slow_talk():
    log = SlowLog()
    model = ScriptedChatModel(replies=["Fine."])
    return ConversationMemory(log).conversation(model, thread_id="t"), log


def test_a_turn_that_is_being_stored_cannot_be_cancelled():
    talk, log = slow_talk()
    handle = talk.send_message_async("a")
    assert log.reached.wait(30)
    assert not handle.cancel()
    assert not talk.cancel()
    log.go.set()
    assert handle.result(30).text == "Fine."
    assert len(talk.history) == 2


def test_a_turn_whose_time_is_up_while_it_is_stored_stands():
    talk, log = slow_talk()
    late = threading.Event()

    class Late(threading.Timer):
        def run(self):
            assert log.reached.wait(30)
            late.set()
            self.function(*self.args)
            log.go.set()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "Timer", Late)
        assert talk.send_message("a", timeout=30).text == "Fine."
    assert late.is_set()
    assert len(talk.history) == 2


def test_a_task_that_is_cancelled_while_its_turn_is_stored_is_cancelled_then():
    async def ask():
        talk, log = slow_talk()
        task = asyncio.create_task(talk.asend_message("a"))
        await asyncio.to_thread(log.reached.wait)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        log.go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return talk

    talk = asyncio.run(ask())
    assert len(talk.history) == 2
    assert talk.wait(0)


def test_who_cancels_a_task_is_heard_even_if_the_turn_was_cancelled_too():
    model = ScriptedChatModel(replies=["Fine, thanks."])

    async def ask():
        model.turnstile = asyncio.Event()
        talk = Conversation(model)
        stream = talk.astream("a")
        await anext(stream)

        async def read():
            return [chunk async for chunk in stream]

        task = asyncio.create_task(read())
        await asyncio.sleep(0)
        talk.cancel()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
        assert talk.wait(0)
        return talk.history

    assert asyncio.run(ask()) == []


@pytest.mark.parametrize("error", [StopIteration("x"), StopAsyncIteration("x")])
@pytest.mark.parametrize("way", ["invoke", "stream", "ainvoke", "astream"])
def test_errors_that_end_generators_end_the_turn_and_nothing_else(error, way):
    talk = chat(error, "Fine.")

    def send():
        WAYS[way](talk, "a", None)

    with pytest.raises(
        (RuntimeError, StopIteration, StopAsyncIteration, GeneratorExit, ValueError)
    ):
        send()
    assert talk.history == []
    assert talk.wait(0)
    send()
    assert talk.last_message.text == "Fine."
