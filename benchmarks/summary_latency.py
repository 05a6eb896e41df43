"""What a slow summariser costs the user: a turn with summaries in the background, and without.

    python -m benchmarks.summary_latency [--turns 600] [--seconds 2] [--json]

A thread of many turns; the model answers at once, the summariser takes two seconds and then quotes
the beginnings of what it was given. Every memory has its own SQLite file, recall, and the same
budget. A turn of each begins every 0.15 seconds, far faster than anybody talks, so
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
    under way       turns during which a summary was in the making
    summaries       that were written

Bar: the p95 of `background` is at most 1.1 times that of `without`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda

from benchmarks import ui
from benchmarks.rounds import alternate, summarize_ms, time_ms
from benchmarks.synthetic_dialogue import answer, said
from langchain_convmem import ConversationMemory
from langchain_convmem.summarizing import SummarySettings
from langchain_convmem.summarizing.summarizers import SummaryRequest

RATIO = 1.1
SETTINGS = SummarySettings(trigger=("tokens", 2000), keep=("tokens", 800))
CONTEXT_TOKENS = 4000
_PACE_S = 0.15
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
    """A memory that takes turns of one thread; times and summaries under way of those measured."""

    memory: ConversationMemory
    summarizer: SlowSummarizer
    times_ms: list[float] = field(default_factory=list)
    under_way: int = 0

    def take(self, number: int) -> None:
        """Take a turn."""
        model: Any = RunnableLambda(lambda _: answer(number))
        chain = self.memory.wrap(model, context_tokens=CONTEXT_TOKENS)
        human, was_working = HumanMessage(said(number)), self.summarizer.is_working
        taken_ms = time_ms(lambda: chain.invoke(human, _HERE))
        if number >= _WARM_UP:
            self.times_ms.append(taken_ms)
            self.under_way += was_working or self.summarizer.is_working

    def list_figures(self) -> dict[str, Any]:
        """Return what was measured, once nothing is under way any more."""
        self.memory.flush()
        entries = self.memory.history("long", user_id="ana").entries
        return {
            "turns": len(self.times_ms),
            **{f"{name}_ms": value for name, value in summarize_ms(self.times_ms).items()},
            "under_way": self.under_way,
            "summaries": sum(one.role == "summary" for one in entries),
        }


def measure(turns: int, seconds: float, folder: Path) -> dict[str, dict[str, Any]]:
    """Take the turns; return the figures of each system."""
    with ExitStack() as stack:
        systems = {}
        for name in ("without", "background", "foreground"):
            summarizer = SlowSummarizer(seconds)
            options: dict[str, Any] = {}
            if name != "without":
                options = {"summary_settings": SETTINGS, "summarize_when": name}
                options["summarizer"] = summarizer
            memory = ConversationMemory.open(folder / f"{name}.db", **options)
            systems[name] = System(stack.enter_context(memory), summarizer)
        pair = [systems["without"], systems["background"]]
        for number in range(_WARM_UP + turns):
            ui.show_progress(f"turn {number:,} of {_WARM_UP + turns:,}")
            begun = time.monotonic()
            for system in alternate(pair, number):
                system.take(number)
            time.sleep(max(begun + _PACE_S - time.monotonic(), 0.0))
        systems["background"].memory.flush()
        for number in range(_WARM_UP + turns // _FOREGROUND_SHARE):
            ui.show_progress(f"foreground, turn {number:,}")
            systems["foreground"].take(number)
        return {name: system.list_figures() for name, system in systems.items()}


def make_report(systems: dict[str, dict[str, Any]], seconds: float) -> dict[str, Any]:
    """Return figures and bar as plain JSON."""
    ratio = systems["background"]["p95_ms"] / max(systems["without"]["p95_ms"], 0.001)
    bars = [ui.make_bar("p95 of a turn, background : without", ratio, RATIO)]
    machine = ui.describe_machine()
    return {"machine": machine, "summary_seconds": seconds, "systems": systems, "bars": bars}


def make_table(report: dict[str, Any]) -> list[str]:
    """Return the report for people."""
    systems = report["systems"]
    rows = [("", *systems["without"]), *((name, *one.values()) for name, one in systems.items())]
    summary = f"a summary takes {report['summary_seconds']:g} s"
    return [f"{ui.format_machine(report['machine'])}; {summary}", "", *ui.format_rows(rows)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when the bar fails."""
    parser = ui.make_parser("benchmarks.summary_latency", __doc__)
    parser.add_argument("--turns", type=int, default=600, help="turns that are measured")
    parser.add_argument("--seconds", type=float, default=2.0, help="what a summary takes")
    options = parser.parse_args(arguments)
    if options.turns < 2 * _FOREGROUND_SHARE or options.seconds < 0:
        parser.error("--turns must be at least 10 and --seconds not negative")
    with tempfile.TemporaryDirectory(prefix="benchmark-summary-latency-") as folder:
        found = measure(options.turns, options.seconds, Path(folder))
    return ui.print_report(make_report(found, options.seconds), make_table, as_json=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
