"""Chat models, logs and calls for tests of wrapped chains."""

from __future__ import annotations

import asyncio
import re
import threading
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import ConfigDict, Field

from langchain_convmem.errors import LogUnavailableError
from langchain_convmem.message_log import MessageLog
from langchain_convmem.turns.memory import TurnOptions


class ProviderError(Exception):
    """What a provider's client raises when the provider fails."""


class ScriptedChatModel(BaseChatModel):
    """Gives its replies in order, the last one for ever, and keeps what it was called with.

    A reply is text, an `AIMessage`, an exception to raise, or a function of the messages that
    returns one of these; or, for streams alone, a list of pieces, of which each may be an
    exception. Other streams go word by word.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    replies: list[Any]
    breaks_after: int | None = None
    """Streams raise `ProviderError` after so many chunks."""
    turnstile: Any = None
    """An `asyncio.Event` that asynchronous streams wait for before their second chunk."""
    seen: list[list[BaseMessage]] = Field(default_factory=list)
    lock: Any = Field(default_factory=threading.Lock, exclude=True, repr=False)

    @property
    def _llm_type(self):
        return "scripted"

    @property
    def asked(self):
        """Return the text of the last message of every call."""
        return [str(messages[-1].text) for messages in self.seen]

    def bind_tools(self, tools, **kwargs):
        return self.bind(tools=list(tools), **kwargs)

    def _reply(self, messages):
        with self.lock:
            self.seen.append(messages)
            reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if callable(reply):
            reply = reply(messages)
        if isinstance(reply, BaseException):
            raise reply
        if isinstance(reply, AIMessage | list):
            return reply
        usage = {"input_tokens": len(messages), "output_tokens": 2, "total_tokens": 2}
        usage["total_tokens"] += usage["input_tokens"]
        return AIMessage(reply, usage_metadata=usage)

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        return ChatResult(generations=[ChatGeneration(message=self._reply(messages))])

    def _chunks(self, messages):
        reply = self._reply(messages)
        for piece in reply if isinstance(reply, list) else ():
            if isinstance(piece, BaseException):
                raise piece
            chunk = piece if isinstance(piece, AIMessageChunk) else AIMessageChunk(piece)
            yield ChatGenerationChunk(message=chunk)
        if isinstance(reply, list):
            return
        chunks = list(chunks_of(reply))
        if self.breaks_after is None:
            # The end of a message is part of it, as with real providers.
            chunks[-1] = chunks[-1].model_copy(update={"chunk_position": "last"})
        for chunk in chunks[: self.breaks_after]:
            yield ChatGenerationChunk(message=chunk)
        if self.breaks_after is not None:
            raise ProviderError("the connection broke")

    def _stream(self, messages, stop=None, run_manager=None, **kwargs):
        yield from self._chunks(messages)

    async def _astream(self, messages, stop=None, run_manager=None, **kwargs):
        for number, chunk in enumerate(self._chunks(messages)):
            if number == 1 and self.turnstile is not None:
                await self.turnstile.wait()
            yield chunk
            await asyncio.sleep(0)


def chunks_of(message):
    """Yield a message as a provider streams it: words, then pieces of tool calls, then usage."""
    for word in re.findall(r"\S+\s*", str(message.text)):
        yield AIMessageChunk(content=word, id=message.id)
    for index, call in enumerate(message.tool_calls):
        args = str(call["args"]).replace("'", '"')
        for name, call_id, part in (
            (call["name"], call["id"], args[: len(args) // 2]),
            (None, None, args[len(args) // 2 :]),
        ):
            piece = {"name": name, "args": part, "id": call_id, "index": index}
            yield AIMessageChunk(content="", id=message.id, tool_call_chunks=[piece])
    yield AIMessageChunk(content="", id=message.id, usage_metadata=message.usage_metadata)


def at(thread_id="t", user_id="ana", **values):
    """Return the config of a call in a thread: options of its turn, and what else it carries."""
    names = TurnOptions.__annotations__.keys() & values.keys()
    options = {name: values.pop(name) for name in names}
    memory = {"memory": options} if options else {}
    return {"configurable": {"thread_id": thread_id, "user_id": user_id, **memory, **values}}


def _stream(chain, value, config):
    return list(chain.stream(value, config))


async def _astream(chain, value, config):
    return [chunk async for chunk in chain.astream(value, config)]


WAYS = {
    "invoke": lambda chain, value, config: chain.invoke(value, config),
    "ainvoke": lambda chain, value, config: asyncio.run(chain.ainvoke(value, config)),
    "stream": _stream,
    "astream": lambda chain, value, config: asyncio.run(_astream(chain, value, config)),
    "batch": lambda chain, value, config: chain.batch([value], config),
    "abatch": lambda chain, value, config: asyncio.run(chain.abatch([value], config)),
}
"""Every way to run one turn of a chain."""


@MessageLog.register
class FailingLog:
    """A log whose storage is gone at the n-th append, counted from 1, and at that one only."""

    aappend = MessageLog.aappend
    append_planned = MessageLog.append_planned
    aappend_planned = MessageLog.aappend_planned

    def __init__(self, log, fails_at):
        self._log = log
        self._fails_at = fails_at
        self._appends = 0

    def __getattr__(self, name):
        return getattr(self._log, name)

    def _count(self):
        self._appends += 1
        if self._appends == self._fails_at:
            raise LogUnavailableError("the disk is full")

    def append(self, *args, **kwargs):
        self._count()
        return self._log.append(*args, **kwargs)


def entries(memory, thread_id="t", user_id="ana"):
    """Return all that the log holds of a thread."""
    return memory.history(thread_id, user_id=user_id).entries


def talk(memory):
    """Return all that was ever said in the thread: role, texts, and what marks them."""
    return [
        (one.role, *one.contents, *one.metadata.attributes)
        for one in entries(memory)
        if one.control is None
    ]


def texts(memory, thread_id="t", user_id="ana"):
    """Return the texts of a thread's view."""
    return [str(one.text) for one in memory.history(thread_id, user_id=user_id).messages]
