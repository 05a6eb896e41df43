"""Embedders without a model: like a service, held or failing, and one that counts words."""

from __future__ import annotations

import threading
import zlib

import numpy as np
from langchain_core.embeddings import Embeddings

from langchain_convmem.testing import HashEmbeddings


class WatchedEmbedder(Embeddings):
    """Notes what it embeds, and can be told to wait before it embeds lines, or to fail."""

    fingerprint = "watched-1"
    embeds_alike = True

    def __init__(self):
        self.embedded = []
        self.asked = []
        self.failing = None
        self.is_reached = threading.Event()
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def embed_documents(self, texts):
        """Embed lines."""
        self.is_reached.set()
        assert self.may_go_on.wait(60)
        if self.failing is not None:
            raise self.failing
        self.embedded += texts
        return HashEmbeddings().embed_documents(texts)

    def embed_query(self, text):
        """Embed a question."""
        self.asked.append(text)
        return HashEmbeddings().embed_query(text)

    def hold(self):
        """Have lines wait from now on."""
        self.is_reached.clear()
        self.may_go_on.clear()

    def go_on(self):
        """Let them go on."""
        self.may_go_on.set()


class WordEmbeddings(Embeddings):
    """A text's vector counts its words in 16 buckets; can be told to fail. Counts its work."""

    fingerprint = "words-16"

    def __init__(self):
        self.failing = None
        self.embedded = []
        self.asked = []
        self.calls = 0

    def embed_documents(self, texts):
        self.calls += 1
        if self.failing is not None:
            raise self.failing
        self.embedded += texts
        return [self._vector(text) for text in texts]

    def embed_query(self, text):
        if self.failing is not None:
            raise self.failing
        self.asked.append(text)
        return self._vector(text)

    def _vector(self, text):
        vector = np.zeros(16)
        for word in text.lower().split():
            vector[zlib.crc32(word.encode()) % 16] += 1
        return vector.tolist()
