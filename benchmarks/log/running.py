"""The run: files are built, then measured in three phases."""

from __future__ import annotations

import platform
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.log.dialogue import PERIOD, Exchange, exchange, payload_bytes
from benchmarks.log.measuring import Case, interleaved, progress
from benchmarks.log.peers import PEERS, is_installed
from benchmarks.log.stores import ConvMemStore, FloorStore, Store, Thunk, file_bytes

__all__ = ["SYSTEMS", "LoadKey", "Plan", "Run", "Sizes", "measured"]

SYSTEMS = ("floor", "convmem", *PEERS)
_Makers = dict[str, Callable[[Path], Store]]
_OURS: _Makers = {"convmem": ConvMemStore, "floor": FloorStore}
_MAIN = "main"
_FEW = 1000
"""A thread shorter than this is made anew each round, so that it stays as long as it is called."""
_TURNS = 5
_FULL_WAL = 5_000_000
"""Bytes that fill a write-ahead log, so that it is written over from then on, as in any program
that runs for a while: a file that still grows takes the disk longer, and would hide the rest."""
_PAGE = 4096
"""What a file grows by; less cannot be told from nothing."""

LoadKey = tuple[str, str, int]
"""System, what is loaded, length of the thread."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured.

    Attributes:
        sizes: Messages in the thread, ascending.
        rounds: Rounds of appends; loads take a third of them.
        seconds: After so much time a case sits out the rounds that are left.
    """

    sizes: tuple[int, ...]
    rounds: int
    seconds: float


@dataclass(slots=True)
class Sizes:
    """Bytes of one system's file.

    Attributes:
        empty: With the schema alone.
        tenth: With a tenth of the messages; None where they came in one piece.
        whole: With all.
        messages: How many these are.
    """

    empty: int
    tenth: int | None
    whole: int
    messages: int

    @property
    def growth(self) -> float | None:
        """By what the bytes grow when the messages become ten times as many."""
        if self.tenth is None:
            return None
        return (self.whole - self.empty) / max(self.tenth - self.empty, _PAGE)


@dataclass(slots=True)
class Run:
    """What was measured.

    Attributes:
        plan: What was asked for.
        appends: Turns, by system and length of the thread.
        loads: By `warm` or `cold`.
        sizes: By system and length of the thread.
        missing: Systems that are not installed.
        payload: Mean size of a message, with its timing, as compact JSON.
    """

    plan: Plan
    appends: dict[tuple[str, int], Case] = field(default_factory=dict)
    loads: dict[str, dict[LoadKey, Case]] = field(default_factory=lambda: {"warm": {}, "cold": {}})
    sizes: dict[tuple[str, int], Sizes] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    payload: float = 0.0

    @property
    def machine(self) -> dict[str, Any]:
        return {
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            "system": f"{sys.platform} {platform.machine()}",
        }


