from __future__ import annotations

import asyncio

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.tracers import LangChainTracer
from scripted_chat import WAYS, ScriptedChatModel, at
from watched_runs import AskingEmbeddings, RunWatcher

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.errors import LogUnavailableError

TOLD = "I parked the car on level 3."
PROMPT = ChatPromptTemplate([MessagesPlaceholder("history"), MessagesPlaceholder("input")])


@pytest.fixture
def told(memory):
    """A memory in which Ana has said where her car is."""
    memory.add_messages([HumanMessage(TOLD)], thread_id="before", user_id="ana")
    return memory


class _UnreadableLog(InMemoryLog):
    """Fails where recall reads it."""

    def changes(self, *args, **kwargs):
        raise LogUnavailableError("the disk is gone")


@pytest.mark.parametrize("way", WAYS)
def test_a_recall_that_fails_ends_its_run_with_the_error(way):
    memory = ConversationMemory(_UnreadableLog(), profile_tokens=0)
    watcher = RunWatcher()
    chain = memory.wrap(ScriptedChatModel(replies=["Hm."]))
    with pytest.raises(LogUnavailableError, match="disk is gone"):
        WAYS[way](chain, "Where is the car?", {**at(), "callbacks": [watcher]})
    [recall] = watcher.from_chain("retriever")
    assert isinstance(watcher.failed[recall], LogUnavailableError)


class _StuckEmbeddings(AskingEmbeddings):
    """Never answers a question."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def aembed_query(self, text):
        self.asked.set()
        await asyncio.Event().wait()


async def test_a_recall_that_is_cancelled_ends_its_run_too():
    embeddings = _StuckEmbeddings()
    watcher = RunWatcher()
    with ConversationMemory.open(":memory:", embeddings=embeddings) as memory:
        memory.add_messages([HumanMessage("On level 3.")], thread_id="earlier", user_id="ana")
        chain = memory.wrap(ScriptedChatModel(replies=["Hm."]))
        task = asyncio.create_task(chain.ainvoke("Where?", {**at(), "callbacks": [watcher]}))
        await embeddings.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    [recall] = watcher.from_chain("retriever")
    assert isinstance(watcher.failed[recall], asyncio.CancelledError)


class _Client:
    """Keeps what LangSmith's tracer would send."""

    def __init__(self) -> None:
        self.sent = []

    def __getattr__(self, name):
        return lambda *args, **fields: self.sent.append((name, args, fields))


def test_a_trace_names_the_user_as_the_metadata_of_the_call_does(told):
    client = _Client()
    chain = told.wrap(PROMPT | ScriptedChatModel(replies=["Hm."]))
    config = {**at(user_id="ana@example.org"), "callbacks": [LangChainTracer(client=client)]}
    chain.invoke("Where?", {**config, "metadata": {"user_id": "a hash"}})
    created = [fields for name, _, fields in client.sent if name == "create_run"]
    kinds = ["chain", "retriever", "chain", "prompt", "llm"]
    assert [run["run_type"] for run in created] == kinds
    assert {run["extra"]["metadata"]["thread_id"] for run in created} == {"t"}
    assert "ana@example.org" not in str([run["extra"] for run in created])


@pytest.mark.parametrize("way", WAYS)
def test_neither_metadata_nor_events_hold_what_was_said(told, way):
    watcher, chain = RunWatcher(), told.wrap(PROMPT | ScriptedChatModel(replies=["On level 3."]))
    WAYS[way](chain, "Where is the car?", {**at(), "callbacks": [watcher]})
    shown = str([run["metadata"] for run in watcher.runs.values()]) + str(watcher.events)
    assert not any(word in shown for word in ("car", "parked", "level"))
