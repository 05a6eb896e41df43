"""The hosts of a turn, called alike: wrapped chains, conversations, graphs and agents.

One class a host; a contract runs every promise at each of them.
"""

from __future__ import annotations

import asyncio
from functools import reduce
from operator import add
from typing import Any, TypedDict

from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from langchain_convmem import TurnOptions
from langchain_convmem.integrations import ConversationMemoryMiddleware
from langchain_convmem.integrations.langgraph import (
    create_memory_graph,
    model_node,
    recall_node,
    record_node,
    summarize_node,
)


class App:
    """Something that runs turns by `invoke`, `ainvoke`, `stream` and `astream`."""

    @property
    def runnable(self):
        """What a chain around it would call."""
        return RunnableLambda(self.invoke, self.ainvoke)


async def _read(chunks):
    return [chunk async for chunk in chunks]


STREAMS = {
    "stream": lambda app, said, config: list(app.stream(said, config)),
    "astream": lambda app, said, config: asyncio.run(_read(app.astream(said, config))),
}
"""Both ways to stream a turn."""

RUNS = {
    "invoke": lambda app, said, config: app.invoke(said, config),
    "ainvoke": lambda app, said, config: asyncio.run(app.ainvoke(said, config)),
    **STREAMS,
}
"""Every way to run one."""


class Host:
    """A host of turns, by the name that the documentation has for it.

    `app` returns what runs turns with a model and options of a turn, `with_tool` what runs those in
    which the model may call a tool, and `structured` those that are answered by an object. In these
    two nothing is recalled.
    """

    def structured(self, memory, model, schema):
        return self.app(memory, model.with_structured_output(schema), recall=False)


class _Chain(App):
    def __init__(self, chain):
        self.chain = chain

    def invoke(self, said, config):
        return self.chain.invoke(said, config)

    async def ainvoke(self, said, config):
        return await self.chain.ainvoke(said, config)

    def stream(self, said, config):
        return self.chain.stream(said, config)

    def astream(self, said, config):
        return self.chain.astream(said, config)

    @property
    def runnable(self):
        return self.chain


class _LoopingChain(_Chain):
    """Calls the tool itself, as callers of a chain do."""

    def __init__(self, chain, tool):
        super().__init__(chain)
        self.tool = tool

    def invoke(self, said, config):
        reply = self.chain.invoke(said, config)
        while reply.tool_calls:
            reply = self.chain.invoke(self._results(reply), config)
        return reply

    async def ainvoke(self, said, config):
        reply = await self.chain.ainvoke(said, config)
        while reply.tool_calls:
            reply = await self.chain.ainvoke(self._results(reply), config)
        return reply

    def stream(self, said, config):
        chunks = list(self.chain.stream(said, config))
        while (reply := reduce(add, chunks)).tool_calls:
            yield from chunks
            chunks = list(self.chain.stream(self._results(reply), config))
        yield from chunks

    async def astream(self, said, config):
        chunks = await _read(self.chain.astream(said, config))
        while (reply := reduce(add, chunks)).tool_calls:
            for chunk in chunks:
                yield chunk
            chunks = await _read(self.chain.astream(self._results(reply), config))
        for chunk in chunks:
            yield chunk

    def _results(self, reply):
        return [self.tool.invoke(call) for call in reply.tool_calls]


class WrapHost(Host):
    """`memory.wrap`."""

    name = "wrap"

    def app(self, memory, model, **options):
        return _Chain(memory.wrap(model, **options))

    def with_tool(self, memory, model, tool):
        return _LoopingChain(memory.wrap(model.bind_tools([tool]), recall=False), tool)


class _Conversations(App):
    """Begins a conversation in the thread of each call, and sends to it."""

    def __init__(self, memory, model, options):
        self._memory, self._model, self._options = memory, model, options

    def talk(self, config: RunnableConfig) -> Any:
        configurable = config["configurable"]
        thread_id, user_id = configurable["thread_id"], configurable.get("user_id")
        return self._memory.conversation(
            self._model, thread_id=thread_id, user_id=user_id, **self._options
        )

    def invoke(self, said, config):
        return self.talk(config).send_message(said, config)

    async def ainvoke(self, said, config):
        return await self.talk(config).asend_message(said, config)

    def stream(self, said, config):
        return self.talk(config).stream(said, config)

    def astream(self, said, config):
        return self.talk(config).astream(said, config)


class ConversationHost(Host):
    """`memory.conversation`."""

    name = "conversation"

    def app(self, memory, model, **options):
        return _Conversations(memory, model, options)

    def with_tool(self, memory, model, tool):
        return self.app(memory, model, recall=False, preface={"tools": [tool]})


