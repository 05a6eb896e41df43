"""Closing a stream raises what could not be written, and closes what is beneath."""

from __future__ import annotations

import pytest
from langchain_core.runnables import RunnableGenerator
from scripted_chat import FailingLog, ProviderError, ScriptedChatModel, at

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.errors import LogError

# -- failing writes -----------------------------------------------------------------------------


def test_a_write_that_fails_while_a_stream_is_closed_is_raised():
    log = FailingLog(InMemoryLog(), 2)
    chain = ConversationMemory(log).wrap(
        ScriptedChatModel(replies=["One two"]), recall=False, queue_timeout_s=2
    )
    stream = chain.stream("Count.", at())
    next(stream)
    with pytest.raises(LogError, match="disk is full"):
        stream.close()
    chain.invoke("Again.", at())


def test_a_write_that_fails_after_the_model_broke_is_raised_with_both_causes():
    log = FailingLog(InMemoryLog(), 2)
    model = ScriptedChatModel(replies=["One two"], breaks_after=1)
    with pytest.raises(LogError, match="disk is full") as raised:
        list(ConversationMemory(log).wrap(model, recall=False).stream("Count.", at()))
    assert isinstance(raised.value.__context__, ProviderError)


# -- closing what is beneath --------------------------------------------------------------------


def test_leaving_a_stream_closes_the_models_own():
    closed = []

    def stream(inputs):
        try:
            for _ in inputs:
                yield from ["One ", "two"]
        finally:
            closed.append("closed")

    memory = ConversationMemory(InMemoryLog())
    reading = memory.wrap(RunnableGenerator(stream), recall=False).stream("Count.", at())
    next(reading)
    reading.close()
    assert closed == ["closed"]


async def test_leaving_an_async_stream_closes_the_models_own():
    closed = []

    async def stream(inputs):
        try:
            async for _ in inputs:
                yield "One "
                yield "two"
        finally:
            closed.append("closed")

    memory = ConversationMemory(InMemoryLog())
    reading = memory.wrap(RunnableGenerator(stream), recall=False).astream("Count.", at())
    await anext(reading)
    await reading.aclose()
    assert closed == ["closed"]
