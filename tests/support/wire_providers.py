"""Providers for scenarios: the real class of each before a strict service on loopback."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from strict_chats import StrictChatCompletions
from strict_converse import StrictConverse
from wire_models import chat_bedrock, chat_openai, lines_of_chat, lines_of_converse

from langchain_convmem.testing.scripted_replies import ReplySource


@dataclass(frozen=True)
class Service:
    """A service that answers, and what it was asked."""

    server: Any
    lines_of: Callable[[dict[str, Any]], list[str]]

    @property
    def bodies(self):
        """The requests as they came."""
        return [request.body for request in self.server.requests]

    @property
    def requests(self):
        """The requests as lines: `role: text`, `call id name place`, `result id: text`."""
        return [self.lines_of(body) for body in self.bodies]


@dataclass(frozen=True)
class Provider:
    """How the models of a provider are reached."""

    name: str
    server_class: Callable[[ReplySource], Any]
    open_model: Callable[..., AbstractAsyncContextManager[Any]]
    lines_of: Callable[[dict[str, Any]], list[str]]

    @property
    def errors(self):
        """What the provider's client raises when a stream is cut or the service fails."""
        if self.name == "openai":
            return (pytest.importorskip("openai").APIError,)
        cut = pytest.importorskip("urllib3.exceptions").ProtocolError
        return (pytest.importorskip("botocore.exceptions").ClientError, cut)

    @asynccontextmanager
    async def answer(self, reply, *, tries=1):
        """Open a service that gives these replies, and a model before it."""
        with self.server_class(reply) as server:
            async with self.open_model(server, tries=tries) as model:
                yield model, Service(server, self.lines_of)


PROVIDERS = {
    "openai": Provider("openai", StrictChatCompletions, chat_openai, lines_of_chat),
    "bedrock": Provider("bedrock", StrictConverse, chat_bedrock, lines_of_converse),
}
