"""The command line: `python -m benchmarks.long_chat`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

import benchmarks.long_chat
from benchmarks.long_chat import report, running
from benchmarks.long_chat.summarisers import STYLES, Style
from benchmarks.terminal import make_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when a bar fails."""
    parser = make_parser("benchmarks.long_chat", benchmarks.long_chat.__doc__)
    parser.add_argument("--turns", type=int, default=2000, help="turns of the chat")
    parser.add_argument("--facts", type=int, default=200, help="facts that are said in it")
    parser.add_argument("--sample", type=int, default=1000, help="evicted entries to look for")
    parser.add_argument(
        "--style", nargs="+", choices=STYLES, default=list(STYLES), help="how summaries are written"
    )
    options = parser.parse_args(arguments)
    if options.facts < 1 or options.turns < 5 * options.facts:
        parser.error("--turns must be at least five times --facts, and --facts at least 1")
    taken = {style: _chat(style, options) for style in options.style}
    if sys.stderr.isatty():
        print(file=sys.stderr)
    reports = {style: found for style, (found, _) in taken.items()}
    texts = (text for _, text in taken.values())
    print(json.dumps(reports, indent=2) if options.json else "\n\n".join(texts))
    return 0 if all(bar["ok"] for one in reports.values() for bar in one["bars"]) else 1


def _chat(style: Style, options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Return the report of a chat beside others, for machines and for people."""
    found = running.measured(options.turns, options.facts, options.sample, style)
    made = report.reported(found)
    return made, report.table(made)


if __name__ == "__main__":
    raise SystemExit(main())
