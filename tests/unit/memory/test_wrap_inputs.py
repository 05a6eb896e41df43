"""What a wrapped chain may be called with."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from langchain_core.messages import AIMessage, HumanMessage, HumanMessageChunk, SystemMessage
from langchain_core.prompt_values import ChatPromptValue, StringPromptValue
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import ConfigurableField
from scripted_chat import WAYS, ScriptedChatModel, at

from langchain_convmem.errors import ConfigError, InvalidMessageError

IMAGE = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}


@pytest.fixture
def model():
    return ScriptedChatModel(replies=["Yes."])


@pytest.fixture
def chain(quick, model):
    return quick.wrap(model, recall=False)


def _first_entry(quick):
    return quick.history("t", user_id="ana").entries[0]


# -- config -------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("config", [{}, {"configurable": {"user_id": "ana"}}])
def test_a_call_without_a_thread_is_refused_and_told_the_way_out(chain, model, way, config):
    with pytest.raises(ConfigError, match=r"thread_id.*configurable"):
        WAYS[way](chain, "Hello", config)
    assert model.seen == []


@pytest.mark.parametrize("thread_id", ["", 7, uuid.UUID(int=1)])
def test_a_thread_id_that_is_no_text_is_refused_with_its_value(chain, thread_id):
    with pytest.raises(ConfigError, match="thread_id must be a non-empty string"):
        chain.invoke("Hello", at(thread_id))


def test_the_thread_can_be_bound_to_the_chain(chain, quick):
    chain.with_config(at()).invoke("Hello")
    assert _first_entry(quick).contents == ("Hello",)


def test_options_of_the_chain_can_be_made_configurable(quick):
    model = ScriptedChatModel(replies=["word " * 200, "Yes."])
    field = ConfigurableField(id="history_budget")
    chain = quick.wrap(model, recall=False).configurable_fields(history_tokens=field)
    chain.invoke("first", at())
    chain.invoke("second", at(history_budget=20))
    assert model.asked == ["first", "second"]
    assert len(model.seen[1]) == 1, "the long exchange is over the configured budget"


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
        {"input": "Hello"},
        {"input": HumanMessage("Hello")},
        {"input": [HumanMessage("Hello")]},
        StringPromptValue(text="Hello"),
        ChatPromptValue(messages=[HumanMessage("Hello")]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_way_to_say_one_thing_is_the_same_message(chain, quick, model, value):
    chain.invoke(value, at())
    assert _first_entry(quick).contents == ("Hello",)
    assert type(_first_entry(quick).message) is HumanMessage
    assert [type(message) for message in model.seen[0]] == [HumanMessage]
    assert model.asked == ["Hello"]


def test_a_multimodal_message_arrives_and_is_stored_whole(chain, quick, model):
    content = [{"type": "text", "text": "What is this?"}, IMAGE]
    chain.invoke(HumanMessage(content, name="Ana", id="q1"), at())
    stored, received = _first_entry(quick).message, model.seen[0][0]
    assert stored.content == received.content == content
    assert (received.id, received.name) == ("q1", "Ana")


def test_a_picture_alone_is_a_message(chain, quick):
    chain.invoke(HumanMessage([IMAGE]), at())
    assert _first_entry(quick).message.content == [IMAGE]


def test_input_that_comes_in_pieces_is_one_message(chain, quick):
    list(chain.transform(iter(["Where did ", "I park?"]), at()))
    assert _first_entry(quick).contents == ("Where did I park?",)


def test_further_keys_of_a_dict_reach_the_prompt_and_not_the_log(quick, model):
    prompt = ChatPromptTemplate.from_messages(
        [("system", "Speak {language}."), ("human", "{input}")]
    )
    chain = quick.wrap(prompt | model, recall=False)
    chain.invoke({"input": "Hello", "language": "Latin"}, at())
    assert model.seen[0][0] == SystemMessage("Speak Latin.")
    assert _first_entry(quick).contents == ("Hello",)
    assert "Latin" not in str(quick.history("t", user_id="ana").entries)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, "NoneType"),
        (7, "int"),
        ({"question": "Hello"}, "question"),
        ({"input": AIMessage("Hello")}, "AIMessage"),
        (AIMessage("Hello"), "AIMessage"),
        ([HumanMessage("a"), HumanMessage("b")], "list"),
        ([], "list"),
        ("", "blank"),
        (" \n", "blank"),
        (HumanMessage([{"type": "text", "text": " "}]), "blank"),
        (HumanMessage([]), "blank"),
    ],
)
def test_input_that_is_not_one_message_of_the_user_is_refused(chain, quick, model, value, found):
    with pytest.raises(InvalidMessageError, match=found):
        chain.invoke(value, at())
    with pytest.raises(InvalidMessageError, match=found):
        asyncio.run(chain.ainvoke(value, at()))
    assert quick.history("t", user_id="ana").entries == []
    assert model.seen == []


def test_several_messages_at_once_are_pointed_to_add_messages(chain):
    with pytest.raises(InvalidMessageError, match=r"memory\.add_messages"):
        chain.invoke([HumanMessage("a"), AIMessage("b"), HumanMessage("c")], at())
