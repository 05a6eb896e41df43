"""What is compared: our recall, and what people would use instead, on the same embedder."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from itertools import count, groupby
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore

from benchmarks.recall.data import Line
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.recall import LineRecall, MiniLMEmbeddings, UniversalSentenceEmbeddings
from langchain_convmem.recall.embedding import compute_fingerprint
from langchain_convmem.records import Owner, ThreadKey
from langchain_convmem.views.codec import make_draft

CHARS_PER_TOKEN = 4
"""Budgets are lengths here, so that figures compare with those of any system and any release."""
DAY_MS = 24 * 3_600_000
_CHUNK_CHARS = 1000
_MOST = 50
"""How many results a peer is asked for; they are cut where the budget ends."""
_OWNER = Owner(user_id="ana")
_SPACE = ("memories", "ana")
_numbers = count()


class System(Protocol):
    def write(self, lines: Sequence[Line]) -> None:
        """Store lines of a user, so that they are found at once."""
        ...

    def find(self, question: str, max_tokens: int, /) -> Sequence[str]:
        """Return the texts that a model would read, best first, as many as there are."""
        ...


EMBEDDERS = {"default": UniversalSentenceEmbeddings, "minilm": MiniLMEmbeddings}
"""`default`: the one that the package brings; `minilm`: its all-MiniLM-L6-v2."""


class CachingEmbeddings(Embeddings):
    """Embeds each text once for as long as the process lives."""

    def __init__(self, inner: Embeddings) -> None:
        self.fingerprint = compute_fingerprint(inner)
        self._inner = inner
        # As float32, since a list of Python floats takes eight times the memory.
        self._vectors: dict[str, bytes] = {}

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        missing = list(dict.fromkeys(text for text in texts if text not in self._vectors))
        vectors = self._inner.embed_documents(missing) if missing else []
        for text, vector in zip(missing, vectors, strict=True):
            self._vectors[text] = np.array(vector, dtype=np.float32).tobytes()
        return [np.frombuffer(self._vectors[text], np.float32).tolist() for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


def count_characters(text: str) -> int:
    """Return the length of a text in tokens of four characters."""
    return -(-len(text) // CHARS_PER_TOKEN)


class Recaller:
    """Our recall over a log in memory, asked a day after the last line.

    A threshold of -1.0 is the plain ranking; None what a turn of a wrapped chain gets, which
    abstains where nothing is related.
    """

    def __init__(self, embeddings: Embeddings, threshold: float | None = None) -> None:
        self._log = InMemoryLog()
        self._recall = LineRecall(self._log, embeddings).bind(count_text=count_characters)
        self._threshold = threshold
        self._now_ms = 0

    def write(self, lines: Sequence[Line]) -> None:
        for thread, part in groupby(lines, key=lambda line: line.thread):
            drafts = [make_draft(line.to_message()) for line in part]
            self._log.append(ThreadKey(_OWNER.user_id, thread), drafts)
        self._recall.refresh(_OWNER)
        said = max(datetime.fromisoformat(line.time).timestamp() for line in lines)
        self._now_ms = max(self._now_ms, int(said * 1000) + DAY_MS)

    def find(self, question: str, max_tokens: int) -> Sequence[str]:
        found = self._recall.recall(
            _OWNER,
            question,
            max_tokens=max_tokens,
            threshold=self._threshold,
            now_ms=self._now_ms,
        )
        return [block.text for block in found.blocks]


def _make_store(embeddings: Embeddings, field: str) -> Any:
    size = len(embeddings.embed_query("dimension"))
    index = {"dims": size, "embed": embeddings, "fields": [field]}
    return import_module("langgraph.store.memory").InMemoryStore(index=index)


class StoreSystem:
    """An item for each line, in LangGraph's store in memory."""

    def __init__(self, embeddings: Embeddings, _folder: Path) -> None:
        self._store = _make_store(embeddings, "text")

    def write(self, lines: Sequence[Line]) -> None:
        for line in lines:
            self._store.put(_SPACE, line.id, {"text": line.labelled})

    def find(self, question: str, _max_tokens: int) -> Sequence[str]:
        found = self._store.search(_SPACE, query=question, limit=_MOST)
        return [item.value["text"] for item in found]


class LangMem:
    """A memory for each line by langmem's two tools; the store behind them is LangGraph's."""

    def __init__(self, embeddings: Embeddings, _folder: Path) -> None:
        store = _make_store(embeddings, "content")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            langmem = import_module("langmem")
        self._manage = langmem.create_manage_memory_tool(_SPACE, store=store)
        form = "content_and_artifact"
        self._search = langmem.create_search_memory_tool(_SPACE, store=store, response_format=form)

    def write(self, lines: Sequence[Line]) -> None:
        for line in lines:
            self._manage.invoke({"action": "create", "content": line.labelled})

    def find(self, question: str, _max_tokens: int) -> Sequence[str]:
        words = {"query": question, "limit": _MOST}
        call = {"type": "tool_call", "id": "1", "name": self._search.name, "args": words}
        # What the model reads is JSON with keys and times; their memories alone are counted here.
        return [item.value["content"] for item in self._search.invoke(call).artifact]


def _list_lines(lines: Sequence[Line]) -> list[str]:
    return [line.labelled for line in lines]


def _list_chunks(lines: Sequence[Line]) -> list[str]:
    """Return chunks of 1,000 characters of each thread, as LangChain's splitter makes them."""
    splitters = import_module("langchain_text_splitters")
    splitter = splitters.RecursiveCharacterTextSplitter(chunk_size=_CHUNK_CHARS, chunk_overlap=0)
    threads = groupby(lines, key=lambda line: line.thread)
    joined = ["\n".join(_list_lines(list(part))) for _, part in threads]
    return [chunk for text in joined for chunk in splitter.split_text(text)]


