"""Many random histories, judged: `python -m tests.fuzz --histories 20000 --seed 1`.

Every history is shown for every profile and judged by the validators, and goes through one of the
converters of the integrations, in turn; every n-th one goes through all of them.
Prints a table, or JSON with `--json`; exit code 1 when anything was invalid.
`--only SEED` makes one history again, with all judges.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from tests.fuzz.runner import Report, run, run_shared

_SHOWN = 20


def _as_json(report: Report, seed: int) -> dict[str, Any]:
    return {
        "seed": seed,
        "histories": report.histories,
        "entries": report.entries,
        "seconds": round(report.seconds, 1),
        "per_second": round(report.histories / max(report.seconds, 1e-9), 1),
        "judges": [
            {"judge": judge, "profile": profile, **vars(tally)}
            for (judge, profile), tally in report.tallies.items()
        ],
        "invalid": sum(tally.invalid for tally in report.tallies.values()),
        "failing_seeds": sorted({seed for seed, *_ in report.failures}),
    }


def _table(report: Report, seed: int) -> str:
    rate = report.histories / max(report.seconds, 1e-9)
    lines = [
        f"{report.histories} histories, {report.entries} entries, from seed {seed}",
        f"{report.seconds:.0f} s, {rate:.0f} histories/s",
        f"{'judge':<26}{'profile':<18}{'judged':>9}{'invalid':>9}{'skipped':>9}",
    ]
    lines += [
        f"{judge:<26}{profile:<18}{tally.judged:>9}{tally.invalid:>9}{tally.skipped:>9}"
        for (judge, profile), tally in sorted(report.tallies.items())
    ]
    return "\n".join(lines)


def _failures(report: Report) -> str:
    lines = [
        f"seed {seed}: {profile}, {judge}: {fault}"
        for seed, judge, profile, fault in report.failures[:_SHOWN]
    ]
    seeds = sorted({seed for seed, *_ in report.failures})
    lines.append(f"failing seeds: {seeds[:_SHOWN]} ({len(seeds)} in all)")
    lines.append(f"again: python -m tests.fuzz --only {seeds[0]}")
    return "\n".join(lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--histories", type=int, default=2000, help="how many (default 2000)")
    parser.add_argument("--seed", type=int, default=1, help="of the first one (default 1)")
    parser.add_argument("--only", type=int, metavar="SEED", help="this one, with all judges")
    parser.add_argument(
        "--oracle-every", type=int, default=5, metavar="N", help="all converters; 0: not even one"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes to share the work")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args()


def main() -> int:
    """Run and return the exit code."""
    options = _arguments()
    if options.only is not None:
        seeds = range(options.only, options.only + 1)
        report = run(seeds, 1)
    else:
        seeds = range(options.seed, options.seed + options.histories)
        every = options.oracle_every
        report = run(seeds, every) if options.jobs < 2 else run_shared(seeds, every, options.jobs)
    if options.json:
        shown = json.dumps(_as_json(report, seeds.start), indent=2)
    else:
        shown = _table(report, seeds.start)
    sys.stdout.write(f"{shown}\n")
    if report.failures:
        sys.stderr.write(f"{_failures(report)}\n")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
