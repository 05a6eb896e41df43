"""`OpenAIEmbeddings` and `BedrockEmbeddings` over real HTTP: what memory asks of them."""

from __future__ import annotations

from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from scripted_chat import at
from wire_models import chat_bedrock, chat_openai, embed_bedrock, embed_openai
from wire_promises import WAYS

from langchain_convmem import ConversationMemory
from langchain_convmem.testing import BedrockConverseServer, ChatCompletionsServer, ScriptedError

pytestmark = [pytest.mark.sockets, pytest.mark.usefixtures("socket_enabled")]

COHERE = "cohere.embed-english-v3"
THROTTLED = ScriptedError(
    status=429, message="Rate limit reached", kind="requests", code="rate_limit_exceeded"
)
BEDROCK_THROTTLED = ScriptedError(status=429, message="Too many requests, please wait")
SAID = [
    "I parked on level 3, behind the pillar.",
    "My cat is called Miso, and she hates Tuesdays.",
    "The dentist moved my appointment to Friday at nine.",
    "In which level did I park the car?",
]


@dataclass(frozen=True)
class _Provider:
    """A provider's service, its chat model and its embedder."""

    server_class: Any
    open_model: Any
    options: dict[str, Any]
    throttled: ScriptedError = THROTTLED

    def open_embedder(self, server, **options):
        opened = embed_openai if self.open_model is chat_openai else embed_bedrock
        return opened(server, **{**self.options, **options})


PROVIDERS = {
    "openai": _Provider(ChatCompletionsServer, chat_openai, {}),
    "openai, tokens": _Provider(
        ChatCompletionsServer, chat_openai, {"check_embedding_ctx_length": True}
    ),
    "titan": _Provider(BedrockConverseServer, chat_bedrock, {}, BEDROCK_THROTTLED),
    "cohere": _Provider(
        BedrockConverseServer, chat_bedrock, {"model_id": COHERE}, BEDROCK_THROTTLED
    ),
}


@pytest.fixture(autouse=True)
def _without_a_vocabulary(monkeypatch):
    """Nobody loads the vocabulary of OpenAI's models."""
    tiktoken = pytest.importorskip("tiktoken", reason="langchain-openai is not installed")
    registry = pytest.importorskip("tiktoken.registry")
    bytewise = tiktoken.Encoding(
        "cl100k_base",
        pat_str=r"\S+|\s+",
        mergeable_ranks={bytes([n]): n for n in range(256)},
        special_tokens={},
    )
    monkeypatch.setitem(registry.ENCODINGS, "cl100k_base", bytewise)


@pytest.fixture(params=PROVIDERS)
def provider(request):
    return PROVIDERS[request.param]


def _texts(server):
    """Return what the service embedded; tokens are the bytes of a text."""
    return [given if isinstance(given, str) else bytes(given).decode() for given in server.embedded]


def _count_requests(server):
    return sum(request.path.endswith(("/embeddings", "/invoke")) for request in server.requests)


@asynccontextmanager
async def _deployed(provider, path=":memory:", **options):
    """Open a service with a memory before it: the memory, its chat model, and the service."""
    options.setdefault("reply", lambda body: "Let me think about that.")
    tries = options.pop("tries", 1)
    with provider.server_class(**options) as server:
        async with (
            provider.open_embedder(server, tries=tries) as embedder,
            provider.open_model(server) as model,
        ):
            with ConversationMemory.open(path, embeddings=embedder) as memory:
                yield memory, model, server


@pytest.mark.parametrize("way", ["invoke", "astream"])
async def test_a_turn_embeds_its_question_and_each_of_its_lines_once(provider, way):
    async with _deployed(provider) as (memory, model, server):
        chain = memory.wrap(model)
        for text in SAID:
            await WAYS[way](chain, [HumanMessage(text)], at())
        assert await memory.arefresh(user_id="ana") == ()  # what the background has not come to
        counts = Counter(_texts(server))
    # Every reply is the same words. Cohere embeds what is asked unlike what is said, so there a
    # question has a vector of its own, once there are lines, and every reply, too.
    lines = Counter([*SAID, "Let me think about that."])
    is_alike = "cohere" not in provider.options.get("model_id", "")
    again = Counter() if is_alike else Counter([*SAID, *["Let me think about that."] * len(SAID)])
    assert lines <= counts <= lines + again


async def test_an_import_goes_in_the_batches_of_the_provider(provider):
    takes_one = provider is PROVIDERS["titan"]
    texts = [f"On day {n} I wrote {n * n} words." for n in range(30 if takes_one else 300)]
    async with _deployed(provider) as (memory, _, server):
        memory.add_messages([HumanMessage(text) for text in texts], user_id="ana", thread_id="t")
        assert await memory.arefresh(user_id="ana") == ()
        requests = _count_requests(server)
        assert Counter(_texts(server)) == Counter(texts)
    # 256 lines at a time; Cohere takes 96 texts a request and Titan one.
    most = {COHERE: 4}.get(provider.options.get("model_id"), 2)
    assert requests == (30 if takes_one else most)


async def test_a_throttled_call_is_repeated_by_the_client(provider):
    replies = [provider.throttled, *[None] * 4]
    async with _deployed(provider, embeddings=replies, tries=2) as (memory, _, server):
        memory.add_messages([HumanMessage(SAID[0])], user_id="ana", thread_id="t")
        assert await memory.arefresh(user_id="ana") == ()
        assert _texts(server) == [SAID[0]]
        assert _count_requests(server) == 2


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_a_turn_goes_on_while_the_service_throttles_and_words_find_lines(provider, way):
    closed = [True]

    def embed(body):
        return provider.throttled if closed[0] else None

    async with _deployed(provider, embeddings=embed) as (memory, model, server):
        chain = memory.wrap(model)
        for text in SAID:
            answer = await WAYS[way](chain, [HumanMessage(text)], at())
            assert answer.text == "Let me think about that."
        found = memory.recall("Where did I park?", user_id="ana", k=1)
        assert found.blocks[0].matches[0].line.text == SAID[0]
        assert any("429" in one or "ThrottlingException" in one for one in found.problems)
        assert not any(SAID[0] in one for one in found.problems)
        assert _texts(server) == []
        closed[0] = False
        assert memory.refresh(user_id="ana") == ()
        assert Counter(_texts(server)) == Counter([*SAID, "Let me think about that."])