def _make_faiss(embeddings: Embeddings) -> VectorStore:
    faiss = import_module("faiss")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stores = import_module("langchain_community.vectorstores")
        docstores = import_module("langchain_community.docstore.in_memory")
    index = faiss.IndexFlatL2(len(embeddings.embed_query("dimension")))
    made: VectorStore = stores.FAISS(embeddings, index, docstores.InMemoryDocstore(), {})
    return made


def _make_chroma(embeddings: Embeddings) -> VectorStore:
    chromadb, langchain_chroma = map(import_module, ("chromadb", "langchain_chroma"))
    client = chromadb.EphemeralClient(chromadb.Settings(anonymized_telemetry=False))
    space = {"hnsw:space": "cosine"}
    made: VectorStore = langchain_chroma.Chroma(
        f"lines-{next(_numbers)}", embeddings, client=client, collection_metadata=space
    )
    return made


class Retrieved:
    """A retriever of LangChain over texts, of one vector store or of that and BM25."""

    def __init__(
        self,
        store: VectorStore,
        split: Callable[[Sequence[Line]], list[str]] = _list_lines,
        *,
        with_words: bool = False,
    ) -> None:
        self._store = store
        self._split = split
        self._with_words = with_words
        self._retriever: BaseRetriever = store.as_retriever(search_kwargs={"k": _MOST})

    def write(self, lines: Sequence[Line]) -> None:
        texts = self._split(lines)
        self._store.add_texts(texts)
        if self._with_words:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                classic = import_module("langchain_classic.retrievers")
                community = import_module("langchain_community.retrievers")
            words = community.BM25Retriever.from_texts(texts, k=_MOST)
            both = [words, self._retriever]
            self._retriever = classic.EnsembleRetriever(retrievers=both, weights=[0.5, 0.5])

    def find(self, question: str, _max_tokens: int) -> Sequence[str]:
        found: list[Document] = self._retriever.invoke(question)
        return [document.page_content for document in found]


class Mem0:
    """mem0 with Qdrant in a folder, its default; no model reads the messages."""

    def __init__(self, embeddings: Embeddings, folder: Path) -> None:
        os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder)}
        size = len(embeddings.embed_query("dimension"))
        own = folder / str(next(_numbers))
        store = {"path": str(own), "embedding_model_dims": size, "on_disk": True}
        model = FakeListChatModel(responses=["{}"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._memory = import_module("mem0").Memory.from_config(
                {
                    "vector_store": {"provider": "qdrant", "config": store},
                    "embedder": {"provider": "langchain", "config": {"model": embeddings}},
                    "llm": {"provider": "langchain", "config": {"model": model}},
                    "history_db_path": str(folder / f"{own.name}.db"),
                }
            )

    def write(self, lines: Sequence[Line]) -> None:
        for line in lines:
            said = [{"role": line.role or "user", "content": line.labelled}]
            self._memory.add(said, user_id=_OWNER.user_id, infer=False)

    def find(self, question: str, _max_tokens: int) -> Sequence[str]:
        own = {"user_id": _OWNER.user_id}
        found = self._memory.search(question, filters=own, top_k=_MOST, threshold=0.0)
        return [one["memory"] for one in found["results"]]


class Entry(NamedTuple):
    """A system of the tables.

    Attributes:
        make: Makes an empty one; the folder is for its files.
        packages: What has to be installed for it.
        at_once: Whether it is built of all lines and takes no line after that.
    """

    make: Callable[[Embeddings, Path], System]
    packages: tuple[str, ...] = ()
    at_once: bool = False


_MODULES = {"faiss-cpu": "faiss", "mem0ai": "mem0"}
_FAISS = ("langchain-community", "faiss-cpu")
_CHUNKS = (*_FAISS, "langchain-text-splitters")
_WORDS = (*_CHUNKS, "langchain-classic", "rank-bm25")

SYSTEMS = {
    "convmem_default": Entry(lambda embeddings, _: Recaller(embeddings)),
    "convmem": Entry(lambda embeddings, _: Recaller(embeddings, -1.0)),
    "ensemble_lines": Entry(
        lambda embeddings, _: Retrieved(_make_faiss(embeddings), with_words=True), _WORDS, True
    ),
    "ensemble_chunks": Entry(
        lambda embeddings, _: Retrieved(_make_faiss(embeddings), _list_chunks, with_words=True),
        _WORDS,
        True,
    ),
    "faiss_lines": Entry(lambda embeddings, _: Retrieved(_make_faiss(embeddings)), _FAISS),
    "faiss_chunks": Entry(
        lambda embeddings, _: Retrieved(_make_faiss(embeddings), _list_chunks), _CHUNKS, True
    ),
    "chroma": Entry(
        lambda embeddings, _: Retrieved(_make_chroma(embeddings)), ("langchain-chroma", "chromadb")
    ),
    "store": Entry(StoreSystem, ("langgraph",)),
    "langmem": Entry(LangMem, ("langmem", "langgraph")),
    "mem0": Entry(Mem0, ("mem0ai", "qdrant-client")),
}
PACKAGES = tuple(dict.fromkeys(name for entry in SYSTEMS.values() for name in entry.packages))


def list_missing(entry: Entry) -> list[str]:
    """Return the packages of a system that are not installed."""
    modules = {name: _MODULES.get(name, name.replace("-", "_")) for name in entry.packages}
    return [name for name, module in modules.items() if find_spec(module) is None]
