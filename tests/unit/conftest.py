from pathlib import Path

import pytest

from langchain_convmem import ConversationMemory, InMemoryLog


@pytest.fixture
def memory():
    """A memory; what depends on where entries are kept is the logs' own to test."""
    with ConversationMemory.open(":memory:") as opened:
        yield opened


@pytest.fixture
def log():
    with InMemoryLog() as opened:
        yield opened


@pytest.fixture
def from_the_root(monkeypatch):
    """Let a test import the packages that stand beside this one, such as `tests.fuzz`."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
