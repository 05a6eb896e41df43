"""What a turn costs more with a memory, from the first turns of a thread to its 2,000th.

    python -m benchmarks.latency [--turns 2000] [--lines 10000] [--alone] [--json]

A user who has said 10,000 lines in earlier threads begins a new one and keeps talking. The model
answers at once, so what is measured is the rest of the turn: reading the thread, recall, and both
durable writes. Everything is in SQLite files with `synchronous=FULL`, in a temporary folder that is
removed.

Three stretches of the thread are measured: a hundred turns from the 11th on, a hundred in the
middle, and the last hundred. Each has files of its own, in which the thread is as long as it is
there, and they are measured a turn of each at a time, so that a machine that becomes busier slows
all alike. Of the turns before, all but ten are filled in directly.

Systems, one turn of each in turn:
    bare             the model alone, called with the user's message
    convmem          `memory.wrap(model, history_tokens=2000)`: recall over all of the user's lines
                     (1,000 tokens, the default), at most 2,000 tokens of the thread, both writes
    message-history  `RunnableWithMessageHistory` over a SQL history (benchmarks/sql_history.py): it
                     recalls nothing and cuts nothing; `--alone` leaves it out, since it reads the
                     whole thread in each of its turns, which takes long where threads are long

Figures, for each stretch:
    added p50, p95   time of `invoke` less the median of `bare` in the same turns, milliseconds
    processor        median of the time that `invoke` kept a processor busy, less that of `bare`
    ratio            the last median : the first median, the same added times

Bars: `convmem` is flat (ratio at most 1.3); aim: p95 at most 8 ms everywhere. A machine that is
busy with something else fails the aim, not the ratio; only the ratio decides the exit code.
"""

from __future__ import annotations

import json
import platform
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig

from benchmarks.scripted_model import TurnModel
from benchmarks.sql_history import HistoryFile, at_session, question, with_history
from benchmarks.synthetic_dialogue import answer, said, threads
from benchmarks.terminal import make_parser, show_progress
from langchain_convmem import ConversationMemory
from langchain_convmem.ids import make_ulid

BARE, OURS, PEER = "bare", "convmem", "message-history"
RATIO = 1.3
AIM_MS = 8.0
HISTORY_TOKENS = 2000
_FIRST = 10
"""Turns before the first one of a window that are taken and not measured: they fill caches."""
_WINDOW = 100


@dataclass(frozen=True, slots=True)
class System:
    """Something to take a turn with."""

    chain: Runnable[Any, Any]
    config: RunnableConfig
    shaped: Callable[[HumanMessage], Any]

    def turn_ms(self, number: int) -> tuple[float, float]:
        """Take a turn; return how long it took, and how long it kept a processor busy."""
        value = self.shaped(HumanMessage(said(number)))
        start, busy = time.perf_counter(), time.process_time()
        self.chain.invoke(value, self.config)
        return (time.perf_counter() - start) * 1000, (time.process_time() - busy) * 1000


