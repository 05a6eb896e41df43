"""What is compared. Each imports on use, so that a new process pays for nothing of the others.

python -m benchmarks.costs.systems NAME FOLDER     # opens it, takes a turn, says when it ended
"""

from __future__ import annotations

import sqlite3
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

LIVE = 40
HISTORY_TOKENS = 2000
_WHERE = {"user_id": "ana", "thread_id": "long"}
_HERE: Any = {"configurable": _WHERE}


class Said(NamedTuple):
    """What is said in a turn."""

    number: int
    question: str
    answer: str


class System(ABC):
    """One thread of one user, in a folder. Turns are taken by the thread that made it."""

    is_kept = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def fill(self, turns: Sequence[Said]) -> None:
        """Add turns in bulk."""

    @abstractmethod
    def take(self, said: Said) -> None:
        """Take a turn."""

    @abstractmethod
    def close(self) -> None:
        """Close the files."""


class _Called(System):
    """A system that calls the model, which answers at once."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        from benchmarks.scripted_model import AnsweringModel

        self.model = AnsweringModel(reply=lambda _: self.reply)

    def begin(self, said: Said) -> Any:
        """Return the user's message of a turn, after which the model says its answer."""
        from benchmarks.log.dialogue import Exchange

        one = Exchange(*said)
        self.reply = one.reply()
        return one.user()

    def list_messages(self, turns: Sequence[Said]) -> list[Any]:
        return [message for said in turns for message in (self.begin(said), self.reply)]


class Bare(_Called):
    """The model alone."""

    def fill(self, turns: Sequence[Said]) -> None:
        """Keep nothing."""

    def close(self) -> None:
        """Nothing is open."""

    def take(self, said: Said) -> None:
        self.model.invoke([self.begin(said)])


class Wrapped(_Called):
    """`memory.wrap`."""

    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__(folder)
        from langchain_convmem import ConversationMemory

        self.memory = ConversationMemory.open(folder / "memory.db")
        self._chain = self.memory.wrap(self.model, **options)

    def close(self) -> None:
        self.memory.close()

    def fill(self, turns: Sequence[Said]) -> None:
        from langchain_convmem.ids import make_ulid

        for said in turns:
            messages = self.list_messages([said])
            self.memory.add_messages(messages, **_WHERE, turn_id=make_ulid(), durable=False)

    def take(self, said: Said) -> None:
        self._chain.invoke(self.begin(said), _HERE)


class MessageHistory(_Called):
    """`RunnableWithMessageHistory`, in memory or in a file."""

    def __init__(self, folder: Path, *, is_kept: bool) -> None:
        super().__init__(folder)
        from langchain_core.chat_history import InMemoryChatMessageHistory

        from benchmarks.sql_history import HistoryFile, with_history

        self.is_kept = is_kept
        self._file = HistoryFile(folder / "history.db") if is_kept else None
        with warnings.catch_warnings(action="ignore"):  # deprecated; what applications still run
            memory = InMemoryChatMessageHistory()
        self._history = self._file.history("long") if self._file else memory
        self._chain = with_history(self.model, lambda _: self._history)

    def close(self) -> None:
        if self._file:
            self._file.close()

    def fill(self, turns: Sequence[Said]) -> None:
        self._history.add_messages(self.list_messages(turns))

    def take(self, said: Said) -> None:
        from benchmarks.sql_history import at_session, question

        self._chain.invoke(question(self.begin(said)), at_session("long"))


class Graph(_Called):
    """A graph of LangGraph with `SqliteSaver`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        from langgraph.checkpoint.sqlite import SqliteSaver
        from langgraph.graph import START, MessagesState, StateGraph

        self._db = sqlite3.connect(folder / "checkpoints.db", check_same_thread=False)
        self._db.execute("PRAGMA synchronous=FULL")
        made: Any = StateGraph(MessagesState)
        made.add_node("model", lambda state: {"messages": [self.model.invoke(state["messages"])]})
        made.add_edge(START, "model")
        self._graph = made.compile(checkpointer=SqliteSaver(self._db))

    def close(self) -> None:
        self._db.close()

    def fill(self, turns: Sequence[Said]) -> None:
        self._graph.update_state(_HERE, {"messages": self.list_messages(turns)}, as_node="model")

    def take(self, said: Said) -> None:
        self._graph.invoke({"messages": [self.begin(said)]}, _HERE)


class Session(System):
    """`SQLiteSession` of openai-agents; one worker, so that it has one connection."""

    def __init__(self, folder: Path, limit: int | None = None) -> None:
        super().__init__(folder)
        import asyncio
        from concurrent.futures import ThreadPoolExecutor

        from agents import SQLiteSession

        self._session, self._limit = SQLiteSession("long", folder / "session.db"), limit
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(1))

    def close(self) -> None:
        self._session.close()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def fill(self, turns: Sequence[Said]) -> None:
        items = [item for said in turns for item in _list_items(said)]
        self._loop.run_until_complete(self._session.add_items(items))

    def take(self, said: Said) -> None:
        self._loop.run_until_complete(self._take(*_list_items(said)))

    async def _take(self, user: Any, reply: Any) -> None:
        await self._session.get_items(self._limit)
        await self._session.add_items([user])
        await self._session.add_items([reply])


def _list_items(said: Said) -> list[Any]:
    """Return both messages as the SDK's runner stores them."""
    text = {"annotations": [], "text": said.answer, "type": "output_text", "logprobs": []}
    reply = {"id": f"msg_{said.number:048}", "content": [text], "role": "assistant"}
    user = {"content": said.question, "role": "user"}
    return [user, {**reply, "status": "completed", "type": "message"}]


RECALLING = "wrap, recall"
SYSTEMS: dict[str, Callable[[Path], System]] = {
    "bare": Bare,
    "wrap, whole thread": partial(Wrapped, recall=False),
    "wrap, 2,000 tokens": partial(Wrapped, recall=False, history_tokens=HISTORY_TOKENS),
    RECALLING: partial(Wrapped, history_tokens=HISTORY_TOKENS),
    "history in memory": partial(MessageHistory, is_kept=False),
    "history in SQL": partial(MessageHistory, is_kept=True),
    "LangGraph": Graph,
    "SQLiteSession": Session,
    f"SQLiteSession, last {LIVE}": partial(Session, limit=LIVE),
}

if __name__ == "__main__":
    system = SYSTEMS[sys.argv[1]](Path(sys.argv[2]))
    system.take(Said(10_000, "Where did Ana leave the key of the boat?", "At the harbour."))
    print("taken", flush=True)
    system.close()
