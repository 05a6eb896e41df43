"""Full disks: what cannot be written raises, leaves nothing half, and is written later.

    python -m benchmarks.chaos.disks DISK SEED FIRST LAST

is what runs on a small disk of its own; it prints what it found, as JSON.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage

from benchmarks.chaos.drill import DrillReport, make_folder, measure, show_drill
from langchain_convmem import SQLiteLog
from langchain_convmem.errors import LogError
from langchain_convmem.records import StoredSegment, ThreadKey
from langchain_convmem.views.codec import make_draft

KEY = ThreadKey("ana", "chat")
_AT_ONCE = 10
_OPERATIONS = 40
_SIZE = "16m"
_ROOM_BYTES = 120_000
"""At most, that a full disk still has."""


def run_disks(runs: int, seed: int) -> DrillReport:
    """Write on a full disk so many times, and once more when it has room again."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))
    from small_disks import can_mount, make_command  # type: ignore[import-not-found]

    with measure("disks") as report, make_folder() as disk:
        if not can_mount(disk):
            report.skipped = "this machine lets nobody mount a disk of their own"
            return report
        for first in range(0, runs, _AT_ONCE):
            last = min(first + _AT_ONCE, runs)
            words = [sys.executable, "-m", __spec__.name, disk, seed, first, last]
            command = make_command(_SIZE, disk, list(map(str, words)))
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            if done.returncode:
                report.note("failed", first, done.stderr.splitlines()[-1:])
                continue
            for number, (did, found) in enumerate(json.loads(done.stdout), first):
                report.note("full disks", number, found)
                report.did.update(did)
            show_drill("disks", last, runs)
    return report


# -- on the disk ----------------------------------------------------------------------------------


def main(disk: Path, seed: int, first: int, last: int) -> None:
    """Print what each of some runs did and found."""
    answers = []
    for number in range(first, last):
        full = FullDisk(disk, random.Random(seed * 1_000_003 + number))
        found = full.run()
        answers.append([full.did, found])
        for one in disk.iterdir():
            one.unlink()
    print(json.dumps(answers))


class FullDisk:
    """One log on a disk that fills up, again and again, while it is written."""

    def __init__(self, disk: Path, chance: random.Random) -> None:
        """Begin with an empty log."""
        self.did: Counter[str] = Counter()
        self._disk = disk
        self._chance = chance
        self._log = SQLiteLog(disk / "memory.db")
        self._said: list[str] = []
        self._count: int | None = None
        self._found: list[str] = []

    def run(self) -> list[str]:
        """Do what may fail, and return which promises did not hold."""
        writes = (self._append, self._append, self._annotate, self._set_state, self._save_segments)
        for number in range(_OPERATIONS):
            if number % 8 == 3:
                self._fill()
            if number % 8 == 7:
                self._make_room()
            self._chance.choice([*writes, self._forget, self._back_up])(number)
        self._make_room()
        self._log.close()
        self._judge()
        return self._found

    def _fill(self) -> None:
        room = self._chance.randrange(_ROOM_BYTES)
        disk = os.statvfs(self._disk)
        with (self._disk / "ballast").open("wb") as file:
            file.write(bytes(max(0, disk.f_bavail * disk.f_bsize - room)))

    def _make_room(self) -> None:
        (self._disk / "ballast").unlink(missing_ok=True)

    def _try(self, kind: str, call: Callable[[], Any]) -> bool:
        """Return whether a call returned; it may only raise our errors."""
        try:
            call()
        except LogError:
            self.did[f"{kind} refused"] += 1
            return False
        self.did[f"{kind} done"] += 1
        return True

    def _append(self, number: int) -> None:
        texts = [f"{number}/{part}" for part in range(self._chance.choice([1, 1, 3]))]
        filler = "x" * self._chance.choice([10, 1000, 30_000])
        drafts = [make_draft(HumanMessage([text, filler], id=text)) for text in texts]
        if self._try("append", lambda: self._log.append(KEY, drafts)):
            self._said += texts

    def _annotate(self, number: int) -> None:
        entries = self._log.entries(KEY, last=1)
        if entries:
            mark = f"{number}" + "y" * self._chance.choice([10, 9000])
            self._try("annotate", lambda: self._log.annotate(KEY, entries[0].id, attributes=[mark]))

    def _set_state(self, number: int) -> None:
        before = self._log.get_state(KEY, "count")
        if before is not None and before.value[0] != self._count:
            self._found.append(f"state {before.value[0]} after {self._count}")
        value = [number, "z" * self._chance.choice([10, 9000])]
        expected = None if before is None else before.version
        if self._try("state", lambda: self._log.set_state(KEY, "count", value, expected=expected)):
            self._count = number

    def _save_segments(self, number: int) -> None:
        del number
        entries = self._log.entries(KEY, last=1)
        if entries:
            row = StoredSegment(entries[0].position, 0, 0, "w " * 4000, None)
            self._try("segments", lambda: self._log.save_segments(KEY.owner, "model", [row]))

    def _forget(self, number: int) -> None:
        del number
        if not self._said:
            return
        text = self._chance.choice(self._said)
        self._try("forget", lambda: self._log.forget(KEY, [text]))
        # An error after the commit says that entries are erased, but not yet their text.
        there = [text for one in self._log.entries(KEY) for text in one.contents[:1]]
        if text not in there:
            self._said.remove(text)

    def _back_up(self, number: int) -> None:
        copy = self._disk / f"copy-{number}.db"
        if self._try("backup", lambda: self._log.backup(copy)):
            self._make_room()  # to open a log takes some
            with SQLiteLog(copy) as log:
                self._compare(log, "a backup")
            for one in self._disk.glob(f"{copy.name}*"):
                one.unlink()
        elif copy.exists():
            self._found.append("a refused backup is there")

    def _judge(self) -> None:
        with SQLiteLog(self._disk / "memory.db") as log:
            self._compare(log, "the log")
            self._found += [f"verify says: {problem}" for problem in log.verify().problems]
            for _ in range(2):
                log.append(KEY, [make_draft(HumanMessage("there is room again", id="room"))])
            if len(log.find(KEY, ["room"])) != 1:
                self._found.append("what is written again is not there once")
        stale = [one.name for one in self._disk.iterdir() if not one.name.startswith("memory.db")]
        self._found += [f"left on the disk: {name}" for name in stale]

    def _compare(self, log: SQLiteLog, whose: str) -> None:
        there = Counter(one.contents[0] for one in log.entries(KEY) if one.role == "user")
        wanted = Counter(self._said)
        self._found += [f"{whose} lost {text}" for text in wanted - there]
        self._found += [f"{whose} holds what was refused: {text}" for text in there - wanted]


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
