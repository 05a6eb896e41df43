"""Agents, tools and views for tests of the agent middleware."""

from __future__ import annotations

import asyncio

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from scripted_chat import ProviderError

from langchain_convmem.integrations import ConversationMemoryMiddleware


@tool
def look(place: str) -> str:
    """Look at a place."""
    return f"{place}: a bicycle"


@tool
def break_down(place: str) -> str:
    """Break down."""
    raise ProviderError(f"{place} is closed")


def calls(*places, tool_name="look", first=0, text=""):
    """Return a reply that calls a tool once for each place; ids are counted from `first`."""
    return AIMessage(
        text,
        tool_calls=[
            {"name": tool_name, "args": {"place": place}, "id": f"c{number}", "type": "tool_call"}
            for number, place in enumerate(places, first)
        ],
    )


def agent_with(
    memory, model, *, tools=(look, break_down), before=(), after=(), options=None, **more
):
    """Return an agent with the memory and other middleware around it; recall is off by default."""
    own = ConversationMemoryMiddleware(memory, **{"recall": False, **(options or {})})
    return create_agent(model, list(tools), middleware=[*before, own, *after], **more)


def says(text, message_id=None):
    """Return the input of a run in which the user says something."""
    return {"messages": [HumanMessage(text, id=message_id)]}


async def _astream(agent, value, config):
    return [part async for part in agent.astream(value, config, stream_mode="messages")]


RUNS = {
    "invoke": lambda agent, value, config: agent.invoke(value, config),
    "ainvoke": lambda agent, value, config: asyncio.run(agent.ainvoke(value, config)),
    "stream": lambda agent, value, config: list(
        agent.stream(value, config, stream_mode="messages")
    ),
    "astream": lambda agent, value, config: asyncio.run(_astream(agent, value, config)),
}
"""Every way to run one turn of an agent."""


def shape(messages):
    """Return messages as short texts: `ai: text`, `ai -> c0 c1`, `tool c0: text`."""
    return [_line(message) for message in messages]


def _line(message):
    made = [call["id"] for call in getattr(message, "tool_calls", ())]
    if made:
        return f"ai -> {' '.join(map(str, made))}"
    answered = getattr(message, "tool_call_id", None)
    name = message.type if answered is None else f"tool {answered}"
    return f"{name}: {message.text}"


def view(memory, thread_id="t", user_id="ana"):
    """Return what a model would get of the thread."""
    return shape(memory.history(thread_id, user_id=user_id).messages)


def entries(memory, thread_id="t", user_id="ana"):
    """Return all that the thread's log holds."""
    return memory.history(thread_id, user_id=user_id).entries


def spoken(memory, thread_id="t"):
    """Return the messages of the log, retracted ones as well, in the order they were stored."""
    return shape([entry.message for entry in entries(memory, thread_id) if entry.message])
