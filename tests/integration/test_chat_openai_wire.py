"""`memory.wrap(ChatOpenAI(...))` over real HTTP, before a strict Chat Completions service."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from scripted_chat import at
from wire_models import chat_openai, lines_of_chat
from wire_promises import WAYS, WirePromises

from langchain_convmem.testing import ChatCompletionsServer

openai = pytest.importorskip("openai", reason="openai is not installed")

pytestmark = [pytest.mark.sockets, pytest.mark.usefixtures("socket_enabled")]


class TestChatOpenAI(WirePromises):
    server_class = ChatCompletionsServer
    errors = (openai.APIError,)

    def open_model(self, server: Any, *, tries: int = 1) -> AbstractAsyncContextManager[Any]:
        return chat_openai(server, tries=tries)

    def spoken(self, body: dict[str, Any]) -> list[str]:
        return lines_of_chat(body)

    @pytest.mark.parametrize("way", WAYS)
    async def test_people_keep_their_names_beside_what_they_say(self, memory, way):
        with ChatCompletionsServer(["Hello Ana.", "Hello Ben."]) as server:
            async with chat_openai(server) as model:
                chain = memory.wrap(model, recall=False)
                await WAYS[way](chain, HumanMessage("Hi!", name="ana"), at())
                await WAYS[way](chain, HumanMessage("Hi, too!", name="ben"), at())
            sent = server.requests[1].body["messages"]
        said = [(message["role"], message.get("name"), message["content"]) for message in sent]
        assert said == [
            ("user", "ana", "Hi!"),
            ("assistant", None, "Hello Ana."),
            ("user", "ben", "Hi, too!"),
        ]

    @pytest.mark.parametrize("way", WAYS)
    async def test_a_name_that_the_service_refuses_is_told_in_the_text(self, memory, way):
        with ChatCompletionsServer(["Hello."]) as server:
            async with chat_openai(server) as model:
                chain = memory.wrap(model, recall=False)
                await WAYS[way](chain, HumanMessage("Hi!", name="Ana Lee"), at())
            [sent] = server.requests[0].body["messages"]
        assert ("name" in sent, sent["content"]) == (False, "Ana Lee: Hi!")

    @pytest.mark.parametrize("way", WAYS)
    async def test_streams_are_asked_for_with_their_usage(self, memory, way):
        with ChatCompletionsServer("Yes.") as server:
            async with chat_openai(server) as model:
                await WAYS[way](memory.wrap(model, recall=False), "Really?", at())
            body = server.requests[0].body
        is_streamed = way in ("stream", "astream")
        assert bool(body.get("stream")) is is_streamed
        assert body.get("stream_options") == ({"include_usage": True} if is_streamed else None)
