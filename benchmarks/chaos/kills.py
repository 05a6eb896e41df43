"""Kills: many processes write one file, some die at any moment, and all that counted is there once.

Eight processes of four threads each append to the same conversations of one SQLite file. At a
moment of chance one of them is killed while the others write, and a new one takes its place; after
so many kills all of them are killed, and a fresh process opens the file, checks it from end to end,
and counts. What was acknowledged stands in a file beside it, which a kill leaves alone. Counted are

messages   those that were acknowledged
refused    calls that raised a `LogError`; any other error is a finding
"""

from __future__ import annotations

import random
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage

from benchmarks.chaos.drill import (
    Acknowledge,
    DrillReport,
    Victim,
    compare,
    compute_apart,
    make_folder,
    measure,
    read_texts,
    verify,
)
from benchmarks.ui import show_progress
from langchain_convmem import SQLiteLog
from langchain_convmem.errors import LogError
from langchain_convmem.records import ThreadKey
from langchain_convmem.views.codec import make_draft

PROCESSES, THREADS = 8, 4
_KILLS_PER_FILE = 25
_BATCH = 3
_KEYS = [ThreadKey(*names) for names in (("ana", "a"), ("ana", "b"), ("ben", "a"), (None, "a"))]


def run_kills(runs: int, seed: int) -> DrillReport:
    """Kill so many of the processes, one at a time, and then all that are left."""
    with measure("kills") as report:
        for first in range(0, runs, _KILLS_PER_FILE):
            kills = min(_KILLS_PER_FILE, runs - first)
            with make_folder() as folder:
                found = _kill(folder, kills, random.Random(seed * 1_000_003 + first))
                answer = compute_apart(partial(_judge, folder))
            if isinstance(answer, dict):
                answer = [[f"the check failed: {answer['error']}"], 0, 0]
            report.runs += kills
            report.did[f"{PROCESSES} processes x {THREADS} threads: kills"] += kills
            report.did["more, all at once"] += PROCESSES
            report.did["messages"] += answer[1]
            report.did["refused"] += answer[2]
            report.findings += [f"kills from {first} on: {one}" for one in found + answer[0]]
            show_progress(f"kills: {first + kills} of {runs}")
    return report


def _kill(folder: Path, kills: int, chance: random.Random) -> list[str]:
    """Have all write, and kill; return the errors that ended a process before."""
    told: list[Any] = []
    numbers = count()
    crowd = [Victim(partial(_write, folder, next(numbers))) for _ in range(PROCESSES)]
    for _ in range(kills):
        if chance.random() < 0.8:  # else one may be killed while it opens the file
            for one in crowd:
                one.wait_for_lines(1)
        time.sleep(chance.uniform(0, chance.choice([0.02, 0.2, 1.0])))
        at = chance.randrange(PROCESSES)
        told += crowd[at].kill()
        crowd[at] = Victim(partial(_write, folder, next(numbers)))
    for one in crowd:
        one.wait_for_lines(1)
    for one in crowd:
        told += one.kill()
    return [one["error"] for one in told if isinstance(one, dict)]


def _write(folder: Path, process: int, acknowledge: Acknowledge) -> None:
    """Be one of the processes: all its threads write until it is killed."""
    log = SQLiteLog(folder / "memory.db")
    with (folder / f"{process}.told").open("ab", buffering=0) as told:

        def write(thread: int) -> None:
            for n in count():
                texts = [f"{process}-{thread}-{n}/{part}" for part in range(_BATCH)]
                drafts = [make_draft(HumanMessage(text, id=text)) for text in texts]
                try:
                    log.append(_KEYS[n % len(_KEYS)], drafts)
                except LogError as error:
                    texts = [f"!{type(error).__name__}"]
                told.write("".join(f"{text}\n" for text in texts).encode())

        threads = ThreadPoolExecutor(THREADS)
        writing = [threads.submit(write, thread) for thread in range(THREADS)]
        acknowledge("writing")
        wait(writing, return_when=FIRST_EXCEPTION).done.pop().result()  # nothing else ends one


def _judge(folder: Path) -> list[Any]:
    """Return what is wrong, how many messages were acknowledged, and how many calls refused."""
    lines = [line for one in folder.glob("*.told") for line in one.read_text().splitlines()]
    told = [line for line in lines if not line.startswith("!")]
    with SQLiteLog(folder / "memory.db") as log:
        there = [text for key in _KEYS for text in read_texts(log.entries(key))]
    found = compare(there, told, batch=_BATCH) + verify(folder / "memory.db")
    return [found, len(told), len(lines) - len(told)]
