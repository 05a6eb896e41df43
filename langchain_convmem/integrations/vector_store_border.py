"""The border to a vector store: what it raises is an error of ours, what it says is weighed.

A store is somebody else's code, with an embedder inside, often behind a network.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.vectorstores import VectorStore

from langchain_convmem.errors import ConfigError, LineStoreError
from langchain_convmem.integrations.vector_store_dialects import StoreDialect
from langchain_convmem.integrations.vector_store_rows import OWNER, THREAD
from langchain_convmem.recall.workers import in_worker
from langchain_convmem.steps import Step, Steps

if TYPE_CHECKING:
    from langchain_core.documents import Document

__all__ = ["Found", "StoreBorder"]

_BATCH = 256

_ASYNC_FORMS = {
    "add_documents": ("aadd_documents", "aadd_texts"),
    "delete": ("adelete",),
    "similarity_search_with_score": ("asimilarity_search_with_score",),
}
"""Which methods a store overrides if it has an asynchronous form of its own."""


class Found(NamedTuple):
    """A segment that a store proposes, and the score it gave."""

    entry_id: str
    position: int
    part: int
    segment: int
    score: float


class StoreBorder:
    """Writes to a vector store and searches it; as thread-safe as the store."""

    def __init__(self, store: VectorStore, dialect: StoreDialect) -> None:
        """Use a store; nothing is sent yet."""
        self._store = store
        self._dialect = dialect

    def upsert(self, documents: Sequence[Document]) -> Steps[None]:
        """Write documents under their ids, over those that are there."""
        for start in range(0, len(documents), _BATCH):
            batch = list(documents[start : start + _BATCH])
            ids = [document.id for document in batch]
            yield from self._call("lines could not be stored", "add_documents", batch, ids=ids)

    def delete(self, ids: Sequence[str]) -> Steps[None]:
        """Delete documents; those that are not there are skipped."""
        for start in range(0, len(ids), _BATCH):
            batch = list(ids[start : start + _BATCH])
            yield from self._call("lines could not be deleted", "delete", batch)

    def search(self, text: str, k: int, owner: str, thread: str | None) -> Steps[list[Found]]:
        """Return the k nearest segments of an owner, nearest first; fewer where there are fewer.

        Raises:
            LineStoreError: If the store cannot be searched.
            ConfigError: If it answers with documents that the filter excludes.
        """
        equal = {OWNER: owner} if thread is None else {OWNER: owner, THREAD: thread}
        answer = yield from self._call(
            "lines could not be searched",
            "similarity_search_with_score",
            text,
            k=k,
            **self._dialect.filtered(equal),
        )
        for document, _ in answer:
            if any(document.metadata.get(name) != value for name, value in equal.items()):
                self._refuse(equal)
        found = (_found(document, score) for document, score in answer)
        return [one for one in found if one is not None]

    def _refuse(self, equal: dict[str, str]) -> None:
        msg = (
            f"{type(self._store).__name__} answered with documents beside the filter {equal!r}: "
            "pass a StoreDialect whose `filtered` gives the arguments that this store filters by"
        )
        raise ConfigError(msg)

    def _call(self, what: str, name: str, *args: Any, **kwargs: Any) -> Steps[Any]:
        call = partial(getattr(self._store, name), *args, **kwargs)
        acall = partial(in_worker, call)
        if self._is_async(name):
            acall = partial(getattr(self._store, "a" + name), *args, **kwargs)
        try:
            return (yield Step(call, acall))
        except Exception as error:
            msg = f"{what}: {type(self._store).__name__}: {type(error).__name__}: {error}"
            raise LineStoreError(msg) from error

    def _is_async(self, name: str) -> bool:
        declared = getattr(self._store, "async_mode", None)
        if isinstance(declared, bool):
            return declared
        # LangChain's own twins take the loop's executor, which may be full of turns that wait.
        return any(
            getattr(type(self._store), form) is not getattr(VectorStore, form)
            for form in _ASYNC_FORMS[name]
        )


def _found(document: Document, score: Any) -> Found | None:
    """Return what a document says; None if it says nothing that can be followed."""
    said = document.metadata
    try:
        position, part, segment = (int(said[name]) for name in ("position", "part", "segment"))
        found = Found(str(said["entry_id"]), position, part, segment, float(score))
    except (KeyError, TypeError, ValueError):
        return None
    return found if math.isfinite(found.score) else None
