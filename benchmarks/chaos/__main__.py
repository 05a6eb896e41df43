"""The command line: `python -m benchmarks.chaos`."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Sequence
from functools import partial

import benchmarks.chaos
from benchmarks.chaos.drill import Drill, DrillReport
from benchmarks.chaos.files import damage_files, flip_bit, run_alterations, tear
from benchmarks.chaos.forks import run_forks
from benchmarks.ui import make_parser, parse_positive

DRILLS: dict[str, Drill] = {
    "forks": run_forks,
    "alterations": run_alterations,
    "flips": partial(damage_files, name="flips", damage=flip_bit),
    "tears": partial(damage_files, name="tears", damage=tear),
}
"""By name, in the order in which they run."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print; return the exit code, which is 1 where a promise did not hold."""
    parser = make_parser("python -m benchmarks.chaos", benchmarks.chaos.__doc__)
    parser.add_argument("--runs", type=parse_positive, default=100, help="runs of each drill")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=list(DRILLS), default=list(DRILLS))
    options = parser.parse_args(arguments)
    logging.disable()  # what is damaged on purpose is logged again and again
    warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
    reports = []
    for name in options.only:
        reports.append(DRILLS[name](options.runs, options.seed))
        if not options.json:
            print_report(reports[-1])
    if options.json:
        print(json.dumps(reports, indent=2, default=vars))
    return int(any(report.findings for report in reports))


def print_report(report: DrillReport) -> None:
    """Print what a drill did and found."""
    did = ", ".join(f"{kind} {count}" for kind, count in report.did.items())
    print(f"{report.name}: {report.runs} runs in {report.seconds:.0f} s ({did})")
    print(f"  {len(report.findings) or 'no'} findings")
    for finding in report.findings[:50]:
        print(f"  - {finding}")


if __name__ == "__main__":
    sys.exit(main())
