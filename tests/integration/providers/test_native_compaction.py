"""What a provider compacted goes back to it as it came, and others read what it stands for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import pytest
from native_compaction import (
    CompactingReply,
    MessagesServer,
    ResponsesServer,
    chat_anthropic,
    chat_openai,
)

from langchain_convmem import ConversationMemory
from langchain_convmem.views.compactions import find_compactions

pytestmark = [pytest.mark.sockets, pytest.mark.usefixtures("socket_enabled")]

HERE = {"configurable": {"user_id": "ana", "thread_id": "t"}}
TOLD = "Ana parked on level 3."
WAYS = ("invoke", "ainvoke", "stream", "astream")


@dataclass(frozen=True)
class Native:
    """A provider that compacts: its service, its model, and the profile of its messages."""

    server_class: Callable[[Any], Any]
    open_model: Callable[..., AbstractAsyncContextManager[Any]]
    provider: str
    others: tuple[str, ...]


NATIVES = {
    "anthropic": Native(
        MessagesServer,
        chat_anthropic,
        "anthropic",
        ("strict", "openai", "openai_responses", "gemini", "bedrock_converse"),
    ),
    "openai": Native(
        ResponsesServer,
        chat_openai,
        "openai_responses",
        ("strict", "openai", "anthropic", "gemini", "bedrock_converse"),
    ),
}
REPLIES = ["Noted: level 3.", CompactingReply(text="Hello.", compaction=TOLD), "Level 3.", "Bye."]
QUESTIONS = ("I parked on level 3.", "Hello!", "Where?", "Bye!")


async def _ask(chain: Any, way: str, text: str) -> None:
    call = getattr(chain, way)(text, HERE)
    if way == "ainvoke":
        await call
    elif way == "astream":
        async for _ in call:
            pass
    elif way == "stream":
        list(call)


@pytest.mark.asyncio
@pytest.mark.parametrize("version", [None, "v1"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NATIVES)
async def test_an_item_goes_back_as_it_came_and_what_it_stands_for_is_not_sent_again(
    memory: ConversationMemory, name: str, way: str, version: str | None
) -> None:
    native = NATIVES[name]
    options = {} if version is None else {"output_version": version}
    with native.server_class(list(REPLIES)) as server:
        async with native.open_model(server, **options) as model:
            chain = memory.wrap(model, recall=False)
            for question in QUESTIONS:
                await _ask(chain, way, question)
        # The service refuses an item that is not what it handed out.
        read = [server.read_compacted(body) for body in server.bodies]
    assert read[1] == ["I parked on level 3.", "Noted: level 3.", "Hello!"]
    [compacted, *rest] = [text for text in read[2] if text != "..."]
    assert compacted.startswith("compacted: ")
    assert rest == ["Hello.", "Where?"]
    assert [text for text in read[3] if text != "..."][-4:] == [
        "Hello.",
        "Where?",
        "Level 3.",
        "Bye!",
    ]


@pytest.mark.asyncio
@pytest.mark.parametrize("way", ["invoke", "stream"])
@pytest.mark.parametrize("name", NATIVES)
async def test_the_log_keeps_it_and_others_read_what_it_stands_for(
    memory: ConversationMemory, name: str, way: str
) -> None:
    native = NATIVES[name]
    with native.server_class(list(REPLIES)) as server:
        async with native.open_model(server) as model:
            chain = memory.wrap(model, recall=False)
            for question in QUESTIONS[:3]:
                await _ask(chain, way, question)
        handed = server.items[0]
    history = memory.history("t", user_id="ana")
    [kept] = [one for entry in history.entries for one in find_compactions(entry.message)]
    assert {key: kept.get(key) for key in handed} == handed
    own = history.context(provider=native.provider)
    assert "Noted: level 3." not in str(own.messages)
    for profile in native.others:
        found = history.context(provider=profile)
        whole = str(found.messages)
        assert "compaction" not in whole
        assert "not shown" not in whole
        said = [message.text for message in found.messages]
        assert [QUESTIONS[0], "Noted: level 3."] in [said[n : n + 2] for n in range(len(said))]
        assert (TOLD in whole) is (name == "anthropic")
