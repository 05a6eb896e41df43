from __future__ import annotations

import asyncio

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda
from langgraph.graph import END, START, MessagesState, StateGraph
from scripted_chat import ProviderError
from talks import chat, texts
from watched_runs import RunWatcher


def test_an_input_in_parts_is_added_up():
    talk = chat("One.", "Two.")
    assert "".join(one.text for one in talk.transform(iter(["Hel", "lo"]))) == "One."

    async def parts():
        for part in ("Hel", "lo"):
            yield part

    async def read():
        return "".join([one.text async for one in talk.atransform(parts())])

    assert asyncio.run(read()) == "Two."
    assert texts(talk) == ["Hello", "One.", "Hello", "Two."]
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
    assert texts(talk) == ["a", "A."]
    talk = chat("A.", ProviderError("down"), "C.")
    found = send(talk, return_exceptions=True)
    assert [type(one) for one in found] == [AIMessage, ProviderError, AIMessage]
    assert texts(talk) == ["a", "A.", "c", "C."]


def test_it_stands_in_a_chain_that_is_invoked_and_streamed():
    said = chat("one two", "three four")
    chain = RunnableLambda(str.upper) | said | StrOutputParser()
    assert chain.invoke("a") == "one two"
    assert [piece for piece in chain.stream("b") if piece] == ["three ", "four"]
    assert texts(said) == ["A", "one two", "B", "three four"]


async def test_a_graph_shows_the_words_of_the_model_within():
    said = chat("one two")

    async def node(state):
        return {"messages": [await said.asend_message(state["messages"][-1])]}

    builder = StateGraph(MessagesState)
    builder.add_node("talk", node)
    builder.add_edge(START, "talk")
    builder.add_edge("talk", END)
    asked = {"messages": [HumanMessage("a")]}
    stream = builder.compile().astream(asked, stream_mode="messages")
    shown = [chunk.text async for chunk, _ in stream]
    assert "".join(shown).replace(" ", "").startswith("onetwo")


class ToolWatcher(RunWatcher):
    """Keeps starts of tools as well."""

    def on_tool_start(self, serialized, input_str, **run):
        self._started("tool", run)


def shelf(kind: str) -> str:
    """Tell a shelf."""
    return "3"


SENDS = {
    "invoke": lambda talk, config: talk.invoke("Where?", config),
    "stream": lambda talk, config: list(talk.stream("Where?", config)),
    "handle": lambda talk, config: talk.send_message_async("Where?", None, config).result(10),
}


@pytest.mark.parametrize("way", SENDS)
def test_models_and_tools_run_within_the_run_of_the_conversation(way):
    called = AIMessage("", tool_calls=[{"name": "shelf", "args": {"kind": "maps"}, "id": "1"}])
    watcher = ToolWatcher()
    config = {"callbacks": [watcher], "tags": ["mine"], "run_name": "library"}
    SENDS[way](chat(called, "On 3.", preface={"tools": [shelf]}), config)
    (top, library), *within = watcher.runs.items()
    assert (library["name"], library["parent_run_id"]) == ("library", None)
    assert [run["kind"] for _, run in within] == ["model", "tool", "model"]
    assert {run["parent_run_id"] for _, run in within} == {top}
    assert all("mine" in run["tags"] for run in watcher.runs.values())
