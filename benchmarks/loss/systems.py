"""Memories over files in a folder: ours, and what people use instead, as its documentation tells.

A chat takes turns of threads; what a call returns or yields has been shown to the user.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from langchain_core.messages import (
    AIMessageChunk,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.tools import BaseTool
from pydantic import BaseModel

from benchmarks.loss.models import ProviderError, ScriptedModel
from benchmarks.sql_history import HistoryFile, SQLHistory, at_session, question, with_history
from langchain_convmem import Conversation, ConversationMemory, Preface, SQLiteLog
from langchain_convmem.errors import LogUnavailableError


class UnsupportedError(Exception):
    """The system has no such thing; the message says why."""


class StorageError(OSError):
    """What a storage raises that is gone."""


@dataclass(frozen=True)
class Setup:
    """What a chat is made of.

    Attributes:
        model: Who answers.
        tools: What the model may call.
        by_caller: Whether the application runs the tools, and sends the results itself.
        sends_all: Whether the application sends the whole chat with every call.
        schema: A class of which the model makes an object, instead of a text.
        fallback: Who answers where the model fails.
        attempts: How often the model is asked where it fails.
    """

    model: ScriptedModel
    tools: Sequence[BaseTool] = ()
    by_caller: bool = False
    sends_all: bool = False
    schema: type[BaseModel] | None = None
    fallback: ScriptedModel | None = None
    attempts: int = 1

    @property
    def runs_tools(self) -> bool:
        return bool(self.tools) and not self.by_caller

    def make_model(self) -> Runnable[Any, Any]:
        """Return the model with all that LangChain can put around it."""
        if self.schema is not None:
            return self.model.with_structured_output(self.schema)
        bound = self.model.bind_tools(self.tools) if self.tools else self.model
        if self.attempts > 1:
            bound = bound.with_retry(
                stop_after_attempt=self.attempts, wait_exponential_jitter=False
            )
        return bound if self.fallback is None else bound.with_fallbacks([self.fallback])

    def make_loop(self) -> Callable[[Sequence[BaseMessage]], list[BaseMessage]]:
        """Return the loop that a chain without a graph runs: call, result, until it answers.

        It returns the new messages only, which every history stores as they are.
        """
        model, tools = self.make_model(), {tool.name: tool for tool in self.tools}

        def run(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
            new: list[BaseMessage] = []
            while True:
                reply = model.invoke([*messages, *new])
                new.append(reply)
                if not reply.tool_calls:
                    return new
                for call in reply.tool_calls:
                    result = tools[call["name"]].invoke(call["args"])
                    new.append(ToolMessage(str(result), tool_call_id=str(call["id"])))

        return run


# -- chats -----------------------------------------------------------------------------------


class RunnableChat:
    """A chat that is one Runnable."""

    streaming: ClassVar[dict[str, Any]] = {}
    """What it is given beside where it streams."""

    def __init__(
        self, chain: Runnable[Any, Any], text_of: type[BaseModel] | None = None, **options: Any
    ) -> None:
        """Take the Runnable, whose text its replies are, and what each call of it is given."""
        self.chain: Any = chain
        self.options = options
        self.text_of = text_of

    def config(self, thread: str) -> RunnableConfig:
        return {"configurable": {"thread_id": thread, "user_id": "ana"}}

    def shape(self, messages: Sequence[BaseMessage]) -> Any:
        """Return what the chain is called with."""
        return messages[0] if len(messages) == 1 else list(messages)

    def show(self, output: Any) -> Any:
        """Return what the application gets of what the chain returns or yields."""
        return output

    def ask(self, thread: str, said: HumanMessage) -> None:
        self.send(thread, [said])

    def send(self, thread: str, messages: Sequence[BaseMessage]) -> Any:
        output = self.chain.invoke(self.shape(messages), self.config(thread), **self.options)
        return self.show(output)

    def read(self, streamed: Any) -> Iterator[BaseMessage]:
        """Yield what the user is shown of a piece of a stream."""
        yield streamed

    def stream(self, thread: str, said: HumanMessage) -> Iterator[BaseMessage]:
        value, config = self.shape([said]), self.config(thread)
        for piece in self.chain.stream(value, config, **self.streaming, **self.options):
            yield from self.read(piece)

    def batch(self, asked: Sequence[tuple[str, HumanMessage]]) -> None:
        configs = [self.config(thread) for thread, _ in asked]
        self.chain.batch([self.shape([said]) for _, said in asked], configs, **self.options)

    async def aask(self, thread: str, said: HumanMessage) -> None:
        await self.chain.ainvoke(self.shape([said]), self.config(thread), **self.options)

    async def astream(self, thread: str, said: HumanMessage) -> AsyncIterator[BaseMessage]:
        value, config = self.shape([said]), self.config(thread)
        pieces = self.chain.astream(value, config, **self.streaming, **self.options)
        async with aclosing(pieces):
            async for piece in pieces:
                for chunk in self.read(piece):
                    yield chunk


class StateChat(RunnableChat):
    """A chat that is a graph or an agent: its state keeps the messages."""

    streaming: ClassVar[dict[str, Any]] = {"stream_mode": "messages"}

    def shape(self, messages: Sequence[BaseMessage]) -> Any:
        return {"messages": list(messages)}

    def show(self, output: Any) -> Any:
        reply = output.get("structured_response") or output["messages"][-1]
        # A state of messages holds an object as text.
        return reply if self.text_of is None else self.text_of.model_validate_json(reply.text)

    def read(self, streamed: Any) -> Iterator[BaseMessage]:
        chunk, _ = streamed
        if isinstance(chunk, AIMessageChunk):
            yield chunk

    def resume(self, thread: str, value: str) -> None:
        from langgraph.types import Command

        self.chain.invoke(Command(resume=value), self.config(thread), **self.options)

    def edit(self, thread: str, said: HumanMessage) -> None:
        """Go back to where a message was said last, and go on from there with another.

        This is how LangGraph's documentation on time travel changes the past.
        """
        config = self.config(thread)
        *_, then = (  # the oldest one, from which nothing has been done yet
            one
            for one in self.chain.get_state_history(config)
            if one.next and [message.id for message in one.values["messages"]][-1:] == [said.id]
        )
        fork = self.chain.update_state(then.config, {"messages": [said]})
        # The config of a snapshot names nothing but its place; who asks is the caller's to say.
        named = {**config["configurable"], **fork["configurable"]}
        self.chain.invoke(None, {"configurable": named}, **self.options)


class Opened(ABC):
    """Something over files in a folder. A context manager that is open from the beginning."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def open(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    def reopen(self) -> None:
        """Do what a restart does."""
        self.close()
        self.open()


