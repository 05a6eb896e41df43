"""Many users in one file: what the first recall of each takes in a process that serves them all."""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.log.measuring import progress
from benchmarks.recall_speed.running import resident_bytes, run_in_new_process, warm_up
from benchmarks.recall_speed.systems import ConvMem
from benchmarks.synthetic_dialogue import said
from langchain_convmem.records import Owner

__all__ = ["users_measured", "users_opened", "users_table"]

_ASKED = 100
_BOUND_MS = 8.0


def users_measured(path: Path, users: int, lines: int) -> dict[str, Any]:
    """Write a file of many users; return what two new processes take that ask some of them.

    The first reads the file from the disk, where the system can be told to forget its pages; the
    second finds them in the system's cache.
    """
    _write(path, users, lines)
    file = os.open(path, os.O_RDWR)
    try:
        # Only what stands on the disk leaves the cache.
        os.fsync(file)
        if sys.platform == "linux":
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)
    question = ("--open", str(path), "--users", str(users))
    from_disk = run_in_new_process(*question)
    return {
        **run_in_new_process(*question),
        "disk_p50_ms": from_disk["p50_ms"],
        "disk_p95_ms": from_disk["p95_ms"],
    }


def _write(path: Path, users: int, lines: int) -> None:
    """Write a file in which every user said so many lines."""
    ours = ConvMem(path)
    for number in range(users):
        progress(f"user {number + 1:,}/{users:,}")
        ours.fill(lines, _name(number))
    ours.close()


def users_opened(path: Path, users: int, lines: int) -> dict[str, Any]:
    """Return what the first recall of some of the users takes, in this process, one after another.

    Nothing of them was read before; the file is open, and the model is loaded.
    """
    warm_up()
    chosen = random.Random(7).sample(range(users), min(_ASKED, users))
    ours = ConvMem(path)
    before = resident_bytes()
    times = []
    for number in chosen:
        question = said(number)
        start = time.perf_counter()
        ours.ask(question, _name(number))
        times.append((time.perf_counter() - start) * 1000)
    held = resident_bytes() - before
    ours.close()
    return {
        "users": users,
        "lines": lines,
        "asked": len(chosen),
        "p50_ms": round(median(times), 2),
        "p95_ms": round(float(np.percentile(times, 95)), 2),
        "bound_ms": _BOUND_MS,
        "resident_mb_per_100k": round(held / (len(chosen) * lines) * 100_000 / 1e6, 1),
        "bytes_per_line": round(path.stat().st_size / (users * lines)),
    }


def _name(number: int) -> Owner:
    return Owner(user_id=f"user-{number}")


def users_table(found: dict[str, Any]) -> str:
    """Return it as lines of text."""
    word = "ok" if found["p50_ms"] <= found["bound_ms"] else "FAILED"
    return (
        f"{found['users']:,} users with {found['lines']:,} lines each, "
        f"{found['bytes_per_line']:,} bytes a line in the file\n"
        f"  first recall of {found['asked']} users, pages in the system's cache: "
        f"p50 {found['p50_ms']:.1f} ms, p95 {found['p95_ms']:.1f} ms; "
        f"p50 at most {found['bound_ms']:g} ms: {word}\n"
        f"  read from the disk: p50 {found['disk_p50_ms']:.1f} ms, "
        f"p95 {found['disk_p95_ms']:.1f} ms\n"
        f"  {found['resident_mb_per_100k']:.0f} MB per 100,000 lines"
    )
