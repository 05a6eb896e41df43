"""The systems: ours, the yardstick, and others that search the same vectors."""

from __future__ import annotations

import operator
import warnings
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from langchain_core.embeddings import Embeddings
from langchain_core.messages import HumanMessage
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from benchmarks.rounds import Thunk
from benchmarks.synthetic_dialogue import threads
from langchain_convmem import SQLiteLog, UniversalSentenceEmbeddings
from langchain_convmem.recall import LineRecall
from langchain_convmem.records import Owner, ThreadKey
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.lines import Recall

if TYPE_CHECKING:
    from numpy.typing import NDArray


YARDSTICK = "numpy"
_K = 20
_OWNER = Owner(user_id="ana")
_BATCH = 5_000


class System(Protocol):
    def ask(self, question: str) -> object:
        """Search for what answers a question."""
        ...

    def add(self, text: str) -> Thunk:
        """Return the call that makes one more line findable."""
        ...


class Replayed(Embeddings):
    """Gives known texts the vectors they have; embeds all others."""

    def __init__(self, vectors: dict[str, list[float]]) -> None:
        self._vectors = vectors
        self._embeddings = UniversalSentenceEmbeddings()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self._vectors.get(text) or self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self._embeddings.embed_query(text)


class ConvMem:
    """Our recall, as an application without a chain would call it."""

    def __init__(self, path: Path) -> None:
        self._log = SQLiteLog(path)
        self._recall = LineRecall(self._log, UniversalSentenceEmbeddings())

    def fill(self, lines: int) -> list[str]:
        texts: list[str] = []
        for number, messages in enumerate(threads(lines)):
            drafts = [make_draft(message) for message in messages]
            self._log.append(ThreadKey(_OWNER.user_id, f"t{number}"), drafts, durable=False)
            texts += [str(message.content) for message in messages]
        self._recall.refresh(_OWNER)
        return texts

    def ask(self, question: str) -> Recall:
        return self._recall.recall(_OWNER, question)

    def add(self, text: str) -> Thunk:
        self._log.append(ThreadKey(_OWNER.user_id, "late"), [make_draft(HumanMessage(text))])
        return partial(self._recall.refresh, _OWNER)

    def close(self) -> None:
        self._log.close()


class NumPyScan:
    def __init__(self, texts: Sequence[str], embeddings: Embeddings) -> None:
        rows = np.array(embeddings.embed_documents(list(texts)), dtype=np.float32)
        self._rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        self._embeddings = embeddings
        self._queries: dict[str, NDArray[np.float32]] = {}

    def prepare(self, question: str) -> None:
        query = self._embeddings.embed_query(question)
        self._queries[question] = np.array(query, dtype=np.float32)

    def ask(self, question: str) -> NDArray[np.intp]:
        scores = self._rows @ self._queries[question]
        best = np.argpartition(scores, -_K)[-_K:]
        return best[np.argsort(-scores[best])]

    def add(self, text: str) -> Thunk:
        row = np.array([self._embeddings.embed_query(text)], dtype=np.float32)
        return lambda: np.concatenate([self._rows, row])


class PythonScan:
    """What a dialog-line memory without libraries does."""

    def __init__(self, texts: Sequence[str], embeddings: Embeddings) -> None:
        self._embeddings = embeddings
        self._rows = [self._unit(row) for row in embeddings.embed_documents(list(texts))]

    @staticmethod
    def _unit(row: Sequence[float]) -> array[float]:
        length = sum(map(operator.mul, row, row)) ** 0.5 or 1.0
        return array("f", (part / length for part in row))

    def ask(self, question: str) -> None:
        query = self._unit(self._embeddings.embed_query(question))
        scores = [sum(map(operator.mul, row, query)) for row in self._rows]
        sorted(range(len(scores)), key=scores.__getitem__, reverse=True)[:3]

    def add(self, text: str) -> Thunk:
        return lambda: self._rows.append(self._unit(self._embeddings.embed_query(text)))


class Store:
    """Any LangChain vector store."""

    def __init__(self, store: VectorStore, texts: Sequence[str]) -> None:
        self._store = store
        for start in range(0, len(texts), _BATCH):
            store.add_texts(list(texts[start : start + _BATCH]))

    def ask(self, question: str) -> None:
        self._store.similarity_search(question, k=_K)

    def add(self, text: str) -> Thunk:
        return partial(self._store.add_texts, [text])


def _chroma(texts: Sequence[str], embeddings: Embeddings) -> System:
    chromadb, langchain_chroma = map(import_module, ("chromadb", "langchain_chroma"))
    client = chromadb.EphemeralClient(chromadb.Settings(anonymized_telemetry=False))
    space = {"hnsw:space": "cosine"}
    name = f"lines-{len(texts)}"
    make = langchain_chroma.Chroma
    return Store(make(name, embeddings, client=client, collection_metadata=space), texts)


def _qdrant(texts: Sequence[str], embeddings: Embeddings) -> System:
    qdrant_client, langchain_qdrant = map(import_module, ("qdrant_client", "langchain_qdrant"))
    # It says that local mode is meant for less than 20,000 points.
    warnings.filterwarnings("ignore", module="qdrant_client|langchain_qdrant")
    client, models = qdrant_client.QdrantClient(":memory:"), qdrant_client.models
    size = len(embeddings.embed_query("dimension"))
    space = models.VectorParams(size=size, distance=models.Distance.COSINE)
    client.create_collection("lines", space)
    return Store(langchain_qdrant.QdrantVectorStore(client, "lines", embeddings), texts)


PEERS: dict[str, Callable[[Sequence[str], Embeddings], System]] = {
    "python": PythonScan,
    "in-memory": lambda texts, embeddings: Store(InMemoryVectorStore(embeddings), texts),
    "chroma": _chroma,
    "qdrant": _qdrant,
}
SYSTEMS = ("convmem", *PEERS, YARDSTICK)
