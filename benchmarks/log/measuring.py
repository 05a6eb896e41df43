"""Times of many cases, taken in rounds that alternate between them."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TypeVar

from benchmarks.log.stores import Thunk

__all__ = ["Case", "interleaved", "progress", "quotient"]

K = TypeVar("K", bound=Hashable)


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
        times = [_timed_ms(call) for call in self.ready(number)]
        self.rounds_ms.append(median(times))
        self.times_ms += times
        self.spent_s += time.perf_counter() - begun


def _timed_ms(call: Thunk) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1000


def interleaved(cases: dict[K, Case], *, rounds: int, seconds: float, what: str) -> None:
    """Run rounds of all cases in turn; one that has used up its seconds sits the others out."""
    # What was built before is looked through once, not at every collection in someone's round.
    gc.collect()
    gc.freeze()
    for number in range(rounds):
        progress(f"{what}: round {number + 1}/{rounds}")
        waiting = [case for case in cases.values() if case.spent_s < seconds]
        for case in waiting if number % 2 else reversed(waiting):
            case.run(number)
    gc.unfreeze()


def quotient(above: Case, below: Case) -> float:
    """Return the median, over the rounds that both ran, of the quotient of their times."""
    pairs = zip(above.rounds_ms, below.rounds_ms, strict=False)
    return median(one / other for one, other in pairs)


def progress(text: str) -> None:
    """Say on stderr what is going on, on one line that is overwritten."""
    print(f"\r{text:<72}", end="", file=sys.stderr, flush=True)
