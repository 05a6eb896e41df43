"""What a turn costs more with a memory, from the first turns of a thread to its 2,000th.

    python -m benchmarks.latency [--turns 2000] [--lines 10000] [--json]

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
                     recalls nothing and cuts nothing

Figures, for each stretch:
    added p50, p95   time of `invoke` less the median of `bare` in the same turns, milliseconds
    processor        median of the time that `invoke` kept a processor busy, less that of `bare`
    ratio            the last median : the first median, the same added times

Bars: `convmem` is flat (ratio at most 1.3); aim: p95 at most 8 ms everywhere. A machine that is
busy with something else fails the aim, not the ratio; only the ratio decides the exit code.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, HumanMessage

from benchmarks import ui
from benchmarks.rounds import alternate, summarize_ms
from benchmarks.scripted_model import AnsweringModel
from benchmarks.sql_history import HistoryFile, at_session, question, with_history
from benchmarks.synthetic_dialogue import answer, said, threads
from langchain_convmem import ConversationMemory
from langchain_convmem.ids import make_ulid

RATIO, AIM_MS = 1.3, 8.0
HISTORY_TOKENS = 2000
_FIRST = 10
"""Turns before the first one of a stretch that are taken and not measured: they fill caches."""
_LENGTH = 100

Turn = Callable[[HumanMessage], object]


class Stretch(NamedTuple):
    """Turns that are measured together; milliseconds of clock and processor by system."""

    turns: range
    times: dict[str, list[tuple[float, float]]]

    def list_added_ms(self, name: str, clock: int = 0) -> list[float]:
        """Return what each turn of a system took beyond the median of the bare model."""
        bare = median(one[clock] for one in self.times["bare"])
        return [max(0.0, one[clock] - bare) for one in self.times[name]]


def list_stretches(turns: int) -> list[Stretch]:
    """Return the stretches of a thread of so many turns: first, middle, last."""
    size = min(_LENGTH, (turns - _FIRST) // 3)
    starts = (_FIRST + 1, (_FIRST + turns - size) // 2 + 1, turns - size + 1)
    return [Stretch(range(start, start + size), {}) for start in starts]


def measure(turns: int, lines: int, folder: Path) -> list[Stretch]:
    """Take the turns of all stretches; return them with their times."""
    number = 0
    model = AnsweringModel(reply=lambda _: AIMessage(answer(number)))
    stretches = list_stretches(turns)
    _say_before(lines, folder / "before.db")
    with ExitStack() as stack:
        places: list[tuple[Stretch, dict[str, Turn]]] = []
        for at, stretch in enumerate(stretches):
            ui.show_progress(f"the turns before {stretch.turns[0]:,}")
            shutil.copy(folder / "before.db", folder / f"memory{at}.db")
            memory = stack.enter_context(ConversationMemory.open(folder / f"memory{at}.db"))
            file = stack.enter_context(closing(HistoryFile(folder / f"history{at}.db")))
            systems = _make_systems(model, memory, file)
            first = stretch.turns[0]
            for number in range(1, first - _FIRST):
                messages = [HumanMessage(said(number)), AIMessage(answer(number))]
                where = {"user_id": "ana", "thread_id": "long", "turn_id": make_ulid()}
                memory.add_messages(messages, **where, durable=False)
                file.history("long").add_messages(messages)
            for number in range(max(first - _FIRST, 1), first):
                for take in systems.values():
                    take(HumanMessage(said(number)))
            places.append((stretch, systems))
        for step in range(len(stretches[0].turns)):
            for stretch, systems in alternate(places, step):
                number = stretch.turns[step]
                ui.show_progress(f"turn {number:,}")
                for name in alternate(list(systems), step):
                    times = _time(systems[name], HumanMessage(said(number)))
                    stretch.times.setdefault(name, []).append(times)
    return stretches


def _time(take: Turn, human: HumanMessage) -> tuple[float, float]:
    start, busy = time.perf_counter(), time.process_time()
    take(human)
    return (time.perf_counter() - start) * 1000, (time.process_time() - busy) * 1000


def _say_before(lines: int, path: Path) -> None:
    ui.show_progress(f"{lines:,} lines of earlier threads")
    with ConversationMemory.open(path) as memory:
        for number, messages in enumerate(threads(lines)):
            memory.add_messages(messages, user_id="ana", thread_id=f"t{number}", durable=False)
        memory.refresh(user_id="ana")


def _make_systems(
    model: AnsweringModel, memory: ConversationMemory, file: HistoryFile
) -> dict[str, Turn]:
    wrapped = memory.wrap(model, history_tokens=HISTORY_TOKENS)
    here: Any = {"configurable": {"user_id": "ana", "thread_id": "long"}}
    peer = with_history(model, file.history)
    return {
        "bare": lambda human: model.invoke([human]),
        "convmem": lambda human: wrapped.invoke(human, here),
        "message-history": lambda human: peer.invoke(question(human), at_session("long")),
    }


def make_report(stretches: Sequence[Stretch], lines: int) -> dict[str, Any]:
    """Return figures and bars as plain JSON."""
    names = ("convmem", "message-history")
    rows: list[dict[str, Any]] = [
        {
            "turns": [one.turns[0], one.turns[-1]],
            "bare_ms": round(median(clock for clock, _ in one.times["bare"]), 3),
            "added_ms": {name: summarize_ms(one.list_added_ms(name)) for name in names},
            "processor_ms": {name: round(median(one.list_added_ms(name, 1)), 3) for name in names},
        }
        for one in stretches
    ]
    first, last = rows[0]["added_ms"], rows[-1]["added_ms"]
    ratio = {name: round(last[name]["p50"] / max(first[name]["p50"], 0.001), 2) for name in names}
    slowest = max(row["added_ms"]["convmem"]["p95"] for row in rows)
    return {
        "machine": ui.describe_machine("langchain-core"),
        "lines_before": lines,
        "history_tokens": HISTORY_TOKENS,
        "turns": rows,
        "ratio": ratio,
        "bars": [
            ui.make_bar("convmem, last median : first", ratio["convmem"], RATIO),
            ui.make_bar("convmem, slowest p95, ms", slowest, AIM_MS, decides=False),
        ],
    }


def make_table(report: dict[str, Any]) -> list[str]:
    """Return the report for people."""
    names = list(report["ratio"])
    rows: list[list[object]] = [["added ms per turn, p50 / p95", *names, "bare p50"]]
    for row in report["turns"]:
        first, last = row["turns"]
        added = [f"{one['p50']:.2f} / {one['p95']:.2f}" for one in row["added_ms"].values()]
        rows.append([f"  turns {first:,} to {last:,}", *added, f"{row['bare_ms']:.2f}"])
        rows.append(["    processor, p50", *(f"{ms:.2f}" for ms in row["processor_ms"].values())])
    rows.append(["last : first", *(f"{one:.2f}x" for one in report["ratio"].values())])
    before = f"{report['lines_before']:,} lines before, {HISTORY_TOKENS:,} tokens of history"
    return [f"{ui.format_machine(report['machine'])}; {before}", "", *ui.format_rows(rows)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when the bar fails."""
    parser = ui.make_parser("benchmarks.latency", __doc__)
    parser.add_argument("--turns", type=int, default=2000, help="turns of the thread")
    parser.add_argument("--lines", type=int, default=10_000, help="lines the user said before")
    options = parser.parse_args(arguments)
    if options.turns < _FIRST + 6 or options.lines < 0:
        parser.error(f"--turns must be at least {_FIRST + 6} and --lines not negative")
    with tempfile.TemporaryDirectory(prefix="benchmark-latency-") as folder:
        found = measure(options.turns, options.lines, Path(folder))
    return ui.print_report(make_report(found, options.lines), make_table, as_json=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
