"""The command line: `python -m benchmarks.log`. Files are built, then measured in phases."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import benchmarks.log
from benchmarks import ui
from benchmarks.log.dialogue import PERIOD, Exchange, exchange
from benchmarks.log.stores import BUDGET, STORES, Store, file_bytes
from benchmarks.rounds import Case, Thunk, quotient, run_rounds

_FULL = (10, 1_000, 100_000)
_MAIN = "main"
_FEW = 1000
"""A thread shorter than this is made anew each round, so that it stays as long as it is called."""
_TURNS = 5
_FULL_WAL = 5_000_000
"""Bytes that fill a write-ahead log, so that it is written over from then on, as in any program
that runs for a while: a file that still grows takes the disk longer, and would hide the rest."""
_FLAT = 1.5
"""A thread a hundred times as long may cost so many times as much: depth of trees, and noise."""
_TO_FLOOR, _OVERHEAD_BYTES = 2.0, 150
_STATES = ("warm", "cold")


class _File:
    """One system's file with a thread of one length."""

    def __init__(self, make: Callable[[Path], Store], path: Path, size: int, first: int) -> None:
        self.store = make(path)
        self._make, self._path, self._size = make, path, size
        self._next = first
        self._cold: Store | None = None
        self.store.fill(_MAIN, size // 2)
        self.bytes = file_bytes(path)

    def close(self) -> None:
        self.store.close()
        self._close_cold()

    def fill_wal(self) -> None:
        self.store.turn("warm-up", Exchange(0, "x" * _FULL_WAL, "y"))()

    def turns(self, purpose: str, count: int, number: int) -> list[Thunk]:
        """Return calls that store turns which no call has stored, the same in all files."""
        thread, first = self._thread(purpose, number), self._next
        self._next += count
        return [self.store.turn(thread, exchange(first + n)) for n in range(count)]

    def _thread(self, purpose: str, number: int) -> str:
        """Return the thread of a round: the long one, or a new short one."""
        thread = _MAIN if self._size >= _FEW else f"{purpose}-{number}"
        if thread != _MAIN:
            self.store.fill(thread, self._size // 2)
        return thread

    def load_warm(self, what: str, number: int) -> list[Thunk]:
        """Return a load right after a turn was written."""
        self.turns(what, 1, number)[0]()
        thread = _MAIN if self._size >= _FEW else f"{what}-{number}"
        return [self.store.loads(thread)[what]]

    def load_cold(self, what: str, number: int) -> list[Thunk]:
        """Return a load with a handle that is opened for it alone."""
        del number
        self._close_cold()

        def load() -> None:
            self._cold = self._make(self._path)
            self._cold.loads(_MAIN)[what]()

        return [load]

    def _close_cold(self) -> None:
        if self._cold is not None:
            self._cold.close()
            self._cold = None


class Measured(NamedTuple):
    """What was measured: cases by system and length, and by what and how is loaded; bytes."""

    appends: dict[tuple[str, int], Case]
    loads: dict[tuple[str, str, str, int], Case]
    sizes: dict[tuple[str, int], int]


def measure(sizes: Sequence[int], rounds: int, seconds: float, folder: Path) -> Measured:
    """Build everything under a folder, measure it and close it."""
    with ExitStack() as stack:
        files: dict[tuple[str, int], _File] = {}
        for size in sizes:
            for name, make in STORES.items():
                ui.show_progress(f"building {name} with {size:,} messages")
                try:
                    file = _File(make, folder / f"{name}-{size}.db", size, sizes[-1])
                except ImportError:
                    continue
                files[name, size] = stack.enter_context(closing(file))
        appends: dict[tuple[str, int], Case] = {}
        # Systems that write whole states come last: their disk is busy for all.
        for is_last in (False, True):
            cases = {}
            for key, file in files.items():
                if file.store.keeps_states is is_last:
                    file.fill_wal()
                    cases[key] = Case(partial(file.turns, "append", _TURNS))
            run_rounds(cases, rounds=rounds, seconds=seconds, what="append")
            appends |= cases
        loads = {
            (name, what, state, size): Case(partial(getattr(file, f"load_{state}"), what))
            for (name, size), file in files.items()
            for what in file.store.loads(_MAIN)
            for state in _STATES
        }
        run_rounds(loads, rounds=max(rounds // 3, 1), seconds=seconds, what="load")
        return Measured(appends, loads, {key: file.bytes for key, file in files.items()})


def make_report(sizes: Sequence[int], found: Measured) -> dict[str, Any]:
    """Return the figures and the bars as plain JSON."""
    turns = min(sizes[-1] // 2, PERIOD)
    payload = sum(exchange(number).payload_bytes() for number in range(turns)) / (2 * turns)
    short, middle, long = sizes[0], sizes[-2], sizes[-1]
    ours = {size: found.appends["convmem", size] for size in sizes}
    bars = [
        ui.make_bar(
            f"append at {size:,}, convmem : floor",
            quotient(ours[size], found.appends["floor", size]),
            _TO_FLOOR,
        )
        for size in sizes
    ]
    bars.append(
        ui.make_bar(f"append, {long:,} : {short:,}", quotient(ours[long], ours[short]), _FLAT)
    )
    for state in _STATES:
        above, below = (found.loads["convmem", BUDGET, state, size] for size in (long, middle))
        what = f"load {state}, {BUDGET}, {long:,} : {middle:,}"
        bars.append(ui.make_bar(what, quotient(above, below), _FLAT))
    beyond = found.sizes["convmem", long] / long - payload
    what = f"bytes beyond payload per entry at {long:,}"
    return {
        "machine": ui.describe_machine("openai-agents", "langgraph-checkpoint-sqlite"),
        "sizes": list(sizes),
        "not_installed": sorted({*STORES} - {name for name, _ in found.appends}),
        "append_ms": [
            {
                "system": name,
                "entries": size,
                "median": round(median(case.times_ms), 3),
                "to_floor": round(quotient(case, found.appends["floor", size]), 2),
            }
            for (name, size), case in found.appends.items()
        ],
        "load_ms": [
            {**dict(zip(("system", "load", "state", "entries"), key, strict=True)), "median": ms}
            for key, ms in (
                (key, round(median(case.times_ms), 3)) for key, case in found.loads.items()
            )
        ],
        "bytes": {
            "payload_per_entry": round(payload, 1),
            "per_entry": {
                name: [round(found.sizes[name, size] / size) for size in sizes]
                for name in dict.fromkeys(name for name, _ in found.sizes)
            },
        },
        "bars": [*bars, ui.make_bar(what, beyond, _OVERHEAD_BYTES)],
    }


def make_table(report: dict[str, Any]) -> list[str]:
    """Return the report for people."""
    sizes = report["sizes"]
    appends: dict[str, list[object]] = {}
    for row in report["append_ms"]:
        cell = f"{row['median']:.2f} ({row['to_floor']:.2f})"
        appends.setdefault(row["system"], []).append(cell)
    loads: dict[str, list[object]] = {}
    for row in sorted(report["load_ms"], key=lambda row: list(STORES).index(row["system"])):
        name = f"{row['system']} {row['load']}, {row['state']}"
        loads.setdefault(name, []).append(f"{row['median']:.2f}")
    stored = {"payload": [report["bytes"]["payload_per_entry"]] * len(sizes)}
    lines = [ui.format_machine(report["machine"])]
    for title, rows in (
        ("append one turn, ms (: floor)", appends),
        ("load for the next turn, ms", loads),
        ("bytes per entry", {**stored, **report["bytes"]["per_entry"]}),
    ):
        body = [(f"  {name}", *cells) for name, cells in rows.items()]
        lines += ["", *ui.format_rows([(title, *sizes), *body], 14)]
    missing = report["not_installed"]
    return [*lines, *(["", f"not installed: {', '.join(missing)}"] if missing else [])]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when a bar fails."""
    parser = ui.make_parser("benchmarks.log", benchmarks.log.__doc__)
    parser.add_argument("--sizes", type=int, nargs=3, metavar="N", help=f"default {_FULL}")
    parser.add_argument("--rounds", type=int, default=40, help="of appends; loads take a third")
    options = parser.parse_args(arguments)
    sizes = tuple(options.sizes or _FULL)
    if sizes[0] < 2 or list(sizes) != sorted(set(sizes)) or sizes[2] < 20:
        parser.error(f"--sizes must ascend from at least 2 to at least 20, got {sizes}")
    if options.rounds < 2:
        parser.error(f"--rounds must be at least 2, got {options.rounds}")
    with tempfile.TemporaryDirectory(prefix="benchmark-log-") as folder:
        found = measure(sizes, options.rounds, 5.0, Path(folder))
    return ui.print_report(make_report(sizes, found), make_table, as_json=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
