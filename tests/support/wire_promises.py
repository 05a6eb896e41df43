"""Ways to call a chain before a service, a tool to call, and what was stored of it."""

from __future__ import annotations

import asyncio

from langchain_core.tools import tool
from pydantic import BaseModel

from langchain_convmem.testing import ScriptedToolCall


def _summed(chunks):
    total = chunks[0]
    for chunk in chunks[1:]:
        total = total + chunk
    return total


async def _stream(chain, value, config):
    return _summed(await asyncio.to_thread(lambda: list(chain.stream(value, config))))


async def _astream(chain, value, config):
    return _summed([chunk async for chunk in chain.astream(value, config)])


ONCE = {
    "invoke": lambda chain, value, config: asyncio.to_thread(chain.invoke, value, config),
    "ainvoke": lambda chain, value, config: chain.ainvoke(value, config),
}
STREAMED = {"stream": _stream, "astream": _astream}
WAYS = {**ONCE, **STREAMED}


@tool
def look(place: str) -> str:
    """Look at a place and say what is there."""
    return f"the car, {place}"


class Spot(BaseModel):
    """Where something is."""

    place: str


CALL = ScriptedToolCall("look", {"place": "on level 3, behind the pillar"}, "call_7")


def stored(memory, thread_id="t"):
    """Return the messages of a thread as they lie in the log."""
    entries = memory.history(thread_id, user_id="ana").entries
    return [entry.message for entry in entries if entry.message is not None]


def texts(messages):
    """Return who said what."""
    return [f"{message.type}: {message.text}" for message in messages]


def last_attributes(memory):
    """Return the attributes of what was stored last."""
    return tuple(memory.history("t", user_id="ana").entries[-1].metadata.attributes)
