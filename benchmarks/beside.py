"""What a turn or a recall costs beside earlier versions of this package, in one run.

    python -m benchmarks.beside CHECKOUT [CHECKOUT ...] [--turns 600] [--lines 10000]
        [--recall people|assistant] [--json]

A checkout is a folder that holds another version, such as `git worktree add` makes one. Each
version runs in a process of its own and takes the same turns as `benchmarks.latency` measures: of a
user who has said so many lines in earlier threads and keeps talking in one, with recall, both
durable writes and a model that answers at once. They take one turn each in changing order, so that
a machine that becomes busier slows all alike. The last 200 turns count, or half of them.

Figures, for each version:
    added p50, p95   time of `invoke` less the median of the model alone, milliseconds
    processor        median of the time that `invoke` kept a processor busy, less that of the model
    ratio            median of what this version adds, turn by turn, to what the other one adds

Bar: at most 0.6 of each other version, by the median of the processor time or of the whole,
whichever is larger.

With `--recall`, the same of a recall within 1,000 tokens, by itself: of two people with names, or
of a user, who says "I", and an assistant. Each question is asked once; some name who or what they
are about, some are about nobody, some follow a statement. Bar: at most 1.2.
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
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import IO, Any, cast

BAR = 0.6
RECALL_BAR = 1.2
_RECALL_TOKENS = 1000
_COUNTED = 200
# Of those that the synthetic dialogue is about.
_THINGS = ("umbrella", "bicycle", "recipe", "passport", "violin", "ladder", "camera", "suitcase")
_PLACES = ("harbour", "market", "library", "station", "museum", "bakery", "theatre", "workshop")
_LEAST = 4
_OURS = Path(__file__).resolve().parent.parent

Times = tuple[float, float]
"""Milliseconds of the clock and of a processor."""


# -- one version -----------------------------------------------------------------------------


def serve(lines: int, folder: Path, recall: str | None) -> None:
    """Take a turn for each number that comes in; answer with the times of turn and model.

    With `recall`, recall instead; there is no model then, which takes no time.
    """
    from benchmarks.synthetic_dialogue import threads
    from langchain_convmem import ConversationMemory, EmbeddedEmbeddings

    with ConversationMemory.open(folder / "memory.db", embeddings=EmbeddedEmbeddings()) as memory:
        for number, messages in enumerate(threads(lines)):
            said = messages if recall is None else [_say_as(one, recall) for one in messages]
            memory.add_messages(said, user_id="ana", thread_id=f"t{number}")
        memory.refresh(user_id="ana")
        take = _make_turns(memory) if recall is None else _make_recalls(memory, recall)
        for line in sys.stdin:
            print(json.dumps(take(int(line))), flush=True)


def _make_turns(memory: Any) -> Callable[[int], list[Times]]:
    from benchmarks import latency

    model = latency.TurnModel()
    wrapped = memory.wrap(model, history_tokens=latency.HISTORY_TOKENS)
    config: Any = {"configurable": {"user_id": "ana", "thread_id": "long"}}
    bare = latency.System(model, {}, lambda one: [one])
    full = latency.System(wrapped, config, lambda one: one)

    def take(number: int) -> list[Times]:
        model.turn = number
        return [full.turn_ms(number), bare.turn_ms(number)]

    return take


def _make_recalls(memory: Any, kind: str) -> Callable[[int], list[Times]]:
    def take(number: int) -> list[Times]:
        question = _make_question(number, kind)
        start, busy = time.perf_counter(), time.process_time()
        memory.recall(question, user_id="ana", max_tokens=_RECALL_TOKENS)
        busy, end = time.process_time() - busy, time.perf_counter()
        return [(1000 * (end - start), 1000 * busy), (0.0, 0.0)]

    return take


def _say_as(message: Any, kind: str) -> Any:
    """Return a message as one of two people says it, or a user about themselves."""
    is_user = message.type == "human"
    if kind == "people":
        return message.model_copy(update={"name": "Ana" if is_user else "Ben"})
    text = re.sub(r"^\w+", "I", message.content) if is_user else message.content
    return message.model_copy(update={"content": text})


def _make_question(number: int, kind: str) -> str:
    from benchmarks.synthetic_dialogue import said

    chance = random.Random(f"asked {number}")
    thing, place = chance.choice(_THINGS), chance.choice(_PLACES)
    who = chance.choice(["Ana", "Ben"])
    forms = {
        "people": [
            f"What did {who} say about the {thing} at the {place}?",
            f"Which {thing} did {who} buy?",
        ],
        "assistant": [
            f"What did I do with the {thing} at the {place}?",
            f"Where is my {thing}, and what did I pay for it?",
        ],
    }
    about_nobody = f"When was the {thing} at the {place} repaired?"
    return chance.choice([*forms[kind], about_nobody, said(number)])


class Process:
    """A version that answers what it is asked, in a process of its own."""

    def __init__(self, checkout: Path, script: str, *arguments: str) -> None:
        """Run a script, of ours, with the packages of a checkout."""
        self._process = subprocess.Popen(
            [sys.executable, script, *arguments],
            env={**os.environ, "PYTHONPATH": str(checkout)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._asking = cast("IO[str]", self._process.stdin)
        self._answers = cast("IO[str]", self._process.stdout)

    def ask(self, what: object) -> Any:
        """Return what it answers."""
        print(what, file=self._asking, flush=True)
        return json.loads(self._answers.readline())

    def close(self) -> None:
        """End the process."""
        self._asking.close()
        self._answers.close()
        self._process.wait()


class Version:
    """A version at work in a process of its own."""

    def __init__(self, checkout: Path, lines: int, folder: Path, recall: str | None) -> None:
        self.name = checkout.name
        self.turns: list[Times] = []
        self.bare: list[Times] = []
        folder.mkdir()
        plan = ["--serve", str(folder), "--lines", str(lines)]
        asked = plan if recall is None else [*plan, "--recall", recall]
        self._process = Process(checkout, __file__, *asked)

    def take(self, number: int) -> None:
        """Take a turn."""
        turn, bare = self._process.ask(number)
        self.turns.append(tuple(turn))
        self.bare.append(tuple(bare))

    def close(self) -> None:
        """End the process."""
        self._process.close()

    def added(self, clock: int) -> list[float]:
        """Return what the turns that count took longer than the model alone: 0 real, 1 busy."""
        first = max(len(self.turns) - _COUNTED, len(self.turns) // 2)
        alone = median(one[clock] for one in self.bare[first:])
        return [max(one[clock] - alone, 0.001) for one in self.turns[first:]]


# -- all of them -----------------------------------------------------------------------------


def measured(
    checkouts: Sequence[Path], turns: int, lines: int, folder: Path, recall: str | None
) -> list[Version]:
    """Take all turns, or recalls, with all versions."""
    versions = [
        Version(checkout, lines, folder / str(number), recall)
        for number, checkout in enumerate((_OURS, *checkouts))
    ]
    for number in range(1, turns + 1):
        for version in versions if number % 2 else versions[::-1]:
            version.take(number)
    for version in versions:
        version.close()
    return versions


def reported(versions: Sequence[Version], lines: int, recall: str | None) -> dict[str, Any]:
    """Return figures and bars as plain JSON."""
    ours = versions[0]
    rows = []
    for version in versions:
        real, busy = version.added(0), version.added(1)
        row: dict[str, Any] = {
            "version": version.name,
            "p50_ms": round(median(real), 2),
            "p95_ms": round(quantiles(real, n=20, method="inclusive")[-1], 2),
            "processor_ms": round(median(busy), 2),
        }
        if version is not ours:
            row["ratio"] = round(_ratio(ours, version, 0), 2)
            row["processor_ratio"] = round(_ratio(ours, version, 1), 2)
        rows.append(row)
    worst = max(max(row["ratio"], row["processor_ratio"]) for row in rows[1:])
    bar = BAR if recall is None else RECALL_BAR
    return {
        "lines_before": lines,
        "measured": "added per turn" if recall is None else f"recall, {recall}",
        "versions": rows,
        "worst": worst,
        "bar": bar,
        "ok": worst <= bar,
    }


def _ratio(ours: Version, other: Version, clock: int) -> float:
    pairs = zip(ours.added(clock), other.added(clock), strict=True)
    return median(own / theirs for own, theirs in pairs)


def table(report: dict[str, Any]) -> str:
    """Return the report for people."""
    what = f"{report['measured']}, ms"
    rows = [f"{what:<24}{'p50':>8}{'p95':>8}{'processor':>12}{'ours : it':>16}"]
    for row in report["versions"]:
        ratio = f"{row['ratio']:.2f} / {row['processor_ratio']:.2f}" if "ratio" in row else ""
        rows.append(
            f"  {row['version']:<22}{row['p50_ms']:>8.2f}{row['p95_ms']:>8.2f}"
            f"{row['processor_ms']:>12.2f}{ratio:>16}"
        )
    verdict = "ok" if report["ok"] else "FAILED"
    return "\n".join(
        [*rows, "", f"bar: largest ratio {report['worst']}, at most {report['bar']} {verdict}"]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when the bar fails."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.beside",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkouts", nargs="*", type=Path, help="folders of other versions")
    parser.add_argument("--turns", type=int, default=600, help="turns of the thread")
    parser.add_argument("--lines", type=int, default=10_000, help="lines the user said before")
    parser.add_argument(
        "--recall", choices=("people", "assistant"), help="recalls alone, of such a memory"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve is not None:
        serve(options.lines, options.serve, options.recall)
        return 0
    if not options.checkouts or options.turns < _LEAST:
        parser.error(f"name a checkout, and at least {_LEAST} turns")
    with tempfile.TemporaryDirectory(prefix="benchmark-beside-") as folder:
        checkouts = [checkout.resolve() for checkout in options.checkouts]
        plan = (checkouts, options.turns, options.lines, Path(folder), options.recall)
        found = measured(*plan)
    report = reported(found, options.lines, options.recall)
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
