"""A memory of another version of this package, asked in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from benchmarks.personal.data import Thread
    from benchmarks.personal.memories import Answer

__all__ = ["OtherMemory"]

_DAY_MS = 24 * 3_600_000


class OtherMemory:
    """What `PersonalMemory` is, on the static embedder of another version; close it."""

    def __init__(self, checkout: Path, user_id: str, threads: Sequence[Thread]) -> None:
        """Store threads and index them.

        Args:
            checkout: A folder that holds the other version.
            user_id: Whose they are.
            threads: What was said.
        """
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            env={**os.environ, "PYTHONPATH": str(checkout.resolve())},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._asking = cast("IO[str]", self._process.stdin)
        self._answers = cast("IO[str]", self._process.stdout)
        said = {
            thread.name: [[one.role, one.text, one.time_ms] for one in thread.messages]
            for thread in threads
        }
        self._send({"user_id": user_id, "threads": said})

    def ask(self, question: str, **options: Any) -> Answer:
        """Return what a recall finds in a new thread, a day after the last line."""
        from benchmarks.personal.memories import Answer

        self._send({"question": question, "options": options})
        blocks, verdict = json.loads(self._answers.readline())
        return Answer(tuple(blocks), verdict)

    def close(self) -> None:
        """End the process."""
        self._asking.close()
        self._answers.close()
        self._process.wait()

    def _send(self, value: Any) -> None:
        print(json.dumps(value), file=self._asking, flush=True)


# -- the other process, which finds the other version's modules ---------------------------------


def serve() -> None:
    """Build the memory that the first line holds, and answer each later one."""
    from langchain_core.messages import AIMessage, HumanMessage

    from langchain_convmem import ConversationMemory
    from langchain_convmem.records import Owner, ThreadKey

    given = json.loads(sys.stdin.readline())
    user_id = given["user_id"]
    memory: Any = ConversationMemory.open(":memory:")
    last_ms = 0
    for name, said in given["threads"].items():
        messages = []
        for role, text, time_ms in said:
            kind = AIMessage if role == "assistant" else HumanMessage
            stamp = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat()
            messages.append(kind(text, additional_kwargs={"timestamp": stamp}))
            last_ms = max(last_ms, time_ms)
        memory.add_messages(messages, thread_id=name, user_id=user_id)
    memory.refresh(user_id=user_id)
    if hasattr(memory, "line_recall"):  # an older version
        engine = memory.line_recall
    else:
        from langchain_convmem.turns.memory import get_turn_memory

        engine = get_turn_memory(memory).line_recall
    for line in sys.stdin:
        asked = json.loads(line)
        found = engine.recall(
            Owner(user_id=user_id),
            asked["question"],
            buffer=ThreadKey(user_id, "asked-now"),
            remember=False,
            now_ms=last_ms + _DAY_MS,
            **asked["options"],
        )
        verdict = getattr(found, "verdict", None)
        print(json.dumps([[block.text for block in found.blocks], verdict]), flush=True)


if __name__ == "__main__":
    serve()
