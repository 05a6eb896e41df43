from __future__ import annotations

from collections.abc import Iterator

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langchain_convmem import ConversationMemory


@pytest.fixture
def memory() -> Iterator[ConversationMemory]:
    """A memory; what depends on where entries are kept is the logs' own to test."""
    with ConversationMemory.open(":memory:") as opened:
        yield opened


@pytest.fixture
def saver() -> InMemorySaver:
    """A checkpointer, which reads back no type but what LangGraph holds for safe."""
    return InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=None))
