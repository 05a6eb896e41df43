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

STATEMENTS = {
    "nothing": "pass",
    "runnable": "from langchain_core.runnables import Runnable",
    "package": "import langchain_convmem",
    "memory": "from langchain_convmem import ConversationMemory",
}


def measure(rounds: int) -> dict[str, Any]:
    """Return the median time of every statement and the ratios to `runnable`."""

    def start(statement: str) -> None:
        subprocess.run([sys.executable, "-c", statement], check=True)

    cases = {
        name: Case(lambda _, statement=statement: [lambda: start(statement)])  # type: ignore[misc]
        for name, statement in STATEMENTS.items()
    }
    for statement in STATEMENTS.values():
        start(statement)  # writes byte code and fills the disk cache
    run_rounds(cases, rounds=rounds, seconds=600, what="imports")
    medians = {name: median(case.times_ms) for name, case in cases.items()}
    nothing = medians.pop("nothing")
    own = {name: value - nothing for name, value in medians.items()}
    return {
        "machine": ui.describe_machine("langchain-core"),
        "interpreter_ms": round(nothing, 1),
        "import_ms": {name: round(value, 1) for name, value in own.items()},
        "ratio_to_runnable": {name: round(one / own["runnable"], 3) for name, one in own.items()},
    }


def make_table(report: dict[str, Any]) -> list[str]:
    """Return the report for people."""
    rows = [
        (STATEMENTS[name], f"{ms:.1f} ms", f"{report['ratio_to_runnable'][name]:.3f}x")
        for name, ms in report["import_ms"].items()
    ]
    start = f"interpreter start ({report['interpreter_ms']:.1f} ms) taken off"
    return [f"{ui.format_machine(report['machine'])}; {start}", *ui.format_rows(rows)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code."""
    parser = ui.make_parser("benchmarks.import_time", __doc__)
    parser.add_argument("--rounds", type=ui.parse_positive, default=9, help="fresh processes each")
    options = parser.parse_args(arguments)
    return ui.print_report(measure(options.rounds), make_table, as_json=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
