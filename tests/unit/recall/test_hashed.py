"""The embedder of tests: no model, the same vectors everywhere, near where words are shared."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from langchain_convmem.errors import ConfigError
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.recall import LineRecall, UniversalSentenceEmbeddings
from langchain_convmem.testing import HashEmbeddings


def test_texts_are_as_near_as_they_share_words():
    asked, near, far = np.array(
        HashEmbeddings().embed_documents(
            ["the red kettle boils", "our Red kettle leaks", "a ferry to Oslo"]
        )
    )
    assert near @ asked > 0.4
    assert abs(far @ asked) < 0.2


def test_another_process_makes_the_same_vectors():
    code = (
        "from langchain_convmem.testing import HashEmbeddings\n"
        "print(HashEmbeddings().embed_query('kettle'))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert run.stdout.strip() == str(HashEmbeddings().embed_query("kettle"))


def test_the_environment_names_the_default_embedder(monkeypatch):
    assert isinstance(LineRecall(InMemoryLog()).embeddings, HashEmbeddings)
    monkeypatch.delenv("CONVMEM_EMBEDDER")
    assert LineRecall(InMemoryLog()).embeddings == UniversalSentenceEmbeddings()
    monkeypatch.setenv("CONVMEM_EMBEDDER", "hush")
    with pytest.raises(ConfigError, match="CONVMEM_EMBEDDER must be hash or not set, got 'hush'"):
        LineRecall(InMemoryLog())
