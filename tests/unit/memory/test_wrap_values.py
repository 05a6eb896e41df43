from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.output_parsers import PydanticToolsParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableGenerator, RunnableLambda
from langgraph.types import Command
from pydantic import BaseModel
from scripted_chat import WAYS, ProviderError, ScriptedChatModel, at, entries, texts

from langchain_convmem.errors import InvalidMessageError


@pytest.fixture
def model():
    return ScriptedChatModel(replies=["Yes."])


@pytest.fixture
def chain(memory, model):
    return memory.wrap(model, recall=False)


def test_input_that_comes_in_pieces_is_one_message(chain, memory):
    list(chain.transform(iter(["Where did ", "I park?"]), at()))
    assert texts(memory)[0] == "Where did I park?"


def test_further_keys_of_a_dict_reach_the_prompt_and_not_the_log(memory, model):
    prompt = ChatPromptTemplate([("system", "Speak {language}."), ("human", "{input}")])
    chain = memory.wrap(prompt | model, recall=False)
    chain.invoke({"input": "Hello", "language": "Latin"}, at())
    assert model.seen[0][0] == SystemMessage("Speak Latin.")
    assert texts(memory)[0] == "Hello"
    assert "Latin" not in str(entries(memory))


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, "None"),
        (7, "int"),
        ({"question": "Hello"}, "question"),
        ({"input": AIMessage("Hello")}, "AIMessage"),
        (AIMessage("Hello"), "AIMessage"),
        ([HumanMessage("a"), AIMessage("b")], "AIMessage"),
        ([SystemMessage("a")], "list"),
        ({"messages": []}, "list"),
        ([("narrator", "Hello")], "roles are ai, assistant"),
        ([{"role": "narrator", "content": "Hello"}], "roles are ai, assistant"),
        ([{"role": "user"}], r"no message \(keys: role\)"),
        ([RemoveMessage(id="q1")], "RemoveMessage"),
        ([ToolMessage("found", tool_call_id="c1")], "answers no call"),
        (b"Hello", "bytes"),
        (Command(resume=True), "ConversationMemoryMiddleware"),
        ([], "list"),
        ("", "blank"),
        (" \n", "blank"),
        (HumanMessage([{"type": "text", "text": " "}]), "blank"),
        (HumanMessage([]), "blank"),
    ],
)
def test_input_that_nobody_can_answer_is_refused(chain, memory, model, value, found):
    with pytest.raises(InvalidMessageError, match=found):
        chain.invoke(value, at())
    with pytest.raises(InvalidMessageError, match=found):
        asyncio.run(chain.ainvoke(value, at()))
    assert entries(memory) == []
    assert model.seen == []


def test_what_is_said_and_what_was_said_stand_under_the_keys_that_the_chain_knows(memory, model):
    prompt = ChatPromptTemplate(
        [("system", "Speak {language}."), MessagesPlaceholder("past"), ("human", "{question}")]
    )
    keys = {"input": "question", "history": "past", "output": "answer"}
    named = {f"{kind}_messages_key": key for kind, key in keys.items()}
    chain = memory.wrap(prompt | model, recall=False, **named)
    chain.invoke({"question": "Where?", "language": "Latin"}, at())
    chain.invoke({"question": "When?", "language": "Greek"}, at())
    assert [one.text for one in model.seen[1]] == ["Speak Greek.", "Where?", "Yes.", "When?"]
    past = [HumanMessage("Where?"), AIMessage("Yes."), HumanMessage("When?"), AIMessage("Yes.")]
    chain.invoke({"question": "Why?", "past": past, "language": "Latin"}, at())
    assert texts(memory) == ["Where?", "Yes.", "When?", "Yes.", "Why?", "Yes."]


@pytest.mark.parametrize("key", ["question", "input"])
def test_a_function_gets_text_as_text_under_the_key_that_it_names(memory, key):
    chain = memory.wrap(lambda given: f"{given[key].upper()}!", input_messages_key=key)
    assert chain.invoke({key: "Where?"}, at()) == "WHERE?!"


@pytest.mark.parametrize("way", WAYS)
def test_the_answer_among_other_results_is_found_by_its_key(memory, way):
    inner = RunnableLambda(lambda given: {"sources": [1], "answer": "Level 3.", "output": "?"})
    chain = memory.wrap(inner, recall=False, output_messages_key="answer")
    found = WAYS[way](chain, "Where?", at())
    assert (found if isinstance(found, dict) else found[-1])["sources"] == [1]
    assert texts(memory) == ["Where?", "Level 3."]


@pytest.mark.parametrize(
    ("added", "stored"),
    [
        ({"answer": "Level 3.", "context": "a"}, ["Where?", "Level 3."]),
        ({"context": "a", "result": "Level 3."}, ["Where?", "Level 3."]),
        ({"answer": "Where?", "response": "Level 3."}, ["Where?", "Level 3."]),
        ({"answer": {"level": 3}}, ["Where?"]),
        ({"answer": np.arange(3), "result": "Level 3."}, ["Where?", "Level 3."]),
        ({"told": "Level 3."}, ["Where?"]),
    ],
)
@pytest.mark.parametrize("way", WAYS)
def test_an_answer_beside_what_the_chain_got_is_stored_or_missed(
    memory, caplog, way, added, stored
):
    chain = memory.wrap(RunnableLambda(lambda given: {**given, **added}), recall=False)
    WAYS[way](chain, "Where?", at())
    assert texts(memory) == stored
    assert ("name the key of its reply" in caplog.text) is (len(stored) == 1)


class Place(BaseModel):
    """Where something is."""

    level: int


CALL = {"name": "Place", "args": {"level": 3}, "id": "c1", "type": "tool_call"}
USAGE = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}


def _answer(memory):
    [_, answer] = entries(memory)
    return answer


@pytest.mark.parametrize("way", WAYS)
def test_a_value_made_of_a_tool_call_leaves_no_call_open(memory, way):
    calling = AIMessage("", id="m1", tool_calls=[CALL], usage_metadata=USAGE)
    parser = PydanticToolsParser(tools=[Place], first_tool_only=True)
    inner = ScriptedChatModel(replies=[calling]) | parser
    found = WAYS[way](memory.wrap(inner, recall=False), "Where?", at())
    assert (found if isinstance(found, Place) else found[-1]) == Place(level=3)
    message = _answer(memory).message
    assert json.loads(message.text) == {"level": 3}
    assert message.tool_calls == []
    assert message.usage_metadata == USAGE
    assert memory.history("t", user_id="ana").context().repairs == ()


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


PROMPT = ChatPromptTemplate([MessagesPlaceholder("history"), MessagesPlaceholder("input")])


@pytest.mark.parametrize(
    "value",
    [
        "Hello?",
        HumanMessage("Hello?"),
        {"input": "Hello?", "mood": "calm"},
        [("user", "Hello?")],
        {"messages": [{"role": "user", "content": "Hello?"}]},
    ],
)
def test_the_input_schema_takes_what_the_chain_takes(memory, model, value):
    chain = memory.wrap(PROMPT | model, recall=False)
    chain.get_input_schema().model_validate(value)
    assert chain.invoke(value, at()).text == "Yes."
