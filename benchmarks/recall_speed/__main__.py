"""The command line: `python -m benchmarks.recall_speed`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import benchmarks.recall_speed
from benchmarks.log.measuring import progress
from benchmarks.recall_speed.report import reported, table
from benchmarks.recall_speed.running import ADDED, Plan, measured, opened
from benchmarks.recall_speed.systems import PEERS
from benchmarks.terminal import make_parser
from langchain_convmem import UniversalSentenceEmbeddings

_SIZES = (1_000, 10_000, 100_000)
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when a bar fails."""
    parser = make_parser("benchmarks.recall_speed", benchmarks.recall_speed.__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(_SIZES), metavar="N")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS), metavar="NAME")
    parser.add_argument("--rounds", type=int, default=30, help="rounds of three questions")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each system and size")
    parser.add_argument("--processes", type=int, default=3, help="new processes to measure")
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.open is not None:
        print(json.dumps(opened(options.open)))
        return 0
    if min(options.sizes) < 2 * ADDED or min(options.rounds, options.processes) < 1:
        parser.error(f"--sizes must be at least {2 * ADDED}, --rounds and --processes at least 1")
    plan = Plan(options.rounds, options.seconds, options.processes, tuple(options.peers))
    UniversalSentenceEmbeddings().embed_query("loads the model")
    with tempfile.TemporaryDirectory(prefix="benchmark-recall-") as folder:
        results = [measured(lines, plan, Path(folder)) for lines in options.sizes]
    progress("done")
    print(file=sys.stderr)
    report = reported(results)
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0 if all(bar["ok"] for bar in report["bars"]) else 1


if __name__ == "__main__":
    if _BLAS_THREADS not in os.environ:
        # On a busy machine a product that is shared out waits for its slowest thread, and the
        # yardstick would take twenty times as long as it needs.
        command = [sys.executable, "-m", "benchmarks.recall_speed", *sys.argv[1:]]
        raise SystemExit(subprocess.call(command, env={**os.environ, _BLAS_THREADS: "1"}))
    raise SystemExit(main())
