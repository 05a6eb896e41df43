"""Prompts of chains: where what was said before stands, and what the system message holds."""

from __future__ import annotations

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from langchain_core.runnables import RunnablePassthrough
from scripted_chat import WAYS, ScriptedChatModel, at

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import ConfigError

ASKED = ("system", "Be brief."), ("human", "{input}")


@pytest.fixture
def memory():
    with ConversationMemory.open(":memory:") as memory:
        yield memory


@pytest.fixture
def model():
    return ScriptedChatModel(replies=["One.", "Two."])


def _list_last(model):
    return [(one.type, one.text) for one in model.seen[-1]]


SECOND = [("system", "Be brief."), ("human", "First?"), ("ai", "One."), ("human", "Second?")]


@pytest.mark.parametrize("way", WAYS)
def test_a_prompt_without_a_place_for_the_history_gets_it_before_the_question(memory, model, way):
    chain = memory.wrap(ChatPromptTemplate(ASKED) | model)
    for text in ("First?", "Second?"):
        WAYS[way](chain, text, at())
    assert _list_last(model) == SECOND


@pytest.mark.parametrize(
    "make",
    [
        lambda prompt, model: RunnablePassthrough.assign(day=lambda _: "Monday") | prompt | model,
        lambda prompt, model: (prompt | model).with_config(tags=["x"]),
        lambda prompt, model: (prompt | model).with_fallbacks([prompt | model]),
        lambda prompt, model: prompt.with_config(tags=["x"]) | model,
    ],
    ids=["assigned", "bound", "fallbacks", "a bound prompt"],
)
def test_a_prompt_is_found_through_what_stands_around_it(memory, model, make):
    chain = memory.wrap(make(ChatPromptTemplate(ASKED), model))
    chain.invoke("First?", at())
    chain.invoke("Second?", at())
    assert _list_last(model) == SECOND


def test_an_optional_place_is_filled_under_the_name_that_is_given(memory, model):
    place = MessagesPlaceholder("chat", optional=True)
    prompt = ChatPromptTemplate([ASKED[0], place, ("human", "Well: {question}")])
    keys = {"input_messages_key": "question", "history_messages_key": "chat"}
    chain = memory.wrap(prompt | model, **keys)
    chain.invoke({"question": "First?"}, at())
    chain.invoke({"question": "Second?"}, at())
    assert _list_last(model) == [*SECOND[:3], ("human", "Well: Second?")]


@pytest.mark.parametrize(
    "prompt",
    [ChatPromptTemplate([("human", "{question}")]), PromptTemplate.from_template("Say {topic}.")],
)
def test_a_prompt_without_a_place_for_the_question_is_refused(memory, model, prompt):
    with pytest.raises(ConfigError, match=r"no place for what the user says.*input_messages_key"):
        memory.wrap(prompt | model)


@pytest.mark.parametrize("place", ["user", "system"])
@pytest.mark.parametrize("parts", [ASKED, (ASKED[0], MessagesPlaceholder("history"), ASKED[1])])
def test_a_prompt_and_a_memory_make_one_system_message(memory, model, parts, place):
    memory.add_messages([HumanMessage("I'm vegetarian.")], thread_id="old", user_id="ana")
    options = {"profile_tokens": 150, "recall_place": place}
    memory.wrap(ChatPromptTemplate(parts) | model, **options).invoke("What do I eat?", at())
    first, *others = model.seen[0]
    assert first.text.startswith("Be brief.\n\n<profile>")
    assert [one.type for one in others] == ["human"]