@dataclass(slots=True)
class Window:
    """Turns that are measured together; times in milliseconds by system."""

    turns: range
    times_ms: dict[str, list[float]] = field(default_factory=dict)
    busy_ms: dict[str, list[float]] = field(default_factory=dict)

    def take(self, number: int, name: str, system: System) -> None:
        taken, busy = system.turn_ms(number)
        self.times_ms.setdefault(name, []).append(taken)
        self.busy_ms.setdefault(name, []).append(busy)

    def added_ms(self, system: str) -> list[float]:
        bare = median(self.times_ms["bare"])
        return [max(0.0, one - bare) for one in self.times_ms[system]]

    def added_busy_ms(self, system: str) -> float:
        return max(0.0, median(self.busy_ms[system]) - median(self.busy_ms["bare"]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when the bar fails."""
    parser = make_parser("benchmarks.latency", __doc__)
    parser.add_argument("--turns", type=int, default=2000, help="turns of the thread")
    parser.add_argument("--lines", type=int, default=10_000, help="lines the user said before")
    parser.add_argument("--alone", action="store_true", help="leave the peer out")
    options = parser.parse_args(arguments)
    if options.turns < _FIRST + 6 or options.lines < 0:
        parser.error(f"--turns must be at least {_FIRST + 6} and --lines not negative")
    with tempfile.TemporaryDirectory(prefix="benchmark-latency-") as folder:
        names = (BARE, OURS) if options.alone else (BARE, OURS, PEER)
        found = measured(options.turns, options.lines, Path(folder), names)
    report = reported(found, options.lines)
    show_progress("")
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0 if all(bar["ok"] for bar in report["bars"] if bar["decides"]) else 1


# -- measuring -------------------------------------------------------------------------------


def windows(turns: int) -> list[Window]:
    """Return the windows of a thread of so many turns, in order: first, middle, last."""
    size = min(_WINDOW, (turns - _FIRST) // 3)
    starts = (_FIRST + 1, (_FIRST + turns - size) // 2 + 1, turns - size + 1)
    return [Window(range(start, start + size)) for start in starts]


def measured(turns: int, lines: int, folder: Path, names: Sequence[str]) -> list[Window]:
    """Take the turns of all windows with systems by name; return the windows with their times."""
    model = TurnModel()
    found = windows(turns)
    _said_before(lines, folder / "before.db")
    with ExitStack() as stack:
        places = []
        for number, window in enumerate(found):
            shutil.copy(folder / "before.db", folder / f"memory{number}.db")
            memory = ConversationMemory.open(folder / f"memory{number}.db")
            file = HistoryFile(folder / f"history{number}.db")
            stack.enter_context(memory)
            stack.enter_context(closing(file))
            show_progress(f"the turns before {window.turns[0]:,}")
            systems = _systems(model, memory, file)
            places.append((window, {name: systems[name] for name in names}))
            _filled(window.turns[0], model, memory, file, places[-1][1])
        for rounds in zip(*(window.turns for window in found), strict=True):
            show_progress(f"turns {', '.join(map(str, rounds))}")
            _taken(model, list(zip(rounds, places, strict=True)))
    return found


def _said_before(lines: int, path: Path) -> None:
    show_progress(f"{lines:,} lines of earlier threads")
    with ConversationMemory.open(path) as memory:
        for number, messages in enumerate(threads(lines)):
            memory.add_messages(messages, user_id="ana", thread_id=f"t{number}", durable=False)
        memory.refresh(user_id="ana")


def _systems(model: TurnModel, memory: ConversationMemory, file: HistoryFile) -> dict[str, System]:
    wrapped = memory.wrap(model, history_tokens=HISTORY_TOKENS)
    config: RunnableConfig = {"configurable": {"user_id": "ana", "thread_id": "long"}}
    with_messages = with_history(model, file.history)
    return {
        BARE: System(model, {}, lambda one: [one]),
        OURS: System(wrapped, config, lambda one: one),
        PEER: System(with_messages, at_session("long"), question),
    }


def _filled(
    first: int,
    model: TurnModel,
    memory: ConversationMemory,
    file: HistoryFile,
    systems: dict[str, System],
) -> None:
    """Bring a thread to where a window begins: directly, and the last turns as turns."""
    for number in range(1, first):
        messages = [HumanMessage(said(number)), AIMessage(answer(number))]
        if number < first - _FIRST:
            where = {"user_id": "ana", "thread_id": "long", "turn_id": make_ulid()}
            memory.add_messages(messages, **where, durable=False)
            if PEER in systems:
                file.history("long").add_messages(messages)
        else:
            model.turn = number
            for system in systems.values():
                system.turn_ms(number)


def _taken(model: TurnModel, places: list[tuple[int, tuple[Window, dict[str, System]]]]) -> None:
    """Take one turn of each window with each system, in changing order."""
    is_odd = places[0][0] % 2
    for number, (window, systems) in places if is_odd else places[::-1]:
        model.turn = number
        for name in systems if is_odd else reversed(systems):
            window.take(number, name, systems[name])


# -- reporting -------------------------------------------------------------------------------


def reported(found: Sequence[Window], lines: int) -> dict[str, Any]:
    """Return figures and bars as plain JSON."""
    names = [name for name in found[0].times_ms if name != BARE]
    rows = [
        {
            "turns": [window.turns[0], window.turns[-1]],
            "bare_ms": round(median(window.times_ms["bare"]), 3),
            "added_ms": {name: _figures(window.added_ms(name)) for name in names},
            "processor_ms": {name: round(window.added_busy_ms(name), 3) for name in names},
        }
        for window in found
    ]
    return {
        "machine": {
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            "system": f"{sys.platform} {platform.machine()}",
        },
        "lines_before": lines,
        "history_tokens": HISTORY_TOKENS,
        "turns": rows,
        "ratio": {name: _ratio(rows, name) for name in names},
        "bars": _bars(rows),
    }


def _figures(times: Sequence[float]) -> dict[str, float]:
    return {
        "p50": round(median(times), 3),
        "p95": round(quantiles(times, n=20, method="inclusive")[-1], 3),
    }


def _ratio(rows: Sequence[dict[str, Any]], name: str) -> float:
    first, last = (rows[at]["added_ms"][name]["p50"] for at in (0, -1))
    return float(round(last / max(first, 0.001), 2))


def _bars(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    ratio = _ratio(rows, "convmem")
    slowest = max(row["added_ms"]["convmem"]["p95"] for row in rows)
    what = f"convmem, median of turns {_span(rows[-1])} : {_span(rows[0])}"
    return [
        {"what": what, "value": ratio, "bound": RATIO, "ok": ratio <= RATIO, "decides": True},
        {
            "what": "convmem, slowest p95, ms (an aim)",
            "value": round(slowest, 2),
            "bound": AIM_MS,
            "ok": slowest <= AIM_MS,
            "decides": False,
        },
    ]


def _line(first: str, cells: Sequence[str], bare_ms: float | None = None) -> str:
    last = "" if bare_ms is None else f"{bare_ms:>12.2f}"
    return f"{first:<32}" + "".join(f"{cell:>20}" for cell in cells) + last


def _span(row: dict[str, Any]) -> str:
    first, last = row["turns"]
    return f"{first:,} to {last:,}"


def table(report: dict[str, Any]) -> str:
    """Return the report for people."""
    machine, names = report["machine"], list(report["ratio"])
    rows = [
        (
            f"Python {machine['python']}, SQLite {machine['sqlite']}, {machine['system']}; "
            f"{report['lines_before']:,} lines before, "
            f"{report['history_tokens']:,} tokens of history"
        ),
        "",
        (
            f"{'added ms per turn, p50 / p95':<32}"
            + "".join(f"{name:>20}" for name in names)
            + f"{'bare p50':>12}"
        ),
    ]
    for row in report["turns"]:
        cells = [_pair(row["added_ms"][name]) for name in names]
        rows.append(_line(f"  turns {_span(row)}", cells, row["bare_ms"]))
        cells = [f"{row['processor_ms'][name]:.2f}" for name in names]
        rows.append(_line("    processor, p50", cells))
    ratios = "".join(f"{report['ratio'][name]:>19.2f}x" for name in names)
    rows += [f"{'last : first':<32}{ratios}", "", "bars"]
    for bar in report["bars"]:
        verdict = "ok" if bar["ok"] else "FAILED"
        rows.append(
            f"  {bar['what']:<56}{bar['value']:>8.2f}  at most {bar['bound']:<6g} {verdict}"
        )
    return "\n".join(rows)


def _pair(figures: dict[str, float]) -> str:
    return f"{figures['p50']:.2f} / {figures['p95']:.2f}"


if __name__ == "__main__":
    raise SystemExit(main())
