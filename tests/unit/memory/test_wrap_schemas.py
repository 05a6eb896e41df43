"""What a wrapped chain says of itself: schemas, settings of a call, graph."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import ConfigurableField, RunnableLambda, RunnableParallel
from pydantic import ValidationError
from scripted_chat import ScriptedChatModel, at

PROMPT = ChatPromptTemplate([MessagesPlaceholder("history"), MessagesPlaceholder("input")])


@pytest.fixture
def model():
    return ScriptedChatModel(replies=["Yes."])


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


def test_the_input_schema_refuses_what_the_chain_refuses(memory, model):
    with pytest.raises(ValidationError):
        memory.wrap(model).get_input_schema().model_validate(7)
    assert "anyOf" in memory.wrap(model).get_input_jsonschema()


def test_the_output_schema_is_the_inner_chains(memory, model):
    text = memory.wrap(PROMPT | model | StrOutputParser())
    assert text.get_output_jsonschema()["type"] == "string"
    output = memory.wrap(model).get_output_schema()
    assert output.model_validate(AIMessage("Yes.")).root.text == "Yes."


def test_the_output_schema_follows_what_the_call_chooses(memory, model):
    inner = model.configurable_alternatives(
        ConfigurableField(id="how"), text=model | StrOutputParser()
    )
    schema = memory.wrap(inner).get_output_schema(at(how="text"))
    assert schema.model_json_schema()["type"] == "string"


def test_a_call_may_be_configured_by_every_setting_that_the_schema_names(memory, model):
    inner = model.configurable_alternatives(ConfigurableField(id="llm"), other=model)
    chain = memory.wrap(PROMPT | inner)
    named = [spec.id for spec in chain.config_specs]
    assert sorted(named) == sorted({*named})
    assert {*named} == {"thread_id", "session_id", "user_id", "memory", "llm"}
    definitions = chain.config_schema().model_json_schema()["$defs"]
    assert {*definitions["Configurable"]["properties"]} == {*named}
    assert {*definitions["TurnOptions"]["properties"]} == {
        *("recall", "recall_tokens", "recall_k", "history_tokens"),
        *("context_tokens", "reserved_tokens", "profile_tokens", "remember"),
        "recall_place",
    }
    everything = at(recall=True, recall_tokens=50, recall_k=1, remember=False, llm="other")
    assert chain.invoke("Hello?", everything).text == "Yes."


def test_models_that_functions_use_are_configurable_through_the_chain(memory, model):
    inner = model.configurable_alternatives(ConfigurableField(id="llm"), other=model)
    chain = memory.wrap(RunnableLambda(lambda given: inner.invoke(given["messages"])))
    assert "llm" in {spec.id for spec in chain.config_specs}


def test_a_sequence_around_the_chain_names_its_settings_too(memory, model):
    chain = memory.wrap(PROMPT | model) | StrOutputParser()
    assert "thread_id" in {spec.id for spec in chain.config_specs}


def test_the_graph_shows_the_memory_before_what_it_wraps(memory, model):
    graph = memory.wrap(PROMPT | model).get_graph()
    names = {node.id: node.name for node in graph.nodes.values()}
    behind = {names[edge.source]: names[edge.target] for edge in graph.edges}
    assert behind == {
        "RememberingRunnableInput": "RememberingRunnable",
        "RememberingRunnable": "ChatPromptTemplate",
        "ChatPromptTemplate": "ScriptedChatModel",
        "ScriptedChatModel": "ScriptedChatModelOutput",
    }


def test_the_graph_of_a_chain_with_branches_is_connected(memory, model):
    parallel = RunnableParallel(a=PROMPT | model, b=PROMPT | model)
    chain = memory.wrap(parallel | (lambda found: found["a"])) | StrOutputParser()
    graph = chain.get_graph()
    first = graph.first_node()
    assert first is not None
    reached, edges = {first.id}, list(graph.edges)
    for _ in edges:
        reached |= {edge.target for edge in edges if edge.source in reached}
    assert reached == {*graph.nodes}
    assert "RememberingRunnable" in graph.draw_mermaid()


def test_the_prompts_of_the_chain_are_found_through_its_graph(memory, model):
    assert memory.wrap(PROMPT | model).get_prompts() == [PROMPT]


def test_the_graph_follows_what_the_call_chooses(memory, model):
    inner = model.configurable_alternatives(ConfigurableField(id="how"), long=PROMPT | model)
    chain = memory.wrap(inner)
    assert chain.get_prompts() == []
    assert chain.get_prompts(at(how="long")) == [PROMPT]
