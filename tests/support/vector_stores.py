"""Vector stores for tests, embedders whose vectors are known, and ways in which a store fails."""

from __future__ import annotations

import functools
import hashlib

import numpy as np
import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.messages import HumanMessage
from langchain_core.vectorstores import InMemoryVectorStore
from postgres_server import new_schema, running_server

from langchain_convmem.records import Draft, Metadata


class HashedEmbeddings(Embeddings):
    """Gives each text a vector that only its characters decide; counts what it was asked for."""

    def __init__(self, dim=16, model="hashed"):
        self.dim = dim
        self.model = f"{model}-{dim}"
        self.embedded = []

    def vector(self, text):
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        return np.random.default_rng(seed).normal(size=self.dim).tolist()

    def embed_documents(self, texts):
        self.embedded += texts
        return [self.vector(text) for text in texts]

    def embed_query(self, text):
        return self.vector(text)


class FlakyStore(InMemoryVectorStore):
    """Fails in the methods named by `broken`."""

    broken: frozenset[str] = frozenset()

    def _check(self, name):
        if name in self.broken:
            msg = f"{name} is out of order"
            raise OSError(msg)

    def add_documents(self, documents, ids=None, **kwargs):
        self._check("add")
        return super().add_documents(documents, ids, **kwargs)

    async def aadd_documents(self, documents, ids=None, **kwargs):
        self._check("add")
        return await super().aadd_documents(documents, ids, **kwargs)

    def delete(self, ids=None, **kwargs):
        self._check("delete")
        super().delete(ids, **kwargs)

    async def adelete(self, ids=None, **kwargs):
        self._check("delete")
        await super().adelete(ids, **kwargs)

    def similarity_search_with_score(self, query, k=4, **kwargs):
        self._check("search")
        return super().similarity_search_with_score(query, k, **kwargs)

    async def asimilarity_search_with_score(self, query, k=4, **kwargs):
        self._check("search")
        return await super().asimilarity_search_with_score(query, k, **kwargs)


def said(text, message_id=None, **fields):
    """Return a user's message as a draft, at a time that does not depend on the clock."""
    message = HumanMessage(text, id=message_id, **fields)
    timing = {"creation": 1_700_000_000_000}
    return Draft(role="user", message=message, contents=(text,), metadata=Metadata(timing=timing))


def in_memory(embeddings):
    """Return LangChain's store in memory."""
    return InMemoryVectorStore(embeddings)


def qdrant(embeddings):
    """Return a Qdrant collection inside this process."""
    pytest.importorskip("langchain_qdrant", reason="langchain-qdrant is not installed")
    from langchain_qdrant import QdrantVectorStore
    from qdrant_client import QdrantClient, models

    client = QdrantClient(location=":memory:")
    params = models.VectorParams(size=embeddings.dim, distance=models.Distance.COSINE)
    client.create_collection("lines", vectors_config=params)
    return QdrantVectorStore(client, "lines", embeddings)


def pgvector(embeddings):
    """Return a collection on the PostgreSQL server of this test run."""
    store_class = pytest.importorskip(
        "langchain_postgres", reason="langchain-postgres is not installed"
    ).PGVector
    return store_class(
        embeddings,
        connection=_engine(),
        collection_name=new_schema(),
        embedding_length=embeddings.dim,
        create_extension=False,
    )


@functools.cache
def _engine():
    """Return an engine on a schema of its own; skip where the server lacks the extension."""
    import sqlalchemy

    server = running_server()
    if not server.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"):
        pytest.skip("this PostgreSQL has no extension `vector`")
    server.execute("CREATE EXTENSION IF NOT EXISTS vector")
    schema = new_schema()
    server.execute(f"CREATE SCHEMA {schema}")
    url = sqlalchemy.URL.create(
        "postgresql+psycopg",
        username="postgres",
        database="postgres",
        query={"host": str(server.directory), "options": f"-csearch_path={schema},public"},
    )
    return sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
