"""The command line: `python -m benchmarks.loss`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import benchmarks.loss
from benchmarks.loss.running import SCENARIOS, SYSTEMS, measured, table
from benchmarks.terminal import make_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print; return the exit code, which is 1 when ours lost anything."""
    parser = make_parser("benchmarks.loss", benchmarks.loss.__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=SCENARIOS, default=list(SCENARIOS), metavar="SCENARIO"
    )
    parser.add_argument(
        "--system", nargs="+", choices=SYSTEMS, default=list(SYSTEMS), metavar="SYSTEM"
    )
    options = parser.parse_args(arguments)
    report = measured(options.only, options.system)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0 if all(bar["ok"] for bar in report["bars"]) else 1


if __name__ == "__main__":
    raise SystemExit(main())
