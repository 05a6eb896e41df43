"""What the command lines of several benchmarks share."""

from __future__ import annotations

import argparse
import sys

__all__ = ["parse_positive", "show_progress"]


def show_progress(progress: str) -> None:
    """Write what goes on over the line before, on standard error."""
    print(f"\r{progress[:99]:<100}", end="", file=sys.stderr, flush=True)


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
