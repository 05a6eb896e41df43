import pytest

from langchain_convmem.logs import SQLiteLog


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.db"


@pytest.fixture
def log(path):
    with SQLiteLog(path) as opened:
        yield opened
