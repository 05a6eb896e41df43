"""`memory.wrap(ChatOpenAI(...))` over real HTTP, before a strict Chat Completions service."""

import pytest
from langchain_core.messages import HumanMessage
from scripted_chat import at
from strict_chats import StrictChatCompletions
from wire_models import chat_openai
from wire_promises import WAYS

pytestmark = [pytest.mark.sockets, pytest.mark.usefixtures("socket_enabled")]


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


@pytest.mark.parametrize("way", WAYS)
async def test_streams_are_asked_for_with_their_usage(memory, way):
    with StrictChatCompletions("Yes.") as server:
        async with chat_openai(server) as model:
            await WAYS[way](memory.wrap(model, recall=False), "Really?", at())
        body = server.requests[0].body
    is_streamed = way in ("stream", "astream")
    assert bool(body.get("stream")) is is_streamed
    assert body.get("stream_options") == ({"include_usage": True} if is_streamed else None)
