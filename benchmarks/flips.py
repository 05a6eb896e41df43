"""Flipped bits: what a SQLite log serves after one bit of its files has changed.

    python -m benchmarks.flips --runs 2000

Each run copies a small memory of several users and threads, its main file and its write-ahead log,
flips one bit at random, opens it, reads every thread and recalls from every user. Then `verify`
judges the file, and `repair` restores it from a backup. Counted are runs, not bits:

altered   text was shown that was never said: must be none
silent    lines were gone, no reader said so, and neither did `verify --against` heads: must be none
failed    a thread, or a recall, raised an error although the file opened: must be none
crashed   an error that is none of ours got out: must be none
missed    something was shown otherwise than it was said, and `verify` found nothing: must be none
refused   the file did not open: its header, its schema or a table of names was hit
tail      the end of the write-ahead log was dropped by SQLite, as after a crash
gaps      damaged lines were named where they stood
repaired  all is there again after `repair`, out of the runs in which something was wrong
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import shutil
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TypeAlias, cast

from langchain_core.messages import HumanMessage

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import ConvMemError
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.logs.signatures import ThreadHead
from langchain_convmem.records import ThreadKey

_USERS = ("ana", "ben", "cleo")
_THREADS = ("garden", "travel")
_LINES = 12
_WAL_HEADER = 32
_SAID_AT_ONCE = 3
_MUST_BE_NONE = ("altered", "silent", "failed", "crashed", "missed", "unrepaired")
_NOT_OURS = (sqlite3.Error, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory to damage.

    Attributes:
        path: Its main file; a write-ahead log may lie beside it.
        backup: A copy of all of it.
        lines: What was said in each thread, in order.
        heads: How far each thread goes.
    """

    path: Path
    backup: Path
    lines: dict[ThreadKey, list[str]]
    heads: Sequence[ThreadHead]


@dataclass(slots=True)
class Flips:
    """What came of some runs."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing happened that must not."""
        return not any(self.counts[name] for name in _MUST_BE_NONE)

    def note(self, name: str, example: str) -> None:
        """Count a run, and keep the first of its kind as an example."""
        self.counts[name] += 1
        self.examples.setdefault(name, example)


def run_all(runs: int, *, seed: int, processes: int) -> Flips:
    """Do as `run_flips` in several processes, each with a part of the runs and its own seed."""
    parts = [runs // processes + (number < runs % processes) for number in range(processes)]
    seeds = [seed + number for number in range(processes)]
    flips = Flips()
    with ProcessPoolExecutor(processes) as pool:
        for one in pool.map(_run_part, parts, seeds):
            flips.counts += one.counts
            flips.examples = {**one.examples, **flips.examples}
    return flips


def _run_part(runs: int, seed: int) -> Flips:
    logging.getLogger("langchain_convmem").setLevel(logging.ERROR)  # each damage is logged
    return run_flips(runs, seed=seed)


Damage: TypeAlias = Callable[[Path, random.Random], str]
"""Damages a main file, or the write-ahead log beside it; returns what it did, and in which."""


def flip_bit(path: Path, rng: random.Random) -> str:
    """Change one bit of one of a log's files; return which."""
    chosen = choose_file(path, rng)
    at, bit = rng.randrange(chosen.stat().st_size), rng.randrange(8)
    with chosen.open("r+b") as file:
        file.seek(at)
        old = file.read(1)[0]
        file.seek(at)
        file.write(bytes([old ^ 1 << bit]))
    return f"{chosen.name} byte {at} bit {bit}"


def choose_file(path: Path, rng: random.Random) -> Path:
    """Return the main file or its write-ahead log, by chance as their sizes are."""
    files = [one for one in (path, Path(f"{path}-wal")) if one.exists() and one.stat().st_size]
    [chosen] = rng.choices(files, [one.stat().st_size for one in files])
    return chosen


def run_flips(
    runs: int, *, seed: int = 0, folder: Path | None = None, damage: Damage = flip_bit
) -> Flips:
    """Flip one bit, or do another damage, in each of some runs; return what came of them."""
    flips = Flips()
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="flips-", dir=folder) as name:
        memories = [
            _build(Path(name) / "folded", is_folded=True),
            _build(Path(name) / "wal", is_folded=False),
        ]
        for run in range(runs):
            memory = memories[run % len(memories)]
            _run(flips, memory, lambda path: damage(path, rng), Path(name) / "run")
            if run % 100 == 99:
                print(f"{run + 1} runs: {dict(flips.counts)}", file=sys.stderr, flush=True)
    return flips


def _build(folder: Path, *, is_folded: bool) -> Memory:
    """Make a memory with a write-ahead log that is folded in, or still lies beside it."""
    folder.mkdir()
    grown, path, backup = folder / "grown.db", folder / "log.db", folder / "backup.db"
    lines: dict[ThreadKey, list[str]] = {}
    with ConversationMemory.open(grown) as memory:
        log = cast("SQLiteLog", memory.log)
        for first in range(0, _LINES, _SAID_AT_ONCE):
            for user, thread in product(_USERS, _THREADS):
                said = [
                    f"{user} pays {number}000 euros for the {thread} number {number}"
                    for number in range(first, first + _SAID_AT_ONCE)
                ]
                memory.history(thread, user_id=user).add_messages(list(map(HumanMessage, said)))
                lines.setdefault(ThreadKey(user, thread), []).extend(said)
        for user in _USERS:
            memory.recall("Who pays for the garden?", user_id=user)
        heads = log.heads()
        log.backup(backup)
        _copy_files(grown, path)  # while it is open, so that the log beside it is there
    if is_folded:
        _copy_files(grown, path)
    return Memory(path, backup, lines, heads)


