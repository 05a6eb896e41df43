"""What holds for every test: no network, no keys, no settings of the machine it runs on."""

from __future__ import annotations

import gc
import itertools
import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import postgres_server
import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from browser import Browser

# A busy machine is no defect. The same examples in every run: `make fuzz` looks for new ones.
settings.register_profile("house", deadline=None, derandomize=True)
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


_EMBEDDER = "CONVMEM_EMBEDDER"
_KEPT = {"CONVMEM_CACHE"}
"""Where the model's weights are unpacked: once for all runs."""

_TESTS_BETWEEN = 200
_FINISHED = itertools.count(1)


def pytest_configure() -> None:
    """Let Ctrl-C reach the processes of tests, also where a script runs them in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Forget the settings of the machine, and let the garbage collector forget what it collected.

    Looking through thousands of tests again and again took minutes. Most tests are not about
    meaning: their embedder, and that of the processes they start, has no model.
    """
    for name in [name for name in os.environ if name.startswith(_FOREIGN) and name not in _KEPT]:
        del os.environ[name]
    os.environ[_EMBEDDER] = "hash"
    gc.collect()
    gc.freeze()


def pytest_runtest_logfinish() -> None:
    """Let it do so again now and then: what tests import is looked through, too, ever after."""
    if next(_FINISHED) % _TESTS_BETWEEN == 0:
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def model_if_marked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the default embedder be the model for tests that are marked so, as they need meaning."""
    if request.node.get_closest_marker("encoder") is not None:
        monkeypatch.delenv(_EMBEDDER)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Yield a headless Chromium for the tests of a module, which are marked `browser`."""
    from browser import open_browser

    with open_browser() as running:
        yield running


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests marked `sockets` reach loopback, and nothing else."""
    for item in items:
        if item.get_closest_marker("sockets") is not None:
            item.add_marker(pytest.mark.allow_hosts(["127.0.0.1", "::1"]))


@pytest.fixture(scope="module")
def server():
    return postgres_server.running_server()


@pytest.fixture
def schema():
    return postgres_server.new_schema()
