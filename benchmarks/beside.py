"""Versions of this package side by side, each in processes of its own interpreter.

    python -m benchmarks.beside CHECKOUT=PYTHON CHECKOUT=PYTHON ... [--quick] [--rounds N] [--json]

A checkout is a folder that holds a version, such as `git worktree add` makes; PYTHON is an
interpreter with that version's dependencies. All versions do the same work in the same order, one
sample of each in turn and in alternating order, so that a machine that becomes busier slows all
alike. Embeddings are made up of 512 components and cost nothing: their time is not counted.

    turn              `invoke` of a wrapped model that answers at once, at 100 and 2,000 turns of
                      the thread, with recall over 1,000 earlier lines and without
    recall            one recall among 10,000 lines of a user
    first recall      the same in a process that has just opened the file
    append            a question and a reply, acknowledged, in an SQLite file
    last 20           the newest 20 entries of a thread of 10,000 lines
    whole thread      all entries of that thread: by a log that has just been opened, and again
    all lines         every line of that user, as an index would read them

Printed are medians in milliseconds, and beside those of every version but the first their ratio to
the first, of the clock and of the processor. Only public names are used; names that differ between
versions are looked up in tables.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import IO, Any, cast

import numpy as np
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage

_USER = "ana"
_WORDS = re.findall(
    r"\w+",
    "umbrella harbour bicycle invoice market recipe library passport violin station blanket "
    "ladder museum notebook camera garden kettle bakery parcel clinic ticket school carpet "
    "theatre guitar bridge jacket office keyboard kitchen medicine workshop painting airport "
    "receipt valley suitcase lighthouse tractor pharmacy bought lost repaired borrowed returned "
    "painted measured cancelled ordered forgot found sold cleaned shipped Monday Tuesday Friday",
)


@dataclass(frozen=True)
class Sizes:
    """How much is stored before anything is measured."""

    short: int = 100
    long: int = 2_000
    earlier: int = 1_000
    lines: int = 10_000


QUICK = Sizes(short=5, long=20, earlier=40, lines=200)

# -- one version, in a process of its own --------------------------------------------------------


def serve(folder: Path, sizes: Sizes, *, first: bool) -> None:
    """Prepare the files of a folder, then take a sample of each operation that is named on stdin.

    With `first`, only recall once from files that are there.
    """
    import langchain_convmem

    checkout = os.environ["PYTHONPATH"]
    if not Path(langchain_convmem.__file__).is_relative_to(checkout):
        raise SystemExit(f"{checkout} is not what is imported")
    operations = {"first recall": _open_recall(folder)} if first else _prepare(folder, sizes)
    print(json.dumps(list(operations)), flush=True)
    for line in sys.stdin:
        print(json.dumps(operations[line.strip()]()), flush=True)


def _prepare(folder: Path, sizes: Sizes) -> dict[str, Callable[[], list[float]]]:
    with _open_memory(folder / "lines.db") as memory:
        _say_lines(memory, sizes.lines)
        _index(memory)
    turns = {
        f"turn {number:,}, {name}": _make_turn(folder, sizes, number, options)
        for number in (sizes.short, sizes.long)
        for name, options in (("no recall", {"recall": False}), ("recall", {}))
    }
    return {**turns, "recall": _open_recall(folder), **_make_log_operations(folder, sizes)}


def _make_turn(
    folder: Path, sizes: Sizes, turns: int, options: dict[str, Any]
) -> Callable[[], list[float]]:
    memory = _open_memory(folder / f"turns_{turns}_{len(options)}.db")
    _say_lines(memory, sizes.earlier)
    _say_thread(memory, "now", 2 * turns)
    _index(memory)
    answers = (AIMessage(_make_text(number)) for number in range(1_000_000, 9_000_000))
    chain = memory.wrap(
        GenericFakeChatModel(messages=answers), history_tokens=2_000, profile_tokens=0, **options
    )
    config = {"configurable": {"user_id": _USER, "thread_id": "now"}}
    questions = (f"{_make_text(number)} Where was it?" for number in range(1_000_000, 9_000_000))
    return lambda: _time(lambda: chain.invoke(next(questions), config))


def _open_recall(folder: Path) -> Callable[[], list[float]]:
    memory = _open_memory(folder / "lines.db")
    questions = (f"Where is the {_make_text(number)}" for number in range(2_000_000, 9_000_000))
    return lambda: _time(lambda: memory.recall(next(questions), user_id=_USER, max_tokens=1_000))


def _make_log_operations(folder: Path, sizes: Sizes) -> dict[str, Callable[[], list[float]]]:
    from langchain_convmem import SQLiteLog
    from langchain_convmem.records import ThreadKey

    path, key = folder / "thread.db", ThreadKey(_USER, "now")
    with _open_memory(path) as memory:
        _say_thread(memory, "now", sizes.lines)
    writing = _open_memory(folder / "appends.db").history("now", user_id=_USER)
    pairs = (_make_messages(2, seed=number) for number in range(1_000_000, 9_000_000))
    log = SQLiteLog(path)
    log.entries(key)

    def read_whole() -> list[float]:
        with SQLiteLog(path) as opened:
            opened.entries(key, last=1)
            return _time(lambda: opened.entries(key))

    return {
        "append": lambda: _time(lambda: writing.add_messages(next(pairs))),
        "last 20": lambda: _time(lambda: log.entries(key, last=20)),
        "whole thread": read_whole,
        "whole thread again": lambda: _time(lambda: log.entries(key)),
        "all lines": lambda: _time(
            lambda: _find(log, "line_changes", "read_lines", "changes")(key.owner)
        ),
    }


def _find(thing: Any, *names: str) -> Any:
    """Return the first attribute of these names that a version has."""
    return next(getattr(thing, name) for name in names if hasattr(thing, name))


def _time(call: Callable[[], object]) -> list[float]:
    """Return milliseconds of the clock and of the processor, less those of embedding."""
    embedded = WordEmbeddings.seconds
    clock, busy = time.perf_counter(), time.process_time()
    call()
    busy, clock = time.process_time() - busy, time.perf_counter() - clock
    apart = WordEmbeddings.seconds - embedded
    return [1000 * max(clock - apart, 0), 1000 * max(busy - apart, 0)]


# -- what is stored ------------------------------------------------------------------------------


class WordEmbeddings(Embeddings):
    """The sum of a random vector for each word; counts the time that it takes."""

    fingerprint = embedder_id = "sums of words"
    seconds = 0.0

    def __init__(self) -> None:
        self._vectors: dict[str, Any] = {}

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        start = time.perf_counter()
        total = np.zeros(512)
        for word in re.findall(r"\w+", text.lower()):
            if word not in self._vectors:
                self._vectors[word] = np.random.default_rng([*word.encode()]).normal(size=512)
            total += self._vectors[word]
        values: list[float] = (total / (np.linalg.norm(total) or 1)).tolist()
        WordEmbeddings.seconds += time.perf_counter() - start
        return values


def _open_memory(path: Path) -> Any:
    from langchain_convmem import ConversationMemory

    return ConversationMemory.open(path, embeddings=WordEmbeddings())


def _say_lines(memory: Any, lines: int) -> None:
    """Store so many lines in threads of forty."""
    for thread, before in enumerate(range(0, lines, 40)):
        _say_thread(memory, f"earlier{thread}", min(40, lines - before), seed=thread + 1)


def _say_thread(memory: Any, thread: str, lines: int, seed: int = 0) -> None:
    memory.add_messages(_make_messages(lines, seed=seed), user_id=_USER, thread_id=thread)


def _index(memory: Any) -> None:
    memory.refresh(user_id=_USER)
    memory.recall(_make_text(0), user_id=_USER, max_tokens=1_000)


def _make_messages(lines: int, seed: int) -> list[Any]:
    kinds = (HumanMessage, AIMessage)
    day = 1_700_000_000_000 + 86_400_000 * (seed % 1000)
    return [
        kinds[number % 2](
            _make_text(20_000 * seed + number),
            additional_kwargs={"timestamp": day + 30_000 * number},
        )
        for number in range(lines)
    ]


def _make_text(seed: int) -> str:
    chance = random.Random(seed)
    return f"{' '.join(chance.choices(_WORDS, k=chance.randint(8, 30)))} {chance.randint(2, 9999)}."


# -- all of them ---------------------------------------------------------------------------------


class Process:
    """A version at work in a process of its own."""

    def __init__(self, version: Version, sizes: Sizes, *, first: bool = False) -> None:
        words = [version.python, "-P", "-X", "utf8", __file__, "--serve", str(version.folder)]
        words += [json.dumps(vars(sizes)), *(["first"] if first else [])]
        self._process = subprocess.Popen(
            words,
            env={**os.environ, "PYTHONPATH": str(version.checkout)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._asking = cast("IO[str]", self._process.stdin)
        self._answers = cast("IO[str]", self._process.stdout)
        self.operations: list[str] = self._read()

    def take(self, operation: str) -> list[float]:
        """Return what one sample took: milliseconds of the clock and of the processor."""
        print(operation, file=self._asking, flush=True)
        return cast("list[float]", self._read())

    def _read(self) -> Any:
        line = self._answers.readline()
        if not line:
            raise SystemExit(f"a version ended with exit code {self._process.wait()}")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        self._asking.close()
        self._answers.close()
        self._process.wait()


@dataclass
class Version:
    """A checkout with its interpreter, and what it took for each operation."""

    checkout: Path
    python: str
    folder: Path
    times: dict[str, list[list[float]]] = field(default_factory=dict)

    def median(self, operation: str, clock: int) -> float:
        """Return the median time of an operation."""
        return median(one[clock] for one in self.times[operation])


def measure(versions: Sequence[Version], sizes: Sizes, rounds: int) -> None:
    """Take a sample of each operation with each version, `rounds` times and once to warm up."""
    processes = [Process(version, sizes) for version in versions]
    pairs = list(zip(versions, processes, strict=True))
    for number in range(rounds + 1):
        for operation in processes[0].operations:
            for version, process in _alternate(pairs, number):
                taken = process.take(operation)
                if number:
                    version.times.setdefault(operation, []).append(taken)
    for process in processes:
        process.close()
    for number in range(max(rounds // 5, 3)):
        for version in _alternate(versions, number):
            process = Process(version, sizes, first=True)
            version.times.setdefault("first recall", []).append(process.take("first recall"))
            process.close()


def _alternate(things: Sequence[Any], number: int) -> Iterator[Any]:
    return iter(things if number % 2 else things[::-1])


def make_report(versions: Sequence[Version]) -> dict[str, Any]:
    """Return a row for each operation, with a figure of each version in order."""
    rows: dict[str, dict[str, list[float]]] = {}
    for operation in versions[0].times:
        clock, busy = ([one.median(operation, of) for one in versions] for of in (0, 1))
        rows[operation] = {
            "ms": [round(one, 3) for one in clock],
            "ratio": [round(one / clock[0], 3) for one in clock],
            "processor_ratio": [round(one / (busy[0] or 1), 3) for one in busy],
        }
    return {"versions": [str(one.checkout) for one in versions], "operations": rows}


def make_table(report: dict[str, Any]) -> list[str]:
    """Return the report for people."""
    from benchmarks.ui import format_rows

    numbers = range(1, len(report["versions"]) + 1)
    heads = [f"{number} : 1, clock, processor" for number in numbers[1:]]
    rows = [["", *(f"{number}, ms" for number in numbers), *heads]]
    for operation, row in report["operations"].items():
        pairs = zip(row["ratio"][1:], row["processor_ratio"][1:], strict=True)
        ratios = [f"{clock:.3f} / {busy:.3f}" for clock, busy in pairs]
        rows.append([operation, *(f"{ms:.3f}" for ms in row["ms"]), *ratios])
    names = [f"{number}: {name}" for number, name in zip(numbers, report["versions"], strict=True)]
    return [*names, "", *format_rows(rows, 10)]


def _read_version(text: str) -> tuple[Path, str]:
    checkout, _, python = text.partition("=")
    if not python or not (Path(checkout) / "langchain_convmem").is_dir():
        raise argparse.ArgumentTypeError(f"not CHECKOUT=PYTHON: {text}")
    return Path(checkout).resolve(), python


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    # Not above: another version's process runs this file beside that version's benchmarks.
    from benchmarks.ui import make_parser, parse_positive, print_report

    parser = make_parser("benchmarks.beside", __doc__)
    parser.add_argument("versions", nargs="+", type=_read_version, metavar="CHECKOUT=PYTHON")
    parser.add_argument(
        "--rounds", type=parse_positive, help="samples of each (default 40; --quick: 3)"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    options = parser.parse_args(arguments)
    sizes = QUICK if options.quick else Sizes()
    with tempfile.TemporaryDirectory(prefix="benchmark-beside-") as folder:
        versions = []
        for number, (checkout, python) in enumerate(options.versions):
            own = Path(folder) / str(number)
            own.mkdir()
            versions.append(Version(checkout, python, own))
        measure(versions, sizes, options.rounds or (3 if options.quick else 40))
    return print_report(make_report(versions), make_table, as_json=options.json)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(Path(sys.argv[2]), Sizes(**json.loads(sys.argv[3])), first=len(sys.argv) > 4)
    else:
        raise SystemExit(main())
