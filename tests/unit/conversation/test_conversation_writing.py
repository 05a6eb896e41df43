"""The last moment of a turn: while it is stored, nothing can take it back, and nothing is lost."""

from __future__ import annotations

import asyncio
import threading

import pytest
from scripted_chat import ProviderError, ScriptedChatModel

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.conversation import Conversation
from langchain_convmem.conversation.control import TurnControl
from langchain_convmem.errors import ConversationError, TurnCancelledError


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
    talk = Conversation(ScriptedChatModel(replies=[error, "Fine."]))

    async def read():
        return [chunk async for chunk in talk.astream("a")]

    send = {
        "invoke": lambda: talk.invoke("a"),
        "stream": lambda: list(talk.stream("a")),
        "ainvoke": lambda: asyncio.run(talk.ainvoke("a")),
        "astream": lambda: asyncio.run(read()),
    }[way]
    with pytest.raises(
        (RuntimeError, StopIteration, StopAsyncIteration, GeneratorExit, ValueError)
    ):
        send()
    assert talk.history == []
    assert talk.wait(0)
    send()
    assert talk.last_message.text == "Fine."


def test_an_error_is_not_replaced_by_a_cancel_that_comes_with_it():
    def fail(_):
        talk.cancel()
        raise ProviderError("down")

    talk = Conversation(ScriptedChatModel(replies=[fail, "Fine."]))
    with pytest.raises(ProviderError):
        talk.send_message("a")
    assert talk.send_message("a").text == "Fine."


# -- the control of a turn -------------------------------------------------------------------------


def test_a_turn_is_ended_once_and_for_one_reason():
    control = TurnControl()
    control.check()
    assert control.cancel()
    assert not control.stop(TurnCancelledError("late"))
    with pytest.raises(TurnCancelledError):
        control.check()
    control.end()
    control.check()
    assert isinstance(control.stopped.exception(0), TurnCancelledError)


def test_a_sealed_turn_cannot_be_ended():
    control = TurnControl()
    control.seal()
    assert control.is_sealed
    assert not control.cancel()
    late = TurnControl()
    late.cancel()
    with pytest.raises(ConversationError):
        late.seal()
    late.end()
    late.seal()


async def wait_in_vain(control):
    await control.run(asyncio.Event().wait())


def test_what_is_awaited_ends_even_if_the_end_came_before():
    control = TurnControl()
    control.cancel()
    with pytest.raises(TurnCancelledError):
        asyncio.run(wait_in_vain(control))
    control.end()
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(wait_in_vain(control), 0.01))


def test_a_task_whose_turn_was_ended_is_not_cancelled_itself():
    async def wait():
        control = TurnControl()
        asyncio.get_running_loop().call_soon(control.cancel)
        with pytest.raises(TurnCancelledError):
            await wait_in_vain(control)
        assert asyncio.current_task().cancelling() == 0

    asyncio.run(wait())


def test_a_task_that_is_cancelled_along_with_its_turn_is_cancelled():
    async def wait():
        control = TurnControl()
        task = asyncio.create_task(wait_in_vain(control))
        await asyncio.sleep(0)
        control.cancel()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(wait())
