"""What a log's signatures and its care for forks cost, beside an earlier version, in one run.

    python -m benchmarks.integrity CHECKOUT [--rounds 150] [--folder FOLDER] [--json]

A checkout is a folder that holds another version, as for `benchmarks.beside`. Each version works in
a process of its own on a file of its own, one operation after the other in changing order, so that
a machine that becomes busier slows both alike. Files lie in a temporary folder within FOLDER: in
memory, such as in `/dev/shm`, there is no disk to wait for.

Operations, of a `SQLiteLog` with one thread of 2,000 messages and 200 others:
    append of one    a durable commit of one message
    append of two    the same of a message and its reply, which has usage and an id
    entries          all of the thread
    load of one      its last entry
    warm thread      `read_thread` of its last 40 entries, as each turn begins; one of them is new
    line changes     what an index reads: all lines of the user
    no changes       what every recall asks: whether there is anything new

Figures: processor time in microseconds, of the quickest of the rounds, of which each takes the
median of some operations in a row, and the quotient of both. What else the machine does only makes
a round slower. Bytes are those of the file per entry, its log folded in.

Bars: each quotient at most 1.1; at most 40 bytes more.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

BAR = 1.1
BYTES_BAR = 40
_ENTRIES = 2000
_OTHERS = 200
_WARM = 40
_TEXT = "We should bring the blue umbrella, since the tram to the harbour leaves at nine, {}. "
_IN_A_ROW = {
    "append of one": 10,
    "append of two": 10,
    "entries": 1,
    "load of one": 20,
    "warm thread": 5,
    "line changes": 1,
    "no changes": 20,
}
_OURS = Path(__file__).resolve().parent.parent


# -- one version -----------------------------------------------------------------------------


def serve(folder: Path) -> None:
    """Answer each name of an operation with the microseconds that it takes; `bytes` with these."""
    path = folder / "log.db"
    operations, close = _make_operations(path)
    for line in sys.stdin:
        name = line.strip()
        if name == "bytes":
            count = close()
            print(json.dumps(path.stat().st_size / count), flush=True)
        else:
            print(json.dumps(_measure_us(operations[name], _IN_A_ROW[name])), flush=True)


def _measure_us(operation: Callable[[], object], count: int) -> float:
    spent = []
    for _ in range(count):
        start = time.process_time()
        operation()
        spent.append(time.process_time() - start)
    return 1e6 * median(spent)


def _make_operations(path: Path) -> tuple[dict[str, Callable[[], object]], Callable[[], int]]:
    from langchain_core.messages import AIMessage, HumanMessage

    from langchain_convmem.logs import SQLiteLog
    from langchain_convmem.records import Draft, Owner, ThreadKey
    from langchain_convmem.views.codec import make_draft

    log: Any = SQLiteLog(path)
    key, owner = ThreadKey("ana", "garden"), Owner(user_id="ana")
    count = 0

    def say() -> list[Draft]:
        nonlocal count
        count += 1
        # Of many lengths: otherwise one length decides how many entries happen to fit a page.
        text = _TEXT.format(count) + _TEXT * 2
        return [make_draft(HumanMessage(text[: 60 + count * 61 % 180]))]

    def reply() -> list[Draft]:
        usage = {"input_tokens": 800 + count, "output_tokens": 40, "total_tokens": 840 + count}
        answer: Any = {"content": _TEXT.format(count), "usage_metadata": usage}
        message = AIMessage(**answer, id=f"lc_run--{count:032x}")
        return [*say(), make_draft(message)]

    for number in range(_OTHERS):
        log.append(ThreadKey(f"user {number}", "garden"), say())
    log.append(key, [draft for _ in range(_ENTRIES) for draft in say()])
    newest = log.changes(owner).cursor
    quiet = Owner(user_id="user 7")
    begin = newest - _WARM

    def read_warm() -> object:
        return log.read_thread(key, "cache:summary", lambda _: [(begin, None)])

    def close() -> int:
        found = sum(len(log.entries(ThreadKey(f"user {one}", "garden"))) for one in range(_OTHERS))
        found += len(log.entries(key)) + len(log.entries(other))
        log.close()
        return int(found)

    other = ThreadKey("ben", "garden")  # those of `key` stay as many as they are
    cursor = log.changes(quiet).cursor
    operations: dict[str, Callable[[], object]] = {
        "append of one": lambda: log.append(other, say()),
        "append of two": lambda: log.append(other, reply()),
        "entries": lambda: log.entries(key),
        "load of one": lambda: log.entries(key, last=1),
        "warm thread": read_warm,
        "line changes": lambda: log.line_changes(owner),
        "no changes": lambda: log.changes(quiet, cursor),
    }
    return operations, close


# -- both ------------------------------------------------------------------------------------


def measure(checkout: Path, rounds: int, folder: Path) -> dict[str, Any]:
    """Return figures and bars as plain JSON."""
    from benchmarks.beside import Process

    versions = []
    for number, place in enumerate((_OURS, checkout)):
        own = folder / str(number)
        own.mkdir()
        versions.append(Process(place, __file__, "--serve", str(own)))
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in _IN_A_ROW}
    for number in range(rounds):
        for name, pairs in times.items():
            if number % 2:
                theirs, ours = (one.ask(name) for one in versions[::-1])
            else:
                ours, theirs = (one.ask(name) for one in versions)
            pairs.append((ours, theirs))
    ours, theirs = (one.ask("bytes") for one in versions)
    for one in versions:
        one.close()
    rows: list[dict[str, Any]] = [
        {"operation": name, **_summarize(pairs[2:])} for name, pairs in times.items()
    ]
    worst = max(row["ratio"] for row in rows)
    return {
        "operations": rows,
        "bytes": [round(ours, 1), round(theirs, 1)],
        "worst": worst,
        "bar": BAR,
        "ok": worst <= BAR and ours - theirs <= BYTES_BAR,
    }


def _summarize(pairs: Sequence[tuple[float, float]]) -> dict[str, float]:
    ours, theirs = (min(times) for times in zip(*pairs, strict=True))
    return {
        "ours_us": round(ours, 1),
        "before_us": round(theirs, 1),
        "ratio": round(ours / theirs, 3),
    }


def make_table(report: dict[str, Any]) -> str:
    """Return the report for people."""
    lines = [f"{'processor, microseconds':<24}{'ours':>10}{'before':>10}{'ratio':>8}"]
    lines += [
        f"  {row['operation']:<22}{row['ours_us']:>10.1f}{row['before_us']:>10.1f}"
        f"{row['ratio']:>8.2f}"
        for row in report["operations"]
    ]
    ours, theirs = report["bytes"]
    lines.append(f"{'bytes per entry':<24}{ours:>10.1f}{theirs:>10.1f}")
    verdict = "ok" if report["ok"] else "FAILED"
    bars = f"ratios at most {BAR}, at most {BYTES_BAR} bytes more"
    return "\n".join([*lines, "", f"bar: {bars}: {verdict}"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when a bar fails."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.integrity",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkout", nargs="?", type=Path, help="folder of the version before")
    parser.add_argument("--rounds", type=int, default=150, metavar="N", help="default 150")
    parser.add_argument("--folder", type=Path, help="where the files lie meanwhile")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve is not None:
        serve(options.serve)
        return 0
    if options.checkout is None or options.rounds < 4:
        parser.error("name a checkout, and at least 4 rounds")
    with tempfile.TemporaryDirectory(prefix="integrity-", dir=options.folder) as folder:
        report = measure(options.checkout.resolve(), options.rounds, Path(folder))
    print(json.dumps(report, indent=2) if options.json else make_table(report))
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
