"""What a turn costs more with a memory, from the first turns of a thread to its 2,000th.

    python -m benchmarks.latency [--turns 2000] [--lines 10000] [--json]

A user who has said 10,000 lines in earlier threads begins a new one and keeps talking. The model
answers at once, so what is measured is the rest of the turn: reading the thread, recall, and both
durable writes. Everything is in SQLite files with `synchronous=FULL`, in a temporary folder that is
removed.

Systems, one turn of each in turn:
    bare             the model alone, called with the user's message
    convmem          `memory.wrap(model, history_tokens=2000)`: recall over all of the user's lines
                     (1,000 tokens, the default), at most 2,000 tokens of the thread, both writes
    message-history  `RunnableWithMessageHistory` over a SQL history (benchmarks/sql_history.py): it
                     recalls nothing and cuts nothing. Where it is not measured its thread is filled
                     with the same messages directly.

Figures, for the turns around 10, 100, 500, 1,000 and 2,000 of one thread:
    added p50, p95   time of `invoke` less the median of `bare` in the same turns, milliseconds
    ratio            the last median : the first median, the same added times

Bars: `convmem` is flat (ratio at most 1.3); aim: p95 at most 8 ms everywhere. A machine that is
busy with something else fails the aim, not the ratio; only the ratio decides the exit code.
"""

from __future__ import annotations

import argparse
import json
import platform
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableConfig

from benchmarks.sql_history import HistoryFile, at_session, question, with_history
from benchmarks.synthetic_dialogue import answer, said, threads
from langchain_convmem import ConversationMemory

SYSTEMS = ("bare", "convmem", "message-history")
RATIO = 1.3
AIM_MS = 8.0
HISTORY_TOKENS = 2000
_MARKS = (10, 100, 500, 1_000, 2_000)
_FIRST = 5
"""Turns before the first mark that are measured with it."""
_AROUND = 40
"""Turns up to a mark that are measured with it."""


class InstantModel(BaseChatModel):
    """Answers at once, with the next of its answers."""

    turn: int = 0

    @property
    def _llm_type(self) -> str:
        return "instant"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(answer(self.turn)))])


@dataclass(frozen=True, slots=True)
class System:
    """Something to take a turn with."""

    chain: Runnable[Any, Any]
    config: RunnableConfig
    shaped: Callable[[HumanMessage], Any]

    def turn_ms(self, number: int) -> float:
        value = self.shaped(HumanMessage(said(number)))
        start = time.perf_counter()
        self.chain.invoke(value, self.config)
        return (time.perf_counter() - start) * 1000


