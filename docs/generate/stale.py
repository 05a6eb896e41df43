"""Writes generated files, or names those that the code has left behind."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def find_stale(made: dict[Path, str]) -> list[Path]:
    """Return the files that are missing or say something else."""
    return [
        path for path, text in made.items() if not path.exists() or path.read_text("utf-8") != text
    ]


def save(made: dict[Path, str], words: Iterable[str], rule: str) -> int:
    """Write the files, or with `--check` name those that are stale and the rule that makes them."""
    stale = find_stale(made)
    if "--check" in words:
        for path in stale:
            print(f"{path} is stale: run make {rule}")
        return 1 if stale else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made[path], "utf-8")
    return 0
