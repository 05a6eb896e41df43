from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompt_values import ChatPromptValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from scripted_chat import ProviderError, ScriptedChatModel
from summaries import ScriptedSummarizer, bare, bare_texts

from langchain_convmem import SummarizingMemory, SummarySettings
from langchain_convmem.errors import ConfigError
from langchain_convmem.views.messages import NOTED_SOURCE, SUMMARY_SOURCE
from tests.fuzz.validators import VALIDATORS

SETTINGS = SummarySettings(trigger=("messages", 4), keep=("messages", 2), max_summary_tokens=4000)

TOPICS = ["tea", "coffee", "bread", "salt", "pepper", "rice"]
"""No names, so that a summary may tell of them in any words."""


def talk(exchanges):
    said = []
    for topic in TOPICS[:exchanges]:
        said += [HumanMessage(f"about {topic}"), AIMessage(f"{topic} it is")]
    return said


def summarising(*replies, **options):
    return SummarizingMemory(summarizer=ScriptedSummarizer(*replies), settings=SETTINGS, **options)


SHAPES = {
    "a list": (lambda said: said, lambda value: value),
    "a prompt value": (lambda said: ChatPromptValue(messages=said), lambda value: value.messages),
    "a dict": (lambda said: {"messages": said, "more": 7}, lambda value: value["messages"]),
}
CALLS = {
    "invoke": lambda step, value: step.invoke(value),
    "ainvoke": lambda step, value: asyncio.run(step.ainvoke(value)),
    "batch": lambda step, value: step.batch([value])[0],
    "stream": lambda step, value: next(iter(step.stream(value))),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_shape_comes_out_shorter(shape, call):
    wrap, unwrap = SHAPES[shape]
    before = [SystemMessage("Be kind."), *talk(3), HumanMessage("pending")]
    value = wrap(list(before))
    found = CALLS[call](summarising("They talked."), value)
    assert type(found) is type(value)
    latest = bare_texts(before[-3:])
    assert bare_texts(unwrap(found)) == ["Be kind.", "They talked.", *latest]
    assert unwrap(value) == before
    assert shape in ("a list", "a prompt value") or "7" in str(found)


@pytest.mark.parametrize("value", ["text", 7, None, {"other": []}, {"messages": "x"}, object()])
def test_what_holds_no_messages_is_refused(value):
    with pytest.raises(ConfigError, match="SummarizingMemory takes"):
        summarising().invoke(value)


def test_a_summary_that_comes_back_in_the_next_call_is_continued():
    step = summarising()
    shorter = step.invoke(talk(3))
    found = step.invoke([*shorter, *talk(2)])
    assert "about tea" in step.summarizer.requests[1].previous
    marks = [message.additional_kwargs.get("source") for message in found]
    assert marks == [SUMMARY_SOURCE, NOTED_SOURCE, *marks[2:]]
    assert not any(marks[2:])
    assert all(text in bare(found[0].text) for text in ("about tea", "about coffee", "about bread"))


def test_if_the_summariser_fails_the_messages_pass_and_the_next_call_tries_again():
    step = summarising(ProviderError("overloaded"), "They talked.")
    whole = talk(3)
    assert step.invoke(whole) == whole
    assert bare_texts(step.invoke(whole))[0] == "They talked."


turns = st.lists(
    st.tuples(st.integers(0, 2), st.booleans(), st.integers(1, 40)), min_size=1, max_size=10
)


@settings(max_examples=40)
@given(turns)
def test_at_every_turn_what_passes_is_valid_and_nothing_is_lost(script):
    step = summarising()
    said: list[AnyMessage] = []
    for number, (tools, waits, length) in enumerate(script):
        said.append(HumanMessage(f"question{number}. " + "x" * length, id=f"q{number}"))
        names = [f"c{number}-{tool}" for tool in range(tools)]
        if names:
            calls = [{"name": "look", "args": {}, "id": name} for name in names]
            said.append(AIMessage("", tool_calls=calls, id=f"l{number}"))
            said += [ToolMessage("seen", tool_call_id=n, id=f"r{n}") for n in names]
        if not waits:
            said.append(AIMessage(f"answer{number}.", id=f"a{number}"))
        found = step.invoke(said)
        rest = [one for one in found if "source" not in one.additional_kwargs]
        assert rest == said[len(said) - len(rest) :]
        gone = said[: len(said) - len(rest)]
        assert all(one.text in "\n".join(bare_texts(found[:1])) for one in gone)
        assert [fault for fault in VALIDATORS["openai"](rest) if "call" in fault] == []
        assert not waits or rest[-1] is said[-1]


async def test_an_async_function_summarises_where_it_can_be_awaited():
    async def summarise(messages):
        return "They talked."

    step = SummarizingMemory(summarizer=summarise, settings=SETTINGS)
    value = {"messages": talk(3)}
    for part in (step, step.as_node()):
        with pytest.raises(ConfigError, match="ainvoke"):
            part.invoke(value)
        assert "They talked." in bare_texts((await part.ainvoke(value))["messages"])


class Kept(MessagesState):
    more: int


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_a_node_replaces_the_messages_of_a_real_graph(way):
    step = summarising("They talked.")
    model = ScriptedChatModel(replies=["Fine."])
    answer = lambda state: {"messages": [model.invoke(state["messages"])]}  # noqa: E731
    builder = StateGraph(Kept).add_sequence([("summarize", step.as_node()), ("answer", answer)])
    graph = builder.add_edge(START, "summarize").compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    for number in range(3):
        said = {"messages": [HumanMessage(f"about {TOPICS[number]}")], "more": 7}
        call = graph.invoke(said, config) if way == "invoke" else None
        state = call or asyncio.run(graph.ainvoke(said, config))
    latest = ["about coffee", "Fine.", "about bread", "Fine."]
    assert bare_texts(state["messages"]) == ["They talked.", *latest]
    assert state["more"] == 7
    assert len({message.id for message in state["messages"]}) == 6
