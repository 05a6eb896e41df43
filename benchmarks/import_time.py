"""What importing the package costs, beside what every LangChain program pays anyway.

    python -m benchmarks.import_time [--rounds N] [--json]

Each round starts one fresh interpreter per statement, in alternating order, so that a busy machine
slows all alike. The start of the interpreter itself is taken off. Times are wall clock, from start
to exit, in milliseconds; the ratio is of medians, smaller is better.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from statistics import median
from typing import Any

from benchmarks import ui
from benchmarks.rounds import Case, run_rounds

STATEMENTS = (
    "from langchain_core.runnables import Runnable",
    "import langchain_convmem",
    "from langchain_convmem import ConversationMemory",
)
"""What is timed; the first is what the others are compared with."""


def start(statement: str) -> None:
    """Run a statement in an interpreter of its own."""
    subprocess.run([sys.executable, "-c", statement], check=True)


def make_table(report: dict[str, Any]) -> list[str]:
    """Return the report for people."""
    ratios = report["ratio_to_first"]
    rows = [(one, f"{ms:.1f} ms", f"{ratios[one]:.3f}x") for one, ms in report["import_ms"].items()]
    taken = f"interpreter start ({report['interpreter_ms']:.1f} ms) taken off"
    return [f"{ui.format_machine(report['machine'])}; {taken}", *ui.format_rows(rows)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code."""
    parser = ui.make_parser("benchmarks.import_time", __doc__)
    parser.add_argument("--rounds", type=ui.parse_positive, default=9, help="fresh processes each")
    options = parser.parse_args(arguments)
    cases = {one: Case(lambda _, one=one: [lambda: start(one)]) for one in ("pass", *STATEMENTS)}  # type: ignore[misc]
    for statement in STATEMENTS:
        start(statement)  # writes byte code and fills the disk cache
    run_rounds(cases, rounds=options.rounds, seconds=600, what="imports")
    nothing = median(cases.pop("pass").times_ms)
    own = {one: median(case.times_ms) - nothing for one, case in cases.items()}
    report = {
        "machine": ui.describe_machine("langchain-core"),
        "interpreter_ms": round(nothing, 1),
        "import_ms": {one: round(ms, 1) for one, ms in own.items()},
        "ratio_to_first": {one: round(ms / own[STATEMENTS[0]], 3) for one, ms in own.items()},
    }
    return ui.print_report(report, make_table, as_json=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
