"""Files that change under a log: a character or a bit is another, rows or an end are gone.

Each run copies a small memory of several users and threads, damages the copy, opens it, reads every
thread and recalls from every user; then `verify` judges the file. Counted are runs:

altered   text was shown that was never said
silent    lines were gone, and neither a reader nor `verify` said so
failed    a thread or a recall raised an error of ours, although the file opened: a page was hit
crashed   an error that is none of ours got out
missed    a reader met damage that `verify` did not find
refused   the file did not open: its header, its schema or a table of names was hit
tail      SQLite dropped the end of the write-ahead file, as after a crash
gaps      damaged entries were named where they stood
missing   entries, not runs: so many did `verify` count as missing
uncounted rows were deleted, and `verify` counted another number of missing entries

Altered, silent, crashed, missed and uncounted may not happen, nor `failed` where one character is
altered or rows are deleted.
"""

from __future__ import annotations

import logging
import random
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

from langchain_core.messages import HumanMessage

from benchmarks.chaos.drill import DrillReport, measure, run_batches
from langchain_convmem import ConversationMemory, SQLiteLog
from langchain_convmem.errors import ConvMemError
from langchain_convmem.records import ThreadKey

_AT_ONCE = 50
_PAGE_BYTES = 4096
_USERS = ("ana", "ben", "cleo")
_THREADS = ("garden", "travel")
_LINES = 12
_SAID_AT_ONCE = 3
_NOT_OURS = (sqlite3.Error, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
FORBIDDEN = ("altered", "silent", "crashed", "missed", "uncounted")

Damage: TypeAlias = Callable[[Path, random.Random], str]
"""Damages a main file, or the write-ahead file beside it; returns what it did, and in which."""


def alter_character(path: Path, rng: random.Random) -> str:
    """Change one character of what an entry says, past the log; return which."""
    with closing(sqlite3.connect(path)) as db, db:
        [(place, body)] = rng.sample(db.execute("SELECT place, body FROM entries").fetchall(), 1)
        at = rng.randrange(len(body))
        altered = body[:at] + chr(ord(body[at]) ^ 1) + body[at + 1 :]
        db.execute("UPDATE entries SET body = ? WHERE place = ?", (altered, place))
    return f"{path.name} place {place} character {at}"


def delete_rows(path: Path, rng: random.Random) -> str:
    """Delete some rows, the last ones of an owner, or all of an owner; return which."""
    with closing(sqlite3.connect(path)) as db, db:
        places = [place for (place,) in db.execute("SELECT place FROM entries ORDER BY place")]
        owner, count = rng.choice(places) >> 32, rng.randint(1, 5)
        own = [place for place in places if place >> 32 == owner]
        some, last = rng.sample(places, count), own[-count:]
        name, doomed = rng.choice([("places", some), ("last places", last), ("all places", own)])
        db.executemany("DELETE FROM entries WHERE place = ?", [(place,) for place in doomed])
    return f"{path.name} without {name} {doomed}"


def flip_bit(path: Path, rng: random.Random) -> str:
    """Change one bit of one of a log's files; return which."""
    chosen = _choose_file(path, rng)
    at, bit = rng.randrange(chosen.stat().st_size), rng.randrange(8)
    with chosen.open("r+b") as file:
        file.seek(at)
        old = file.read(1)[0]
        file.seek(at)
        file.write(bytes([old ^ 1 << bit]))
    return f"{chosen.name} byte {at} bit {bit}"


def tear(path: Path, rng: random.Random) -> str:
    """Cut off the end of one of a log's files, or put zeros somewhere; return which and where."""
    chosen = _choose_file(path, rng)
    size = chosen.stat().st_size
    at = rng.randrange(size)
    if rng.random() < 0.5:
        at -= at % _PAGE_BYTES
    with chosen.open("r+b") as file:
        if rng.random() < 0.5:
            # SQLite takes a file without a whole first page for a new one, as one that was deleted.
            left = max(at, _PAGE_BYTES) if chosen == path else at
            file.truncate(left)
            return f"{chosen.name} cut at byte {left} of {size}"
        length = min(size - at, rng.choice([512, 4096, _PAGE_BYTES]))
        file.seek(at)
        file.write(bytes(length))
    return f"{chosen.name} zeros at byte {at}, {length} of {size}"


def _choose_file(path: Path, rng: random.Random) -> Path:
    """Return the main file or its write-ahead file, by chance as their sizes are."""
    files = [one for one in (path, Path(f"{path}-wal")) if one.exists() and one.stat().st_size]
    [chosen] = rng.choices(files, [one.stat().st_size for one in files])
    return chosen


def run_alterations(runs: int, seed: int) -> DrillReport:
    """Alter one character in each of so many files, and delete rows of a tenth as many."""
    forbidden = (*FORBIDDEN, "failed")
    report = damage_files(runs, seed, "alterations", alter_character, forbidden)
    deleted = damage_files(-(-runs // 10), seed, "deletions", delete_rows, forbidden)
    report.did.update({f"deletions {kind}": count for kind, count in deleted.did.items()})
    report.did["deletions"] = deleted.runs
    report.findings += deleted.findings
    report.seconds += deleted.seconds
    return report


def damage_files(
    runs: int, seed: int, name: str, damage: Damage, forbidden: Sequence[str] = FORBIDDEN
) -> DrillReport:
    """Damage so many files, each in one way, and say how often what may not happen happened."""
    with measure(name) as report:
        work = partial(_damage_some, damage)
        for own_seed, count, (counts, examples) in run_batches(report, runs, seed, _AT_ONCE, work):
            report.runs += count
            report.did.update(counts)
            report.findings += [
                f"seed {own_seed}, {counts[what]} times {what}: {examples[what]}"
                for what in forbidden
                if counts.get(what)
            ]
    return report


def _damage_some(damage: Damage, count: int, seed: int) -> list[Any]:
    """Damage copies of a memory whose write-ahead file is folded in, and of one where it is not."""
    logging.getLogger("langchain_convmem").setLevel(logging.ERROR)  # each damage is logged
    outcome, rng = Outcome(), random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="convmem-chaos-") as name:
        folder = Path(name)
        memories = [_build(folder / str(folded), is_folded=folded) for folded in (True, False)]
        for run in range(count):
            memory, place = memories[run % 2], folder / "run"
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            _copy_files(memory.path, place / "log.db")
            where = damage(place / "log.db", rng)
            try:
                outcome.judge(memory, place / "log.db", where)
            except _NOT_OURS as error:
                outcome.note("crashed", f"{where}: {error!r}")
    return [outcome.counts, outcome.examples]


class Memory(NamedTuple):
    """A memory to damage: its main file, and what was said in each thread, in order."""

    path: Path
    lines: dict[ThreadKey, list[str]]


def _build(folder: Path, *, is_folded: bool) -> Memory:
    """Make a memory with a write-ahead file that is folded in, or still lies beside it."""
    folder.mkdir()
    grown, path = folder / "grown.db", folder / "log.db"
    lines: dict[ThreadKey, list[str]] = {}
    with ConversationMemory.open(grown) as memory:
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
        _copy_files(grown, path)  # while it is open, so that the file beside it is there
    if is_folded:
        _copy_files(grown, path)
    return Memory(path, lines)


def _copy_files(source: Path, target: Path) -> None:
    for ending in ("", "-wal"):
        old, new = Path(f"{source}{ending}"), Path(f"{target}{ending}")
        new.unlink(missing_ok=True)
        if old.exists():
            shutil.copy(old, new)


@dataclass(slots=True)
class Outcome:
    """What came of some runs: how often each thing happened, and where it did first."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def note(self, name: str, example: str) -> None:
        """Count a run, and keep the first of its kind as an example."""
        self.counts[name] += 1
        self.examples.setdefault(name, example)

    def judge(self, memory: Memory, path: Path, where: str) -> None:
        """Read and check everything, and note what is wrong."""
        try:
            opened = ConversationMemory.open(path)
        except ConvMemError as error:
            self.note("refused", f"{where}: {type(error).__name__}")
            return
        with opened:
            seen = Readers(memory)
            seen.read_threads(opened)
            seen.recall(opened)
            try:
                report = cast("SQLiteLog", opened.log).verify()
                problems, missing = list(report.problems), report.missing
            except ConvMemError as error:
                problems, missing = [type(error).__name__], 0
        said, shown = memory.lines, seen.shown
        lost = [key for key, lines in shown.items() if lines != said[key] and key not in seen.named]
        gone = sum(len(lines) - len(shown.get(key, ())) for key, lines in said.items())
        is_tail = "-wal" in where and all(
            said[key][: len(shown[key])] == shown[key] for key in lost
        )
        happened = {
            "altered": bool(seen.altered),
            "failed": bool(seen.failed),
            "gaps": bool(seen.named),
            "tail": bool(lost) and is_tail,
            "silent": bool(lost) and not problems and not is_tail,
            "missed": bool(seen.failed or seen.named) and not problems,
            "found": bool(problems),
            "uncounted": "without" in where and missing != gone,
        }
        self.counts["missing"] += missing
        for name in filter(happened.__getitem__, happened):
            self.note(name, f"{where}: {[*seen.altered, *seen.failed][:2]} {problems[:2]}")


class Readers:
    """What everybody who reads a memory gets to see.

    Attributes:
        shown: The lines of each thread that could be read.
        altered: What was shown and never said.
        failed: What could not be read.
        named: Threads with damaged entries that were named.
    """

    def __init__(self, memory: Memory) -> None:
        """Begin to read; nothing is seen yet."""
        self._said = memory.lines
        self.shown: dict[ThreadKey, list[str]] = {}
        self.altered: list[str] = []
        self.failed: list[str] = []
        self.named: set[ThreadKey] = set()

    def read_threads(self, opened: ConversationMemory) -> None:
        """Read every thread, as the log has it and as a model would get it."""
        for key, said in self._said.items():
            history = opened.history(key.thread_id, user_id=key.user_id)
            try:
                entries = history.entries
                # The view joins what one speaker said in a row.
                live = [line for one in history.messages for line in str(one.content).split("\n")]
            except ConvMemError as error:
                self.failed.append(f"{key.user_id}/{key.thread_id}: {type(error).__name__}")
                continue
            self.shown[key] = [text for entry in entries for text in entry.contents]
            self.altered += [text for text in (*self.shown[key], *live) if text not in said]
            if any(entry.damage for entry in entries):
                self.named.add(key)

    def recall(self, opened: ConversationMemory) -> None:
        """Recall from every user."""
        everything = {line for lines in self._said.values() for line in lines}
        for user in _USERS:
            try:
                found = opened.recall("Who pays for the garden?", user_id=user)
            except ConvMemError as error:
                self.failed.append(f"recall of {user}: {type(error).__name__}")
                continue
            texts = [line.text for block in found.blocks for line in block.lines]
            self.altered += [
                text for text in texts if text not in everything or not text.startswith(user)
            ]
