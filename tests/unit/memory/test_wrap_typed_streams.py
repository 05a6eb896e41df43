"""Typed streams of a wrapped chain, `stream_events(version="v3")`: the turn is stored as ever."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.output_parsers import JsonOutputParser, StrOutputParser
from scripted_chat import ProviderError, ScriptedChatModel, at

from langchain_convmem.errors import ConfigError


@pytest.fixture
def model():
    return ScriptedChatModel(replies=["One two three"])


def _shown(memory):
    return [one.text for one in memory.history("t", user_id="ana").messages]


def _read(chain):
    return str(chain.stream_events("Count", at(), version="v3").text)


def _read_async(chain):
    async def read():
        stream = await chain.astream_events("Count", at(), version="v3")
        return "".join([delta async for delta in stream.text])

    return asyncio.run(read())


@pytest.mark.parametrize("read", [_read, _read_async])
@pytest.mark.parametrize("parses", [False, True])
def test_a_typed_stream_is_a_turn(memory, model, read, parses):
    chain = memory.wrap(model | StrOutputParser() if parses else model, recall=False)
    assert read(chain) == "One two three"
    assert _shown(memory) == ["Count", "One two three"]


def test_its_events_are_those_of_a_message(memory, model):
    events = list(memory.wrap(model, recall=False).stream_events("Count", at(), version="v3"))
    assert (events[0]["event"], events[-1]["event"]) == ("message-start", "message-finish")


@pytest.mark.parametrize("read", [_read, _read_async])
def test_an_error_of_the_model_is_raised_and_the_question_stays(memory, read):
    chain = memory.wrap(ScriptedChatModel(replies=[ProviderError()]), recall=False)
    with pytest.raises(ProviderError):
        read(chain)
    assert _shown(memory) == ["Count"]


@pytest.mark.parametrize("read", [_read, _read_async])
def test_a_chain_that_yields_values_names_the_way_out(memory, read):
    model = ScriptedChatModel(replies=['{"a": 1}'])
    with pytest.raises(ConfigError, match="version='v2'"):
        read(memory.wrap(model | JsonOutputParser(), recall=False))


def test_other_versions_are_as_they_were(memory, model):
    async def read():
        chain = memory.wrap(model, recall=False)
        return [event async for event in chain.astream_events("Count", at(), version="v2")]

    assert asyncio.run(read())[0]["event"] == "on_chain_start"
    assert _shown(memory) == ["Count", "One two three"]
