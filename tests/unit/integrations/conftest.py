from __future__ import annotations

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer


@pytest.fixture
def saver() -> InMemorySaver:
    """A checkpointer, which reads back no type but what LangGraph holds for safe."""
    return InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=None))
