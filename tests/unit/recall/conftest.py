"""Dialogues and embedders for the tests of recall."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.records import DialogLine, ThreadKey
from langchain_convmem.views.codec import draft_of

MINUTE_MS = 60_000
START_MS = 1_700_000_000_000


class WordEmbeddings(Embeddings):
    """A text's vector counts its words in 16 buckets; can be told to fail. Counts its work."""

    fingerprint = "words-16"

    def __init__(self):
        self.failing = None
        self.embedded = []
        self.asked = []

    def embed_documents(self, texts):
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


def make_line(text, number=0, *, thread="t", user="ana", speaker="Ana", session=None, time_ms=None):
    return DialogLine(
        line_id=f"{thread}-{number}",
        key=ThreadKey(user, thread),
        position=number + 1,
        part=0,
        speaker=speaker,
        text=text,
        time_ms=START_MS + number * MINUTE_MS if time_ms is None else time_ms,
        session=session,
        role="user",
        entry_id=f"e-{thread}-{number}",
    )


def append_lines(log, texts, *, thread="t", user="ana", speakers=("Ana", "Bo"), session=None):
    drafts = []
    for number, text in enumerate(texts):
        extra = {"timestamp": START_MS + number * MINUTE_MS}
        if session is not None:
            extra["session"] = session
        kind = HumanMessage if number % 2 == 0 else AIMessage
        name = speakers[number % len(speakers)]
        drafts.append(draft_of(kind(content=text, name=name, additional_kwargs=extra)))
    return log.append(ThreadKey(user, thread), drafts)


@pytest.fixture(scope="session")
def line():
    return make_line


@pytest.fixture(scope="session")
def say():
    return append_lines


@pytest.fixture(scope="session")
def word_embeddings():
    return WordEmbeddings


@pytest.fixture
def log():
    return InMemoryLog()


@pytest.fixture
def embedder():
    return WordEmbeddings()
