"""Models that play a script: what they answer follows from what was asked, and hooks interfere."""
# ruff: noqa: ARG002 - LangChain names what its models are called with

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import BaseModel, Field

from benchmarks.scripted_model import InstantModel

GRACE_S = 0.4
"""How long a model waits for what may never come, because the system makes turns queue."""


class ProviderError(Exception):
    """What a provider's client raises when the provider fails."""


class Advice(BaseModel):
    """What the user is told."""

    text: str


def _find_asked(messages: Sequence[BaseMessage]) -> str:
    """Return the number of the question that was asked last."""
    found = [re.findall(r"Q(\d)", str(message.text)) for message in messages]
    return str(next(numbers[-1] for numbers in reversed(found) if numbers))


def answer(messages: Sequence[BaseMessage]) -> AIMessage:
    """Return `A1, as far as I know.` to `Q1 ...`."""
    return AIMessage(f"A{_find_asked(messages)}, as far as I know.")


def _make_call(name: str, messages: Sequence[BaseMessage], **args: str) -> AIMessage:
    call = {"name": name, "args": args, "id": f"call{_find_asked(messages)}", "type": "tool_call"}
    return AIMessage("", tool_calls=[call])


def call_tool(messages: Sequence[BaseMessage]) -> AIMessage:
    """Call the tool `look` once, then answer."""
    return answer(messages) if messages[-1].type == "tool" else _make_call("look", messages)


def state(messages: Sequence[BaseMessage]) -> AIMessage:
    """Answer by the call that an object of the class `Advice` is made from."""
    return _make_call("Advice", messages, text=str(answer(messages).text))


class ScriptedModel(InstantModel):
    """Answers by a function, word by word where it streams, and keeps what it was called with."""

    reply: Callable[[Sequence[BaseMessage]], AIMessage] = answer
    during: Callable[[], object] = lambda: None
    """Called in every synchronous call before it is answered."""
    aduring: Callable[[], Awaitable[None]] = partial(asyncio.sleep, 0)
    """Awaited in every asynchronous call before it is answered."""
    lingers_after: int | None = None
    """Streams pause after so many words, so that the reader can leave."""
    breaks_after: int | None = None
    """Streams raise `ProviderError` after so many words or calls."""
    has_end: bool = True
    """Whether streams end as OpenAI's do, and not as one that a proxy in between gave up."""
    seen: list[list[BaseMessage]] = Field(default_factory=list)

    def answer(self, messages: Sequence[BaseMessage]) -> AIMessage:
        return self.reply(messages)

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.seen.append(messages)
        self.during()
        return self._whole(messages, **kwargs)

    async def _agenerate(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> ChatResult:
        self.seen.append(messages)
        await self.aduring()
        return self._whole(messages, **kwargs)

    def _whole(self, messages: list[BaseMessage], **kwargs: Any) -> ChatResult:
        reply = _in_form(self.reply(messages), **kwargs)
        return ChatResult(generations=[ChatGeneration(message=reply)])

    def _stream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        self.seen.append(messages)
        self.during()
        for number, chunk in enumerate(self._chunks(self.reply(messages), **kwargs)):
            self._break_at(number)
            if number == self.lingers_after:
                threading.Event().wait(GRACE_S)
            yield chunk

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        self.seen.append(messages)
        await self.aduring()
        for number, chunk in enumerate(self._chunks(self.reply(messages), **kwargs)):
            self._break_at(number)
            if number == self.lingers_after:
                await asyncio.sleep(GRACE_S)
            yield chunk

    def _break_at(self, number: int) -> None:
        if number == self.breaks_after:
            raise ProviderError("the connection broke")

    def _chunks(self, reply: AIMessage, **kwargs: Any) -> list[ChatGenerationChunk]:
        """Return a reply as a provider streams it: words, its calls, and the mark of its end."""
        reply = _in_form(reply, **kwargs)
        words = [AIMessageChunk(content=word) for word in re.findall(r"\S+\s*", str(reply.text))]
        calls = [AIMessageChunk(content="", tool_calls=[call]) for call in reply.tool_calls]
        told = {"model_provider": "openai", **({"finish_reason": "stop"} if self.has_end else {})}
        end = AIMessageChunk(content="", response_metadata=told, chunk_position="last")
        return [ChatGenerationChunk(message=chunk) for chunk in (*words, *calls, end)]


def _in_form(message: AIMessage, **kwargs: Any) -> AIMessage:
    """Return a reply in the form that was asked for: an object may be wanted as text."""
    if "response_format" not in kwargs or not message.tool_calls:
        return message
    return AIMessage(json.dumps(message.tool_calls[0]["args"]))


class Together:
    """Makes two turns overlap: each waits for the other to be asked as well, or a moment.

    Where turns of a thread queue, the other is not asked before this one is answered; so what comes
    out does not depend on time in either case.
    """

    def __init__(self) -> None:
        self._coming = threading.Semaphore(1)
        self._all_came = threading.Event()

    def wait(self) -> None:
        if not self._coming.acquire(blocking=False):
            self._all_came.set()
        self._all_came.wait(GRACE_S)
