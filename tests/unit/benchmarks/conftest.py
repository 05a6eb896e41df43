import pytest


@pytest.fixture(autouse=True)
def _from_the_root(from_the_root):
    return from_the_root
