"""How stores are asked: filters, scores, and which of their methods an event loop waits for."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from vector_stores import HashedEmbeddings, said

from langchain_convmem.integrations import StoreDialect, VectorStoreRecall
from langchain_convmem.integrations.vector_store_sync import dialect_of
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.records import Owner, ThreadKey

EQUAL = {"owner": "user:ana", "thread_id": "t"}


def test_a_store_in_memory_filters_by_function_and_scores_by_cosine():
    dialect = dialect_of(InMemoryVectorStore(HashedEmbeddings()))
    matches = dialect.filtered(EQUAL)["filter"]
    assert matches(Document("x", metadata={**EQUAL, "part": 0}))
    assert not matches(Document("x", metadata={**EQUAL, "thread_id": "u"}))
    assert not matches(Document("x"))
    assert dialect.cosine(0.25) == 0.25


class PGVector(SimpleNamespace):
    """Named as the real one, since stores are told apart without importing them."""


@pytest.mark.parametrize(
    ("strategy", "cosine"), [("cosine", 0.75), ("l2", None)], ids=["cosine", "euclidean"]
)
def test_a_distance_of_pgvector_is_a_cosine_only_if_it_was_measured_so(strategy, cosine):
    dialect = dialect_of(PGVector(_distance_strategy=strategy))
    assert dialect.filtered({"owner": "user:ana"}) == {"filter": {"owner": {"$eq": "user:ana"}}}
    assert (dialect.cosine and dialect.cosine(0.25)) == cosine


@pytest.mark.parametrize(
    ("distance", "mode", "is_cosine"),
    [("Cosine", "dense", True), ("Dot", "dense", False), ("Cosine", "hybrid", False)],
    ids=["cosine", "dot", "hybrid"],
)
def test_a_score_of_qdrant_is_a_cosine_only_in_a_dense_search_by_cosine(distance, mode, is_cosine):
    models = pytest.importorskip("qdrant_client.models", reason="qdrant-client is not installed")
    kind = type("QdrantVectorStore", (SimpleNamespace,), {})
    dialect = dialect_of(
        kind(distance=models.Distance(distance), retrieval_mode=mode, metadata_payload_key="meta")
    )
    must = dialect.filtered(EQUAL)["filter"].must
    asked = [(condition.key, condition.match.value) for condition in must]
    assert asked == [("meta.owner", "user:ana"), ("meta.thread_id", "t")]
    assert (dialect.cosine is not None) == is_cosine


def test_a_store_that_nobody_knows_is_asked_by_equality_and_believed_in_its_order_alone():
    dialect = dialect_of(SimpleNamespace())
    assert dialect.filtered(EQUAL) == {"filter": EQUAL}
    assert dialect.cosine is None


class _SynchronousStore(VectorStore):
    """A store without asynchronous methods; notes which threads call it."""

    def __init__(self) -> None:
        self.inner = InMemoryVectorStore(HashedEmbeddings())
        self.threads: set[str] = set()

    @property
    def embeddings(self):
        return self.inner.embeddings

    @classmethod
    def from_texts(cls, texts, embedding, metadatas=None, **kwargs):
        raise NotImplementedError

    def _note(self) -> None:
        self.threads.add(threading.current_thread().name.rpartition("_")[0])

    def add_documents(self, documents, **kwargs):
        self._note()
        return self.inner.add_documents(documents, **kwargs)

    def similarity_search(self, query, k=4, **kwargs):
        raise NotImplementedError

    def similarity_search_with_score(self, query, k=4, **kwargs):
        self._note()
        return self.inner.similarity_search_with_score(query, k, **kwargs)


async def test_a_store_without_asynchronous_methods_is_called_in_workers_of_recall():
    log, store = InMemoryLog(), _SynchronousStore()
    log.append(ThreadKey("ana", "t"), [said("one")])
    by_owner = StoreDialect(
        lambda equal: {"filter": lambda d: equal.items() <= d.metadata.items()}, lambda score: score
    )
    recall = VectorStoreRecall(log, store, dialect=by_owner)
    answer = await recall.arecall(Owner(user_id="ana"), "one")
    assert [match.line.text for match in answer.matches] == ["one"]
    assert store.threads == {"convmem-recall"}
