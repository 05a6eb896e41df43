"""Streams of a wrapped chain: cut, closed, typed, and in the shapes that graphs give them."""

from __future__ import annotations

import asyncio
import threading

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import Runnable, RunnableGenerator
from scripted_chat import FailingLog, ScriptedChatModel, at

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.errors import LogError

CALL = {"name": "erase", "args": {"path": "/srv/all"}, "id": "c1", "type": "tool_call"}


def _entries(memory):
    return memory.history("t", user_id="ana").entries


def _talk(memory):
    return [(entry.role, *entry.contents, *entry.metadata.attributes) for entry in _entries(memory)]


@pytest.fixture
def model():
    return ScriptedChatModel(replies=["One two three four"])


@pytest.fixture
def chain(memory, model):
    # A line that is not left would make the next turn wait, and this makes it fail instead.
    return memory.wrap(model, recall=False, queue_timeout_s=2)


async def _settled(condition):
    while not condition():  # noqa: ASYNC110 - a log sets no event
        await asyncio.sleep(0.001)


# Not `_forget`: when a whole chain is collected, the collector may close the model's stream first
# and let the parser read on, and then a cut reply cannot be told from a short one.


@pytest.mark.parametrize("times", [1, 3])
async def test_a_task_cancelled_while_it_waits_for_the_model_keeps_what_came(memory, times):
    model = ScriptedChatModel(replies=["One two"], turnstile=asyncio.Event())
    chain = memory.wrap(model, recall=False)
    got = []

    async def read():
        async for chunk in chain.astream("Count.", at()):
            got.append(chunk)  # noqa: PERF401 - looked at while it grows

    task = asyncio.create_task(read())
    await _settled(lambda: got)
    for _ in range(times):  # servers cancel again and again until a task is gone
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert _talk(memory) == [("user", "Count."), ("assistant", "One ", "interrupted")]


@pytest.mark.parametrize("way", ["ainvoke", "astream"])
async def test_a_task_cancelled_in_its_last_write_has_written_it(way):
    log = GatedLog()
    memory = ConversationMemory(log)
    chain = memory.wrap(ScriptedChatModel(replies=["One"]), recall=False)
    call = chain.ainvoke("Count.", at()) if way == "ainvoke" else _collected(chain)
    task = asyncio.create_task(call)
    await asyncio.to_thread(log.began.wait, 20)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    log.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert _talk(memory) == [("user", "Count."), ("assistant", "One")]


class GatedLog(InMemoryLog):
    """A log whose second append begins, and goes on when its gate opens."""

    def __init__(self):
        super().__init__()
        self._appends = 0
        self.began = threading.Event()
        self.gate = threading.Event()

    def append(self, *args, **kwargs):
        self._appends += 1
        if self._appends == 2:
            self.began.set()
            self.gate.wait(20)
        return super().append(*args, **kwargs)


async def _collected(chain):
    return [chunk async for chunk in chain.astream("Count.", at())]


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


def _shown(memory):
    return [one.text for one in memory.history("t", user_id="ana").messages]


def _read(chain):
    return str(chain.stream_events("Count", at(), version="v3").text)


def _read_async(chain):
    async def read():
        stream = await chain.astream_events("Count", at(), version="v3")
        return "".join([delta async for delta in stream.text])

    return asyncio.run(read())


@pytest.mark.parametrize("read", [_read, _read_async])
@pytest.mark.parametrize("parses", [False, True])
def test_a_typed_stream_is_a_turn(memory, model, read, parses):
    chain = memory.wrap(model | StrOutputParser() if parses else model, recall=False)
    assert read(chain) == "One two three four"
    assert _shown(memory) == ["Count", "One two three four"]


def _told(memory):
    """Return the thread's entries as (role, text)."""
    entries = memory.history("t", user_id="ana").entries
    return [(entry.role, str(entry.message.text)) for entry in entries]


def test_the_updates_of_a_graph_are_read_node_by_node(memory):
    def updates(inputs):
        for _ in inputs:
            yield {"agent": {"messages": [AIMessage("", tool_calls=[CALL], id="a1")]}}
            yield {"tools": {"messages": [ToolMessage("found", tool_call_id="c1", id="r1")]}}
            yield {"counter": {"steps": 3}}
            yield {"agent": {"messages": [AIMessage("On level three.", id="a2")]}}

    list(memory.wrap(RunnableGenerator(updates), recall=False).stream("Where?", at()))
    assert [role for role, _ in _told(memory)] == ["user", "assistant", "tool", "assistant"]


class _Reader(Runnable):
    """Streams from a source that others can close."""

    def __init__(self):
        self.source = (word for word in ("One ", "two ", "three"))

    def invoke(self, value, config=None, **kwargs):
        return "".join(self.source)

    def stream(self, value, config=None, **kwargs):
        return self.source


def test_a_reply_whose_source_was_closed_behind_its_back_is_no_whole_reply(memory):
    reader = _Reader()
    stream = memory.wrap(reader).stream("Count.", at())
    assert next(stream) == "One "
    reader.source.close()
    assert list(stream) == []
    assert _talk(memory) == [("user", "Count."), ("assistant", "One ", "interrupted")]