def measured(plan: Plan, folder: Path) -> Run:
    """Build everything under `folder`, measure it and close it."""
    run = Run(plan)
    makers: _Makers = dict(_OURS)
    for name, (make, module) in PEERS.items():
        if is_installed(module):
            makers[name] = make
        else:
            run.missing.append(name)
    run.payload = _mean_payload(min(plan.sizes[-1] // 2, PERIOD))
    files = _Files(run, makers, folder)
    try:
        files.build()
        files.append()
        files.load()
    finally:
        files.close()
    return run


def _mean_payload(turns: int) -> float:
    said = [exchange(number) for number in range(turns)]
    sizes = [payload_bytes(one.user()) + payload_bytes(one.reply(), one.timing()) for one in said]
    return sum(sizes) / (2 * turns)


class _Files:
    """One file per system and length of thread."""

    def __init__(self, run: Run, makers: _Makers, folder: Path) -> None:
        self._run = run
        self._makers = makers
        self._folder = folder
        self._plain: dict[tuple[str, int], Store] = {}
        self._cold: list[_ColdLoad] = []
        self._said: dict[Store, int] = {}

    def close(self) -> None:
        for cold in self._cold:
            cold.close()
        for store in self._plain.values():
            store.close()

    def _path(self, name: str, size: int) -> Path:
        return self._folder / f"{name}-{size}.db"

    # -- building -----------------------------------------------------------------------------

    def build(self) -> None:
        for size in self._run.plan.sizes:
            for name, make in self._makers.items():
                progress(f"building {name} with {size:,} messages")
                self._plain[name, size] = make(self._path(name, size))
                self._run.sizes[name, size] = self._filled(name, size)

    def _filled(self, name: str, size: int) -> Sizes:
        store, path, turns = self._plain[name, size], self._path(name, size), size // 2
        fill = store.fill
        if isinstance(store, FloorStore):
            fill = partial(store.copy, self._path("convmem", size))
        empty = file_bytes(path)
        first = 0 if store.keeps_states else turns // 10
        fill(_MAIN, 0, first)
        tenth = file_bytes(path) if first else None
        fill(_MAIN, first, turns - first)
        return Sizes(empty, tenth, file_bytes(path), size)

    # -- appending ----------------------------------------------------------------------------

    def append(self) -> None:
        """Measure turns; systems that write whole states come last: their disk is busy for all."""
        plan, appends = self._run.plan, self._run.appends
        for (name, size), store in self._plain.items():
            store.turn("warm-up", Exchange(0, "x" * _FULL_WAL, "y"))()
            ready = partial(self._turns, store, size, "append", _TURNS)
            appends[name, size] = Case(ready)
        for last in (False, True):
            cases = {
                key: case for key, case in appends.items() if self._plain[key].keeps_states is last
            }
            interleaved(cases, rounds=plan.rounds, seconds=plan.seconds, what="append")

    def _turns(self, store: Store, size: int, purpose: str, count: int, number: int) -> list[Thunk]:
        thread, first = self._thread(store, size, purpose, number), self._next(store, count)
        return [store.turn(thread, exchange(first + n)) for n in range(count)]

    def _thread(self, store: Store, size: int, purpose: str, number: int) -> str:
        """Return the thread of a round: the long one, or a new short one."""
        if size >= _FEW:
            return _MAIN
        thread = f"{purpose}-{number}"
        store.fill(thread, 0, size // 2)
        return thread

    def _next(self, store: Store, count: int) -> int:
        """Return the number of an exchange that this store has not had; the same in all."""
        longest = self._run.plan.sizes[-1]
        first = self._said.setdefault(store, longest)
        self._said[store] = first + count
        return first

    # -- loading ------------------------------------------------------------------------------

    def load(self) -> None:
        run = self._run
        for (name, size), store in self._plain.items():
            for what in store.loads(_MAIN):
                self._add_loads((name, what, size), store, self._path(name, size))
        cases = {
            (key, state): case for state in run.loads for key, case in run.loads[state].items()
        }
        plan = run.plan
        interleaved(cases, rounds=max(plan.rounds // 3, 1), seconds=plan.seconds, what="load")

    def _add_loads(self, key: LoadKey, store: Store, path: Path) -> None:
        name, what, size = key
        cold = _ColdLoad(self._makers[name], path, what)
        self._cold.append(cold)
        self._run.loads["warm"][key] = Case(partial(self._after_a_turn, store, size, what))
        self._run.loads["cold"][key] = Case(cold.ready)

    def _after_a_turn(self, store: Store, size: int, what: str, number: int) -> list[Thunk]:
        thread = self._thread(store, size, what, number)
        store.turn(thread, exchange(self._next(store, 1)))()
        return [store.loads(thread)[what]]


class _ColdLoad:
    """Loads a thread with a handle that was opened for it alone."""

    def __init__(self, make: Callable[[Path], Store], path: Path, what: str) -> None:
        self._make = make
        self._path = path
        self._what = what
        self._open: Store | None = None

    def ready(self, number: int) -> list[Thunk]:
        del number
        self.close()
        return [self._load]

    def _load(self) -> object:
        self._open = self._make(self._path)
        return self._open.loads(_MAIN)[self._what]()

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None
