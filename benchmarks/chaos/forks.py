"""Forks: a process forks while logs are open, and everybody goes on writing."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.chaos.drill import DrillReport, compute_apart, measure, show_drill
from benchmarks.forks import SCENARIOS, run_matrix

_AT_ONCE = len(SCENARIOS)


def run_forks(runs: int, seed: int) -> DrillReport:
    """Fork so many times, in every scenario in turn."""
    with measure("forks") as report:
        for first in range(0, runs, _AT_ONCE):
            count = min(_AT_ONCE, runs - first)
            answer = compute_apart(partial(_run, count, seed * 1_000_003 + first))
            if isinstance(answer, dict):
                report.note("failed", first, [answer["error"]])
                continue
            for parent, noted, found in answer:
                report.note(f"parent {parent}", first, found)
                report.did["messages"] += noted
            show_drill("forks", first + count, runs)
    return report


def _run(count: int, seed: int) -> list[Any]:
    """Return of each scenario what the parent did, how much was written, and what was found."""
    return [
        [scenario.parent, outcome.noted, outcome.problems]
        for scenario, outcome in run_matrix(count, seed).items()
    ]
