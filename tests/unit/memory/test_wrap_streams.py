from __future__ import annotations

import asyncio
from functools import reduce
from operator import or_

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.output_parsers import JsonOutputParser, StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableGenerator, RunnableLambda, RunnablePassthrough
from scripted_chat import FailingLog, ProviderError, ScriptedChatModel, at, talk, texts

from langchain_convmem import ConversationMemory, InMemoryLog, SQLiteLog
from langchain_convmem.errors import LogError

CALL = {"name": "erase", "args": {"path": "/srv/all"}, "id": "c1", "type": "tool_call"}


@pytest.fixture
def model():
    return ScriptedChatModel(replies=["One two three four"])


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


async def _read_deltas(chain):
    stream = await chain.astream_events("Count", at(), version="v3")
    return "".join([delta async for delta in stream.text])


@pytest.mark.parametrize(
    "read",
    [
        lambda chain: str(chain.stream_events("Count", at(), version="v3").text),
        lambda chain: asyncio.run(_read_deltas(chain)),
    ],
)
@pytest.mark.parametrize("parses", [False, True])
def test_a_typed_stream_is_a_turn(memory, model, read, parses):
    chain = memory.wrap(model | StrOutputParser() if parses else model, recall=False)
    assert read(chain) == "One two three four"
    assert talk(memory) == [("user", "Count"), ("assistant", "One two three four")]


async def test_everybody_who_reads_a_typed_stream_is_told_that_it_broke(memory, model):
    model.breaks_after = 2
    stream = await memory.wrap(model).astream_events("Count", at(), version="v3")

    async def read():
        return [delta async for delta in stream.text]

    async def wait():
        return await stream.output

    found = await asyncio.gather(read(), wait(), read(), return_exceptions=True)
    assert list(map(type, found)) == [ProviderError] * 3


def test_a_stream_of_values_tells_when_its_reply_began(memory, model):
    answer = ChatPromptTemplate([("human", "{input}")]) | model | StrOutputParser()
    list(memory.wrap(RunnablePassthrough.assign(answer=answer)).stream("Count", at()))
    timing = memory.history("t", user_id="ana").entries[-1].metadata.timing
    assert timing["llmStart"] <= timing["firstToken"] <= timing["llmEnd"]


def test_the_updates_of_a_graph_are_read_node_by_node(memory):
    def updates(inputs):
        for _ in inputs:
            yield {"agent": {"messages": [AIMessage("", tool_calls=[CALL], id="a1")]}}
            yield {"tools": {"messages": [ToolMessage("found", tool_call_id="c1", id="r1")]}}
            yield {"counter": {"steps": 3}}
            yield {"agent": {"messages": [AIMessage("On level three.", id="a2")]}}

    list(memory.wrap(RunnableGenerator(updates), recall=False).stream("Where?", at()))
    assert [role for role, *_ in talk(memory)] == ["user", "assistant", "tool", "assistant"]


ASKS = ChatPromptTemplate([("human", "{input}")])
FOUND = {"messages": [AIMessage("", tool_calls=[CALL]), ToolMessage("found", tool_call_id="c1")]}


def _answer(*parsers):
    words = reduce(or_, parsers, ASKS | ScriptedChatModel(replies=["One two three"]))
    return RunnablePassthrough.assign(context=lambda _: "shelf").assign(answer=words)


@pytest.mark.parametrize(
    ("inner", "chunks", "stored"),
    [
        (_answer(), 2, []),
        (_answer(), 4, [("assistant", "One two ", "interrupted")]),
        (_answer(StrOutputParser()), 4, [("assistant", "One two ", "interrupted")]),
        (RunnableLambda(lambda _: FOUND), 1, [("assistant",), ("tool", "found", "interrupted")]),
        (ScriptedChatModel(replies=['{"a": 1}']) | JsonOutputParser(), 1, []),
    ],
)
def test_of_values_that_are_cut_the_answer_alone_is_stored(memory, inner, chunks, stored):
    stream = memory.wrap(inner, recall=False).stream("Where?", at())
    for _ in range(chunks):
        next(stream)
    stream.close()
    assert talk(memory)[1:] == stored


def test_a_partial_reply_that_was_heard_is_not_replaced(memory):
    chain = memory.wrap(ScriptedChatModel(replies=["One two", "Three."]), recall=False)
    stream = chain.stream("Hello?", at())
    next(stream)
    stream.close()
    memory.history("t", user_id="ana").cut_reply("One")
    chain.invoke("Hello?", at())
    assert texts(memory) == ["Hello?", "One ", "Hello?", "Three."]


async def test_calls_in_tasks_and_threads_share_one_line(memory):
    model = ScriptedChatModel(replies=[lambda given: f"re: {given[-1].text}"])
    chain = memory.wrap(model, recall=False)
    await asyncio.gather(
        *(chain.ainvoke(f"a{number}", at()) for number in range(6)),
        *(asyncio.to_thread(chain.invoke, f"t{number}", at()) for number in range(6)),
    )
    said = texts(memory)
    assert len(said) == 24
    assert said[1::2] == [f"re: {text}" for text in said[::2]]


def _off_loop_only(cls, name):
    method = getattr(cls, name)

    def guarded(self, *args, **kwargs):
        with pytest.raises(RuntimeError, match="no running"):  # or it would block the event loop
            asyncio.get_running_loop()
        CALLED.add(name)
        return method(self, *args, **kwargs)

    return guarded


CALLED: set[str] = set()
_DISK = [name[1:] for name in dir(SQLiteLog) if name[0] == "a" and hasattr(SQLiteLog, name[1:])]
_DISK += ["load_segments", "save_segments"]
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
