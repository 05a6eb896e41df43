"""What the command lines of several benchmarks share."""

from __future__ import annotations

import argparse
import sys

__all__ = ["make_parser", "parse_positive", "show_progress"]


def show_progress(progress: str) -> None:
    """Write what goes on over the line before, where somebody watches standard error."""
    if sys.stderr.isatty():
        print(f"\r{progress[:99]:<100}", end="", file=sys.stderr, flush=True)


def make_parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """Return the parser of a benchmark, which prints `--json` where it is asked to."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog=name, description=description, formatter_class=form)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def parse_positive(text: str) -> int:
    """Return a whole number of at least 1.

    Raises:
        ArgumentTypeError: If it is less.
    """
    value = int(text)
    if value < 1:
        msg = f"must be at least 1, got {value}"
        raise argparse.ArgumentTypeError(msg)
    return value
