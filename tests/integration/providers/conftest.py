"""Every scenario runs with the models of every provider, and reaches loopback alone."""

import time
from types import SimpleNamespace

import pytest
from wire_providers import PROVIDERS

from langchain_convmem import ConversationMemory


@pytest.fixture(autouse=True)
def _without_the_machine(monkeypatch):
    """No client waits before it tries again, or reads the settings of the machine."""
    # botocore reads no `Retry-After` and sleeps for up to a second before it tries again.
    clock = SimpleNamespace(sleep=lambda _: None, time=time.time)
    monkeypatch.setattr("botocore.endpoint.time", clock)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")


@pytest.fixture(params=PROVIDERS)
def provider(request):
    """A provider of chat models."""
    return PROVIDERS[request.param]


@pytest.fixture
def memory():
    """A memory with nothing in it."""
    with ConversationMemory.open(":memory:") as opened:
        yield opened
