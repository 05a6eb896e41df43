"""What a wrapped chain may be called with."""

from __future__ import annotations

import asyncio
import traceback

import pytest
from langchain_core.messages import (
    AIMessage,
    ChatMessage,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.prompt_values import ChatPromptValue, StringPromptValue
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda
from scripted_chat import WAYS, ScriptedChatModel, at

from langchain_convmem.errors import ConfigError, InvalidMessageError

IMAGE = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}


@pytest.fixture
def model():
    return ScriptedChatModel(replies=["Yes."])


@pytest.fixture
def chain(memory, model):
    return memory.wrap(model, recall=False)


def _first_entry(memory):
    return memory.history("t", user_id="ana").entries[0]


# -- config -------------------------------------------------------------------------------------


@pytest.mark.parametrize("thread_id", ["", " ", True, 7.5])
def test_a_thread_id_that_names_nothing_is_refused_with_its_value(chain, thread_id):
    with pytest.raises(ConfigError, match="thread_id must be text that is not blank"):
        chain.invoke("Hello", at(thread_id))


def test_the_thread_can_be_bound_to_the_chain(chain, memory):
    chain.with_config(at()).invoke("Hello")
    assert _first_entry(memory).contents == ("Hello",)


def test_the_chain_names_what_a_call_may_configure(chain):
    fields = chain.config_schema().model_json_schema()["$defs"]["Configurable"]["properties"]
    assert {"thread_id", "session_id", "user_id", "memory"} <= set(fields)


# -- inputs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        "Hello",
        HumanMessage("Hello"),
        HumanMessageChunk(content="Hello"),
        [HumanMessage("Hello")],
        (HumanMessage("Hello"),),
        ["Hello"],
        ("user", "Hello"),
        [("human", "Hello")],
        {"role": "user", "content": "Hello"},
        [{"type": "human", "content": "Hello"}],
        {"messages": [{"role": "user", "content": "Hello"}]},
        {"messages": "Hello"},
        [HumanMessageChunk(content="Hel"), HumanMessageChunk(content="lo")],
        [ChatMessage("Hello", role="user")],
        {"input": "Hello"},
        {"input": HumanMessage("Hello")},
        {"input": [HumanMessage("Hello")]},
        StringPromptValue(text="Hello"),
        ChatPromptValue(messages=[HumanMessage("Hello")]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_way_to_say_one_thing_is_the_same_message(chain, memory, model, value):
    chain.invoke(value, at())
    assert _first_entry(memory).contents == ("Hello",)
    assert type(_first_entry(memory).message) is HumanMessage
    assert [type(message) for message in model.seen[0]] == [HumanMessage]
    assert model.asked == ["Hello"]


def test_a_multimodal_message_arrives_and_is_stored_whole(chain, memory, model):
    content = [{"type": "text", "text": "What is this?"}, IMAGE]
    chain.invoke(HumanMessage(content, name="Ana", id="q1"), at())
    stored, received = _first_entry(memory).message, model.seen[0][0]
    assert stored.content == received.content == content
    assert (received.id, received.name) == ("q1", "Ana")


def test_a_picture_alone_is_a_message(chain, memory):
    chain.invoke(HumanMessage([IMAGE]), at())
    assert _first_entry(memory).message.content == [IMAGE]


def test_input_that_comes_in_pieces_is_one_message(chain, memory):
    list(chain.transform(iter(["Where did ", "I park?"]), at()))
    assert _first_entry(memory).contents == ("Where did I park?",)


def test_further_keys_of_a_dict_reach_the_prompt_and_not_the_log(memory, model):
    prompt = ChatPromptTemplate.from_messages(
        [("system", "Speak {language}."), ("human", "{input}")]
    )
    chain = memory.wrap(prompt | model, recall=False)
    chain.invoke({"input": "Hello", "language": "Latin"}, at())
    assert model.seen[0][0] == SystemMessage("Speak Latin.")
    assert _first_entry(memory).contents == ("Hello",)
    assert "Latin" not in str(memory.history("t", user_id="ana").entries)


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
        ([ToolMessage("found", tool_call_id="c1")], "results of tools"),
        (b"Hello", "bytes"),
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
    assert memory.history("t", user_id="ana").entries == []
    assert model.seen == []


@pytest.mark.parametrize(
    "value",
    [
        AIMessage("secret"),
        [("narrator", "secret")],
        [{"x": "secret"}],
        [{"role": "tool", "content": "secret"}],
        [HumanMessage("secret"), AIMessage("secret")],
    ],
)
def test_an_error_names_types_and_keys_and_no_words(chain, value):
    with pytest.raises(InvalidMessageError) as caught:
        chain.invoke(value, at())
    told = "".join(traceback.format_exception(caught.value))
    assert "secret" not in told


# -- dicts with keys of their own -----------------------------------------------------------------


def _keyed(memory, model):
    prompt = ChatPromptTemplate.from_messages(
        [("system", "Speak {language}."), MessagesPlaceholder("past"), ("human", "{question}")]
    )
    return memory.wrap(
        prompt | model,
        recall=False,
        input_messages_key="question",
        history_messages_key="past",
        output_messages_key="answer",
    )


def test_what_is_said_and_what_was_said_stand_under_the_keys_that_the_chain_knows(memory, model):
    chain = _keyed(memory, model)
    chain.invoke({"question": "Where?", "language": "Latin"}, at())
    chain.invoke({"question": "When?", "language": "Greek"}, at())
    assert [(one.type, one.text) for one in model.seen[1]] == [
        ("system", "Speak Greek."),
        ("human", "Where?"),
        ("ai", "Yes."),
        ("human", "When?"),
    ]


def test_earlier_messages_under_their_key_are_recognised(memory, model):
    chain = _keyed(memory, model)
    chain.invoke({"question": "Where?", "language": "Latin"}, at())
    past = [HumanMessage("Where?"), AIMessage("Yes.")]
    chain.invoke({"question": "When?", "past": past, "language": "Latin"}, at())
    texts = [str(one.text) for one in memory.history("t", user_id="ana").messages]
    assert texts == ["Where?", "Yes.", "When?", "Yes."]


def test_a_key_that_is_missing_is_named(memory, model):
    with pytest.raises(InvalidMessageError, match=r"'question'.*\['input'\].*input_messages_key"):
        _keyed(memory, model).invoke({"input": "Where?"}, at())


@pytest.mark.parametrize("way", WAYS)
def test_the_answer_among_other_results_is_found_by_its_key(memory, way):
    inner = RunnableLambda(lambda given: {"sources": [1], "answer": "Level 3.", "output": "?"})
    chain = memory.wrap(inner, recall=False, output_messages_key="answer")
    found = WAYS[way](chain, "Where?", at())
    assert (found if isinstance(found, dict) else found[-1])["sources"] == [1]
    texts = [str(one.text) for one in memory.history("t", user_id="ana").messages]
    assert texts == ["Where?", "Level 3."]
