"""A set of scenarios, the systems they are tried on, and the report of what came of it."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.loss.systems import UnsupportedError
from benchmarks.terminal import show_progress

__all__ = ["Suite", "table_rows", "tried"]


@dataclass(frozen=True, slots=True)
class Suite:
    """Scenarios with their systems.

    Attributes:
        scenarios: By name; each says in its docstring what happens.
        systems: By name.
        ours: Systems with a bar, which decide the exit code.
        kinds: What may be wrong, in the order of the table.
        judge: Plays a scenario with a system in a folder, and returns what is wrong as plain JSON.
        sums: Other numbers that `judge` returns, which are summed up.
    """

    scenarios: dict[str, Callable[..., Any]]
    systems: Mapping[str, type[Any]]
    ours: Collection[str]
    kinds: tuple[str, ...]
    judge: Callable[[Callable[..., Any], type[Any], Path], dict[str, Any]]
    sums: tuple[str, ...] = ()


def tried(suite: Suite, names: Sequence[str], systems: Sequence[str]) -> dict[str, Any]:
    """Play scenarios with systems, both by name; return what was found as plain JSON."""
    rows = []
    for name in names:
        show_progress(name)
        scenario = suite.scenarios[name]
        found = {system: _found(suite, scenario, suite.systems[system]) for system in systems}
        what = (scenario.__doc__ or "").strip()
        rows.append({"scenario": name, "what": what, "systems": found})
    totals = {system: _totals(suite, rows, system) for system in systems}
    bars = [_bar(totals[name], name) for name in systems if name in suite.ours]
    return {"scenarios": rows, "totals": totals, "bars": bars}


def _found(suite: Suite, scenario: Callable[..., Any], kind: type[Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="benchmark-loss-") as folder:
        try:
            return suite.judge(scenario, kind, Path(folder))
        except UnsupportedError as error:
            return {"unsupported": str(error)}
        except Exception as error:  # noqa: BLE001 - a system that breaks down is a finding
            traceback.print_exc()
            return {"failed": f"{type(error).__name__}: {error}"}


# -- reporting -------------------------------------------------------------------------------


def _totals(suite: Suite, rows: Sequence[dict[str, Any]], system: str) -> dict[str, int]:
    found = [row["systems"][system] for row in rows]
    wrong = {*suite.kinds, "failed", "unsupported"}
    return {
        "tried": sum("unsupported" not in one for one in found),
        "clean": sum(not wrong & one.keys() for one in found),
        **{
            kind: sum(_count(one.get(kind, 0)) for one in found)
            for kind in (*suite.kinds, *suite.sums)
        },
        "failed": sum("failed" in one for one in found),
    }


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int) else len(value)


def _bar(totals: dict[str, int], system: str) -> dict[str, Any]:
    wrong = totals["tried"] - totals["clean"]
    return {
        "what": f"{system}, scenarios with anything wrong",
        "value": wrong,
        "bound": 0,
        "ok": wrong == 0,
    }


def table_rows(suite: Suite, report: dict[str, Any]) -> list[str]:
    """Return a suite's part of the report for people."""
    totals = report["totals"]
    rows = [_line("scenario", list(totals))]
    rows += [
        _line(f"  {row['scenario']}", [_cell(suite, one) for one in row["systems"].values()])
        for row in report["scenarios"]
    ]
    rows += ["", _line("clean of tried", [_clean(one) for one in totals.values()])]
    for kind in (*suite.kinds, *suite.sums, "failed"):
        rows.append(_line(f"  {kind}", [str(one[kind]) for one in totals.values()]))
    rows += ["", "bars"]
    for bar in report["bars"]:
        verdict = "ok" if bar["ok"] else "FAILED"
        rows.append(f"  {bar['what']:<56}{bar['value']:>4}  at most {bar['bound']:<3} {verdict}")
    return [row.rstrip() for row in rows]


def _line(first: str, cells: Sequence[str]) -> str:
    return f"{first:<26}" + "".join(f"{cell:<24}" for cell in cells)


def _clean(totals: dict[str, int]) -> str:
    return f"{totals['clean']} of {totals['tried']}"


def _cell(suite: Suite, found: dict[str, Any]) -> str:
    if "unsupported" in found:
        return "-"
    if "failed" in found:
        return "failed"
    parts = [f"{_count(found[kind])} {kind}" for kind in suite.kinds if kind in found]
    return ", ".join(parts) or "clean"
