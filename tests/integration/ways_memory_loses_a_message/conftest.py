"""A memory in a file, and how to say what its log holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from langchain_convmem import ConversationMemory
from langchain_convmem.records import Entry


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[ConversationMemory]:
    """A memory in a file, as most applications begin with."""
    with ConversationMemory.open(tmp_path / "memory.db") as opened:
        yield opened


@pytest.fixture
def logged() -> Callable[[ConversationMemory], list[str]]:
    """Return all that the log holds of the thread, in the order in which it was written."""

    def lines(memory: ConversationMemory) -> list[str]:
        return [_line(entry) for entry in memory.history("t", user_id="ana").entries]

    return lines


def _line(entry: Entry) -> str:
    if entry.control is not None:
        return f"{entry.control.reason}: {len(entry.control.retracts)}"
    calls = [str(call["id"]) for call in getattr(entry.message, "tool_calls", ())]
    said = f"-> {' '.join(calls)}" if calls else " | ".join(entry.contents)
    marks = "".join(f" [{mark}]" for mark in entry.metadata.attributes)
    return f"{entry.role}{marks}: {said}"
