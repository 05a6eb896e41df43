"""Our memory, around a chain and around an agent."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any

from langchain_core.messages import AIMessageChunk, HumanMessage
from langchain_core.runnables import Runnable, RunnableLambda

from benchmarks.loss.systems import (
    Chat,
    CheckpointedSystem,
    RunnableChat,
    Setup,
    System,
    edit_by_time_travel,
    tool_loop,
)
from langchain_convmem import ConversationMemory, SQLiteLog
from langchain_convmem.errors import LogUnavailableError

__all__ = ["MemoryAgent", "MemoryChain"]


class _BreakableLog(SQLiteLog):
    """A log whose storage is gone while the system is broken."""

    system: System

    def append(self, *args: Any, **kwargs: Any) -> Any:
        _refuse(self.system)
        return super().append(*args, **kwargs)

    async def aappend(self, *args: Any, **kwargs: Any) -> Any:
        _refuse(self.system)
        return await super().aappend(*args, **kwargs)


def _refuse(system: System) -> None:
    if system.is_broken:
        raise LogUnavailableError("the disk is full")


class MemoryChain(System):
    """`memory.wrap(model)`."""

    name = "convmem"

    def open(self) -> None:
        self.log = _BreakableLog(self.folder / "memory.db")
        self.log.system = self
        self.memory = ConversationMemory(self.log)

    def close(self) -> None:
        self.memory.close()
        self.log.close()

    def chat(self, setup: Setup) -> Chat:
        if not setup.tools:
            return _WrappedChat(self.memory, setup.answering())
        loop = tool_loop(setup)
        return _WrappedChat(self.memory, RunnableLambda(lambda given: loop(given["messages"])))


class _WrappedChat(RunnableChat):
    def __init__(self, memory: ConversationMemory, inner: Runnable[Any, Any]) -> None:
        # Without recall, so that only what the thread itself keeps is judged.
        super().__init__(memory.wrap(inner, recall=False))
        self._memory = memory

    def edit(self, thread: str, said: HumanMessage) -> None:
        self._memory.history(thread, user_id="ana").replace(str(said.id), said)
        self.ask(thread, said)


# -- an agent --------------------------------------------------------------------------------


class MemoryAgent(CheckpointedSystem, MemoryChain):
    """`create_agent` with our middleware; a checkpointer keeps where the agent stands."""

    name = "convmem-agent"

    def open(self) -> None:
        from langgraph.checkpoint.sqlite import SqliteSaver

        super().open()
        self._db = sqlite3.connect(self.checkpoints, check_same_thread=False)
        self.saver = SqliteSaver(self._db)

    def close(self) -> None:
        super().close()
        self._db.close()

    def chat(self, setup: Setup) -> Chat:
        return _AgentChat(self, setup)


class _AgentChat(RunnableChat):
    def __init__(self, system: MemoryAgent, setup: Setup) -> None:
        super().__init__(_agent(system, setup))

    def shaped(self, said: HumanMessage) -> Any:
        return {"messages": [said]}

    def stream(self, thread: str, said: HumanMessage) -> Iterator[str]:
        stream: Any = self.chain.stream
        for chunk, _ in stream(self.shaped(said), self.config(thread), stream_mode="messages"):
            if isinstance(chunk, AIMessageChunk):
                yield str(chunk.text)

    async def astream(self, thread: str, said: HumanMessage) -> AsyncIterator[str]:
        stream: Any = self.chain.astream
        pairs = stream(self.shaped(said), self.config(thread), stream_mode="messages")
        async with aclosing(pairs):
            async for chunk, _ in pairs:
                if isinstance(chunk, AIMessageChunk):
                    yield str(chunk.text)

    def resume(self, thread: str, value: str) -> None:
        from langgraph.types import Command

        self.chain.invoke(Command(resume=value), self.config(thread))

    def edit(self, thread: str, said: HumanMessage) -> None:
        edit_by_time_travel(self.chain, self.config(thread), said)


def _agent(system: MemoryAgent, setup: Setup) -> Runnable[Any, Any]:
    from langchain.agents import create_agent
    from langchain.agents.middleware import ModelFallbackMiddleware, ModelRetryMiddleware

    from langchain_convmem.integrations import ConversationMemoryMiddleware

    middleware: list[Any] = []
    if setup.attempts > 1:
        middleware.append(
            ModelRetryMiddleware(
                max_retries=setup.attempts - 1, initial_delay=0.0, on_failure="error"
            )
        )
    if setup.fallback is not None:
        middleware.append(ModelFallbackMiddleware(setup.fallback))
    middleware.append(ConversationMemoryMiddleware(system.memory, recall=False))
    return create_agent(
        setup.model, list(setup.tools), middleware=middleware, checkpointer=system.saver
    )
