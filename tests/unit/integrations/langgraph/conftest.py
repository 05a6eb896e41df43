"""Memories, checkpointers and small graphs to test the nodes with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from langchain_convmem import ConversationMemory

pytest.importorskip("langgraph.checkpoint.sqlite")


@pytest.fixture
def memory() -> Iterator[ConversationMemory]:
    """A memory; what depends on where entries are kept is the logs' own to test."""
    with ConversationMemory.open(":memory:") as opened:
        yield opened


@pytest.fixture
def filed(tmp_path: Path) -> Iterator[ConversationMemory]:
    """A memory in a file."""
    with ConversationMemory.open(tmp_path / "memory.db") as opened:
        yield opened


@pytest.fixture
def saver() -> Any:
    """A checkpointer, which reads back no type but what LangGraph holds for safe."""
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    return InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=None))
