"""Run benchmarks and merge what they print into one file, from which README and docs are written.

    python -m benchmarks --json                          # all that need no data of others
    python -m benchmarks --json personal loss            # these
    python -m benchmarks --json recall --data DIR --data DIR

Each benchmark is run by its own command; its part of `benchmarks/results.json` is replaced, with
the commit and the date of the run. The parts of the others stay as they are.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results.json"


class Run(NamedTuple):
    """How a benchmark is run.

    Attributes:
        words: The words after `python -m`.
        needs_data: Whether it runs on folders of `--data` alone.
        hidden: Names of figures that no page shows, wherever they stand.
    """

    words: tuple[str, ...]
    needs_data: bool = False
    hidden: tuple[str, ...] = ()


_NOT_SHOWN = ("machine", "verdicts", "not_told", "faults", "not_found", "scenarios", "ids")
_BARS = ("bars", *_NOT_SHOWN)
RUNS: dict[str, Run] = {
    "personal": Run(("benchmarks.personal",), hidden=_BARS),
    "recall": Run(
        ("benchmarks.recall",),
        needs_data=True,
        hidden=("nothing_on_answerable", "something_on_unanswerable", "missing", *_BARS),
    ),
    "loss": Run(("benchmarks.loss",), hidden=_BARS),
    "injections": Run(("benchmarks.injections",), hidden=("succeed", *_BARS)),
    "profiles": Run(("benchmarks.profiles",)),
    "long_chat": Run(("benchmarks.long_chat",), hidden=("slips", "ratio_to_second", *_BARS)),
    "install": Run(("benchmarks.install_size",)),
    "quickstart": Run(("benchmarks.quickstart",), hidden=_BARS),
    "log": Run(("benchmarks.log",), hidden=_NOT_SHOWN),
    "costs": Run(("benchmarks.costs",), hidden=("max", "bars", "not_installed")),
    "summary_latency": Run(("benchmarks.summary_latency",), hidden=_NOT_SHOWN),
    "recall_speed": Run(("benchmarks.recall_speed",), hidden=_NOT_SHOWN),
}
"""Every benchmark whose figures the documentation shows, quality first, speed last."""


def load_results(path: Path = RESULTS) -> dict[str, Any]:
    """Return the parts of a results file by benchmark; none where there is no file."""
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def merge_result(results: dict[str, Any], name: str, part: dict[str, Any]) -> dict[str, Any]:
    """Return results with one part replaced, in the order of `RUNS`; unknown ones come last."""
    merged = {**results, name: part}
    known = [one for one in RUNS if one in merged]
    return {one: merged[one] for one in [*known, *sorted(set(merged) - set(known))]}


def store_results(results: dict[str, Any], path: Path = RESULTS) -> None:
    """Write the file, so that two runs differ in the lines of what changed alone."""
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", "utf-8")


def measure(name: str, data: Sequence[Path]) -> dict[str, Any]:
    """Run one benchmark and return its part.

    Raises:
        subprocess.CalledProcessError: If it ends with a code above 1; 1 is a missed bar.
    """
    run = RUNS[name]
    words = [*run.words, *(word for folder in data for word in ("--data", str(folder)))]
    command = [sys.executable, "-X", "utf8", "-m", *words, "--json"]
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=False
    )
    if done.returncode > 1 or not done.stdout.strip():
        raise subprocess.CalledProcessError(done.returncode, command)
    figures, commit = json.loads(done.stdout), ["git", "rev-parse", "--short", "HEAD"]
    shown = [
        word.rstrip("/").rpartition("/")[2] if word.startswith("/") else word for word in words
    ]
    return {
        "command": f"python -m {' '.join(shown)}",
        "commit": subprocess.check_output(commit, cwd=ROOT, text=True).strip(),
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "figures": shorten_figures(figures, run.hidden),
    }


def shorten_figures(value: Any, hidden: Sequence[str] = ()) -> Any:
    """Return figures with four significant digits, without those that no page shows."""
    if isinstance(value, float):
        return float(f"{value:.4g}") if abs(value) < 1000 else round(value)
    if isinstance(value, dict):
        shown = {name: one for name, one in value.items() if name not in hidden}
        return {name: shorten_figures(one, hidden) for name, one in shown.items()}
    if isinstance(value, list):
        return [shorten_figures(one, hidden) for one in value]
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is named and merge it; return 1 where one of them could not be run."""
    parser = argparse.ArgumentParser(
        prog="benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(RUNS)}")
    parser.add_argument("--json", action="store_true", help="write benchmarks/results.json")
    parser.add_argument("--data", type=Path, action="append", default=[], metavar="DIR")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in RUNS]
    if unknown or not options.json:
        parser.error(
            f"no such benchmark: {unknown[0]}" if unknown else "say --json to write the file"
        )
    names = options.names or [
        name for name, run in RUNS.items() if options.data or not run.needs_data
    ]
    failed = 0
    for name in names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        try:
            part = measure(name, options.data if RUNS[name].needs_data else [])
        except subprocess.CalledProcessError as error:
            print(f"{name} failed with {error.returncode}", file=sys.stderr)
            failed = 1
            continue
        store_results(merge_result(load_results(), name, part))
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
