"""A conversation as a Runnable: in chains, graphs, retries and traces."""

from __future__ import annotations

from typing import Annotated, TypedDict

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from scripted_chat import ProviderError, ScriptedChatModel

from langchain_convmem import Conversation, Preface


def chat(*replies, **settings):
    return Conversation(ScriptedChatModel(replies=list(replies)), **settings)


def texts(conversation):
    return [message.text for message in conversation.history]


# -- chains -------------------------------------------------------------------------------------


def test_it_stands_in_a_chain_that_is_invoked_and_streamed():
    said = chat("one two", "three four")
    chain = RunnableLambda(str.upper) | said | StrOutputParser()
    assert chain.invoke("a") == "one two"
    assert [piece for piece in chain.stream("b") if piece] == ["three ", "four"]
    assert texts(said) == ["A", "one two", "B", "three four"]


def test_a_retry_says_nothing_twice():
    said = chat(ProviderError("down"), "one")
    retried = said.with_retry(
        retry_if_exception_type=(ProviderError,), wait_exponential_jitter=False
    )
    assert retried.invoke("a").text == "one"
    assert texts(said) == ["a", "one"]


# -- graphs -------------------------------------------------------------------------------------


class State(TypedDict):
    messages: Annotated[list, add_messages]


def graph_of(said):
    async def anode(state):
        return {"messages": [await said.asend_message(state["messages"][-1])]}

    def node(state):
        return {"messages": [said.send_message(state["messages"][-1])]}

    builder = StateGraph(State)
    builder.add_node("talk", RunnableLambda(node, anode))
    builder.add_edge(START, "talk")
    builder.add_edge("talk", END)
    return builder.compile()


async def test_a_graph_shows_the_words_of_the_model_within():
    said = chat("one two")
    stream = graph_of(said).astream({"messages": [HumanMessage("a")]}, stream_mode="messages")
    shown = [chunk.text async for chunk, _ in stream]
    assert "".join(shown).replace(" ", "").startswith("onetwo")


# -- traces -------------------------------------------------------------------------------------


class Runs(BaseCallbackHandler):
    """Notes which run started within which."""

    def __init__(self):
        self.names, self.parents, self.tags = {}, {}, {}

    def _note(self, serialized, kwargs, run_id, parent_run_id, tags):
        self.names[run_id] = kwargs.get("name") or (serialized or {}).get("name")
        self.parents[run_id], self.tags[run_id] = parent_run_id, tags

    def on_chain_start(
        self, serialized, inputs, *, run_id, parent_run_id=None, tags=None, **kwargs
    ):
        self._note(serialized, kwargs, run_id, parent_run_id, tags)

    def on_chat_model_start(
        self, serialized, messages, *, run_id, parent_run_id=None, tags=None, **kwargs
    ):
        self._note(serialized, {"name": "model"}, run_id, parent_run_id, tags)

    def on_tool_start(
        self, serialized, input_str, *, run_id, parent_run_id=None, tags=None, **kwargs
    ):
        self._note(serialized, {"name": "tool"}, run_id, parent_run_id, tags)

    def tree(self):
        return [(self.names[run], self.names.get(parent)) for run, parent in self.parents.items()]


def shelf(kind: str) -> str:
    """Tell a shelf."""
    return "3"


@pytest.mark.parametrize("way", ["invoke", "stream", "handle"])
def test_models_and_tools_run_within_the_run_of_the_conversation(way):
    called = AIMessage("", tool_calls=[{"name": "shelf", "args": {"kind": "maps"}, "id": "1"}])
    said = chat(called, "On 3.", preface=Preface(tools=[shelf]))
    runs = Runs()
    config = {"callbacks": [runs], "tags": ["mine"], "run_name": "library"}
    if way == "invoke":
        said.invoke("Where?", config)
    elif way == "stream":
        list(said.stream("Where?", config))
    else:
        said.send_message_async("Where?", None, config).result(10)
    assert runs.tree() == [
        ("library", None),
        ("model", "library"),
        ("tool", "library"),
        ("model", "library"),
    ]
    assert all("mine" in tags for tags in runs.tags.values())
