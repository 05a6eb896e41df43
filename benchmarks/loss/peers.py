"""What people use instead, written the way its documentation tells."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda

from benchmarks.loss.models import ProviderError, ScriptedModel
from benchmarks.loss.systems import (
    Chat,
    CheckpointedSystem,
    RunnableChat,
    Setup,
    StateChat,
    StorageError,
    System,
    tool_loop,
)
from benchmarks.sql_history import HistoryFile, SQLHistory, at_session, question, with_history

__all__ = ["Checkpointer", "LangMem", "MessageHistory"]


# -- RunnableWithMessageHistory --------------------------------------------------------------


class MessageHistory(System):
    """`RunnableWithMessageHistory` over a SQL history."""

    name = "message-history"

    def open(self) -> None:
        self.file = HistoryFile(self.folder / "history.db")

    def close(self) -> None:
        self.file.close()

    def history(self, session_id: str) -> SQLHistory:
        return _BreakableHistory(self, session_id)

    def chat(self, setup: Setup) -> Chat:
        return _HistoryChat(self, setup)


class _BreakableHistory(SQLHistory):
    def __init__(self, system: MessageHistory, session_id: str) -> None:
        super().__init__(system.file, session_id)
        self._system = system

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        if self._system.is_broken:
            raise StorageError("the disk is full")
        super().add_messages(messages)


class _HistoryChat(RunnableChat):
    def __init__(self, system: MessageHistory, setup: Setup) -> None:
        model: Any = setup.answering()
        if setup.tools and not setup.by_caller:
            loop = tool_loop(setup)
            model = RunnableLambda(lambda prompt: loop(prompt.to_messages()))
        super().__init__(with_history(model, system.history))
        self._system = system

    def config(self, thread: str) -> RunnableConfig:
        return at_session(thread)

    def shaped(self, messages: Sequence[BaseMessage]) -> Any:
        return question(*messages)

    def edit(self, thread: str, said: HumanMessage) -> None:
        # A history can only be cleared and written anew; what was edited away is gone for good.
        history = self._system.history(thread)
        messages = history.messages
        at = [message.id for message in messages].index(said.id)
        history.clear()
        history.add_messages(messages[:at])
        self.ask(thread, said)


# -- a graph with a checkpointer -------------------------------------------------------------


class Checkpointer(CheckpointedSystem):
    """A LangGraph graph over `MessagesState` with the SQLite checkpointer."""

    name = "checkpointer"

    def open(self) -> None:
        self._db = sqlite3.connect(self.checkpoints, check_same_thread=False)
        self.saver = _breakable_saver()(self._db)
        self.saver.system = self

    def close(self) -> None:
        self._db.close()

    def chat(self, setup: Setup) -> Chat:
        return StateChat(_graph(self, setup), durability="sync")

    def add_model(self, builder: Any, setup: Setup) -> str:
        """Add what calls the model, and return the name of the node to begin with."""
        _add_model(builder, setup, "messages")
        return "model"


class LangMem(Checkpointer):
    """The same graph, with langmem's `SummarizationNode` before the model, as in its guide.

    Nothing here is long enough to be summarised.
    """

    name = "langmem"

    def add_model(self, builder: Any, setup: Setup) -> str:
        from langmem.short_term import SummarizationNode

        node = SummarizationNode(model=ScriptedModel(), max_tokens=100_000, max_summary_tokens=128)
        builder.add_node("summarize", node)
        builder.add_edge("summarize", "model")
        _add_model(builder, setup, "summarized_messages")
        return "summarize"


def _breakable_saver() -> Any:
    from langgraph.checkpoint.sqlite import SqliteSaver

    class BreakableSaver(SqliteSaver):
        """A checkpointer whose storage is gone while the system is broken."""

        system: System

        def put(self, *args: Any, **kwargs: Any) -> Any:
            self._refuse()
            return super().put(*args, **kwargs)

        def put_writes(self, *args: Any, **kwargs: Any) -> None:
            self._refuse()
            super().put_writes(*args, **kwargs)

        def _refuse(self) -> None:
            if self.system.is_broken:
                raise StorageError("the disk is full")

    return BreakableSaver


def _graph(system: Checkpointer, setup: Setup) -> Any:
    """Return the graph of LangGraph's own tutorials: a model, and tools while it calls any."""
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    class State(MessagesState):
        """The messages, what the model reads of them, and an object that it made."""

        summarized_messages: list[AnyMessage]
        context: dict[str, Any]
        structured_response: Any

    builder: Any = StateGraph(State)
    first = system.add_model(builder, setup)
    builder.add_edge(START, first)
    if setup.tools and not setup.by_caller:
        # Errors of a tool are raised, as in a node of one's own; ToolNode can also answer them.
        builder.add_node("tools", ToolNode(setup.tools, handle_tool_errors=False))
        builder.add_conditional_edges("model", tools_condition)
        builder.add_edge("tools", first)
    return builder.compile(checkpointer=system.saver)


def _add_model(builder: Any, setup: Setup, key: str) -> None:
    """Add the node that calls the model with the messages under a key of the state."""
    from langgraph.types import RetryPolicy

    answering = replace(setup, attempts=1).answering()

    def learned(reply: Any) -> dict[str, Any]:
        # An object goes to a key of its own, as `create_agent` puts it.
        name = "messages" if isinstance(reply, BaseMessage) else "structured_response"
        return {name: reply}

    def call(state: dict[str, Any]) -> dict[str, Any]:
        return learned(answering.invoke(state[key]))

    async def acall(state: dict[str, Any]) -> dict[str, Any]:
        return learned(await answering.ainvoke(state[key]))

    policy = RetryPolicy(max_attempts=setup.attempts, initial_interval=0.0, retry_on=ProviderError)
    builder.add_node("model", RunnableLambda(call, acall), retry_policy=policy)
