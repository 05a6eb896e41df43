"""Memories to test wrapped chains with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

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
