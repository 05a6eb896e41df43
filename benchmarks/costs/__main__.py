"""The command of the comparison of costs."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import benchmarks.costs
from benchmarks import ui
from benchmarks.costs.systems import RECALLING, SYSTEMS, Said, System, Wrapped
from benchmarks.rounds import alternate, summarize_ms, time_ms
from benchmarks.synthetic_dialogue import answer, said, threads
from langchain_convmem import ConversationMemory

RATIO, AIM_MS = 1.3, 12.0
_PEERS = ("langchain-core", "langgraph", "langgraph-checkpoint-sqlite", "openai-agents")
_PIP = "they come with: pip install -e '.[langgraph,agents]' --group bench"
_FIRST = 10
"""Turns before the first one of a stretch that are taken and not measured: they fill caches."""

Places = dict[str, dict[int, Path]]
Times = dict[str, dict[int, list[float]]]


def _say(number: int) -> Said:
    return Said(number, said(number), answer(number))


def measure(
    lengths: Sequence[int], lines: int, measured: int, folder: Path
) -> tuple[Times, Places]:
    """Take turns of all systems at all lengths; return milliseconds, and where the files are."""
    _say_before(lines, folder / "before")
    times: Times = {}
    places: Places = {}
    with ExitStack() as stack:
        systems: list[tuple[str, int, System]] = []
        for name, make in SYSTEMS.items():
            for turns in lengths:
                ui.show_progress(f"{name}: {turns:,} turns")
                place = folder / f"{name}-{turns}"
                if isinstance(make, partial) and make.func is Wrapped:
                    shutil.copytree(folder / "before", place)
                else:
                    place.mkdir()
                try:
                    system = stack.enter_context(closing(make(place)))
                except ImportError:
                    continue
                _fill(system, turns)
                systems.append((name, turns, system))
                places.setdefault(name, {})[turns] = place
        gc.collect()
        gc.freeze()
        for step in range(measured):
            ui.show_progress(f"turn {step + 1} of {measured}")
            for name, turns, system in alternate(systems, step):
                taken = time_ms(partial(system.take, _say(turns + step + 1)))
                times.setdefault(name, {}).setdefault(turns, []).append(taken)
        gc.unfreeze()
    return times, places


def _say_before(lines: int, folder: Path) -> None:
    ui.show_progress(f"{lines:,} lines of earlier threads")
    folder.mkdir()
    with ConversationMemory.open(folder / "memory.db") as memory:
        for number, messages in enumerate(threads(lines)):
            memory.add_messages(messages, user_id="ana", thread_id=f"t{number}", durable=False)
        memory.refresh(user_id="ana")


def _fill(system: System, turns: int) -> None:
    taken = min(turns, _FIRST)
    if turns > taken:
        system.fill([_say(number) for number in range(1, turns - taken + 1)])
    for number in range(turns - taken + 1, turns + 1):
        system.take(_say(number))


def keep(name: str, turns: int, folder: Path) -> float | None:
    """Take all turns of a thread, and leave its files; return their KiB, None where none stay."""
    ui.show_progress(f"{name}: {turns:,} turns, one by one")
    folder.mkdir()
    with closing(SYSTEMS[name](folder)) as system:
        for number in range(1, turns + 1):
            system.take(_say(number))
        is_kept = system.is_kept
    return sum(path.stat().st_size for path in folder.iterdir()) / 1024 if is_kept else None


def start(name: str, folder: Path) -> float:
    """Return milliseconds from the start of a process to the end of its first turn."""
    command = [sys.executable, "-m", "benchmarks.costs.systems", name, str(folder)]
    env = {one: value for one, value in os.environ.items() if one != "PYTHONDONTWRITEBYTECODE"}
    begun = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as process:
        line = process.stdout.readline() if process.stdout else b""
        taken = (time.perf_counter() - begun) * 1000
    if line.strip() != b"taken" or process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return taken


def start_all(folders: dict[str, tuple[str, Path]], processes: int) -> dict[str, int]:
    """Return the medians of new processes by title; the first of each fills the disk's cache."""
    times: dict[str, list[float]] = {}
    for step in range(processes + 1):
        for title in alternate(list(folders), step):
            ui.show_progress(f"{title}: process {step} of {processes}")
            times.setdefault(title, []).append(start(*folders[title]))
    return {title: round(median(own[1:])) for title, own in times.items()}


