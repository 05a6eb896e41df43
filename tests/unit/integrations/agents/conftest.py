"""Memories and checkpointers to test agents with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from langchain_convmem import ConversationMemory


@pytest.fixture(params=["in memory", "in a file"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ConversationMemory]:
    """A memory of each kind."""
    place = ":memory:" if request.param == "in memory" else tmp_path / "memory.db"
    with ConversationMemory.open(place) as opened:
        yield opened


@pytest.fixture
def quick() -> Iterator[ConversationMemory]:
    """A memory for promises that do not depend on where entries are kept."""
    with ConversationMemory.open(":memory:") as opened:
        yield opened


@pytest.fixture(params=["in memory", "in a file"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A checkpointer of each kind."""
    if request.param == "in memory":
        yield InMemorySaver()
        return
    with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as opened:
        yield opened
