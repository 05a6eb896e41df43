"""Memories that summarise: ours, and what LangChain and langmem offer, as their pages tell.

All of them get the same conversation, the same summariser and marks that mean the same.
"""

from __future__ import annotations

import sqlite3
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig

from benchmarks.loss.models import ScriptedModel
from benchmarks.loss.systems import Opened, UnsupportedError
from langchain_convmem import ConversationMemory, SummarizingMemory
from langchain_convmem.summarizing import SummarySettings

__all__ = ["SYSTEMS", "Marks", "Summarising"]

_HERE: RunnableConfig = {"configurable": {"thread_id": "t", "user_id": "ana"}}
_LARGE_WINDOW = 100_000


@dataclass(frozen=True, slots=True)
class Marks:
    """When to summarise, and what to keep.

    Attributes:
        high: Tokens from which on a summary is due.
        low: Tokens of the latest conversation that stay.
    """

    high: int = 4000
    low: int = 1000

    def settings(self) -> SummarySettings:
        """Return them as ours."""
        return SummarySettings(
            trigger=("tokens", self.high),
            keep=("tokens", self.low),
            max_summary_tokens=2000,
            first_pause_s=0.001,
        )


class Summarising(Opened):
    """A chat over files in a folder, with a summariser. A context manager."""

    name: ClassVar[str]
    keeps_threads = True
    """Whether it stores threads itself, so that two may write to one."""

    def __init__(
        self, folder: Path, marks: Marks, summarizer: ScriptedModel, model: ScriptedModel
    ) -> None:
        self.folder = folder
        self.marks = marks
        self.summarizer = summarizer
        self.model = model
        self.open()

    @abstractmethod
    def go_on(self, messages: Sequence[BaseMessage]) -> None:
        """Say messages, summarise if that is due, and call the model with what comes of it."""

    def reopen(self) -> None:
        if not self.keeps_threads:
            raise UnsupportedError(f"{self.name} stores nothing")
        super().reopen()

    def another(self, model: ScriptedModel) -> Summarising:
        """Return the same chat in the hands of another writer, such as another process."""
        if not self.keeps_threads:
            raise UnsupportedError(f"{self.name} stores nothing")
        return type(self)(self.folder, self.marks, self.summarizer, model)


# -- ours ------------------------------------------------------------------------------------


class Wrapped(Summarising):
    """`memory.wrap(model)` with a summariser.

    What happened before the latest message is added to the thread and summarised where that is due,
    as a worker does; then the user's message goes through the wrapped model. In the middle of a
    tool loop the model gets `history.messages`, as in a node of a graph.
    """

    name = "convmem"

    def open(self) -> None:
        self.memory = ConversationMemory.open(
            self.folder / "memory.db",
            summarizer=self.summarizer,
            summary_settings=self.marks.settings(),
            summarize_when="foreground",
        )
        self._chain = self.memory.wrap(self.model, recall=False)

    def close(self) -> None:
        self.memory.close()

    def go_on(self, messages: Sequence[BaseMessage]) -> None:
        *before, last = messages
        if isinstance(last, HumanMessage):
            self._add(before)
            self._chain.invoke(last, _HERE)
        else:
            self._add(messages)
            self.model.invoke(self.memory.history("t", user_id="ana").messages)

    def _add(self, messages: Sequence[BaseMessage]) -> None:
        if messages:
            self.memory.add_messages(list(messages), thread_id="t", user_id="ana")
            self.memory.summarize("t", user_id="ana")


class Step(Summarising):
    """`SummarizingMemory() | model`; the application passes the whole conversation each time."""

    name = "convmem-step"
    keeps_threads = False

    def open(self) -> None:
        step = SummarizingMemory(summarizer=self.summarizer, settings=self.marks.settings())
        self._chain: Runnable[Any, Any] = step | self.model
        self._said: list[BaseMessage] = []

    def close(self) -> None:
        """Do nothing: there are no files."""

    def go_on(self, messages: Sequence[BaseMessage]) -> None:
        known = {one.id for one in self._said}
        self._said += [one for one in messages if one.id not in known]
        self._said.append(self._chain.invoke(list(self._said)))


# -- LangChain and langmem -------------------------------------------------------------------


class _Graph(Summarising):
    """An agent or graph with LangGraph's SQLite checkpointer."""

    def open(self) -> None:
        from langgraph.checkpoint.sqlite import SqliteSaver

        self._db = sqlite3.connect(self.folder / "checkpoints.db", check_same_thread=False)
        self._graph = self.graph(SqliteSaver(self._db))

    def close(self) -> None:
        self._db.close()

    @abstractmethod
    def graph(self, saver: Any) -> Any:
        """Return the graph that answers."""

    def go_on(self, messages: Sequence[BaseMessage]) -> None:
        self._graph.invoke({"messages": list(messages)}, _HERE, durability="sync")


class Middleware(_Graph):
    """`create_agent` with `SummarizationMiddleware`; all but the trigger as it comes."""

    name = "middleware"

    def graph(self, saver: Any) -> Any:
        from langchain.agents import create_agent
        from langchain.agents.middleware import SummarizationMiddleware

        middleware: Any = SummarizationMiddleware(
            model=self.summarizer, trigger=("tokens", self.marks.high), **self.options()
        )
        return create_agent(self.model, [], middleware=[middleware], checkpointer=saver)

    def options(self) -> dict[str, Any]:
        """Return what differs from the defaults."""
        return {}


class BestMiddleware(Middleware):
    """The same, told to keep tokens and to trim nothing before the summary."""

    name = "middleware-best"

    def options(self) -> dict[str, Any]:
        return {"keep": ("tokens", self.marks.low), "trim_tokens_to_summarize": None}


class Langmem(_Graph):
    """langmem's `SummarizationNode` before the model, with one budget, as in its example."""

    name = "langmem"

    def graph(self, saver: Any) -> Any:
        from langgraph.graph import START, MessagesState, StateGraph
        from langmem.short_term import SummarizationNode

        class State(MessagesState):
            context: dict[str, Any]
            summarized_messages: list[Any]

        def answer(state: State) -> dict[str, Any]:
            return {"messages": [self.model.invoke(state["summarized_messages"])]}

        graph: Any = StateGraph(State)
        graph.add_node("summarize", SummarizationNode(model=self.summarizer, **self.options()))
        graph.add_node("answer", answer)
        graph.add_edge(START, "summarize")
        graph.add_edge("summarize", "answer")
        return graph.compile(checkpointer=saver)

    def options(self) -> dict[str, Any]:
        """Return the budgets."""
        return {"max_tokens": self.marks.high}


class BestLangmem(Langmem):
    """The same, with a window in which every conversation here fits at once."""

    name = "langmem-best"

    def options(self) -> dict[str, Any]:
        return {"max_tokens": _LARGE_WINDOW, "max_tokens_before_summary": self.marks.high}


SYSTEMS: dict[str, type[Summarising]] = {
    kind.name: kind for kind in (Wrapped, Step, Middleware, BestMiddleware, Langmem, BestLangmem)
}
