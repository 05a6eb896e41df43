"""The peers, each imported only when it is measured; they are not the package's dependencies."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage

from benchmarks.log.dialogue import Exchange, exchange
from benchmarks.log.stores import LIVE, Store, Thunk

__all__ = ["PEERS", "SaverStore", "SessionStore", "is_installed"]


class SessionStore:
    """`SQLiteSession`: one object a thread, one worker so that each has one connection."""

    keeps_states = False

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

    def fill(self, thread: str, first: int, turns: int) -> None:
        items = [item for n in range(first, first + turns) for item in _items(exchange(n))]
        self._loop.run_until_complete(self._thread(thread).add_items(items))

    def turn(self, thread: str, said: Exchange) -> Thunk:
        session = self._thread(thread)
        user, reply = _items(said)

        async def commit() -> None:
            await session.add_items([user])
            await session.add_items([reply])

        return lambda: self._loop.run_until_complete(commit())

    def loads(self, thread: str) -> Mapping[str, Thunk]:
        session = self._thread(thread)

        def load(limit: int | None) -> int:
            return len(self._loop.run_until_complete(session.get_items(limit=limit)))

        return {"last 40": lambda: load(LIVE), "all": lambda: load(None)}


def _items(said: Exchange) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return both messages as the SDK's runner stores them."""
    text = {"annotations": [], "text": said.answer, "type": "output_text", "logprobs": []}
    reply = {
        "id": said.reply().id,
        "content": [text],
        "role": "assistant",
        "status": "completed",
        "type": "message",
    }
    return {"content": said.question, "role": "user"}, reply


class SaverStore:
    """`SqliteSaver`: every put stores the whole list of messages."""

    keeps_states = True

    def __init__(self, path: Path) -> None:
        self._base = import_module("langgraph.checkpoint.base")
        self._db = sqlite3.connect(path, check_same_thread=False)
        self._saver = import_module("langgraph.checkpoint.sqlite").SqliteSaver(self._db)
        self._messages: dict[str, list[BaseMessage]] = {}
        self._configs: dict[str, dict[str, Any]] = {}

    def close(self) -> None:
        self._db.close()

    def fill(self, thread: str, first: int, turns: int) -> None:
        said = map(exchange, range(first, first + turns))
        self._put(thread, [message for one in said for message in (one.user(), one.reply())])

    def turn(self, thread: str, said: Exchange) -> Thunk:
        user, reply = said.user(), said.reply()

        def commit() -> None:
            self._put(thread, [user])
            self._put(thread, [reply])

        return commit

    def _put(self, thread: str, added: list[BaseMessage]) -> None:
        messages = self._messages.setdefault(thread, [])
        messages += added
        config = self._configs.get(thread, _config(thread))
        step = len(messages)
        checkpoint = {
            **self._base.empty_checkpoint(),
            "channel_values": {"messages": messages},
            "channel_versions": {"messages": step},
        }
        metadata = {"source": "loop", "step": step, "parents": {}}
        self._configs[thread] = self._saver.put(config, checkpoint, metadata, {"messages": step})

    def loads(self, thread: str) -> Mapping[str, Thunk]:
        def load() -> int:
            found = self._saver.get_tuple(_config(thread))
            return len(found.checkpoint["channel_values"]["messages"])

        return {"all": load}


def _config(thread: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


PEERS: dict[str, tuple[Callable[[Path], Store], str]] = {
    "openai-agents": (SessionStore, "agents"),
    "langgraph": (SaverStore, "langgraph.checkpoint.sqlite"),
}
"""What makes a peer's store, and the module that it needs."""


def is_installed(module: str) -> bool:
    try:
        import_module(module)
    except ImportError:
        return False
    return True
