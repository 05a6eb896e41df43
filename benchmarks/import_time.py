"""What importing the package costs, beside what every LangChain program pays anyway.

    python -m benchmarks.import_time [--rounds N] [--json]

Each round starts one fresh interpreter per statement, in alternating order, so that a busy machine
slows all alike. The start of the interpreter itself is measured too and taken off. Times are wall
clock, from start to exit, in milliseconds; the ratio is of medians, smaller is better.

Statements:
    nothing   pass
    runnable  from langchain_core.runnables import Runnable
    package   import langchain_convmem
    memory    from langchain_convmem import ConversationMemory
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

STATEMENTS = {
    "nothing": "pass",
    "runnable": "from langchain_core.runnables import Runnable",
    "package": "import langchain_convmem",
    "memory": "from langchain_convmem import ConversationMemory",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=9, help="fresh processes per statement")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error(f"--rounds must be at least 1, got {options.rounds}")
    result = measured(options.rounds)
    print(json.dumps(result, indent=2) if options.json else _table(result))
    return 0


def measured(rounds: int) -> dict[str, Any]:
    """Return the median time of every statement and the ratios to `runnable`."""
    times: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for statement in STATEMENTS.values():
        _run_ms(statement)  # writes byte code and fills the disk cache
    for number in range(rounds):
        names = list(STATEMENTS)
        for name in names if number % 2 else reversed(names):
            times[name].append(_run_ms(STATEMENTS[name]))
    medians = {name: median(values) for name, values in times.items()}
    start = medians.pop("nothing")
    own = {name: value - start for name, value in medians.items()}
    return {
        "rounds": rounds,
        "python": sys.version.split()[0],
        "interpreter_ms": round(start, 1),
        "import_ms": {name: round(value, 1) for name, value in own.items()},
        "ratio_to_runnable": {
            name: round(value / own["runnable"], 3)
            for name, value in own.items()
            if name != "runnable"
        },
    }


def _run_ms(statement: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return (time.perf_counter() - start) * 1000


def _table(result: dict[str, Any]) -> str:
    ratios = {"runnable": 1.0, **result["ratio_to_runnable"]}
    rows = [
        f"{STATEMENTS[name]:<52}{value:>8.1f} ms{ratios[name]:>8.3f}x"
        for name, value in result["import_ms"].items()
    ]
    head = (
        f"Python {result['python']}, median of {result['rounds']} fresh processes each, "
        f"interpreter start ({result['interpreter_ms']:.1f} ms) taken off"
    )
    return "\n".join([head, *rows])


if __name__ == "__main__":
    raise SystemExit(main())
