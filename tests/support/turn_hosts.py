"""The hosts of a turn, called alike: wrapped chains, conversations, graphs and agents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

from graphs import says
from langchain.agents import create_agent
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langgraph.graph import END, START, MessagesState, StateGraph
from scripted_chat import ScriptedChatModel

from langchain_convmem import ConversationMemory
from langchain_convmem.integrations import ConversationMemoryMiddleware
from langchain_convmem.integrations.langgraph import MemoryState, memory_graph

Host = Callable[..., Runnable[Any, Any]]
"""Makes of a memory, a model and options something that is invoked with what the user says."""


def _wrapped(memory: ConversationMemory, model: Any, **options: Any) -> Runnable[Any, Any]:
    return memory.wrap(model, **options)


def _conversation(memory: ConversationMemory, model: Any, **options: Any) -> Runnable[Any, Any]:
    """Return what begins a conversation in the thread of each call, and sends to it."""

    def send(text: str, config: RunnableConfig) -> Any:
        configurable = config["configurable"]
        talk = memory.conversation(
            model,
            thread_id=configurable["thread_id"],
            user_id=configurable.get("user_id"),
            **options,
        )
        return talk.send_message(text, config)

    return RunnableLambda(send)


def _graph(schema: Any) -> Host:
    def make(memory: ConversationMemory, model: Any, **options: Any) -> Runnable[Any, Any]:
        graph = memory_graph(memory, model, state_schema=schema, **options)
        return RunnableLambda(lambda text: says(schema, text)) | graph

    return make


def _agent(memory: ConversationMemory, model: Any, **options: Any) -> Runnable[Any, Any]:
    own = ConversationMemoryMiddleware(memory, **options)
    agent = create_agent(model, [], middleware=[own])
    return RunnableLambda(lambda text: says(MessagesState, text)) | agent


HOSTS: dict[str, Host] = {
    "wrap": _wrapped,
    "conversation": _conversation,
    "graph of ids": _graph(MemoryState),
    "graph of messages": _graph(MessagesState),
    "agent": _agent,
}
"""Every host of a turn."""


class Text(TypedDict):
    """The state of a graph around a host."""

    text: str


def in_a_graph(host: Runnable[Any, Any]) -> Any:
    """Return a graph with a context, whose only node calls a host."""

    def call(state: Text, config: RunnableConfig) -> dict[str, Any]:
        host.invoke(state["text"], config)
        return {}

    builder = StateGraph(Text, context_schema=dict)
    builder.add_node("call", call)
    builder.add_edge(START, "call")
    builder.add_edge("call", END)
    return builder.compile()


def given(model: ScriptedChatModel) -> str:
    """Return all that a model got in its last call, as text."""
    return "\n".join(str(message.text) for message in model.seen[-1])
