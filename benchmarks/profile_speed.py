"""What profiles and earlier times cost: `python -m benchmarks.profile_speed [--lines N ...]`.

- turn: a warm turn of a wrapped chain over a SQLite file, with `profile_tokens=150` and without,
  one after the other; the median of the differences, in milliseconds.
- profile: the first profile of a user with so many lines, per line, and how much memory it keeps:
  lines are made up by fifty sentences, of which five are standing statements, with numbers in them.
- as_of: a warm recall as of the middle of a log beside a warm recall of all of it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig

from langchain_convmem import ConversationMemory
from langchain_convmem.effects import run_sync
from langchain_convmem.profile.reader import ProfileReader
from langchain_convmem.recall.embedding import EmbeddedEmbeddings
from langchain_convmem.records import Changes, DialogLine, LineChanges, Owner, ThreadKey

_ANA = Owner(user_id="ana")
_STANDING = (
    "I live at number {n} of the Rua das Flores in Porto.",
    "I love book {n} of the series.",
    "My sister Leila has {n} goats.",
    "I work at Studio {n}, mostly on Mondays.",
    "Always cite source {n} when I ask about laws.",
)
_PASSING = (
    "Can you summarise chapter {n} for me?",
    "What is the square root of {n}?",
    "The function in line {n} fails with a KeyError, and I can't see why.",
    "Thanks, that helped.",
    "Write a short note to the landlord about flat {n}, please.",
    "If I had {n} euros I would buy a boat.",
    "She said that she lives in flat {n}.",
    "How many words does paragraph {n} have, and which is the longest?",
    "Ok, and the second one?",
)


class LineFeed:
    """A log's lines, made up as they are read; nothing but lines can be read from it."""

    def __init__(self, lines: int) -> None:
        self._lines = lines

    def changes(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        raise NotImplementedError

    def line_changes(
        self, owner: Owner, cursor: int = 0, *, limit: int | None = None
    ) -> LineChanges:
        del owner
        end = min(self._lines, cursor + (limit or self._lines))
        lines = tuple(self._make_line(number) for number in range(cursor, end))
        return LineChanges(lines, (), end, 0, is_last=end == self._lines)

    def _make_line(self, number: int) -> DialogLine:
        kinds = _STANDING if number % 10 == 0 else _PASSING
        text = kinds[number // 10 % len(kinds)].format(n=number)
        return DialogLine(
            line_id=f"m{number}",
            key=ThreadKey("ana", f"t{number // 100}"),
            position=number + 1,
            part=0,
            speaker="User",
            text=text,
            time_ms=1_700_000_000_000 + number * 60_000,
            session=None,
            role="user",
            entry_id=f"e{number}",
        )


def measure_lines(lines: int) -> dict[str, float]:
    """Return how long the first profile takes, and what it keeps."""
    reader = ProfileReader(LineFeed(lines))  # type: ignore[arg-type]
    tracemalloc.start()
    started = time.perf_counter()
    profile = run_sync(reader.read_steps(_ANA)).profile
    took = time.perf_counter() - started
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {
        "lines": lines,
        "microseconds a line": round(took / lines * 1e6, 1),
        "items": len(profile.items),
        "megabytes kept": round(kept / 1e6, 1),
    }


def measure_turns(folder: Path, turns: int) -> dict[str, float]:
    """Return the median of what the profile adds to a warm turn, and of a turn without it."""
    with ConversationMemory.open(folder / "turns.db", embeddings=EmbeddedEmbeddings()) as memory:
        said = [HumanMessage(text.format(n=3)) for text in (*_STANDING, *_PASSING)]
        memory.add_messages(said, thread_id="earlier", user_id="ana")
        chain = memory.wrap(lambda _: AIMessage("Noted."), recall=False)
        times: dict[int, list[float]] = {0: [], 150: []}
        for number in range(turns):
            for tokens in (0, 150):
                config: RunnableConfig = {
                    "configurable": {
                        "user_id": "ana",
                        "thread_id": f"now{tokens}",
                        "memory": {"profile_tokens": tokens},
                    }
                }
                started = time.perf_counter()
                chain.invoke(_PASSING[number % len(_PASSING)].format(n=number), config)
                times[tokens].append((time.perf_counter() - started) * 1000)
        warm = {tokens: part[turns // 4 :] for tokens, part in times.items()}
        return {
            "turn without, ms": round(statistics.median(warm[0]), 2),
            "more with a profile, ms": round(
                statistics.median(
                    [more - less for more, less in zip(warm[150], warm[0], strict=True)]
                ),
                2,
            ),
        }


def measure_past(folder: Path, lines: int, rounds: int) -> dict[str, float]:
    """Return the median time of a recall, and of one as of the middle of the log."""
    with ConversationMemory.open(folder / "past.db", embeddings=EmbeddedEmbeddings()) as memory:
        texts = [(*_STANDING, *_PASSING)[n % 14].format(n=n) for n in range(lines)]
        entries = memory.add_messages(
            [HumanMessage(text) for text in texts], thread_id="t", user_id="ana"
        )
        past = memory.as_of(entries[lines // 2].id)
        times: dict[str, list[float]] = {"now": [], "then": []}
        for number in range(rounds + 1):
            for name, one in (("now", memory), ("then", past)):
                started = time.perf_counter()
                one.recall(f"Which book of the series do I love, {number}?", user_id="ana")
                times[name].append((time.perf_counter() - started) * 1000)
        now, then = (statistics.median(times[name][1:]) for name in ("now", "then"))
        return {
            "first, now, ms": round(times["now"][0], 1),
            "first, then, ms": round(times["then"][0], 1),
            "warm, now, ms": round(now, 2),
            "warm, then, ms": round(then, 2),
            "then / now": round(then / now, 2),
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks.profile_speed", description=__doc__)
    parser.add_argument("--lines", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--turns", type=int, default=100)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("turn", json.dumps(measure_turns(folder, options.turns)), flush=True)
        print("as_of", json.dumps(measure_past(folder, 2_000, 30)), flush=True)
    for lines in options.lines:
        print("profile", json.dumps(measure_lines(lines)), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
