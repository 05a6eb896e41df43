"""Bad moments without a death: cancelled tasks, a locked file, a clock that jumps."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import threading
from collections import Counter
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import HumanMessage

from benchmarks.chaos.drill import DrillReport, make_folder, measure, run_apart, show_drill
from langchain_convmem import ConversationMemory, SQLiteLog
from langchain_convmem.offline import OfflineChatModel
from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.context import build_context
from langchain_convmem.views.live import find_live_entries

KEY = ThreadKey("ana", "chat")
_TURNS = 6
_CONFIG: Any = {"configurable": {"user_id": "ana", "thread_id": "chat"}}


def _open_memory(folder: Path) -> ConversationMemory:
    return ConversationMemory.open(
        folder / "memory.db", embeddings=DeterministicFakeEmbedding(size=16)
    )


# -- cancellations --------------------------------------------------------------------------------


def run_cancellations(runs: int, seed: int) -> DrillReport:
    """Cancel tasks at any await of a turn; what was acknowledged stays, once, and in order."""
    with measure("cancellations") as report:
        for number in range(runs):
            chance = random.Random(seed * 1_000_003 + number)
            kind = ("invoke", "stream", "append")[number % 3]
            with make_folder() as folder:
                found = run_apart(partial(_run_cancelled, folder, kind, chance))
                report.note(kind, number, found)
            show_drill("cancellations", number + 1, runs)
    return report


def _run_cancelled(folder: Path, kind: str, chance: random.Random) -> list[str]:
    return asyncio.run(_cancel_turns(folder, kind, chance))


async def _cancel_turns(folder: Path, kind: str, chance: random.Random) -> list[str]:
    memory = _open_memory(folder)
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
    return _judge_turns(entries, done, is_turn=kind != "append") + _verify(folder)


def _judge_turns(entries: list[Entry], done: list[int], *, is_turn: bool) -> list[str]:
    texts = Counter(text for one in entries if one.role == "user" for text in one.contents)
    found = [f"lost turn {n}" for n in done if not texts[f"question {n}"]]
    found += [f"doubled {text!r}" for text, count in texts.items() if count > 1]
    if not is_turn:
        halves = (texts[f"question {n}"] + texts[f"question {n}!"] for n in range(_TURNS))
        return found + ["a partial batch" for count in halves if count == 1]
    live = find_live_entries(entries)
    answered = {one.turn_id for one in live if one.role == "assistant"}
    asked = {text: one.turn_id for one in live if one.role == "user" for text in one.contents}
    lost = [n for n in done if asked.get(f"question {n}") not in answered]
    build_context(entries)  # raises where no provider would take it
    return found + [f"question {n} lost its answer" for n in lost]


def _verify(folder: Path) -> list[str]:
    with SQLiteLog(folder / "memory.db") as log:
        return [f"verify says: {problem}" for problem in log.verify().problems]


# -- locks ----------------------------------------------------------------------------------------


def run_locks(runs: int, seed: int) -> DrillReport:
    """Hold the file's lock from outside while several threads write; nobody loses or doubles."""
    with measure("locks") as report:
        for number in range(runs):
            chance = random.Random(seed * 1_000_003 + number)
            with make_folder() as folder:
                report.note("locked", number, run_apart(partial(_write_locked, folder, chance)))
            show_drill("locks", number + 1, runs)
    return report


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
    texts = Counter(text for one in log.entries(KEY) for text in one.contents)
    log.close()
    found = [f"lost {text!r}" for text in done if not texts[text]]
    found += [f"doubled {text!r}" for text, count in texts.items() if count > 1]
    return found + ([] if len(done) == 12 else ["a writer gave up"]) + _verify(folder)


# -- clocks ---------------------------------------------------------------------------------------


def run_clocks(runs: int, seed: int) -> DrillReport:
    """Let the clock jump by up to a year between writes; order is the order of writing."""
    with measure("clocks") as report:
        for number in range(runs):
            chance = random.Random(seed * 1_000_003 + number)
            with make_folder() as folder:
                report.note("jumps", number, run_apart(partial(_write_in_time, folder, chance)))
            show_drill("clocks", number + 1, runs)
    return report


def _write_in_time(folder: Path, chance: random.Random) -> list[str]:
    year_s = 365 * 86_400
    base = 1_800_000_000
    memory = _open_memory(folder)
    with mock.patch("time.time") as seconds, mock.patch("time.time_ns") as nanoseconds:
        for n in range(12):
            now = base + chance.randint(-year_s, year_s)
            seconds.return_value, nanoseconds.return_value = float(now), now * 1_000_000_000
            if chance.random() < 0.3:
                memory.close()
                memory = _open_memory(folder)
            memory.wrap(OfflineChatModel()).invoke(f"question {n}", _CONFIG)
    said = [one for one in memory.log.entries(KEY) if one.role == "user"]
    texts = [text for one in said for text in one.contents]
    shown = memory.history("chat", user_id="ana").messages
    view = [str(one.content) for one in shown if isinstance(one, HumanMessage)]
    memory.close()
    wanted = [f"question {n}" for n in range(12)]
    found = [] if texts == wanted else ["entries are out of order, or missing"]
    return found + ([] if view == wanted else ["the view is out of order"]) + _verify(folder)
