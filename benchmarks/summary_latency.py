"""What a slow summariser costs the user: a turn with summaries in the background, and without.

    python -m benchmarks.summary_latency [--turns 600] [--seconds 2] [--pace 0.15] [--json]

A thread of many turns; the model answers at once, the summariser takes two seconds and then quotes
the beginnings of what it was given. Every memory has its own SQLite file, recall, and the same
budget. A turn of each begins every so many seconds (`--pace`), far faster than anybody talks, so
that a summary is in the making during most of them, on a fast machine as on a slow one.

Systems:
    without       a memory without a summariser
    background    `summarize_when="background"`, the default
    foreground    `summarize_when="foreground"`

`without` and `background` take one turn each in turn, in changing order; so what else the machine
is doing slows both alike. `foreground` comes behind them, with fewer turns: where it waits, a
background worker would finish unseen.

Figures:
    p50, p95, max   time of a turn, milliseconds
    waits           turns that took as long as a summary, or longer
    under way       turns during which a summary was in the making
    summaries       that were written
    tokens          mean of what the model got

Bar: the p95 of `background` is at most 1.1 times that of `without`.
"""

from __future__ import annotations

import json
import platform
import sqlite3
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median, quantiles
from typing import Any, Literal

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda

from benchmarks.synthetic_dialogue import answer, said
from benchmarks.terminal import make_parser, show_progress
from langchain_convmem import ConversationMemory
from langchain_convmem.summarizing import SummarySettings
from langchain_convmem.summarizing.summarizers import SummaryRequest
from langchain_convmem.views.messages import count_tokens

SYSTEMS = ("without", "background", "foreground")
RATIO = 1.1
SETTINGS = SummarySettings(trigger=("tokens", 2000), keep=("tokens", 800))
CONTEXT_TOKENS = 4000
_WARM_UP = 20
"""Turns that are taken and not measured: they fill caches and the budget."""
_FOREGROUND_SHARE = 5
"""The foreground takes one turn for so many of the others."""
_QUOTED = 1200
_HERE: RunnableConfig = {"configurable": {"user_id": "ana", "thread_id": "long"}}


class SlowSummarizer:
    """Takes its time, as a model over a network does, and quotes the beginnings."""

    name = "slow"

    def __init__(self, seconds: float) -> None:
        self.is_working = False
        self.seconds = seconds

    def summarize(self, request: SummaryRequest) -> str:
        self.is_working = True
        time.sleep(self.seconds)
        self.is_working = False
        return f"{request.previous[:_QUOTED]}\n{request.transcript[:_QUOTED]}"

    async def asummarize(self, request: SummaryRequest) -> str:
        raise NotImplementedError("every turn here is synchronous")


