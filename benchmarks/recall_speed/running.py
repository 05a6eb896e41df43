"""The run: every number of lines is built, grown and asked; its file is opened in new processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.log.measuring import Case, interleaved, progress
from benchmarks.recall_speed.systems import (
    PEERS,
    YARDSTICK,
    ConvMem,
    NumPyScan,
    Replayed,
    System,
)
from benchmarks.synthetic_dialogue import said
from langchain_convmem import UniversalSentenceEmbeddings

__all__ = [
    "ADDED",
    "Measured",
    "Plan",
    "measured",
    "opened",
    "resident_bytes",
    "run_in_new_process",
    "warm_up",
]

ADDED = 10
"""Lines that come one by one, behind all others."""
_QUESTIONS = 3
"""Per round."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured: rounds of questions, seconds per system, new processes; beside whom."""

    rounds: int
    seconds: float
    processes: int
    peers: tuple[str, ...] = tuple(PEERS)


@dataclass(slots=True)
class Measured:
    """What was measured with one number of lines."""

    lines: int
    asked: dict[str, Case] = field(default_factory=dict)
    added: dict[str, Case] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    cold_ms: list[float] = field(default_factory=list)
    resident_bytes: float = 0.0


def measured(lines: int, plan: Plan, folder: Path) -> Measured:
    """Build all systems with so many lines and measure them."""
    result = Measured(lines)
    path = folder / f"{lines}.db"
    ours = ConvMem(path)
    try:
        progress(f"{lines:,} lines: convmem")
        # The lines that are added one by one make the number whole.
        texts = ours.fill(lines - ADDED)
        systems: dict[str, System] = {"convmem": ours}
        systems |= _others(texts, result, plan.peers)
        result.added = {name: Case(partial(_additions, one)) for name, one in systems.items()}
        interleaved(result.added, rounds=ADDED, seconds=plan.seconds, what=f"{lines:,}: add")
        result.asked = {name: Case(partial(_asked, one)) for name, one in systems.items()}
        interleaved(
            result.asked, rounds=plan.rounds, seconds=plan.seconds, what=f"{lines:,}: recall"
        )
    finally:
        ours.close()
    for number in range(plan.processes):
        progress(f"{lines:,} lines: new process {number + 1}/{plan.processes}")
        child = run_in_new_process("--open", str(path))
        result.cold_ms.append(child["cold_ms"])
        result.resident_bytes = child["resident_bytes"]
    return result


def _others(
    texts: Sequence[str], result: Measured, peers: Sequence[str]
) -> Iterator[tuple[str, System]]:
    vectors = UniversalSentenceEmbeddings().embed_documents(list(texts))
    embeddings = Replayed(dict(zip(texts, vectors, strict=True)))
    for name in peers:
        progress(f"{result.lines:,} lines: {name}")
        try:
            yield name, PEERS[name](texts, embeddings)
        except ImportError:
            result.missing.append(name)
    yield YARDSTICK, NumPyScan(texts, embeddings)


def _asked(system: System, number: int) -> list[Callable[[], object]]:
    questions = [said(_QUESTIONS * number + one) for one in range(_QUESTIONS)]
    if isinstance(system, NumPyScan):
        for question in questions:
            system.prepare(question)
    return [partial(system.ask, question) for question in questions]


def _additions(system: System, number: int) -> list[Callable[[], object]]:
    return [system.add(f"{said(number)} This came last.")]


# -- a new process ---------------------------------------------------------------------------


def run_in_new_process(*arguments: str) -> dict[str, float]:
    """Run this benchmark with arguments that make it print one JSON object; return that."""
    command = [sys.executable, "-m", "benchmarks.recall_speed", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def opened(path: Path) -> dict[str, float]:
    """Return how long the first recall of a file takes here, and how much memory it takes."""
    warm_up()
    before = resident_bytes()
    start = time.perf_counter()
    ours = ConvMem(path)
    ours.ask(said(1))
    cold_ms = (time.perf_counter() - start) * 1000
    held = resident_bytes() - before
    ours.close()
    return {"cold_ms": cold_ms, "resident_bytes": held}


def warm_up() -> None:
    """Load all that is loaded once per process: modules, FAISS and the model among them."""
    UniversalSentenceEmbeddings().embed_query(UniversalSentenceEmbeddings().fingerprint)
    with tempfile.TemporaryDirectory() as folder:
        small = ConvMem(Path(folder) / "small.db")
        small.fill(40)
        small.ask(said(0))
        small.close()


def resident_bytes() -> int:
    """Return how much memory this process holds."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        # Only Linux tells it without another package.
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
