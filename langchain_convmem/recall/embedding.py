"""The embedded embedder, and stable names for any embedder.

The weights are two data files of the `wordllama` wheel: a table of token vectors and a tokenizer.
No code of that package runs, since importing it configures the host's logging. May import nothing
of the package but `errors`.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import importlib.util
import json
import os
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from langchain_core.embeddings import Embeddings

from langchain_convmem.errors import MissingExtraError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tokenizers import Tokenizer


_WEIGHTS = "weights/l2_supercat_256.safetensors"


_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"


# What changes an embedder's vectors, over the field names of common integrations. Everything else
# (keys, endpoints, timeouts) must stay out: a fingerprint is stored and printed.
_MODEL_FIELDS = ("model", "model_name", "model_id", "repo_id", "deployment", "azure_deployment")


_SHAPE_FIELDS = ("dimensions", "dimension", "size", "truncate_dim", "output_dimensionality")


# Of so many words the tokens are kept: about 6 MB. Of letters alone, since numbers, addresses and
# keys hardly come again, and nothing should hold them that outlives their lines.
_WORDS = 20_000


_PLAIN_WORD = re.compile(r"[^\W\d_]{1,40}[.,;:!?]?")


# The tokenizer's own blank, and what its special tokens begin with: where one of them is said, a
# token may reach across words.
_BLANK, _SPECIAL = "\u2581", "<"


class _StaticModel:
    """Token vectors and tokenizer; immutable after loading, so any thread may use it."""

    def __init__(self, table: NDArray[np.float32], tokenizer: Tokenizer) -> None:
        self._table = table
        self._tokenizer = tokenizer
        self._ids_of_word = lru_cache(maxsize=_WORDS)(self._encoded)
        self.dim = int(table.shape[1])

    def vector(self, text: str) -> NDArray[np.float32]:
        ids = self._token_ids(text)
        if not ids:
            return np.zeros(self.dim, dtype=np.float32)
        # Rows are summed one after the other in float32, as the reference does: pairwise or
        # float64 sums differ in the last bit and would give another vector for the same text.
        total: NDArray[np.float32] = np.add.reduce(self._table.take(ids, axis=0), axis=0)
        return total / np.float32(len(ids))

    def _token_ids(self, text: str) -> list[int]:
        """Return the tokens of a text, those of most texts word by word.

        No token reaches across a single blank, and words repeat where texts do not.
        """
        text = encodable(text)
        words = text.split(" ")
        if _BLANK in text or _SPECIAL in text or not all(words):
            return self._encoded(text)
        ids: list[int] = []
        for word in words:
            is_plain = _PLAIN_WORD.fullmatch(word) is not None
            ids += self._ids_of_word(word) if is_plain else self._encoded(word)
        return ids

    def _encoded(self, text: str) -> list[int]:
        # One text at a time: the tokenizer's batch call starts a thread pool, which warns and
        # switches itself off in every process forked later.
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        last = len(self._table) - 1
        return ids if not ids or max(ids) <= last else [min(i, last) for i in ids]


def encodable(text: str) -> str:
    """Return the text with `?` for lone surrogates, which no tokenizer and no network takes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


