"""Many random histories, judged: `python -m tests.fuzz --histories 20000 --seed 1`.

Every history is shown for every profile and judged by the validators, and goes through one of the
converters of the integrations, in turn; every n-th one goes through all of them.
Prints a table; exit code 1 when anything was invalid.
`--only SEED` makes one history again, with all judges.
"""

from __future__ import annotations

import argparse
import sys

from tests.fuzz.runner import Report, run, run_shared

_SHOWN = 20
_ORACLE_EVERY = 5
"""Every so many histories go through all converters."""


def _table(report: Report, seed: int) -> str:
    rate = report.histories / max(report.seconds, 1e-9)
    lines = [
        f"{report.histories} histories, {report.entries} entries, from seed {seed}",
        f"{report.seconds:.0f} s, {rate:.0f} histories/s",
        f"{'judge':<26}{'profile':<18}{'judged':>9}{'invalid':>9}{'skipped':>9}",
    ]
    for judge, profile in sorted({(judge, profile) for judge, profile, _ in report.tallies}):
        counts = [report.tallies[judge, profile, what] for what in ("judged", "invalid", "skipped")]
        lines.append(f"{judge:<26}{profile:<18}" + "".join(f"{count:>9}" for count in counts))
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
    parser.add_argument("--jobs", type=int, default=1, help="processes to share the work")
    return parser.parse_args()


def main() -> int:
    """Run and return the exit code."""
    options = _arguments()
    if options.only is not None:
        seeds = range(options.only, options.only + 1)
        report = run(seeds, 1)
    else:
        seeds = range(options.seed, options.seed + options.histories)
        report = run_shared(seeds, _ORACLE_EVERY, options.jobs)
    sys.stdout.write(f"{_table(report, seeds.start)}\n")
    if report.failures:
        sys.stderr.write(f"{_failures(report)}\n")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