@dataclass(slots=True)
class Window:
    """Turns that are measured together; `times_ms` by system."""

    mark: int
    turns: range
    times_ms: dict[str, list[float]] = field(default_factory=dict)

    def added_ms(self, system: str) -> list[float]:
        bare = median(self.times_ms["bare"])
        return [max(0.0, one - bare) for one in self.times_ms[system]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when the bar fails."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.latency",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--turns", type=int, default=2000, help="turns of the thread")
    parser.add_argument("--lines", type=int, default=10_000, help="lines the user said before")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    if options.turns < 2 * _MARKS[0] or options.lines < 0:
        parser.error(f"--turns must be at least {2 * _MARKS[0]} and --lines not negative")
    with tempfile.TemporaryDirectory(prefix="benchmark-latency-") as folder:
        report = reported(measured(options.turns, options.lines, Path(folder)), options.lines)
    print(file=sys.stderr)
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0 if all(bar["ok"] for bar in report["bars"] if bar["decides"]) else 1


# -- measuring -------------------------------------------------------------------------------


def windows(turns: int) -> list[Window]:
    """Return the windows of a thread of so many turns, its last turn a mark as well."""
    marks = [mark for mark in _MARKS if mark < turns * 0.9] + [turns]
    return [Window(mark, _around(mark, turns)) for mark in marks]


def _around(mark: int, turns: int) -> range:
    if mark == _MARKS[0]:
        return range(mark - _FIRST, min(mark + _FIRST, turns) + 1)
    return range(max(mark - _AROUND, _MARKS[0] + _FIRST) + 1, mark + 1)


def measured(turns: int, lines: int, folder: Path) -> list[Window]:
    """Take all turns of the thread; return the windows with their times."""
    model = InstantModel()
    with (
        ConversationMemory.open(folder / "memory.db") as memory,
        closing(HistoryFile(folder / "history.db")) as file,
    ):
        _progress(f"{lines:,} lines of earlier threads")
        for number, messages in enumerate(threads(lines)):
            memory.add_messages(messages, user_id="ana", thread_id=f"t{number}", relaxed=True)
        memory.refresh(user_id="ana")
        systems = {
            "bare": System(model, {}, lambda one: [one]),
            "convmem": System(
                memory.wrap(model, history_tokens=HISTORY_TOKENS),
                {"configurable": {"user_id": "ana", "thread_id": "long"}},
                lambda one: one,
            ),
            "message-history": System(
                with_history(model, file.history), at_session("long"), question
            ),
        }
        return list(_taken(turns, model, systems, file))


def _taken(
    turns: int, model: InstantModel, systems: dict[str, System], file: HistoryFile
) -> Iterator[Window]:
    number = 0
    for window in windows(turns):
        number = _walked(number + 1, window.turns.start, model, systems, file)
        for number in window.turns:
            model.turn = number
            _progress(f"turn {number:,}")
            order = SYSTEMS if number % 2 else SYSTEMS[::-1]
            for name in order:
                window.times_ms.setdefault(name, []).append(systems[name].turn_ms(number))
        yield window


def _walked(
    first: int, stop: int, model: InstantModel, systems: dict[str, System], file: HistoryFile
) -> int:
    """Take the turns before a window; return the last one."""
    for number in range(first, stop):
        model.turn = number
        _progress(f"turn {number:,}")
        systems["convmem"].turn_ms(number)
        messages = [HumanMessage(said(number)), AIMessage(answer(number))]
        file.history("long").add_messages(messages)
    return stop - 1


def _progress(text: str) -> None:
    print(f"\r{text:<40}", end="", file=sys.stderr, flush=True)


# -- reporting -------------------------------------------------------------------------------


def reported(found: Sequence[Window], lines: int) -> dict[str, Any]:
    """Return figures and bars as plain JSON."""
    rows = [
        {
            "turn": window.mark,
            "calls": len(window.turns),
            "bare_ms": round(median(window.times_ms["bare"]), 3),
            "added_ms": {name: _figures(window.added_ms(name)) for name in SYSTEMS[1:]},
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
        "ratio": {name: _ratio(rows, name) for name in SYSTEMS[1:]},
        "bars": _bars(rows),
    }


def _figures(times: Sequence[float]) -> dict[str, float]:
    return {
        "p50": round(median(times), 3),
        "p95": round(quantiles(times, n=20, method="inclusive")[-1], 3),
    }


def _ratio(rows: Sequence[dict[str, Any]], name: str) -> float:
    first, last = (rows[at]["added_ms"][name]["p50"] for at in (0, -1))
    return round(last / max(first, 0.001), 2)


def _bars(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    ratio = _ratio(rows, "convmem")
    slowest = max(row["added_ms"]["convmem"]["p95"] for row in rows)
    what = f"convmem, median at turn {rows[-1]['turn']:,} : {rows[0]['turn']:,}"
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


def table(report: dict[str, Any]) -> str:
    """Return the report for people."""
    machine = report["machine"]
    rows = [
        f"Python {machine['python']}, SQLite {machine['sqlite']}, {machine['system']}; "
        f"{report['lines_before']:,} lines before, {report['history_tokens']:,} tokens of history",
        "",
        f"{'added ms per turn, p50 / p95':<32}"
        + "".join(f"{name:>20}" for name in SYSTEMS[1:])
        + f"{'bare p50':>12}",
    ]
    for row in report["turns"]:
        cells = [_pair(row["added_ms"][name]) for name in SYSTEMS[1:]]
        rows.append(
            f"  around turn {row['turn']:<18,}"
            + "".join(f"{cell:>20}" for cell in cells)
            + f"{row['bare_ms']:>12.2f}"
        )
    ratios = "".join(f"{report['ratio'][name]:>19.2f}x" for name in SYSTEMS[1:])
    rows += [f"{'last : first':<32}{ratios}", "", "bars"]
    for bar in report["bars"]:
        verdict = "ok" if bar["ok"] else "FAILED"
        rows.append(
            f"  {bar['what']:<48}{bar['value']:>8.2f}  at most {bar['bound']:<6g} {verdict}"
        )
    return "\n".join(rows)


def _pair(figures: dict[str, float]) -> str:
    return f"{figures['p50']:.2f} / {figures['p95']:.2f}"


if __name__ == "__main__":
    raise SystemExit(main())
