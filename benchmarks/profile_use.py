"""What a model gets with the profile on: facts of `benchmarks.personal`, and labelled dialogues.

    python -m benchmarks.profile_use [--embedder static|auto] [--tokens 150] [--dialogues DIR]

For each fact of the five people of `benchmarks/data/personal` (among the ordinary exchanges that
fill their memory to 125 user messages) both questions are asked in a new thread: found is whether
the words of the fact stand in what recall returns within 1,000 tokens, and with the profile, there
or in the block. With `--dialogues`, a folder of dialogues by role with questions
(`benchmarks.recall`), the share of questions of which a piece of 60 characters of an evidence line
stands there.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from benchmarks.personal.data import FOLDER, load_ordinary, load_people
from benchmarks.personal.memories import fill_threads
from benchmarks.recall.measuring import fold_spaces, mean
from langchain_convmem import ConversationMemory
from langchain_convmem.effects import run_sync
from langchain_convmem.profile.profile import format_items, select_items
from langchain_convmem.profile.reader import ProfileReader
from langchain_convmem.recall.embedding import EmbeddedEmbeddings, Embedder
from langchain_convmem.records import Owner
from langchain_convmem.transfer.source import parse_time
from langchain_convmem.views.tokens import count_text_tokens

_SIZE = 125
_BUDGET = 1_000
_DAY_MS = 24 * 3_600_000
_PIECE = 60


class AskedMemory:
    """A memory of one user, a day after the last message."""

    def __init__(self, embeddings: Embedder, tokens: int) -> None:
        self._memory = ConversationMemory.open(":memory:", embeddings=embeddings)
        self._tokens = tokens
        self._last_ms = 0
        self.block = ""

    def add(self, thread: str, messages: Iterable[tuple[str, str, int]]) -> None:
        """Store messages: role, text and time."""
        said: list[BaseMessage] = []
        for role, text, time_ms in messages:
            self._last_ms = max(self._last_ms, time_ms)
            marks = {"timestamp": time_ms}
            if role == "user":
                said.append(HumanMessage(text, additional_kwargs=marks))
            else:
                said.append(AIMessage(text, additional_kwargs=marks))
        self._memory.add_messages(said, thread_id=thread, user_id="u")

    def prepare(self) -> None:
        """Make the block as a new thread gets it."""
        reader = ProfileReader(self._memory.log, now_ms=self._last_ms + _DAY_MS)
        profile = run_sync(reader.read_steps(Owner(user_id="u"))).profile
        self.block = format_items(select_items(profile, self._tokens))

    def ask(self, question: str) -> str:
        """Return what recall finds in a default turn."""
        found = self._memory.line_recall.recall(
            Owner(user_id="u"), question, max_tokens=_BUDGET, now_ms=self._last_ms + _DAY_MS
        )
        return "\n".join(block.text for block in found.blocks)


def measure_people(embeddings: Embedder, tokens: int) -> dict[str, Any]:
    """Return by kind of fact what is found without and with the profile, and the block's size."""
    found: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    sizes = []
    ordinary = load_ordinary(FOLDER)
    for person in load_people(FOLDER):
        memory = AskedMemory(embeddings, tokens)
        for thread in fill_threads(person, _SIZE, ordinary) or ():
            memory.add(thread.name, ((one.role, one.text, one.time_ms) for one in thread.messages))
        memory.prepare()
        sizes.append(count_text_tokens(memory.block))
        data = json.loads((FOLDER / f"{person.name}.json").read_text("utf-8"))
        for fact in data["facts"]:
            says = fold_spaces(fact["says"])
            in_block = _is_told(says, fold_spaces(memory.block))
            for question in (fact["word"], fact["other"]):
                recalled = says in fold_spaces(memory.ask(question))
                found[fact["kind"]].append((recalled, recalled or in_block))
    report: dict[str, Any] = {
        kind: _make_pair(part) for kind, part in sorted(found.items(), key=lambda one: one[0])
    }
    report["all"] = _make_pair([one for part in found.values() for one in part])
    report["block tokens, at most"] = max(sizes)
    return report


def _is_told(says: str, block: str) -> bool:
    """Return whether a block tells a fact: its words, or the sentence of them that stands there."""
    if says in block:
        return True
    quotes = [part.partition('" (')[0] for part in block.split('- "')[1:]]
    return any(len(quote) > 12 and quote.strip(" .!") in says for quote in quotes)


def _make_pair(part: Sequence[tuple[bool, bool]]) -> dict[str, float]:
    return {
        "recall": round(mean([one for one, _ in part]), 3),
        "with profile": round(mean([one for _, one in part]), 3),
        "questions": len(part),
    }


def measure_dialogues(folder: Path, embeddings: Embedder, tokens: int) -> dict[str, Any]:
    """Return by category of question what is touched without and with the profile."""
    found: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    sizes = []
    for path in sorted(folder.glob("*.json")):
        data = json.loads(path.read_text("utf-8"))
        texts = {row["id"]: row["text"] for row in data["lines"]}
        memory = AskedMemory(embeddings, tokens)
        threads: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
        for row in data["lines"]:
            role: Literal["user", "assistant"] = "user" if row["speaker"] == "User" else "assistant"
            time_ms = int(parse_time(row["time"]).timestamp() * 1000)
            threads[f"s{row['session']}"].append((role, row["text"], time_ms))
        for name, messages in threads.items():
            memory.add(name, messages)
        memory.prepare()
        sizes.append(count_text_tokens(memory.block))
        block = fold_spaces(memory.block)
        for question in data["questions"]:
            if not question["evidence"]:
                continue
            pieces = {
                piece for one in question["evidence"] for piece in _cut(fold_spaces(texts[one]))
            }
            recalled = fold_spaces(memory.ask(question["question"]))
            in_recall = any(piece in recalled for piece in pieces)
            told = in_recall or any(piece in block for piece in pieces)
            found[question["category"]].append((in_recall, told))
    report: dict[str, Any] = {kind: _make_pair(part) for kind, part in sorted(found.items())}
    report["block tokens, at most"] = max(sizes, default=0)
    return report


def _cut(text: str) -> list[str]:
    """Return the pieces of a line; a shorter line is one."""
    last = max(len(text) - _PIECE, 0)
    return [text[start : start + _PIECE] for start in range(0, last + 1, 10)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks.profile_use", description=__doc__)
    parser.add_argument("--embedder", choices=("static", "auto"), default="static")
    parser.add_argument("--tokens", type=int, default=150)
    parser.add_argument("--dialogues", type=Path, metavar="DIR")
    options = parser.parse_args(arguments)
    embeddings: Embedder = EmbeddedEmbeddings() if options.embedder == "static" else "auto"
    if options.dialogues is None:
        report = measure_people(embeddings, options.tokens)
    else:
        report = measure_dialogues(options.dialogues, embeddings, options.tokens)
    for name, row in report.items():
        print(f"{name:28}", json.dumps(row))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
