"""`memory.wrap(ChatOpenAI(...))` over real HTTP, before a strict Chat Completions service."""

from itertools import takewhile

import pytest
from langchain_core.messages import HumanMessage
from scripted_chat import at
from strict_chats import StrictChatCompletions
from wire_models import chat_openai
from wire_promises import ONCE, STREAMED, WAYS, last_attributes, stored, texts

from langchain_convmem.testing import ChatCompletionsServer

pytestmark = [pytest.mark.sockets, pytest.mark.usefixtures("socket_enabled")]


@pytest.fixture
def ending_early(monkeypatch):
    """Make the service end its streams as a proxy does that gives up: no reason, no `[DONE]`."""
    whole = ChatCompletionsServer.stream

    def begun(*args):
        yield from takewhile(lambda event: b'"finish_reason": null' in event, whole(*args))
        yield b": bye\n\n"

    monkeypatch.setattr(ChatCompletionsServer, "stream", begun)
    return monkeypatch


@pytest.mark.parametrize("way", WAYS)
async def test_people_keep_their_names_beside_what_they_say(memory, way):
    with StrictChatCompletions(["Hello Ana.", "Hello Ben."]) as server:
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


@pytest.mark.parametrize("way", STREAMED)
async def test_a_stream_that_never_says_why_it_ended_is_stored_as_interrupted(
    memory, way, ending_early
):
    with StrictChatCompletions(["On level 3.", "On level 3."]) as server:
        async with chat_openai(server) as model:
            chain = memory.wrap(model, recall=False)
            shown = await STREAMED[way](chain, HumanMessage("Where?", id="q1"), at())
            assert (shown.text, last_attributes(memory)) == ("On level 3.", ("interrupted",))
            assert texts(stored(memory)) == ["human: Where?", "ai: On level 3."]
            ending_early.undo()
            await STREAMED[way](chain, HumanMessage("Where?", id="q1"), at())
    assert last_attributes(memory) == ()


@pytest.mark.parametrize("way", ONCE)
async def test_a_model_that_streams_within_one_call_is_watched_as_well(memory, way, ending_early):
    with StrictChatCompletions("On level 3.") as server:
        async with chat_openai(server) as model:
            chain = memory.wrap(model.model_copy(update={"streaming": True}), recall=False)
            await ONCE[way](chain, "Where?", at())
    assert last_attributes(memory) == ("interrupted",)


@pytest.mark.parametrize("way", WAYS)
async def test_streams_are_asked_for_with_their_usage(memory, way):
    with StrictChatCompletions("Yes.") as server:
        async with chat_openai(server) as model:
            await WAYS[way](memory.wrap(model, recall=False), "Really?", at())
        body = server.requests[0].body
    is_streamed = way in ("stream", "astream")
    assert bool(body.get("stream")) is is_streamed
    assert body.get("stream_options") == ({"include_usage": True} if is_streamed else None)
