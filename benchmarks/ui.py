"""What the command lines and the reports of all benchmarks share."""

from __future__ import annotations

import argparse
import json
import platform
import sqlite3
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


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


# -- reports ---------------------------------------------------------------------------------


def describe_machine(*packages: str) -> dict[str, str]:
    """Return what a report says of the machine, and of the packages that it compares."""
    found = {
        "Python": platform.python_version(),
        "SQLite": sqlite3.sqlite_version,
        "system": f"{sys.platform} {platform.machine()}",
    }
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "-"
    return found


def format_machine(machine: Mapping[str, str]) -> str:
    """Return a machine as one line."""
    return ", ".join(one if key == "system" else f"{key} {one}" for key, one in machine.items())


def read_peak() -> int:
    """Return the bytes of memory that this process ever held, and no process before it."""
    status = Path("/proc/self/status").read_text("ascii")
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def make_bar(
    what: str, value: float, bound: float, *, is_least: bool = False, decides: bool = True
) -> dict[str, Any]:
    """Return a bar of a report.

    Args:
        what: What is bounded.
        value: What was measured.
        bound: What it may be at most.
        is_least: Whether that is what it must be at least.
        decides: Whether it decides the exit code; else it is an aim.
    """
    is_met = value >= bound if is_least else value <= bound
    row = {"what": what, "value": round(value, 3), "bound": bound, "is_least": is_least}
    return {**row, "decides": decides, "ok": is_met}


def format_bars(bars: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return bars as lines, under a title."""
    rows = [
        (
            f"  {bar['what']}{'' if bar['decides'] else ' (an aim)'}",
            f"{bar['value']:g}",
            f"at {'least' if bar['is_least'] else 'most'} {bar['bound']:g}",
            "ok" if bar["ok"] else "FAILED",
        )
        for bar in bars
    ]
    return ["", "bars", *format_rows(rows)] if rows else []


def format_rows(rows: Sequence[Sequence[object]], least: int = 0) -> list[str]:
    """Return rows as lines: the first column to the left, the others to the right.

    Args:
        rows: Rows of cells; a short one ends early.
        least: How wide a column is at least.
    """
    cells = [[format_cell(cell) for cell in row] for row in rows]
    count = max(map(len, cells), default=0)
    widths = [
        max([least, *(len(row[at]) for row in cells if at < len(row) and len(row) > 1)])
        for at in range(count)
    ]
    return [
        "  ".join(
            cell.rjust(widths[at]) if at else cell.ljust(widths[at]) for at, cell in enumerate(row)
        ).rstrip()
        for row in cells
    ]


def format_cell(value: object) -> str:
    """Return what a cell shows: no value as a dash, thousands by commas, three places."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3f}".rstrip("0").rstrip(".")
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def print_report(
    report: dict[str, Any], table: Callable[[dict[str, Any]], Sequence[str]], *, as_json: bool
) -> int:
    """Print a report as JSON or by a table, with its bars; return the exit code."""
    if sys.stderr.isatty():
        print(file=sys.stderr)
    bars = report.get("bars", ())
    if as_json:
        print(json.dumps(report, indent=2))
    else:
        print("\n".join([*table(report), *format_bars(bars)]))
    return int(any(bar["decides"] and not bar["ok"] for bar in bars))