def make_report(options: Any, folder: Path) -> dict[str, Any]:
    """Measure all and return figures and bars as plain JSON."""
    lengths = options.turns
    times, places = measure(lengths, options.lines, options.measured, folder)
    bare = {turns: median(own) for turns, own in sorted(times.pop("bare").items())}
    kept = {name: keep(name, options.kept, folder / f"kept {name}") for name in times}
    folders = {"bare": ("bare", folder)}
    folders |= {name: (name, folder / f"kept {name}") for name, kib in kept.items() if kib}
    earlier = f"{RECALLING} of {options.lines:,} lines"
    nearest = min(lengths, key=lambda turns: abs(turns - options.kept))
    folders[earlier] = (RECALLING, places[RECALLING][nearest])
    cold = start_all(folders, options.processes)
    rows: dict[str, dict[str, Any]] = {}
    for name in (name for name in SYSTEMS if name in times):
        own = times[name]
        less = bare if not name.startswith("SQLiteSession") else dict.fromkeys(bare, 0.0)
        added = {
            str(turns): summarize_ms([max(0.0, ms - less[turns]) for ms in own[turns]])
            for turns in lengths
        }
        first, last = (added[str(turns)]["p50"] for turns in (lengths[0], lengths[-1]))
        ratio = round(last / max(first, 0.001), 2)
        rows[name] = {"added_ms": added, "ratio": ratio, "cold_ms": cold.get(name)}
        rows[name]["kib"] = None if kept[name] is None else round(kept[name] or 0)
    slowest = rows[RECALLING]["added_ms"][str(lengths[-1])]["p95"]
    report = {
        "machine": ui.describe_machine(*_PEERS, "langchain"),
        "turns": [f"{turns + 1:,} to {turns + options.measured:,}" for turns in lengths],
        "lines_before": options.lines,
        "kept_turns": options.kept,
        "bare_ms": {str(turns): round(ms, 3) for turns, ms in bare.items()},
        "systems": rows,
        "cold_ms": {title: cold[title] for title in ("bare", earlier)},
        "not_installed": sorted(set(SYSTEMS) - set(rows) - {"bare"}),
        "bars": [
            ui.make_bar(f"{RECALLING}, last median : first", rows[RECALLING]["ratio"], RATIO),
            ui.make_bar(f"{RECALLING}, p95, ms, at the last", slowest, AIM_MS, decides=False),
        ],
    }
    if "LangGraph" in rows:
        from benchmarks.costs import agent

        report["agent_kib"] = agent.measure(options.kept)
    return report


def make_table(report: dict[str, Any]) -> list[str]:
    """Return the report for people."""
    turns = [f"turns {span}" for span in report["turns"]]
    rows: list[list[object]] = [
        ["added ms, p50 / p95", *turns, "last : first", "new process", "KiB"]
    ]
    for name, row in report["systems"].items():
        added = [f"{one['p50']:.2f} / {one['p95']:.2f}" for one in row["added_ms"].values()]
        ratio = f"{row['ratio']:.2f}x"
        rows.append([f"  {name}", *added, ratio, row["cold_ms"], row["kib"]])
    bare = ", ".join(f"{ms:.2f}" for ms in report["bare_ms"].values())
    lines = [
        f"{ui.format_machine(report['machine'])}; {report['lines_before']:,} lines before",
        *("", *ui.format_rows(rows), ""),
        f"the bare model, which is taken off: {bare} ms",
        *(f"new process, {name}: {ms:,} ms" for name, ms in report["cold_ms"].items()),
    ]
    if report["not_installed"]:
        lines += [f"not installed: {', '.join(report['not_installed'])}", _PIP]
    if "agent_kib" in report:
        last = report["kept_turns"]
        sizes: list[list[object]] = [
            ["KiB of an agent, turns", last // 4, last // 2, last, "twice"]
        ]
        for name, own in report["agent_kib"].items():
            sizes.append([f"  {name}: checkpoints", *own["checkpoints"], own["twice"]])
            sizes.append(["    log", *own["log"]])
        lines += ["", *ui.format_rows(sizes)]
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when the bar fails."""
    parser = ui.make_parser("benchmarks.costs", benchmarks.costs.__doc__)
    some: dict[str, Any] = {"type": ui.parse_positive}
    parser.add_argument("--turns", **some, nargs="+", default=[10, 200, 2000], help="of a thread")
    parser.add_argument("--lines", type=int, default=10_000, help="lines the user said before")
    parser.add_argument("--measured", **some, default=40, help="turns measured at each length")
    parser.add_argument("--kept", **some, default=200, help="turns of the threads on disk")
    parser.add_argument("--processes", **some, default=3, help="new processes of each system")
    options = parser.parse_args(arguments)
    if options.measured < 2 or options.lines < 0 or options.kept % 4:
        parser.error("--measured must be at least 2, --kept a multiple of four, --lines >= 0")
    with tempfile.TemporaryDirectory(prefix="benchmark-costs-") as folder:
        report = make_report(options, Path(folder))
    return ui.print_report(report, make_table, as_json=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
