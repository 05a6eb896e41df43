from __future__ import annotations

from collections.abc import Iterator

import pytest

from langchain_convmem import ConversationMemory


@pytest.fixture
def memory() -> Iterator[ConversationMemory]:
    """A memory; what depends on where entries are kept is the logs' own to test."""
    with ConversationMemory.open(":memory:") as opened:
        yield opened
