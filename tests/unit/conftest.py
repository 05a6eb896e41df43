import pytest

from langchain_convmem import ConversationMemory


@pytest.fixture
def memory():
    """A memory; what depends on where entries are kept is the logs' own to test."""
    with ConversationMemory.open(":memory:") as opened:
        yield opened
