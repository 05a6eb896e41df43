"""Times of several things, taken in rounds that alternate between them."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any, TypeVar

from benchmarks.ui import show_progress

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
Thunk = Callable[[], object]


@dataclass(slots=True)
class Case:
    """Something to measure again and again.

    Attributes:
        ready: Makes the calls of one round, by its number; what it does itself is not timed.
        rounds_ms: Median time of a round's calls, in milliseconds, by the order of the rounds.
        times_ms: Every call's time.
        spent_s: Time used so far, what is not timed included.
    """

    ready: Callable[[int], Sequence[Thunk]]
    rounds_ms: list[float] = field(default_factory=list)
    times_ms: list[float] = field(default_factory=list)
    spent_s: float = 0.0

    def run(self, number: int) -> None:
        begun = time.perf_counter()
        times = [time_ms(call) for call in self.ready(number)]
        self.rounds_ms.append(median(times))
        self.times_ms += times
        self.spent_s += time.perf_counter() - begun


def time_ms(call: Thunk) -> float:
    """Return how long a call takes, in milliseconds."""
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1000


def alternate(things: Sequence[T], number: int) -> Sequence[T]:
    """Return what takes turns in one round; the order changes from round to round."""
    return things if number % 2 else things[::-1]


def run_rounds(cases: Mapping[K, Case], *, rounds: int, seconds: float, what: str) -> None:
    """Run rounds of all cases in turn; one that has used up its seconds sits the others out."""
    # What was built before is looked through once, not at every collection in someone's round.
    gc.collect()
    gc.freeze()
    for number in range(rounds):
        show_progress(f"{what}: round {number + 1} of {rounds}")
        waiting = [case for case in cases.values() if case.spent_s < seconds]
        for case in alternate(waiting, number):
            case.run(number)
    gc.unfreeze()


def quotient(above: Case, below: Case) -> float:
    """Return the median, over the rounds that both ran, of the quotient of their times."""
    pairs = zip(above.rounds_ms, below.rounds_ms, strict=False)
    return median(one / other for one, other in pairs)


def summarize_ms(times_ms: Sequence[float]) -> dict[str, float]:
    """Return the median, the 95th percentile and the longest of times."""
    return {
        "p50": round(median(times_ms), 3),
        "p95": round(quantiles(times_ms, n=20, method="inclusive")[-1], 3),
        "max": round(max(times_ms), 3),
    }


def run_json(module: str, *words: str, **environment: str) -> Any:
    """Return the JSON that a module prints in an interpreter of its own.

    Raises:
        CalledProcessError: If it fails.
    """
    command = [sys.executable, "-X", "utf8", "-m", module, *words]
    env = {**os.environ, **environment}
    done = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)
