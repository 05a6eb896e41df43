"""Every scenario runs with the models of every provider, and reaches loopback alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from wire_providers import PROVIDERS, Provider

from langchain_convmem import ConversationMemory


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Provider:
    """A provider whose client neither waits nor reads the settings of the machine."""
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    return PROVIDERS[request.param]


@pytest.fixture
def memory() -> Iterator[ConversationMemory]:
    """A memory with nothing in it."""
    with ConversationMemory.open(":memory:") as opened:
        yield opened
