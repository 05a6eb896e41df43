"""Structured output through a wrapped chain: returned as it is, and remembered."""

from __future__ import annotations

import dataclasses
import json

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.output_parsers import (
    JsonOutputParser,
    PydanticOutputParser,
    PydanticToolsParser,
    StrOutputParser,
)
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableGenerator, RunnableLambda, RunnablePassthrough
from pydantic import BaseModel
from scripted_chat import WAYS, ProviderError, ScriptedChatModel, at

from langchain_convmem.turns.replies import STRUCTURED


class Place(BaseModel):
    """Where something is."""

    level: int


@dataclasses.dataclass
class Spot:
    level: int


CALL = {"name": "Place", "args": {"level": 3}, "id": "c1", "type": "tool_call"}
USAGE = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}


def _last(found):
    return found[-1] if isinstance(found, list) else found


def _history(memory):
    return memory.history("t", user_id="ana")


def _answer(memory):
    [_, answer] = _history(memory).entries
    return answer


def _calling(text=""):
    return ScriptedChatModel(
        replies=[AIMessage(text, id="m1", tool_calls=[CALL], usage_metadata=USAGE)]
    )


@pytest.mark.parametrize("way", WAYS)
def test_a_value_made_of_a_tool_call_leaves_no_call_open(memory, way):
    inner = _calling() | PydanticToolsParser(tools=[Place], first_tool_only=True)
    found = WAYS[way](memory.wrap(inner, recall=False), "Where?", at())
    assert _last(found) == Place(level=3)
    message = _answer(memory).message
    assert json.loads(message.text) == {"level": 3}
    assert message.tool_calls == []
    assert message.usage_metadata == USAGE
    assert _answer(memory).metadata.aux[STRUCTURED] == ["Place"]
    assert _history(memory).context().repairs == ()


