from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _from_the_root(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))
