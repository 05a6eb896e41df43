"""Turns at once: ordered and complete on one thread, side by side on several."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import HumanMessage
from scripted_chat import ScriptedChatModel, at

from langchain_convmem import ConversationMemory, SQLiteLog
from langchain_convmem.errors import ThreadBusyError


def _talk(memory, thread_id="t"):
    entries = memory.history(thread_id, user_id="ana").entries
    return [text for entry in entries for text in entry.contents]


def _echo(messages):
    return f"re: {messages[-1].text}"


def _is_in_pairs(talk):
    return talk[1::2] == [f"re: {text}" for text in talk[::2]]


async def test_turns_in_tasks_on_one_thread_are_answered_in_order_of_arrival(memory):
    chain = memory.wrap(ScriptedChatModel(replies=[_echo]), recall=False)
    texts = [f"{number}" for number in range(16)]
    await asyncio.gather(*(chain.ainvoke(text, at()) for text in texts))
    assert _talk(memory) == [part for text in texts for part in (text, f"re: {text}")]


async def test_streams_and_calls_in_tasks_and_threads_share_one_line(memory):
    chain = memory.wrap(ScriptedChatModel(replies=[_echo]), recall=False)

    async def stream(text):
        return [chunk async for chunk in chain.astream(text, at())]

    await asyncio.gather(
        *(stream(f"s{number}") for number in range(4)),
        *(chain.ainvoke(f"a{number}", at()) for number in range(4)),
        *(asyncio.to_thread(chain.invoke, f"t{number}", at()) for number in range(4)),
    )
    talk = _talk(memory)
    assert len(talk) == 24
    assert _is_in_pairs(talk)


def test_a_turn_that_waits_too_long_is_refused_and_the_line_goes_on(memory):
    model = ScriptedChatModel(replies=["One two", "Three"])
    chain = memory.wrap(model, recall=False, queue_timeout_s=0.02)
    stream = chain.stream("a", at())
    next(stream)
    with pytest.raises(ThreadBusyError, match=r"'t'.*0\.02 s.*queue_timeout_s") as raised:
        chain.invoke("b", at())
    assert raised.value.thread_id == "t"
    stream.close()
    chain.invoke("c", at())
    assert _talk(memory) == ["a", "One ", "c", "Three"]


def _on_a_loop():
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _off_loop_only(cls, name):
    method = getattr(cls, name)

    def guarded(self, *args, **kwargs):
        assert not _on_a_loop(), f"{name} blocks the event loop"
        CALLED.add(name)
        return method(self, *args, **kwargs)

    return guarded


CALLED: set[str] = set()
_DISK = [
    "annotate",
    "append",
    "append_planned",
    "changes",
    "close",
    "delete_state",
    "entries",
    "forget",
    "get_state",
    "load_segments",
    "read_back",
    "save_segments",
    "set_state",
    "threads",
]
OffLoopLog = type("OffLoopLog", (SQLiteLog,), {n: _off_loop_only(SQLiteLog, n) for n in _DISK})


class OffLoopEmbeddings(DeterministicFakeEmbedding):
    """An embedder that refuses to compute on the thread of an event loop."""

    embed_documents = _off_loop_only(DeterministicFakeEmbedding, "embed_documents")
    embed_query = _off_loop_only(DeterministicFakeEmbedding, "embed_query")


async def test_nothing_of_the_memory_blocks_the_event_loop(tmp_path):
    CALLED.clear()
    log = await asyncio.to_thread(OffLoopLog, tmp_path / "m.db")
    memory = ConversationMemory(log, embeddings=OffLoopEmbeddings(size=8))
    chain = memory.wrap(ScriptedChatModel(replies=["One two"]))
    await chain.ainvoke("a", at())
    _ = [chunk async for chunk in chain.astream("b", at("other"))]
    await chain.abatch(["c", "d"], [at("t3"), at("t4")])
    stream = chain.astream("e", at())
    await anext(stream)
    await stream.aclose()
    await memory.aadd_messages([HumanMessage("f")], thread_id="t", user_id="ana")
    await memory.arecall("a", user_id="ana")
    await memory.retriever(user_id="ana").ainvoke("a")
    await memory.athreads("ana")
    await memory.history("t", user_id="ana").aget_messages()
    await memory.aforget(user_id="ana")
    await log.aclose()
    assert {"append_planned", "read_back", "changes", "threads", "forget", "embed_query"} <= CALLED


async def test_the_loop_runs_on_while_a_turn_waits_for_its_thread(memory):
    chain = memory.wrap(ScriptedChatModel(replies=["One two", "Three"]), recall=False)
    stream = chain.stream("a", at())
    next(stream)
    waiting = asyncio.create_task(chain.ainvoke("b", at()))
    await asyncio.sleep(0)  # comes back only if nothing blocks
    assert not waiting.done()
    stream.close()
    assert (await waiting).text == "Three"
