"""Our log, the floor, and the peers, which are imported only where they are measured."""

from __future__ import annotations

import asyncio
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage

from benchmarks.log.dialogue import Exchange, exchange
from benchmarks.rounds import Thunk
from langchain_convmem import ConversationMemory
from langchain_convmem.ids import make_ulid
from langchain_convmem.logs.base import hash_message_id
from langchain_convmem.records import Draft, Metadata, ThreadKey
from langchain_convmem.views.codec import encode_body, encode_metadata, make_draft

USER_ID = "ana"
LIVE = 40
"""Messages that the floor and the peers are asked for."""
TOKENS = 2000
BUDGET = f"{TOKENS:,} tokens"


class Store(ABC):
    """Threads in one SQLite file, kept by one of the systems."""

    keeps_states = False
    """Whether the file holds the thread as it was after each write, so that bulk makes another."""

    @abstractmethod
    def __init__(self, path: Path) -> None: ...

    @abstractmethod
    def fill(self, thread: str, turns: int) -> None:
        """Add the first exchanges in bulk."""

    @abstractmethod
    def turn(self, thread: str, said: Exchange) -> Thunk:
        """Return a call that stores one turn in two commits; the messages exist before it."""

    @abstractmethod
    def loads(self, thread: str) -> Mapping[str, Thunk]:
        """Return the ways to load a thread."""

    @abstractmethod
    def close(self) -> None: ...


def file_bytes(path: Path) -> int:
    """Return the size of a SQLite file once its write-ahead log is folded in."""
    db = sqlite3.connect(path)
    try:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        db.close()
    return path.stat().st_size


def _drafts(said: Exchange) -> Iterator[Draft]:
    turn_id = make_ulid()
    yield make_draft(said.user(), turn_id=turn_id)
    yield make_draft(said.reply(), turn_id=turn_id, metadata=Metadata(timing=said.timing()))


class ConvMemStore(Store):
    """`SQLiteLog` behind a `ConversationMemory`."""

    def __init__(self, path: Path) -> None:
        self.memory = ConversationMemory.open(path)

    def close(self) -> None:
        self.memory.close()

    def fill(self, thread: str, turns: int) -> None:
        for start in range(0, turns, 500):
            numbers = range(start, min(start + 500, turns))
            drafts = [draft for number in numbers for draft in _drafts(exchange(number))]
            self.memory.log.append(ThreadKey(USER_ID, thread), drafts, durable=False)

    def turn(self, thread: str, said: Exchange) -> Thunk:
        log, key = self.memory.log, ThreadKey(USER_ID, thread)
        user, reply, timing = said.user(), said.reply(), said.timing()

        def commit() -> None:
            turn_id = make_ulid()
            log.append(key, [make_draft(user, turn_id=turn_id)])
            log.append(key, [make_draft(reply, turn_id=turn_id, metadata=Metadata(timing=timing))])

        return commit

    def loads(self, thread: str) -> Mapping[str, Thunk]:
        history = self.memory.history(thread, user_id=USER_ID)
        return {BUDGET: lambda: history.context(max_tokens=TOKENS)}


