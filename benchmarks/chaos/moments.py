"""Bad moments without a death: cancelled tasks, a locked file, a clock that jumps."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import threading
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from langchain_core.messages import HumanMessage

from benchmarks.chaos.drill import (
    DrillReport,
    compare,
    open_memory,
    read_texts,
    repeat,
    verify,
)
from langchain_convmem import SQLiteLog
from langchain_convmem.offline import OfflineChatModel
from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.context import build_context
from langchain_convmem.views.live import find_live_entries

KEY = ThreadKey("ana", "chat")
_TURNS = 6
_CONFIG: Any = {"configurable": {"user_id": "ana", "thread_id": "chat"}}


# -- cancellations --------------------------------------------------------------------------------


def run_cancellations(runs: int, seed: int) -> DrillReport:
    """Cancel tasks at any await of a turn; what was acknowledged stays, once, and in order."""
    kinds = ("invoke", "stream", "append")
    return repeat(
        "cancellations", runs, seed, {kind: partial(_run_cancelled, kind) for kind in kinds}
    )


def _run_cancelled(kind: str, folder: Path, chance: random.Random) -> list[str]:
    return asyncio.run(_cancel_turns(folder, kind, chance))


async def _cancel_turns(folder: Path, kind: str, chance: random.Random) -> list[str]:
    memory = open_memory(folder)
    chain = memory.wrap(OfflineChatModel())
    done: list[int] = []

    async def take_turn(number: int) -> None:
        said = f"question {number}"
        if kind == "invoke":
            await chain.ainvoke(said, _CONFIG)
        elif kind == "stream":
            async for _ in chain.astream(said, _CONFIG):
                pass
        else:
            await memory.aadd_messages(
                [HumanMessage(said), HumanMessage(said + "!")], thread_id="chat", user_id="ana"
            )
        done.append(number)

    for number in range(_TURNS):
        task = asyncio.create_task(take_turn(number))
        for _ in range(chance.randint(0, 25)):
            await asyncio.sleep(0 if chance.random() < 0.7 else 0.002)
        if chance.random() < 0.6:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    await chain.ainvoke("last", _CONFIG)
    entries = memory.log.entries(KEY)
    memory.close()
    return _judge_turns(entries, done, is_turn=kind != "append") + verify(folder / "memory.db")


def _judge_turns(entries: list[Entry], done: list[int], *, is_turn: bool) -> list[str]:
    texts = read_texts(entries)
    found = compare(texts, [f"question {n}" for n in done])
    if not is_turn:
        halves = [(f"question {n}" in texts) + (f"question {n}!" in texts) for n in range(_TURNS)]
        return found + ["a partial batch"] * halves.count(1)
    live = find_live_entries(entries)
    answered = {one.turn_id for one in live if one.role == "assistant"}
    asked = {text: one.turn_id for one in live if one.role == "user" for text in one.contents}
    lost = [n for n in done if asked.get(f"question {n}") not in answered]
    build_context(entries)  # raises where no provider would take it
    return found + [f"question {n} lost its answer" for n in lost]


# -- locks ----------------------------------------------------------------------------------------


def run_locks(runs: int, seed: int) -> DrillReport:
    """Hold the file's lock from outside while several threads write; nobody loses or doubles."""
    return repeat("locks", runs, seed, {"locked": _write_locked})


def _write_locked(folder: Path, chance: random.Random) -> list[str]:
    log = SQLiteLog(folder / "memory.db")
    done: list[str] = []

    def write(name: int) -> None:
        for n in range(4):
            text = f"{name}/{n}"
            log.append(KEY, [make_draft(HumanMessage(text, id=text))])
            done.append(text)

    writers = [threading.Thread(target=write, args=(name,)) for name in range(3)]
    with closing(sqlite3.connect(folder / "memory.db", isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        for writer in writers:
            writer.start()
        threading.Event().wait(chance.uniform(0.0, 0.15))
        holder.execute("ROLLBACK")
    for writer in writers:
        writer.join()
    found = compare(read_texts(log.entries(KEY)), done)
    log.close()
    return found + ([] if len(done) == 12 else ["a writer gave up"]) + verify(folder / "memory.db")


# -- clocks ---------------------------------------------------------------------------------------


def run_clocks(runs: int, seed: int) -> DrillReport:
    """Let the clock jump by up to a year between writes; order is the order of writing."""
    return repeat("clocks", runs, seed, {"jumps": _write_in_time})


def _write_in_time(folder: Path, chance: random.Random) -> list[str]:
    year_s = 365 * 86_400
    base = 1_800_000_000
    memory = open_memory(folder)
    with mock.patch("time.time") as seconds, mock.patch("time.time_ns") as nanoseconds:
        for n in range(12):
            now = base + chance.randint(-year_s, year_s)
            seconds.return_value, nanoseconds.return_value = float(now), now * 1_000_000_000
            if chance.random() < 0.3:
                memory.close()
                memory = open_memory(folder)
            memory.wrap(OfflineChatModel()).invoke(f"question {n}", _CONFIG)
    texts = read_texts(memory.log.entries(KEY))
    shown = memory.history("chat", user_id="ana").messages
    view = [str(one.content) for one in shown if isinstance(one, HumanMessage)]
    memory.close()
    wanted = [f"question {n}" for n in range(12)]
    found = [] if texts == wanted else ["entries are out of order, or missing"]
    found += [] if view == wanted else ["the view is out of order"]
    return found + verify(folder / "memory.db")
