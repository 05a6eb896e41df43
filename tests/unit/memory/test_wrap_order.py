"""Turns at once: ordered and complete on one thread, side by side on several."""

from __future__ import annotations

import asyncio

from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import HumanMessage
from scripted_chat import ScriptedChatModel, at

from langchain_convmem import ConversationMemory, SQLiteLog


def _talk(memory, thread_id="t"):
    entries = memory.history(thread_id, user_id="ana").entries
    return [text for entry in entries for text in entry.contents]


def _echo(messages):
    return f"re: {messages[-1].text}"


def _is_in_pairs(talk):
    return talk[1::2] == [f"re: {text}" for text in talk[::2]]


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
