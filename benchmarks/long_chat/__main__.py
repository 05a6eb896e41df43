"""The command line: `python -m benchmarks.long_chat`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

import benchmarks.long_chat
from benchmarks.long_chat.report import reported, table
from benchmarks.long_chat.running import measured
from benchmarks.long_chat.summarisers import STYLES


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when a bar fails."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.long_chat",
        description=benchmarks.long_chat.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--turns", type=int, default=2000, help="turns of the chat")
    parser.add_argument("--facts", type=int, default=200, help="facts that are said in it")
    parser.add_argument("--sample", type=int, default=1000, help="evicted entries to look for")
    parser.add_argument(
        "--style", nargs="+", choices=STYLES, default=list(STYLES), help="how summaries are written"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    if options.facts < 1 or options.turns < 5 * options.facts:
        parser.error("--turns must be at least five times --facts, and --facts at least 1")
    reports = {
        style: reported(measured(options.turns, options.facts, options.sample, style))
        for style in options.style
    }
    if sys.stderr.isatty():
        print(file=sys.stderr)
    texts = (table(report) for report in reports.values())
    print(json.dumps(reports, indent=2) if options.json else "\n\n".join(texts))
    return 0 if all(bar["ok"] for one in reports.values() for bar in one["bars"]) else 1


if __name__ == "__main__":
    raise SystemExit(main())
