"""What was measured, as one JSON object and as a table, with the bars it is held to."""

from __future__ import annotations

from statistics import mean, median
from typing import Any

from benchmarks.log.measuring import Case, quotient
from benchmarks.log.running import SYSTEMS, Run, Sizes

__all__ = ["reported", "table"]

_APPEND_TO_FLOOR = 2.0
_APPEND_AIM = 1.5
_FLAT = 1.5
"""A thread a hundred times as long may cost so many times as much: depth of trees, and noise."""
_OVERHEAD_BYTES = 150
_TENFOLD = 10.5
"""Pages are filled unevenly."""
_BUDGET = "2,000 tokens"


def reported(run: Run) -> dict[str, Any]:
    """Return the figures and the bars as plain JSON."""
    return {
        "machine": run.machine,
        "sizes": list(run.plan.sizes),
        "not_installed": run.missing,
        "append_ms": [_append_row(run, name, size) for name, size in run.appends],
        "load_ms": [
            {"system": key[0], "load": key[1], "state": state, "entries": key[2], **_times(case)}
            for state, cases in run.loads.items()
            for key, case in cases.items()
        ],
        "bytes": {
            "payload_per_entry": round(run.payload, 1),
            "files": [_bytes_row(run, name, sizes) for (name, _), sizes in run.sizes.items()],
        },
        "bars": _bars(run),
    }


def _times(case: Case) -> dict[str, Any]:
    times = case.times_ms
    return {
        "median": round(median(times), 3),
        "mean": round(mean(times), 3),
        "calls": len(times),
    }


def _append_row(run: Run, name: str, size: int) -> dict[str, Any]:
    case, floor = run.appends[name, size], run.appends["floor", size]
    ratio = round(quotient(case, floor), 2)
    return {"system": name, "entries": size, **_times(case), "to_floor": ratio}


def _bytes_row(run: Run, name: str, sizes: Sizes) -> dict[str, Any]:
    growth = sizes.growth
    return {
        "system": name,
        "entries": sizes.messages,
        "file": sizes.whole,
        "per_entry": round(sizes.whole / sizes.messages, 1),
        "beyond_payload": round(sizes.whole / sizes.messages - run.payload, 1),
        "tenfold": None if growth is None else round(growth, 2),
    }


# -- bars ------------------------------------------------------------------------------------


def _bars(run: Run) -> list[dict[str, Any]]:
    short, middle, long = run.plan.sizes[0], run.plan.sizes[-2], run.plan.sizes[-1]
    appends = run.appends
    bars = [
        _bar(
            f"append at {size:,}, convmem : floor (aim {_APPEND_AIM})",
            quotient(appends["convmem", size], appends["floor", size]),
            _APPEND_TO_FLOOR,
        )
        for size in run.plan.sizes
    ]
    flat = quotient(appends["convmem", long], appends["convmem", short])
    bars.append(_bar(f"append, {long:,} : {short:,}", flat, _FLAT))
    for state, cases in run.loads.items():
        value = quotient(cases["convmem", _BUDGET, long], cases["convmem", _BUDGET, middle])
        bars.append(_bar(f"load {state}, {_BUDGET}, {long:,} : {middle:,}", value, _FLAT))
    sizes = run.sizes["convmem", long]
    beyond = sizes.whole / sizes.messages - run.payload
    bars.append(_bar(f"bytes beyond payload per entry at {long:,}", beyond, _OVERHEAD_BYTES))
    bars.append(_bar("bytes, ten times the turns", sizes.growth or 0.0, _TENFOLD))
    return bars


def _bar(what: str, value: float, bound: float) -> dict[str, Any]:
    return {"what": what, "value": round(value, 2), "bound": bound, "ok": value <= bound}


# -- printing --------------------------------------------------------------------------------


def table(report: dict[str, Any]) -> str:
    machine, sizes = report["machine"], report["sizes"]
    head = f"Python {machine['python']}, SQLite {machine['sqlite']}, {machine['system']}"
    rows = [head, "", *_appends(report, sizes), "", *_loads(report, sizes), ""]
    rows += [*_bytes(report, sizes), "", "bars"]
    for bar in report["bars"]:
        verdict = "ok" if bar["ok"] else "FAILED"
        rows.append(
            f"  {bar['what']:<52}{bar['value']:>8.2f}  at most {bar['bound']:<6g} {verdict}"
        )
    return "\n".join(rows)


def _line(first: str, cells: list[str]) -> str:
    return f"{first:<36}" + "".join(f"{cell:>16}" for cell in cells)


def _header(first: str, sizes: list[int]) -> str:
    return _line(first, [f"{size:,}" for size in sizes])


def _appends(report: dict[str, Any], sizes: list[int]) -> list[str]:
    rows = [_header("append one turn, ms (: floor)", sizes)]
    for name in SYSTEMS:
        found = {row["entries"]: row for row in report["append_ms"] if row["system"] == name}
        cells = [f"{found[size]['median']:.2f} ({found[size]['to_floor']:.2f})" for size in found]
        rows.append(_line(f"  {name}", cells or ["not installed"]))
    return rows


def _loads(report: dict[str, Any], sizes: list[int]) -> list[str]:
    rows = [_header("load for the next turn, ms", sizes)]
    lines: dict[tuple[str, str, str], list[str]] = {}
    for row in report["load_ms"]:
        line = lines.setdefault((row["system"], row["load"], row["state"]), [])
        line.append(f"{row['median']:.2f}")
    for name in SYSTEMS:
        found = {line: cells for line, cells in lines.items() if line[0] == name}
        for (_, what, state), cells in found.items() or [((name, "", ""), ["not installed"])]:
            rows.append(_line(f"  {name} {what}, {state}".rstrip(", "), cells))
    return rows


def _bytes(report: dict[str, Any], sizes: list[int]) -> list[str]:
    payload = report["bytes"]["payload_per_entry"]
    rows = [
        _header("bytes per entry (ten times the turns)", sizes),
        _line("  payload", [f"{payload:.0f}"] * len(sizes)),
    ]
    for name in SYSTEMS:
        cells = [
            f"{row['per_entry']:.0f}" + (f" (x{row['tenfold']:.1f})" if row["tenfold"] else "")
            for row in report["bytes"]["files"]
            if row["system"] == name
        ]
        rows.append(_line(f"  {name}", cells or ["not installed"]))
    return rows