class System(Opened):
    """A memory over files in a folder. A context manager; `reopen` is what a restart does."""

    name: str
    can_pause = False
    """Whether a turn can wait for somebody's decision, also while its process is gone."""
    undoes_failed_turns = False
    """Whether a turn that raises leaves the chat as it was before, its question included."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_broken = False
        """While set, every write fails."""
        self.open()

    @abstractmethod
    def chat(self, setup: Setup) -> Any:
        """Return the application around the memory."""

    def arun(self, job: Callable[[], Awaitable[None]]) -> None:
        """Run an asynchronous job in an event loop of its own."""

        async def run() -> None:
            await job()

        asyncio.run(run())

    def refuse(self, kind: type[Exception] = StorageError) -> None:
        """Raise where the storage is gone."""
        if self.is_broken:
            raise kind("the disk is full")


class CheckpointedSystem(System):
    """A system whose runs a LangGraph checkpointer in a SQLite file keeps."""

    can_pause = True
    saver: Any
    """The checkpointer in use."""

    def close(self) -> None:
        self.saver.conn.close()

    def arun(self, job: Callable[[], Awaitable[None]]) -> None:
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async def run() -> None:
            path = str(self.folder / "checkpoints.db")
            async with AsyncSqliteSaver.from_conn_string(path) as saver:
                self.saver, usual = saver, self.saver
                try:
                    await job()
                finally:
                    self.saver = usual

        super().arun(run)


def open_saver(folder: Path, kind: Any = None) -> Any:
    """Return a checkpointer over the file of a folder, LangGraph's own if no kind is named."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    db = sqlite3.connect(folder / "checkpoints.db", check_same_thread=False)
    return (kind or SqliteSaver)(db)


# -- ours ------------------------------------------------------------------------------------


class _BreakableLog(SQLiteLog):
    system: System

    def append(self, *args: Any, **kwargs: Any) -> Any:
        self.system.refuse(LogUnavailableError)
        return super().append(*args, **kwargs)


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

    def chat(self, setup: Setup) -> Any:
        if not setup.runs_tools:
            return _WrappedChat(self.memory, setup.make_model())
        loop = setup.make_loop()
        return _WrappedChat(self.memory, RunnableLambda(lambda given: loop(given["messages"])))


class _WrappedChat(RunnableChat):
    def __init__(self, memory: ConversationMemory, inner: Runnable[Any, Any]) -> None:
        # Without recall, so that only what the thread itself keeps is judged.
        super().__init__(memory.wrap(inner, recall=False))
        self._memory = memory

    def edit(self, thread: str, said: HumanMessage) -> None:
        self._memory.history(thread, user_id="ana").replace(str(said.id), said)
        self.ask(thread, said)


