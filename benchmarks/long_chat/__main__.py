"""The command line: `python -m benchmarks.long_chat`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import benchmarks.long_chat
from benchmarks.long_chat import reach, running
from benchmarks.long_chat.summarisers import STYLES
from benchmarks.ui import make_parser, print_report


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when a bar fails."""
    parser = make_parser("benchmarks.long_chat", benchmarks.long_chat.__doc__)
    parser.add_argument("--turns", type=int, default=2000, help="turns of the chat")
    parser.add_argument("--facts", type=int, default=200, help="facts that are said in it")
    parser.add_argument("--sample", type=int, default=1000, help="evicted entries to look for")
    parser.add_argument("--style", nargs="+", choices=STYLES, default=list(STYLES))
    parser.add_argument(
        "--compactions", type=int, help="measure what is within reach over so many compactions"
    )
    parser.add_argument(
        "--sayings", choices=("sayings", "unseen"), default="sayings", help="with --compactions"
    )
    options = parser.parse_args(arguments)
    if options.facts < 1 or options.turns < 5 * options.facts:
        parser.error("--turns must be at least five times --facts, and --facts at least 1")
    if options.compactions is not None and options.compactions < reach.CHECKPOINTS:
        parser.error(f"--compactions must be at least {reach.CHECKPOINTS}")
    report: dict[str, Any] = {}
    for style in options.style:
        if options.compactions is None:
            report[style] = running.measure(options.turns, options.facts, options.sample, style)
        else:
            report[style] = reach.measure(options.compactions, style, options.sayings)
    make_table = running.make_table if options.compactions is None else reach.make_table
    report["bars"] = [
        {**bar, "what": f"{style}: {bar['what']}"}
        for style in options.style
        for bar in report[style].pop("bars")
    ]

    def make_tables(report: dict[str, Any]) -> list[str]:
        return [line for style in options.style for line in (*make_table(report[style]), "")]

    return print_report(report, make_tables, as_json=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
