import pytest


@pytest.fixture
def db(tmp_path):
    """Where a command keeps its database, if it is not told otherwise."""
    return tmp_path / "memory.db"


@pytest.fixture
def convmem(tmp_path, monkeypatch, capsys):
    """Run a command in an empty folder; the answer is code, stdout and stderr."""
    from langchain_convmem.cli import main

    monkeypatch.chdir(tmp_path)

    def run(*words):
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