_TABLE = """
CREATE TABLE IF NOT EXISTS entries(
  place INTEGER PRIMARY KEY, thread BLOB NOT NULL, id BLOB NOT NULL, turn BLOB, role TEXT NOT NULL,
  key_hash INTEGER, body TEXT NOT NULL, metadata TEXT
);
CREATE INDEX IF NOT EXISTS entries_by_thread ON entries(thread);
"""
_INSERT = (
    "INSERT INTO entries(thread, id, turn, role, key_hash, body, metadata) "
    "VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_Row = tuple[bytes, bytes, bytes, str, int, str, str | None]


class FloorStore(Store):
    """One table, one connection, one INSERT a commit."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON"):
            self._db.execute(f"PRAGMA {pragma}")
        self._db.executescript(_TABLE)

    def close(self) -> None:
        self._db.close()

    def _rows(self, thread: str, said: Exchange) -> list[_Row]:
        name, turn = thread.encode(), make_ulid().encode()
        rows: list[_Row] = []
        for draft in _drafts(said):
            entry = make_ulid()
            key = hash_message_id(
                (draft.message.id if draft.message is not None else None) or entry
            )
            body, metadata = encode_body(draft), encode_metadata(draft.metadata)
            rows.append((name, entry.encode(), turn, draft.role, key, body, metadata))
        return rows

    def fill(self, thread: str, turns: int) -> None:
        self._db.execute("BEGIN")
        for number in range(turns):
            self._db.executemany(_INSERT, self._rows(thread, exchange(number)))
        self._db.execute("COMMIT")

    def turn(self, thread: str, said: Exchange) -> Thunk:
        user, reply = self._rows(thread, said)

        def commit() -> None:
            self._db.execute(_INSERT, user)
            self._db.execute(_INSERT, reply)

        return commit

    def loads(self, thread: str) -> Mapping[str, Thunk]:
        asked = "SELECT * FROM entries WHERE thread = ? ORDER BY place DESC LIMIT ?"
        limits = thread.encode(), LIVE
        return {f"last {LIVE}": lambda: self._db.execute(asked, limits).fetchall()}


class SessionStore(Store):
    """`SQLiteSession`: one object a thread, one worker so that each has one connection."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._session = import_module("agents").SQLiteSession
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(1))
        self._sessions: dict[str, Any] = {}

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def _thread(self, name: str) -> Any:
        if name not in self._sessions:
            self._sessions[name] = self._session(name, self._path)
        return self._sessions[name]

    def fill(self, thread: str, turns: int) -> None:
        items = [item for n in range(turns) for item in _items(exchange(n))]
        self._loop.run_until_complete(self._thread(thread).add_items(items))

    def turn(self, thread: str, said: Exchange) -> Thunk:
        session = self._thread(thread)
        user, reply = _items(said)

        async def commit() -> None:
            await session.add_items([user])
            await session.add_items([reply])

        return lambda: self._loop.run_until_complete(commit())

    def loads(self, thread: str) -> Mapping[str, Thunk]:
        session, run = self._thread(thread), self._loop.run_until_complete
        return {
            f"last {LIVE}": lambda: run(session.get_items(limit=LIVE)),
            "all": lambda: run(session.get_items()),
        }


def _items(said: Exchange) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return both messages as the SDK's runner stores them."""
    text = {"annotations": [], "text": said.answer, "type": "output_text", "logprobs": []}
    reply = {"id": said.reply().id, "content": [text], "role": "assistant"}
    user = {"content": said.question, "role": "user"}
    return user, {**reply, "status": "completed", "type": "message"}


class SaverStore(Store):
    """`SqliteSaver`: every put stores the whole list of messages."""

    keeps_states = True

    def __init__(self, path: Path) -> None:
        self._empty = import_module("langgraph.checkpoint.base").empty_checkpoint
        saver = import_module("langgraph.checkpoint.sqlite").SqliteSaver
        self._db = sqlite3.connect(path, check_same_thread=False)
        self._saver = saver(self._db)
        self._messages: dict[str, list[BaseMessage]] = {}
        self._configs: dict[str, dict[str, Any]] = {}

    def close(self) -> None:
        self._db.close()

    def fill(self, thread: str, turns: int) -> None:
        said = map(exchange, range(turns))
        self._put(thread, *(message for one in said for message in (one.user(), one.reply())))

    def turn(self, thread: str, said: Exchange) -> Thunk:
        user, reply = said.user(), said.reply()

        def commit() -> None:
            self._put(thread, user)
            self._put(thread, reply)

        return commit

    def _put(self, thread: str, *added: BaseMessage) -> None:
        messages = self._messages.setdefault(thread, [])
        messages += added
        step = len(messages)
        checkpoint = {
            **self._empty(),
            "channel_values": {"messages": messages},
            "channel_versions": {"messages": step},
        }
        metadata = {"source": "loop", "step": step, "parents": {}}
        config = self._configs.get(thread, _config(thread))
        self._configs[thread] = self._saver.put(config, checkpoint, metadata, {"messages": step})

    def loads(self, thread: str) -> Mapping[str, Thunk]:
        return {"all": lambda: self._saver.get_tuple(_config(thread))}


def _config(thread: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


STORES: dict[str, type[Store]] = {
    "floor": FloorStore,
    "convmem": ConvMemStore,
    "openai-agents": SessionStore,
    "langgraph": SaverStore,
}