class MemoryConversation(MemoryChain):
    """`memory.conversation(model)`, which keeps what a user saw of a reply that was left."""

    name = "convmem-talk"
    undoes_failed_turns = True

    def chat(self, setup: Setup) -> Any:
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
        setup = self._setup
        with self._lock:
            if thread not in self._talks:
                self._talks[thread] = self._memory.conversation(
                    replace(setup, tools=(), schema=None).make_model(),  # it binds tools itself
                    thread_id=thread,
                    user_id="ana",
                    recall=False,
                    preface=Preface(tools=tuple(setup.tools)),
                    auto_tools=not setup.by_caller,
                    on_cancel="keep",
                )
            return self._talks[thread]

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
            list(pool.map(lambda one: self.ask(*one), asked))

    async def aask(self, thread: str, said: HumanMessage) -> None:
        await self._talk(thread).asend_message(said)

    async def astream(self, thread: str, said: HumanMessage) -> AsyncIterator[BaseMessage]:
        chunks: Any = self._talk(thread).astream(said)
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    def edit(self, thread: str, said: HumanMessage) -> None:
        talk = self._talk(thread)
        questions = [one.id for one in talk.history if one.type == "human"]
        talk.undo(len(questions) - questions.index(said.id))
        talk.send_message(said)


class _CheckpointedMemory(CheckpointedSystem, MemoryChain):
    """A memory, and a checkpointer that keeps where a run stands."""

    def open(self) -> None:
        MemoryChain.open(self)
        self.saver = open_saver(self.folder)

    def close(self) -> None:
        MemoryChain.close(self)
        CheckpointedSystem.close(self)


class MemoryAgent(_CheckpointedMemory):
    """`create_agent` with our middleware."""

    name = "convmem-agent"

    def chat(self, setup: Setup) -> Any:
        from langchain.agents import create_agent
        from langchain.agents.middleware import ModelFallbackMiddleware, ModelRetryMiddleware
        from langchain.agents.structured_output import ToolStrategy

        from langchain_convmem.integrations import ConversationMemoryMiddleware

        middleware: list[Any] = []
        if setup.attempts > 1:
            retries = setup.attempts - 1
            middleware.append(
                ModelRetryMiddleware(max_retries=retries, initial_delay=0.0, on_failure="error")
            )
        if setup.fallback is not None:
            middleware.append(ModelFallbackMiddleware(setup.fallback))
        agent = create_agent(
            setup.model,
            list(setup.tools),
            middleware=[*middleware, ConversationMemoryMiddleware(self.memory, recall=False)],
            response_format=None if setup.schema is None else ToolStrategy(setup.schema),
            checkpointer=None if setup.sends_all else self.saver,
        )
        return StateChat(agent)


class MemoryGraph(_CheckpointedMemory):
    """`create_memory_graph` over `MessagesState`; with tools, its nodes around a loop."""

    name = "convmem-graph"

    def chat(self, setup: Setup) -> Any:
        from langgraph.graph import END, START, MessagesState, StateGraph
        from langgraph.prebuilt import ToolNode, tools_condition

        from langchain_convmem.integrations import langgraph as ours

        memory, model = self.memory, setup.make_model()
        saver = None if setup.sends_all else self.saver
        if not setup.runs_tools:
            graph = ours.create_memory_graph(
                memory, model, state_schema=MessagesState, recall=False, checkpointer=saver
            )
            return StateChat(graph, text_of=setup.schema)
        builder: Any = StateGraph(MessagesState)
        builder.add_node("recall", ours.recall_node(memory, recall=False))
        builder.add_node("model", ours.model_node(memory, model, recall=False))
        builder.add_node("tools", ToolNode(setup.tools, handle_tool_errors=False))
        builder.add_node("record", ours.record_node(memory))
        for one, other in ((START, "recall"), ("recall", "model"), ("tools", "model")):
            builder.add_edge(one, other)
        builder.add_conditional_edges("model", tools_condition, {"tools": "tools", END: "record"})
        builder.add_edge("record", END)
        return StateChat(builder.compile(checkpointer=saver), text_of=setup.schema)


# -- what people use instead -----------------------------------------------------------------


