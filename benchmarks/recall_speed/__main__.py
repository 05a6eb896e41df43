"""The command line: every number of lines is built, grown, asked, and opened in new processes."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import benchmarks.recall_speed
from benchmarks import ui
from benchmarks.recall_speed.systems import (
    PEERS,
    SYSTEMS,
    YARDSTICK,
    ConvMem,
    NumPyScan,
    Replayed,
    System,
)
from benchmarks.rounds import Case, Thunk, quotient, run_json, run_rounds, summarize_ms
from benchmarks.synthetic_dialogue import said
from langchain_convmem import UniversalSentenceEmbeddings

_SIZES = (1_000, 10_000, 100_000)
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"
_ADDED = 10
"""Lines that come one by one, behind all others."""
_QUESTIONS = 3
"""Per round."""
_TO_YARDSTICK = {10_000: 4.0, 100_000: 2.0}
_AIMS = {10_000: (3.0, 60.0, None), 100_000: (10.0, 400.0, 120.0)}
"""Of p95 and of the first recall in a new process, in ms, and of its memory in MB."""
_AHEAD_FROM = 10_000


def measure(lines: int, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Build all systems with so many lines; return their figures and bars."""
    path = folder / f"{lines}.db"
    ours = ConvMem(path)
    systems: dict[str, System] = {"convmem": ours}
    missing = []
    ui.show_progress(f"{lines:,} lines: convmem")
    texts = ours.fill(lines - _ADDED)  # those that are added one by one make the number whole
    vectors = UniversalSentenceEmbeddings().embed_documents(texts)
    embeddings = Replayed(dict(zip(texts, vectors, strict=True)))
    for name in PEERS:
        ui.show_progress(f"{lines:,} lines: {name}")
        try:
            systems[name] = PEERS[name](texts, embeddings)
        except ImportError:
            missing.append(name)
    systems[YARDSTICK] = NumPyScan(texts, embeddings)
    added = {name: Case(partial(_add, system)) for name, system in systems.items()}
    asked = {name: Case(partial(_ask, system)) for name, system in systems.items()}
    seconds = options.seconds
    run_rounds(added, rounds=_ADDED, seconds=seconds, what=f"{lines:,}: add")
    run_rounds(asked, rounds=options.rounds, seconds=seconds, what=f"{lines:,}: recall")
    ours.close()
    opened = [
        run_json("benchmarks.recall_speed", "--open", str(path)) for _ in range(options.processes)
    ]
    cold, held = median(one["cold_ms"] for one in opened), opened[-1]["resident_bytes"] / 1e6
    rows = {
        name: {
            **summarize_ms(case.times_ms),
            "to_numpy": round(quotient(case, asked[YARDSTICK]), 2),
            "add": round(median(added[name].times_ms), 3),
        }
        for name, case in asked.items()
    }
    bounds = {YARDSTICK: _TO_YARDSTICK.get(lines)}
    if lines >= _AHEAD_FROM:
        bounds |= {name: 1.0 for name in systems if name in PEERS}
    bars = [
        ui.make_bar(
            f"recall at {lines:,}, convmem : {name}", quotient(asked["convmem"], asked[name]), bound
        )
        for name, bound in bounds.items()
        if bound is not None
    ]
    aims = {"p95, ms": rows["convmem"]["p95"], "cold, ms": cold, "memory, MB": held}
    bars += [
        ui.make_bar(f"{name} at {lines:,}", value, bound, decides=False)
        for (name, value), bound in zip(aims.items(), _AIMS.get(lines, ()), strict=False)
        if bound is not None
    ]
    return {
        "lines": lines,
        "systems": rows,
        "not_installed": missing,
        "cold_ms": round(cold, 1),
        "resident_mb_per_100k": round(held / lines * 100_000, 1),
        "bars": bars,
    }


def _ask(system: System, number: int) -> list[Thunk]:
    questions = [said(_QUESTIONS * number + one) for one in range(_QUESTIONS)]
    if isinstance(system, NumPyScan):
        for question in questions:
            system.prepare(question)
    return [partial(system.ask, question) for question in questions]


def _add(system: System, number: int) -> list[Thunk]:
    return [system.add(f"{said(number)} This came last.")]


def open_file(path: Path) -> dict[str, float]:
    """Return how long the first recall of a file takes here, and how much memory it takes."""
    with tempfile.TemporaryDirectory() as folder:  # loads what is loaded once per process
        small = ConvMem(Path(folder) / "small.db")
        small.fill(40)
        small.ask(said(0))
        small.close()
    before, start = _read_resident_bytes(), time.perf_counter()
    ours = ConvMem(path)
    ours.ask(said(1))
    cold_ms = (time.perf_counter() - start) * 1000
    held = _read_resident_bytes() - before
    ours.close()
    return {"cold_ms": cold_ms, "resident_bytes": held}


def _read_resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def make_table(report: dict[str, Any]) -> list[str]:
    """Return the report for people."""
    lines = [ui.format_machine(report["machine"])]
    for one in report["sizes"]:
        head = (f"{one['lines']:,} lines", "p50 ms", "p95 ms", ": numpy", "add ms")
        rows = [
            (f"  {name}", *(f"{row[key]:.2f}" for key in ("p50", "p95", "to_numpy", "add")))
            for name, row in sorted(one["systems"].items(), key=lambda item: SYSTEMS.index(item[0]))
        ]
        opened = f"{one['cold_ms']:,.0f} ms, {one['resident_mb_per_100k']:.0f} MB per 100,000 lines"
        lines += ["", *ui.format_rows([head, *rows], 8), f"  convmem in a new process: {opened}"]
        lines += [f"  {name}: not installed" for name in one["not_installed"]]
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when a bar fails."""
    parser = ui.make_parser("benchmarks.recall_speed", benchmarks.recall_speed.__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(_SIZES), metavar="N")
    parser.add_argument("--rounds", type=ui.parse_positive, default=30, help="of three questions")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each system and size")
    parser.add_argument("--processes", type=ui.parse_positive, default=3, help="new processes")
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.open is not None:
        print(json.dumps(open_file(options.open)))
        return 0
    if min(options.sizes) < 2 * _ADDED:
        parser.error(f"--sizes must be at least {2 * _ADDED}")
    with tempfile.TemporaryDirectory(prefix="benchmark-recall-") as folder:
        sizes = [measure(lines, options, Path(folder)) for lines in options.sizes]
    machine = ui.describe_machine("numpy", "langchain-chroma", "langchain-qdrant")
    bars = [bar for one in sizes for bar in one.pop("bars")]
    report = {"machine": machine, "sizes": sizes, "bars": bars}
    return ui.print_report(report, make_table, as_json=options.json)


if __name__ == "__main__":
    if _BLAS_THREADS not in os.environ:
        # On a busy machine a product that is shared out waits for its slowest thread, and the
        # yardstick would take twenty times as long as it needs.
        command = [sys.executable, "-m", "benchmarks.recall_speed", *sys.argv[1:]]
        raise SystemExit(subprocess.call(command, env={**os.environ, _BLAS_THREADS: "1"}))
    raise SystemExit(main())