def _copy_files(source: Path, target: Path) -> None:
    for ending in ("", "-wal"):
        old, new = Path(f"{source}{ending}"), Path(f"{target}{ending}")
        new.unlink(missing_ok=True)
        if old.exists():
            shutil.copy(old, new)


def _run(flips: Flips, memory: Memory, damage: Callable[[Path], str], folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path = folder / "log.db"
    _copy_files(memory.path, path)
    where = damage(path)
    flips.counts["runs"] += 1
    try:
        if _judge(flips, memory, path, where):
            _repair(flips, memory, path, where)
    except _NOT_OURS as error:
        flips.note("crashed", f"{where}: {error!r}")


def _judge(flips: Flips, memory: Memory, path: Path, where: str) -> bool:
    """Read and check everything; return whether anything is wrong."""
    try:
        opened = ConversationMemory.open(path)
    except ConvMemError as error:
        flips.note("refused", f"{where}: {type(error).__name__}")
        return True
    with opened:
        log = cast("SQLiteLog", opened.log)
        shown, failed, named = _read_all(opened, memory)
        try:
            report = log.verify(against=memory.heads)
            problems = list(report.problems)
        except ConvMemError as error:
            problems = [type(error).__name__]
    _count(flips, memory, where, _Seen(shown, failed, named, problems))
    short = any(lines != memory.lines[key] for key, lines in shown.items())
    return bool(problems or short or failed)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What readers and `verify` saw of a file."""

    shown: dict[ThreadKey, list[str]]
    failed: list[str]
    named: set[ThreadKey]
    problems: list[str]


def _count(flips: Flips, memory: Memory, where: str, seen: _Seen) -> None:
    said, shown, failed = memory.lines, seen.shown, seen.failed
    named, problems = seen.named, seen.problems
    altered = [key for key, lines in shown.items() if not set(lines) <= set(said[key])]
    short = [key for key, lines in shown.items() if lines != said[key]]
    if altered:
        flips.note("altered", where)
    if named:
        flips.note("gaps", where)
    if failed:
        flips.note("failed", f"{where}: {failed}")
    unnamed = [key for key in short if key not in named]
    if unnamed and not named:
        flips.note("tail" if "-wal" in where else "lost", f"{where}: {problems[:2]}")
    if unnamed and not problems:
        flips.note("silent", where)
    if (short or failed or named) and not problems:
        flips.note("missed", where)
    if problems:
        flips.note("found", where)


def _read_all(
    opened: ConversationMemory, memory: Memory
) -> tuple[dict[ThreadKey, list[str]], list[str], set[ThreadKey]]:
    """Return what each thread shows, those that could not be read, and those with named gaps."""
    shown: dict[ThreadKey, list[str]] = {}
    failed: list[str] = []
    named: set[ThreadKey] = set()
    everything = {line for lines in memory.lines.values() for line in lines}
    for key in memory.lines:
        history = opened.history(key.thread_id, user_id=key.user_id)
        try:
            entries = history.entries
            # The view joins what one speaker said in a row.
            live = [line for one in history.messages for line in str(one.content).split("\n")]
        except ConvMemError as error:
            failed.append(f"{key.user_id}/{key.thread_id}: {type(error).__name__}")
            continue
        shown[key] = [text for entry in entries for text in entry.contents]
        if any(entry.damage for entry in entries):
            named.add(key)
        shown[key] += [text for text in live if text not in shown[key]]
    for user in _USERS:
        try:
            found = opened.recall("Who pays for the garden?", user_id=user)
        except ConvMemError as error:
            failed.append(f"recall of {user}: {type(error).__name__}")
            continue
        texts = [line.text for block in found.blocks for line in block.lines]
        stray = [text for text in texts if text not in everything or not text.startswith(user)]
        if stray:
            shown.setdefault(ThreadKey(user, "garden"), []).extend(stray)
    return shown, failed, named


def _repair(flips: Flips, memory: Memory, path: Path, where: str) -> None:
    try:
        report = SQLiteLog.repair_file(path, memory.backup)
        with SQLiteLog(path) as log:
            back = {
                key: [text for entry in log.entries(key) for text in entry.contents]
                for key in memory.lines
            }
    except ConvMemError as error:
        flips.note("unrepaired", f"{where}: {error}")
        return
    if report.ok and back == memory.lines:
        flips.note("repaired", where)
    else:
        flips.note("unrepaired", f"{where}: {list(report.verified.problems[:3])}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Flip and print; return the exit code, which is 1 if something happened that must not."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.flips",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--runs", type=int, default=200, metavar="N", help="default 200")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default 0")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="default 2")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    flips = run_all(options.runs, seed=options.seed, processes=options.processes)
    if options.json:
        print(json.dumps({"counts": flips.counts, "examples": flips.examples, "ok": flips.ok}))
    else:
        _print(flips)
    return 0 if flips.ok else 1


def _print(flips: Flips) -> None:
    names: Iterable[str] = dict.fromkeys(("runs", *_MUST_BE_NONE, *sorted(flips.counts)))
    for name in names:
        bar = "  at most 0" if name in _MUST_BE_NONE else ""
        print(f"{name:<12}{flips.counts[name]:>6}{bar}   {flips.examples.get(name, '')}".rstrip())


if __name__ == "__main__":
    raise SystemExit(main())
