"""What was measured, as one JSON object and as a table, with the bars it is held to."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from benchmarks.log.measuring import quotient
from benchmarks.recall_speed.running import Measured
from benchmarks.recall_speed.systems import PEERS, SYSTEMS, YARDSTICK

__all__ = ["reported", "table"]

_TO_YARDSTICK = {10_000: 4.0, 100_000: 2.0}
_AIMS = {10_000: (3.0, 60.0, None), 100_000: (10.0, 400.0, 120.0)}
"""Of p95 and of the first recall in a new process, in ms, and of its memory in MB."""
_AHEAD_FROM = 10_000


def reported(results: Sequence[Measured]) -> dict[str, Any]:
    return {
        "machine": {"python": platform.python_version(), "numpy": np.__version__},
        "not_installed": sorted({name for result in results for name in result.missing}),
        "recall": [row for result in results for row in _rows(result)],
        "open": [_opened_row(result) for result in results],
        "bars": [bar for result in results for bar in _bars(result)],
        "aims": [aim for result in results for aim in _aims(result)],
    }


def _rows(result: Measured) -> list[dict[str, Any]]:
    return [
        {
            "system": name,
            "lines": result.lines,
            "p50_ms": round(median(case.times_ms), 3),
            "p95_ms": round(float(np.percentile(case.times_ms, 95)), 3),
            "to_numpy": round(quotient(case, result.asked[YARDSTICK]), 2),
            "calls": len(case.times_ms),
            "add_ms": round(median(result.added[name].times_ms), 3),
        }
        for name, case in result.asked.items()
    ]


def _opened_row(result: Measured) -> dict[str, Any]:
    per_100k = result.resident_bytes / result.lines * 100_000 / 1e6
    return {
        "lines": result.lines,
        "cold_ms": round(median(result.cold_ms), 1) if result.cold_ms else None,
        "resident_mb_per_100k": round(per_100k, 1),
    }


def _bars(result: Measured) -> list[dict[str, Any]]:
    bounds = {YARDSTICK: _TO_YARDSTICK.get(result.lines)}
    if result.lines >= _AHEAD_FROM:
        bounds |= {name: 1.0 for name in PEERS if name in result.asked}
    return [
        _bar(
            f"recall at {result.lines:,}, convmem : {name}",
            quotient(result.asked["convmem"], result.asked[name]),
            bound,
        )
        for name, bound in bounds.items()
        if bound is not None
    ]


def _aims(result: Measured) -> list[dict[str, Any]]:
    if result.lines not in _AIMS:
        return []
    p95_ms = float(np.percentile(result.asked["convmem"].times_ms, 95))
    names = (f"p95 at {result.lines:,}, ms", f"cold at {result.lines:,}, ms", "memory, MB")
    values = (p95_ms, median(result.cold_ms), result.resident_bytes / 1e6)
    return [
        _bar(name, value, bound)
        for name, value, bound in zip(names, values, _AIMS[result.lines], strict=True)
        if bound is not None
    ]


def _bar(what: str, value: float, bound: float) -> dict[str, Any]:
    return {"what": what, "value": round(value, 2), "bound": bound, "ok": value <= bound}


def table(report: dict[str, Any]) -> str:
    machine = report["machine"]
    rows = [f"Python {machine['python']}, NumPy {machine['numpy']}"]
    for opened_row in report["open"]:
        lines = opened_row["lines"]
        found = {row["system"]: row for row in report["recall"] if row["lines"] == lines}
        rows += ["", f"{lines:>9,} lines" + _cells("p50 ms", "p95 ms", ": numpy", "add ms")]
        for name in SYSTEMS:
            rows.append(
                f"  {name:<13}" + (_row(found[name]) if name in found else "  not measured")
            )
        cold, held = opened_row["cold_ms"], opened_row["resident_mb_per_100k"]
        rows.append(f"  convmem in a new process: {cold:,.0f} ms, {held:.0f} MB per 100,000 lines")
    if report["not_installed"]:
        rows += ["", f"not installed: {', '.join(report['not_installed'])}"]
    for title, words in (("bars", ("ok", "FAILED")), ("aims", ("reached", "missed"))):
        rows += ["", title]
        rows += [
            f"  {bar['what']:<44}{bar['value']:>10.2f}  at most {bar['bound']:<6g} "
            f"{words[0] if bar['ok'] else words[1]}"
            for bar in report[title]
        ]
    return "\n".join(rows)


def _row(row: dict[str, Any]) -> str:
    times = (f"{row[name]:.2f}" for name in ("p50_ms", "p95_ms", "to_numpy", "add_ms"))
    return _cells(*times)


def _cells(*cells: str) -> str:
    return "".join(f"{cell:>12}" for cell in cells)
