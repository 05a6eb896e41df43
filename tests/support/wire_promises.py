"""What a wrapped chat model promises over a real wire, whichever provider's.

A provider's tests inherit `WirePromises` and say how its model is built and its requests are read.
The servers are strict: a request out of order is answered with 400, which raises in the chain.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, ClassVar

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    BaseMessageChunk,
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
from scripted_chat import at

from langchain_convmem import ConversationMemory
from langchain_convmem.testing import ScriptedError, ScriptedReply, ScriptedToolCall
from langchain_convmem.testing.scripted_replies import ReplySource
from langchain_convmem.views.tokens import count_text_tokens


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


class WirePromises(ABC):
    """Inherit it in a class whose name begins with `Test`."""

    server_class: ClassVar[Callable[[ReplySource], Any]]
    errors: ClassVar[tuple[type[Exception], ...]]
    """What the provider's client raises when a stream is cut or the service fails."""

    @abstractmethod
    def open_model(self, server: Any, *, tries: int = 1) -> AbstractAsyncContextManager[Any]:
        """Open the provider's chat model; its client sends a request so many times at most."""

    @abstractmethod
    def spoken(self, body: dict[str, Any]) -> list[str]:
        """Return a request as lines: `role: text`, `call id name place`, `result id: text`."""

    @pytest.fixture
    def memory(self) -> Iterator[ConversationMemory]:
        with ConversationMemory.open(":memory:") as opened:
            yield opened

    @asynccontextmanager
    async def _opened(
        self, reply: ReplySource, *, tries: int = 1
    ) -> AsyncIterator[tuple[Any, Callable[[], list[list[str]]]]]:
        """Open a server and a model; yield the model, and a reader of what the server was told."""
        with type(self).server_class(reply) as server:
            async with self.open_model(server, tries=tries) as model:
                yield model, lambda: [self.spoken(request.body) for request in server.requests]

    @pytest.mark.parametrize("way", WAYS)
    async def test_the_second_request_holds_the_whole_conversation(self, memory, way):
        async with self._opened(["On level 3.", "In your coat."]) as (model, requests):
            chain = memory.wrap(model, recall=False)
            first = await WAYS[way](chain, "Where did I park?", at())
            second = await WAYS[way](chain, "And the key?", at())
            assert requests() == [
                ["user: Where did I park?"],
                ["user: Where did I park?", "assistant: On level 3.", "user: And the key?"],
            ]
        assert (first.text, second.text) == ("On level 3.", "In your coat.")
        assert texts(stored(memory)) == [
            "human: Where did I park?",
            "ai: On level 3.",
            "human: And the key?",
            "ai: In your coat.",
        ]

    @pytest.mark.parametrize("way", WAYS)
    async def test_a_reply_is_stored_as_one_whole_message_with_its_usage(self, memory, way):
        async with self._opened("One two three four five six.") as (model, _):
            await WAYS[way](memory.wrap(model, recall=False), "Count!", at())
        [_, reply] = stored(memory)
        assert not isinstance(reply, BaseMessageChunk)
        assert isinstance(reply, AIMessage)
        assert reply.usage_metadata is not None
        assert reply.usage_metadata["input_tokens"] == count_text_tokens("Count!")
        assert reply.usage_metadata["output_tokens"] == count_text_tokens(str(reply.text))
        assert last_attributes(memory) == ()

    @pytest.mark.parametrize("way", WAYS)
    async def test_a_tool_loop_inside_the_chain_is_stored_whole_and_sent_again(self, memory, way):
        script = [ScriptedReply(text="Let me look.", tool_calls=[CALL]), "On level 3.", "No."]
        async with self._opened(script) as (model, requests):
            chain = memory.wrap(tool_loop(model), recall=False)
            await WAYS[way](chain, "Where did I park?", at())
            await WAYS[way](chain, "Is it locked?", at())
            looked = [
                "user: Where did I park?",
                "assistant: Let me look.",
                "call call_7 look on level 3, behind the pillar",
                "result call_7: the car, on level 3, behind the pillar",
            ]
            assert requests() == [
                looked[:1],
                looked,
                [*looked, "assistant: On level 3.", "user: Is it locked?"],
            ]
        assert [message.type for message in stored(memory)] == [
            *("human", "ai", "tool", "ai"),
            *("human", "ai"),
        ]

    @pytest.mark.parametrize("way", STREAMED)
    async def test_a_call_streamed_in_pieces_is_stored_as_one_call(self, memory, way):
        reply = ScriptedReply(text="Let me look.", tool_calls=[CALL])
        async with self._opened(reply) as (model, _):
            chain = memory.wrap(model.bind_tools([look]), recall=False)
            await STREAMED[way](chain, "Where did I park?", at())
        [_, reply] = stored(memory)
        assert reply.text == "Let me look."
        [call] = reply.tool_calls
        assert (call["name"], call["id"]) == ("look", "call_7")
        assert call["args"] == {"place": "on level 3, behind the pillar"}
        assert reply.invalid_tool_calls == []

    @pytest.mark.parametrize("include_raw", [False, True])
    @pytest.mark.parametrize("way", ONCE)
    async def test_structured_output_is_returned_and_leaves_no_call_open(
        self, memory, way, include_raw
    ):
        written = ScriptedReply(tool_calls=[ScriptedToolCall("Spot", {"place": "level 3"}, "c1")])
        async with self._opened([written, "Bye."]) as (model, requests):
            spot = model.with_structured_output(
                Spot, method="function_calling", include_raw=include_raw
            )
            found = await ONCE[way](memory.wrap(spot, recall=False), "Where did I park?", at())
            assert (found["parsed"] if include_raw else found) == Spot(place="level 3")
            await ONCE[way](memory.wrap(model, recall=False), "Thanks.", at())
            assert requests()[1] == [
                "user: Where did I park?",
                'assistant: {"place": "level 3"}',
                "user: Thanks.",
            ]
        reply = stored(memory)[1]
        assert isinstance(reply, AIMessage)
        assert reply.usage_metadata is not None

    @pytest.mark.parametrize("way", WAYS)
    async def test_a_client_that_waits_and_tries_again_makes_one_turn(self, memory, way):
        busy = ScriptedError(status=429, retry_after_s=0.001)
        async with self._opened([busy, busy, "Yes."], tries=3) as (model, requests):
            await WAYS[way](memory.wrap(model, recall=False), "Really?", at())
            assert requests() == [["user: Really?"]] * 3
        assert texts(stored(memory)) == ["human: Really?", "ai: Yes."]

    @pytest.mark.parametrize("way", STREAMED)
    @pytest.mark.parametrize(
        "last_words", [None, ScriptedError(status=500)], ids=["broken", "told"]
    )
    async def test_a_cut_stream_is_stored_as_interrupted(self, memory, way, last_words):
        cut = ScriptedReply(text="one two three four", cut_after_chunks=3, cut_with=last_words)
        async with self._opened([cut, "five"]) as (model, requests):
            chain = memory.wrap(model, recall=False)
            with pytest.raises(self.errors):
                await STREAMED[way](chain, "Count!", at())
            assert texts(stored(memory)) == ["human: Count!", "ai: one two"]
            assert last_attributes(memory) == ("interrupted",)
            await STREAMED[way](chain, "Go on.", at())
            assert requests()[1] == ["user: Count!", "assistant: one two", "user: Go on."]

    @pytest.mark.parametrize("way", STREAMED)
    async def test_half_a_call_is_neither_stored_to_be_run_nor_sent_again(self, memory, way):
        cut = ScriptedReply(text="Looking.", tool_calls=[CALL], cut_after_chunks=6)
        async with self._opened([cut, "On level 3."]) as (model, requests):
            chain = memory.wrap(model.bind_tools([look]), recall=False)
            with pytest.raises(self.errors):
                await STREAMED[way](chain, "Where did I park?", at())
            [_, half] = stored(memory)
            assert (half.text, half.tool_calls) == ("Looking.", [])
            assert last_attributes(memory) == ("interrupted",)
            await STREAMED[way](chain, "Well?", at())
            assert requests()[1] == [
                "user: Where did I park?",
                "assistant: Looking.",
                "user: Well?",
            ]