class MessageHistory(System):
    """`RunnableWithMessageHistory` over a SQL history."""

    name = "message-history"

    def open(self) -> None:
        self.file = HistoryFile(self.folder / "history.db")

    def close(self) -> None:
        self.file.close()

    def history(self, session_id: str) -> SQLHistory:
        return _BreakableHistory(self, session_id)

    def chat(self, setup: Setup) -> Any:
        model: Any = setup.make_model()
        if setup.runs_tools:
            loop = setup.make_loop()
            model = RunnableLambda(lambda prompt: loop(prompt.to_messages()))
        return _HistoryChat(self, with_history(model, self.history))


class _BreakableHistory(SQLHistory):
    def __init__(self, system: MessageHistory, session_id: str) -> None:
        super().__init__(system.file, session_id)
        self._system = system

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        self._system.refuse()
        super().add_messages(messages)


class _HistoryChat(RunnableChat):
    def __init__(self, system: MessageHistory, chain: Runnable[Any, Any]) -> None:
        super().__init__(chain)
        self._system = system

    def config(self, thread: str) -> RunnableConfig:
        return at_session(thread)

    def shape(self, messages: Sequence[BaseMessage]) -> Any:
        return question(*messages)

    def edit(self, thread: str, said: HumanMessage) -> None:
        # A history can only be cleared and written anew; what was edited away is gone for good.
        history = self._system.history(thread)
        messages = history.messages
        at = [message.id for message in messages].index(said.id)
        history.clear()
        history.add_messages(messages[:at])
        self.ask(thread, said)


class Checkpointer(CheckpointedSystem):
    """A LangGraph graph over `MessagesState` with the SQLite checkpointer."""

    name = "checkpointer"

    def open(self) -> None:
        from langgraph.checkpoint.sqlite import SqliteSaver

        refuse = self.refuse

        class BreakableSaver(SqliteSaver):
            def put(self, *args: Any, **kwargs: Any) -> Any:
                refuse()
                return super().put(*args, **kwargs)

            def put_writes(self, *args: Any, **kwargs: Any) -> None:
                refuse()
                super().put_writes(*args, **kwargs)

        self.saver = open_saver(self.folder, BreakableSaver)

    def chat(self, setup: Setup) -> Any:
        """Return the graph of LangGraph's own tutorials: a model, and tools while it calls any."""
        from langgraph.graph import START, MessagesState, StateGraph
        from langgraph.prebuilt import ToolNode, tools_condition

        class State(MessagesState):
            """The messages, what the model reads of them, and an object that it made."""

            summarized_messages: list[AnyMessage]
            context: dict[str, Any]
            structured_response: Any

        builder: Any = StateGraph(State)
        first = self.add_model(builder, setup)
        builder.add_edge(START, first)
        if setup.runs_tools:
            # Errors of a tool are raised, as in a node of one's own; ToolNode can answer them.
            builder.add_node("tools", ToolNode(setup.tools, handle_tool_errors=False))
            builder.add_conditional_edges("model", tools_condition)
            builder.add_edge("tools", first)
        return StateChat(builder.compile(checkpointer=self.saver), durability="sync")

    def add_model(self, builder: Any, setup: Setup, key: str = "messages") -> str:
        """Add what calls the model with a part of the state; return where to begin."""
        from langgraph.types import RetryPolicy

        model = replace(setup, attempts=1).make_model()

        def note(reply: Any) -> dict[str, Any]:
            # An object goes to a key of its own, as `create_agent` puts it.
            name = "messages" if isinstance(reply, BaseMessage) else "structured_response"
            return {name: reply}

        def call(state: dict[str, Any]) -> dict[str, Any]:
            return note(model.invoke(state[key]))

        async def acall(state: dict[str, Any]) -> dict[str, Any]:
            return note(await model.ainvoke(state[key]))

        policy = RetryPolicy(
            max_attempts=setup.attempts, initial_interval=0.0, retry_on=ProviderError
        )
        builder.add_node("model", RunnableLambda(call, acall), retry_policy=policy)
        return "model"


class LangMem(Checkpointer):
    """The same graph, with langmem's `SummarizationNode` before the model, as in its guide.

    Nothing here is long enough to be summarised.
    """

    name = "langmem"

    def add_model(self, builder: Any, setup: Setup, key: str = "summarized_messages") -> str:
        from langmem.short_term import SummarizationNode

        node = SummarizationNode(model=ScriptedModel(), max_tokens=100_000, max_summary_tokens=128)
        builder.add_node("summarize", node)
        builder.add_edge("summarize", super().add_model(builder, setup, key))
        return "summarize"


OURS: list[type[System]] = [MemoryChain, MemoryConversation, MemoryGraph, MemoryAgent]
_PEERS: list[type[System]] = [MessageHistory, Checkpointer, LangMem]
SYSTEMS = {kind.name: kind for kind in [*OURS, *_PEERS]}
