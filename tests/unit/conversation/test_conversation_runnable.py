"""What a conversation is given: in every form, in parts, several at once."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.messages import AIMessage
from scripted_chat import ProviderError, ScriptedChatModel

from langchain_convmem.conversation import Conversation


def echo(messages):
    said = sum(isinstance(one, AIMessage) for one in messages)
    return f"{messages[-1].text}! {said}"


def chat(*replies, **settings):
    return Conversation(ScriptedChatModel(replies=list(replies or [echo])), **settings)


def test_an_input_in_parts_is_added_up():
    talk = chat()
    assert "".join(one.text for one in talk.transform(iter(["Hel", "lo"]))) == "Hello! 0"

    async def parts():
        for part in ("Hel", "lo"):
            yield part

    async def read():
        return "".join([one.text async for one in talk.atransform(parts())])

    assert asyncio.run(read()) == "Hello! 1"
    assert talk.wait(0)


@pytest.mark.parametrize("way", ["batch", "abatch"])
def test_a_batch_ends_with_its_first_error_or_tells_of_all(way):
    def send(talk, **options):
        if way == "batch":
            return talk.batch(["a", "b", "c"], **options)
        return asyncio.run(talk.abatch(["a", "b", "c"], **options))

    talk = chat("A.", ProviderError("down"), "C.")
    with pytest.raises(ProviderError):
        send(talk)
    assert [one.text for one in talk.history] == ["a", "A."]
    talk = chat("A.", ProviderError("down"), "C.")
    found = send(talk, return_exceptions=True)
    assert [type(one) for one in found] == [AIMessage, ProviderError, AIMessage]
    assert [one.text for one in talk.history] == ["a", "A.", "c", "C."]
