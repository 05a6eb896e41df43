"""Forks: a process forks while logs are open, and everybody goes on writing.

Each run starts processes of its own over a new file. A parent opens the log, writes, and forks.
Drawn at random: how many messages, in how many calls, threads of the parent that write while it
forks, a second log on the same file under another spelling, pauses, who closes, who just ends.
Every message that a call has returned is noted outside of the log. When all processes have ended,
the log is opened again: what was noted has to be there once, and `verify` has to find nothing.

Scenarios are what the parent does after the fork, who writes then, and how:
    closes, exits, writes, forks      the parent; `forks` writes as well
    child, grandchild, third          a grandchild is daemonised: its parent ends at once; `third`
                                      is a child beside a process that opens, writes and closes
    sync, async                       `append` or `aappend`, on the log that was inherited
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle, islice, product
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.messages import HumanMessage

from benchmarks.chaos.drill import (
    Acknowledge,
    DrillReport,
    Victim,
    fork,
    make_folder,
    measure,
    read_texts,
    run_batches,
)
from langchain_convmem.errors import LogError
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.records import ThreadKey
from langchain_convmem.views.codec import make_draft

KEY = ThreadKey("ana", "t1")
_PARENTS = ("closes", "exits", "writes", "forks")
_WRITERS = ("child", "grandchild", "third")
_WAYS = ("sync", "async")
_MESSAGES = 5
_LONGEST_PAUSE_S = 0.004
_PATIENCE_S = 60.0
_UNDER_WAY = 6


class Scenario(NamedTuple):
    """What happens around a fork."""

    parent: str
    writer: str
    way: str


SCENARIOS = tuple(Scenario(*names) for names in product(_PARENTS, _WRITERS, _WAYS))


def run_forks(runs: int, seed: int) -> DrillReport:
    """Fork so many times, in every scenario in turn."""
    with measure("forks") as report:
        for own_seed, _, answer in run_batches(report, runs, seed, len(SCENARIOS), _run_some):
            for parent, noted, problems in answer:
                report.note(f"parent {parent}", own_seed, problems)
                report.did["messages"] += noted
    return report


def _run_some(count: int, seed: int) -> list[Any]:
    """Return of each run what the parent did, how much was written, and what was found."""
    answers = []
    with make_folder() as folder:
        under_way: deque[Run] = deque()
        for number, scenario in enumerate(islice(cycle(SCENARIOS), count)):
            under_way.append(Run(scenario, folder / f"{number}.db", seed + number))
            if len(under_way) == _UNDER_WAY:
                answers.append(under_way.popleft().finish())
        answers += [one.finish() for one in under_way]
    return answers


class Run:
    """A scenario over a new file, in processes of its own; what is random follows from the seed."""

    def __init__(self, scenario: Scenario, path: Path, seed: int) -> None:
        """Start the processes."""
        self._scenario, self._path, self._seed = scenario, path, seed
        self._victims = [Victim(lambda note: Family(scenario, path, note, seed).be_parent())]
        if scenario.writer == "third":
            self._victims.append(Victim(lambda note: Family(scenario, path, note, seed).be_third()))

    def finish(self) -> list[Any]:
        """Wait until all processes have ended, and return what the log says when it is opened."""
        told = [one for victim in self._victims for one in victim.reap(_PATIENCE_S)]
        noted = [one for one in told if isinstance(one, str)]
        with SQLiteLog(self._path) as log:
            there = Counter(read_texts(log.entries(KEY)))
            problems = [one["error"] for one in told if isinstance(one, dict)]
            problems += log.verify().problems
        problems += [f"lost {one}" for one in noted if there[one] != 1]
        name = f"{'/'.join(self._scenario)} seed {self._seed}"
        return [self._scenario.parent, len(noted), [f"{name}: {one}" for one in problems]]


class Family:
    """The processes of a run; each method is the whole life of one, or a part of it."""

    def __init__(self, scenario: Scenario, path: Path, note: Acknowledge, seed: int) -> None:
        """Take part in a scenario; what is random follows from the seed."""
        self.scenario = scenario
        self.path = path
        self.note = note
        self.random = random.Random(seed)

    def be_parent(self) -> None:
        """Open, write, fork, and do what the scenario says."""
        with ExitStack() as threads:
            logs = self._open_logs()
            self._write("parent before", logs[0])
            for number in range(self.random.choice([0, 0, 1, 3])):
                threads.enter_context(self._write_meanwhile(f"thread {number}", logs))
            children = [fork(lambda: self.be_child(logs[0]), self.note)]
            self._pause()
            if self.scenario.parent == "exits" and self.random.random() < 0.5:
                os._exit(0)
            if self.scenario.parent == "exits":
                return
            if self.scenario.parent == "forks":
                children.append(fork(lambda: self._write("second child", logs[-1]), self.note))
            if self.scenario.parent in ("writes", "forks"):
                self._write("parent after", logs[-1])
        for log in logs:
            log.close()
        for child in children:
            os.waitpid(child, 0)

    def be_child(self, log: SQLiteLog) -> None:
        """Write on the inherited log, or leave that to a child of its own."""
        self.random.seed(self.random.random())
        self._pause()
        if self.scenario.writer == "grandchild":
            fork(lambda: self._write_and_close("grandchild", log), self.note)
            return
        self._write_and_close("child", log)

    def be_third(self) -> None:
        """Open, read, write and close, again and again, as commands do."""
        self.random.seed(self.random.random())
        while not self.path.exists():
            time.sleep(0.0005)
        for number in range(3):
            with SQLiteLog(self.path) as log:
                log.threads("ana")
                self._write(f"third {number}", log, count=1)
            self._pause()

    def _open_logs(self) -> list[SQLiteLog]:
        logs = [SQLiteLog(self.path)]
        if self.random.random() < 0.3:
            logs.append(SQLiteLog(self.path.parent / ".." / self.path.parent.name / self.path.name))
        return logs

    @contextmanager
    def _write_meanwhile(self, name: str, logs: Sequence[SQLiteLog]) -> Iterator[None]:
        """Have a thread write until the block ends."""
        stop = threading.Event()
        log = self.random.choice(logs)

        def write() -> None:
            number = 0
            while not stop.is_set():
                self._note_append(log, [f"{name} {number}"])
                number += 1

        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _write_and_close(self, name: str, log: SQLiteLog) -> None:
        self._write(name, log)
        if self.random.random() < 0.5:
            log.close()

    def _write(self, name: str, log: SQLiteLog, *, count: int = _MESSAGES) -> None:
        texts = [f"{name} {number}" for number in range(count)]
        size = self.random.choice([1, 1, 2, count])
        batches = [texts[start : start + size] for start in range(0, count, size)]
        if self.scenario.way == "async" and "child" in name:
            asyncio.run(self._write_async(log, batches))
            return
        for batch in batches:
            self._note_append(log, batch)
            self._pause()

    async def _write_async(self, log: SQLiteLog, batches: Sequence[Sequence[str]]) -> None:
        for batch in batches:
            with self._noting(batch):
                await log.aappend(KEY, [make_draft(HumanMessage(text)) for text in batch])
            await asyncio.sleep(self.random.random() * _LONGEST_PAUSE_S)

    def _note_append(self, log: SQLiteLog, batch: Sequence[str]) -> None:
        with self._noting(batch):
            log.append(KEY, [make_draft(HumanMessage(text)) for text in batch])

    @contextmanager
    def _noting(self, lines: Sequence[str]) -> Iterator[None]:
        """Note a batch whose append returns, or the error."""
        try:
            yield
        except LogError as error:
            self.note({"error": f"{type(error).__name__}: {error}"})
        else:
            for line in lines:
                self.note(line)

    def _pause(self) -> None:
        time.sleep(self.random.random() * _LONGEST_PAUSE_S)
