"""What holds for every test: no network, no keys, no settings of the machine it runs on."""

from __future__ import annotations

import gc
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("house", deadline=None)  # a busy machine is no defect
settings.load_profile("house")
settings.register_profile(
    "fuzz",
    max_examples=int(os.environ.get("CONVMEM_FUZZ", "2000")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

_FOREIGN = (
    "ANTHROPIC_",
    "AWS_",
    "AZURE_",
    "CONVMEM_",
    "GOOGLE_",
    "HF_",
    "LANGCHAIN_",
    "LANGSMITH_",
    "OPENAI_",
    "PG",
)
"""Beginnings of environment variables that would let a test reach a provider or a tracer."""


def pytest_configure() -> None:
    """Let Ctrl-C reach the processes of tests, also where a script runs them in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Let the garbage collector forget thousands of tests: looking through them took minutes."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests marked `sockets` reach loopback, and nothing else."""
    for item in items:
        if item.get_closest_marker("sockets") is not None:
            item.add_marker(pytest.mark.allow_hosts(["127.0.0.1", "::1"]))


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(_FOREIGN):
            monkeypatch.delenv(name)