class _Graph(App):
    """A graph; what is said may be a list of messages."""

    def __init__(self, graph):
        self.graph = graph

    def _input(self, said):
        if isinstance(said, str):
            said = HumanMessage(said)
        return {"messages": [said] if isinstance(said, BaseMessage) else said}

    def invoke(self, said, config):
        return self.graph.invoke(self._input(said), config)

    async def ainvoke(self, said, config):
        return await self.graph.ainvoke(self._input(said), config)

    def stream(self, said, config):
        return self.graph.stream(self._input(said), config, stream_mode="messages")

    def astream(self, said, config):
        return self.graph.astream(self._input(said), config, stream_mode="messages")

    @property
    def runnable(self):
        return RunnableLambda(self._input) | self.graph


class GraphHost(Host):
    """`create_memory_graph`; with tools, its model is an agent."""

    name = "graph"

    def app(self, memory, model, **options):
        return _Graph(create_memory_graph(memory, model, **options))

    def with_tool(self, memory, model, tool):
        return self.app(memory, create_agent(model, [tool]), recall=False)


class NodesHost(Host):
    """A graph of one's own, with the nodes of the memory."""

    name = "nodes"

    def app(self, memory, model, **options):
        return self._graph(memory, model, **options)

    def with_tool(self, memory, model, tool):
        return self._graph(memory, model.bind_tools([tool]), tool, recall=False)

    def structured(self, memory, model, schema):
        return self._graph(memory, model.with_structured_output(schema), recall=False)

    def _graph(self, memory, model, *tools, checkpointer=None, **options):
        shared = {name: options[name] for name in ("recall", "remember") if name in options}
        stored = {name: options[name] for name in ("remember",) if name in options}
        builder = StateGraph(MessagesState)
        builder.add_node("recall", recall_node(memory, **shared))
        provider, chosen = options.pop("provider", None), TurnOptions(**options)
        builder.add_node("model", model_node(memory, model, provider=provider, options=chosen))
        builder.add_node("record", record_node(memory, **stored))
        builder.add_node("summarize", summarize_node(memory))
        builder.add_edge(START, "recall")
        builder.add_edge("recall", "model")
        if tools:
            builder.add_node("tools", ToolNode(tools))
            builder.add_conditional_edges(
                "model", tools_condition, {"tools": "tools", END: "record"}
            )
            builder.add_edge("tools", "model")
        else:
            builder.add_edge("model", "record")
        builder.add_edge("record", "summarize")
        builder.add_edge("summarize", END)
        return _Graph(builder.compile(checkpointer=checkpointer))


class AgentHost(Host):
    """`ConversationMemoryMiddleware` in an agent."""

    name = "agent"

    def app(self, memory, model, **options):
        return self._agent(memory, model, (), options)

    def with_tool(self, memory, model, tool):
        return self._agent(memory, model, (tool,), {"recall": False})

    def structured(self, memory, model, schema):
        return self._agent(
            memory, model, (), {"recall": False}, response_format=ToolStrategy(schema)
        )

    def _agent(self, memory, model, tools, options, **more):
        own = ConversationMemoryMiddleware(memory, **options)
        return _Graph(create_agent(model, list(tools), middleware=[own], **more))


class _NoPrompt(AgentMiddleware):
    """Leaves out the system message of deepagents, which is empty."""

    def wrap_model_call(self, request, handler):
        return handler(request.override(system_message=None))

    async def awrap_model_call(self, request, handler):
        return await handler(request.override(system_message=None))


class DeepAgentHost(AgentHost):
    """The same middleware in an agent of deepagents."""

    name = "deep agent"

    def _agent(self, memory, model, tools, options, **more):
        own = ConversationMemoryMiddleware(memory, **options)
        return _Graph(create_deep_agent(model, list(tools), middleware=[_NoPrompt(), own], **more))


HOSTS = {
    host.name: host()
    for host in (WrapHost, ConversationHost, GraphHost, NodesHost, AgentHost, DeepAgentHost)
}
"""Every host of a turn, by its name."""


class Text(TypedDict):
    """The state of a graph around a host."""

    text: str


def in_a_graph(app):
    """Return a graph with a context, whose only node calls a host."""

    def call(state: Text, config: RunnableConfig) -> dict[str, Any]:
        app.invoke(state["text"], config)
        return {}

    async def acall(state: Text, config: RunnableConfig) -> dict[str, Any]:
        await app.ainvoke(state["text"], config)
        return {}

    builder = StateGraph(Text, context_schema=dict)
    builder.add_node("call", RunnableLambda(call, acall))
    builder.add_edge(START, "call")
    builder.add_edge("call", END)
    return builder.compile()


def given(model):
    """Return all that a model got in its last call, as text."""
    return "\n".join(str(message.text) for message in model.seen[-1])
