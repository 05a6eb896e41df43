"""What people use instead, written the way its documentation tells."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from typing import Any

from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda

from benchmarks.loss.systems import (
    Chat,
    CheckpointedSystem,
    RunnableChat,
    Setup,
    StorageError,
    System,
    edit_by_time_travel,
    tool_loop,
)
from benchmarks.sql_history import HistoryFile, SQLHistory, at_session, question, with_history

__all__ = ["Checkpointer", "MessageHistory"]


# -- RunnableWithMessageHistory --------------------------------------------------------------


class MessageHistory(System):
    """`RunnableWithMessageHistory` over a SQL history."""

    name = "message-history"

    def open(self) -> None:
        self.file = HistoryFile(self.folder / "history.db")

    def close(self) -> None:
        self.file.close()

    def history(self, session_id: str) -> SQLHistory:
        return _BreakableHistory(self, session_id)

    def chat(self, setup: Setup) -> Chat:
        return _HistoryChat(self, setup)


class _BreakableHistory(SQLHistory):
    def __init__(self, system: MessageHistory, session_id: str) -> None:
        super().__init__(system.file, session_id)
        self._system = system

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        if self._system.is_broken:
            raise StorageError("the disk is full")
        super().add_messages(messages)


class _HistoryChat(RunnableChat):
    def __init__(self, system: MessageHistory, setup: Setup) -> None:
        model: Any = setup.answering()
        if setup.tools:
            loop = tool_loop(setup)
            model = RunnableLambda(lambda prompt: loop(prompt.to_messages()))
        super().__init__(with_history(model, system.history))
        self._system = system

    def config(self, thread: str) -> RunnableConfig:
        return at_session(thread)

    def shaped(self, said: HumanMessage) -> Any:
        return question(said)

    def edit(self, thread: str, said: HumanMessage) -> None:
        # A history can only be cleared and written anew; what was edited away is gone for good.
        history = self._system.history(thread)
        messages = history.messages
        at = [message.id for message in messages].index(said.id)
        history.clear()
        history.add_messages(messages[:at])
        self.ask(thread, said)


# -- a graph with a checkpointer -------------------------------------------------------------


class Checkpointer(CheckpointedSystem):
    """A LangGraph graph over `MessagesState` with the SQLite checkpointer."""

    name = "checkpointer"

    def open(self) -> None:
        self._db = sqlite3.connect(self.checkpoints, check_same_thread=False)
        self.saver = _breakable_saver()(self._db)
        self.saver.system = self

    def close(self) -> None:
        self._db.close()

    def chat(self, setup: Setup) -> Chat:
        return _GraphChat(self, setup)


def _breakable_saver() -> Any:
    from langgraph.checkpoint.sqlite import SqliteSaver

    class BreakableSaver(SqliteSaver):
        """A checkpointer whose storage is gone while the system is broken."""

        system: System

        def put(self, *args: Any, **kwargs: Any) -> Any:
            self._refuse()
            return super().put(*args, **kwargs)

        def put_writes(self, *args: Any, **kwargs: Any) -> None:
            self._refuse()
            super().put_writes(*args, **kwargs)

        def _refuse(self) -> None:
            if self.system.is_broken:
                raise StorageError("the disk is full")

    return BreakableSaver


def _graph(system: Checkpointer, setup: Setup) -> Any:
    """Return the graph of LangGraph's own tutorials: a model, and tools while it calls any."""
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition
    from langgraph.types import RetryPolicy

    from benchmarks.loss.models import ProviderError

    answering = Setup(setup.model, setup.tools, setup.fallback).answering()

    def call(state: MessagesState) -> dict[str, Any]:
        return {"messages": [answering.invoke(state["messages"])]}

    async def acall(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await answering.ainvoke(state["messages"])]}

    policy = RetryPolicy(max_attempts=setup.attempts, initial_interval=0.0, retry_on=ProviderError)
    graph: Any = StateGraph(MessagesState)
    graph.add_node("model", RunnableLambda(call, acall), retry_policy=policy)
    graph.add_edge(START, "model")
    if setup.tools:
        # Errors of a tool are raised, as in a node of one's own; ToolNode can also answer them.
        graph.add_node("tools", ToolNode(setup.tools, handle_tool_errors=False))
        graph.add_conditional_edges("model", tools_condition)
        graph.add_edge("tools", "model")
    return graph.compile(checkpointer=system.saver)


class _GraphChat:
    def __init__(self, system: Checkpointer, setup: Setup) -> None:
        self._graph = _graph(system, setup)

    @staticmethod
    def _config(thread: str) -> RunnableConfig:
        return {"configurable": {"thread_id": thread}}

    def _called(self, thread: str, said: HumanMessage, **more: Any) -> dict[str, Any]:
        call = {"input": {"messages": [said]}, "config": self._config(thread)}
        return {**call, "durability": "sync", **more}

    def ask(self, thread: str, said: HumanMessage) -> None:
        self._graph.invoke(**self._called(thread, said))

    def stream(self, thread: str, said: HumanMessage) -> Iterator[str]:
        pairs = self._graph.stream(**self._called(thread, said, stream_mode="messages"))
        for chunk, _ in pairs:
            if isinstance(chunk, AIMessageChunk):
                yield str(chunk.text)

    def batch(self, asked: Sequence[tuple[str, HumanMessage]]) -> None:
        configs = [self._config(thread) for thread, _ in asked]
        inputs = [{"messages": [said]} for _, said in asked]
        self._graph.batch(inputs, configs, durability="sync")

    async def aask(self, thread: str, said: HumanMessage) -> None:
        await self._graph.ainvoke(**self._called(thread, said))

    async def astream(self, thread: str, said: HumanMessage) -> AsyncIterator[str]:
        pairs = self._graph.astream(**self._called(thread, said, stream_mode="messages"))
        async with aclosing(pairs):
            async for chunk, _ in pairs:
                if isinstance(chunk, AIMessageChunk):
                    yield str(chunk.text)

    def resume(self, thread: str, value: str) -> None:
        from langgraph.types import Command

        self._graph.invoke(Command(resume=value), self._config(thread), durability="sync")

    def edit(self, thread: str, said: HumanMessage) -> None:
        edit_by_time_travel(self._graph, self._config(thread), said, durability="sync")
