"""Our memory: around a chain, in a conversation, in a graph and around an agent."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableLambda
from pydantic import BaseModel

from benchmarks.loss.systems import (
    Chat,
    CheckpointedSystem,
    RunnableChat,
    Setup,
    StateChat,
    System,
    UnsupportedError,
    tool_loop,
)
from langchain_convmem import Conversation, ConversationMemory, Preface, SQLiteLog
from langchain_convmem.errors import LogUnavailableError

__all__ = ["MemoryAgent", "MemoryChain", "MemoryConversation", "MemoryGraph"]


class _BreakableLog(SQLiteLog):
    """A log whose storage is gone while the system is broken."""

    system: System

    def append(self, *args: Any, **kwargs: Any) -> Any:
        _refuse(self.system)
        return super().append(*args, **kwargs)


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
        if not setup.tools or setup.by_caller:
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


# -- a conversation --------------------------------------------------------------------------


class MemoryConversation(MemoryChain):
    """`memory.conversation(model)`, which keeps what a user saw of a reply that was left."""

    name = "convmem-talk"
    undoes_failed_turns = True

    def chat(self, setup: Setup) -> Chat:
        if setup.sends_all:
            raise UnsupportedError("a conversation holds what was said, and is sent what is new")
        return _Talks(self.memory, setup)


class _Talks:
    """One conversation for each thread."""

    def __init__(self, memory: ConversationMemory, setup: Setup) -> None:
        self._memory = memory
        self._setup = setup
        self._lock = threading.Lock()
        self._talks: dict[str, Conversation] = {}

    def _talk(self, thread: str) -> Conversation:
        with self._lock:
            if thread not in self._talks:
                self._talks[thread] = self._begun(thread)
            return self._talks[thread]

    def _begun(self, thread: str) -> Conversation:
        setup = self._setup
        # It binds the tools itself.
        model = replace(setup, tools=(), schema=None).answering()
        return self._memory.conversation(
            model,
            thread_id=thread,
            user_id="ana",
            recall=False,
            preface=Preface(tools=tuple(setup.tools)),
            auto_tools=not setup.by_caller,
            on_cancel="keep",
            on_pending_tool_calls="cancel",
        )

    def ask(self, thread: str, said: HumanMessage) -> None:
        self.send(thread, [said])

    def send(self, thread: str, messages: Sequence[BaseMessage]) -> Any:
        schema, talk = self._setup.schema, self._talk(thread)
        if schema is None:
            return talk.send_message(list(messages))
        # It returns messages, so the model is asked for text in the form of the object.
        reply = talk.send_message(list(messages), response_format=schema.model_json_schema())
        return schema.model_validate_json(reply.text)

    def stream(self, thread: str, said: HumanMessage) -> Iterator[BaseMessage]:
        yield from self._talk(thread).stream(said)

    def batch(self, asked: Sequence[tuple[str, HumanMessage]]) -> None:
        with ThreadPoolExecutor(len(asked)) as pool:
            for done in [pool.submit(self.ask, *one) for one in asked]:
                done.result()

    async def aask(self, thread: str, said: HumanMessage) -> None:
        await self._talk(thread).asend_message(said)

    async def astream(self, thread: str, said: HumanMessage) -> AsyncIterator[BaseMessage]:
        chunks: Any = self._talk(thread).astream(said)
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    def resume(self, thread: str, value: str) -> None:
        raise UnsupportedError(f"a conversation cannot pause {thread!r} to wait for {value!r}")

    def edit(self, thread: str, said: HumanMessage) -> None:
        talk = self._talk(thread)
        questions = [one.id for one in talk.history if one.type == "human"]
        talk.undo(len(questions) - questions.index(said.id))
        talk.send_message(said)


# -- agents and graphs -----------------------------------------------------------------------


class _CheckpointedMemory(CheckpointedSystem, MemoryChain):
    """A memory, and a checkpointer that keeps where a run stands."""

    def open(self) -> None:
        from langgraph.checkpoint.sqlite import SqliteSaver

        super().open()
        self._db = sqlite3.connect(self.checkpoints, check_same_thread=False)
        self.saver = SqliteSaver(self._db)

    def close(self) -> None:
        super().close()
        self._db.close()


class MemoryAgent(_CheckpointedMemory):
    """`create_agent` with our middleware."""

    name = "convmem-agent"

    def chat(self, setup: Setup) -> Chat:
        return StateChat(_agent(self, setup))


def _agent(system: MemoryAgent, setup: Setup) -> Runnable[Any, Any]:
    from langchain.agents import create_agent
    from langchain.agents.middleware import ModelFallbackMiddleware, ModelRetryMiddleware
    from langchain.agents.structured_output import ToolStrategy

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
        setup.model,
        list(setup.tools),
        middleware=middleware,
        response_format=None if setup.schema is None else ToolStrategy(setup.schema),
        checkpointer=None if setup.sends_all else system.saver,
    )


class MemoryGraph(_CheckpointedMemory):
    """`create_memory_graph` over `MessagesState`; with tools, its nodes around a loop."""

    name = "convmem-graph"

    def chat(self, setup: Setup) -> Chat:
        return _GraphChat(_graph(self, setup), setup.schema)


class _GraphChat(StateChat):
    def __init__(self, graph: Runnable[Any, Any], schema: type[BaseModel] | None) -> None:
        super().__init__(graph)
        self._schema = schema

    def shown(self, output: Any) -> Any:
        reply = super().shown(output)
        # A state of messages holds the object as text.
        return reply if self._schema is None else self._schema.model_validate_json(reply.text)


def _graph(system: MemoryGraph, setup: Setup) -> Runnable[Any, Any]:
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    from langchain_convmem.integrations.langgraph import (
        create_memory_graph,
        model_node,
        recall_node,
        record_node,
    )

    memory, model = system.memory, setup.answering()
    saver = None if setup.sends_all else system.saver
    if not setup.tools or setup.by_caller:
        return create_memory_graph(
            memory, model, state_schema=MessagesState, recall=False, checkpointer=saver
        )
    builder: Any = StateGraph(MessagesState)
    builder.add_node("recall", recall_node(memory, recall=False))
    builder.add_node("model", model_node(memory, model, recall=False))
    builder.add_node("tools", ToolNode(setup.tools, handle_tool_errors=False))
    builder.add_node("record", record_node(memory))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "model")
    builder.add_conditional_edges("model", tools_condition, {"tools": "tools", END: "record"})
    builder.add_edge("tools", "model")
    builder.add_edge("record", END)
    graph: Runnable[Any, Any] = builder.compile(checkpointer=saver)
    return graph
