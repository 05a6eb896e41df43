"""An embedder for tests: no model, no files, equal vectors in every process."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from langchain_convmem.recall.encoders import LocalEmbeddings, LocalEncoder
from langchain_convmem.words.analysis import analyze

if TYPE_CHECKING:
    from langchain_convmem.recall.encoders import Array

_DIM = 256


class _HashNetwork:
    dim = _DIM

    def tokenize(self, text: str) -> list[int]:
        words = [int.from_bytes(_hash(word.encode(), 6)) for word in analyze(text) or text.split()]
        return [1, *words, 2]

    def embed(self, texts: Sequence[Sequence[int]]) -> Array:
        sums = np.array([sum(map(_make_vector, ids[1:-1])) for ids in texts], dtype=np.float32)
        unit: Array = sums / np.linalg.norm(sums, axis=1, keepdims=True).clip(1e-9)
        return unit


def _hash(data: bytes, size: int) -> bytes:
    return hashlib.blake2b(data, digest_size=size).digest()


@lru_cache(maxsize=4096)
def _make_vector(word: int) -> Array:
    """Return the vector of a word, of plus and minus ones; do not write."""
    bits = np.frombuffer(_hash(word.to_bytes(6), _DIM // 8), dtype=np.uint8)
    return np.unpackbits(bits).astype(np.float32) * 2 - 1


class HashEmbeddings(LocalEmbeddings):
    """Embeds by the words of a text alone: texts are as near as they share words. For tests.

    A vector has 256 components and unit length, and is the sum of one vector per word, made of the
    word's hash; a blank text has the zero vector. Words are folded and reduced to their
    stems. Thread-safe.

    `CONVMEM_EMBEDDER=hash` in the environment makes it the default, in child processes too.
    """

    fingerprint = "hash-1"
    encoder = LocalEncoder(_HashNetwork)