class _Lazy:
    """Loads model and fingerprint at most once per process; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._model: _StaticModel | None = None
        self._fingerprint: str | None = None

    def model(self) -> _StaticModel:
        with self._lock:
            if self._model is None:
                self._model = _load_model()
            return self._model

    def fingerprint(self) -> str:
        with self._lock:
            if self._fingerprint is None:
                self._fingerprint = _hash_files()
            return self._fingerprint


def _data_files() -> tuple[Path, Path]:
    spec = importlib.util.find_spec("wordllama")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        files = (Path(place) / _WEIGHTS, Path(place) / _TOKENIZER)
        if all(file.is_file() for file in files):
            return files
    msg = (
        "the embedded embedder reads its weights from the 'wordllama' wheel, which is missing or "
        f"incomplete (looked for {_WEIGHTS} and {_TOKENIZER}). "
        "Install it with: pip install 'wordllama>=0.3.9,<0.5'"
    )
    raise MissingExtraError(msg)


def _load_model() -> _StaticModel:
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    weights, tokenizer_file = _data_files()
    (table,) = load_file(weights).values()
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return _StaticModel(np.ascontiguousarray(table, dtype=np.float32), tokenizer)


def _hash_files() -> str:
    digest = hashlib.sha256()
    for file in _data_files():
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return f"embedded-{digest.hexdigest()[:32]}"


_SHARED = _Lazy()


class EmbeddedEmbeddings(Embeddings):
    """Static English-centred embeddings that need no key, no network and no server.

    A text's vector is the float32 mean of its tokens' vectors (256 components, not unit length);
    a text without tokens has the zero vector. The files are read on first use, once per process.
    Thread-safe; pickles without the weights. Nearly blind in Chinese, Japanese and Korean.
    """

    trusted_spread = 0.4
    """How far from equal (1 less their cosine) texts near to the same question are to it.

    Recall trusts it less where they look more alike, as in languages that it does not know.
    """

    @property
    def fingerprint(self) -> str:
        """Hash of both data files: equal fingerprints mean equal vectors."""
        return _SHARED.fingerprint()

    @property
    def dim(self) -> int:
        """Components of a vector."""
        return _SHARED.model().dim

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text, in order."""
        vector = _SHARED.model().vector
        return [vector(text).tolist() for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of `text`; queries and documents are embedded alike."""
        vector: list[float] = self.embed_query_array(text).tolist()
        return vector

    def embed_query_array(self, text: str) -> NDArray[np.float32]:
        """Return what `embed_query` does as an array of shape (`dim`,)."""
        return _SHARED.model().vector(text)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text, without blocking the event loop."""
        return await in_worker(partial(self.embed_documents, texts))

    async def aembed_query(self, text: str) -> list[float]:
        """Return the vector of a question, without blocking the event loop."""
        return await in_worker(partial(self.embed_query, text))

    def __repr__(self) -> str:
        return "EmbeddedEmbeddings()"

    def __eq__(self, other: object) -> bool:
        """All instances embed alike."""
        return isinstance(other, EmbeddedEmbeddings)

    def __hash__(self) -> int:
        return hash(EmbeddedEmbeddings)


def costs_nothing(embeddings: Embeddings) -> bool:
    """Return whether texts may be embedded again at will: no money, no network, no third party."""
    return isinstance(embeddings, EmbeddedEmbeddings)


def fingerprint_of(embeddings: Embeddings) -> str:
    """Return a stable name for what `embeddings` computes.

    Its own `fingerprint` where it has one, else its class, its model and whatever sets the number
    of components. Keys, endpoints and other settings never enter.
    """
    own = getattr(embeddings, "fingerprint", None)
    if isinstance(own, str) and own:
        return own
    cls = type(embeddings)
    named: dict[str, Any] = {}
    for name in (*_MODEL_FIELDS, *_SHAPE_FIELDS):
        value = getattr(embeddings, name, None)
        if isinstance(value, str | int) and not isinstance(value, bool):
            named[name] = value
    return f"{cls.__module__}.{cls.__qualname__}{json.dumps(named, sort_keys=True)}"


# -- Worker threads for recalls that an event loop waits for --------------------------------------


T = TypeVar("T")


_WORKERS = 4


class _Pool:
    """The process's workers; a forked child gets its own, since threads do not survive a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = 0
        self._executor: ThreadPoolExecutor | None = None

    def executor(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._executor is None or self._pid != os.getpid():
                self._executor = ThreadPoolExecutor(_WORKERS, thread_name_prefix="convmem-recall")
                self._pid = os.getpid()
            return self._executor


_POOL = _Pool()


if hasattr(os, "register_at_fork"):
    # The lock may be held by another thread of the parent at the moment of the fork.
    os.register_at_fork(after_in_child=_POOL.__init__)  # type: ignore[misc]


async def in_worker(call: Callable[[], T]) -> T:
    """Return what the call returns, made in a worker with the caller's context variables."""
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_POOL.executor(), partial(context.run, call))
