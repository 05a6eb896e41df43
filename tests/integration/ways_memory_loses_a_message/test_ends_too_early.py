"""Readers leave, tasks are cancelled, connections break: what was shown is kept, marked as cut."""

from __future__ import annotations

import asyncio

import pytest
from scripted_agents import shape
from scripted_chat import ProviderError, ScriptedChatModel, at

COUNT = "One two three four"
CUT = ["user: Count.", "assistant [interrupted]: One two "]


def _goes_on(memory):
    """Return what the model gets with the next question, from a chain of its own."""
    model = ScriptedChatModel(replies=["Five."])
    # A place in the queue that was never left would make this turn fail.
    memory.wrap(model, recall=False, queue_timeout_s=5).invoke("Go on.", at())
    return shape(model.seen[0])


SHOWN = ["human: Count.", "ai: One two ", "human: Go on."]


def test_a_stream_that_is_abandoned_keeps_what_was_shown(memory, logged):
    chain = memory.wrap(ScriptedChatModel(replies=[COUNT]), recall=False)
    stream = chain.stream("Count.", at())
    shown = [next(stream).text, next(stream).text]
    stream.close()
    assert shown == ["One ", "two "]
    assert logged(memory) == CUT
    assert _goes_on(memory) == SHOWN


async def test_an_asynchronous_stream_that_is_abandoned_keeps_what_was_shown(memory, logged):
    chain = memory.wrap(ScriptedChatModel(replies=[COUNT]), recall=False)
    stream = chain.astream("Count.", at())
    assert [(await anext(stream)).text, (await anext(stream)).text] == ["One ", "two "]
    await stream.aclose()
    assert logged(memory) == CUT
    assert _goes_on(memory) == SHOWN


def test_a_stream_whose_connection_breaks_keeps_what_was_shown(memory, logged):
    chain = memory.wrap(ScriptedChatModel(replies=[COUNT], breaks_after=2), recall=False)
    with pytest.raises(ProviderError, match="the connection broke"):
        list(chain.stream("Count.", at()))
    assert logged(memory) == CUT
    assert _goes_on(memory) == SHOWN


async def test_a_cancelled_task_that_streamed_keeps_what_was_shown(memory, logged):
    never = asyncio.Event()
    chain = memory.wrap(ScriptedChatModel(replies=[COUNT], turnstile=never), recall=False)
    has_seen = asyncio.Event()

    async def read():
        async for _ in chain.astream("Count.", at()):
            has_seen.set()

    task = asyncio.create_task(read())
    await has_seen.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert logged(memory) == [
        "user: Count.",
        "assistant [interrupted]: One ",
    ]
    assert _goes_on(memory) == [
        "human: Count.",
        "ai: One ",
        "human: Go on.",
    ]


async def test_a_task_cancelled_before_the_answer_keeps_the_question(memory, logged):
    from langchain_core.runnables import RunnableLambda

    is_asked = asyncio.Event()

    async def never(_):
        is_asked.set()
        await asyncio.Event().wait()

    chain = memory.wrap(RunnableLambda(lambda _: "", afunc=never), recall=False)
    task = asyncio.create_task(chain.ainvoke("Count.", at()))
    await is_asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert logged(memory) == ["user: Count."]
    assert _goes_on(memory) == ["human: Count.\nGo on."]
