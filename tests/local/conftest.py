from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from tests.support.tiny_model import tiny_model, tiny_tokenizer


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark these tests, and skip them where they cannot run."""
    missing = [name for name in ("torch", "transformers") if not importlib.util.find_spec(name)]
    for item in items:
        if "tests/local/" in item.path.as_posix():
            item.add_marker(pytest.mark.local)
            # torch and transformers warn of what does not concern us, and differently each time.
            item.add_marker(pytest.mark.filterwarnings("ignore"))
            if missing:
                reason = f"no {' and no '.join(missing)} here; see CONTRIBUTING.md"
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    """The tokenizer of all tests."""
    return tiny_tokenizer()


@pytest.fixture(scope="session")
def model(tokenizer: Any) -> Any:
    """The model that most tests share; it is never trained."""
    import torch

    # So small a model is slower with several, which wait for each other.
    torch.set_num_threads(1)
    return tiny_model(tokenizer)
