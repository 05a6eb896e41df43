"""Ways to call a chain before a service, a tool to call, and what was stored of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ToolMessage,
)
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import (
    Runnable,
    RunnableConfig,
    RunnableLambda,
)
from langchain_core.tools import tool
from pydantic import BaseModel

from langchain_convmem import ConversationMemory
from langchain_convmem.testing import ScriptedToolCall


def _summed(chunks: list[BaseMessage]) -> BaseMessage:
    total = chunks[0]
    for chunk in chunks[1:]:
        total = total + chunk  # type: ignore[assignment, operator]  # chunks add up
    return total


async def _invoke(chain: Runnable[Any, Any], value: Any, config: RunnableConfig) -> Any:
    return await asyncio.to_thread(chain.invoke, value, config)


async def _ainvoke(chain: Runnable[Any, Any], value: Any, config: RunnableConfig) -> Any:
    return await chain.ainvoke(value, config)


async def _stream(chain: Runnable[Any, Any], value: Any, config: RunnableConfig) -> Any:
    return _summed(await asyncio.to_thread(lambda: list(chain.stream(value, config))))


async def _astream(chain: Runnable[Any, Any], value: Any, config: RunnableConfig) -> Any:
    return _summed([chunk async for chunk in chain.astream(value, config)])


Way = Callable[[Runnable[Any, Any], Any, RunnableConfig], Awaitable[Any]]
ONCE: dict[str, Way] = {"invoke": _invoke, "ainvoke": _ainvoke}
STREAMED: dict[str, Way] = {"stream": _stream, "astream": _astream}
WAYS = {**ONCE, **STREAMED}


@tool
def look(place: str) -> str:
    """Look at a place and say what is there."""
    return f"the car, {place}"


class Spot(BaseModel):
    """Where something is."""

    place: str


CALL = ScriptedToolCall("look", {"place": "on level 3, behind the pillar"}, "call_7")


def tool_loop(model: Any) -> Runnable[Any, Any]:
    """Return a chain that calls tools until the model answers in words, and streams its model."""
    bound = model.bind_tools([look])

    def one_round(answer: AIMessage) -> list[BaseMessage]:
        told = [look.invoke(call) for call in answer.tool_calls]
        assert all(isinstance(message, ToolMessage) for message in told)
        return [answer, *told]

    def loop(messages: list[BaseMessage]) -> Iterator[list[BaseMessage]]:
        asked = list(messages)
        while not isinstance(asked[-1], AIMessage):
            new = one_round(bound.invoke(asked))
            asked.extend(new)
            yield new

    async def aloop(messages: list[BaseMessage]) -> AsyncIterator[list[BaseMessage]]:
        asked = list(messages)
        while not isinstance(asked[-1], AIMessage):
            new = one_round(await bound.ainvoke(asked))
            asked.extend(new)
            yield new

    return _takes_messages(loop, aloop)


def _takes_messages(loop: Any, aloop: Any) -> Runnable[Any, Any]:
    prompt = ChatPromptTemplate([MessagesPlaceholder("messages")])
    to_list = prompt | (lambda value: value.to_messages())
    return to_list | RunnableLambda(loop, aloop)


def stored(memory: ConversationMemory, thread_id: str = "t") -> list[BaseMessage]:
    """Return the messages of a thread as they lie in the log."""
    entries = memory.history(thread_id, user_id="ana").entries
    return [entry.message for entry in entries if entry.message is not None]


def texts(messages: list[BaseMessage]) -> list[str]:
    """Return who said what."""
    return [f"{message.type}: {message.text}" for message in messages]


def last_attributes(memory: ConversationMemory) -> tuple[str, ...]:
    """Return the attributes of what was stored last."""
    return tuple(memory.history("t", user_id="ana").entries[-1].metadata.attributes)
