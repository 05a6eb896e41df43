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


def _strict() -> Any:
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    return JsonPlusSerializer(allowed_msgpack_modules=None)


@pytest.fixture(params=["in memory", "in a file"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A checkpointer of each kind, which reads back no type but what LangGraph holds for safe."""
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.checkpoint.sqlite import SqliteSaver

    if request.param == "in memory":
        yield InMemorySaver(serde=_strict())
    else:
        with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as opened:
            opened.serde = _strict()
            yield opened


@pytest.fixture
def kept() -> Any:
    """A checkpointer for promises that do not depend on where checkpoints are kept."""
    from langgraph.checkpoint.memory import InMemorySaver

    return InMemorySaver(serde=_strict())
