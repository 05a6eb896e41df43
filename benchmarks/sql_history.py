"""The history that the peers' `RunnableWithMessageHistory` is given: one table in a SQLite file.

LangChain's own SQL history lives in langchain-community, which is no longer maintained and is no
dependency here, so this is written anew, the way it works there: one row a message, the thread's
name and the message as JSON; `messages` reads all rows of the thread, `add_messages` inserts its
messages in one transaction. Two things are kinder than the original: the thread's rows have an
index, and one connection stays open, in WAL mode.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import Runnable, RunnableConfig

_SCHEMA = """
CREATE TABLE IF NOT EXISTS message_store (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, message TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS by_session ON message_store (session_id, id);
"""


class HistoryFile:
    """A file with the histories of any number of threads. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self.lock = threading.Lock()
        self.db = sqlite3.connect(path, check_same_thread=False, timeout=30.0)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=FULL")
        self.db.executescript(_SCHEMA)

    def close(self) -> None:
        self.db.close()

    def history(self, session_id: str) -> SQLHistory:
        return SQLHistory(self, session_id)


class SQLHistory(BaseChatMessageHistory):
    """The history of one thread."""

    def __init__(self, file: HistoryFile, session_id: str) -> None:
        self._file = file
        self._session_id = session_id

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # as LangChain's own do
        select = "SELECT message FROM message_store WHERE session_id = ? ORDER BY id"
        with self._file.lock:
            rows = self._file.db.execute(select, (self._session_id,)).fetchall()
        return messages_from_dict([json.loads(message) for (message,) in rows])

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        rows = [(self._session_id, json.dumps(message_to_dict(one))) for one in messages]
        insert = "INSERT INTO message_store (session_id, message) VALUES (?, ?)"
        with self._file.lock, self._file.db:
            self._file.db.executemany(insert, rows)

    def clear(self) -> None:
        delete = "DELETE FROM message_store WHERE session_id = ?"
        with self._file.lock, self._file.db:
            self._file.db.execute(delete, (self._session_id,))


def with_history(
    model: Runnable[Any, Any], history: Callable[[str], BaseChatMessageHistory]
) -> Runnable[Any, Any]:
    """Return the chain of LangChain's documentation: a prompt with a `history` slot, a model.

    In this form, not in the one that takes a list of messages, turns at once do not cut each
    other's questions off.
    """
    from langchain_core.runnables.history import RunnableWithMessageHistory

    slots = [MessagesPlaceholder("history"), MessagesPlaceholder("question")]
    chain = ChatPromptTemplate.from_messages(slots) | model
    with warnings.catch_warnings():
        # Deprecated, removal announced for langchain-core 2.0; still what many applications run.
        warnings.simplefilter("ignore")
        return RunnableWithMessageHistory(
            chain, history, input_messages_key="question", history_messages_key="history"
        )


def question(*said: BaseMessage) -> dict[str, Any]:
    """Return what such a chain is called with."""
    return {"question": list(said)}


def at_session(session_id: str) -> RunnableConfig:
    """Return the config of a call in a thread."""
    return {"configurable": {"session_id": session_id}}
