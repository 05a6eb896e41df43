"""Agents, tools and views for tests of the agent middleware."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from scripted_chat import ProviderError, ScriptedChatModel

from langchain_convmem import ConversationMemory
from langchain_convmem.integrations import ConversationMemoryMiddleware


@tool
def look(place: str) -> str:
    """Look at a place."""
    return f"{place}: a bicycle"


@tool
def break_down(place: str) -> str:
    """Break down."""
    raise ProviderError(f"{place} is closed")


def calls(*places: str, tool_name: str = "look", first: int = 0, text: str = "") -> AIMessage:
    """Return a reply that calls a tool once for each place; ids are counted from `first`."""
    return AIMessage(
        text,
        tool_calls=[
            {"name": tool_name, "args": {"place": place}, "id": f"c{number}", "type": "tool_call"}
            for number, place in enumerate(places, first)
        ],
    )


def agent_with(
    memory: ConversationMemory,
    model: ScriptedChatModel,
    *,
    tools: Sequence[Any] = (look, break_down),
    before: Sequence[Any] = (),
    after: Sequence[Any] = (),
    options: dict[str, Any] | None = None,
    **more: Any,
) -> Any:
    """Return an agent with the memory and other middleware around it; recall is off by default."""
    own = ConversationMemoryMiddleware(memory, **{"recall": False, **(options or {})})
    return create_agent(model, list(tools), middleware=[*before, own, *after], **more)


def says(text: str, message_id: str | None = None) -> dict[str, Any]:
    """Return the input of a run in which the user says something."""
    return {"messages": [HumanMessage(text, id=message_id)]}


async def _astream(agent: Any, value: Any, config: RunnableConfig) -> Any:
    return [part async for part in agent.astream(value, config, stream_mode="messages")]


RUNS: dict[str, Callable[[Any, Any, RunnableConfig], Any]] = {
    "invoke": lambda agent, value, config: agent.invoke(value, config),
    "ainvoke": lambda agent, value, config: asyncio.run(agent.ainvoke(value, config)),
    "stream": lambda agent, value, config: list(
        agent.stream(value, config, stream_mode="messages")
    ),
    "astream": lambda agent, value, config: asyncio.run(_astream(agent, value, config)),
}
"""Every way to run one turn of an agent."""


def shape(messages: Sequence[BaseMessage]) -> list[str]:
    """Return messages as short texts: `ai: text`, `ai -> c0 c1`, `tool c0: text`."""
    return [_line(message) for message in messages]


def _line(message: BaseMessage) -> str:
    made = [call["id"] for call in getattr(message, "tool_calls", ())]
    if made:
        return f"ai -> {' '.join(map(str, made))}"
    answered = getattr(message, "tool_call_id", None)
    name = message.type if answered is None else f"tool {answered}"
    return f"{name}: {message.text}"


def view(
    memory: ConversationMemory, thread_id: str = "t", user_id: str | None = "ana"
) -> list[str]:
    """Return what a model would get of the thread."""
    return shape(memory.history(thread_id, user_id=user_id).messages)


def entries(memory: ConversationMemory, thread_id: str = "t", user_id: str | None = "ana") -> Any:
    """Return all that the thread's log holds."""
    return memory.history(thread_id, user_id=user_id).entries


def spoken(memory: ConversationMemory, thread_id: str = "t") -> list[str]:
    """Return the messages of the log, retracted ones as well, in the order they were stored."""
    return shape([entry.message for entry in entries(memory, thread_id) if entry.message])
