from __future__ import annotations

from operator import itemgetter

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.utils import trim_messages
from langchain_core.output_parsers import JsonOutputParser, StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import (
    ConfigurableField,
    Runnable,
    RunnableBranch,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
)
from scripted_chat import WAYS, ScriptedChatModel, at, talk

from langchain_convmem.errors import ConfigError

CALL = {"name": "look", "args": {"where": "garage"}, "id": "c1", "type": "tool_call"}


def look(where: str) -> str:
    """Look somewhere."""
    return where


class DeferredModel(Runnable):
    """A model that is chosen at the call, as `init_chat_model` makes them."""

    def __init__(self, model):
        self.model = model

    @property
    def InputType(self):  # noqa: N802 - LangChain's name
        return self.model.InputType

    def invoke(self, input, config=None, **kwargs):  # noqa: A002 - LangChain's name
        return self.model.invoke(input, config, **kwargs)


MODELS = {
    "model": lambda model: model,
    "bound tools": lambda model: model.bind_tools([look]),
    "bound arguments": lambda model: model.bind(stop=["\n"]),
    "with config": lambda model: model.with_config(tags=["x"]),
    "with retry": lambda model: model.with_retry(),
    "with fallbacks": lambda model: model.with_fallbacks([model]),
    "configurable fields": lambda model: model.configurable_fields(
        breaks_after=ConfigurableField(id="breaks")
    ),
    "configurable alternatives": lambda model: model.configurable_alternatives(
        ConfigurableField(id="which"), other=model
    ),
    "all at once": lambda model: model.bind_tools([look]).with_retry().with_fallbacks([model]),
    "before a parser": lambda model: model | StrOutputParser(),
    "bound, before a parser": lambda model: (model.bind(x=1) | StrOutputParser()).with_retry(),
    "chosen at the call": DeferredModel,
    "behind a trimmer": lambda model: (
        trim_messages(max_tokens=9, token_counter=len, strategy="last") | model
    ),
}


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_is_given_messages_however_it_is_dressed(memory, kind):
    model = ScriptedChatModel(replies=["One.", "Two."])
    wrapped = memory.wrap(MODELS[kind](model), recall=False)
    wrapped.invoke("First?", at())
    list(wrapped.stream("Second?", at()))
    shown = [("human", "First?"), ("ai", "One."), ("human", "Second?")]
    assert [(message.type, message.text) for message in model.seen[1]] == shown
    assert [text for _, text in talk(memory)] == ["First?", "One.", "Second?", "Two."]


def test_a_template_of_text_reads_input_and_history_as_text(memory):
    model = ScriptedChatModel(replies=["One.", "Two."])
    prompt = ChatPromptTemplate([("system", "So far:\n{history}"), ("human", "Answer: {input}")])
    wrapped = memory.wrap(prompt | model, recall=False)
    wrapped.invoke("First?", at())
    wrapped.invoke("Second?", at())
    assert model.seen[1] == [
        SystemMessage("So far:\nUser: First?\nAssistant: One."),
        HumanMessage("Answer: Second?"),
    ]


class Shelf(BaseRetriever):
    """Finds the words that it was asked for, and takes nothing but text."""

    asked: list[str]

    def _get_relevant_documents(self, query, *, run_manager):
        self.asked.append(query.encode().decode())  # as an embedder reads it
        return [Document("the shelf")]


def _join(documents):
    return " ".join(one.page_content for one in documents)


def _choose(model, prompt):
    other = ChatPromptTemplate([("system", "No. {context}"), ("human", "{input}")])
    return RunnableBranch((lambda given: not given["input"], other | model), prompt | model)


def _look(shelf):
    return RunnablePassthrough.assign(context=itemgetter("input") | shelf | _join)


def _answer(prompt, model):
    return prompt | model | StrOutputParser()


