"""The command line: `python -m benchmarks.log`."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import benchmarks.log
from benchmarks.log.measuring import progress
from benchmarks.log.report import reported, table
from benchmarks.log.running import Plan, measured
from benchmarks.terminal import make_parser

_FULL = (10, 1_000, 100_000)
_QUICK = (10, 1_000, 5_000)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when a bar fails."""
    parser = make_parser("benchmarks.log", benchmarks.log.__doc__)
    parser.add_argument("--quick", action="store_true", help=f"lengths {_listed(_QUICK)}")
    parser.add_argument(
        "--sizes", type=int, nargs=3, metavar="N", help=f"lengths; default {_listed(_FULL)}"
    )
    parser.add_argument("--rounds", type=int, help="rounds of appends; loads take a third of them")
    options = parser.parse_args(arguments)
    sizes = tuple(options.sizes or (_QUICK if options.quick else _FULL))
    if sizes[0] < 2 or list(sizes) != sorted(set(sizes)) or sizes[2] < 20:
        parser.error(f"--sizes must ascend from at least 2 to at least 20, got {_listed(sizes)}")
    rounds = options.rounds or (20 if options.quick else 40)
    if rounds < 2:
        parser.error(f"--rounds must be at least 2, got {rounds}")
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="benchmark-log-") as folder:
        plan = Plan(sizes, rounds, 1.5 if options.quick else 5.0)
        report = reported(measured(plan, Path(folder)))
    progress(f"done in {time.perf_counter() - start:.0f} s")
    print(file=sys.stderr)
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0 if all(bar["ok"] for bar in report["bars"]) else 1


def _listed(sizes: Sequence[int]) -> str:
    return " ".join(map(str, sizes))


if __name__ == "__main__":
    raise SystemExit(main())
