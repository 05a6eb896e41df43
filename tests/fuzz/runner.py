"""One run: histories, their judges, and what these found."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from langchain_convmem.records import Entry
from langchain_convmem.views.context import build_context
from langchain_convmem.views.providers import PROVIDERS
from tests.fuzz.generator import history
from tests.fuzz.oracles import ORACLES, Oracle
from tests.fuzz.promises import Thread, broken_promises, budget_faults, faults_of_reading_back


@dataclass
class Report:
    """What a run found; `tallies` counts by judge, profile, and what came of it."""

    tallies: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    failures: list[tuple[int, str, str, str]] = field(default_factory=list)
    entries: int = 0
    histories: int = 0
    seconds: float = 0.0

    def add(self, other: Report) -> None:
        """Take in what another run found."""
        self.tallies.update(other.tallies)
        self.failures += other.failures
        self.entries += other.entries
        self.histories += other.histories

    def note(self, seed: int, judge: str, profile: str, faults: Sequence[str]) -> None:
        """Count one judgement."""
        self.tallies[judge, profile, "judged"] += 1
        self.tallies[judge, profile, "invalid"] += bool(faults)
        self.failures.extend((seed, judge, profile, fault) for fault in faults)


class Fuzz:
    """The judges of one run."""

    def __init__(self, oracle_every: int) -> None:
        """Set up every judge that the installed packages allow.

        Args:
            oracle_every: How many histories lie between two that all converters see. Each of the
                others goes through one of them, in turn.
        """
        self.report = Report()
        self._oracle_every = oracle_every
        self._converters: list[tuple[type[Oracle], Oracle | None, str]] = []
        for kind in ORACLES:
            oracle = None
            with suppress(ImportError):
                oracle = kind()
            self._converters += [(kind, oracle, profile) for profile in kind.profiles]

    def judge(self, seed: int, number: int) -> None:
        """Make the history of `seed` and let every judge see it whose turn it is."""
        entries = history(seed)
        self.report.histories += 1
        self.report.entries += len(entries)
        thread = Thread.from_chain(entries)
        for profile in PROVIDERS:
            self._seen(seed, "validators", profile, partial(broken_promises, thread, profile))
        if number % 2 == 0:
            rng = random.Random(seed)
            profile = rng.choice(list(PROVIDERS))
            self._seen(seed, "budget", profile, partial(budget_faults, thread, profile, rng))
            look = partial(faults_of_reading_back, thread, profile, rng)
            self._seen(seed, "reading back", profile, look)
        self._consult(seed, number, entries)

    def _seen(self, seed: int, judge: str, profile: str, look: Callable[[], list[str]]) -> None:
        try:
            faults = look()
        except Exception as error:  # noqa: BLE001 - a crash is a finding, and its seed is printed
            faults = [f"crashed: {type(error).__name__}: {error!s:.200}"]
        self.report.note(seed, judge, profile, faults)

    def _consult(self, seed: int, number: int, entries: Sequence[Entry]) -> None:
        asked = self._converters
        if number % self._oracle_every:
            # Those that all of them see are left out of the count: each gets as many.
            turn = number - number // self._oracle_every - 1
            asked = [asked[turn % len(asked)]]
        for kind, oracle, name in asked:
            if oracle is None:
                self.report.tallies[kind.name, name, "skipped"] += 1
            else:
                self._seen(seed, kind.name, name, partial(_verdict, oracle, entries, name))


def _verdict(judge: Oracle, entries: Sequence[Entry], profile: str) -> list[str]:
    shown = build_context(entries, provider=profile)  # type: ignore[arg-type]  # one of the names
    return judge.faults(shown.messages)


def run(seeds: range, oracle_every: int) -> Report:
    """Judge the histories of these seeds, one after the other."""
    began = time.perf_counter()
    fuzz = Fuzz(oracle_every)
    for number, seed in enumerate(seeds):
        fuzz.judge(seed, number)
    fuzz.report.seconds = time.perf_counter() - began
    return fuzz.report


def run_shared(seeds: range, oracle_every: int, jobs: int) -> Report:
    """Judge the histories of these seeds in several processes."""
    shares = [seeds[job::jobs] for job in range(jobs)]
    began = time.perf_counter()
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        parts = pool.map(run, shares, [oracle_every] * jobs)
        whole = Report()
        for part in parts:
            whole.add(part)
    whole.seconds = time.perf_counter() - began
    return whole
