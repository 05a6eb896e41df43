"""What a scenario needs of a system: a chat over a file, and ways to disturb it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from pydantic import BaseModel

from benchmarks.loss.models import ScriptedModel

__all__ = [
    "Chat",
    "CheckpointedSystem",
    "Opened",
    "RunnableChat",
    "Setup",
    "StateChat",
    "StorageError",
    "System",
    "UnsupportedError",
    "edit_by_time_travel",
    "tool_loop",
]

T = TypeVar("T")


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

    def answering(self) -> Runnable[Any, Any]:
        """Return the model with all that LangChain can put around it."""
        if self.schema is not None:
            return self.model.with_structured_output(self.schema)
        bound = self.model.bind_tools(self.tools) if self.tools else self.model
        if self.attempts > 1:
            bound = bound.with_retry(
                stop_after_attempt=self.attempts, wait_exponential_jitter=False
            )
        return bound if self.fallback is None else bound.with_fallbacks([self.fallback])


class Chat(Protocol):
    """Turns of threads. What a call returns or yields has been shown to the user."""

    def ask(self, thread: str, said: HumanMessage) -> None:
        """Take a whole turn."""

    def send(self, thread: str, messages: Sequence[BaseMessage]) -> Any:
        """Call the chat with messages, and return the model's message, or the object it made."""

    def stream(self, thread: str, said: HumanMessage) -> Iterator[BaseMessage]:
        """Take a turn and yield the pieces of the answer."""

    def batch(self, asked: Sequence[tuple[str, HumanMessage]]) -> None:
        """Take several turns at once."""

    async def aask(self, thread: str, said: HumanMessage) -> None:
        """Take a whole turn."""

    def astream(self, thread: str, said: HumanMessage) -> AsyncIterator[BaseMessage]:
        """Take a turn and yield the pieces of the answer."""

    def resume(self, thread: str, value: str) -> None:
        """Go on with a turn that waits for `value`."""

    def edit(self, thread: str, said: HumanMessage) -> None:
        """Put what the user says now in the place of the message with its id, and answer it."""


class RunnableChat:
    """A chat that is one Runnable."""

    def __init__(self, chain: Runnable[Any, Any], **options: Any) -> None:
        """Take the Runnable, and what every call of it is given beside the config."""
        self.chain = chain
        self.options = options

    def config(self, thread: str) -> RunnableConfig:
        return {"configurable": {"thread_id": thread, "user_id": "ana"}}

    def shaped(self, messages: Sequence[BaseMessage]) -> Any:
        """Return what the chain is called with."""
        return messages[0] if len(messages) == 1 else list(messages)

    def shown(self, output: Any) -> Any:
        """Return what the application gets of what the chain returns."""
        return output

    def ask(self, thread: str, said: HumanMessage) -> None:
        self.send(thread, [said])

    def send(self, thread: str, messages: Sequence[BaseMessage]) -> Any:
        output = self.chain.invoke(self.shaped(messages), self.config(thread), **self.options)
        return self.shown(output)

    def stream(self, thread: str, said: HumanMessage) -> Iterator[BaseMessage]:
        yield from self.chain.stream(self.shaped([said]), self.config(thread), **self.options)

    def batch(self, asked: Sequence[tuple[str, HumanMessage]]) -> None:
        configs = [self.config(thread) for thread, _ in asked]
        self.chain.batch([self.shaped([said]) for _, said in asked], configs, **self.options)

    async def aask(self, thread: str, said: HumanMessage) -> None:
        await self.chain.ainvoke(self.shaped([said]), self.config(thread), **self.options)

    async def astream(self, thread: str, said: HumanMessage) -> AsyncIterator[BaseMessage]:
        value, config = self.shaped([said]), self.config(thread)
        chunks: Any = self.chain.astream(value, config, **self.options)
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    def resume(self, thread: str, value: str) -> None:
        raise UnsupportedError(f"a chain cannot pause {thread!r} to wait for {value!r}")


class StateChat(RunnableChat):
    """A chat that is a graph or an agent: its state keeps the messages."""

    def shaped(self, messages: Sequence[BaseMessage]) -> Any:
        return {"messages": list(messages)}

    def shown(self, output: Any) -> Any:
        return output.get("structured_response") or output["messages"][-1]

    def stream(self, thread: str, said: HumanMessage) -> Iterator[BaseMessage]:
        stream: Any = self.chain.stream
        more = {"stream_mode": "messages", **self.options}
        for chunk, _ in stream(self.shaped([said]), self.config(thread), **more):
            if isinstance(chunk, AIMessageChunk):
                yield chunk

    async def astream(self, thread: str, said: HumanMessage) -> AsyncIterator[BaseMessage]:
        stream: Any = self.chain.astream
        more = {"stream_mode": "messages", **self.options}
        pairs = stream(self.shaped([said]), self.config(thread), **more)
        async with aclosing(pairs):
            async for chunk, _ in pairs:
                if isinstance(chunk, AIMessageChunk):
                    yield chunk

    def resume(self, thread: str, value: str) -> None:
        from langgraph.types import Command

        self.chain.invoke(Command(resume=value), self.config(thread), **self.options)

    def edit(self, thread: str, said: HumanMessage) -> None:
        edit_by_time_travel(self.chain, self.config(thread), said, **self.options)


class Opened(ABC):
    """Something over files in a folder. A context manager that is open from the beginning."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def open(self) -> None:
        """Open the files."""

    @abstractmethod
    def close(self) -> None:
        """Close the files."""

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
    def chat(self, setup: Setup) -> Chat:
        """Return the application around the memory."""

    def arun(self, job: Callable[[], Awaitable[T]]) -> T:
        """Run an asynchronous job in an event loop of its own."""

        async def whole() -> T:
            return await job()

        return asyncio.run(whole())


class CheckpointedSystem(System):
    """A system whose runs a LangGraph checkpointer in a SQLite file keeps."""

    can_pause = True
    saver: Any
    """The checkpointer in use."""

    @property
    def checkpoints(self) -> Path:
        """The checkpointer's file."""
        return self.folder / "checkpoints.db"

    def arun(self, job: Callable[[], Awaitable[T]]) -> T:
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async def with_saver() -> T:
            async with AsyncSqliteSaver.from_conn_string(str(self.checkpoints)) as saver:
                self.saver, usual = saver, self.saver
                try:
                    return await job()
                finally:
                    self.saver = usual

        return super().arun(with_saver)


def tool_loop(setup: Setup) -> Callable[[Sequence[BaseMessage]], list[BaseMessage]]:
    """Return the loop that a chain without a graph runs: call, result, call, until it answers.

    It returns the new messages only, which every history stores as they are.
    """
    model = setup.answering()
    tools = {tool.name: tool for tool in setup.tools}

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


def edit_by_time_travel(
    graph: Any, config: RunnableConfig, said: HumanMessage, **options: Any
) -> None:
    """Go back to where a message was said last, put another in its place, and go on from there.

    This is how LangGraph's documentation on time travel changes the past.
    """
    *_, then = (  # the oldest one, from which nothing has been done yet
        snapshot
        for snapshot in graph.get_state_history(config)
        if snapshot.next and [one.id for one in snapshot.values["messages"]][-1:] == [said.id]
    )
    fork = graph.update_state(then.config, {"messages": [said]})
    # The config of a snapshot names nothing but its place; who is asking is the caller's to say.
    named = {**config["configurable"], **fork["configurable"]}
    graph.invoke(None, {"configurable": named}, **options)
