"""Files that change under a log: a bit flips, an end is torn off, a part is zeros."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.chaos.drill import DrillReport, compute_apart, measure, show_drill
from benchmarks.flips import Damage, choose_file, flip_bit
from benchmarks.flips import run_flips as damage_files

_AT_ONCE = 50
_PAGE_BYTES = 8192
_FORBIDDEN = {
    "altered": "text was shown that was never said",
    "silent": "lines were gone, and nobody said so",
    "missed": "verify found nothing",
    "unrepaired": "repair did not bring back what the backup holds",
}


def run_flips(runs: int, seed: int) -> DrillReport:
    """Flip one bit in each of so many files."""
    forbidden = {**_FORBIDDEN, "failed": "a thread failed", "crashed": "an error of another kind"}
    with measure("flips") as report:
        _damage(report, runs, seed, flip_bit, forbidden)
    return report


def run_tears(runs: int, seed: int) -> DrillReport:
    """Cut off the end of so many files, or overwrite a part of them with zeros."""
    with measure("tears") as report:
        _damage(report, runs, seed, tear, _FORBIDDEN)
    return report


def _damage(
    report: DrillReport, runs: int, seed: int, damage: Damage, forbidden: dict[str, str]
) -> None:
    for first in range(0, runs, _AT_ONCE):
        count = min(_AT_ONCE, runs - first)
        own_seed = seed * 1_000_003 + first
        answer = compute_apart(partial(_damage_some, count, own_seed, damage))
        if isinstance(answer, dict):
            report.findings.append(f"seed {own_seed}: {answer['error']}")
        else:
            counts, examples = answer
            report.runs += counts.pop("runs", 0)
            report.did.update(counts)
            report.findings += [
                f"seed {own_seed}, {counts[name]} times: {what}: {examples[name]}"
                for name, what in forbidden.items()
                if counts.get(name)
            ]
        show_drill(report.name, first + count, runs)


def _damage_some(count: int, seed: int, damage: Damage) -> list[Any]:
    flips = damage_files(count, seed=seed, damage=damage)
    return [flips.counts, flips.examples]


def tear(path: Path, rng: random.Random) -> str:
    """Cut off the end of one of a log's files, or put zeros somewhere; return which and where."""
    chosen = choose_file(path, rng)
    size = chosen.stat().st_size
    at = rng.randrange(size)
    if rng.random() < 0.5:
        at -= at % _PAGE_BYTES
    with chosen.open("r+b") as file:
        if rng.random() < 0.5:
            file.truncate(at)
            return f"{chosen.name} cut at byte {at} of {size}"
        length = min(size - at, rng.choice([512, 4096, _PAGE_BYTES]))
        file.seek(at)
        file.write(bytes(length))
    return f"{chosen.name} zeros at byte {at}, {length} of {size}"
