"""How one kind of vector store is asked: its filter, and what its scores mean."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_core.documents import Document
    from langchain_core.vectorstores import VectorStore

__all__ = ["StoreDialect", "dialect_of"]

Equal = Mapping[str, str]


def _plain(equal: Equal) -> dict[str, Any]:
    return {"filter": dict(equal)}


@dataclass(frozen=True, slots=True)
class StoreDialect:
    """What differs between vector stores behind one interface.

    Attributes:
        filtered: From the metadata that documents must equal to the keyword arguments of a search
            that finds no others. By default `filter={name: value}`.
        cosine: From the score of a search to the cosine similarity; None where a score is none,
            as in a hybrid search. Then the order of the store counts and nothing else of it.
    """

    filtered: Callable[[Equal], Mapping[str, Any]] = _plain
    cosine: Callable[[float], float] | None = None


def dialect_of(store: VectorStore) -> StoreDialect:
    """Return the dialect of a store: of one that is known, else the plain one.

    Known are LangChain's `InMemoryVectorStore`, `QdrantVectorStore` and `PGVector`.
    """
    kinds = {kind.__name__ for kind in type(store).__mro__}
    if "InMemoryVectorStore" in kinds:
        return StoreDialect(_by_function, _same)
    if "QdrantVectorStore" in kinds:
        return _qdrant(store)
    if "PGVector" in kinds:
        return _pgvector(store)
    return StoreDialect()


def _same(score: float) -> float:
    return score


def _by_function(equal: Equal) -> dict[str, Any]:
    def matches(document: Document) -> bool:
        return all(document.metadata.get(name) == value for name, value in equal.items())

    return {"filter": matches}


def _qdrant(store: Any) -> StoreDialect:
    models = importlib.import_module("qdrant_client.models")

    def filtered(equal: Equal) -> dict[str, Any]:
        conditions = [
            models.FieldCondition(
                key=f"{store.metadata_payload_key}.{name}", match=models.MatchValue(value=value)
            )
            for name, value in equal.items()
        ]
        return {"filter": models.Filter(must=conditions)}

    is_cosine = store.distance == models.Distance.COSINE
    is_dense = getattr(store.retrieval_mode, "value", store.retrieval_mode) == "dense"
    return StoreDialect(filtered, _same if is_cosine and is_dense else None)


def _pgvector(store: Any) -> StoreDialect:
    # The public property gives an SQL comparator, which does not tell its kind.
    strategy = getattr(store, "_distance_strategy", None)
    is_cosine = getattr(strategy, "value", strategy) == "cosine"
    return StoreDialect(_by_operators, _from_distance if is_cosine else None)


def _by_operators(equal: Equal) -> dict[str, Any]:
    return {"filter": {name: {"$eq": value} for name, value in equal.items()}}


def _from_distance(distance: float) -> float:
    return 1.0 - distance
