from __future__ import annotations

import pytest


@pytest.fixture
def convmem(tmp_path, monkeypatch, capsys):
    """Run a command in an empty folder; the answer is code, stdout and stderr."""
    from langchain_convmem.cli import main

    monkeypatch.chdir(tmp_path)
    for name in ("CONVMEM_DB", "CONVMEM_USER", "CONVMEM_MODEL", "CONVMEM_EMBEDDINGS"):
        monkeypatch.delenv(name, raising=False)

    def run(*words):
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