@pytest.mark.parametrize("include_raw", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_with_structured_output_is_returned_as_it_is(memory, way, include_raw):
    inner = _calling().with_structured_output(Place, include_raw=include_raw)
    found = _last(WAYS[way](memory.wrap(inner, recall=False), "Where?", at()))
    if include_raw and isinstance(found, dict) and "raw" in found and way not in STREAMS:
        assert found["raw"].tool_calls == [CALL]
        assert found["parsed"] == Place(level=3)
    elif not include_raw:
        assert found == Place(level=3)
    assert json.loads(_answer(memory).message.text) == {"level": 3}
    assert _history(memory).context().repairs == ()


STREAMS = ("stream", "astream")


def test_the_next_question_sees_the_value_as_text(memory):
    inner = _calling().with_structured_output(Place)
    memory.wrap(inner, recall=False).invoke("Where?", at())
    model = ScriptedChatModel(replies=["Bye."])
    memory.wrap(model, recall=False).invoke("Thanks", at())
    assert [(one.type, one.text) for one in model.seen[0]] == [
        ("human", "Where?"),
        ("ai", '{"level": 3}'),
        ("human", "Thanks"),
    ]


@pytest.mark.parametrize("way", WAYS)
def test_what_a_model_said_beside_its_call_is_kept(memory, way):
    inner = _calling("Found it.") | PydanticToolsParser(tools=[Place])
    WAYS[way](memory.wrap(inner, recall=False), "Where?", at())
    assert _answer(memory).message.text == 'Found it.\n{"level": 3}'


@pytest.mark.parametrize(
    "parser", [JsonOutputParser(), PydanticOutputParser(pydantic_object=Place), StrOutputParser()]
)
@pytest.mark.parametrize("way", WAYS)
def test_what_a_parser_read_is_kept_as_the_models_message(memory, way, parser):
    reply = AIMessage('{"level": 3}', id="m1", usage_metadata=USAGE)
    inner = ScriptedChatModel(replies=[reply]) | parser
    WAYS[way](memory.wrap(inner, recall=False), "Where?", at())
    message = _answer(memory).message
    assert (message.text, message.id, message.usage_metadata) == ('{"level": 3}', "m1", USAGE)


VALUES = {
    "a model": (Place(level=3), '{"level": 3}', "Place"),
    "a dataclass": (Spot(3), '{"level": 3}', "Spot"),
    "a dict": ({"level": 3, "at": [1, None]}, '{"level": 3, "at": [1, null]}', "dict"),
    "a list": ([Spot(1), Place(level=2)], '[{"level": 1}, {"level": 2}]', "list"),
    "a number": (3, "3", "int"),
    "a tuple": (("é", 1), '["é", 1]', "tuple"),
}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("way", WAYS)
def test_a_value_that_no_model_made_is_kept_as_json_with_a_note(memory, kind, way):
    value, text, name = VALUES[kind]
    chain = memory.wrap(RunnableLambda(lambda _: value), recall=False)
    assert WAYS[way](chain, "Where?", at()) in (value, [value])
    assert _answer(memory).contents == (text,)
    assert _answer(memory).metadata.aux == {STRUCTURED: [name]}


@pytest.mark.parametrize("way", WAYS)
def test_a_value_without_any_plain_form_is_no_error(memory, way):
    loop = []
    loop.append(loop)
    chain = memory.wrap(RunnableLambda(lambda _: {"x": loop}), recall=False)
    WAYS[way](chain, "Where?", at())
    assert _answer(memory).role == "assistant"


@pytest.mark.parametrize("way", WAYS)
def test_objects_beside_the_words_of_a_message_are_kept_as_plain_values(memory, way):
    reply = AIMessage('{"level": 3}', additional_kwargs={"parsed": Place(level=3)})
    chain = memory.wrap(RunnableLambda(lambda _: reply), recall=False)
    found = _last(WAYS[way](chain, "Where?", at()))
    assert found.additional_kwargs["parsed"] == Place(level=3)
    assert _answer(memory).message.additional_kwargs == {"parsed": {"level": 3}}


@pytest.mark.parametrize("way", WAYS)
def test_an_answer_that_a_chain_adds_to_what_it_was_given_is_found(memory, way):
    prompt = ChatPromptTemplate.from_messages([("human", "{input}")])
    inner = RunnablePassthrough.assign(reply=prompt | ScriptedChatModel(replies=["On level 3."]))
    WAYS[way](memory.wrap(inner, recall=False), "Where?", at())
    assert _answer(memory).contents == ("On level 3.",)


# -- streams --------------------------------------------------------------------------------------


def test_a_stream_of_values_that_is_cut_keeps_the_last_one(memory):
    def partial(inputs):
        for _ in inputs:
            yield {"level": 1}
            yield {"level": 3, "at": "the"}
            raise ProviderError

    with pytest.raises(ProviderError):
        list(memory.wrap(RunnableGenerator(partial), recall=False).stream("Where?", at()))
    assert _answer(memory).contents == ('{"level": 3, "at": "the"}',)
    assert _answer(memory).metadata.attributes == ("interrupted",)


def _calls_only(args):
    """Yield the chunks of a provider of OpenAI's form that never says why it stopped."""
    piece = {"name": "look", "args": args, "id": "c1", "index": 0}
    metadata = {"model_provider": "openai"}
    yield AIMessageChunk(content="", id="m1", tool_call_chunks=[piece], response_metadata=metadata)
    yield AIMessageChunk(content="", id="m1", chunk_position="last")


@pytest.mark.parametrize("way", STREAMS)
def test_a_stream_of_nothing_but_calls_without_an_end_is_kept(memory, way):
    def stream(inputs):
        for _ in inputs:
            yield from _calls_only('{"where": "here"}')

    async def astream(inputs):
        async for _ in inputs:
            for chunk in _calls_only('{"where": "here"}'):
                yield chunk

    WAYS[way](memory.wrap(RunnableGenerator(stream, astream), recall=False), "Where?", at())
    answer = _answer(memory)
    assert [call["name"] for call in answer.message.tool_calls] == ["look"]
    assert answer.metadata.attributes == ("interrupted",)


def test_half_a_call_without_an_end_is_kept_in_the_log_and_shown_to_no_model(memory):
    def stream(inputs):
        for _ in inputs:
            yield from _calls_only('{"where": "he')

    list(memory.wrap(RunnableGenerator(stream), recall=False).stream("Where?", at()))
    answer = _answer(memory)
    assert [call["args"] for call in answer.message.invalid_tool_calls] == ['{"where": "he']
    assert answer.metadata.attributes == ("interrupted",)
    assert [one.text for one in _history(memory).messages] == ["Where?"]


def test_a_message_of_nothing_but_calls_without_an_end_is_kept(memory):
    reply = AIMessage("", tool_calls=[CALL], response_metadata={"model_provider": "openai"})
    memory.wrap(RunnableLambda(lambda _: reply), recall=False).invoke(HumanMessage("Where?"), at())
    assert _answer(memory).message.tool_calls == [CALL]
    assert _answer(memory).metadata.attributes == ("interrupted",)