CHAINS = {
    "what is assigned": lambda shelf, prompt, model: _look(shelf) | prompt | model,
    "a map of the input": lambda shelf, prompt, model: (
        {"context": itemgetter("input") | shelf | _join, "input": itemgetter("input")}
        | prompt
        | model
    ),
    "a map of what is said": lambda shelf, prompt, model: (
        {"context": shelf | _join, "input": RunnablePassthrough()} | prompt | model
    ),
    "a function": lambda shelf, prompt, model: (
        RunnableLambda(
            lambda given: {"context": _join(shelf.invoke(given["input"])), "input": given["input"]}
        )
        | prompt
        | model
    ),
    "a branch": lambda shelf, prompt, model: _look(shelf) | _choose(model, prompt),
    "alternatives": lambda shelf, prompt, model: (
        _look(shelf)
        | prompt.configurable_alternatives(ConfigurableField(id="prompt"), other=prompt)
        | model
    ),
    "bound": lambda shelf, prompt, model: (
        _look(shelf) | (prompt.with_config(tags=["x"]) | model).with_config(tags=["x"])
    ),
    "fallbacks": lambda shelf, prompt, model: (
        _look(shelf) | (prompt | model).with_fallbacks([prompt | model])
    ),
    "assigned": lambda shelf, prompt, model: _look(shelf).assign(answer=_answer(prompt, model)),
    "a map": lambda shelf, prompt, model: (
        _look(shelf)
        | RunnableParallel(answer=_answer(prompt, model), context=itemgetter("context"))
    ),
    "picked": lambda shelf, prompt, model: (
        _look(shelf).assign(answer=_answer(prompt, model)).pick("answer")
    ),
    "a function at the end": lambda shelf, prompt, model: (
        _look(shelf).assign(answer=_answer(prompt, model)) | (lambda given: given["answer"])
    ),
    "a map that begins with a retriever": lambda shelf, prompt, model: RunnableParallel(
        context=shelf | _join, input=RunnablePassthrough()
    ).assign(answer=_answer(prompt, model)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", CHAINS)
@pytest.mark.parametrize("has_place", [False, True])
def test_a_prompt_behind_a_retriever_remembers(memory, kind, way, has_place):
    memory.add_messages([HumanMessage("The bike is green.")], thread_id="old", user_id="ana")
    model, shelf = ScriptedChatModel(replies=["One.", "Two."]), Shelf(asked=[])
    place = [("placeholder", "{history}")] if has_place else []
    prompt = ChatPromptTemplate([("system", "Look: {context}"), *place, ("human", "{input}")])
    wrapped = memory.wrap(CHAINS[kind](shelf, prompt, model))
    wrapped.invoke("Hello?", at())
    WAYS[way](wrapped, "My bike?", at())
    system, *said = model.seen[1]
    assert [one.type for one in model.seen[1]] == ["system", "human", "ai", "human"]
    assert system.text == "Look: the shelf"
    assert [one.text for one in said[:2]] == ["Hello?", "One."]
    assert "The bike is green." in said[2].text
    assert [query.rpartition("\n")[2] for query in shelf.asked] == ["Hello?", "My bike?"]
    assert [text for _, text in talk(memory)] == ["Hello?", "One.", "My bike?", "Two."]


def test_a_step_that_formats_what_the_user_says_gets_the_words_alone(memory):
    memory.add_messages([HumanMessage("The bike is green.")], thread_id="old", user_id="ana")
    model, asked = ScriptedChatModel(replies=["One."]), []
    prompt = ChatPromptTemplate([("system", "Look: {context}"), ("human", "{input}")])
    look = RunnablePassthrough.assign(context=lambda given: asked.append(f"q={given['input']}"))
    memory.wrap(look | prompt | model).invoke("My bike?", at())
    assert asked == ["q=My bike?"]
    assert "The bike is green." in model.asked[0]


def test_a_thread_with_instructions_gives_a_prompt_with_its_own_one_system_message(memory):
    said = [SystemMessage("Speak like a pirate."), HumanMessage("Hello."), AIMessage("Arr.")]
    memory.add_messages(said, thread_id="t", user_id="ana")
    model = ScriptedChatModel(replies=["One."])
    prompt = ChatPromptTemplate([("system", "Be brief."), ("human", "{input}")])
    memory.wrap(prompt | model, recall=False).invoke("And now?", at())
    seen = [message.text for message in model.seen[0]]
    assert seen == ["Be brief.\n\nSpeak like a pirate.", "Hello.", "Arr.", "And now?"]


def test_a_profile_joins_the_system_message_also_where_a_chain_hands_on_some_messages(memory):
    memory.add_messages([HumanMessage("I live in Porto.")], thread_id="old", user_id="ana")
    model = ScriptedChatModel(replies=["One."])
    prompt = ChatPromptTemplate(
        [("system", "Be brief."), ("placeholder", "{history}"), ("human", "{input}")]
    )
    latest = RunnablePassthrough.assign(history=lambda given: given["history"][-6:])
    memory.wrap(latest | prompt | model, recall=False, profile_tokens=150).invoke("Hi!", at())
    assert [message.type for message in model.seen[0]] == ["system", "human"]
    assert "I live in Porto." in model.seen[0][0].text


def test_a_prompt_of_text_before_a_chat_model_comes_behind_the_history(memory):
    model = ScriptedChatModel(replies=["One.", "Two."])
    wrapped = memory.wrap(PromptTemplate.from_template("Q: {input}") | model, recall=False)
    for said in ("First?", "Second?"):
        wrapped.invoke(said, at())
    assert [message.text for message in model.seen[1]] == ["First?", "One.", "Q: Second?"]


@pytest.mark.parametrize("way", WAYS)
def test_a_prompt_of_text_shows_the_pictures_of_what_the_user_says(memory, way):
    model = ScriptedChatModel(replies=["One."])
    prompt = ChatPromptTemplate([("system", "Look."), ("human", "Asked: {input}")])
    picture = {"type": "image", "base64": "iVBORw0KGgo=", "mime_type": "image/png"}
    said = HumanMessage([{"type": "input_text", "text": "What is it?"}, picture])
    WAYS[way](memory.wrap(prompt | model, recall=False), [said], at())
    assert model.seen[0][1].content == [{"type": "text", "text": "Asked: What is it?"}, picture]


@pytest.mark.parametrize("way", WAYS)
def test_a_prompt_of_text_stands_before_the_tool_loop_of_the_turn(memory, way):
    model = ScriptedChatModel(replies=[AIMessage("", tool_calls=[CALL]), "In the garage."])
    prompt = ChatPromptTemplate([("system", "Look."), ("human", "Asked: {input}")])
    wrapped = memory.wrap(prompt | model, recall=False)
    wrapped.invoke("Where is it?", at())
    WAYS[way](wrapped, [ToolMessage("Here.", tool_call_id="c1")], at())
    assert [message.type for message in model.seen[1]] == ["system", "human", "ai", "tool"]
    assert model.seen[1][1].text == "Asked: Where is it?"


DONE = AIMessage("Done.")
REPLIES = {
    "text": lambda given: "Done.",
    "a message": lambda given: DONE,
    "a list": lambda given: [DONE],
    "messages": lambda given: {"messages": [DONE]},
    "one under messages": lambda given: {"messages": DONE},
    "the given ones in front": lambda given: {"messages": [*given["messages"], DONE]},
    "the given ones, copied": lambda given: {
        "messages": [*(one.model_copy(deep=True) for one in given["messages"]), DONE]
    },
    "the user's, built anew": lambda given: [HumanMessage(given["input"][0].text), DONE],
}
A, B, LEVEL = (ScriptedChatModel(replies=[text]) for text in ("A.", "B.", '{"level": 3}'))
OTHERS = {
    "only what it got": (lambda given: given["messages"], []),
    "a parsed dict": (LEVEL | JsonOutputParser(), ['{"level": 3}']),
    "parallel replies": (itemgetter("messages") | RunnableParallel(a=A, b=B), ["A.", "B."]),
    "a number": (lambda given: 7, ["7"]),
    "nothing": (lambda given: None, []),
    "numbers": (lambda given: [1, 2], ["[1, 2]"]),
}
RETURNED = {**{name: (reply, ["Done."]) for name, reply in REPLIES.items()}, **OTHERS}


@pytest.mark.parametrize("kind", RETURNED)
@pytest.mark.parametrize("way", WAYS)
def test_a_chain_may_return_its_reply_in_many_shapes_and_other_values(memory, kind, way):
    inner, told = RETURNED[kind]
    inner = inner if isinstance(inner, Runnable) else RunnableLambda(inner)
    wrapped = memory.wrap(inner, recall=False)
    for number in (1, 2) if told == ["Done."] else (1,):
        WAYS[way](wrapped, f"Question {number}?", at())
        question, *replies = talk(memory)[-1 - len(told) :]
        assert question == ("user", f"Question {number}?")
        assert sorted(replies) == [("assistant", text) for text in told]


@pytest.mark.parametrize(
    ("inner", "why"),
    [
        ("openai:gpt", "of type str is not a chain"),
        (None, "of type NoneType is not a chain"),
        (ScriptedChatModel, r"is a class; pass an object of it, ScriptedChatModel\(\.\.\.\)"),
    ],
)
def test_what_is_not_a_chain_is_refused_when_it_is_wrapped(memory, inner, why):
    with pytest.raises(ConfigError, match=why):
        memory.wrap(inner)


def test_no_step_before_a_prompt_takes_the_profile_from_it(memory):
    memory.add_messages(["I am allergic to peanuts."], thread_id="earlier", user_id="ana")
    model = ScriptedChatModel(replies=["Nuts."])
    parts = [("system", "S."), ("placeholder", "{history}"), ("human", "{input}")]
    asks = ChatPromptTemplate(parts) | model
    trimmed = RunnablePassthrough.assign(history=lambda _: [], beside=asks)
    wrapped = memory.wrap(trimmed | RunnablePassthrough.assign(answer=asks))
    assert wrapped.invoke({"input": "What to avoid?"}, at())["input"] == "What to avoid?"
    beside, own = model.seen
    assert [[one.type for one in seen] for seen in (beside, own)] == [["system", "human"]] * 2
    assert (beside[0].text, own[0].text.count("peanuts")) == ("S.", 1)
    function = RunnableLambda(lambda given: given["history"][0].text)
    told = memory.wrap(RunnableBranch((bool, function), asks)).invoke({"input": "So?"}, at())
    assert "peanuts" in told, "what gets around the prompt"


def test_what_the_application_names_like_the_memory_is_its_own(memory):
    own, model = ("system", "{history}, {summary}, {messages}"), ScriptedChatModel(replies=["Yes."])
    parts = [own, ("placeholder", "{chat_history}"), ("human", "{question}")]
    names = {"input_messages_key": "question", "history_messages_key": "chat_history"}
    given = {"question": "Hi", "history": "asthma", "summary": "a sale", "messages": "5"}
    memory.wrap(ChatPromptTemplate(parts) | model, **names).invoke(given, at())
    assert model.seen[0][0].text == "asthma, a sale, 5"


def test_a_reply_of_langchains_cache_is_stored(memory):
    model = FakeListChatModel(responses=["Arr."], cache=InMemoryCache())
    wrapped = memory.wrap(model, recall=False)
    for thread in ("one", "two"):
        wrapped.invoke("Hello.", at(thread))
    [_, reply] = memory.history("two", user_id="ana").messages
    assert (reply.text, reply.usage_metadata) == ("Arr.", None)


def test_a_chain_that_rephrases_the_question_by_the_history_answers_with_it_too(memory):
    model, shelf = ScriptedChatModel(replies=["One.", "My bike?", "Two."]), Shelf(asked=[])
    parts = [("system", "Rephrase."), ("placeholder", "{chat_history}"), ("human", "{input}")]
    rephrased = ChatPromptTemplate(parts) | model | StrOutputParser() | shelf
    found = RunnableBranch((lambda given: not given["chat_history"], lambda _: []), rephrased)
    asks = ChatPromptTemplate([("system", "Look: {context}"), ("human", "{input}")]) | model
    chain = RunnablePassthrough.assign(context=found).assign(answer=asks | StrOutputParser())
    wrapped = memory.wrap(chain, recall=False)
    for said in ("Hello?", "And where is it?"):
        answer = wrapped.invoke({"input": said}, at())["answer"]
    assert (shelf.asked, answer) == (["My bike?"], "Two.")
    assert [one.text for one in model.seen[2][1:]] == ["Hello?", "One.", "And where is it?"]


@pytest.mark.parametrize("source", ["history", "messages"])
def test_a_history_that_a_step_gives_another_name_is_shown_once(memory, source):
    model = ScriptedChatModel(replies=["One.", "Two."])
    taken = {"past": itemgetter(source), "question": itemgetter("input")}
    parts = [("placeholder", "{past}"), *[("human", "{question}")][: source == "history"]]
    wrapped = memory.wrap(taken | ChatPromptTemplate(parts) | model, recall=False)
    for said in ("First?", "Second?"):
        wrapped.invoke(said, at())
    assert [one.text for one in model.seen[1]] == ["First?", "One.", "Second?"]


@pytest.mark.parametrize("own", [[], [("system", "Be kind.")]])
def test_a_cache_point_in_a_calls_system_message_reaches_the_model(memory, own):
    block = {"type": "text", "text": "The manual.", "cache_control": {"type": "ephemeral"}}
    model = ScriptedChatModel(replies=["Yes."])
    wrapped = memory.wrap(ChatPromptTemplate([*own, ("human", "{input}")]) | model)
    wrapped.invoke([SystemMessage([block]), HumanMessage("Hi?")], at())
    assert model.seen[0][0].content[-1] == block
