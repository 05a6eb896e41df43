"""What a drill is: a name, what it did, what it found; and what drills share."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from langchain_core.embeddings import DeterministicFakeEmbedding

from benchmarks.ui import show_progress
from langchain_convmem import ConversationMemory, SQLiteLog
from langchain_convmem.records import Entry


@dataclass
class DrillReport:
    """What came of a drill.

    Attributes:
        name: The drill.
        runs: How often it was tried.
        did: What was done in these runs, by kind.
        findings: Promises that did not hold, one sentence each, with the seed of the run.
        seconds: How long it took.
    """

    name: str
    runs: int = 0
    did: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def note(self, kind: str, seed: object, found: list[str]) -> None:
        """Count a run, and keep what it found."""
        self.runs += 1
        self.did[kind] += 1
        self.findings += [f"{kind}, seed {seed}: {one}" for one in found]


Drill: TypeAlias = Callable[[int, int], DrillReport]
"""Takes the number of runs and a seed."""
Run: TypeAlias = Callable[[Path, random.Random], list[str]]
"""Takes a folder and what chance is; returns what it found."""
Acknowledge: TypeAlias = Callable[[Any], None]


@contextmanager
def measure(name: str) -> Iterator[DrillReport]:
    """Lend a report that knows how long the block took."""
    report, began = DrillReport(name), time.monotonic()
    yield report
    report.seconds = time.monotonic() - began


@contextmanager
def make_folder() -> Iterator[Path]:
    """Lend a folder of its own, which goes with all that is in it."""
    with tempfile.TemporaryDirectory(prefix="convmem-chaos-") as name:
        yield Path(name)


def repeat(name: str, runs: int, seed: int, kinds: Mapping[str, Run]) -> DrillReport:
    """Try kinds of runs in turn, each in a process, in a folder and with chances of its own."""
    with measure(name) as report:
        for number in range(runs):
            kind = list(kinds)[number % len(kinds)]
            chance = random.Random(seed * 1_000_003 + number)
            with make_folder() as folder:
                report.note(kind, number, run_apart(partial(kinds[kind], folder, chance)))
            show_progress(f"{name}: {number + 1} of {runs}")
    return report


def run_batches(
    report: DrillReport, runs: int, seed: int, size: int, work: Callable[[int, int], Any]
) -> Iterator[tuple[int, int, Any]]:
    """Yield seed, number and answer of batches of runs, each made in a process of its own."""
    for first in range(0, runs, size):
        count, own_seed = min(size, runs - first), seed * 1_000_003 + first
        answer = compute_apart(partial(work, count, own_seed))
        if isinstance(answer, dict):
            report.findings.append(f"seed {own_seed}: {answer['error']}")
            continue
        yield own_seed, count, answer
        show_progress(f"{report.name}: {first + count} of {runs}")


def open_memory(folder: Path, size: int = 16, **options: Any) -> ConversationMemory:
    """Open the memory of a folder, which recalls by vectors of chance."""
    embeddings = DeterministicFakeEmbedding(size=size)
    return ConversationMemory.open(folder / "memory.db", embeddings=embeddings, **options)


def verify(file: Path) -> list[str]:
    """Return what `verify` says of a log."""
    with SQLiteLog(file) as log:
        return [f"verify says: {problem}" for problem in log.verify().problems]


def read_texts(entries: Sequence[Entry], role: str = "user") -> list[str]:
    """Return what one of those who speak said."""
    return [text for one in entries if one.role == role for text in one.contents]


def compare(there: Sequence[str], acknowledged: Sequence[str], batch: int = 0) -> list[str]:
    """Return what is lost, doubled, or a part of a batch; the texts of one begin alike, up to /."""
    counts = Counter(there)
    found = [f"lost {text!r}" for text in acknowledged if not counts[text]]
    found += [f"doubled {text!r}" for text, count in counts.items() if count > 1]
    parts = Counter(text.split("/")[0] for text in counts) if batch else {}
    return found + [f"partial batch {name}" for name, count in parts.items() if count != batch]


class Victim:
    """A forked process that works until it is killed, and says what it has done.

    The parent must have no log open: the processes start from nothing, as after an exec, but with
    the imports done.
    """

    def __init__(self, work: Callable[[Acknowledge], None]) -> None:
        """Start; `work` gets a function that acknowledges a JSON value."""
        self._end, child_end = os.pipe()

        def acknowledge(value: Any) -> None:
            os.write(child_end, json.dumps(value).encode() + b"\n")

        self._pid = fork(lambda: work(acknowledge), acknowledge)
        os.close(child_end)
        self._buffer = b""
        self.is_over = False

    def wait_for_lines(self, count: int, timeout_s: float = 30.0) -> None:
        """Wait until it has acknowledged so much, or has ended."""
        deadline = time.monotonic() + timeout_s
        while self._buffer.count(b"\n") < count and time.monotonic() < deadline:
            piece = os.read(self._end, 65536)
            if not piece:
                self.is_over = True
                return
            self._buffer += piece

    def kill(self) -> list[Any]:
        """Kill it; return what it had acknowledged."""
        try:
            os.kill(self._pid, signal.SIGKILL)
        except ProcessLookupError:
            self.is_over = True
        return self.reap()

    def reap(self, patience_s: float = 600.0) -> list[Any]:
        """Wait for its end, and of those it has forked; return what they acknowledged."""
        deadline = time.monotonic() + patience_s
        while select.select([self._end], [], [], max(0.0, deadline - time.monotonic()))[0]:
            piece = os.read(self._end, 65536)
            if not piece:
                break
            self._buffer += piece
        else:
            os.kill(self._pid, signal.SIGKILL)
            self._buffer += b'{"error": "hung"}\n'
        os.close(self._end)
        os.waitpid(self._pid, 0)
        whole = self._buffer[: self._buffer.rfind(b"\n") + 1]
        return [json.loads(line) for line in whole.splitlines()]


def fork(work: Callable[[], None], acknowledge: Acknowledge) -> int:
    """Start a process that works and ends; what it raises is acknowledged."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except BaseException as error:  # noqa: BLE001 - the process ends here, and must not go on
        frame = traceback.extract_tb(error.__traceback__)[-1]
        acknowledge({"error": f"{type(error).__name__}: {error} ({frame.name}:{frame.lineno})"})
    finally:
        os._exit(code)


def run_apart(work: Callable[[], list[str]]) -> list[str]:
    """Return what a function finds in a process of its own: nothing it opens stays here."""
    answer = compute_apart(work)
    return [f"the check failed: {answer['error']}"] if isinstance(answer, dict) else answer


def compute_apart(work: Callable[[], Any], patience_s: float = 600.0) -> Any:
    """Return the JSON value that a function returns in a process of its own.

    An object with the key `error` stands for a function that raised, or a process that died.
    """
    worker = Victim(lambda acknowledge: acknowledge(work()))
    return (worker.reap(patience_s) or [{"error": "the process died"}])[-1]