@dataclass(slots=True)
class System:
    """A memory that takes turns of one thread.

    Attributes:
        times_ms: Of the turns that are measured.
        tokens: What the model got in them.
        under_way: How many of them began or ended while a summary was in the making.
    """

    memory: ConversationMemory
    summarizer: SlowSummarizer
    times_ms: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    under_way: int = 0

    def take(self, number: int, *, is_measured: bool) -> None:
        """Take a turn."""
        got: list[BaseMessage] = []

        def model(given: dict[str, Any]) -> str:
            got.extend(given["messages"])
            return answer(number)

        chain = self.memory.wrap(RunnableLambda(model), context_tokens=CONTEXT_TOKENS)
        human, was_working = HumanMessage(said(number)), self.summarizer.is_working
        start = time.perf_counter()
        chain.invoke(human, _HERE)
        taken_ms = (time.perf_counter() - start) * 1000
        if is_measured:
            self.times_ms.append(taken_ms)
            self.tokens.append(count_tokens(got))
            self.under_way += was_working or self.summarizer.is_working

    def figures(self) -> dict[str, Any]:
        """Return what was measured, once nothing is under way any more."""
        self.memory.flush()
        entries = self.memory.history("long", user_id="ana").entries
        return {
            "turns": len(self.times_ms),
            "p50_ms": round(median(self.times_ms), 2),
            "p95_ms": round(quantiles(self.times_ms, n=20, method="inclusive")[-1], 2),
            "max_ms": round(max(self.times_ms), 2),
            "waits": sum(one >= self.summarizer.seconds * 1000 for one in self.times_ms),
            "under_way": self.under_way,
            "summaries": sum(one.role == "summary" for one in entries),
            "tokens": round(mean(self.tokens)),
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when the bar fails."""
    parser = make_parser("benchmarks.summary_latency", __doc__)
    parser.add_argument("--turns", type=int, default=600, help="turns that are measured")
    parser.add_argument("--seconds", type=float, default=2.0, help="what a summary takes")
    parser.add_argument("--pace", type=float, default=0.15, help="seconds from turn to turn")
    options = parser.parse_args(arguments)
    if options.turns < 2 * _FOREGROUND_SHARE or options.seconds < 0:
        least = 2 * _FOREGROUND_SHARE
        parser.error(f"--turns must be at least {least} and --seconds not negative")
    with tempfile.TemporaryDirectory(prefix="benchmark-summary-latency-") as folder:
        found = measured(options.turns, options.seconds, options.pace, Path(folder))
    report = reported(found, options.seconds)
    show_progress("")
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0 if all(bar["ok"] for bar in report["bars"]) else 1


# -- measuring -------------------------------------------------------------------------------


def measured(turns: int, seconds: float, pace: float, folder: Path) -> dict[str, dict[str, Any]]:
    """Take the turns; return the figures of each system."""
    with ExitStack() as stack:
        systems = {name: _system(name, seconds, folder, stack) for name in SYSTEMS}
        pair = [systems["without"], systems["background"]]
        for number in range(_WARM_UP + turns):
            show_progress(f"turn {number:,} of {_WARM_UP + turns:,}")
            begun = time.monotonic()
            for system in pair if number % 2 else reversed(pair):
                system.take(number, is_measured=number >= _WARM_UP)
            time.sleep(max(begun + pace - time.monotonic(), 0.0))
        systems["background"].memory.flush()
        for number in range(_WARM_UP + turns // _FOREGROUND_SHARE):
            show_progress(f"foreground, turn {number:,}")
            systems["foreground"].take(number, is_measured=number >= _WARM_UP)
        return {name: system.figures() for name, system in systems.items()}


def _system(name: str, seconds: float, folder: Path, stack: ExitStack) -> System:
    summarizer = SlowSummarizer(seconds)
    path = folder / f"{name}.db"
    if name == "without":
        memory = ConversationMemory.open(path)
    else:
        when: Literal["foreground", "background"] = (
            "foreground" if name == "foreground" else "background"
        )
        memory = ConversationMemory.open(
            path,
            summarizer=summarizer,
            summary_settings=SETTINGS,
            summarize_when=when,
        )
    return System(stack.enter_context(memory), summarizer)


# -- reporting -------------------------------------------------------------------------------


def reported(figures: dict[str, dict[str, Any]], seconds: float) -> dict[str, Any]:
    """Return figures and bar as plain JSON."""
    ratio = figures["background"]["p95_ms"] / max(figures["without"]["p95_ms"], 0.001)
    return {
        "machine": {
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            "system": f"{sys.platform} {platform.machine()}",
        },
        "summary_seconds": seconds,
        "systems": figures,
        "bars": [
            {
                "what": "p95 of a turn, background : without",
                "value": round(ratio, 3),
                "bound": RATIO,
                "ok": ratio <= RATIO,
            }
        ],
    }


_COLUMNS = ("turns", "p50_ms", "p95_ms", "max_ms", "waits", "under_way", "summaries", "tokens")


def table(report: dict[str, Any]) -> str:
    """Return the report for people."""
    machine = report["machine"]
    rows = [
        (
            f"Python {machine['python']}, SQLite {machine['sqlite']}, {machine['system']}; "
            f"a summary takes {report['summary_seconds']:g} s"
        ),
        "",
        f"{'':<14}" + "".join(f"{name:>12}" for name in _COLUMNS),
    ]
    for name, figures in report["systems"].items():
        cells = "".join(f"{figures[column]:>12,}" for column in _COLUMNS)
        rows.append(f"{name:<14}{cells}")
    rows += ["", "bars"]
    for bar in report["bars"]:
        verdict = "ok" if bar["ok"] else "FAILED"
        rows.append(f"  {bar['what']:<40}{bar['value']:>8.2f}  at most {bar['bound']:g} {verdict}")
    return "\n".join(rows)


if __name__ == "__main__":
    raise SystemExit(main())
